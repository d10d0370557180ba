/* output.h -- files that the user named. */
#ifndef FAT_OUTPUT_H
#define FAT_OUTPUT_H

#include "text.h"
#include <stdbool.h>

/* Writes a text to a file. Only `force` writes over one, and nothing writes over the database itself,
 * whatever its name: FAT_E_INPUT. A device or a pipe is written through. The check says what of it would
 * fail, as far as can be told before there is a text. */
fat_status fat_output_check(const char *path, const char *database, bool force, fat_error *err);
fat_status fat_output_write(const char *path, const char *database, bool force, const fat_text *text,
                            fat_error *err);

#endif
