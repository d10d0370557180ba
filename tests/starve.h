/* starve.h -- makes an allocation fail on demand, in our code and in every library linked into the test.
 *
 * Include it in one file of a test that names __wrap_malloc (tests/CMakeLists.txt then wraps malloc, calloc,
 * realloc and strdup). `starve_after(n)` lets n allocations pass; what follows is refused: one of them, or
 * all until starve_end(). */
#ifndef TEST_STARVE_H
#define TEST_STARVE_H

#include <stdbool.h>
#include <stddef.h>

static long starve_budget = -1; /* allocations that still pass; -1: all */
static bool starve_on;          /* refuse all that follow, not one */
static long starve_refused;     /* how many were refused since starve_after */

static inline void starve_after(long n, bool all_that_follow)
{
  starve_refused = 0;
  starve_on = all_that_follow;
  starve_budget = n;
}

/* Back to plenty. Returns whether anything was refused: if not, the call under test needed fewer. */
static inline bool starve_end(void)
{
  starve_budget = -1;
  return starve_refused > 0;
}

static inline bool starve_refuse(void)
{
  if (starve_budget < 0 || starve_budget-- > 0)
    return false;
  starve_budget = starve_on ? 0 : -1;
  starve_refused++;
  return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t n)
{
  return starve_refuse() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
  return starve_refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
  return starve_refuse() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
  return starve_refuse() ? NULL : __real_strdup(s);
}

#endif
