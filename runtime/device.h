/* device.h -- the GPUs at hand, each as the facts of a row of the GPU table. */
#ifndef FAT_DEVICE_H
#define FAT_DEVICE_H

#include "driver.h"
#include "gpu.h"

typedef struct fat_device {
  int ordinal; /* as the driver counts, after CUDA_VISIBLE_DEVICES */
  fat_gpu gpu; /* what the driver reports; name without maker and family ("T4", "RTX 4090") */
} fat_device;

/* Fills `devices` (at most `room`); makes no context. FAT_E_NO_DEVICE where there is none. */
fat_status fat_device_list(const fat_driver *driver, fat_device *devices, int room, int *count,
                           fat_error *err);

/* The facts of one device by its handle (CUdevice); ordinal is not asked for. */
fat_status fat_device_facts(const fat_driver *driver, int device, fat_gpu *gpu, fat_error *err);

#endif
