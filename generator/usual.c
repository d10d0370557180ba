/* usual.c -- asks the templates which kernel serves a problem best, by what they say of themselves.
 *
 * In: the kernels and how much each is preferred. Out: the first default config in that order. */
#include "usual.h"
#include "recipe.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

typedef struct kernels {
  char name[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int picked[FAT_SPACE_KERNELS]; /* 0: not unasked, or tried */
  int count;
  fat_error first; /* why the first of this op that cannot serve cannot; rather of one whose default cannot */
  fat_error other; /* that the first of another op is one of another op */
} kernels;

/* FAT_E_UNSUPPORTED is noted and no error. */
static fat_status note(fat_error *first, fat_status status, const fat_error *why, fat_error *err)
{
  if (status == FAT_OK || status == FAT_E_UNSUPPORTED) {
    if (status != FAT_OK && !first->status)
      *first = *why;
    return FAT_OK;
  }
  return fat_status_fail(err, status, "%s", why->text);
}

static fat_status read_kernels(fat_script *script, const fat_problem *p, const fat_gpu *gpu, kernels *k,
                               fat_error *err)
{
  *k = (kernels){0};
  FAT_TRY(fat_space_kernels(script, k->name, &k->count, err));
  for (int i = 0; i < k->count; i++) {
    fat_error why = {0};
    fat_status status = fat_space_applies(script, k->name[i], p, gpu, &k->picked[i], &why);
    FAT_TRY(note(k->picked[i] < 0 ? &k->other : &k->first, status, &why, err));
  }
  return FAT_OK;
}

/* The preferred of those left, of equals the first; -1 where none is left. */
static int next(const kernels *k)
{
  int best = -1;
  for (int i = 0; i < k->count; i++)
    if (k->picked[i] > 0 && (best < 0 || k->picked[i] > k->picked[best]))
      best = i;
  return best;
}

/* FAT_E_UNSUPPORTED where the config is not valid for the sizes, or is launched with tensor maps that there
 * are none of. */
static fat_status check_recipe(fat_script *script, const fat_problem *p, const fat_gpu *gpu,
                               const fat_config *config, bool maps, fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(p, gpu->sms);
  fat_source source = {0};
  fat_recipe *recipe = NULL;
  fat_status status = fat_source_render(script, p, gpu, config, FAT_LINES_GENERATED, &source, err);
  if (status == FAT_OK)
    status = fat_recipe_make(fat_text_get(&source.recipe), &recipe, err);
  if (status == FAT_OK)
    status = fat_recipe_check(recipe, &sizes, err);
  if (status == FAT_OK && !maps && fat_recipe_mapped(recipe))
    status =
        fat_status_fail(err, FAT_E_UNSUPPORTED,
                        "kernel %s takes tensor maps, and this driver makes none: a driver for CUDA 12.0 or "
                        "later is needed",
                        config->kernel);
  fat_source_free(&source);
  free(recipe);
  return status;
}

static fat_status find_default(fat_script *script, const char *kernel, const fat_problem *p,
                               const fat_gpu *gpu, bool maps, fat_point *point, fat_error *err)
{
  FAT_TRY(fat_space_default(script, kernel, p, gpu, point, err));
  return check_recipe(script, p, gpu, &point->config, maps, err);
}

static fat_status find_unasked(fat_script *script, const fat_problem *p, const fat_gpu *gpu, bool maps,
                               fat_point *point, fat_error *err)
{
  kernels k;
  int defaults = 0;
  FAT_TRY(read_kernels(script, p, gpu, &k, err));
  for (int i; (i = next(&k)) >= 0;) {
    fat_error why = {0};
    fat_status status = find_default(script, k.name[i], p, gpu, maps, point, &why);
    if (status == FAT_OK)
      return FAT_OK;
    if (!defaults++)
      k.first.status = FAT_OK; /* says more than why others have no default */
    FAT_TRY(note(&k.first, status, &why, err));
    k.picked[i] = 0;
  }
  return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s",
                         k.first.status   ? k.first.text
                         : k.other.status ? k.other.text
                                          : "no kernel may be picked for it");
}

fat_status fat_usual_find(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                          bool maps, fat_point *point, int *unasked, fat_error *err)
{
  fat_point other;
  fat_error why = {0};
  *unasked = 1;
  FAT_TRY(kernel ? find_default(script, kernel, p, gpu, maps, point, err)
                 : find_unasked(script, p, gpu, maps, point, err));
  if (!kernel && maps)
    return FAT_OK;
  fat_status status = find_unasked(script, p, gpu, true, &other, &why);
  if (status != FAT_OK && status != FAT_E_UNSUPPORTED)
    return fat_status_fail(err, status, "%s", why.text);
  *unasked = status == FAT_OK && strcmp(other.config.kernel, point->config.kernel) == 0;
  return FAT_OK;
}

bool fat_usual_yields(fat_script *script, const fat_config *usual, const char *to, const fat_problem *p,
                      const fat_gpu *gpu, fat_config *config)
{
  fat_point point;
  return fat_config_parse(to, config, NULL) == FAT_OK && strcmp(config->kernel, usual->kernel) == 0 &&
         !fat_space_firm(script, usual->kernel, p, gpu) &&
         fat_space_point(script, config, p, gpu, &point, NULL) == FAT_OK;
}
