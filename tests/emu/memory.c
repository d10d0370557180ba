/* memory.c -- lays tensors out in one reserved range of addresses, with a shadow cell for each 4 bytes (of
 * which the halves may differ).
 *
 * Nearly all of the range is never touched, so tensors whose strides reach past 2^31 elements cost no more
 * than their rows. Invariant: what is not an element of a region is EMU_CLOSED and EMU_POISON. */
#include "memory.h"
#include "shadow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Regions above this are poisoned and checked only around their rows. */
#define LARGE (UINT64_C(64) << 20)
/* Words that may be split at a time; only the pages that are used exist. */
#define HALVES (UINT32_C(1) << 24)

static void *reserve(uint64_t bytes)
{
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return NULL;
  madvise(p, bytes, MADV_NOHUGEPAGE);
  return p;
}

static uint64_t shadow_bytes(uint64_t bytes)
{
  return bytes / 4 * sizeof(emu_cell);
}

fat_status emu_open(emu **e, fat_error *err)
{
  *e = calloc(1, sizeof **e);
  if (!*e)
    return fat_status_fail(err, FAT_E_NOMEM, "no memory for an emulator");
  for (uint64_t bytes = UINT64_C(64) << 30; bytes >= UINT64_C(64) << 20; bytes /= 2) {
    char *arena = reserve(bytes);
    emu_cell *shadow = arena ? reserve(shadow_bytes(bytes)) : NULL;
    if (shadow) {
      (*e)->hot.arena = (uintptr_t)arena;
      (*e)->hot.arena_size = bytes;
      (*e)->hot.shadow = shadow;
      (*e)->hot.first_block = 1;
      return FAT_OK;
    }
    if (arena)
      munmap(arena, bytes);
  }
  free(*e);
  *e = NULL;
  return fat_status_fail(err, FAT_E_NOMEM,
                         "no addresses for the emulator's memory (a limit on virtual memory?)");
}

void emu_close(emu *e)
{
  if (!e)
    return;
  munmap((void *)e->hot.arena, e->hot.arena_size);
  munmap(e->hot.shadow, shadow_bytes(e->hot.arena_size));
  if (e->hot.halves)
    munmap(e->hot.halves, HALVES * sizeof *e->hot.halves);
  free(e);
}

uint64_t emu_room(const emu *e)
{
  return e->hot.arena_size - e->used;
}

/* Pages go back to the system and read as zero again, which is EMU_CLOSED in the shadow. */
static void forget(emu *e, uint64_t from)
{
  const uint64_t page = UINT64_C(1) << 16;
  uint64_t begin = (from + page - 1) / page * page, end = (e->used + page) / page * page;
  const emu_cell *first = e->hot.shadow + from / 4, *behind = e->hot.shadow + (e->used + 3) / 4;
  for (uint32_t i = 1; i < e->halves; i++) /* the fake driver's allocations lie behind what is forgotten */
    if (e->hot.halves[i].of && e->hot.halves[i].of >= first && e->hot.halves[i].of < behind)
      emu_join(&e->hot, e->hot.halves[i].of, (emu_cell){0});
  if (end > e->hot.arena_size)
    end = e->hot.arena_size;
  memset(e->hot.shadow + from / 4, 0, shadow_bytes((begin < e->used ? begin : e->used) - from));
  if (begin < end) {
    madvise((char *)e->hot.arena + begin, end - begin, MADV_DONTNEED);
    madvise(e->hot.shadow + begin / 4, shadow_bytes(end - begin), MADV_DONTNEED);
  }
  e->used = from;
}

void emu_reset(emu *e)
{
  e->count = 0;
  e->hot.first_block = 1;
  forget(e, 0);
}

void emu_memory_cut(emu *e, int regions)
{
  if (regions >= e->count)
    return;
  uint64_t from = (uintptr_t)e->region[regions].data - EMU_GUARD - (unsigned)e->region[regions].layout.shift -
                  e->hot.arena;
  e->count = regions;
  forget(e, from);
}

