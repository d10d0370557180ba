/* launch.h -- a recipe, a problem and a loaded module become steps with numbers; running them fills in the
 * arguments of a call.
 *
 * Finding entries may load and allocate; evaluating and running do neither, take no lock and wait for
 * nothing, so they may happen under stream capture and in many threads at once on one fat_launch. */
#ifndef FAT_LAUNCH_H
#define FAT_LAUNCH_H

#include "map.h"
#include "module.h"
#include "recipe.h"

typedef struct fat_launch_step {
  fat_step_kind kind;
  void *function;                        /* launch */
  unsigned grid, block, shared, cluster; /* launch: blocks of x, threads of a block, dynamic shared bytes,
                                            blocks of a cluster (0: none) */
  int64_t heads;                         /* of a box of rows of Q; 0: one */
  bool overlap;
  int args;
  struct {
    fat_arg_kind kind;
    fat_tensor tensor; /* of a map */
    int64_t value;     /* ws: bytes into the workspace; int: the number; a map: the rows of its boxes */
  } arg[FAT_RECIPE_ARGS];
  int64_t offset, bytes; /* clear */
} fat_launch_step;

/* Only the steps that there are, and the shapes of mapped tensors, hold anything. */
typedef struct fat_launch {
  int64_t workspace;      /* bytes that the steps need; its address is a multiple of 16 */
  fat_problem problem;    /* with the sizes and numbers that kernels are told */
  fat_call_layout layout; /* of their struct */
  uint32_t mapped;        /* tensors of which a step takes a map: bit 1u << tensor */
  fat_map_shape shape[FAT_TENSORS];
  int steps;
  fat_launch_step step[FAT_RECIPE_STEPS];
} fat_launch;

/* The functions of a recipe's launches, and the dynamic shared memory that each may have. */
typedef struct fat_entries {
  void *function[FAT_RECIPE_STEPS];
  int64_t shared[FAT_RECIPE_STEPS];
} fat_entries;

/* The workspace starts at a multiple of this many bytes. */
enum { FAT_LAUNCH_ALIGN = 16 };

/* FAT_E_UNSUPPORTED: the driver makes no tensor maps, or launches no clusters, and a step has
 * one. */
fat_status fat_launch_allows(const fat_driver *driver, const fat_recipe *recipe, fat_error *err);

/* Finds every entry, with shared memory as these sizes want it. FAT_E_IMAGE: the module lacks an entry. Else
 * as fat_launch_allows. */
fat_status fat_launch_find(const fat_recipe *recipe, const fat_sizes *sizes, fat_module *module,
                           fat_entries *entries, fat_error *err);

/* Evaluates every number of the recipe; `layout`: of the problem. FAT_E_UNSUPPORTED: the config is not valid
 * for these sizes. FAT_E_INPUT: a number is senseless for them (recipe.h). */
fat_status fat_launch_evaluate(const fat_recipe *recipe, const fat_entries *entries,
                               const fat_problem *problem, const fat_call_layout *layout, int64_t sms,
                               fat_launch *launch, fat_error *err);

/* Both; `sms` of the GPU. */
fat_status fat_launch_prepare(const fat_recipe *recipe, const fat_problem *problem, int64_t sms,
                              fat_module *module, fat_launch *launch, fat_error *err);

/* Whether the maps that the steps take can be made of these tensors (map.h). */
bool fat_launch_takes(const fat_launch *launch, const fat_call *call);

/* Queues all steps on `stream` (NULL: the default stream of the current context, which is the module's); the
 * launch takes the tensors. The sentence names the step that the driver refused. */
fat_status fat_launch_run(const fat_driver *driver, const fat_launch *launch, const fat_call *call,
                          fat_cuda_address workspace, void *stream, fat_error *err);

#endif
