/* context.c -- asks the driver which context is current; never makes or changes one.
 *
 * A context's address may be used again after it was destroyed, its number is not: modules of the old one
 * are not taken for the new one's where the driver tells numbers (CUDA 12 and later). */
#include "context.h"

fat_status fat_context_current(const fat_driver *driver, fat_context *context, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  *context = (fat_context){0};
  FAT_TRY(fat_driver_check(driver, "cuCtxGetCurrent", cuda->context_get(&context->handle), err));
  if (!context->handle)
    return fat_status_fail(
        err, FAT_E_NO_CONTEXT,
        "no CUDA context is current in this thread: make one with cuCtxSetCurrent, or with "
        "any call of the CUDA runtime such as cudaSetDevice followed by cudaFree(0)");
  FAT_TRY(fat_driver_check(driver, "cuCtxGetDevice", cuda->context_device(&context->device), err));
  if (cuda->context_id)
    FAT_TRY(fat_driver_check(driver, "cuCtxGetId", cuda->context_id(context->handle, &context->id), err));
  return FAT_OK;
}

bool fat_context_same(const fat_context *a, const fat_context *b)
{
  return a->handle == b->handle && a->id == b->id;
}
