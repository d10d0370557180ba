/* streams.c -- makes room for Lua inside libfatune-jit.
 *
 * Distributions build the static Lua for programs, not for shared libraries. All but one thing in it can be
 * linked here, since its symbols stay hidden: it reads the C library's three stream variables at an address
 * that only a program could fix. The linker is told (--wrap) that it means the variables below. Templates see
 * no input or output of Lua's, so nothing is read or written through them. */
#include <stdio.h>

extern FILE *__real_stdin, *__real_stdout, *__real_stderr; /* the linker's names of the C library's */
FILE *__wrap_stdin, *__wrap_stdout, *__wrap_stderr;

__attribute__((constructor)) static void point(void)
{
  __wrap_stdin = __real_stdin;
  __wrap_stdout = __real_stdout;
  __wrap_stderr = __real_stderr;
}
