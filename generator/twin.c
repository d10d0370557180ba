/* twin.c -- finds twins of a config.
 *
 * In: a config, the points of its kernel or of the kernel that stands in for it. Out: valid points with W
 * = 1. The first is the twin; the others are there for when one turns out not to work. */
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

/* Those that need no walk through a space: the config's own, which may be NULL, and the default's. */
static fat_status find_at_once(finding *f, const char *kernel, const fat_config *config, fat_error *err)
{
  bool valid;
  fat_point usual;
  fat_error why = {0};
  if (config)
    FAT_TRY(add(f, config, &valid, err));
  fat_status status = fat_space_default(f->script, kernel, f->problem, f->gpu, &usual, &why);
  if (status == FAT_OK)
    return add(f, &usual.config, &valid, err);
  return status == FAT_E_UNSUPPORTED ? FAT_OK : fat_status_fail(err, status, "%s", why.text);
}

fat_status fat_twin_kernel(fat_script *script, const fat_config *config, const fat_problem *p,
                           const fat_gpu *gpu, char kernel[FAT_CONFIG_KERNEL], fat_error *err)
{
  const int width = fat_width_get(config);
  if (width == 0)
    return fat_space_twin(script, config->kernel, p, gpu, kernel, err);
  strcpy(kernel, width == 1 ? "" : config->kernel);
  return FAT_OK;
}

fat_status fat_twin_find(fat_script *script, const fat_space *space, const fat_config *config,
                         const fat_problem *p, const fat_gpu *gpu, fat_point twins[FAT_TWIN_MOST], int *count,
                         fat_error *err)
{
  finding f = {script, p, gpu, twins, 0};
  char kernel[FAT_CONFIG_KERNEL] = "";
  fat_space listed = {0};
  fat_error why = {0};
  *count = 0;
  FAT_TRY(fat_twin_kernel(script, config, p, gpu, kernel, err));
  if (!*kernel)
    return FAT_OK;
  const fat_config *own = strcmp(kernel, config->kernel) == 0 ? config : NULL;
  FAT_TRY(find_at_once(&f, kernel, own, err));
  if (!space && f.count == 0) {
    fat_status listing = fat_space_list(script, kernel, p, gpu, &listed, &why);
    if (listing == FAT_E_UNSUPPORTED)
      return FAT_OK;
    if (listing != FAT_OK)
      return fat_status_fail(err, listing, "%s", why.text);
    space = &listed;
  }
  fat_status status = FAT_OK;
  if (space && space->count > 0)
    status = add_nearest(&f, space, own ? own : &space->points[0].config, err);
  fat_space_free(&listed);
  *count = status == FAT_OK ? f.count : 0;
  return status;
}
