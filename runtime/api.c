/* api.c -- the public calls: arguments are checked, the work is done by make, call, launch and empty.
 *
 * Every failure keeps its sentence for the calling thread. Invariant of fatune_run: it reads the plan and the
 * arguments and writes its own stack; the context that was current stays current. */
#include "call.h"
#include "detail.h"
#include "empty.h"
#include "make.h"

#include <stdio.h>
#include <string.h>

/* Sizes of the first version of each struct: its last member then, and what is behind it. */
#define THROUGH(type, last) (offsetof(type, last) + sizeof((type *)0)->last)
enum {
  OPTIONS_LEAST = THROUGH(fatune_options, system_database),
  REQUEST_LEAST = THROUGH(fatune_request, flags),
  TENSORS_LEAST = THROUGH(fatune_tensors, reserved)
};

static fatune_status say(fat_status status, const fat_error *err)
{
  return status == FAT_OK ? FATUNE_OK : fat_detail_keep(status, err->text);
}

const char *fatune_version(void)
{
  return FATUNE_VERSION;
}

int fatune_abi_version(void)
{
  return FATUNE_ABI_VERSION;
}

fatune_status fatune_open(const fatune_options *options, fatune **handle)
{
  fat_error err;
  err.text[0] = 0;
  if (!handle)
    return say(fat_status_fail(&err, FAT_E_INPUT, "fatune_open: the place for the handle is NULL"), &err);
  *handle = NULL;
  fatune_options own;
  fat_status status =
      options ? fat_call_struct("fatune_options", options, OPTIONS_LEAST, sizeof own, &own, &err) : FAT_OK;
  if (status == FAT_OK)
    status = fat_handle_open(options ? &own : NULL, handle, &err);
  return say(status, &err);
}

void fatune_close(fatune *handle)
{
  if (handle && fat_handle_check(handle, NULL) == FAT_OK)
    fat_handle_release(handle);
}

static fat_status read_request(const fatune *handle, const fatune_request *request, fatune_request *own,
                               fat_error *err)
{
  FAT_TRY(fat_handle_check(handle, err));
  if (!request)
    return fat_status_fail(err, FAT_E_INPUT, "the request is NULL");
  return fat_call_struct("fatune_request", request, REQUEST_LEAST, sizeof *own, own, err);
}

fatune_status fatune_plan_make(fatune *handle, const fatune_request *request, fatune_plan **plan)
{
  fat_error err;
  err.text[0] = 0;
  if (!plan)
    return say(fat_status_fail(&err, FAT_E_INPUT, "fatune_plan_make: the place for the plan is NULL"), &err);
  fatune_request own;
  *plan = NULL;
  fat_status status = read_request(handle, request, &own, &err);
  if (status == FAT_OK)
    status = fat_make_plan(handle, &own, plan, &err);
  return say(status, &err);
}

void fatune_plan_free(fatune_plan *plan)
{
  if (!plan || plan->forks != fat_handle_forks())
    return;
  fatune *handle = plan->handle;
  fat_make_release(plan);
  fat_handle_release(handle);
}

static fat_status check_plan(const fatune_plan *plan, fat_error *err)
{
  if (!plan)
    return fat_status_fail(err, FAT_E_INPUT, "the plan is NULL: it comes from fatune_plan_make");
  if (plan->forks != fat_handle_forks())
    return fat_status_fail(
        err, FAT_E_FORKED,
        "the plan was made before fork(): CUDA does not survive that; open and plan in the "
        "child");
  return FAT_OK;
}

fatune_status fatune_workspace(const fatune_plan *plan, size_t *bytes)
{
  fat_error err;
  err.text[0] = 0;
  fat_status status = check_plan(plan, &err);
  if (status == FAT_OK && !bytes)
    status = fat_status_fail(&err, FAT_E_INPUT, "fatune_workspace: the place for the size is NULL");
  if (status == FAT_OK)
    *bytes = (size_t)plan->workspace;
  return say(status, &err);
}

const char *fatune_describe(const fatune_plan *plan)
{
  return plan ? plan->text : "";
}

fatune_status fatune_why(fatune *handle, const fatune_request *request, char *text, size_t room)
{
  fat_error err;
  err.text[0] = 0;
  fat_text why = {0};
  fatune_request own;
  if (text && room > 0)
    *text = 0;
  fat_status status = read_request(handle, request, &own, &err);
  if (status == FAT_OK)
    status = fat_make_look(handle, &own, &why, &err);
  if (text && room > 0)
    snprintf(text, room, "%s", fat_text_get(&why));
  fat_text_free(&why);
  return say(status, &err);
}

