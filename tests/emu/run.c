/* run.c -- a recipe, step by step: workspace, clears, launches; the grid of a launch, block by block. */
#include "side.h"
#include "../arguments.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Arrays of the workspace: from each offset that a step names to the next one. */
enum { ARRAYS = FAT_RECIPE_STEPS * FAT_RECIPE_ARGS + 2 };
typedef struct workspace {
  int count;
  int64_t at[ARRAYS + 1]; /* ascending; at[count] is the end */
  char *data[ARRAYS];
  char name[ARRAYS][32];
} workspace;

static void add_offset(workspace *w, int64_t offset)
{
  int i = w->count;
  for (int j = 0; j < w->count; j++)
    if (w->at[j] == offset)
      return;
  for (; i > 0 && w->at[i - 1] > offset; i--)
    w->at[i] = w->at[i - 1];
  w->at[i] = offset;
  w->count++;
}

static fat_status lay_workspace(emu_grid *g, const fat_recipe *recipe, const fat_sizes *sizes, workspace *w,
                                fat_error *err)
{
  int64_t bytes = 0;
  fat_step_values v;
  if (recipe->workspace.count == 0)
    return FAT_OK;
  FAT_TRY(fat_recipe_workspace(recipe, sizes, &bytes, err));
  add_offset(w, 0);
  for (int i = 0; i < recipe->steps && !g->options->one_workspace; i++) {
    FAT_TRY(fat_recipe_step(recipe, i, sizes, &v, err));
    for (int j = 0; j < recipe->step[i].args; j++)
      if (recipe->step[i].kind == FAT_STEP_LAUNCH && recipe->step[i].arg[j].kind == FAT_ARG_WS)
        add_offset(w, v.arg[j]);
  }
  w->at[w->count] = bytes;
  for (int i = 0; i < w->count; i++) {
    int64_t size = w->at[i + 1] - w->at[i];
    snprintf(w->name[i], sizeof w->name[i], i ? "workspace(%lld)" : "workspace", (long long)w->at[i]);
    /* Aligned to no more than its place in the one workspace is, which begins at a multiple of 16. */
    w->data[i] = emu_memory_array(g->memory, w->name[i], (uint64_t)size, (int)(w->at[i] % 16));
    if (!w->data[i])
      return fat_status_fail(err, FAT_E_NOMEM, "no room for a workspace of %lld bytes", (long long)bytes);
  }
  return FAT_OK;
}

static char *workspace_at(const workspace *w, int64_t offset)
{
  for (int i = w->count - 1; i >= 0; i--)
    if (offset >= w->at[i])
      return w->data[i] + (offset - w->at[i]);
  return NULL;
}

static void clear(emu_grid *g, const workspace *w, int64_t offset, int64_t bytes)
{
  for (int i = 0; i < w->count; i++) {
    int64_t from = offset > w->at[i] ? offset : w->at[i];
    int64_t to = offset + bytes < w->at[i + 1] ? offset + bytes : w->at[i + 1];
    if (from >= to)
      continue;
    memset(w->data[i] + (from - w->at[i]), 0, (size_t)(to - from));
    emu_memory_mark(g->memory, w->data[i] + (from - w->at[i]), (uint64_t)(to - from), EMU_FILLED);
  }
}

/* The i-th block to begin, of `grid`. `step` has no factor in common with grid. */
static int64_t block_of(int64_t i, int64_t grid, emu_order order, int64_t step)
{
  if (order == EMU_IN_ORDER)
    return i;
  return order == EMU_REVERSED ? grid - 1 - i : (int64_t)((__int128)i * step % grid);
}

static int64_t random_step(int64_t grid)
{
  int64_t step = (int64_t)(emu_grid_random() % (uint64_t)grid);
  for (;; step++) {
    int64_t a = step, b = grid;
    while (b) {
      int64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1)
      return step;
  }
}

/* Whether the places of one cluster are free. */
static bool is_free(const emu_grid *g, int first)
{
  for (int i = 0; i < g->cluster; i++)
    if (g->block[first + i].active)
      return false;
  return true;
}

