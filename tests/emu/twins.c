/* twins.c -- what the twins of the arch functions call (prelude.hpp): special registers, the addresses of
 * shared memory, and the ways to the scheduler.
 *
 * Linked into every kernel's shared object, beside hot.c. Arguments and results travel in registers, so that
 * none of them looks like an access of the kernel. */
#include "shadow.h"
#include <string.h>

#define PC ((uintptr_t)__builtin_return_address(0))

int emu_thread_id(void);
int emu_thread_id(void)
{
  return emu_hot_state->me->thread;
}

long long emu_block_id(void);
long long emu_block_id(void)
{
  return emu_hot_state->me->block;
}

char *emu_shared_memory(void);
char *emu_shared_memory(void)
{
  return emu_hot_state->me->shared;
}

int emu_variant(void);
int emu_variant(void)
{
  return emu_hot_state->variant;
}

void emu_block_sync(void);
void emu_block_sync(void)
{
  emu_hot_state->wait(EMU_WAIT_BLOCK, PC);
}

char *emu_peer(char *p, int rank);
char *emu_peer(char *p, int rank)
{
  return emu_hot_state->peer(p, rank, PC);
}

uint32_t emu_peer_place(uint32_t place, int rank);
uint32_t emu_peer_place(uint32_t place, int rank)
{
  return emu_hot_state->peer_place(place, rank, PC);
}

void emu_signal_arrive_there(uint32_t at);
void emu_signal_arrive_there(uint32_t at)
{
  emu_hot_state->signal_arrive_there(at, PC);
}

void emu_bulk_send(uint32_t to, uint32_t from, int32_t bytes, uint32_t signal);
void emu_bulk_send(uint32_t to, uint32_t from, int32_t bytes, uint32_t signal)
{
  emu_hot_state->bulk_send(to, from, bytes, signal, PC);
}

void emu_cluster_arrive(void);
void emu_cluster_arrive(void)
{
  emu_hot_state->cluster_arrive(PC);
}

void emu_cluster_wait(void);
void emu_cluster_wait(void)
{
  emu_hot_state->wait(EMU_WAIT_CLUSTER, PC);
}

void emu_warp_sync(void);
void emu_warp_sync(void)
{
  emu_hot_state->wait(EMU_WAIT_WARP, PC);
}

float emu_shfl_xor(float x, int lanes);
float emu_shfl_xor(float x, int lanes)
{
  emu_me *me = emu_hot_state->me;
  me->given = x;
  me->lanes = lanes;
  emu_hot_state->wait(EMU_WAIT_SHUFFLE, PC);
  return me->got;
}

/* A shuffle in which each lane differs from the first by its own number. */
int emu_shfl_first(int x);
int emu_shfl_first(int x)
{
  emu_me *me = emu_hot_state->me;
  memcpy(&me->given, &x, sizeof x);
  me->lanes = me->thread % 32;
  emu_hot_state->wait(EMU_WAIT_SHUFFLE, PC);
  memcpy(&x, &me->got, sizeof x);
  return x;
}

/* ---- shared memory by its own addresses ---- */

/* The bytes at an address of shared memory, as they are accessed; NULL where there are none. */
static char *shared_at(uint32_t address, uint32_t size, int is_write, uintptr_t pc)
{
  emu_hot *hot = emu_hot_state;
  const emu_me *me = hot->me;
  uint32_t at = address - EMU_SHARED_BASE;
  if (at > me->shared_size || size > me->shared_size - at) {
    emu_event event = {.kind = EMU_OUT_OF_BOUNDS,
                       .is_write = is_write,
                       .in_shared = 1,
                       .address = at,
                       .size = size,
                       .pc = pc};
    hot->found(&event);
    return NULL;
  }
  if (address % size)
    emu_report_access(hot, EMU_MISALIGNED, is_write, (uintptr_t)me->shared + at, size, pc);
  return me->shared + at;
}

uint32_t emu_shared_address(const char *p);
uint32_t emu_shared_address(const char *p)
{
  return (uint32_t)((uintptr_t)p - (uintptr_t)emu_hot_state->me->shared) + EMU_SHARED_BASE;
}

