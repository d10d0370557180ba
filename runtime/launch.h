/* launch.h -- a recipe, a problem and a loaded module become steps with frozen numbers; running them fills in
 * the arguments of a call.
 *
 * Preparing may load and allocate; running does neither, takes no lock and waits for nothing, so it may
 * happen under stream capture and in many threads at once on one fat_launch. */
#ifndef FAT_LAUNCH_H
#define FAT_LAUNCH_H

#include "call_old.h"
#include "map.h"
#include "module.h"
#include "recipe.h"

typedef struct fat_launch_step {
  fat_step_kind kind;
  void *function;               /* launch */
  unsigned grid, block, shared; /* launch: blocks of x, threads of a block, dynamic shared bytes */
  int args;
  struct {
    fat_arg_kind kind;
    int64_t value; /* ws: bytes into the workspace; int: the number; a map: the rows of its boxes */
  } arg[FAT_RECIPE_ARGS];
  int64_t offset, bytes; /* clear */
} fat_launch_step;

typedef struct fat_launch {
  int64_t workspace;               /* bytes that the steps need; its address is a multiple of 16 */
  bool mapped[FAT_RECIPE_TENSORS]; /* by kind - FAT_ARG_MAP_Q: whether a step takes a map of it */
  fat_map_shape shape[FAT_RECIPE_TENSORS];
  int steps;
  fat_launch_step step[FAT_RECIPE_STEPS];
} fat_launch;

/* The workspace starts at a multiple of this many bytes. */
enum { FAT_LAUNCH_ALIGN = 16 };

/* FAT_E_UNSUPPORTED: the driver makes no tensor maps, and a step takes one. */
fat_status fat_launch_allows(const fat_driver *driver, const fat_recipe *recipe, fat_error *err);

/* Evaluates every number of the recipe and finds every entry; `sms` of the GPU. FAT_E_INPUT: a number is
 * senseless for these sizes (recipe.h). FAT_E_IMAGE: the module lacks an entry. Else as fat_launch_allows. */
fat_status fat_launch_prepare(const fat_recipe *recipe, const fat_problem *problem, int64_t sms,
                              fat_module *module, fat_launch *launch, fat_error *err);

/* Whether the maps that the steps take can be made of these tensors (map.h). */
bool fat_launch_takes(const fat_launch *launch, const call *args);

/* Queues all steps on `stream` (NULL: the default stream of the current context, which is the module's); the
 * launch takes the tensors. The sentence names the step that the driver refused. */
fat_status fat_launch_run(const fat_driver *driver, const fat_launch *launch, const call *args,
                          fat_cuda_address workspace, void *stream, fat_error *err);

#endif