/* Who runs out of them has no use for the run: there is no sound way on. */
void emu_memory_split(emu *e, emu_cell *cell)
{
  emu_hot *hot = &e->hot;
  if (!hot->halves) {
    hot->halves = reserve(HALVES * sizeof *hot->halves);
    e->halves = 1;
  }
  uint32_t index = hot->halves ? hot->halves[0].next : 0;
  if (index)
    hot->halves[0].next = hot->halves[index].next;
  else if (hot->halves && e->halves < HALVES)
    index = e->halves++;
  else
    abort();
  hot->halves[index] = (emu_halves){.half = {*cell, *cell}, .of = cell};
  *cell = (emu_cell){.write = (uint64_t)EMU_SPLIT << EMU_TAG_SHIFT | index};
}

static bool is_split(const emu_cell *cell)
{
  return cell->write >> EMU_TAG_SHIFT == EMU_SPLIT;
}

static void mark_half(emu *e, emu_cell *cell, int which, emu_cell fresh)
{
  if (!is_split(cell))
    emu_memory_split(e, cell);
  emu_halves *h = emu_halves_of(&e->hot, cell);
  h->half[which] = fresh;
  if (!memcmp(&h->half[0], &h->half[1], sizeof h->half[0]))
    emu_join(&e->hot, cell, fresh);
}

void emu_memory_mark(emu *e, const void *data, uint64_t bytes, int tag)
{
  uint64_t half = ((uintptr_t)data - e->hot.arena) / 2, end = half + (bytes + 1) / 2;
  const emu_cell fresh = {.write = (uint64_t)tag << EMU_TAG_SHIFT};
  while (half < end) {
    emu_cell *cell = e->hot.shadow + half / 2;
    if (half % 2 || half + 1 == end) {
      mark_half(e, cell, half % 2, fresh);
      half++;
      continue;
    }
    if (is_split(cell))
      emu_join(&e->hot, cell, fresh);
    *cell = fresh;
    half += 2;
  }
}

void emu_memory_age(emu *e, const void *data, uint64_t bytes)
{
  emu_cell *cell = e->hot.shadow + ((uintptr_t)data - e->hot.arena) / 4;
  for (uint64_t i = 0; i < (bytes + 3) / 4; i++) {
    bool split = is_split(&cell[i]);
    emu_cell *part = split ? emu_halves_of(&e->hot, &cell[i])->half : &cell[i];
    for (int j = 0; j < 1 + split; j++)
      part[j] = (emu_cell){.write = part[j].write >> EMU_TAG_SHIFT << EMU_TAG_SHIFT};
    if (split && part[0].write == part[1].write)
      emu_join(&e->hot, &cell[i], part[0]);
  }
}

void emu_memory_poison(void *data, uint64_t bytes)
{
  unsigned char *byte = data;
  for (uint64_t i = 0; i < bytes; i++)
    byte[i] = (unsigned char)(EMU_POISON >> ((uintptr_t)&byte[i] % 2 * 8));
}

static uint64_t span(const emu_layout *l)
{
  int64_t last = 0;
  for (int i = 0; i < EMU_DIMS; i++) {
    if (l->size[i] <= 0)
      return 0;
    last += (l->size[i] - 1) * l->stride[i];
  }
  return (uint64_t)(last + 1) * (uint64_t)l->element;
}

/* Calls `mark` for each row of a region: the bytes that are its elements. */
static void each_row(emu *e, const emu_region *r, void (*mark)(emu *, char *, uint64_t))
{
  const emu_layout *l = &r->layout;
  if (!r->bytes)
    return;
  for (int64_t b = 0; b < l->size[0]; b++)
    for (int64_t h = 0; h < l->size[1]; h++)
      for (int64_t n = 0; n < l->size[2]; n++)
        mark(e, r->data + (b * l->stride[0] + h * l->stride[1] + n * l->stride[2]) * l->element,
             (uint64_t)(l->size[3] * l->element));
}

static void mark_guards(emu *e, char *row, uint64_t bytes)
{
  (void)e;
  emu_memory_poison(row - EMU_GUARD, bytes + 2 * EMU_GUARD);
}

static void mark_empty(emu *e, char *row, uint64_t bytes)
{
  emu_memory_poison(row, bytes);
  emu_memory_mark(e, row, bytes, EMU_EMPTY);
}

static void mark_filled(emu *e, char *row, uint64_t bytes)
{
  emu_memory_mark(e, row, bytes, EMU_FILLED);
}