/* All blocks of one launch, cluster by cluster. */
static void run_grid(emu_grid *g, int64_t grid)
{
  const int64_t clusters = grid / g->cluster, step = random_step(clusters);
  int64_t begun = 0;
  int left = 0;
  g->blocks = grid;
  g->turn = 0;
  g->warp = -1;
  do {
    for (int i = 0; i < g->resident; i += g->cluster)
      if (begun < clusters && is_free(g, i)) {
        const int64_t next = block_of(begun++, clusters, g->options->order, step);
        for (int j = 0; j < g->cluster; j++)
          emu_grid_begin(&g->block[i + j], next * g->cluster + j);
        g->report->blocks += g->cluster;
      }
    emu_grid_go();
    left = 0;
    for (int i = 0; i < g->resident; i++)
      left += g->block[i].active;
    if (!g->changed && !g->fatal && !emu_boxes_stalled(g)) {
      for (int i = 0; i < g->resident; i++)
        if (g->block[i].active)
          emu_findings_stuck(&g->block[i]);
      g->fatal = true;
    }
  } while (!g->fatal && (left > 0 || begun < clusters));
}

static fat_status lay_blocks(emu_grid *g, const fat_step_values *v, fat_error *err)
{
  g->resident = g->options->resident > 0 ? g->options->resident : 2;
  if (g->resident > EMU_RESIDENT_MAX)
    g->resident = EMU_RESIDENT_MAX;
  g->cluster = v->cluster > 1 ? (int)v->cluster : 1;
  g->resident = g->resident > g->cluster ? g->resident / g->cluster * g->cluster : g->cluster;
  for (int i = 0; i < g->resident; i++) {
    emu_block *b = &g->block[i];
    *b = (emu_block){.threads = (int)v->block,
                     .thread = g->threads + i * EMU_THREADS_MAX,
                     .shared_size = (uint32_t)v->shared};
    b->shared = emu_memory_array(g->memory, "shared memory", (uint64_t)v->shared, EMU_SHARED_ALIGN);
    if (!b->shared)
      return fat_status_fail(err, FAT_E_NOMEM, "no room for %lld bytes of shared memory",
                             (long long)v->shared);
  }
  return FAT_OK;
}

/* A launch that overlaps with the last one begins when all blocks of that have begun at the soonest, and
 * knows of the launches that all of them knew of. Here it comes behind, so that its threads find all done
 * that they should wait for: who did not is found by the order of accesses. */
static void begin_launch(emu_grid *g, bool overlaps)
{
  g->ended = overlaps ? g->ended_next : g->memory->hot.first_block;
  g->overlaps = overlaps;
  g->blind = false;
}

/* All of one launch. Its arguments have the sizes that the entry takes. */
static fat_status run_entry(emu_grid *g, const char *name, const emu_entry *entry, const fat_step_values *v,
                            void **args, fat_error *err)
{
  if (v->block > entry->bounds || v->block > EMU_THREADS_MAX)
    return fat_status_fail(err, FAT_E_INPUT, "the recipe gives '%s' blocks of %lld threads, its bound is %d",
                           name, (long long)v->block, entry->bounds);
  if (v->cluster > EMU_RESIDENT_MAX)
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "'%s' runs in clusters of %lld blocks, the emulator of %d at most", name,
                           (long long)v->cluster, EMU_RESIDENT_MAX);
  uint64_t first = g->memory->hot.first_block;
  if (first + (uint64_t)v->grid >= UINT64_C(1) << EMU_BLOCK_BITS)
    return fat_status_fail(err, FAT_E_INPUT, "a grid of %lld blocks is more than the emulator can tell apart",
                           (long long)v->grid);
  int regions = g->memory->count;
  fat_status status = lay_blocks(g, v, err);
  if (status == FAT_OK) {
    g->entry = entry;
    g->entry_name = name;
    g->args = args;
    g->report->launches++;
    run_grid(g, v->grid);
    g->ended_next = g->blind ? g->ended : first;
    g->memory->hot.first_block = first + (uint64_t)v->grid;
  }
  for (int i = 0; i < EMU_RESIDENT_MAX; i++)
    emu_clocks_free(&g->block[i]);
  emu_memory_cut(g->memory, regions);
  return status;
}

static fat_status check_args(const emu_entry *entry, const char *name, int args, fat_error *err)
{
  if (entry->args == args)
    return FAT_OK;
  return fat_status_fail(err, FAT_E_INPUT, "the recipe gives '%s' %d arguments, it takes %d", name, args,
                         entry->args);
}