fatune_status fatune_supported(fatune *handle, const fatune_request *request)
{
  return fatune_why(handle, request, NULL, 0);
}

static bool takes(const fat_launch *launch, unsigned alignment, const fat_call *args, uint64_t bits)
{
  return (bits & (alignment - 1)) == 0 && fat_launch_takes(launch, args);
}

/* Which kernel takes tensors with these low bits; NULL: none. */
static const fat_launch *launch_for(const fatune_plan *plan, const fat_call *args, uint64_t bits)
{
  if (takes(&plan->main, plan->alignment, args, bits))
    return &plan->main;
  return plan->twin_alignment && takes(&plan->twin, plan->twin_alignment, args, bits) ? &plan->twin : NULL;
}

static fat_status fail_to_choose(const fatune_plan *plan, uint64_t bits, fat_error *err)
{
  if ((bits & (plan->alignment - 1)) == 0)
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "a stride of a tensor is negative or reaches 2^40 bytes, and the plan has no "
                           "kernel for that: see fatune_describe for why it has none");
  return fat_status_fail(err, FAT_E_ALIGNMENT,
                         "a pointer or stride of a tensor is no multiple of %u bytes, and the plan has no "
                         "kernel for that: align the tensors, or see fatune_describe for why it has none",
                         plan->alignment);
}

static fat_status launch(const fatune_plan *plan, const fat_call *args, uint64_t bits, void *workspace,
                         void *stream, fat_error *err)
{
  const fat_driver *driver = plan->handle->driver;
  if (plan->problem.q == 0 || plan->problem.k == 0)
    return fat_empty_write(driver, &plan->problem, args, stream, err);
  const fat_launch *chosen = launch_for(plan, args, bits);
  if (!chosen)
    return fail_to_choose(plan, bits, err);
  if (chosen->workspace > 0 && !workspace)
    return fat_status_fail(err, FAT_E_INPUT, "the workspace is NULL: the plan needs %lld bytes",
                           (long long)plan->workspace);
  if ((uintptr_t)workspace % FAT_LAUNCH_ALIGN != 0 && chosen->workspace > 0)
    return fat_status_fail(err, FAT_E_ALIGNMENT, "the workspace does not begin at a multiple of %d bytes",
                           FAT_LAUNCH_ALIGN);
  return fat_launch_run(driver, chosen, args, (fat_cuda_address)(uintptr_t)workspace, stream, err);
}

/* The same in the plan's context where another one is current, or none. */
static fat_status launch_in_context(const fatune_plan *plan, const fat_call *args, uint64_t bits,
                                    void *workspace, void *stream, fat_error *err)
{
  const fat_driver *driver = plan->handle->driver;
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  void *current = NULL;
  int result = cuda->context_get(&current);
  if (result != FAT_CUDA_SUCCESS || current == plan->context.handle)
    return result == FAT_CUDA_SUCCESS ? launch(plan, args, bits, workspace, stream, err)
                                      : fat_driver_check(driver, "cuCtxGetCurrent", result, err);
  FAT_TRY(fat_driver_check(driver, "cuCtxPushCurrent", cuda->context_push(plan->context.handle), err));
  fat_status status = launch(plan, args, bits, workspace, stream, err);
  cuda->context_pop(&current);
  return status;
}

fatune_status fatune_run(const fatune_plan *plan, const fatune_tensors *tensors, void *workspace,
                         void *stream)
{
  fat_error err;
  err.text[0] = 0;
  fat_call args;
  fatune_tensors own;
  uint64_t bits;
  fat_status status = check_plan(plan, &err);
  if (status == FAT_OK && !tensors)
    status = fat_status_fail(&err, FAT_E_INPUT, "fatune_run: the tensors are NULL");
  if (status == FAT_OK)
    status = fat_call_struct("fatune_tensors", tensors, TENSORS_LEAST, sizeof own, &own, &err);
  if (status == FAT_OK)
    status = fat_call_fill(&plan->form, &plan->problem, &own, &args, &bits, &err);
  if (status == FAT_OK && plan->problem.b > 0)
    status = launch_in_context(plan, &args, bits, workspace, stream, &err);
  return say(status, &err);
}
