/* shadow.h -- what an access does to the shadow of its bytes: it is checked against all that came before, and
 * leaves its own mark.
 *
 * Goes in: the state, address and size, before the access is made. Comes out: nothing, or an event. The rules
 * of order are those of hot.h. Included by what is linked into each kernel and by copies.c; inline, for it is
 * most of the time of a run. */
#ifndef EMU_SHADOW_H
#define EMU_SHADOW_H

#include "hot.h"
#include <stddef.h>

enum { EMU_BLOCK_SHIFT = EMU_EPOCH_BITS + EMU_THREAD_BITS };
#define EMU_BLOCK_MASK (((uint64_t)1 << EMU_BLOCK_BITS) - 1)
#define EMU_WHO_MASK   (((uint64_t)1 << (EMU_BLOCK_BITS + EMU_THREAD_BITS)) - 1)
#define EMU_STAMP_MASK (((uint64_t)1 << EMU_TAG_SHIFT) - 1)
/* The bits in which two stamps of one block and epoch agree. */
#define EMU_BLOCK_EPOCH (EMU_BLOCK_MASK << EMU_BLOCK_SHIFT | EMU_EPOCH_MASK)

/* Where the entry of a thread or an agent lies in a clock. */
static inline unsigned emu_seen_at(unsigned thread)
{
  return thread < EMU_THREADS_MAX ? thread + EMU_AGENTS : thread - EMU_THREADS_MAX;
}

static inline int emu_seen_lanes(const uint32_t *seen, unsigned warp, uint32_t lanes, uint64_t epoch)
{
  seen += emu_seen_at(warp * EMU_WARP);
  for (; lanes; lanes &= lanes - 1)
    if (epoch >= seen[__builtin_ctz(lanes)])
      return 0;
  return 1;
}

/* emu_before for the accesses of one block, by the entries that a clock has for it. */
__attribute__((noinline, unused)) static int emu_before_by_clock(const emu_hot *hot, uint64_t who,
                                                                 uint64_t epoch, unsigned span, int threads,
                                                                 const uint32_t *seen)
{
  unsigned thread = who & ((1u << EMU_THREAD_BITS) - 1);
  if (span == EMU_ONE)
    return epoch < seen[emu_seen_at(thread)];
  if (span == EMU_OF_WARP)
    return emu_seen_lanes(seen, thread / EMU_WARP, UINT32_MAX, epoch);
  if (thread == EMU_SET) {
    const emu_readers *set = hot->sets + epoch;
    for (int i = 0; i < set->count; i++)
      if (!emu_seen_lanes(seen, set[i].warp, set[i].lanes, set[i].epoch))
        return 0;
    return 1;
  }
  for (int i = 0; i < threads; i++)
    if (epoch >= seen[emu_seen_at((unsigned)i)])
      return 0;
  return 1;
}

/* Whether the accesses that a stamp stands for came before the present of thread `me`. `span` says of how
 * many threads they are: EMU_ONE ... EMU_OF_GRID. */
static inline int emu_before(const emu_hot *hot, uint64_t stamp, unsigned span, const emu_me *me)
{
  uint64_t who = stamp >> EMU_EPOCH_BITS & EMU_WHO_MASK;
  uint64_t block = who >> EMU_THREAD_BITS;
  if (block < me->ended)
    return 1;
  if (__builtin_expect(me->seen != NULL, 0)) {
    const uint64_t epoch = stamp & EMU_EPOCH_MASK;
    const int64_t apart = (int64_t)(block - (me->who >> EMU_THREAD_BITS));
    /* Which thread changed a number as one is not kept: of this block's, too, a count alone can tell. */
    if (apart >= -me->rank && apart < me->peers - me->rank && (who & EMU_SET) != EMU_ATOMIC)
      return span != EMU_OF_GRID &&
             emu_before_by_clock(hot, who, epoch, span, me->threads, me->seen + apart * me->stride);
    return hot->any_counted && span == EMU_ONE && hot->counted_before(who, epoch, me);
  }
  if (span == EMU_ONE && who == me->who)
    return (stamp & EMU_STAMP_MASK) <= me->stamp;
  if (span == EMU_OF_GRID || block != me->who >> EMU_THREAD_BITS)
    return 0;
  uint64_t epoch = stamp & EMU_EPOCH_MASK;
  if (epoch < me->seen_block)
    return 1;
  return span != EMU_OF_BLOCK && who / EMU_WARP == me->who / EMU_WARP && epoch < me->seen_warp;
}

