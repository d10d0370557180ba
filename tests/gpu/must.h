/* must.h -- a call that has to give 0, in the programs here that run without cmocka. */
#ifndef GPU_MUST_H
#define GPU_MUST_H

#include "fatune.h"
#include <stdio.h>

/* Else says so and leaves the function, which is a bool: false. */
#define MUST(call)                                                                                           \
  do {                                                                                                       \
    int must_ = (int)(call);                                                                                 \
    if (must_ != 0) {                                                                                        \
      printf("  line %d: %s gives %d: %s\n", __LINE__, #call, must_, fatune_detail());                       \
      return false;                                                                                          \
    }                                                                                                        \
  } while (0)

#endif
