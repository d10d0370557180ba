/* cuda_error.c -- the one table of the driver's result codes that we tell apart.
 *
 * In: a code. Out: a status. Those that mean that the context or the GPU is lost are those of which cuda.h
 * says that the process is left in an inconsistent state; tests/test_cuda_abi.cpp compares codes and names.
 * Codes without a row are FAT_E_CUDA: reported by their name. */
#include "cuda_error.h"
#include "cuda_codes.h"

#include <stddef.h>

typedef struct row {
  int code;
  fat_status status;
  const char *name;
} row;

#define ROW(code, status, name) {code, status, #name},
static const row rows[] = {FAT_CUDA_CODES(ROW)};

static const row *find(int code)
{
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].code == code)
      return &rows[i];
  return NULL;
}

fat_status fat_cuda_error_status(int code)
{
  const row *r = find(code);
  return r ? r->status : FAT_E_CUDA;
}

const char *fat_cuda_error_name(int code)
{
  const row *r = find(code);
  return r ? r->name : "";
}

bool fat_cuda_error_is_fatal(fat_status status)
{
  static const bool fatal[FAT_STATUS_COUNT] = {
      [FAT_E_NOMEM] = true,     [FAT_E_NO_CONTEXT] = true,   [FAT_E_DEVICE_MEMORY] = true,
      [FAT_E_CAPTURE] = true,   [FAT_E_CONTEXT_DEAD] = true, [FAT_E_DEVICE_LOST] = true,
      [FAT_E_NO_DRIVER] = true, [FAT_E_NO_DEVICE] = true,    [FAT_E_CUDA] = true,
  };
  return fatal[status];
}
