/* clocks.c -- who has seen what, where three numbers do not say it (hot.h): a clock for each thread, and the
 * sets of readers.
 *
 * A release puts a thread's clock into that of a barrier and begins a new epoch of the thread; an acquire
 * takes the barrier's clock over. `async` goes the same way, but a thread's own entry there grows at a fence
 * alone: stores are unseen by copies and products until their thread's fence, and then a barrier. */
#include "side.h"
#include "shadow.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static unsigned own(const emu_thread *t)
{
  return emu_seen_at((unsigned)t->me.thread);
}

void emu_clocks_advance(emu_thread *t)
{
  uint32_t tick = ++t->home->tick;
  t->me.stamp = t->me.who << EMU_EPOCH_BITS | tick;
  if (t->me.seen)
    t->clock.seen[own(t)] = tick + 1;
}

/* The place of a block in its cluster. */
static unsigned rank_of(const emu_block *b)
{
  return (unsigned)((b - emu_now->block) % emu_now->cluster);
}

/* All clocks of a block lie in one piece. */
static void lay(emu_block *b, emu_side *s)
{
  const unsigned clocks = (unsigned)b->threads + 2 * EMU_SIGNALS + EMU_NAMES + EMU_GROUPS + 1;
  s->stride = EMU_AGENTS + (unsigned)(b->threads + EMU_WARP - 1) / EMU_WARP * EMU_WARP;
  s->clock_size = (unsigned)emu_now->cluster * s->stride;
  const unsigned before = rank_of(b) * s->stride;
  if (!s->entries)
    s->entries = calloc((size_t)clocks * 2 * s->clock_size, sizeof *s->entries);
  if (!s->entries)
    abort();
  memset(s->entries, 0, (size_t)clocks * 2 * s->clock_size * sizeof *s->entries);
  uint32_t *at = s->entries;
#define TAKE(clock)                                                                                          \
  ((clock) = (emu_clock){at + before, at + s->clock_size + before, 0, before}, at += 2 * s->clock_size)
  for (int i = 0; i < b->threads; i++)
    TAKE(b->thread[i].clock);
  for (int i = 0; i < EMU_SIGNALS; i++) {
    TAKE(s->signal[i].gathered);
    TAKE(s->signal[i].done);
  }
  for (int i = 0; i < EMU_NAMES; i++)
    TAKE(s->name[i].gathered);
  for (int i = 0; i < EMU_GROUPS; i++)
    TAKE(s->group[i].clock);
  TAKE(s->scratch);
#undef TAKE
}

/* Each thread's three numbers as a clock. */
void emu_clocks_need(emu_block *b)
{
  if (b->side && b->side->in_use)
    return;
  if (!b->side)
    b->side = calloc(1, sizeof *b->side);
  if (!b->side)
    abort();
  emu_side *s = b->side;
  s->in_use = true;
  lay(b, s);
  for (int i = 0; i < b->threads; i++) {
    emu_thread *t = &b->thread[i];
    uint32_t *seen = t->clock.seen + EMU_AGENTS;
    for (int j = 0; j < b->threads; j++)
      seen[j] = j / EMU_WARP == i / EMU_WARP ? t->me.seen_warp : t->me.seen_block;
    seen[i] = (uint32_t)(t->me.stamp & EMU_EPOCH_MASK) + 1;
    t->me.seen = t->clock.seen;
    t->me.threads = b->threads;
    t->me.rank = (int32_t)rank_of(b);
    t->me.peers = emu_now->cluster;
    t->me.stride = (int32_t)s->stride;
  }
}

void emu_side_reset(emu_block *b)
{
  emu_side *s = b->side;
  if (!s)
    return;
  s->in_use = s->moved = false;
  s->signals = s->store_agents = s->boxes = 0;
  memset(s->signal, 0, sizeof s->signal);
  memset(s->name, 0, sizeof s->name);
  memset(s->moves, 0, sizeof s->moves);
  memset(s->registers, 0, sizeof s->registers);
  for (int i = 0; i < EMU_GROUPS; i++)
    s->group[i] = (emu_group){.room = s->group[i].room, .work = s->group[i].work};
}

