/* boxes.c -- boxes of tensor maps, copied from and to shared memory beside the threads.
 *
 * A copy to shared memory is under way until the phase ends that its barrier counts its bytes in; one to
 * device memory reads shared memory until its thread waits for it. Its bytes move at one time of the run's
 * choice: at once, as late as can be (when nobody can go on without it), or in between. What lies outside the
 * tensor comes as zeros and is not written. Bytes that are sent to another block of the cluster are under way
 * there; that they have been read here, too, is known to who knows of that. */
#include "side.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 16, BOX_ALIGN = 128, BOX_DIMS = 4, SWIZZLE_128 = 3 };

/* The swizzle permutes 16-byte chunks by bits of the address. */
static uint32_t place_of(const emu_tensor_map *m, uint32_t address)
{
  const uint32_t bits = m->swizzle <= SWIZZLE_128 ? (UINT32_C(1) << m->swizzle) - 1 : 0;
  return address ^ (address >> 7 & bits) << 4;
}

static char *shared_at(const emu_block *b, uint32_t address)
{
  return b->shared + (address - EMU_SHARED_BASE);
}

/* A row of a box: where it lies in the tensor and how many of its bytes are inside, from byte `skip` on. */
typedef struct row {
  char *data; /* of the first byte that is inside */
  uint32_t shared;
  int64_t skip, inside;
} row;

static row row_of(const emu_box *x, uint32_t index)
{
  const emu_tensor_map *m = &x->map;
  const int64_t width = m->box[0], at = x->at[0], size = (int64_t)m->size[0];
  int64_t first = at < 0 ? -at : 0, last = at + width > size ? size - at : width;
  row r = {.shared = x->shared + index * (uint32_t)(width * m->element)};
  char *data = (char *)(uintptr_t)m->base + (at + first) * m->element;
  for (int i = 1; i < BOX_DIMS; i++) {
    int64_t c = x->at[i] + index % m->box[i];
    index /= m->box[i];
    if (c < 0 || c >= (int64_t)m->size[i])
      return r;
    data += c * (int64_t)m->stride[i - 1];
  }
  if (first >= last)
    return r;
  r.data = data;
  r.skip = first * m->element;
  r.inside = (last - first) * m->element;
  return r;
}

static uint32_t rows_of(const emu_tensor_map *m)
{
  return (uint32_t)m->box[1] * m->box[2] * m->box[3];
}

static uint32_t row_bytes(const emu_tensor_map *m)
{
  return (uint32_t)m->box[0] * m->element;
}

static void add(const emu_block *b, const emu_box *x)
{
  for (uint32_t at = 0; at < row_bytes(&x->map); at += 4) {
    char *sum = (char *)(uintptr_t)x->map.base + at;
    float to, more;
    memcpy(&to, sum, sizeof to);
    memcpy(&more, shared_at(b, x->shared + at), sizeof more);
    to += more;
    memcpy(sum, &to, sizeof to);
  }
}

static void move(const emu_block *b, const emu_box *x)
{
  if (x->reduces) {
    add(b, x);
    return;
  }
  const uint32_t width = row_bytes(&x->map);
  for (uint32_t i = 0; i < rows_of(&x->map); i++) {
    row r = row_of(x, i);
    for (int64_t at = 0; at < width; at += 2) {
      char *shared = shared_at(b, place_of(&x->map, r.shared + (uint32_t)at));
      bool inside = at >= r.skip && at < r.skip + r.inside;
      if (x->signal && inside)
        memcpy(shared, r.data + (at - r.skip), 2);
      else if (x->signal)
        memset(shared, 0, 2);
      else if (inside)
        memcpy(r.data + (at - r.skip), shared, 2);
    }
  }
}

static void land(emu_block *b, int which)
{
  emu_side *s = b->side;
  const emu_box x = s->box[which];
  move(b, &x);
  memmove(&s->box[which], &s->box[which + 1], (size_t)(s->boxes - which - 1) * sizeof x);
  s->boxes--;
  if (x.sender) /* who awaits it knows that its source has been read */
    emu_clocks_tell(&x.signal->gathered, x.by->home, x.sender, x.sent + 1);
  if (x.signal)
    emu_signals_came(b, x.signal, (int64_t)rows_of(&x.map) * row_bytes(&x.map));
}

void emu_boxes_pass(emu_block *b)
{
  if (emu_now->options->landing != EMU_LAND_RANDOM || !b->side || !b->side->in_use)
    return;
  for (int i = b->side->boxes; i-- > 0;)
    if (emu_grid_random() % 8 == 0)
      land(b, i);
}

