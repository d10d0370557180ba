/* hot.c -- what the compiler calls at each memory access of a kernel, and the twins' way to the scheduler.
 *
 * Linked into every kernel's shared object. Goes in: address and size of an access, before it is made. Comes
 * out: nothing, or an event for the scheduler. The names are those that -fsanitize=thread and the parts of
 * -fsanitize=undefined emit calls to; their runtime libraries are not linked. */
#include "hot.h"

#define OPEN __attribute__((visibility("default")))
#define PC   ((uintptr_t)__builtin_return_address(0))

static emu_hot *hot;

void emu_hot_attach(emu_hot *state);
OPEN void emu_hot_attach(emu_hot *state)
{
  hot = state;
}

static const uint64_t epoch_mask = (UINT64_C(1) << EMU_EPOCH_BITS) - 1;
enum { block_shift = EMU_EPOCH_BITS + EMU_THREAD_BITS };
static const uint64_t block_mask = (UINT64_C(1) << EMU_BLOCK_BITS) - 1;
/* The bits in which two stamps of one block and epoch agree. */
static const uint64_t same_block_epoch = ((UINT64_C(1) << EMU_BLOCK_BITS) - 1)
                                             << (EMU_EPOCH_BITS + EMU_THREAD_BITS) |
                                         ((UINT64_C(1) << EMU_EPOCH_BITS) - 1);
static const uint64_t who_mask = (UINT64_C(1) << (EMU_BLOCK_BITS + EMU_THREAD_BITS)) - 1;

/* Whether the accesses that a stamp stands for came before the present of thread `me`. `span` says of how
 * many threads they are: EMU_ONE ... EMU_OF_GRID. */
static inline int before(uint64_t stamp, unsigned span, const emu_me *me)
{
  uint64_t who = stamp >> EMU_EPOCH_BITS & who_mask;
  uint64_t block = who >> EMU_THREAD_BITS;
  if (block < hot->first_block)
    return 1;
  if (span == EMU_ONE && who == me->who)
    return 1;
  if (span == EMU_OF_GRID || block != me->who >> EMU_THREAD_BITS)
    return 0;
  uint64_t epoch = stamp & epoch_mask;
  if (epoch < me->seen_block)
    return 1;
  return span != EMU_OF_BLOCK && who / EMU_WARP == me->who / EMU_WARP && epoch < me->seen_warp;
}

static void report(emu_kind kind, int is_write, uintptr_t address, uint32_t size, uintptr_t pc)
{
  emu_event event = {.kind = kind, .is_write = is_write, .address = address, .size = size, .pc = pc};
  hot->found(&event);
}

static void report_race(const emu_cell *cell, int with_write, int is_write, uintptr_t address, uint32_t size,
                        uintptr_t pc)
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
static void add_reader(emu_cell *cell, const emu_me *me, uintptr_t pc)
{
  uint64_t old = cell->read;
  unsigned span = old >> EMU_TAG_SHIFT;
  cell->read_pc = (uint32_t)(pc - hot->image);
  if (before(old, span, me)) {
    cell->read = me->stamp;
    return;
  }
  uint64_t old_who = old >> EMU_EPOCH_BITS & who_mask;
  uint64_t epoch = me->stamp & epoch_mask;
  if ((old & epoch_mask) > epoch)
    epoch = old & epoch_mask;
  if (old_who >> EMU_THREAD_BITS != me->who >> EMU_THREAD_BITS)
    span = EMU_OF_GRID;
  else if (span < EMU_OF_BLOCK)
    span = old_who / EMU_WARP == me->who / EMU_WARP ? EMU_OF_WARP : EMU_OF_BLOCK;
  cell->read = (uint64_t)span << EMU_TAG_SHIFT | me->who << EMU_EPOCH_BITS | epoch;
}

static inline void read_cell(emu_cell *cell, const emu_me *me, uintptr_t a, uint32_t size, uintptr_t pc)
{
  /* A write would have taken this thread's mark away: all was checked when it was set. */
  if (cell->read == me->stamp)
    return;
  if (__builtin_expect(cell->write >> EMU_TAG_SHIFT != EMU_FILLED, 0)) {
    int empty = cell->write >> EMU_TAG_SHIFT == EMU_EMPTY;
    report(empty ? EMU_UNINITIALISED : EMU_OUT_OF_BOUNDS, 0, a, size, pc);
    if (!empty)
      return;
  }
  if (__builtin_expect(!before(cell->write, EMU_ONE, me), 0))
    report_race(cell, 1, 0, a, size, pc);
  /* Most reads: of inputs by many blocks, of shared memory by a whole block. The set holds this one already.
   */
  uint64_t other = cell->read ^ me->stamp;
  unsigned span = cell->read >> EMU_TAG_SHIFT;
  if (span == EMU_OF_GRID && (cell->read >> block_shift & block_mask) >= hot->first_block)
    return;
  if (span == EMU_OF_BLOCK && (other & same_block_epoch) == 0)
    return;
  add_reader(cell, me, pc);
}

