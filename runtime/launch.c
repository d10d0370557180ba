/* launch.c -- a recipe's numbers for a problem, and the steps that run with them.
 *
 * In: recipe, problem, module; then, call by call, tensors, a workspace and a stream. Out: queued work.
 * Invariant: a run reads the fat_launch and writes nothing but its own stack. */
#include "launch.h"

fat_status fat_launch_allows(const fat_driver *driver, const fat_recipe *recipe, fat_error *err)
{
  const char *mapped = fat_recipe_mapped(recipe), *clustered = fat_recipe_clustered(recipe);
  if (mapped && !fat_driver_maps(driver))
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "%s takes tensor maps, and this driver (for CUDA %s) makes none: a driver for "
                           "CUDA 12.0 or later is needed",
                           mapped, fat_driver_cuda_text(driver));
  if (clustered && !fat_driver_table(driver)->launch_with)
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "%s is launched in clusters, and this driver (for CUDA %s) has no call for that: "
                           "a driver for CUDA 11.8 or later is needed",
                           clustered, fat_driver_cuda_text(driver));
  return FAT_OK;
}

fat_status fat_launch_find(const fat_recipe *recipe, const fat_sizes *sizes, fat_module *module,
                           fat_entries *entries, fat_error *err)
{
  fat_step_values values;
  *entries = (fat_entries){0};
  FAT_TRY(fat_launch_allows(fat_module_driver(module), recipe, err));
  for (int i = 0; i < recipe->steps; i++) {
    if (recipe->step[i].kind != FAT_STEP_LAUNCH)
      continue;
    FAT_TRY(fat_recipe_step(recipe, i, sizes, &values, err));
    entries->shared[i] = values.shared;
    FAT_TRY(fat_module_entry(module, recipe->step[i].entry, values.shared, &entries->function[i], err));
  }
  return FAT_OK;
}

static fat_status evaluate_step(const fat_recipe *recipe, int index, const fat_entries *entries,
                                const fat_sizes *sizes, fat_launch *launch, fat_error *err)
{
  const fat_step *from = &recipe->step[index];
  fat_launch_step *step = &launch->step[index];
  fat_step_values values;
  FAT_TRY(fat_recipe_step(recipe, index, sizes, &values, err));
  step->kind = from->kind;
  step->offset = values.offset;
  step->bytes = values.bytes;
  step->args = from->args;
  if (from->kind == FAT_STEP_CLEAR)
    return FAT_OK;
  if (values.shared > entries->shared[index])
    return fat_status_fail(
        err, FAT_E_UNSUPPORTED,
        "%s would need %lld bytes of shared memory for these sizes, more than the %lld that "
        "it was loaded with: make a plan for them",
        from->entry, (long long)values.shared, (long long)entries->shared[index]);
  step->function = entries->function[index];
  step->grid = (unsigned)values.grid;
  step->block = (unsigned)values.block;
  step->shared = (unsigned)values.shared;
  step->cluster = (unsigned)values.cluster;
  step->heads = values.heads;
  step->overlap = from->overlap;
  for (int a = 0; a < from->args; a++) {
    const fat_tensor t = from->arg[a].tensor;
    step->arg[a].kind = from->arg[a].kind;
    step->arg[a].tensor = t;
    step->arg[a].value = values.arg[a];
    if (from->arg[a].kind != FAT_ARG_MAP || (launch->mapped >> t & 1u))
      continue;
    launch->mapped |= 1u << t;
    launch->shape[t] = fat_map_shape_of(&launch->problem, (int)t);
  }
  return FAT_OK;
}

fat_status fat_launch_evaluate(const fat_recipe *recipe, const fat_entries *entries,
                               const fat_problem *problem, const fat_call_layout *layout, int64_t sms,
                               fat_launch *launch, fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(problem, sms);
  launch->problem = *problem;
  launch->layout = *layout;
  launch->steps = recipe->steps;
  launch->mapped = 0;
  FAT_TRY(fat_recipe_valid(recipe, &sizes, err));
  FAT_TRY(fat_recipe_workspace(recipe, &sizes, &launch->workspace, err));
  for (int i = 0; i < recipe->steps; i++)
    FAT_TRY(evaluate_step(recipe, i, entries, &sizes, launch, err));
  return FAT_OK;
}

fat_status fat_launch_prepare(const fat_recipe *recipe, const fat_problem *problem, int64_t sms,
                              fat_module *module, fat_launch *launch, fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(problem, sms);
  fat_call_layout layout;
  fat_entries entries;
  fat_tensors_layout(problem, &layout);
  *launch = (fat_launch){0};
  FAT_TRY(fat_recipe_valid(recipe, &sizes, err));
  FAT_TRY(fat_launch_find(recipe, &sizes, module, &entries, err));
  return fat_launch_evaluate(recipe, &entries, problem, &layout, sms, launch, err);
}