typedef struct words {
  uint32_t at[4];
} words;

static words poison(void)
{
  return (words){{EMU_POISON, EMU_POISON, EMU_POISON, EMU_POISON}};
}

void emu_put16(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d);
void emu_put16(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
  uint32_t *p = (uint32_t *)(void *)shared_at(to, 16, 1, PC);
  if (!p)
    return;
  emu_access(emu_hot_state, (uintptr_t)p, 16, 1, PC);
  p[0] = a;
  p[1] = b;
  p[2] = c;
  p[3] = d;
}

static words read16(uint32_t from, uintptr_t pc)
{
  const words *p = (const words *)(const void *)shared_at(from, 16, 0, pc);
  if (!p)
    return poison();
  emu_access(emu_hot_state, (uintptr_t)p, 16, 0, pc);
  return *p;
}

words emu_get16(uint32_t from);
words emu_get16(uint32_t from)
{
  return read16(from, PC);
}

void emu_put4(uint32_t to, uint32_t x);
void emu_put4(uint32_t to, uint32_t x)
{
  uint32_t *p = (uint32_t *)(void *)shared_at(to, 4, 1, PC);
  if (!p)
    return;
  emu_access(emu_hot_state, (uintptr_t)p, 4, 1, PC);
  *p = x;
}

uint32_t emu_get4(uint32_t from);
uint32_t emu_get4(uint32_t from)
{
  const uint32_t *p = (const uint32_t *)(const void *)shared_at(from, 4, 0, PC);
  if (!p)
    return EMU_POISON;
  emu_access(emu_hot_state, (uintptr_t)p, 4, 0, PC);
  return *p;
}

/* Whether an atomic may change the number at an address: in global memory alone. */
static int takes_atomic(uintptr_t a, uintptr_t pc)
{
  emu_hot *hot = emu_hot_state;
  if (a % 4)
    emu_report_access(hot, EMU_MISALIGNED, 1, a, 4, pc);
  if (a - hot->arena >= hot->arena_size || a - (uintptr_t)hot->me->shared < hot->me->shared_size) {
    emu_report_access(hot, EMU_OUT_OF_BOUNDS, 1, a, 4, pc);
    return 0;
  }
  emu_count_access(hot, 1, a, 4, pc);
  emu_atomic_cell(hot, hot->shadow + (a - hot->arena) / 4, a, pc);
  return 1;
}

int32_t emu_atomic_add(int32_t *to, int32_t x);
int32_t emu_atomic_add(int32_t *to, int32_t x)
{
  if (!takes_atomic((uintptr_t)to, PC))
    return 0;
  const int32_t before = *to;
  *to = (int32_t)((uint32_t)before + (uint32_t)x);
  return before;
}

void emu_await_count(const int32_t *from, int32_t n, int or_more);
void emu_await_count(const int32_t *from, int32_t n, int or_more)
{
  if (takes_atomic((uintptr_t)from, PC))
    emu_hot_state->await_count(from, n, or_more, PC);
}

void emu_count_up(int32_t *to, int32_t x);
void emu_count_up(int32_t *to, int32_t x)
{
  if (!takes_atomic((uintptr_t)to, PC))
    return;
  *to = (int32_t)((uint32_t)*to + (uint32_t)x);
  emu_hot_state->counted(to);
}

void emu_reduce_add(float *to, float x);
void emu_reduce_add(float *to, float x)
{
  if (takes_atomic((uintptr_t)to, PC))
    *to += x;
}

void emu_reduce_add4(float *to, float a, float b, float c, float d);
void emu_reduce_add4(float *to, float a, float b, float c, float d)
{
  const float x[4] = {a, b, c, d};
  if ((uintptr_t)to % 16)
    emu_report_access(emu_hot_state, EMU_MISALIGNED, 1, (uintptr_t)to, 16, PC);
  for (int i = 0; i < 4; i++)
    if (takes_atomic((uintptr_t)(to + i), PC))
      to[i] += x[i];
}

/* ---- what a warp does together ---- */

