/* hot.c -- what the compiler calls at each memory access of a kernel.
 *
 * Linked into every kernel's shared object. Goes in: address and size of an access, before it is made. Comes
 * out: nothing, or an event for the scheduler. The names are those that -fsanitize=thread and the parts of
 * -fsanitize=undefined emit calls to; their runtime libraries are not linked. */
#include "shadow.h"

#define OPEN __attribute__((visibility("default")))
#define PC   ((uintptr_t)__builtin_return_address(0))

emu_hot *emu_hot_state;

void emu_hot_attach(emu_hot *state);
OPEN void emu_hot_attach(emu_hot *state)
{
  emu_hot_state = state;
}

static inline void access(uintptr_t a, uint32_t size, int is_write, uintptr_t pc)
{
  emu_access(emu_hot_state, a, size, is_write, pc);
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
  emu_hot_state->found(&event);
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
