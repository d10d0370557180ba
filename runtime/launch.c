/* launch.c -- freezes a recipe's numbers, and runs the frozen steps.
 *
 * In: recipe, problem, module; then, call by call, the struct of templates/lib/args.h, a workspace and a
 * stream. Out: queued work. Invariant: a run reads the fat_launch and writes nothing but its own stack. */
#include "launch.h"

static fat_status prepare_step(const fat_recipe *recipe, int index, const fat_sizes *sizes,
                               fat_module *module, fat_launch_step *step, fat_error *err)
{
  const fat_step *from = &recipe->step[index];
  fat_step_values values;
  FAT_TRY(fat_recipe_step(recipe, index, sizes, &values, err));
  *step = (fat_launch_step){.kind = from->kind, .offset = values.offset, .bytes = values.bytes};
  if (from->kind == FAT_STEP_CLEAR)
    return FAT_OK;
  step->grid = (unsigned)values.grid;
  step->block = (unsigned)values.block;
  step->shared = (unsigned)values.shared;
  step->args = from->args;
  for (int a = 0; a < from->args; a++) {
    step->arg[a].kind = from->arg[a].kind;
    step->arg[a].value = values.arg[a];
  }
  return fat_module_entry(module, from->entry, values.shared, &step->function, err);
}

/* What the maps of a step are made from. */
static void prepare_maps(const fat_step *step, const fat_problem *problem, fat_launch *launch)
{
  for (int a = 0; a < step->args; a++) {
    fat_arg_kind kind = step->arg[a].kind;
    if (kind < FAT_ARG_MAP_Q)
      continue;
    launch->mapped[kind - FAT_ARG_MAP_Q] = true;
    launch->shape[kind - FAT_ARG_MAP_Q] = fat_map_shape_of(problem, kind);
  }
}

fat_status fat_launch_allows(const fat_driver *driver, const fat_recipe *recipe, fat_error *err)
{
  const char *entry = fat_recipe_mapped(recipe);
  if (!entry || fat_driver_maps(driver))
    return FAT_OK;
  return fat_status_fail(err, FAT_E_UNSUPPORTED,
                         "%s takes tensor maps, and this driver (for CUDA %s) makes none: a driver for "
                         "CUDA 12.0 or later is needed",
                         entry, fat_driver_cuda_text(driver));
}

fat_status fat_launch_prepare(const fat_recipe *recipe, const fat_problem *problem, int64_t sms,
                              fat_module *module, fat_launch *launch, fat_error *err)
{
  const fat_problem *p = problem;
  const fat_sizes sizes = {p->b, p->h, p->hk, p->q, p->k, sms};
  *launch = (fat_launch){.steps = recipe->steps};
  FAT_TRY(fat_launch_allows(fat_module_driver(module), recipe, err));
  FAT_TRY(fat_recipe_workspace(recipe, &sizes, &launch->workspace, err));
  for (int i = 0; i < recipe->steps; i++) {
    prepare_maps(&recipe->step[i], p, launch);
    FAT_TRY(prepare_step(recipe, i, &sizes, module, &launch->step[i], err));
  }
  return FAT_OK;
}

bool fat_launch_takes(const fat_launch *launch, const call *args)
{
  for (int i = 0; i < FAT_RECIPE_TENSORS; i++)
    if (launch->mapped[i] &&
        !fat_map_fits(&launch->shape[i], fat_map_tensor(args, (fat_arg_kind)(FAT_ARG_MAP_Q + i))))
      return false;
  return true;
}

/* One call of the driver: its result, and its name for an error. */
typedef struct outcome {
  int result;
  const char *function;
} outcome;

static outcome run_launch(const fat_cuda_calls *cuda, const fat_launch *launch, const fat_launch_step *step,
                          const call *args, fat_cuda_address workspace, void *stream)
{
  union {
    _Alignas(FAT_CUDA_MAP_ALIGN) unsigned char map[FAT_CUDA_MAP_BYTES];
    fat_cuda_address address;
    i32 number;
  } value[FAT_RECIPE_ARGS];
  void *argument[FAT_RECIPE_ARGS];
  for (int a = 0; a < step->args; a++) {
    fat_arg_kind kind = step->arg[a].kind;
    argument[a] = &value[a];
    if (kind == FAT_ARG_CALL)
      argument[a] = (void *)args; /* the driver reads it */
    else if (kind == FAT_ARG_WS)
      value[a].address = workspace + (fat_cuda_address)step->arg[a].value;
    else if (kind == FAT_ARG_INT)
      value[a].number = (i32)step->arg[a].value;
    else {
      int result = fat_map_encode(cuda, &launch->shape[kind - FAT_ARG_MAP_Q], fat_map_tensor(args, kind),
                                  step->arg[a].value, value[a].map);
      if (result != FAT_CUDA_SUCCESS)
        return (outcome){result, "cuTensorMapEncodeTiled"};
    }
  }
  return (outcome){
      cuda->launch(step->function, step->grid, 1, 1, step->block, 1, 1, step->shared, stream, argument, NULL),
      "cuLaunchKernel"};
}

static outcome run_step(const fat_cuda_calls *cuda, const fat_launch *launch, const fat_launch_step *step,
                        const call *args, fat_cuda_address workspace, void *stream)
{
  bool clear = step->kind == FAT_STEP_CLEAR;
  if (clear ? step->bytes == 0 : step->grid == 0) /* a zero length */
    return (outcome){FAT_CUDA_SUCCESS, ""};
  if (clear)
    return (outcome){
        cuda->fill8_async(workspace + (fat_cuda_address)step->offset, 0, (size_t)step->bytes, stream),
        "cuMemsetD8Async"};
  return run_launch(cuda, launch, step, args, workspace, stream);
}

fat_status fat_launch_run(const fat_driver *driver, const fat_launch *launch, const call *args,
                          fat_cuda_address workspace, void *stream, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  for (int i = 0; i < launch->steps; i++) {
    outcome o = run_step(cuda, launch, &launch->step[i], args, workspace, stream);
    if (o.result == FAT_CUDA_SUCCESS)
      continue;
    fat_error why = {0};
    fat_status status = fat_driver_check(driver, o.function, o.result, &why);
    return fat_status_fail(err, status, "step %d of %d: %s", i + 1, launch->steps, why.text);
  }
  return FAT_OK;
}
