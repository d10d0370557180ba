/* driver.h -- libcuda, opened at run time (never linked): a table of the few functions we call.
 *
 * The library is libcuda.so.1, or the file that FATUNE_LIBCUDA names. Opening makes no context. */
#ifndef FAT_DRIVER_H
#define FAT_DRIVER_H

#include "cuda_abi.h"
#include "status.h"
#include <stdbool.h>

typedef struct fat_driver fat_driver;

/* FAT_E_NO_DRIVER: absent, a stub, or refusing to start. FAT_E_NO_DEVICE: it starts, but sees no GPU. Each
 * says what to do. */
fat_status fat_driver_open(fat_driver **driver, fat_error *err);
void fat_driver_close(fat_driver *driver);

const char *fat_driver_text(const fat_driver *driver); /* "580.159.03"; "" where the system does not tell */
int fat_driver_cuda(const fat_driver *driver);         /* the CUDA major it supports: 12, 13 */
const char *fat_driver_cuda_text(const fat_driver *driver); /* "13.0" */
const fat_cuda_calls *fat_driver_table(const fat_driver *driver);
bool fat_driver_maps(const fat_driver *driver); /* whether it makes tensor maps */
/* Whether a launch may overlap the work ahead of it, in a captured graph too: from CUDA 12.3 on. */
bool fat_driver_overlaps(const fat_driver *driver);

/* Fills `err` with a sentence about a call that failed: "cuDeviceGet fails with CUDA_ERROR_X (101): ...". */
fat_status fat_driver_fail(const fat_driver *driver, fat_status status, const char *call, int result,
                           fat_error *err);

/* FAT_OK where `result` is success, else the status that runtime/cuda_error.c has for the code, with the same
 * sentence. */
fat_status fat_driver_check(const fat_driver *driver, const char *call, int result, fat_error *err);

#endif