static inline void emu_report_access(emu_hot *hot, emu_kind kind, int is_write, uintptr_t address,
                                     uint32_t size, uintptr_t pc)
{
  emu_event event = {.kind = kind, .is_write = is_write, .address = address, .size = size, .pc = pc};
  hot->found(&event);
}

static inline void emu_report_race(emu_hot *hot, const emu_cell *cell, int with_write, int is_write,
                                   uintptr_t address, uint32_t size, uintptr_t pc)
{
  emu_event event = {.kind = EMU_RACE,
                     .is_write = is_write,
                     .address = address,
                     .size = size,
                     .pc = pc,
                     .other = with_write ? cell->write : cell->read,
                     .other_pc = with_write ? cell->write_pc : cell->read_pc,
                     .other_is_write = with_write};
  hot->found(&event);
}

/* Adds a reader to a cell: readers that came before are forgotten (who comes after this one comes after
 * them), readers at the same time widen the set. */
static inline void emu_add_reader(const emu_hot *hot, emu_cell *cell, const emu_me *me, uintptr_t pc)
{
  uint64_t old = cell->read;
  unsigned span = old >> EMU_TAG_SHIFT;
  cell->read_pc = (uint32_t)(pc - hot->image);
  if (emu_before(hot, old, span, me)) {
    cell->read = me->stamp;
    return;
  }
  uint64_t old_who = old >> EMU_EPOCH_BITS & EMU_WHO_MASK;
  if (me->seen && span != EMU_OF_GRID && old_who >> EMU_THREAD_BITS == me->who >> EMU_THREAD_BITS) {
    hot->add_reader(cell, me);
    return;
  }
  uint64_t epoch = me->stamp & EMU_EPOCH_MASK;
  if ((old & EMU_EPOCH_MASK) > epoch)
    epoch = old & EMU_EPOCH_MASK;
  if (old_who >> EMU_THREAD_BITS != me->who >> EMU_THREAD_BITS)
    span = EMU_OF_GRID;
  else if (span < EMU_OF_BLOCK)
    span = old_who / EMU_WARP == me->who / EMU_WARP ? EMU_OF_WARP : EMU_OF_BLOCK;
  cell->read = (uint64_t)span << EMU_TAG_SHIFT | me->who << EMU_EPOCH_BITS | epoch;
}

static inline emu_halves *emu_halves_of(const emu_hot *hot, const emu_cell *cell)
{
  return &hot->halves[cell->write & EMU_STAMP_MASK];
}

/* A cell becomes that of one whole word again. */
static inline void emu_join(emu_hot *hot, emu_cell *cell, emu_cell whole)
{
  uint32_t index = (uint32_t)(cell->write & EMU_STAMP_MASK);
  hot->halves[index].of = NULL;
  hot->halves[index].next = hot->halves[0].next;
  hot->halves[0].next = index;
  *cell = whole;
}

static void emu_both_halves(emu_hot *hot, emu_cell *cell, int is_write, uintptr_t a, uint32_t size,
                            uintptr_t pc);

