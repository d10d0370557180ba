/* cases.c -- attention cases as lines of text. */
#include "attention.h"
#include "mod.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER LAYOUT */
const char *const emu_lay_names[EMU_LAYS] = {"bhsd", "bshd", "padded", "mixed", "far"};

void emu_case_plain(emu_case *c, const fat_problem *p)
{
  *c = (emu_case){.problem = *p, .scale = 1.0f / sqrtf((float)p->d), .sms = 40, .seed = 1};
  fat_gpu_find("T4", &c->gpu, NULL);
  if (!(fat_gpu_arch(c->gpu->sm)->dtypes >> p->dtype & 1u))
    fat_gpu_find("A100", &c->gpu, NULL);
}

static int find(const char *const *names, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i], name))
      return i;
  return -1;
}

static fat_status option(emu_case *c, const char *word, fat_error *err)
{
  int at;
  char *end;
  if (!strncmp(word, "scale=", 6)) {
    c->scale = strtof(word + 6, &end);
    if (end != word + 6 && !*end)
      return FAT_OK;
  } else if (!strncmp(word, "gpu=", 4)) {
    return fat_gpu_find(word + 4, &c->gpu, err);
  } else if (!strncmp(word, "lay=", 4) && (at = find(emu_lay_names, EMU_LAYS, word + 4)) >= 0) {
    c->lay = (emu_lay)at;
    return FAT_OK;
  } else if (!strncmp(word, "data=", 5) && (at = find(fat_data_names, FAT_DATAS, word + 5)) >= 0) {
    c->data = (fat_data)at;
    return FAT_OK;
  } else if (!strncmp(word, "sms=", 4)) {
    c->sms = (int)strtol(word + 4, &end, 10);
    if (end != word + 4 && !*end && c->sms > 0)
      return FAT_OK;
  } else if (!strncmp(word, "mod=", 4)) {
    return fat_mod_add(word + 4, FAT_MOD, &c->problem, err);
  } else if (!strncmp(word, "mask=", 5)) {
    return fat_mod_add(word + 5, FAT_MASK_MOD, &c->problem, err);
  } else if (!strcmp(word, "nolse")) {
    c->no_lse = true;
    return FAT_OK;
  }
  return fat_status_fail(err, FAT_E_INPUT,
                         "'%s' is no option of a case: gpu=, scale=X, lay=, data=, sms=N, mod=, mask=, nolse",
                         word);
}

fat_status emu_case_parse(const char *line, emu_case *c, char kernels[FAT_CONFIG_TEXT], fat_error *err)
{
  char text[1024], *rest = text, *word;
  fat_problem p;
  snprintf(text, sizeof text, "%s", line);
  word = strtok_r(rest, " \n", &rest);
  FAT_TRY(fat_problem_parse(word ? word : "", &p, err));
  emu_case_plain(c, &p);
  word = strtok_r(rest, " \n", &rest);
  if (!word)
    return fat_status_fail(err, FAT_E_INPUT, "a case names its kernels behind the problem: '%s'", line);
  snprintf(kernels, FAT_CONFIG_TEXT, "%s", word);
  while ((word = strtok_r(rest, " \n", &rest)))
    FAT_TRY(option(c, word, err));
  return FAT_OK;
}

fat_status emu_truth_make(const emu_case *c, fat_truth *t, fat_error *err)
{
  enum { SEEDS = 16 };
  bool without = false;
  FAT_TRY(fat_truth_make(&c->problem, c->scale, c->data, c->seed * SEEDS, t, err));
  for (int i = 0; i < FAT_TENSORS && c->no_lse; i++)
    if (fat_tensors_role(&c->problem, i) == FAT_ROLE_ASIDE) {
      free(t->in[i]);
      t->in[i] = NULL;
      without = true;
    }
  return without ? fat_truth_solve(&c->problem, c->scale, t, err) : FAT_OK;
}
