/* config.h -- a kernel and one point of its space, as a struct and as text: `fwd:Br128-Bc64-t256-r8-v4`.
 *
 * Names are letters, values whole numbers, order is that of the kernel's own table of tunables. What the
 * names mean is said by templates/<kernel>.lua alone. */
#ifndef FAT_CONFIG_H
#define FAT_CONFIG_H

#include "status.h"
#include <stdint.h>

enum { FAT_CONFIG_VALUES = 24, FAT_CONFIG_NAME = 12, FAT_CONFIG_KERNEL = 20, FAT_CONFIG_TEXT = 560 };

typedef struct fat_config {
  char kernel[FAT_CONFIG_KERNEL];
  int count;
  struct {
    char name[FAT_CONFIG_NAME];
    int32_t value;
  } values[FAT_CONFIG_VALUES];
} fat_config;

/* Text to struct and back. Errors are FAT_E_INPUT with the position. */
fat_status fat_config_parse(const char *text, fat_config *c, fat_error *err);
const char *fat_config_print(const fat_config *c, char buffer[FAT_CONFIG_TEXT]);

/* The value of one tunable: FAT_E_NOT_FOUND if the config has none of that name. */
fat_status fat_config_get(const fat_config *c, const char *name, int32_t *value);

#endif