static inline void emu_read_cell(emu_hot *hot, emu_cell *cell, uintptr_t a, uint32_t size, uintptr_t pc)
{
  const emu_me *me = hot->me;
  /* A write would have taken this thread's mark away: all was checked when it was set. */
  if (cell->read == me->stamp)
    return;
  unsigned tag = cell->write >> EMU_TAG_SHIFT;
  if (__builtin_expect(tag != EMU_FILLED, 0)) {
    if (tag == EMU_SPLIT) {
      emu_both_halves(hot, cell, 0, a, size, pc);
      return;
    }
    emu_report_access(hot, tag == EMU_EMPTY ? EMU_UNINITIALISED : EMU_OUT_OF_BOUNDS, 0, a, size, pc);
    if (tag == EMU_CLOSED)
      return;
  }
  if (__builtin_expect(!emu_before(hot, cell->write, EMU_ONE, me), 0))
    emu_report_race(hot, cell, 1, 0, a, size, pc);
  /* Most reads: of inputs by many blocks, of shared memory by a whole block. The set holds this one already.
   */
  uint64_t other = cell->read ^ me->stamp;
  unsigned span = cell->read >> EMU_TAG_SHIFT;
  if (span == EMU_OF_GRID && (cell->read >> EMU_BLOCK_SHIFT & EMU_BLOCK_MASK) >= hot->first_block)
    return;
  if (span == EMU_OF_BLOCK && (other & EMU_BLOCK_EPOCH) == 0 && !me->seen)
    return;
  emu_add_reader(hot, cell, me, pc);
}

static inline void emu_write_cell(emu_hot *hot, emu_cell *cell, uintptr_t a, uint32_t size, uintptr_t pc)
{
  const emu_me *me = hot->me;
  unsigned tag = cell->write >> EMU_TAG_SHIFT;
  if (__builtin_expect(tag != EMU_EMPTY && tag != EMU_FILLED, 0)) {
    if (tag == EMU_SPLIT)
      emu_both_halves(hot, cell, 1, a, size, pc);
    else
      emu_report_access(hot, EMU_OUT_OF_BOUNDS, 1, a, size, pc);
    return;
  }
  if (__builtin_expect(!emu_before(hot, cell->write, EMU_ONE, me), 0))
    emu_report_race(hot, cell, 1, 1, a, size, pc);
  if (__builtin_expect(!emu_before(hot, cell->read, cell->read >> EMU_TAG_SHIFT, me), 0))
    emu_report_race(hot, cell, 0, 1, a, size, pc);
  cell->write = (uint64_t)EMU_FILLED << EMU_TAG_SHIFT | me->stamp;
  cell->read = 0;
  cell->write_pc = (uint32_t)(pc - hot->image);
}

/* Changes of one number by one another's leave are no race: none of them is between another's read and write.
 * A number that this thread wrote last stays its own, and of that time: what it reads there later comes
 * behind its changes, and others, who have waited for what it wrote, may change it, too. */
static inline void emu_atomic_cell(emu_hot *hot, emu_cell *cell, uintptr_t a, uintptr_t pc)
{
  const emu_me *me = hot->me;
  const uint64_t atomic = (uint64_t)EMU_FILLED << EMU_TAG_SHIFT |
                          (me->who >> EMU_THREAD_BITS << EMU_THREAD_BITS | EMU_ATOMIC) << EMU_EPOCH_BITS |
                          (EMU_EPOCH_MASK - 1);
  if (cell->write >> EMU_TAG_SHIFT != EMU_FILLED) {
    emu_report_access(hot, cell->write >> EMU_TAG_SHIFT == EMU_EMPTY ? EMU_UNINITIALISED : EMU_OUT_OF_BOUNDS,
                      0, a, 4, pc);
    return;
  }
  if ((cell->write >> EMU_EPOCH_BITS & EMU_SET) != EMU_ATOMIC && !emu_before(hot, cell->write, EMU_ONE, me))
    emu_report_race(hot, cell, 1, 1, a, 4, pc);
  if (!emu_before(hot, cell->read, cell->read >> EMU_TAG_SHIFT, me))
    emu_report_race(hot, cell, 0, 1, a, 4, pc);
  if ((cell->write >> EMU_EPOCH_BITS & EMU_WHO_MASK) != me->who)
    cell->write = atomic;
  cell->read = 0;
  cell->write_pc = (uint32_t)(pc - hot->image);
}