void emu_clocks_free(emu_block *b)
{
  emu_side *s = b->side;
  if (!s)
    return;
  for (int i = 0; i < EMU_GROUPS; i++)
    free(s->group[i].work);
  free(s->box);
  free(s->entries);
  free(s);
  b->side = NULL;
}

static void join(uint32_t *to, const uint32_t *from, unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    to[i] = to[i] > from[i] ? to[i] : from[i];
}

/* A whole clock goes into another, which may be of another block of the cluster. */
static void join_clock(const emu_clock *to, const emu_clock *from, unsigned size)
{
  join(to->seen - to->before, from->seen - from->before, size);
  join(to->async - to->before, from->async - from->before, size);
}

static void changed(emu_thread *t)
{
  t->home->side->group[t->me.thread / EMU_GROUP].fresh = false;
}

void emu_clocks_release(emu_thread *t, emu_clock *to)
{
  join_clock(to, &t->clock, t->home->side->clock_size);
  to->ended = to->ended > t->me.ended ? to->ended : t->me.ended;
  emu_clocks_advance(t);
}

void emu_clocks_acquire(emu_thread *t, const emu_clock *from)
{
  join_clock(&t->clock, from, t->home->side->clock_size);
  t->me.ended = t->me.ended > from->ended ? t->me.ended : from->ended;
  changed(t);
}

void emu_clocks_clear(const emu_side *s, emu_clock *clock)
{
  memset(clock->seen - clock->before, 0, s->clock_size * sizeof *clock->seen);
  memset(clock->async - clock->before, 0, s->clock_size * sizeof *clock->async);
  clock->ended = 0;
}

void emu_clocks_awaited(emu_thread *t, unsigned agent, uint32_t epoch)
{
  if (t->clock.seen[agent] >= epoch)
    return;
  t->clock.seen[agent] = t->clock.async[agent] = epoch;
  changed(t);
}

/* A thread knows what a clock says, and its own past up to `tick`. */
static void take(emu_thread *t, const emu_clock *all, uint32_t tick)
{
  const size_t bytes = t->home->side->clock_size * sizeof *t->clock.seen;
  memcpy(t->clock.seen - t->clock.before, all->seen - all->before, bytes);
  memcpy(t->clock.async - t->clock.before, all->async - all->before, bytes);
  t->clock.seen[own(t)] = tick + 1;
  changed(t);
}

void emu_clocks_met(emu_block *b, int first, int count, uint32_t tick)
{
  emu_side *s = b->side;
  emu_clocks_clear(s, &s->scratch);
  for (int i = first; i < first + count; i++)
    join_clock(&s->scratch, &b->thread[i].clock, s->clock_size);
  for (int i = first; i < first + count; i++)
    take(&b->thread[i], &s->scratch, tick);
}

void emu_clocks_met_all(emu_block *first, int blocks)
{
  emu_clock *all = &first->side->scratch;
  const unsigned size = first->side->clock_size;
  emu_clocks_clear(first->side, all);
  for (emu_block *b = first; b < first + blocks; b++)
    for (int i = 0; i < b->threads; i++)
      join_clock(all, &b->thread[i].clock, size);
  for (emu_block *b = first; b < first + blocks; b++) {
    b->tick++;
    for (int i = 0; i < b->threads; i++) {
      emu_thread *t = &b->thread[i];
      t->me.seen_block = t->me.seen_warp = b->tick;
      t->me.stamp = t->me.who << EMU_EPOCH_BITS | b->tick;
      take(t, all, b->tick);
    }
  }
}

void emu_clocks_tell(emu_clock *to, const emu_block *of, unsigned agent, uint32_t epoch)
{
  const unsigned at = rank_of(of) * of->side->stride + agent;
  uint32_t *seen = to->seen - to->before + at, *async = to->async - to->before + at;
  *seen = *seen > epoch ? *seen : epoch;
  *async = *async > epoch ? *async : epoch;
}

