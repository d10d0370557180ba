/* hog.c -- hog MEBIBYTES: takes all of the first GPU's memory but so much, says "holding", and keeps it until
 * its input ends. For tests of a tuner that is not alone. */
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>

static fat_status hold(const fat_driver *driver, size_t leave, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  enum { PIECE = 64 << 20 };
  size_t free = 0, total = 0;
  fat_cuda_address piece;
  void *context;
  int device;
  FAT_TRY(fat_driver_check(driver, "cuDeviceGet", cuda->device(&device, 0), err));
  FAT_TRY(fat_driver_check(driver, "cuDevicePrimaryCtxRetain", cuda->primary_retain(&context, device), err));
  FAT_TRY(fat_driver_check(driver, "cuCtxSetCurrent", cuda->context_set(context), err));
  FAT_TRY(fat_driver_check(driver, "cuMemGetInfo", cuda->memory_info(&free, &total), err));
  while (free >= leave + PIECE && cuda->memory_alloc(&piece, PIECE) == FAT_CUDA_SUCCESS)
    FAT_TRY(fat_driver_check(driver, "cuMemGetInfo", cuda->memory_info(&free, &total), err));
  return FAT_OK;
}

int main(int argc, char **argv)
{
  fat_driver *driver;
  fat_error err = {0};
  if (argc != 2) {
    fprintf(stderr, "usage: hog MEBIBYTES-TO-LEAVE\n");
    return 2;
  }
  if (fat_driver_open(&driver, &err) != FAT_OK ||
      hold(driver, strtoull(argv[1], NULL, 10) << 20, &err) != FAT_OK) {
    fprintf(stderr, "hog: %s\n", err.text);
    return 1;
  }
  puts("holding");
  fflush(stdout);
  while (getchar() != EOF)
    ;
  fat_driver_close(driver);
  return 0;
}
