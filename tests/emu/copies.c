/* copies.c -- copies to shared memory that run on by themselves (cp.async).
 *
 * A copy runs from its issue to the wait of its own thread that covers it. In between its target has the
 * epoch EMU_IN_FLIGHT, so that whoever touches it races with the copy, the issuing thread too; at the wait
 * the target becomes what that thread wrote at that moment, and so others see it after a barrier that follows
 * the wait. The source is read at the issue and again at the wait: a write that the issue had not seen before
 * is a race. When the bytes move is the run's option. A wait covers the groups that were closed before, but
 * for the youngest ones; a copy in no closed group is covered by none. */
#include "shadow.h"
#include "side.h"
#include <stdlib.h>
#include <string.h>

enum { BYTES = 16, WORDS = 4 };

static emu_hot *hot(void)
{
  return &emu_now->memory->hot;
}

static emu_cell *cell_of(uintptr_t address)
{
  return hot()->shadow + (address - hot()->arena) / 4;
}

/* A cell, or those of its halves: how many. */
static int parts_of(emu_cell *cell, emu_cell *part[2])
{
  part[0] = cell;
  if (cell->write >> EMU_TAG_SHIFT != EMU_SPLIT)
    return 1;
  part[0] = emu_halves_of(hot(), cell)->half;
  part[1] = part[0] + 1;
  return 2;
}

static void land(emu_flight *f)
{
  if (f->landed)
    return;
  if (f->from)
    memcpy(f->to, f->from, BYTES);
  else
    memset(f->to, 0, BYTES);
  f->landed = true;
}

void emu_copies_pass(emu_thread *t)
{
  if (emu_now->options->landing != EMU_LAND_RANDOM)
    return;
  for (int i = 0; i < t->flights; i++)
    if (!t->flight[i].landed && emu_grid_random() % 4 == 0)
      land(&t->flight[i]);
}

static emu_flight *add(emu_thread *t)
{
  if (t->flights == t->flight_room) {
    int room = t->flight_room ? 2 * t->flight_room : 16;
    emu_flight *more = realloc(t->flight, (size_t)room * sizeof *more);
    if (!more)
      abort();
    t->flight = more;
    t->flight_room = room;
  }
  return &t->flight[t->flights++];
}

/* What the present thread has just written is written later, nobody knows when. */
static void mark_in_flight(const emu_thread *t, const char *to)
{
  emu_cell *cell = cell_of((uintptr_t)to);
  for (int i = 0; i < WORDS; i++)
    if (cell[i].write == ((uint64_t)EMU_FILLED << EMU_TAG_SHIFT | t->me.stamp))
      cell[i].write |= EMU_IN_FLIGHT;
}

void emu_copies_begin(char *to, const char *from, int real, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_now->report->copies++;
  if (real)
    emu_access(hot(), (uintptr_t)from, BYTES, 0, pc);
  emu_access(hot(), (uintptr_t)to, BYTES, 1, pc);
  mark_in_flight(t, to);
  emu_copies_pass(t);
  emu_flight *f = add(t);
  *f = (emu_flight){.to = to,
                    .from = real ? from : NULL,
                    .pc = pc,
                    .group = t->groups,
                    .stamp = t->me.stamp,
                    .seen_block = t->me.seen_block,
                    .seen_warp = t->me.seen_warp};
  if (emu_now->options->landing == EMU_LAND_EARLY)
    land(f);
  /* What the thread itself does from here on is later than the issue. */
  emu_clocks_advance(t);
}

void emu_copies_commit(void)
{
  emu_now->self->groups++;
}

/* The source has not changed since the issue, and is read up to now. */
static void check_source(const emu_thread *t, const emu_flight *f)
{
  const emu_me then = {.who = t->me.who,
                       .ended = t->me.ended,
                       .stamp = f->stamp,
                       .seen_block = f->seen_block,
                       .seen_warp = f->seen_warp,
                       .seen = t->me.seen,
                       .threads = t->me.threads};
  uintptr_t a = (uintptr_t)f->from;
  for (int i = 0; i < WORDS; i++, a += 4) {
    emu_cell *cell = cell_of(a), *part[2];
    for (int j = parts_of(cell, part); j-- > 0;)
      if (!emu_before(hot(), part[j]->write, EMU_ONE, &then))
        emu_report_race(hot(), part[j], 1, 0, a, BYTES, f->pc);
    emu_read_cell(hot(), cell, a, BYTES, f->pc);
  }
}

static void finish(const emu_thread *t, emu_flight *f)
{
  land(f);
  if (f->from)
    check_source(t, f);
  emu_cell *cell = cell_of((uintptr_t)f->to), *part[2];
  const uint64_t done = (uint64_t)EMU_FILLED << EMU_TAG_SHIFT | t->me.stamp;
  for (int i = 0; i < WORDS; i++)
    for (int j = parts_of(&cell[i], part); j-- > 0;)
      if (part[j]->write == (done | EMU_IN_FLIGHT)) {
        part[j]->write = done;
        part[j]->read = 0;
      }
}

void emu_copies_wait(int left)
{
  emu_thread *t = emu_now->self;
  int n = 0;
  while (n < t->flights && t->flight[n].group + (unsigned)left < t->groups)
    finish(t, &t->flight[n++]);
  memmove(t->flight, t->flight + n, (size_t)(t->flights - n) * sizeof *t->flight);
  t->flights -= n;
}

void emu_copies_end(emu_thread *t)
{
  for (int i = 0; i < t->flights; i++) {
    emu_event e = {.kind = EMU_NEVER_AWAITED,
                   .is_write = 1,
                   .address = (uintptr_t)t->flight[i].to,
                   .size = BYTES,
                   .pc = t->flight[i].pc};
    emu_findings_add(&e);
  }
  t->flights = 0;
}