void emu_clocks_fence(void)
{
  emu_thread *t = emu_now->self;
  emu_clocks_need(t->home);
  t->clock.async[own(t)] = t->clock.seen[own(t)];
  emu_clocks_advance(t);
  changed(t);
}

const uint32_t *emu_clocks_of_group(emu_block *b, int group)
{
  emu_side *s = b->side;
  emu_group *g = &s->group[group];
  if (g->fresh)
    return g->clock.async;
  const emu_thread *t = b->thread + group * EMU_GROUP;
  const unsigned before = g->clock.before;
  uint32_t *all_async = g->clock.async - before, *all_seen = g->clock.seen - before;
  memcpy(all_async, t->clock.async - before, s->clock_size * sizeof *all_async);
  memcpy(all_seen, t->clock.seen - before, s->clock_size * sizeof *all_seen);
  for (int i = 1; i < EMU_GROUP; i++)
    for (unsigned j = 0; j < s->clock_size; j++) {
      uint32_t async = (t[i].clock.async - before)[j], seen = (t[i].clock.seen - before)[j];
      all_async[j] = all_async[j] < async ? all_async[j] : async;
      all_seen[j] = all_seen[j] < seen ? all_seen[j] : seen;
    }
  g->fresh = true;
  return g->clock.async;
}

static emu_me agent(const emu_block *b, unsigned which, uint32_t epoch, const uint32_t *seen)
{
  const emu_me *first = &b->thread[0].me;
  emu_me as = {.seen = seen,
               .threads = b->threads,
               .rank = first->rank,
               .peers = first->peers,
               .stride = first->stride,
               .ended = emu_now->memory->hot.me->ended};
  as.who = first->who >> EMU_THREAD_BITS << EMU_THREAD_BITS | (EMU_THREADS_MAX + which);
  as.stamp = as.who << EMU_EPOCH_BITS | epoch;
  return as;
}

void emu_clocks_access(emu_block *b, unsigned which, uint32_t epoch, const uint32_t *seen, uintptr_t address,
                       uint32_t size, int is_write, uintptr_t pc)
{
  emu_hot *hot = &emu_now->memory->hot;
  emu_me *me = hot->me, as = agent(b, which, epoch, seen);
  hot->me = &as;
  emu_access(hot, address, size, is_write, pc);
  hot->me = me;
}

void emu_clocks_replace(emu_block *b, unsigned which, uint32_t epoch, const uint32_t *async,
                        uintptr_t address, uint32_t size, uintptr_t pc)
{
  emu_hot *hot = &emu_now->memory->hot;
  emu_me *me = hot->me, as = agent(b, which, epoch, async);
  hot->me = &as;
  for (uint32_t at = 0; at < size; at += 2) {
    emu_cell *word = hot->shadow + (address + at - hot->arena) / 4, *cell = word;
    if (word->write >> EMU_TAG_SHIFT == EMU_SPLIT)
      cell = &emu_halves_of(hot, word)->half[at / 2 % 2];
    if (cell->write >> EMU_TAG_SHIFT == EMU_FILLED &&
        (cell->write >> EMU_EPOCH_BITS & EMU_SET) < EMU_THREADS_MAX &&
        !emu_before(hot, cell->write, EMU_ONE, &as))
      emu_report_race(hot, cell, 1, 1, address + at, 2, pc);
  }
  hot->me = me;
}

void emu_clocks_change(emu_block *b, unsigned which, uint32_t epoch, const uint32_t *seen, uintptr_t address,
                       uint32_t size, uintptr_t pc)
{
  emu_hot *hot = &emu_now->memory->hot;
  emu_me *me = hot->me, as = agent(b, which, epoch, seen);
  hot->me = &as;
  for (uint32_t at = 0; at < size; at += 4) {
    const uintptr_t a = address + at;
    if (a - hot->arena < hot->arena_size)
      emu_atomic_cell(hot, hot->shadow + (a - hot->arena) / 4, a, pc);
    else
      emu_report_access(hot, EMU_OUT_OF_BOUNDS, 1, a, 4, pc);
  }
  hot->me = me;
}

