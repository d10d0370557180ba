/* width.c -- reads and changes the W of a config. */
#include "width.h"

#include <string.h>

static const char name[] = "W";

int32_t fat_width_get(const fat_config *config)
{
  int32_t width = 0;
  return fat_config_get(config, name, &width) == FAT_OK ? width : 0;
}

unsigned fat_width_alignment(const fat_config *config, int element)
{
  enum { WIDEST = 16 };
  int32_t width = fat_width_get(config);
  return width <= 0 || width > WIDEST / element ? WIDEST : (unsigned)(width * element);
}

void fat_width_narrow(fat_config *config)
{
  for (int i = 0; i < config->count; i++)
    if (strcmp(config->values[i].name, name) == 0)
      config->values[i].value = 1;
}

int fat_width_distance(const fat_config *a, const fat_config *b)
{
  int count = 0;
  for (int i = 0; i < a->count; i++) {
    int32_t value;
    if (fat_config_get(b, a->values[i].name, &value) != FAT_OK || value != a->values[i].value)
      count++;
  }
  return count;
}
