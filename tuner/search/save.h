/* save.h -- writes a file that appears whole or not at all. */
#ifndef FAT_SAVE_H
#define FAT_SAVE_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>

/* Writes the bytes to a fresh file in the folder of `path`, which then takes that name. A link of that name
 * is replaced, never followed. Without `replace` a name that is taken is FAT_E_INPUT; FAT_E_IO names the
 * file and why. After an error nothing is changed and nothing left behind. */
fat_status fat_save(const char *path, const void *bytes, size_t size, bool replace, fat_error *err);

#endif