/* ---- sets of readers ---- */

enum { POOL = 1 << 22, ENTRIES = EMU_WARPS_MAX + EMU_THREADS_MAX / 8, TABLE = 1 << 14 };

/* Sets are never changed: who reads what a set has read makes a new one, and the next word that goes the same
 * way gets the same one. */
typedef struct known {
  uint64_t old, reader, now;
} known;

static emu_readers *pool;
static uint32_t used;
static known table[TABLE];

void emu_clocks_open(emu_hot *hot)
{
  used = 0;
  memset(table, 0, sizeof table);
  hot->sets = pool;
}

static emu_readers *need_pool(void)
{
  if (!pool) {
    void *p = mmap(NULL, POOL * sizeof *pool, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
      abort();
    pool = p;
    emu_now->memory->hot.sets = pool;
  }
  return pool;
}

/* The set that a stamp stands for, at `to`; how many entries it has. */
static int unfold(uint64_t stamp, const emu_me *me, emu_readers *to)
{
  unsigned span = stamp >> EMU_TAG_SHIFT, thread = stamp >> EMU_EPOCH_BITS & ((1u << EMU_THREAD_BITS) - 1);
  uint32_t epoch = stamp & EMU_EPOCH_MASK;
  if (span == EMU_OF_BLOCK && thread == EMU_SET) {
    const emu_readers *set = need_pool() + epoch;
    memcpy(to, set, set->count * sizeof *set);
    return set->count;
  }
  uint32_t lanes = span == EMU_ONE ? UINT32_C(1) << thread % EMU_WARP : UINT32_MAX;
  if (span != EMU_OF_BLOCK) {
    *to = (emu_readers){lanes, epoch, (uint16_t)(thread / EMU_WARP), 0};
    return 1;
  }
  int warps = (me->threads + EMU_WARP - 1) / EMU_WARP;
  for (int i = 0; i < warps; i++)
    to[i] = (emu_readers){lanes, epoch, (uint16_t)i, 0};
  return warps;
}

/* A reader's latest read stands for its earlier ones. */
static int add(emu_readers *set, int count, unsigned thread, uint32_t epoch)
{
  const uint16_t warp = (uint16_t)(thread / EMU_WARP);
  const uint32_t lane = UINT32_C(1) << thread % EMU_WARP;
  int kept = 0, at = -1;
  for (int i = 0; i < count; i++) {
    emu_readers r = set[i];
    if (r.warp == warp) {
      r.lanes &= ~lane;
      if (r.epoch == epoch) {
        r.lanes |= lane;
        at = kept;
      }
    }
    if (r.lanes)
      set[kept++] = r;
  }
  if (at < 0 && kept < ENTRIES)
    set[kept++] = (emu_readers){lane, epoch, warp, 0};
  return kept;
}

/* Where there is no room for a set the reader alone is kept. */
void emu_clocks_add_reader(emu_cell *cell, const emu_me *me)
{
  uint64_t mix = (cell->read ^ me->stamp * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
  known *k = &table[mix >> 50];
  if (k->old == cell->read && k->reader == me->stamp) {
    cell->read = k->now;
    return;
  }
  emu_readers set[ENTRIES + 1];
  int count = unfold(cell->read, me, set);
  count = add(set, count, me->who & ((1u << EMU_THREAD_BITS) - 1), (uint32_t)(me->stamp & EMU_EPOCH_MASK));
  *k = (known){cell->read, me->stamp, me->stamp};
  if (used + (uint32_t)count <= POOL) {
    set->count = (uint16_t)count;
    memcpy(need_pool() + used, set, (size_t)count * sizeof *set);
    k->now = (uint64_t)EMU_OF_BLOCK << EMU_TAG_SHIFT |
             (me->who >> EMU_THREAD_BITS << EMU_THREAD_BITS | EMU_SET) << EMU_EPOCH_BITS | used;
    used += (uint32_t)count;
  }
  cell->read = k->now;
}
