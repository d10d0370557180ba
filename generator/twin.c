/* twin.c -- finds twins of a config.
 *
 * In: a config, the points of its kernel. Out: valid points with W = 1. The first is the twin; the others
 * stand in for one that turns out not to work. */
#include "twin.h"

#include "width.h"

#include <stdbool.h>
#include <string.h>

enum { ASKED = 64 }; /* configs near to one, at most, that are asked for */

typedef struct finding {
  fat_script *script;
  const fat_problem *problem;
  const fat_gpu *gpu;
  fat_point *twins;
  int count;
} finding;

/* Adds the config with W = 1, if it is valid and new; *valid says whether it is valid. */
static fat_status add(finding *f, const fat_config *config, bool *valid, fat_error *err)
{
  fat_point point;
  fat_config narrow = *config;
  fat_error why = {0};
  fat_width_narrow(&narrow);
  fat_status status = fat_width_get(&narrow) == 1
                          ? fat_space_point(f->script, &narrow, f->problem, f->gpu, &point, &why)
                          : FAT_E_UNSUPPORTED;
  *valid = status == FAT_OK;
  if (status == FAT_E_UNSUPPORTED || status == FAT_E_INPUT)
    return FAT_OK;
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s", why.text);
  for (int i = 0; i < f->count; i++)
    if (fat_width_distance(&f->twins[i].config, &narrow) == 0)
      return FAT_OK;
  f->twins[f->count++] = point;
  return FAT_OK;
}

/* The first valid one among the points in the order of their distance. */
static fat_status add_nearest(finding *f, const fat_space *space, const fat_config *config, fat_error *err)
{
  fat_config same = *config;
  bool valid = false;
  int asked = 0;
  fat_width_narrow(&same);
  for (int far = 0; far <= same.count; far++)
    for (int i = 0; i < space->count && asked < ASKED && !valid; i++) {
      fat_config narrow = space->points[i].config;
      fat_width_narrow(&narrow);
      if (fat_width_distance(&same, &narrow) != far)
        continue;
      asked++;
      FAT_TRY(add(f, &narrow, &valid, err));
    }
  return FAT_OK;
}

fat_status fat_twin_find(fat_script *script, const fat_space *space, const fat_config *config,
                         const fat_problem *p, const fat_gpu *gpu, fat_point twins[FAT_TWIN_MOST], int *count,
                         fat_error *err)
{
  finding f = {script, p, gpu, twins, 0};
  bool valid;
  *count = 0;
  if (fat_width_get(config) <= 1 || space->count == 0)
    return FAT_OK;
  FAT_TRY(add(&f, config, &valid, err));
  FAT_TRY(add(&f, &space->points[0].config, &valid, err));
  FAT_TRY(add_nearest(&f, space, config, err));
  *count = f.count;
  return FAT_OK;
}
