/* launch.h -- a recipe, the sizes of a problem and a loaded module become steps with frozen numbers; running
 * them fills in the arguments of a call.
 *
 * Preparing may load and allocate; running does neither, takes no lock and waits for nothing, so it may
 * happen under stream capture and in many threads at once on one fat_launch. */
#ifndef FAT_LAUNCH_H
#define FAT_LAUNCH_H

#include "../templates/lib/args.h"
#include "module.h"
#include "recipe.h"

typedef struct fat_launch_step {
  fat_step_kind kind;
  void *function;               /* launch */
  unsigned grid, block, shared; /* launch: blocks of x, threads of a block, dynamic shared bytes */
  int args;
  struct {
    fat_arg_kind kind;
    int64_t value; /* ws: bytes into the workspace; int: the number */
  } arg[FAT_RECIPE_ARGS];
  int64_t offset, bytes; /* clear */
} fat_launch_step;

typedef struct fat_launch {
  int64_t workspace; /* bytes that the steps need; its address is a multiple of 16 */
  int steps;
  fat_launch_step step[FAT_RECIPE_STEPS];
} fat_launch;

/* The workspace starts at a multiple of this many bytes. */
enum { FAT_LAUNCH_ALIGN = 16 };

/* Evaluates every number of the recipe and finds every entry. FAT_E_INPUT: a number is senseless for these
 * sizes (recipe.h). FAT_E_IMAGE: the module lacks an entry. */
fat_status fat_launch_prepare(const fat_recipe *recipe, const fat_sizes *sizes, fat_module *module,
                              fat_launch *launch, fat_error *err);

/* Queues all steps on `stream` (NULL: the default stream of the current context, which is the module's).
 * The sentence names the step that the driver refused. */
fat_status fat_launch_run(const fat_driver *driver, const fat_launch *launch, const call *args,
                          fat_cuda_address workspace, void *stream, fat_error *err);

#endif
