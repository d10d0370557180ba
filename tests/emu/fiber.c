/* fiber.c -- switching stacks by hand on x86-64 and aarch64, by ucontext elsewhere.
 *
 * swapcontext asks the kernel for the signal mask each time, a hundred times the cost of the switch itself; a
 * kernel with shuffles switches once per lane and shuffle. Only registers that a callee must keep are saved.
 */
#include "fiber.h"
#include <sys/mman.h>
#include <unistd.h>

static size_t slot(void)
{
  return EMU_STACK + (size_t)sysconf(_SC_PAGESIZE);
}

char *emu_fiber_stacks(int count)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *stacks = mmap(NULL, slot() * (size_t)count, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED)
    return NULL;
  for (int i = 0; i < count; i++)
    if (mprotect(stacks + slot() * (size_t)i, page, PROT_NONE)) {
      munmap(stacks, slot() * (size_t)count);
      return NULL;
    }
  return stacks;
}

void emu_fiber_free(char *stacks, int count)
{
  if (stacks)
    munmap(stacks, slot() * (size_t)count);
}

char *emu_fiber_stack(char *stacks, int index, size_t *size)
{
  *size = EMU_STACK;
  return stacks + slot() * (size_t)(index + 1) - EMU_STACK;
}

#ifdef EMU_FIBER_PORTABLE

static void enter(unsigned high, unsigned low)
{
  emu_fiber *fiber = (emu_fiber *)((uintptr_t)high << 16 << 16 | low);
  fiber->body(fiber->argument);
}

void emu_fiber_set(emu_fiber *fiber, char *stack, size_t size, void (*body)(void *), void *argument)
{
  fiber->body = body;
  fiber->argument = argument;
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = size;
  fiber->context.uc_link = NULL;
  uintptr_t p = (uintptr_t)fiber;
  makecontext(&fiber->context, (void (*)(void))enter, 2, (unsigned)(p >> 16 >> 16), (unsigned)p);
}

void emu_fiber_switch(emu_fiber *from, emu_fiber *to)
{
  swapcontext(&from->context, &to->context);
}

#else

/* emu_fiber_jump(from, to): pushes what a callee must keep, stores the stack pointer in *from, takes `to`.
 * emu_fiber_first: where a new fiber begins; its body and argument lie in two of the kept registers. */
void emu_fiber_jump(void **from, void *to);
void emu_fiber_first(void);

#if defined(__x86_64__)
enum { SAVED = 9, BODY = 2, ARGUMENT = 1, RETURN = 6 };
__asm__(".text\n"
        ".globl emu_fiber_jump\n"
        ".type emu_fiber_jump, @function\n"
        "emu_fiber_jump:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".size emu_fiber_jump, .-emu_fiber_jump\n"
        ".globl emu_fiber_first\n"
        ".type emu_fiber_first, @function\n"
        "emu_fiber_first:\n"
        "  movq %r14, %rdi\n"
        "  callq *%r13\n"
        "  ud2\n"
        ".size emu_fiber_first, .-emu_fiber_first\n");
#else
enum { SAVED = 20, BODY = 0, ARGUMENT = 1, RETURN = 11 };
__asm__(".text\n"
        ".globl emu_fiber_jump\n"
        ".type emu_fiber_jump, %function\n"
        "emu_fiber_jump:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n"
        "  stp x21, x22, [sp, #16]\n"
        "  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n"
        "  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x2, sp\n"
        "  str x2, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n"
        "  ldp x21, x22, [sp, #16]\n"
        "  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n"
        "  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size emu_fiber_jump, .-emu_fiber_jump\n"
        ".globl emu_fiber_first\n"
        ".type emu_fiber_first, %function\n"
        "emu_fiber_first:\n"
        "  mov x0, x20\n"
        "  blr x19\n"
        "  brk #1\n"
        ".size emu_fiber_first, .-emu_fiber_first\n");
#endif

void emu_fiber_set(emu_fiber *fiber, char *stack, size_t size, void (*body)(void *), void *argument)
{
  /* Top aligned to 16, as if emu_fiber_first had been jumped to with nothing pushed. */
  void **frame = (void **)((uintptr_t)(stack + size) & ~(uintptr_t)15) - SAVED;
  for (int i = 0; i < SAVED; i++)
    frame[i] = NULL;
  frame[BODY] = (void *)(uintptr_t)body;
  frame[ARGUMENT] = argument;
  frame[RETURN] = (void *)(uintptr_t)emu_fiber_first;
  fiber->body = body;
  fiber->argument = argument;
  fiber->sp = frame;
}

void emu_fiber_switch(emu_fiber *from, emu_fiber *to)
{
  emu_fiber_jump(&from->sp, to->sp);
}

#endif
