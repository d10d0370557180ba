/* named.h -- a problem and a GPU by their names; the test fails where there is none. */
#ifndef TEST_NAMED_H
#define TEST_NAMED_H

#include "gpu.h"
#include "problem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static inline fat_problem problem_of(const char *text)
{
  fat_problem p;
  fat_error err = {0};
  if (fat_problem_parse(text, &p, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return p;
}

static inline const fat_gpu *gpu_of(const char *name)
{
  const fat_gpu *gpu;
  assert_int_equal(fat_gpu_find(name, &gpu, NULL), FAT_OK);
  return gpu;
}

#endif