/* Each lane reads its row when it comes; the meeting hands the elements out. */
words emu_ldmatrix(uint32_t row, int32_t place);
words emu_ldmatrix(uint32_t row, int32_t place)
{
  emu_me *me = emu_hot_state->me;
  words x = read16(row, PC);
  me->part.place = place;
  me->part.row = row;
  for (int i = 0; i < 4; i++)
    me->part.a[i] = x.at[i];
  emu_hot_state->wait(EMU_WAIT_TOGETHER, PC);
  for (int i = 0; i < 4; i++)
    x.at[i] = me->part.got[i];
  return x;
}

typedef struct floats {
  float at[4];
} floats;

floats emu_mma(float c0, float c1, float c2, float c3, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
               uint32_t b0, uint32_t b1, int32_t place);
floats emu_mma(float c0, float c1, float c2, float c3, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
               uint32_t b0, uint32_t b1, int32_t place)
{
  emu_me *me = emu_hot_state->me;
  emu_count_access(emu_hot_state, 0, 0, 0, PC);
  me->part = (emu_part){.place = place, .a = {a0, a1, a2, a3}, .b = {b0, b1}, .c = {c0, c1, c2, c3}};
  emu_hot_state->wait(EMU_WAIT_TOGETHER, PC);
  return (floats){{me->part.c[0], me->part.c[1], me->part.c[2], me->part.c[3]}};
}

/* ---- copies that run on by themselves ---- */

void emu_copy_async(uint32_t to, const char *from, int real);
void emu_copy_async(uint32_t to, const char *from, int real)
{
  emu_hot *hot = emu_hot_state;
  uintptr_t source = (uintptr_t)from;
  char *target = shared_at(to, 16, 1, PC);
  if (source % 16)
    emu_report_access(hot, EMU_MISALIGNED, 0, source, 16, PC);
  /* The source is of global memory: neither shared nor a thread's own nor an argument. */
  if (real && (source - hot->arena >= hot->arena_size ||
               source - (uintptr_t)hot->me->shared < hot->me->shared_size)) {
    emu_report_access(hot, EMU_OUT_OF_BOUNDS, 0, source, 16, PC);
    return;
  }
  if (target)
    hot->copy(target, from, real, PC);
}

void emu_copy_commit(void);
void emu_copy_commit(void)
{
  emu_hot_state->copy_commit();
}

void emu_copy_wait(int left);
void emu_copy_wait(int left)
{
  emu_hot_state->copy_wait(left);
}

/* ---- what Hopper added ---- */

long long emu_grid_size(void);
long long emu_grid_size(void)
{
  return emu_hot_state->me->grid;
}

int emu_any_lane(int x);
int emu_any_lane(int x)
{
  emu_me *me = emu_hot_state->me;
  me->given = x ? 1 : 0;
  emu_hot_state->wait(EMU_WAIT_VOTE, PC);
  return me->got > 0;
}

void emu_barrier_init(uint32_t at, int32_t count);
void emu_barrier_init(uint32_t at, int32_t count)
{
  char *p = shared_at(at, 8, 1, PC);
  if (!p)
    return;
  emu_access(emu_hot_state, (uintptr_t)p, 8, 1, PC);
  emu_hot_state->signal_init(at, count, PC);
}

void emu_barrier_init_fence(void);
void emu_barrier_init_fence(void)
{
  emu_hot_state->signal_fence();
}

void emu_barrier_arrive(uint32_t at, int32_t bytes);
void emu_barrier_arrive(uint32_t at, int32_t bytes)
{
  emu_hot_state->signal_arrive(at, bytes, PC);
}

int emu_barrier_passed(uint32_t at, uint32_t parity, int waits);
int emu_barrier_passed(uint32_t at, uint32_t parity, int waits)
{
  emu_count_access(emu_hot_state, 0, 0, 0, PC);
  return emu_hot_state->signal_passed(at, parity, waits, PC);
}

void emu_named(int name, int threads, int waits);
void emu_named(int name, int threads, int waits)
{
  emu_hot_state->named(name, threads, waits, PC);
}

void emu_registers(int count, int more);
void emu_registers(int count, int more)
{
  emu_hot_state->own_registers(count, more, PC);
}

