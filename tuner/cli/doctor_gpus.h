/* doctor_gpus.h -- the doctor on GPUs. */
#ifndef FAT_DOCTOR_GPUS_H
#define FAT_DOCTOR_GPUS_H

#include "checkup.h"

/* How the machine's GPUs are set, how fast they run and who else uses them, by NVML. */
void fat_doctor_gpus(fat_checkup *c);

#endif
