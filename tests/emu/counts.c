/* counts.c -- numbers in device memory by which blocks wait for each other, of one launch or of two that
 * overlap, and what that puts in order.
 *
 * Who counts one up tells all it has seen of its own block. Who has waited for that number, and who of its
 * block has seen it wait, comes after that. What the first had learned of third blocks is not passed on. Of a
 * number that atomics change it is not kept who did: to have waited for one that the last of these blocks
 * counts up is enough. */
#include "shadow.h"
#include "side.h"
#include <stdlib.h>
#include <string.h>

/* A thread counted up. */
typedef struct count_up {
  struct count_up *earlier; /* in the same bucket */
  const int32_t *number;
  uint64_t block;  /* counted over all launches */
  uint32_t seen[]; /* the thread's clock */
} count_up;

/* A thread has waited. */
typedef struct arrival {
  struct arrival *earlier; /* in the same bucket */
  uint64_t block;
  unsigned thread;
  uint32_t epoch;
  const count_up *latest; /* of its number, as it was then */
} arrival;

enum { BUCKETS = 1 << 10 };
static count_up *counted[BUCKETS]; /* by number, the latest first */
static arrival *arrived[BUCKETS];  /* by block */

static void *take(size_t bytes)
{
  void *p = malloc(bytes);
  if (!p)
    abort();
  return p;
}

void emu_counts_open(emu_hot *hot)
{
  for (int i = 0; i < BUCKETS; i++) {
    for (count_up *c; (c = counted[i]) != NULL; free(c))
      counted[i] = c->earlier;
    for (arrival *a; (a = arrived[i]) != NULL; free(a))
      arrived[i] = a->earlier;
  }
  hot->any_counted = 0;
}

static unsigned bucket_of(const int32_t *number)
{
  return (uintptr_t)number / sizeof *number % BUCKETS;
}

static const count_up *latest_of(const int32_t *number)
{
  const count_up *c = counted[bucket_of(number)];
  while (c && c->number != number)
    c = c->earlier;
  return c;
}

void emu_counts_up(const int32_t *number)
{
  emu_thread *t = emu_now->self;
  emu_clocks_need(t->home);
  const size_t bytes = t->home->side->stride * sizeof(uint32_t);
  count_up **last = &counted[bucket_of(number)], *c = take(sizeof *c + bytes);
  *c = (count_up){*last, number, t->me.who >> EMU_THREAD_BITS};
  memcpy(c->seen, t->clock.seen, bytes);
  *last = c;
  emu_clocks_advance(t);
  for (int i = 0; i < emu_now->resident; i++)
    for (int x = 0; x < emu_now->block[i].threads; x++)
      if (emu_now->block[i].active && emu_now->block[i].thread[x].waits == EMU_WAIT_NUMBER)
        emu_grid_resume(&emu_now->block[i].thread[x]);
}

void emu_counts_await(const int32_t *number, int32_t n, int or_more, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  while (or_more ? *number < n : *number != n) {
    emu_boxes_pass(t->home);
    emu_grid_pause(EMU_WAIT_NUMBER, pc);
    emu_grid_leave();
  }
  emu_clocks_need(t->home);
  const uint64_t block = t->me.who >> EMU_THREAD_BITS;
  arrival **last = &arrived[block % BUCKETS], *a = take(sizeof *a);
  *a = (arrival){*last, block, (unsigned)t->me.thread, (uint32_t)(t->me.stamp & EMU_EPOCH_MASK),
                 latest_of(number)};
  *last = a;
  emu_now->memory->hot.any_counted = 1;
}

int emu_counts_before(uint64_t who, uint64_t epoch, const emu_me *me)
{
  const uint64_t from = who >> EMU_THREAD_BITS, to = me->who >> EMU_THREAD_BITS;
  const bool is_atomic = (who & EMU_SET) == EMU_ATOMIC;
  const unsigned self = me->who & EMU_SET, at = is_atomic ? 0 : emu_seen_at(who & EMU_SET);
  if ((who & EMU_SET) == EMU_SET)
    return 0;
  for (const arrival *a = arrived[to % BUCKETS]; a; a = a->earlier) {
    if (a->block != to || (a->thread != self && a->epoch >= me->seen[emu_seen_at(a->thread)]))
      continue;
    for (const count_up *c = a->latest; c; c = c->earlier)
      if (c->number == a->latest->number && c->block == from && (is_atomic || epoch < c->seen[at]))
        return 1;
  }
  return 0;
}
