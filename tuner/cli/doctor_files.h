/* doctor_files.h -- the doctor on files and folders. */
#ifndef FAT_DOCTOR_FILES_H
#define FAT_DOCTOR_FILES_H

#include "checkup.h"

/* Who may read and write the database, the folders it and a fetched NVRTC lie in, and the dump's. */
void fat_doctor_files(fat_checkup *c);

#endif