static inline void write_cell(emu_cell *cell, const emu_me *me, uintptr_t a, uint32_t size, uintptr_t pc)
{
  if (__builtin_expect(cell->write >> EMU_TAG_SHIFT == EMU_CLOSED, 0)) {
    report(EMU_OUT_OF_BOUNDS, 1, a, size, pc);
    return;
  }
  if (__builtin_expect(!before(cell->write, EMU_ONE, me), 0))
    report_race(cell, 1, 1, a, size, pc);
  if (__builtin_expect(!before(cell->read, cell->read >> EMU_TAG_SHIFT, me), 0))
    report_race(cell, 0, 1, a, size, pc);
  cell->write = (uint64_t)EMU_FILLED << EMU_TAG_SHIFT | me->stamp;
  cell->read = 0;
  cell->write_pc = (uint32_t)(pc - hot->image);
}

/* An address outside the arena: a thread's own stack is its registers, constants and arguments may be read.
 */
static void outside(uintptr_t a, uint32_t size, int is_write, uintptr_t pc)
{
  const emu_me *me = hot->me;
  if (a - me->stack < me->stack_size)
    return;
  if (!is_write && (a - hot->image < hot->image_size || a - hot->call < hot->call_size))
    return;
  report(EMU_OUT_OF_BOUNDS, is_write, a, size, pc);
}

static inline void access(uintptr_t a, uint32_t size, int is_write, uintptr_t pc)
{
  emu_hot *s = hot;
  uint64_t offset = a - s->arena;
  if (__builtin_expect(offset >= s->arena_size, 0)) {
    outside(a, size, is_write, pc);
    return;
  }
  if (__builtin_expect(++s->accesses > s->budget, 0))
    report(EMU_ENDLESS, is_write, a, size, pc);
  emu_cell *cell = s->shadow + offset / 4, *last = s->shadow + (offset + size - 1) / 4;
  const emu_me *me = s->me;
  do {
    if (is_write)
      write_cell(cell, me, a, size, pc);
    else
      read_cell(cell, me, a, size, pc);
    a += 4;
  } while (cell++ < last);
}

#define ACCESSES(size)                                                                                       \
  void __tsan_read##size(void *p);                                                                           \
  void __tsan_read##size(void *p)                                                                            \
  {                                                                                                          \
    access((uintptr_t)p, size, 0, PC);                                                                       \
  }                                                                                                          \
  void __tsan_write##size(void *p);                                                                          \
  void __tsan_write##size(void *p)                                                                           \
  {                                                                                                          \
    access((uintptr_t)p, size, 1, PC);                                                                       \
  }                                                                                                          \
  void __tsan_unaligned_read##size(void *p);                                                                 \
  void __tsan_unaligned_read##size(void *p)                                                                  \
  {                                                                                                          \
    access((uintptr_t)p, size, 0, PC);                                                                       \
  }                                                                                                          \
  void __tsan_unaligned_write##size(void *p);                                                                \
  void __tsan_unaligned_write##size(void *p)                                                                 \
  {                                                                                                          \
    access((uintptr_t)p, size, 1, PC);                                                                       \
  }                                                                                                          \
  void __tsan_read_write##size(void *p);                                                                     \
  void __tsan_read_write##size(void *p)                                                                      \
  {                                                                                                          \
    access((uintptr_t)p, size, 0, PC);                                                                       \
    access((uintptr_t)p, size, 1, PC);                                                                       \
  }                                                                                                          \
  void __tsan_unaligned_read_write##size(void *p);                                                           \
  void __tsan_unaligned_read_write##size(void *p)                                                            \
  {                                                                                                          \
    access((uintptr_t)p, size, 0, PC);                                                                       \
    access((uintptr_t)p, size, 1, PC);                                                                       \
  }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *p, unsigned long size);
void __tsan_read_range(void *p, unsigned long size)
{
  if (size)
    access((uintptr_t)p, (uint32_t)size, 0, PC);
}

