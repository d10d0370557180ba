/* cases.c -- attention cases as lines of text, and the numbers that go into them. */
#include "attention.h"
#include "half.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER LAYOUT */
const char *const emu_lay_names[EMU_LAYS] = {"bhsd", "bshd", "padded", "mixed", "far"};
/* ORDER DATA */
const char *const emu_data_names[EMU_DATAS] = {"normal", "large", "rising", "falling", "equal", "huge"};

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
  } else if (!strncmp(word, "data=", 5) && (at = find(emu_data_names, EMU_DATAS, word + 5)) >= 0) {
    c->data = (emu_data)at;
    return FAT_OK;
  } else if (!strncmp(word, "sms=", 4)) {
    c->sms = (int)strtol(word + 4, &end, 10);
    if (end != word + 4 && !*end && c->sms > 0)
      return FAT_OK;
  } else if (!strcmp(word, "nolse")) {
    c->no_lse = true;
    return FAT_OK;
  }
  return fat_status_fail(err, FAT_E_INPUT,
                         "'%s' is no option of a case: gpu=, scale=X, lay=, data=, sms=N, nolse", word);
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

/* Roughly normal, the same on every machine. */
static float number(uint64_t *state)
{
  int64_t sum = 0;
  for (int i = 0; i < 4; i++) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    sum += (int64_t)((x ^ x >> 31) >> 44) - (1 << 19);
  }
  return (float)sum / (float)(1 << 19) * 0.866f;
}

static float *numbers(int64_t count, uint64_t seed)
{
  float *x = malloc((size_t)(count ? count : 1) * sizeof *x);
  for (int64_t i = 0; x && i < count; i++)
    x[i] = number(&seed);
  return x;
}

static void stretch(float *x, int64_t count, float by)
{
  for (int64_t i = 0; i < count; i++)
    x[i] *= by;
}

/* Bends the numbers to what the case is about. Keys rise or fall along the first column, which Q has at 1. */
static void bend(const emu_case *c, emu_truth *t)
{
  const fat_problem *p = &c->problem;
  int64_t rows = p->b * p->h * p->q, keys = p->b * p->hk * p->k;
  if (c->data == EMU_LARGE || c->data == EMU_HUGE)
    stretch(t->q, rows * p->d, c->data == EMU_LARGE ? 200 : 2000);
  if (c->data == EMU_HUGE)
    stretch(t->v, keys * p->dv, 4096);
  for (int64_t i = 0; (c->data == EMU_RISING || c->data == EMU_FALLING) && i < rows; i++)
    t->q[i * p->d] = c->scale < 0 ? -1 : 1;
  for (int64_t j = 0; c->data >= EMU_RISING && c->data <= EMU_EQUAL && j < keys; j++) {
    float along = (float)(j % p->k);
    if (c->data == EMU_EQUAL)
      memcpy(t->k + j * p->d, t->k, (size_t)p->d * sizeof *t->k);
    else
      t->k[j * p->d] = c->data == EMU_RISING ? along * 0.5f * sqrtf((float)p->d)
                                             : (along == 0 ? 8 * sqrtf((float)p->d) : 0);
  }
  fat_half_round_all(p->dtype, t->q, rows * p->d);
  fat_half_round_all(p->dtype, t->k, keys * p->d);
  fat_half_round_all(p->dtype, t->v, keys * p->dv);
}

fat_status emu_truth_make(const emu_case *c, emu_truth *t, fat_error *err)
{
  const fat_problem *p = &c->problem;
  int64_t rows = p->b * p->h * p->q, keys = p->b * p->hk * p->k;
  fat_reference_bound bound;
  *t = (emu_truth){.q = numbers(rows * p->d, c->seed * 3),
                   .k = numbers(keys * p->d, c->seed * 3 + 1),
                   .v = numbers(keys * p->dv, c->seed * 3 + 2),
                   .o = malloc((size_t)(rows * p->dv) * sizeof *t->o),
                   .lse = malloc((size_t)rows * sizeof *t->lse)};
  const fat_reference_inputs in = {t->q, t->k, t->v, c->scale};
  bool done = t->q && t->k && t->v && t->o && t->lse;
  if (done)
    bend(c, t);
  if (!done || !fat_reference_solve(p, &in, t->o, t->lse, &bound)) {
    emu_truth_free(t);
    return fat_status_fail(err, FAT_E_NOMEM, "no memory for the inputs of a case");
  }
  t->allowed_o = fat_reference_allowed_o(p, &bound);
  t->allowed_lse = fat_reference_allowed_lse(p, &bound, false);
  t->allowed_lse_stored = fat_reference_allowed_lse(p, &bound, true);
  return FAT_OK;
}

void emu_truth_free(emu_truth *t)
{
  free(t->q);
  free(t->k);
  free(t->v);
  free(t->o);
  free(t->lse);
  *t = (emu_truth){0};
}