static inline void emu_touch_cell(emu_hot *hot, emu_cell *cell, int is_write, uintptr_t a, uint32_t size,
                                  uintptr_t pc)
{
  if (is_write)
    emu_write_cell(hot, cell, a, size, pc);
  else
    emu_read_cell(hot, cell, a, size, pc);
}

/* An access to the whole of a word whose cell is split. */
__attribute__((noinline, unused)) static void emu_both_halves(emu_hot *hot, emu_cell *cell, int is_write,
                                                              uintptr_t a, uint32_t size, uintptr_t pc)
{
  emu_halves *h = emu_halves_of(hot, cell);
  for (int i = 0; i < 2; i++)
    emu_touch_cell(hot, &h->half[i], is_write, a + 2 * (unsigned)i, size, pc);
  if (is_write && h->half[0].write == h->half[1].write)
    emu_join(hot, cell, h->half[0]);
}

/* An access that begins or ends in the middle of a word. */
__attribute__((noinline, unused)) static void emu_access_parts(emu_hot *hot, uint64_t offset, uint32_t size,
                                                               int is_write, uintptr_t pc)
{
  uint64_t half = offset / 2, last = (offset + size - 1) / 2;
  while (half <= last) {
    emu_cell *cell = hot->shadow + half / 2;
    uintptr_t a = hot->arena + 2 * half;
    if (half % 2 == 0 && half < last) {
      emu_touch_cell(hot, cell, is_write, a, size, pc);
      half += 2;
      continue;
    }
    unsigned tag = cell->write >> EMU_TAG_SHIFT;
    if (tag == EMU_EMPTY || tag == EMU_FILLED)
      hot->split(cell);
    emu_cell *part = tag == EMU_CLOSED ? cell : &emu_halves_of(hot, cell)->half[half % 2];
    emu_touch_cell(hot, part, is_write, a, size, pc);
    half++;
  }
}

/* An address outside the arena: a thread's own stack is its registers, constants and arguments may be read.
 */
static inline void emu_access_outside(emu_hot *hot, uintptr_t a, uint32_t size, int is_write, uintptr_t pc)
{
  const emu_me *me = hot->me;
  if (a - me->stack < me->stack_size) {
    if (__builtin_expect(a < me->last && a + size > me->known, 0))
      hot->registers(a, size, is_write, pc);
    return;
  }
  if (!is_write && (a - hot->image < hot->image_size || a - hot->call < hot->call_size))
    return;
  emu_report_access(hot, EMU_OUT_OF_BOUNDS, is_write, a, size, pc);
}

static inline void emu_count_access(emu_hot *hot, int is_write, uintptr_t a, uint32_t size, uintptr_t pc)
{
  if (__builtin_expect(++hot->accesses > hot->budget, 0))
    emu_report_access(hot, EMU_ENDLESS, is_write, a, size, pc);
}

static inline void emu_access(emu_hot *hot, uintptr_t a, uint32_t size, int is_write, uintptr_t pc)
{
  uint64_t offset = a - hot->arena;
  if (__builtin_expect(offset >= hot->arena_size, 0)) {
    emu_access_outside(hot, a, size, is_write, pc);
    return;
  }
  emu_count_access(hot, is_write, a, size, pc);
  if (__builtin_expect(((offset | size) & 3) != 0, 0)) {
    emu_access_parts(hot, offset, size, is_write, pc);
    return;
  }
  emu_cell *cell = hot->shadow + offset / 4, *last = cell + size / 4;
  do {
    emu_touch_cell(hot, cell, is_write, a, size, pc);
    a += 4;
  } while (++cell < last);
}

#endif
