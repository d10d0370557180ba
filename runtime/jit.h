/* jit.h -- asks libfatune-jit for a kernel; finds and loads that library when it is first needed. */
#ifndef FAT_JIT_H
#define FAT_JIT_H

#include "jit_abi.h"

/* Begin with {0}. For one thread at a time. */
typedef struct fat_jit {
  void *library;
#define FAT_JIT_POINTER(result, name, parameters) result(*name) parameters;
  FATUNE_JIT_CALLS(FAT_JIT_POINTER)
#undef FAT_JIT_POINTER
} fat_jit;

/* Loads the library, which the first question does too. */
fat_status fat_jit_open(fat_jit *jit, fat_error *err);

/* Answers. FAT_E_COMPILE where there is no libfatune-jit that fits this library: looked for as FATUNE_JIT
 * says, else beside this library, else where the linker looks. The answer must be freed in any case. */
fat_status fat_jit_ask(fat_jit *jit, const fatune_jit_request *request, fatune_jit_answer *answer,
                       fat_error *err);
void fat_jit_free(const fat_jit *jit, fatune_jit_answer *answer);

/* The library stays mapped: it may hold an NVRTC, which cannot be unloaded. */
void fat_jit_close(fat_jit *jit);

#endif
