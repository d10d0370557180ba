/* findings.c -- what was found, from the event in the running kernel to a sentence with template lines.
 *
 * While a kernel runs an event is only noted, once per kind and place; the search for lines comes at the end.
 * Noting runs on a kernel thread's own small stack. */
#include "side.h"
#include "shadow.h"
#include <stdio.h>
#include <string.h>

/* ORDER KIND */
static const char *const kinds[EMU_KIND_COUNT] = {
    "race",
    "out of bounds",
    "uninitialised read",
    "misaligned access",
    "divergent barrier",
    "missing lanes",
    "register array out of bounds",
    "arithmetic",
    "endless",
    "padding overwritten",
    "copy never awaited",
    "deadlock",
    "unfenced",
    "registers of a running product",
    "misuse",
};

/* After so many events a kernel is not worth running on. */
enum { EVENTS_MAX = 20000 };

const char *emu_kind_name(emu_kind kind)
{
  return (unsigned)kind < EMU_KIND_COUNT ? kinds[kind] : "unknown";
}

/* Whether the access itself would crash the host, or go on for ever. */
static bool is_fatal(const emu_event *e)
{
  const emu_hot *hot = &emu_now->memory->hot;
  if (e->kind == EMU_OUT_OF_BOUNDS)
    return !e->in_shared && e->address - hot->arena >= hot->arena_size;
  return e->kind == EMU_MISALIGNED || e->kind == EMU_REGISTER_BOUNDS || e->kind == EMU_ARITHMETIC ||
         e->kind == EMU_ENDLESS || e->kind == EMU_MISUSE;
}

static emu_raw *find(const emu_event *e, uint32_t pc)
{
  emu_grid *g = emu_now;
  for (int i = 0; i < g->raws; i++) {
    emu_raw *r = &g->raw[i];
    if (r->event.kind == e->kind && r->event.is_write == e->is_write && r->pc == pc &&
        r->event.file == e->file && r->event.line == e->line && r->event.words == e->words &&
        (e->kind != EMU_DEADLOCK || r->event.address == e->address))
      return r;
  }
  return NULL;
}

static emu_raw *add(const emu_event *e, uint32_t pc, uint64_t me)
{
  emu_grid *g = emu_now;
  emu_raw *r = find(e, pc);
  if (r) {
    r->count++;
    return NULL;
  }
  if (g->raws == EMU_FINDINGS)
    return NULL;
  r = &g->raw[g->raws++];
  *r = (emu_raw){.event = *e, .pc = pc, .other_pc = e->other_pc, .me = me, .count = 1};
  r->first_block = g->memory->hot.first_block;
  snprintf(r->entry, sizeof r->entry, "%s", g->entry_name);
  if (e->in_shared)
    snprintf(r->where, sizeof r->where, "shared memory at byte %d, outside its elements",
             (int)(uint32_t)e->address);
  else
    emu_memory_describe(g->memory, e->address, r->where, sizeof r->where);
  return r;
}

/* The stamp of one reader out of a set, of one that the present access has not seen. */
static uint64_t one_of(uint64_t stamp, const emu_hot *hot)
{
  const uint64_t block = stamp >> (EMU_EPOCH_BITS + EMU_THREAD_BITS) & EMU_BLOCK_MASK;
  if (stamp >> EMU_TAG_SHIFT != EMU_OF_BLOCK || (stamp >> EMU_EPOCH_BITS & EMU_SET) != EMU_SET)
    return stamp;
  const emu_readers *set = hot->sets + (stamp & EMU_EPOCH_MASK);
  for (int i = 0; i < set->count; i++)
    for (unsigned lane = 0; lane < EMU_WARP; lane++) {
      unsigned thread = set[i].warp * (unsigned)EMU_WARP + lane;
      if (set[i].lanes >> lane & 1 && set[i].epoch >= hot->me->seen[emu_seen_at(thread)])
        return (block << EMU_THREAD_BITS | thread) << EMU_EPOCH_BITS | set[i].epoch;
    }
  return stamp;
}

/* A copy or product that reads or writes over what a thread wrote races with it or is just missing a fence.
 */
