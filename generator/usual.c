/* usual.c -- asks the templates which kernel serves a problem best, by what they say of themselves.
 *
 * In: the kernels and how much each is preferred. Out: the first default config in that order. */
#include "usual.h"

#include <string.h>

typedef struct kernels {
  char name[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int picked[FAT_SPACE_KERNELS]; /* 0: not unasked, or tried */
  int count;
  fat_error first; /* why the first that cannot serve cannot */
} kernels;

/* FAT_E_UNSUPPORTED is noted and no error. */
static fat_status note(kernels *k, fat_status status, const fat_error *why, fat_error *err)
{
  if (status == FAT_OK || status == FAT_E_UNSUPPORTED) {
    if (status != FAT_OK && !k->first.status)
      k->first = *why;
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
    FAT_TRY(note(k, status, &why, err));
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

static fat_status find_unasked(fat_script *script, const fat_problem *p, const fat_gpu *gpu, fat_point *point,
                               fat_error *err)
{
  kernels k;
  FAT_TRY(read_kernels(script, p, gpu, &k, err));
  for (int i; (i = next(&k)) >= 0;) {
    fat_error why = {0};
    fat_status status = fat_space_default(script, k.name[i], p, gpu, point, &why);
    if (status == FAT_OK)
      return FAT_OK;
    FAT_TRY(note(&k, status, &why, err));
    k.picked[i] = 0;
  }
  return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s",
                         k.first.status ? k.first.text : "no kernel may be picked for it");
}

fat_status fat_usual_find(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                          fat_point *point, int *unasked, fat_error *err)
{
  fat_point other;
  *unasked = 1;
  if (!kernel)
    return find_unasked(script, p, gpu, point, err);
  FAT_TRY(fat_space_default(script, kernel, p, gpu, point, err));
  fat_error why = {0};
  fat_status status = find_unasked(script, p, gpu, &other, &why);
  if (status != FAT_OK && status != FAT_E_UNSUPPORTED)
    return fat_status_fail(err, status, "%s", why.text);
  *unasked = status == FAT_OK && strcmp(other.config.kernel, kernel) == 0;
  return FAT_OK;
}
