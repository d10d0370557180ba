/* dump.h -- what was made of a config, as files for people: KEY.cu, KEY.cubin, KEY.log. */
#ifndef FAT_DUMP_H
#define FAT_DUMP_H

#include "compile.h"
#include "source.h"

/* Writes them into `folder`, which is made if missing. KEY is PROBLEM@TARGET-CONFIG with '-' for ':'. What
 * has such a name is replaced; a link is not followed. FAT_E_IO names the file and why. */
fat_status fat_dump_write(const char *folder, const fat_problem *p, const fat_gpu *gpu,
                          const fat_config *config, const fat_source *source, const fat_binary *binary,
                          fat_error *err);

#endif