void __tsan_write_range(void *p, unsigned long size);
void __tsan_write_range(void *p, unsigned long size)
{
  if (size)
    access((uintptr_t)p, (uint32_t)size, 1, PC);
}

/* Copies and fills that a compiler made calls of. Written so that none of these loops becomes such a call. */
#define KEEP __asm__ volatile("" ::: "memory")

static void *copy(void *to, const void *from, unsigned long size, uintptr_t pc)
{
  char *t = to;
  const char *f = from;
  int down = t > f;
  if (size) {
    access((uintptr_t)from, (uint32_t)size, 0, pc);
    access((uintptr_t)to, (uint32_t)size, 1, pc);
  }
  for (unsigned long i = 0; i < size; i++) {
    unsigned long at = down ? size - 1 - i : i;
    t[at] = f[at];
    KEEP;
  }
  return to;
}

static void *fill(void *to, int byte, unsigned long size, uintptr_t pc)
{
  if (size)
    access((uintptr_t)to, (uint32_t)size, 1, pc);
  for (unsigned long i = 0; i < size; i++) {
    ((char *)to)[i] = (char)byte;
    KEEP;
  }
  return to;
}

#define COPIES(name)                                                                                         \
  void *name(void *to, const void *from, unsigned long size);                                                \
  void *name(void *to, const void *from, unsigned long size)                                                 \
  {                                                                                                          \
    return copy(to, from, size, PC);                                                                         \
  }
#define FILLS(name)                                                                                          \
  void *name(void *to, int byte, unsigned long size);                                                        \
  void *name(void *to, int byte, unsigned long size)                                                         \
  {                                                                                                          \
    return fill(to, byte, size, PC);                                                                         \
  }
COPIES(memcpy)
COPIES(memmove)
COPIES(__tsan_memcpy)
COPIES(__tsan_memmove)
FILLS(memset)
FILLS(__tsan_memset)

#define IGNORED(name)                                                                                        \
  void name(void);                                                                                           \
  void name(void)                                                                                            \
  {                                                                                                          \
  }
IGNORED(__tsan_init)
IGNORED(__tsan_func_entry)
IGNORED(__tsan_func_exit)

/* What every record of -fsanitize=undefined begins with. */
typedef struct place {
  const char *file;
  uint32_t line, column;
} place;

static void report_place(emu_kind kind, const place *at, uintptr_t address)
{
  emu_event event = {.kind = kind, .address = address, .file = at->file, .line = at->line};
  hot->found(&event);
}

/* A pointer of a type that its address is not aligned for. */
void __ubsan_handle_type_mismatch_v1(const place *at, uintptr_t address);
void __ubsan_handle_type_mismatch_v1(const place *at, uintptr_t address)
{
  report_place(EMU_MISALIGNED, at, address);
}

/* An index outside an array of known length: of registers, as a kernel has no other such arrays. */
void __ubsan_handle_out_of_bounds(const place *at, uintptr_t index);
void __ubsan_handle_out_of_bounds(const place *at, uintptr_t index)
{
  report_place(EMU_REGISTER_BOUNDS, at, index);
}

#define ARITHMETIC(name)                                                                                     \
  void __ubsan_handle_##name(const place *at);                                                               \
  void __ubsan_handle_##name(const place *at)                                                                \
  {                                                                                                          \
    report_place(EMU_ARITHMETIC, at, 0);                                                                     \
  }
ARITHMETIC(add_overflow)
ARITHMETIC(sub_overflow)
ARITHMETIC(mul_overflow)
ARITHMETIC(negate_overflow)
ARITHMETIC(divrem_overflow)
ARITHMETIC(shift_out_of_bounds)

/* What the twins of the arch functions call (prelude.hpp). */
int emu_thread_id(void);
int emu_thread_id(void)
{
  return hot->me->thread;
}

long long emu_block_id(void);
long long emu_block_id(void)
{
  return hot->me->block;
}

char *emu_shared_memory(void);
char *emu_shared_memory(void)
{
  return hot->me->shared;
}

void emu_block_sync(void);
void emu_block_sync(void)
{
  hot->wait(EMU_WAIT_BLOCK, PC);
}

void emu_warp_sync(void);
void emu_warp_sync(void)
{
  hot->wait(EMU_WAIT_WARP, PC);
}

float emu_shfl_xor(float x, int lanes);
float emu_shfl_xor(float x, int lanes)
{
  emu_me *me = hot->me;
  me->given = x;
  me->lanes = lanes;
  hot->wait(EMU_WAIT_SHUFFLE, PC);
  return me->got;
}