static void look_closer(emu_event *e)
{
  const emu_hot *hot = &emu_now->memory->hot;
  if (e->kind != EMU_RACE || !hot->me->seen)
    return;
  unsigned me = hot->me->who & EMU_SET, other = e->other >> EMU_EPOCH_BITS & EMU_SET;
  if (!e->other_is_write)
    e->other = one_of(e->other, hot);
  if (me < EMU_THREADS_MAX || !e->other_is_write || other >= EMU_THREADS_MAX)
    return;
  const emu_thread *self = emu_now->self;
  emu_me as = *hot->me;
  as.seen = me - EMU_THREADS_MAX >= EMU_AGENT_PRODUCTS && me - EMU_THREADS_MAX < EMU_AGENT_STORES
                ? self->home->side->group[self->me.thread / EMU_GROUP].clock.seen
                : self->clock.seen + (hot->me->rank - self->me.rank) * (ptrdiff_t)hot->me->stride;
  if (emu_before(hot, e->other, EMU_ONE, &as))
    e->kind = EMU_UNFENCED;
}

void emu_findings_misuse(const char *words, uintptr_t pc)
{
  const emu_event e = {.kind = EMU_MISUSE, .pc = pc, .words = words};
  emu_findings_add(&e);
}

void emu_findings_unfenced(const char *words, uintptr_t pc)
{
  const emu_event e = {.kind = EMU_UNFENCED, .pc = pc, .words = words};
  emu_findings_add(&e);
}

void emu_findings_add(const emu_event *event)
{
  emu_grid *g = emu_now;
  emu_thread *self = g->self;
  emu_event closer = *event;
  const emu_event *e = &closer;
  look_closer(&closer);
  add(e, e->pc ? (uint32_t)(e->pc - g->module->image) : 0, self ? self->me.who : 0);
  if (!self || (!is_fatal(e) && ++g->events < (g->options->events ? g->options->events : EVENTS_MAX)))
    return;
  g->fatal = true;
  g->self = NULL;
  emu_fiber_switch(&self->fiber, &g->main);
}

/* `t` waits for others, of which `other` is one (NULL: there are too few). */
static void add_waiting(emu_kind kind, const emu_thread *t, const emu_thread *other)
{
  emu_event e = {.kind = kind};
  e.other_pc = other && !other->done ? other->wait_pc : 0;
  emu_raw *r = add(&e, t->wait_pc, t->me.who);
  if (!r)
    return;
  if (!other && t->waits == EMU_WAIT_CLUSTER)
    snprintf(r->where, sizeof r->where, "another block of its cluster does not come");
  else if (!other)
    snprintf(r->where, sizeof r->where, "the warp has fewer than %d threads", EMU_WARP);
  else
    snprintf(r->where, sizeof r->where, "thread %d %s", other->me.thread,
             other->done ? "has ended" : "waits");
}

void emu_findings_apart(const emu_thread *t, const emu_thread *other)
{
  add_waiting(EMU_MISSING_LANES, t, other);
  emu_now->fatal = true;
}

/* One finding for each barrier in shared memory and each named one that a thread waits at. */
static bool add_deadlocks(const emu_block *b)
{
  bool any = false;
  for (int i = 0; i < b->threads; i++) {
    const emu_thread *t = &b->thread[i];
    if (t->done || (t->waits != EMU_WAIT_SIGNAL && t->waits != EMU_WAIT_NAMED && t->waits != EMU_WAIT_NUMBER))
      continue;
    any = true;
    const emu_event e = {.kind = EMU_DEADLOCK, .address = t->waits_for};
    emu_raw *r = add(&e, t->wait_pc, t->me.who);
    if (r)
      emu_signals_describe(t, r->where, sizeof r->where);
  }
  return any;
}

/* Whether a thread waits for others of its warp or warpgroup, which do not come. */
static bool lacks_lanes(const emu_thread *t)
{
  static const bool of_more[EMU_WAIT_COUNT] = {[EMU_WAIT_BLOCK] = true,
                                               [EMU_WAIT_CLUSTER] = true,
                                               [EMU_WAIT_SIGNAL] = true,
                                               [EMU_WAIT_NAMED] = true,
                                               [EMU_WAIT_NUMBER] = true};
  return !t->done && !of_more[t->waits];
}