void *emu_tensor(emu *e, const emu_layout *layout)
{
  const uint64_t align = 256;
  uint64_t bytes = span(layout);
  uint64_t start = (e->used + EMU_GUARD + align - 1) / align * align + (unsigned)layout->shift;
  if (e->count == EMU_REGIONS || bytes > e->hot.arena_size || start + bytes + EMU_GUARD > e->hot.arena_size)
    return NULL;
  emu_region *r = &e->region[e->count++];
  *r = (emu_region){.layout = *layout, .data = (char *)e->hot.arena + start, .bytes = bytes};
  if (bytes > LARGE)
    each_row(e, r, mark_guards);
  else
    emu_memory_poison(r->data - EMU_GUARD, (bytes + 3) / 4 * 4 + 2 * EMU_GUARD);
  each_row(e, r, mark_empty);
  e->used = start + (bytes + 3) / 4 * 4 + EMU_GUARD;
  return r->data;
}

char *emu_memory_array(emu *e, const char *name, uint64_t bytes, int shift)
{
  int64_t n = (int64_t)(bytes / 4);
  emu_layout layout = {name, {1, 1, 1, n}, {n, n, n, 1}, 4, shift};
  return emu_tensor(e, &layout);
}

static const emu_region *region_at(const emu *e, const void *data)
{
  for (int i = 0; i < e->count; i++)
    if (e->region[i].data == data)
      return &e->region[i];
  return NULL;
}

void emu_filled(emu *e, const void *data)
{
  const emu_region *r = region_at(e, data);
  if (r)
    each_row(e, r, mark_filled);
}

void emu_emptied(emu *e, const void *data)
{
  const emu_region *r = region_at(e, data);
  if (r)
    each_row(e, r, mark_empty);
}

/* Indices of an element by taking out the widest strides first; false where it is none. */
static bool indices(const emu_layout *l, int64_t offset, int64_t index[EMU_DIMS])
{
  bool taken[EMU_DIMS] = {false};
  for (int step = 0; step < EMU_DIMS; step++) {
    int widest = -1;
    for (int i = 0; i < EMU_DIMS; i++)
      if (!taken[i] && (widest < 0 || l->stride[i] > l->stride[widest]))
        widest = i;
    taken[widest] = true;
    int64_t most = l->size[widest] - 1, stride = l->stride[widest];
    index[widest] = stride > 0 && offset / stride < most ? offset / stride : stride > 0 ? most : 0;
    offset -= index[widest] * stride;
  }
  return offset == 0;
}

void emu_memory_describe(const emu *e, uintptr_t address, char *text, size_t room)
{
  for (int i = 0; i < e->count; i++) {
    const emu_region *r = &e->region[i];
    int64_t at = (int64_t)(address - (uintptr_t)r->data), index[EMU_DIMS] = {0};
    if (at < -EMU_GUARD || at >= (int64_t)r->bytes + EMU_GUARD)
      continue;
    const emu_layout *l = &r->layout;
    bool inside = at >= 0 && r->bytes > 0 && indices(l, at / l->element, index);
    if (!inside)
      snprintf(text, room, "%s at byte %lld, outside its elements", l->name, (long long)at);
    else if (l->size[0] * l->size[1] * l->size[2] == 1)
      snprintf(text, room, "%s[%lld]", l->name, (long long)index[3]);
    else
      snprintf(text, room, "%s[batch %lld, head %lld, row %lld, column %lld]", l->name, (long long)index[0],
               (long long)index[1], (long long)index[2], (long long)index[3]);
    return;
  }
  snprintf(text, room, "address %#llx, which belongs to no tensor", (unsigned long long)address);
}

const char *emu_memory_spoiled(const emu *e, const emu_region *r)
{
  if (r->bytes > LARGE)
    return NULL;
  uint64_t from = (uintptr_t)r->data - EMU_GUARD - e->hot.arena;
  const uint16_t *half = (const uint16_t *)e->hot.arena;
  for (uint64_t i = from / 2; i < (from + r->bytes) / 2 + EMU_GUARD; i++) {
    const emu_cell *cell = e->hot.shadow + i / 2;
    if (is_split(cell))
      cell = &emu_halves_of(&e->hot, cell)->half[i % 2];
    if (cell->write >> EMU_TAG_SHIFT == EMU_CLOSED && half[i] != (EMU_POISON & 0xffff))
      return (const char *)&half[i];
  }
  return NULL;
}
