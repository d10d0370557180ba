/* context.h -- the CUDA context that is current in this thread: modules, and so plans, are loaded in it. */
#ifndef FAT_CONTEXT_H
#define FAT_CONTEXT_H

#include "driver.h"
#include <stdbool.h>

typedef struct fat_context {
  void *handle;          /* CUcontext */
  unsigned long long id; /* never used again in this process; 0 where the driver has no such number */
  int device;            /* CUdevice */
} fat_context;

/* FAT_E_NO_CONTEXT where none is current. */
fat_status fat_context_current(const fat_driver *driver, fat_context *context, fat_error *err);

bool fat_context_same(const fat_context *a, const fat_context *b);

#endif
