/* list.h -- lists, ranges and spans of time as they are typed: `64,128`, `512:16384`, `10m`. */
#ifndef FAT_LIST_H
#define FAT_LIST_H

#include "status.h"
#include <stdint.h>

enum { FAT_LIST_ROOM = 64 };

typedef struct fat_numbers {
  int count;
  int64_t value[FAT_LIST_ROOM];
} fat_numbers;

/* `argument` ("--seqlens") is the name that errors carry; all errors are FAT_E_INPUT. */

/* One whole number within [least, most]. */
fat_status fat_list_number(const char *argument, const char *text, int64_t least, int64_t most,
                           int64_t *value, fat_error *err);

/* `a,b:c,d:e:f` in the order typed: b:c doubles from b while at most c, d:e:f goes in steps of f. Every
 * number lies within [least, most] and is a multiple of `unit`. One that stands already is left out; more
 * than FAT_LIST_ROOM numbers are an error. */
typedef struct fat_range {
  int64_t least, most, unit;
} fat_range;
fat_status fat_list_numbers(const char *argument, const char *text, fat_range range, fat_numbers *numbers,
                            fat_error *err);

/* Names out of `known` (count of them), as a mask of their places: `f16,f32`. */
fat_status fat_list_names(const char *argument, const char *text, const char *const *known, int count,
                          uint32_t *mask, fat_error *err);

/* `90`, `90s`, `10m`, `2h`: seconds, more than 0 and at most a week. */
fat_status fat_list_seconds(const char *argument, const char *text, double *seconds, fat_error *err);

#endif
