/* dump.h -- what a trial made, as files for people: KEY.cu, KEY.cubin, KEY.log. */
#ifndef FAT_DUMP_H
#define FAT_DUMP_H

#include "attempt.h"

/* Writes the files of one trial into `folder`, which is made if missing. KEY is
 * PROBLEM@TARGET-CONFIG with '-' for ':'. What has such a name is replaced; a link is not followed. FAT_E_IO
 * names the file and why. */
fat_status fat_dump_write(const char *folder, const fat_job *job, fat_error *err);

#endif
