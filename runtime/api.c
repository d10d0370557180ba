/* api.c -- the public calls: arguments are checked, the work is done by make and run.
 *
 * Every failure keeps its sentence for the calling thread. Invariant of fatune_run: beside its own stack it
 * writes no more than the answers that a family's plan keeps, as relaxed atomics; the context that was
 * current stays current. */
#include "call.h"
#include "detail.h"
#include "drop.h"
#include "make.h"
#include "run.h"

#include <stdio.h>
#include <string.h>

/* Sizes of the first version of each struct: its last member then, and what is behind it. */
#define THROUGH(type, last) (offsetof(type, last) + sizeof((type *)0)->last)
enum {
  OPTIONS_LEAST = THROUGH(fatune_options, system_database),
  REQUEST_LEAST = THROUGH(fatune_request, flags),
  SIZES_LEAST = THROUGH(fatune_sizes, chunk),
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

/* A request and what it points to, as this library knows them. */
typedef struct asked {
  fatune_request request;
  fatune_sizes sizes;
} asked;

static fat_status read_request(const fatune *handle, const fatune_request *request, asked *own,
                               fat_error *err)
{
  fatune_request *r = &own->request;
  FAT_TRY(fat_handle_check(handle, err));
  if (!request)
    return fat_status_fail(err, FAT_E_INPUT, "the request is NULL");
  FAT_TRY(fat_call_struct("fatune_request", request, REQUEST_LEAST, sizeof *r, r, err));
  if (r->sizes)
    FAT_TRY(fat_call_struct("fatune_sizes", r->sizes, SIZES_LEAST, sizeof own->sizes, &own->sizes, err));
  r->sizes = r->sizes ? &own->sizes : NULL;
  return FAT_OK;
}

fatune_status fatune_plan_make(fatune *handle, const fatune_request *request, fatune_plan **plan)
{
  fat_error err;
  err.text[0] = 0;
  if (!plan)
    return say(fat_status_fail(&err, FAT_E_INPUT, "fatune_plan_make: the place for the plan is NULL"), &err);
  asked own;
  *plan = NULL;
  fat_status status = read_request(handle, request, &own, &err);
  if (status == FAT_OK)
    status = fat_make_plan(handle, &own.request, plan, &err);
  return say(status, &err);
}

void fatune_plan_free(fatune_plan *plan)
{
  if (!plan || plan->forks != fat_handle_forks())
    return;
  fatune *handle = plan->handle;
  fat_plan_release(plan);
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

fatune_status fatune_workspace(const fatune_plan *plan, const fatune_sizes *sizes, size_t *bytes)
{
  fat_error err;
  err.text[0] = 0;
  fatune_sizes own;
  int64_t needed = 0;
  fat_status status = check_plan(plan, &err);
  if (status == FAT_OK && !bytes)
    status = fat_status_fail(&err, FAT_E_INPUT, "fatune_workspace: the place for the size is NULL");
  if (status == FAT_OK && sizes)
    status = fat_call_struct("fatune_sizes", sizes, SIZES_LEAST, sizeof own, &own, &err);
  if (status == FAT_OK)
    status = fat_run_workspace(plan, sizes ? &own : NULL, &needed, &err);
  if (status == FAT_OK)
    *bytes = (size_t)needed;
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
  asked own;
  if (text && room > 0)
    *text = 0;
  fat_status status = read_request(handle, request, &own, &err);
  if (status == FAT_OK)
    status = fat_make_look(handle, &own.request, &why, &err);
  if (text && room > 0)
    snprintf(text, room, "%s", fat_text_get(&why));
  fat_text_free(&why);
  return say(status, &err);
}

fatune_status fatune_supported(fatune *handle, const fatune_request *request)
{
  return fatune_why(handle, request, NULL, 0);
}

fatune_status fatune_run(const fatune_plan *plan, const fatune_tensors *tensors, const fatune_sizes *sizes,
                         void *workspace, void *stream)
{
  fat_error err;
  err.text[0] = 0;
  fatune_tensors own;
  fatune_sizes own_sizes;
  fat_status status = check_plan(plan, &err);
  if (status == FAT_OK && !tensors)
    status = fat_status_fail(&err, FAT_E_INPUT, "fatune_run: the tensors are NULL");
  if (status == FAT_OK)
    status = fat_call_struct("fatune_tensors", tensors, TENSORS_LEAST, sizeof own, &own, &err);
  if (status == FAT_OK && sizes)
    status = fat_call_struct("fatune_sizes", sizes, SIZES_LEAST, sizeof own_sizes, &own_sizes, &err);
  if (status == FAT_OK)
    status = fat_run_call(plan, &own, sizes ? &own_sizes : NULL, workspace, stream, &err);
  return say(status, &err);
}

fatune_status fatune_dropout_mask(uint64_t seed, uint64_t offset, float dropout, const fatune_sizes *sizes,
                                  uint8_t *mask)
{
  fat_error err;
  err.text[0] = 0;
  fatune_sizes own;
  if (!sizes || !mask)
    return say(fat_status_fail(&err, FAT_E_INPUT, "fatune_dropout_mask: %s NULL",
                               sizes ? "the mask is" : "the sizes are"),
               &err);
  fat_status status = fat_call_struct("fatune_sizes", sizes, SIZES_LEAST, sizeof own, &own, &err);
  if (status != FAT_OK)
    return say(status, &err);
  if (!(dropout >= 0 && dropout < 1)) /* nor NaN */
    return say(fat_status_fail(&err, FAT_E_INPUT, "dropout is %g, not from 0 to below 1", (double)dropout),
               &err);
  const int64_t each[] = {own.b, own.h, own.q, own.k};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++)
    if (each[i] < 0 || each[i] > FAT_PROBLEM_SIZE_MAX)
      return say(fat_status_fail(&err, FAT_E_INPUT, "b, h, q or k of the sizes is %lld, not from 0 to %lld",
                                 (long long)each[i], (long long)FAT_PROBLEM_SIZE_MAX),
                 &err);
  const fat_rng rng = {seed, offset};
  if (own.h > 0 && own.q > 0 && own.k > 0)
    for (int64_t head = 0; head < own.b * own.h; head++)
      for (int64_t i = 0; i < own.q; i++)
        for (int64_t j = 0; j < own.k; j++)
          *mask++ = fat_drop_keeps(&rng, dropout, head, i, j);
  return FATUNE_OK;
}
