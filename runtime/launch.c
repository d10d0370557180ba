/* launch.c -- freezes a recipe's numbers, and runs the frozen steps.
 *
 * In: recipe, sizes, module; then, call by call, the struct of templates/lib/args.h, a workspace and a
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

fat_status fat_launch_prepare(const fat_recipe *recipe, const fat_sizes *sizes, fat_module *module,
                              fat_launch *launch, fat_error *err)
{
  *launch = (fat_launch){.steps = recipe->steps};
  FAT_TRY(fat_recipe_workspace(recipe, sizes, &launch->workspace, err));
  for (int i = 0; i < recipe->steps; i++)
    FAT_TRY(prepare_step(recipe, i, sizes, module, &launch->step[i], err));
  return FAT_OK;
}

static int run_step(const fat_cuda_calls *cuda, const fat_launch_step *step, const call *args,
                    fat_cuda_address workspace, void *stream)
{
  union {
    fat_cuda_address address;
    i32 number;
  } value[FAT_RECIPE_ARGS];
  void *argument[FAT_RECIPE_ARGS];
  if (step->kind == FAT_STEP_CLEAR)
    return step->bytes == 0 ? FAT_CUDA_SUCCESS
                            : cuda->fill8_async(workspace + (fat_cuda_address)step->offset, 0,
                                                (size_t)step->bytes, stream);
  if (step->grid == 0) /* a zero length */
    return FAT_CUDA_SUCCESS;
  for (int a = 0; a < step->args; a++) {
    argument[a] = &value[a];
    if (step->arg[a].kind == FAT_ARG_CALL)
      argument[a] = (void *)args; /* the driver reads it */
    else if (step->arg[a].kind == FAT_ARG_WS)
      value[a].address = workspace + (fat_cuda_address)step->arg[a].value;
    else
      value[a].number = (i32)step->arg[a].value;
  }
  return cuda->launch(step->function, step->grid, 1, 1, step->block, 1, 1, step->shared, stream, argument,
                      NULL);
}

fat_status fat_launch_run(const fat_driver *driver, const fat_launch *launch, const call *args,
                          fat_cuda_address workspace, void *stream, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  for (int i = 0; i < launch->steps; i++) {
    int result = run_step(cuda, &launch->step[i], args, workspace, stream);
    if (result == FAT_CUDA_SUCCESS)
      continue;
    fat_error why = {0};
    bool clear = launch->step[i].kind == FAT_STEP_CLEAR;
    fat_status status = fat_driver_check(driver, clear ? "cuMemsetD8Async" : "cuLaunchKernel", result, &why);
    return fat_status_fail(err, status, "step %d of %d: %s", i + 1, launch->steps, why.text);
  }
  return FAT_OK;
}