static fat_status launch(emu_grid *g, const fat_step *s, const fat_step_values *v, const workspace *w,
                         const void *call, size_t call_size, fat_error *err)
{
  emu_entry entry;
  FAT_TRY(emu_module_entry(g->module, s->entry, &entry, err));
  FAT_TRY(check_args(&entry, s->entry, s->args, err));
  void *args[FAT_RECIPE_ARGS];
  argument value[FAT_RECIPE_ARGS];
  for (int i = 0; i < s->args; i++) {
    fat_arg_kind kind = s->arg[i].kind;
    size_t size = argument_size(kind, call_size);
    if (size != entry.size[i])
      return fat_status_fail(err, FAT_E_INPUT, "argument %d of '%s' has %zu bytes, the kernel takes %lu",
                             i + 1, s->entry, size, entry.size[i]);
    args[i] = kind == FAT_ARG_CALL ? (void *)call : &value[i];
    if (kind == FAT_ARG_WS)
      value[i].pointer = workspace_at(w, v->arg[i]);
    else if (kind == FAT_ARG_INT)
      value[i].number = (int32_t)v->arg[i];
    else if (kind != FAT_ARG_CALL)
      FAT_TRY(emu_map_fill(g->memory, s->arg[i].tensor,
                           fat_map_box_of((int)s->arg[i].tensor, v->arg[i], v->heads), call, call_size,
                           value[i].map, err));
  }
  begin_launch(g, s->overlap);
  return run_entry(g, s->entry, &entry, v, args, err);
}

/* Looks at the bytes around and between the elements of every tensor. */
static void check_padding(emu_grid *g)
{
  for (int i = 0; i < g->memory->count; i++) {
    const char *byte = emu_memory_spoiled(g->memory, &g->memory->region[i]);
    emu_event event = {.kind = EMU_PADDING, .address = (uintptr_t)byte, .line = (uint32_t)i};
    if (byte)
      emu_findings_add(&event);
  }
}

static fat_status run_steps(emu_grid *g, const fat_recipe *recipe, const fat_sizes *sizes, const void *call,
                            size_t call_size, fat_error *err)
{
  workspace w = {0};
  fat_step_values v;
  int regions = g->memory->count;
  fat_status status = lay_workspace(g, recipe, sizes, &w, err);
  for (int i = 0; status == FAT_OK && i < recipe->steps && !g->fatal; i++) {
    status = fat_recipe_step(recipe, i, sizes, &v, err);
    if (status != FAT_OK)
      break;
    if (recipe->step[i].kind == FAT_STEP_CLEAR)
      clear(g, &w, v.offset, v.bytes);
    else
      status = launch(g, &recipe->step[i], &v, &w, call, call_size, err);
  }
  check_padding(g);
  emu_memory_cut(g->memory, regions);
  return status;
}

static void split(emu_cell *cell)
{
  emu_memory_split(emu_now->memory, cell);
}