bool emu_boxes_stalled(emu_grid *g)
{
  emu_block *of[EMU_RESIDENT_MAX];
  int blocks = 0;
  for (int i = 0; i < g->resident; i++)
    if (g->block[i].active && g->block[i].side && g->block[i].side->in_use && g->block[i].side->boxes)
      of[blocks++] = &g->block[i];
  if (!blocks)
    return false;
  bool random = g->options->landing == EMU_LAND_RANDOM;
  emu_block *b = of[random ? emu_grid_random() % (unsigned)blocks : 0];
  int boxes = b->side->boxes;
  land(b, random ? (int)(emu_grid_random() % (unsigned)boxes) : boxes - 1);
  return true;
}

/* Every byte that is read or written, seen by the shadow. */
static void check(emu_block *b, const emu_box *x, unsigned agent, const uint32_t *seen, const uint32_t *async)
{
  const uint32_t width = row_bytes(&x->map);
  for (uint32_t i = 0; i < rows_of(&x->map); i++) {
    row r = row_of(x, i);
    if (x->sender)
      emu_clocks_access(x->by->home, x->sender, x->sent, async, (uintptr_t)r.data, (uint32_t)r.inside, 0,
                        x->pc);
    else if (r.inside && x->reduces)
      emu_clocks_change(b, agent, x->epoch, seen, (uintptr_t)r.data, (uint32_t)r.inside, x->pc);
    else if (r.inside)
      emu_clocks_access(b, agent, x->epoch, seen, (uintptr_t)r.data, (uint32_t)r.inside, !x->signal, x->pc);
    for (uint32_t at = 0; at < width; at += CHUNK)
      if (x->signal || (at + CHUNK > r.skip && at < r.skip + r.inside)) {
        const uintptr_t place = (uintptr_t)shared_at(b, place_of(&x->map, r.shared + at));
        if (x->signal)
          emu_clocks_replace(b, agent, x->epoch,
                             async + (b - x->by->home) * (ptrdiff_t)x->by->home->side->stride, place, CHUNK,
                             x->pc);
        emu_clocks_access(b, agent, x->epoch, x->signal ? seen : async, place, CHUNK, x->signal != NULL,
                          x->pc);
      }
  }
}

/* A box from what the kernel says. */
static emu_box box_of(const void *map, const int32_t at[4], uint32_t shared, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_box x = {.shared = shared, .by = t, .pc = pc};
  memcpy(&x.map, map, sizeof x.map);
  memcpy(x.at, at, sizeof x.at);
  if (x.map.magic != EMU_MAP_MAGIC)
    emu_findings_misuse("this is no tensor map", pc);
  if (x.map.rank != BOX_DIMS || x.map.interleave || x.map.swizzle > SWIZZLE_128)
    emu_findings_misuse("the emulator copies boxes of 4 dimensions with a swizzle of 16-byte chunks", pc);
  for (int i = 0; i < BOX_DIMS; i++)
    if (x.map.step[i] != 1)
      emu_findings_misuse("the emulator copies boxes without gaps", pc);
  if (at[0] * x.map.element % 16) /* an H200 ends with an illegal instruction */
    emu_findings_misuse("a box is to begin at a multiple of 16 bytes of a row", pc);
  if (shared % BOX_ALIGN)
    emu_findings_misuse("a box in shared memory is to be aligned to 128 bytes", pc);
  uint32_t begin = shared - EMU_SHARED_BASE, bytes = rows_of(&x.map) * row_bytes(&x.map);
  if (begin > t->me.shared_size || bytes > t->me.shared_size - begin)
    emu_findings_misuse("the box does not lie in shared memory", pc);
  return x;
}

/* Bytes side by side are a box of one row, as a map would have it. */
static emu_box bulk_of(const void *data, int32_t bytes, uint32_t shared, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  if (bytes <= 0 || bytes % CHUNK || shared % CHUNK || (uintptr_t)data % CHUNK)
    emu_findings_misuse("a bulk copy is of whole 16 bytes, at multiples of 16", pc);
  emu_box x = {.map = {.magic = EMU_MAP_MAGIC,
                       .rank = BOX_DIMS,
                       .element = 4,
                       .step = {1, 1, 1, 1},
                       .box = {(uint16_t)(bytes / 4), 1, 1, 1},
                       .base = (uintptr_t)data,
                       .size = {(uint64_t)bytes / 4, 1, 1, 1}},
               .shared = shared,
               .by = t,
               .pc = pc};
  uint32_t begin = shared - EMU_SHARED_BASE;
  if (begin > t->me.shared_size || (uint32_t)bytes > t->me.shared_size - begin)
    emu_findings_misuse("the bytes of this bulk copy do not lie in shared memory", pc);
  return x;
}

static void begin(emu_block *b, const emu_box *x)
{
  emu_side *s = b->side;
  if (s->boxes == s->box_room) {
    s->box_room = s->box_room ? 2 * s->box_room : 16;
    s->box = realloc(s->box, (size_t)s->box_room * sizeof *s->box);
    if (!s->box)
      abort();
  }
  s->box[s->boxes++] = *x;
  emu_now->report->boxes++;
  if (emu_now->options->landing == EMU_LAND_EARLY)
    land(b, s->boxes - 1);
  else
    emu_boxes_pass(b);
}

