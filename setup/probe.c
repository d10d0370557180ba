/* probe.c -- prints which libnvrtc fatune would use on this machine; for set-up.
 *
 * Exit 0: "13.0 PATH". Exit 1: there is none, and the line is the CUDA major to fetch one for: the newest
 * that the driver supports, 13 without a driver. */
#include "driver.h"
#include "nvrtc.h"
#include <stdio.h>

enum { NEWEST = 13 };

int main(void)
{
  fat_driver *driver = NULL;
  fat_nvrtc *nvrtc = NULL;
  int cuda = fat_driver_open(&driver, NULL) == FAT_OK ? fat_driver_cuda(driver) : 0;
  fat_status status = fat_nvrtc_open(cuda, &nvrtc, NULL);
  if (status == FAT_OK)
    printf("%s %s\n", fat_nvrtc_version(nvrtc), fat_nvrtc_path(nvrtc));
  else
    printf("%d\n", cuda > 0 && cuda < NEWEST ? cuda : NEWEST);
  fat_nvrtc_close(nvrtc);
  fat_driver_close(driver);
  return status == FAT_OK ? 0 : 1;
}