/* Four coordinates in two words. */
void emu_copy_box(uint32_t to, const void *map, uint64_t low, uint64_t high, uint32_t barrier);
void emu_copy_box(uint32_t to, const void *map, uint64_t low, uint64_t high, uint32_t barrier)
{
  const int32_t at[4] = {(int32_t)low, (int32_t)(low >> 32), (int32_t)high, (int32_t)(high >> 32)};
  emu_hot_state->box_load(to, map, at, barrier, PC);
}

void emu_copy_box_to_all(uint32_t to, const void *map, uint64_t low, uint64_t high, uint32_t barrier,
                         int blocks);
void emu_copy_box_to_all(uint32_t to, const void *map, uint64_t low, uint64_t high, uint32_t barrier,
                         int blocks)
{
  const int32_t at[4] = {(int32_t)low, (int32_t)(low >> 32), (int32_t)high, (int32_t)(high >> 32)};
  emu_hot_state->box_load_all(to, map, at, barrier, blocks, PC);
}

void emu_store_box(const void *map, uint64_t low, uint64_t high, uint32_t from);
void emu_store_box(const void *map, uint64_t low, uint64_t high, uint32_t from)
{
  const int32_t at[4] = {(int32_t)low, (int32_t)(low >> 32), (int32_t)high, (int32_t)(high >> 32)};
  emu_hot_state->box_store(map, at, from, PC);
}

void emu_copy_bulk(uint32_t to, const void *from, int bytes, uint32_t barrier);
void emu_copy_bulk(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
  emu_hot_state->bulk_load(to, from, bytes, barrier, PC);
}

void emu_reduce_bulk(float *to, uint32_t from, int bytes);
void emu_reduce_bulk(float *to, uint32_t from, int bytes)
{
  emu_hot_state->bulk_reduce(to, from, bytes, PC);
}

void emu_store_commit(void);
void emu_store_commit(void)
{
  emu_hot_state->store_commit();
}

void emu_launch_next(void);
void emu_launch_next(void)
{
  emu_hot_state->launch_next();
}

void emu_launch_wait(void);
void emu_launch_wait(void)
{
  emu_hot_state->launch_wait();
}

void emu_store_wait(void);
void emu_store_wait(void)
{
  emu_hot_state->store_wait();
}

void emu_copies_fence(void);
void emu_copies_fence(void)
{
  emu_hot_state->copies_fence();
}

/* The meeting says what this lane's row is; the lane writes it. */
void emu_stmatrix(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d, int32_t place);
void emu_stmatrix(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d, int32_t place)
{
  emu_me *me = emu_hot_state->me;
  me->part = (emu_part){.place = place, .row = row, .a = {a, b, c, d}};
  emu_hot_state->wait(EMU_WAIT_TOGETHER, PC);
  uint32_t *p = (uint32_t *)(void *)shared_at(row, 16, 1, PC);
  if (!p)
    return;
  emu_access(emu_hot_state, (uintptr_t)p, 16, 1, PC);
  for (int i = 0; i < 4; i++)
    p[i] = me->part.got[i];
}

/* `flags`: 1 = added to c, 2 = of bf16, 4 = rows of B are contiguous columns of the product, 8 = columns of A
 * are contiguous rows of it. */
void emu_wgmma(float *c, int columns, const uint32_t *a, uint64_t left, uint64_t b, int flags, int32_t place);
void emu_wgmma(float *c, int columns, const uint32_t *a, uint64_t left, uint64_t b, int flags, int32_t place)
{
  emu_me *me = emu_hot_state->me;
  me->part.place = place;
  me->part.product =
      (emu_product){c, columns, a, left, b, !(flags & 4), flags >> 3 & 1, flags & 1, flags >> 1 & 1};
  emu_hot_state->product(PC);
}

void emu_wgmma_fence(void);
void emu_wgmma_fence(void)
{
  emu_hot_state->products_fence();
}

void emu_wgmma_commit(void);
void emu_wgmma_commit(void)
{
  emu_hot_state->products_commit();
}

void emu_wgmma_wait(int left);
void emu_wgmma_wait(int left)
{
  emu_hot_state->products_wait(left);
}
