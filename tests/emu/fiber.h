/* fiber.h -- stacks to run functions on, and the switch between them.
 *
 * A fiber runs `body(argument)` on its own stack until it switches back; it must not return. A fiber that is
 * never switched to again costs nothing: its stack is simply used anew by the next `emu_fiber_set`. */
#ifndef EMU_FIBER_H
#define EMU_FIBER_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define EMU_FIBER_PORTABLE
#endif
#ifdef EMU_FIBER_PORTABLE
#include <ucontext.h>
#endif

typedef struct emu_fiber {
#ifdef EMU_FIBER_PORTABLE
  ucontext_t context;
#else
  void *sp;
#endif
  void (*body)(void *argument);
  void *argument;
} emu_fiber;

enum { EMU_STACK = 128 * 1024 };

/* `count` stacks of EMU_STACK bytes, each with a page without access below it; NULL when there is no memory.
 */
char *emu_fiber_stacks(int count);
void emu_fiber_free(char *stacks, int count);
/* The lowest usable byte of one of them and how many bytes there are. */
char *emu_fiber_stack(char *stacks, int index, size_t *size);

void emu_fiber_set(emu_fiber *fiber, char *stack, size_t size, void (*body)(void *), void *argument);
/* Leaves `from` where it is and goes on in `to`. */
void emu_fiber_switch(emu_fiber *from, emu_fiber *to);

#endif
