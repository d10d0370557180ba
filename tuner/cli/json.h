/* json.h -- writes JSON: objects and arrays into a fat_text, two columns of indent, one object a line. */
#ifndef FAT_JSON_H
#define FAT_JSON_H

#include "text.h"
#include <stdbool.h>
#include <stdint.h>

/* Where the writer stands; start with `fat_json j = {.out = &text}`. */
typedef struct fat_json {
  fat_text *out;
  int depth;
  uint32_t begun; /* bit d: something stands already at depth d, so a comma comes first */
} fat_json;

/* `key` NULL inside an array or at the top. */
void fat_json_open(fat_json *j, const char *key, char bracket);        /* '{' or '[' */
void fat_json_close(fat_json *j, char bracket);                        /* '}' or ']' */
void fat_json_string(fat_json *j, const char *key, const char *value); /* NULL is null */
void fat_json_int(fat_json *j, const char *key, int64_t value);
void fat_json_double(fat_json *j, const char *key, double value); /* shortest text that reads back; NaN and
                                                                     infinities are null */
void fat_json_bool(fat_json *j, const char *key, bool value);

#endif