/* A grid that is ready to run kernels which may read `bytes` bytes at `arguments`; NULL without memory. */
static emu_grid *open_grid(emu *e, const emu_module *module, const void *arguments, size_t bytes,
                           const emu_options *options, emu_report *report)
{
  static const emu_options plain;
  /* Kept for the next run, with each thread's room for copies: making them costs more than a small run. */
  static char *shared_stacks;
  static emu_thread *threads;
  int stacks = EMU_RESIDENT_MAX * EMU_THREADS_MAX;
  *report = (emu_report){0};
  emu_grid *g = calloc(1, sizeof *g);
  if (!threads)
    threads = calloc((size_t)stacks, sizeof *threads);
  if (!shared_stacks)
    shared_stacks = emu_fiber_stacks(stacks);
  if (!g || !threads || !shared_stacks) {
    free(g);
    return NULL;
  }
  *g = (emu_grid){.memory = e, .module = module, .options = options ? options : &plain, .report = report};
  g->ended_next = e->hot.first_block;
  g->threads = threads;
  g->stacks = shared_stacks;
  g->random = g->options->seed;
  e->hot.accesses = 0;
  e->hot.budget = g->options->accesses ? g->options->accesses : UINT64_C(1) << 34;
  e->hot.variant = g->options->variant;
  e->hot.image = module->image;
  e->hot.image_size = module->image_size;
  e->hot.call = (uintptr_t)arguments;
  e->hot.call_size = bytes;
  e->hot.found = emu_findings_add;
  e->hot.wait = emu_grid_wait;
  e->hot.split = split;
  e->hot.copy = emu_copies_begin;
  e->hot.copy_commit = emu_copies_commit;
  e->hot.copy_wait = emu_copies_wait;
  e->hot.signal_init = emu_signals_init;
  e->hot.signal_fence = emu_signals_fence;
  e->hot.signal_arrive = emu_signals_arrive;
  e->hot.signal_passed = emu_signals_passed;
  e->hot.named = emu_signals_named;
  e->hot.own_registers = emu_signals_registers;
  e->hot.box_load = emu_boxes_load;
  e->hot.box_store = emu_boxes_store;
  e->hot.bulk_load = emu_boxes_bulk_load;
  e->hot.bulk_reduce = emu_boxes_bulk_reduce;
  e->hot.store_commit = emu_boxes_commit;
  e->hot.await_count = emu_counts_await;
  e->hot.counted = emu_counts_up;
  e->hot.store_wait = emu_boxes_wait;
  e->hot.peer = emu_clusters_peer;
  e->hot.peer_place = emu_clusters_place;
  e->hot.signal_arrive_there = emu_signals_arrive_there;
  e->hot.bulk_send = emu_boxes_bulk_send;
  e->hot.box_load_all = emu_boxes_load_all;
  e->hot.cluster_arrive = emu_clusters_arrive;
  e->hot.copies_fence = emu_clocks_fence;
  e->hot.product = emu_products_begin;
  e->hot.products_fence = emu_products_fence;
  e->hot.products_commit = emu_products_commit;
  e->hot.products_wait = emu_products_wait;
  e->hot.registers = emu_products_registers;
  e->hot.add_reader = emu_clocks_add_reader;
  e->hot.counted_before = emu_counts_before;
  e->hot.launch_next = emu_grid_launch_next;
  e->hot.launch_wait = emu_grid_launch_wait;
  emu_clocks_open(&e->hot);
  emu_counts_open(&e->hot);
  module->attach(&e->hot);
  emu_now = g;
  return g;
}

static void close_grid(emu_grid *g)
{
  g->report->accesses = (long long)g->memory->hot.accesses;
  emu_findings_finish(g);
  emu_now = NULL;
  free(g);
}

fat_status emu_run(emu *e, const emu_module *module, const fat_recipe *recipe, const fat_sizes *sizes,
                   const void *call, size_t call_size, const emu_options *options, emu_report *report,
                   fat_error *err)
{
  emu_grid *g = open_grid(e, module, call, call_size, options, report);
  if (!g)
    return fat_status_fail(err, FAT_E_NOMEM, "no memory for the threads of a grid");
  fat_status status = run_steps(g, recipe, sizes, call, call_size, err);
  close_grid(g);
  return status;
}

fat_status emu_launch(emu *e, const emu_module *module, const emu_call *call, const emu_options *options,
                      emu_report *report, fat_error *err)
{
  const fat_step_values v = {
      .grid = call->grid, .block = call->block, .shared = call->shared, .cluster = call->cluster};
  void *args[64];
  emu_entry entry;
  FAT_TRY(emu_module_entry(module, call->entry, &entry, err));
  FAT_TRY(check_args(&entry, call->entry, call->args, err));
  for (int i = 0; i < call->args; i++) {
    if ((size_t)call->offset[i] + entry.size[i] > call->bytes)
      return fat_status_fail(err, FAT_E_INPUT, "argument %d of '%s' reaches beyond the %zu bytes given",
                             i + 1, call->entry, call->bytes);
    args[i] = (char *)call->memory + call->offset[i];
  }
  emu_grid *g = open_grid(e, module, call->memory, call->bytes, options, report);
  if (!g)
    return fat_status_fail(err, FAT_E_NOMEM, "no memory for the threads of a grid");
  begin_launch(g, false);
  fat_status status = run_entry(g, call->entry, &entry, &v, args, err);
  check_padding(g);
  close_grid(g);
  return status;
}
