/* grid.c -- which thread runs next, and what happens when threads meet.
 *
 * A thread runs until it waits or ends; then the next of its warp goes on, then a warp of the next block. The
 * order of warps and lanes is the run's option. A barrier gives each thread that took part its tick (hot.h
 * says what for). A shuffle exchanges values and orders nothing, as the PTX manual has it; nor does a
 * product.
 */
#include "side.h"
#include <string.h>

emu_grid *emu_now;

uint64_t emu_grid_random(void)
{
  uint64_t x = emu_now->random += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* One of the bits of `mask`, which is not 0. */
static int choose(uint32_t mask)
{
  if (emu_now->options->order == EMU_IN_ORDER)
    return __builtin_ctz(mask);
  if (emu_now->options->order == EMU_REVERSED)
    return 31 - __builtin_clz(mask);
  unsigned turn = (unsigned)emu_grid_random() & 31;
  uint32_t turned = turn ? mask >> turn | mask << (32 - turn) : mask;
  return (int)(((unsigned)__builtin_ctz(turned) + turn) & 31);
}

static emu_thread *next(void)
{
  emu_grid *g = emu_now;
  if (g->fatal || g->changed)
    return NULL;
  emu_block *b = &g->block[g->turn];
  if (g->warp < 0 || !b->runnable[g->warp]) {
    int tried = 0;
    do {
      if (tried++ == g->resident)
        return NULL;
      g->turn = (g->turn + 1) % g->resident;
      b = &g->block[g->turn];
    } while (!b->active || !b->ready);
    g->warp = choose(b->ready);
  }
  return &b->thread[g->warp * EMU_WARP + choose(b->runnable[g->warp])];
}

/* Leaves the present thread (NULL: the scheduler) for the next one, or for the scheduler. */
static void leave(void)
{
  emu_grid *g = emu_now;
  emu_thread *from = g->self, *to = next();
  if (to == from)
    return;
  g->self = to;
  g->memory->hot.me = to ? &to->me : NULL;
  emu_fiber_switch(from ? &from->fiber : &g->main, to ? &to->fiber : &g->main);
}

void emu_grid_go(void)
{
  emu_now->changed = false;
  leave();
}

void emu_grid_leave(void)
{
  leave();
}

static void stop(emu_thread *t)
{
  emu_block *b = t->home;
  int warp = t->me.thread / EMU_WARP;
  b->runnable[warp] &= ~(UINT32_C(1) << t->me.thread % EMU_WARP);
  if (!b->runnable[warp])
    b->ready &= ~(UINT32_C(1) << warp);
}

void emu_grid_resume(emu_thread *t)
{
  emu_block *b = t->home;
  int warp = t->me.thread / EMU_WARP;
  t->waits = EMU_WAIT_NONE;
  b->runnable[warp] |= UINT32_C(1) << t->me.thread % EMU_WARP;
  b->ready |= UINT32_C(1) << warp;
}

static void body(void *argument)
{
  emu_thread *t = argument;
  emu_now->entry->call(emu_now->args);
  emu_copies_end(t);
  emu_boxes_end(t);
  emu_products_end(t);
  if (t->home->left == 1)
    emu_signals_end(t->home);
  t->done = true;
  stop(t);
  if (--t->home->left == 0) {
    emu_now->blind |= emu_now->overlaps && !t->home->waited;
    emu_clusters_end(t->home);
    t->home->active = false;
    emu_now->changed = true;
  }
  leave();
}

static void stamp(emu_thread *t, uint32_t tick)
{
  t->me.seen_warp = tick;
  t->me.stamp = t->me.who << EMU_EPOCH_BITS | tick;
}

void emu_grid_begin(emu_block *b, int64_t index)
{
  emu_grid *g = emu_now;
  emu_emptied(g->memory, b->shared);
  b->active = true;
  b->waited = false;
  emu_side_reset(b);
  b->left = b->threads;
  b->at_barrier = b->at_cluster = 0;
  b->tick = 1;
  b->ready = 0;
  memset(b->runnable, 0, sizeof b->runnable);
  memset(b->waiting, 0, sizeof b->waiting);
  for (int i = 0; i < b->threads; i++) {
    emu_thread *t = &b->thread[i];
    size_t size;
    char *stack = emu_fiber_stack(g->stacks, (int)(t - g->threads), &size);
    *t = (emu_thread){.home = b, .flight = t->flight, .flight_room = t->flight_room};
    t->me = (emu_me){.who = (g->memory->hot.first_block + (uint64_t)index) << EMU_THREAD_BITS | (unsigned)i,
                     .ended = g->ended,
                     .seen_block = 1,
                     .stack = (uintptr_t)stack,
                     .stack_size = size,
                     .block = index,
                     .grid = g->blocks,
                     .thread = i,
                     .shared = b->shared,
                     .shared_size = b->shared_size};
    stamp(t, 1);
    emu_grid_resume(t);
    emu_fiber_set(&t->fiber, stack, size, body, t);
  }
}

void emu_grid_tell(emu_thread *first, int count)
{
  uint64_t ended = 0;
  if (!emu_now->overlaps)
    return; /* all know the same */
  for (int i = 0; i < count; i++)
    ended = ended > first[i].me.ended ? ended : first[i].me.ended;
  for (int i = 0; i < count; i++)
    first[i].me.ended = ended;
}

void emu_grid_launch_next(void)
{
  const emu_thread *t = emu_now->self;
  emu_now->blind |= emu_now->overlaps && t->me.ended != emu_now->memory->hot.first_block;
}

void emu_grid_launch_wait(void)
{
  emu_thread *t = emu_now->self;
  t->me.ended = emu_now->memory->hot.first_block;
  t->home->waited = true;
}

static void block_met(emu_block *b)
{
  emu_grid_tell(b->thread, b->threads);
  emu_now->report->barriers++;
  b->at_barrier = 0;
  b->tick++;
  for (int i = 0; i < b->threads; i++) {
    b->thread[i].me.seen_block = b->tick;
    stamp(&b->thread[i], b->tick);
    emu_grid_resume(&b->thread[i]);
  }
  if (b->side && b->side->in_use)
    emu_clocks_met(b, 0, b->threads, b->tick);
}

static void warp_met(emu_block *b, int warp, emu_wait kind)
{
  emu_thread *lane = &b->thread[warp * EMU_WARP];
  const emu_thread *apart = kind == EMU_WAIT_TOGETHER ? emu_together(lane) : NULL;
  b->waiting[warp][kind] = 0;
  if (apart)
    emu_findings_apart(lane, apart);
  if (kind == EMU_WAIT_WARP) {
    emu_grid_tell(lane, EMU_WARP);
    emu_now->report->barriers++;
    b->tick++;
  } else if (kind == EMU_WAIT_SHUFFLE || kind == EMU_WAIT_VOTE) {
    emu_now->report->shuffles++;
  } else {
    emu_now->report->together++;
  }
  float votes = 0;
  for (int i = 0; i < EMU_WARP && kind == EMU_WAIT_VOTE; i++)
    votes += lane[i].me.given;
  for (int i = 0; i < EMU_WARP; i++) {
    if (kind == EMU_WAIT_VOTE)
      lane[i].me.got = votes;
    if (kind == EMU_WAIT_WARP)
      stamp(&lane[i], b->tick);
    else if (kind == EMU_WAIT_SHUFFLE)
      lane[i].me.got = lane[(i ^ lane[i].me.lanes) & (EMU_WARP - 1)].me.given;
    emu_grid_resume(&lane[i]);
  }
  if (kind == EMU_WAIT_WARP && b->side && b->side->in_use)
    emu_clocks_met(b, warp * EMU_WARP, EMU_WARP, b->tick);
}

static void group_met(emu_block *b, int group)
{
  const emu_thread *apart = emu_products_meet(b, group);
  if (apart)
    emu_findings_apart(b->thread + group * EMU_GROUP, apart);
  b->side->group[group].come = 0;
  emu_now->report->together++;
  for (int i = 0; i < EMU_GROUP; i++)
    emu_grid_resume(&b->thread[group * EMU_GROUP + i]);
}

void emu_grid_pause(emu_wait kind, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  t->waits = kind;
  t->wait_pc = (uint32_t)(pc - emu_now->module->image);
  stop(t);
}

void emu_grid_wait(emu_wait kind, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_block *b = t->home;
  int warp = t->me.thread / EMU_WARP;
  emu_copies_pass(t);
  emu_boxes_pass(b);
  emu_products_pass(b);
  emu_grid_pause(kind, pc);
  if (kind == EMU_WAIT_BLOCK) {
    if (++b->at_barrier == b->threads)
      block_met(b);
  } else if (kind == EMU_WAIT_CLUSTER) {
    emu_clusters_wait(t, pc);
  } else if (kind == EMU_WAIT_PRODUCT) {
    int group = t->me.thread / EMU_GROUP;
    if (++b->side->group[group].come == EMU_GROUP)
      group_met(b, group);
  } else if (++b->waiting[warp][kind] == EMU_WARP) {
    warp_met(b, warp, kind);
  }
  leave();
}
