/* jit_fixture.h -- the runtime's fixture, with a libfatune-jit that compiles what is not stored. */
#ifndef FAT_TESTS_JIT_FIXTURE_H
#define FAT_TESTS_JIT_FIXTURE_H

#include "nvrtc.h"
#include "runtime_fixture.h"

#define JIT FAKES "/../runtime/libfatune-jit.so.0"

static inline int begin_jit(void **state)
{
  begin(state);
  setenv("FATUNE_JIT", JIT, 1);
  return 0;
}

/* Whether there is an NVRTC, without which such a test says so and is skipped. */
static inline bool has_nvrtc(void)
{
  fat_nvrtc *nvrtc = NULL;
  fat_error why = {0};
  const bool is_there = fat_nvrtc_open(13, &nvrtc, &why) == FAT_OK;
  if (!is_there)
    printf("skipped: %s\n", why.text);
  fat_nvrtc_close(nvrtc);
  return is_there;
}

#endif