bool fat_launch_takes(const fat_launch *launch, const fat_call *call)
{
  for (uint32_t left = launch->mapped; left; left &= left - 1) {
    const int t = __builtin_ctz(left);
    if (!launch->shape[t].spared && !fat_map_fits(&launch->shape[t], &call->tensor[t]))
      return false;
  }
  return true;
}

/* What all steps of a call share. */
typedef struct running {
  const fat_cuda_calls *cuda;
  const fat_launch *launch;
  const fat_call *call;
  fat_cuda_address workspace;
  void *stream;
  unsigned char *packed; /* the struct that kernels take */
  bool overlaps;
} running;

/* One call of the driver: its result, and its name for an error. */
typedef struct outcome {
  int result;
  const char *function;
} outcome;

/* With a cluster, or with leave to begin early. */
static outcome launch_with(const running *r, const fat_launch_step *step, void **argument)
{
  fat_cuda_attribute attribute[2];
  fat_cuda_launch with = {.grid = {step->grid, 1, 1},
                          .block = {step->block, 1, 1},
                          .shared = step->shared,
                          .stream = r->stream,
                          .attribute = attribute};
  if (step->cluster > 0)
    attribute[with.attributes++] =
        (fat_cuda_attribute){.id = FAT_CUDA_LAUNCH_CLUSTER, .value.cluster = {step->cluster, 1, 1}};
  if (step->overlap && r->overlaps)
    attribute[with.attributes++] = (fat_cuda_attribute){.id = FAT_CUDA_LAUNCH_OVERLAP, .value.overlap = 1};
  return (outcome){r->cuda->launch_with(&with, step->function, argument, NULL), "cuLaunchKernelEx"};
}

static outcome run_launch(const running *r, const fat_launch_step *step)
{
  union {
    _Alignas(FAT_CUDA_MAP_ALIGN) unsigned char map[FAT_CUDA_MAP_BYTES];
    fat_cuda_address address;
    int32_t number;
  } value[FAT_RECIPE_ARGS];
  void *argument[FAT_RECIPE_ARGS];
  for (int a = 0; a < step->args; a++) {
    const fat_arg_kind kind = step->arg[a].kind;
    const fat_tensor t = step->arg[a].tensor;
    argument[a] = kind == FAT_ARG_CALL ? (void *)r->packed : (void *)&value[a];
    if (kind == FAT_ARG_WS)
      value[a].address = r->workspace + (fat_cuda_address)step->arg[a].value;
    else if (kind == FAT_ARG_INT)
      value[a].number = (int32_t)step->arg[a].value;
    else if (kind == FAT_ARG_MAP) {
      const fat_map_box box = fat_map_box_of((int)t, step->arg[a].value, step->heads);
      int result = fat_map_encode(r->cuda, &r->launch->shape[t], &r->call->tensor[t], box, value[a].map);
      if (result != FAT_CUDA_SUCCESS)
        return (outcome){result, "cuTensorMapEncodeTiled"};
    }
  }
  if (step->cluster > 0 || (step->overlap && r->overlaps))
    return launch_with(r, step, argument);
  return (outcome){r->cuda->launch(step->function, step->grid, 1, 1, step->block, 1, 1, step->shared,
                                   r->stream, argument, NULL),
                   "cuLaunchKernel"};
}

static outcome run_step(const running *r, const fat_launch_step *step)
{
  bool clear = step->kind == FAT_STEP_CLEAR;
  if (clear ? step->bytes == 0 : step->grid == 0) /* a zero length */
    return (outcome){FAT_CUDA_SUCCESS, ""};
  if (clear)
    return (outcome){r->cuda->fill8_async(r->workspace + (fat_cuda_address)step->offset, 0,
                                          (size_t)step->bytes, r->stream),
                     "cuMemsetD8Async"};
  return run_launch(r, step);
}

fat_status fat_launch_run(const fat_driver *driver, const fat_launch *launch, const fat_call *call,
                          fat_cuda_address workspace, void *stream, fat_error *err)
{
  _Alignas(16) unsigned char packed[FAT_CALL_BYTES];
  const running r = {fat_driver_table(driver),   launch, call, workspace, stream, packed,
                     fat_driver_overlaps(driver)};
  fat_tensors_pack(&launch->layout, &launch->problem, call, packed);
  for (int i = 0; i < launch->steps; i++) {
    outcome o = run_step(&r, &launch->step[i]);
    if (o.result == FAT_CUDA_SUCCESS)
      continue;
    fat_error why = {0};
    fat_status status = fat_driver_check(driver, o.function, o.result, &why);
    return fat_status_fail(err, status, "step %d of %d: %s", i + 1, launch->steps, why.text);
  }
  return FAT_OK;
}
