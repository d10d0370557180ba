/* twin.c -- finds twins in a space.
 *
 * In: the valid configs of a kernel, one of them. Out: places. The first place is the twin; the others stand
 * in for one that turns out not to work. */
#include "twin.h"

#include "width.h"

#include <stdbool.h>
#include <string.h>

/* The place of a config; -1 where it is not valid. */
static int find(const fat_space *space, const fat_config *config)
{
  char wanted[FAT_CONFIG_TEXT], text[FAT_CONFIG_TEXT];
  fat_config_print(config, wanted);
  for (int i = 0; i < space->count; i++)
    if (strcmp(fat_config_print(&space->points[i].config, text), wanted) == 0)
      return i;
  return -1;
}

static int nearest(const fat_space *space, const fat_config *config)
{
  int best = -1, distance = 0;
  for (int i = 0; i < space->count; i++) {
    const fat_config *other = &space->points[i].config;
    int far = fat_width_distance(config, other);
    if (fat_width_get(other) == 1 && (best < 0 || far < distance)) {
      best = i;
      distance = far;
    }
  }
  return best;
}

int fat_twin_places(const fat_space *space, const fat_config *config, int places[FAT_TWIN_MOST])
{
  int count = 0;
  if (fat_width_get(config) <= 1 || space->count == 0)
    return 0;
  fat_config same = *config, usual = space->points[0].config;
  fat_width_narrow(&same);
  fat_width_narrow(&usual);
  const int found[FAT_TWIN_MOST] = {find(space, &same), find(space, &usual), nearest(space, &same)};
  for (int i = 0; i < FAT_TWIN_MOST; i++) {
    bool new = found[i] >= 0;
    for (int k = 0; k < count; k++)
      new = new &&places[k] != found[i];
    if (new)
      places[count++] = found[i];
  }
  return count;
}