void emu_findings_stuck(const emu_block *b)
{
  const emu_thread *waits = NULL, *lacks = NULL, *other = NULL;
  for (int i = 0; i < b->threads; i++) {
    const emu_thread *t = &b->thread[i];
    if (lacks_lanes(t) && !lacks)
      lacks = t;
    if (!t->done && (t->waits == EMU_WAIT_BLOCK || t->waits == EMU_WAIT_CLUSTER) && !waits)
      waits = t;
  }
  const bool deadlock = add_deadlocks(b);
  const emu_thread *t = lacks ? lacks : waits;
  if (!t || (deadlock && !lacks))
    return;
  const int size = t->waits == EMU_WAIT_PRODUCT ? EMU_GROUP : EMU_WARP;
  int first = lacks ? t->me.thread / size * size : 0, count = lacks ? size : b->threads;
  for (int i = first; i < first + count && i < b->threads && !other; i++)
    if (b->thread[i].done || b->thread[i].waits != t->waits)
      other = &b->thread[i];
  add_waiting(lacks ? EMU_MISSING_LANES : EMU_DIVERGENT_BARRIER, t, other);
}

/* `templates/x.cu:7`, or words where the place is unknown. */
static void print_place(const emu_place *p, char *text, size_t room)
{
  if (p->line)
    snprintf(text, room, "%s:%d", p->file, p->line);
  else
    snprintf(text, room, "an unknown line");
}

/* What an agent is doing, or a copy that no wait has covered; and where it began. */
static bool write_agent(const emu_raw *r, unsigned agent, const char *place, char *text, size_t room)
{
  const char *verb = r->event.is_write ? "writes" : "reads";
  if (agent < EMU_AGENT_PRODUCTS)
    snprintf(text, room, " %s %s, which a copy may still be %s that arrives at a barrier and began at %s",
             verb, r->where, r->event.other_is_write ? "writing" : "reading", place);
  else if (agent < EMU_AGENT_STORES)
    snprintf(text, room, " %s %s, which a product of warpgroup %u may still be reading that began at %s",
             verb, r->where, agent - EMU_AGENT_PRODUCTS, place);
  else
    snprintf(text, room, " %s %s, which a copy to device memory may still be %s that began at %s", verb,
             r->where, r->event.other_is_write ? "writing" : "reading", place);
  return true;
}

static void write_race(const emu_raw *r, const char *place, char *text, size_t room)
{
  const uint64_t who = r->event.other << 2 >> 2 >> EMU_EPOCH_BITS;
  const unsigned thread = who & EMU_SET;
  const long long block = (long long)((who >> EMU_THREAD_BITS) - r->first_block);
  const char *verb = r->event.is_write ? "writes" : "reads";
  if (thread == EMU_ATOMIC) {
    snprintf(text, room, " %s %s, which atomics of others change, the last at %s", verb, r->where, place);
    return;
  }
  if (thread >= EMU_THREADS_MAX && thread < EMU_SET) {
    write_agent(r, thread - EMU_THREADS_MAX, place, text, room);
    return;
  }
  const char *form =
      r->event.kind == EMU_UNFENCED
          ? " %s %s beside the threads, which thread %d of block %lld %s at %s with no fence for "
            "copies since"
      : (r->event.other & EMU_EPOCH_MASK) == EMU_IN_FLIGHT
          ? " %s %s, which a copy may still be writing that thread %d of block %lld %s at %s"
          : " %s %s, which thread %d of block %lld %s at %s with nothing in between that "
            "orders them";
  const char *other_verb = (r->event.other & EMU_EPOCH_MASK) == EMU_IN_FLIGHT ? "began"
                           : r->event.other_is_write                          ? "wrote"
                                                                              : "read";
  snprintf(text, room, form, verb, r->where, (int)thread, block, other_verb, place);
  if (block < 0)
    snprintf(text, room, " %s %s, which thread %d of a launch before %s at %s, of whose end it does not know",
             verb, r->where, (int)thread, other_verb, place);
}

