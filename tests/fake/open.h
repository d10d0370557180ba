/* open.h -- the fake driver as a test sees it: a table of its calls and of what may be asked of it.
 *
 *   fake_table cu;
 *   fake_open(FAKES "/fake_cuda.so", &cu);
 *   cu.cuInit(0);  cu.fake_fault("cuMemAlloc#1=2");
 *
 * The library is the one that code under test has opened, if it has: state is shared. A driver's optional
 * calls are NULL where it has none. */
#ifndef FAKE_OPEN_H
#define FAKE_OPEN_H

#include "cuda_abi.h"
#include "fake_cuda.h"
#include "more_calls.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_POINTER(field, symbol, parameters)          int(*symbol) parameters;
#define FAKE_POINTER_MORE(symbol, parameters)            int(*symbol) parameters;
#define FAKE_POINTER_CONTROL(result, symbol, parameters) result(*symbol) parameters;
typedef struct fake_table {
  FAT_CUDA_CALLS(FAKE_POINTER)
  FAT_CUDA_OPTIONAL(FAKE_POINTER)
  FAKE_MORE_CALLS(FAKE_POINTER_MORE)
  FAKE_CONTROL(FAKE_POINTER_CONTROL)
} fake_table;

static inline void fake_find(void *library, const char *symbol, bool optional, void *place)
{
  void *address = library ? dlsym(library, symbol) : NULL;
  if (!address && !optional) {
    fprintf(stderr, "the fake driver has no %s: %s\n", symbol, dlerror());
    abort();
  }
  memcpy(place, &address, sizeof address);
}

#define FAKE_FIND(field, symbol, parameters)          fake_find(library, #symbol, false, &table->symbol);
#define FAKE_FIND_OPTIONAL(field, symbol, parameters) fake_find(library, #symbol, true, &table->symbol);
#define FAKE_FIND_MORE(symbol, parameters)            fake_find(library, #symbol, false, &table->symbol);
#define FAKE_FIND_CONTROL(result, symbol, parameters) fake_find(library, #symbol, false, &table->symbol);
static inline void fake_open(const char *path, fake_table *table)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  FAT_CUDA_CALLS(FAKE_FIND)
  FAT_CUDA_OPTIONAL(FAKE_FIND_OPTIONAL)
  FAKE_MORE_CALLS(FAKE_FIND_MORE)
  FAKE_CONTROL(FAKE_FIND_CONTROL)
}

#endif
