/* signals.c -- barriers of 8 bytes in shared memory, whose phases end when all arrivals and all announced
 * bytes have come; the block's 16 named barriers; registers that move between warpgroups.
 *
 * A thread that waits for a phase does not run until one has ended, and then asks again. Who has seen a phase
 * end knows what those knew who arrived in it, and that the copies for it are done. Other blocks of a cluster
 * may arrive there, too, by copies as well. */
#include "side.h"
#include "shadow.h"
#include <stdio.h>
#include <string.h>

static emu_cell *cell_of(const emu_block *b, uint32_t at)
{
  const emu_hot *hot = &emu_now->memory->hot;
  return hot->shadow + ((uintptr_t)b->shared + (at - EMU_SHARED_BASE) - hot->arena) / 4;
}

static emu_signal *find(const emu_block *b, uint32_t at)
{
  emu_side *s = b->side;
  for (int i = 0; s && s->in_use && i < s->signals; i++)
    if (s->signal[i].at == at)
      return &s->signal[i];
  return NULL;
}

void emu_signals_init(uint32_t at, int32_t count, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_clocks_need(t->home);
  emu_side *s = t->home->side;
  emu_signal *one = find(t->home, at);
  if (count <= 0)
    emu_findings_misuse("a barrier that nobody is to arrive at", pc);
  if (!one && s->signals == EMU_SIGNALS)
    emu_findings_misuse("more barriers than the emulator has room for", pc);
  if (!one)
    one = &s->signal[s->signals++];
  const emu_clock gathered = one->gathered, done = one->done;
  *one = (emu_signal){.at = at,
                      .stamp = cell_of(t->home, at)->write,
                      .by = (unsigned)t->me.thread,
                      .count = count,
                      .lacks = count,
                      .gathered = gathered,
                      .done = done};
}

void emu_signals_fence(void)
{
  emu_thread *t = emu_now->self;
  emu_clocks_need(t->home);
  emu_side *s = t->home->side;
  for (int i = 0; i < s->signals; i++)
    if (s->signal[i].by == (unsigned)t->me.thread)
      s->signal[i].fenced = true;
}

emu_signal *emu_signals_at(emu_block *b, uint32_t at, uintptr_t pc)
{
  emu_hot *hot = &emu_now->memory->hot;
  emu_signal *s = find(b, at);
  if (!s)
    emu_findings_misuse("no barrier was initialised there", pc);
  const emu_cell *cell = cell_of(b, at);
  if (cell->write != s->stamp || cell[1].write != s->stamp)
    emu_findings_misuse("something else was written over this barrier", pc);
  if (!emu_before(hot, cell->write, EMU_ONE, &emu_now->self->me))
    emu_report_race(hot, cell, 1, 0, (uintptr_t)b->shared + (at - EMU_SHARED_BASE), 8, pc);
  return s;
}

static unsigned agent_of(const emu_block *b, const emu_signal *s)
{
  return (unsigned)(s - b->side->signal);
}

/* What of a barrier's copies is done: those before the oldest that is under way. */
static uint32_t loads_done(const emu_block *b, const emu_signal *s)
{
  const emu_side *side = b->side;
  for (int i = 0; i < side->boxes; i++)
    if (side->box[i].signal == s)
      return side->box[i].epoch;
  return s->loads + 1;
}

static void settle(emu_block *b, emu_signal *s)
{
  if (s->lacks || s->bytes)
    return;
  const emu_clock last = s->done;
  s->done = s->gathered;
  s->gathered = last;
  emu_clocks_clear(b->side, &s->gathered);
  unsigned agent = agent_of(b, s);
  s->done.seen[agent] = s->done.async[agent] = loads_done(b, s);
  s->lacks = s->count;
  s->phase++;
  for (int i = 0; i < b->threads; i++)
    if (b->thread[i].waits == EMU_WAIT_SIGNAL && b->thread[i].waits_for == s->at)
      emu_grid_resume(&b->thread[i]);
}

static void arrive(emu_block *b, uint32_t at, int32_t bytes, uintptr_t pc)
{
  emu_signal *s = emu_signals_at(b, at, pc);
  emu_clocks_release(emu_now->self, &s->gathered);
  s->bytes += bytes > 0 ? bytes : 0;
  s->lacks--;
  settle(b, s);
}

void emu_signals_arrive(uint32_t at, int32_t bytes, uintptr_t pc)
{
  arrive(emu_now->self->home, at, bytes, pc);
}

void emu_signals_arrive_there(uint32_t at, uintptr_t pc)
{
  emu_clocks_need(emu_now->self->home);
  emu_block *b = emu_clusters_block(&at, pc);
  arrive(b, at, -1, pc);
}

void emu_signals_came(emu_block *b, emu_signal *s, int64_t bytes)
{
  s->bytes -= bytes;
  settle(b, s);
}