static void write_text(const emu_raw *r, const emu_place *at, const emu_place *other, emu_finding *f)
{
  char place[EMU_FILE + 16], other_place[EMU_FILE + 16];
  print_place(at, place, sizeof place);
  print_place(other, other_place, sizeof other_place);
  const char *verb = r->event.is_write ? "writes" : "reads";
  int n = snprintf(f->text, sizeof f->text, "%s: %s, thread %d of block %lld of %s", kinds[f->kind], place,
                   f->thread, (long long)f->block, r->entry);
  char *rest = f->text + n;
  size_t room = sizeof f->text - (size_t)n;
  if (f->kind == EMU_RACE || (f->kind == EMU_UNFENCED && !r->event.words)) {
    write_race(r, other_place, rest, room);
  } else if (f->kind == EMU_OUT_OF_BOUNDS || f->kind == EMU_UNINITIALISED) {
    snprintf(rest, room, " %s %s", verb, r->where);
  } else if (f->kind == EMU_DIVERGENT_BARRIER || f->kind == EMU_MISSING_LANES) {
    snprintf(rest, room, " waits for others, but %s%s%s", r->where, r->other_pc ? " at " : "",
             r->other_pc ? other_place : "");
  } else if (f->kind == EMU_MISALIGNED) {
    snprintf(rest, room, " reaches %s by a pointer of a type that needs more alignment", r->where);
  } else if (f->kind == EMU_NEVER_AWAITED) {
    snprintf(rest, room, " ends while this copy to %s may still run", r->where);
  } else if (f->kind == EMU_PADDING) {
    snprintf(rest, room, ": %s", r->where);
  } else if (f->kind == EMU_DEADLOCK) {
    snprintf(rest, room, " waits for %s", r->where);
  } else if (r->event.words) {
    snprintf(rest, room, ": %s", r->event.words);
  } else if (f->kind == EMU_PRODUCT_REGISTERS) {
    snprintf(rest, room, " %s registers of a product that may still run and began at %s", verb, other_place);
  } else if (f->kind == EMU_ENDLESS) {
    snprintf(rest, room, " makes more accesses than the run allows");
  }
}

/* The place that the compiler gave: its file is one of the text's, perhaps behind a folder. */
static void given_place(const emu_grid *g, const emu_event *e, emu_place *p)
{
  for (int i = 0; i < g->module->files.count; i++) {
    const char *name = g->module->files.name[i];
    size_t n = strlen(name), length = strlen(e->file);
    if (n <= length && !strcmp(e->file + length - n, name)) {
      snprintf(p->file, sizeof p->file, "%s", name);
      p->line = (int)e->line;
    }
  }
}

void emu_findings_finish(emu_grid *g)
{
  uint32_t offsets[2 * EMU_FINDINGS];
  emu_place places[2 * EMU_FINDINGS] = {{{0}, 0}};
  const uint64_t threads = (UINT64_C(1) << EMU_THREAD_BITS) - 1;
  for (int i = 0; i < g->raws; i++) {
    offsets[2 * i] = g->raw[i].pc;
    offsets[2 * i + 1] = g->raw[i].other_pc;
  }
  emu_lines_find(g->module, offsets, 2 * g->raws, places);
  for (int i = 0; i < g->raws; i++) {
    const emu_raw *r = &g->raw[i];
    emu_place *at = &places[2 * i], *other = at + 1;
    if (r->event.file)
      given_place(g, &r->event, at);
    emu_finding *f = &g->report->finding[g->report->findings++];
    *f = (emu_finding){.kind = r->event.kind, .line = at->line, .other_line = other->line, .count = r->count};
    snprintf(f->file, sizeof f->file, "%s", at->file);
    snprintf(f->other_file, sizeof f->other_file, "%s", other->file);
    snprintf(f->entry, sizeof f->entry, "%s", r->entry);
    f->block = (int64_t)(r->me >> EMU_THREAD_BITS) - (int64_t)r->first_block;
    f->thread = (int)(r->me & threads);
    write_text(r, at, other, f);
  }
}
