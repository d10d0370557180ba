/* nvml.h -- what NVIDIA's management library says of the GPUs: how they are set, how fast they run, who else
 * uses them. The library comes with the driver and is found at run time; without it nothing else is lost. */
#ifndef FAT_NVML_H
#define FAT_NVML_H

#include "status.h"
#include <stdint.h>

enum { FAT_NVML_PROCESSES = 8, FAT_NVML_UNKNOWN = -1 };

typedef enum fat_nvml_mode { /* as NVML numbers them; 1 is no longer used */
                             FAT_NVML_SHARED = 0,
                             FAT_NVML_PROHIBITED = 2,
                             FAT_NVML_EXCLUSIVE = 3,
} fat_nvml_mode;

/* Why clocks are lower than they could be; bits as NVML numbers them. */
typedef enum fat_nvml_reason {
  FAT_NVML_IDLE = 0x1,
  FAT_NVML_SET_CLOCKS = 0x2, /* somebody has set application clocks, or locked them */
  FAT_NVML_POWER_CAP = 0x4,
  FAT_NVML_HW_SLOWDOWN = 0x8,
  FAT_NVML_SYNC_BOOST = 0x10,
  FAT_NVML_SW_THERMAL = 0x20,
  FAT_NVML_HW_THERMAL = 0x40,
  FAT_NVML_POWER_BRAKE = 0x80,
  FAT_NVML_DISPLAY = 0x100,
} fat_nvml_reason;

typedef struct fat_nvml_process {
  int pid;
  int64_t bytes; /* of the GPU's memory */
  char name[32]; /* "" where this process may not see it */
} fat_nvml_process;

/* One GPU of the machine; what NVML does not tell is FAT_NVML_UNKNOWN. */
typedef struct fat_nvml_gpu {
  char name[96];
  int mig, mig_next; /* 0 or 1, now and after the next reset */
  int mode;          /* fat_nvml_mode */
  int persistent;
  int sm_mhz, sm_most, memory_mhz, memory_most;
  int64_t slow; /* of fat_nvml_reason */
  int64_t bytes, used;
  int processes; /* others than this one */
  fat_nvml_process process[FAT_NVML_PROCESSES];
} fat_nvml_gpu;

/* Reads all GPUs of the machine, whatever CUDA_VISIBLE_DEVICES says, at most `room`. FAT_E_NO_DRIVER where
 * the library is missing, too old or finds no driver. FATUNE_LIBNVML names another library, for tests. */
fat_status fat_nvml_list(fat_nvml_gpu *gpus, int room, int *count, fat_error *err);

#endif