int emu_signals_passed(uint32_t at, uint32_t parity, int waits, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_signal *s = emu_signals_at(t->home, at, pc);
  if (waits && (s->phase & 1) == (parity & 1)) {
    t->waits_for = at;
    t->parity = parity;
    emu_grid_pause(EMU_WAIT_SIGNAL, pc);
    emu_grid_leave();
  }
  if ((s->phase & 1) == (parity & 1))
    return 0;
  emu_clocks_acquire(t, &s->done);
  unsigned agent = agent_of(t->home, s);
  if (s->done.seen[agent] > s->awaited + 1)
    s->awaited = s->done.seen[agent] - 1;
  return 1;
}

/* ---- named barriers ---- */

void emu_signals_named(int name, int threads, int waits, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_block *b = t->home;
  if (name <= 0 || name >= EMU_NAMES)
    emu_findings_misuse(
        name ? "named barriers have the numbers 1 to 15" : "barrier 0 is that of the whole block", pc);
  if (threads <= 0 || threads % EMU_WARP)
    emu_findings_misuse("a named barrier is for whole warps", pc);
  emu_clocks_need(b);
  emu_name *n = &b->side->name[name];
  if (n->come && n->threads != threads)
    emu_findings_misuse("others wait at this barrier for another number of threads", pc);
  n->threads = threads;
  n->come++;
  emu_clocks_release(t, &n->gathered);
  emu_boxes_pass(b);
  if (waits) {
    t->waits_for = (uint32_t)name;
    emu_grid_pause(EMU_WAIT_NAMED, pc);
  }
  if (n->come == threads) {
    emu_now->report->barriers++;
    for (int i = 0; i < b->threads; i++)
      if (b->thread[i].waits == EMU_WAIT_NAMED && b->thread[i].waits_for == (uint32_t)name) {
        emu_clocks_acquire(&b->thread[i], &n->gathered);
        emu_grid_resume(&b->thread[i]);
      }
    n->come = 0;
    emu_clocks_clear(b->side, &n->gathered);
  }
  if (waits)
    emu_grid_leave();
}

/* ---- registers ---- */

enum { REGISTERS = 65536, REGISTERS_MOST = 256, REGISTERS_LEAST = 24, REGISTERS_STEP = 8 };

/* What a thread has when the block begins. */
static int share(const emu_block *b)
{
  int each = REGISTERS / b->threads / REGISTERS_STEP * REGISTERS_STEP;
  return each < REGISTERS_MOST ? each : REGISTERS_MOST;
}

void emu_signals_registers(int count, int more, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_block *b = t->home;
  emu_clocks_need(b);
  int warp = t->me.thread / EMU_WARP;
  if (count < REGISTERS_LEAST || count > REGISTERS_MOST || count % REGISTERS_STEP)
    emu_findings_misuse("a thread has 24 to 256 registers, in steps of 8", pc);
  if (!more && count > share(b))
    emu_findings_misuse("this is more than the thread has", pc);
  b->side->moved = true;
  b->side->moves[warp]++;
  b->side->registers[warp] = count;
  b->side->moved_pc = pc;
}

static void check_registers(const emu_block *b)
{
  const emu_side *s = b->side;
  int sum = 0;
  for (int warp = 0; warp < b->threads / EMU_WARP; warp++) {
    int first = warp / 4 * 4;
    if (s->moves[warp] % EMU_WARP || s->moves[warp] != s->moves[first] ||
        s->registers[warp] != s->registers[first])
      emu_findings_misuse("not all threads of a warpgroup call for these registers", s->moved_pc);
    sum += EMU_WARP * (s->moves[warp] ? s->registers[warp] : share(b));
  }
  /* 384 threads begin with 168 each, 64512 in all: who wants the rest of the SM's 65536 waits for ever. */
  if (sum > b->threads * share(b))
    emu_findings_misuse("the block's threads take more registers than it began with", s->moved_pc);
}

/* ---- words and the end ---- */

void emu_signals_describe(const emu_thread *t, char *text, size_t room)
{
  const emu_signal *s = t->waits == EMU_WAIT_SIGNAL ? find(t->home, t->waits_for) : NULL;
  if (s)
    snprintf(
        text, room,
        "the barrier at byte %u of shared memory, parity %u; its phase %u lacks %d arrivals and %lld bytes",
        s->at - EMU_SHARED_BASE, t->parity, s->phase, s->lacks, (long long)s->bytes);
  else if (t->waits == EMU_WAIT_NUMBER)
    snprintf(text, room, "a number in device memory");
  else
    snprintf(text, room, "the named barrier %u, at which %d of %d threads are", t->waits_for,
             t->home->side->name[t->waits_for].come, t->home->side->name[t->waits_for].threads);
}

void emu_signals_end(emu_block *b)
{
  emu_side *side = b->side;
  if (!side || !side->in_use)
    return;
  for (int i = 0; i < side->signals; i++) {
    const emu_signal *s = &side->signal[i];
    emu_event e = {.kind = EMU_NEVER_AWAITED,
                   .is_write = 1,
                   .address = (uintptr_t)b->shared + (s->at - EMU_SHARED_BASE),
                   .pc = s->load_pc};
    if (s->loads > s->awaited)
      emu_findings_add(&e);
  }
  if (side->moved)
    check_registers(b);
}