/* What a thread knows of a block of its cluster: where its clock has the entries of that. */
static const uint32_t *seen_of(const emu_thread *t, const emu_block *b)
{
  return t->clock.seen + (b - t->home) * (ptrdiff_t)t->home->side->stride;
}

/* To the shared memory of a block of the cluster, most often one's own. */
static void load(emu_block *b, emu_box *x, uint32_t signal)
{
  emu_thread *t = emu_now->self;
  emu_signal *s = emu_signals_at(b, signal, x->pc);
  if (!s->fenced)
    emu_findings_unfenced("copies may not have seen that this barrier was initialised", x->pc);
  x->signal = s;
  x->epoch = ++s->loads;
  s->load_pc = x->pc;
  check(b, x, (unsigned)(s - b->side->signal), seen_of(t, b), t->clock.async);
  emu_clocks_advance(t);
  begin(b, x);
}

void emu_boxes_load(uint32_t to, const void *map, const int32_t at[4], uint32_t signal, uintptr_t pc)
{
  emu_box x = box_of(map, at, to, pc);
  load(emu_now->self->home, &x, signal);
}

void emu_boxes_load_all(uint32_t to, const void *map, const int32_t at[4], uint32_t signal, int blocks,
                        uintptr_t pc)
{
  for (int rank = 0; blocks; rank++, blocks >>= 1)
    if (blocks & 1) {
      uint32_t there = emu_clusters_place(to, rank, pc);
      emu_block *b = emu_clusters_block(&there, pc);
      emu_box x = box_of(map, at, to, pc);
      load(b, &x, signal);
    }
}

void emu_boxes_bulk_load(uint32_t to, const void *from, int32_t bytes, uint32_t signal, uintptr_t pc)
{
  emu_box x = bulk_of(from, bytes, to, pc);
  load(emu_now->self->home, &x, signal);
}

/* Who stands for copies that a thread makes out of shared memory. */
static unsigned agent_of(const emu_thread *t, unsigned *agent)
{
  emu_side *s = t->home->side;
  if (*agent == 0)
    *agent = EMU_AGENT_STORES + s->store_agents++;
  return *agent < EMU_AGENTS ? *agent : EMU_AGENTS - 1;
}

static unsigned store_agent(emu_thread *t)
{
  return agent_of(t, &t->store_agent);
}

void emu_boxes_bulk_send(uint32_t to, uint32_t from, int32_t bytes, uint32_t signal, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  emu_clocks_need(t->home);
  emu_block *b = emu_clusters_block(&to, pc);
  if (b != emu_clusters_block(&signal, pc))
    emu_findings_misuse("a copy to another block arrives at a barrier of that block", pc);
  emu_box x = bulk_of(t->me.shared + (from - EMU_SHARED_BASE), bytes, to, pc);
  if (from - EMU_SHARED_BASE > t->me.shared_size - (uint32_t)bytes)
    emu_findings_misuse("the bytes of this bulk copy do not lie in shared memory", pc);
  x.sender = agent_of(t, &t->send_agent);
  x.sent = ++t->sends;
  load(b, &x, signal);
}

static void store(emu_box *x)
{
  emu_thread *t = emu_now->self;
  x->epoch = t->last_store = t->stores + 1;
  t->store_pc = x->pc;
  check(t->home, x, store_agent(t), t->clock.seen, t->clock.async);
  emu_clocks_advance(t);
  begin(t->home, x);
}

void emu_boxes_store(const void *map, const int32_t at[4], uint32_t from, uintptr_t pc)
{
  emu_clocks_need(emu_now->self->home);
  emu_box x = box_of(map, at, from, pc);
  store(&x);
}

void emu_boxes_bulk_reduce(float *to, uint32_t from, int32_t bytes, uintptr_t pc)
{
  emu_clocks_need(emu_now->self->home);
  emu_box x = bulk_of(to, bytes, from, pc);
  x.reduces = true;
  store(&x);
}

void emu_boxes_commit(void)
{
  emu_now->self->stores++;
}

void emu_boxes_wait(void)
{
  emu_thread *t = emu_now->self;
  emu_side *s = t->home->side;
  if (!s || !s->in_use)
    return;
  for (int i = s->boxes; i-- > 0;)
    if (!s->box[i].signal && s->box[i].by == t && s->box[i].epoch <= t->stores)
      land(t->home, i);
  emu_clocks_awaited(t, store_agent(t), t->stores + 1);
}

void emu_boxes_end(emu_thread *t)
{
  const emu_side *s = t->home->side;
  if (!s || !s->in_use || !t->store_agent)
    return;
  emu_event e = {.kind = EMU_NEVER_AWAITED, .address = (uintptr_t)t->me.shared, .pc = t->store_pc};
  if (t->last_store >= t->clock.seen[store_agent(t)])
    emu_findings_add(&e);
}
