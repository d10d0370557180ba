/* nvrtc_answer.h -- has a real libnvrtc compile and writes down all that it answers: RESULT, the sizes of the
 * machine code, the PTX and the log, a line's end, and the three. What nvrtc_memory.c and nvrtc_apart.c
 * share. */
#ifndef NVRTC_ANSWER_H
#define NVRTC_ANSWER_H

#include "cuda_abi.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUBIN, PTX, LOG, PARTS };

/* A test that was promised the library must not go on without it. */
static void *answer_find(void *library, const char *symbol)
{
  void *address = library ? dlsym(library, symbol) : NULL;
  if (!address) {
    fprintf(stderr, "nvrtc_answer.h: no %s in the real libnvrtc: %s\n", symbol, dlerror());
    abort();
  }
  return address;
}

static void answer_open(const char *path, fat_nvrtc_calls *real)
{
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
  void *address;
  char companion[1200];
  int major, minor;
#define FIND(field, symbol, parameters)                                                                      \
  address = answer_find(library, #symbol);                                                                   \
  memcpy(&real->field, &address, sizeof address);
  FAT_NVRTC_CALLS(FIND)
  FIND(error_text, nvrtcGetErrorString, )
#undef FIND
  address = dlsym(library, "nvrtcSetFlowCallback"); /* which older ones lack */
  memcpy(&real->watch, &address, sizeof address);
  /* As generator/nvrtc.c does it: under a sanitizer NVRTC does not find its companion by itself. */
  real->version(&major, &minor);
  snprintf(companion, sizeof companion, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(strrchr(path, '/') - path),
           path, major, minor);
  dlopen(companion, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* One part of what the library made; NULL and no bytes where it made none. */
static char *answer_part(void *program, int (*size_of)(void *, size_t *), int (*get)(void *, char *),
                         size_t *size)
{
  *size = 0;
  char *bytes = size_of(program, size) == FAT_NVRTC_SUCCESS && *size > 0 ? malloc(*size) : NULL;
  if (!bytes || get(program, bytes) != FAT_NVRTC_SUCCESS)
    *size = 0;
  return bytes;
}

static void answer_write(const fat_nvrtc_calls *real, const char *source, const char *name, int count,
                         const char *const *options, int (*callback)(void *, void *), void *payload,
                         FILE *out)
{
  char *part[PARTS] = {0};
  size_t size[PARTS] = {0};
  void *program = NULL;
  int result = real->create(&program, source, name, 0, NULL, NULL);
  if (result == FAT_NVRTC_SUCCESS && callback && real->watch)
    real->watch(program, callback, payload);
  if (result == FAT_NVRTC_SUCCESS)
    result = real->compile(program, count, options);
  if (result == FAT_NVRTC_SUCCESS) {
    part[CUBIN] = answer_part(program, real->cubin_size, real->cubin, &size[CUBIN]);
    part[PTX] = answer_part(program, real->ptx_size, real->ptx, &size[PTX]);
  }
  if (program) {
    part[LOG] = answer_part(program, real->log_size, real->log, &size[LOG]);
    real->destroy(&program);
  }
  fprintf(out, "%d %zu %zu %zu\n", result, size[CUBIN], size[PTX], size[LOG]);
  for (int i = 0; i < PARTS; i++) {
    if (size[i])
      fwrite(part[i], 1, size[i], out);
    free(part[i]);
  }
}

#endif
