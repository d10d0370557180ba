/* cuda_error.h -- what a result code of the driver means to us: by code, never by its words. */
#ifndef FAT_CUDA_ERROR_H
#define FAT_CUDA_ERROR_H

#include "status.h"
#include <stdbool.h>

/* FAT_OK for success; FAT_E_CUDA for a code without a row of its own. */
fat_status fat_cuda_error_status(int code);

/* "CUDA_ERROR_ILLEGAL_ADDRESS" for the codes of the table, where the driver cannot be asked; else "". */
const char *fat_cuda_error_name(int code);

/* Whether trying another kernel after this status is pointless: the GPU, its context or memory failed. */
bool fat_cuda_error_is_fatal(fat_status status);

#endif
