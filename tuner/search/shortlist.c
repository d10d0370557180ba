/* shortlist.c -- the order in which a kernel's valid configs are tried.
 *
 * In: the space with the work of each point. Out: places of the chosen points. The default comes first. Where
 * trials are measured, half of the room goes to breadth: for every value of every tunable that no chosen
 * config has yet, the most promising config with it, since an estimate may be wrong about one value. The rest
 * are the most promising of all; of configs with equal estimates, which differ little, one is taken before
 * any other estimate comes a second time. In a random order every config but the default is as likely as any
 * other at each place: what is found then says something about the whole space and about the model. The same
 * inputs choose the same configs, so a second run finds them stored. */
#include "shortlist.h"

#include "model.h"
#include "occupancy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The time before any compile, with the template's own estimate of registers, capped at a thread's limit. */
static double estimate_ms(const fat_point *point, const fat_gpu *gpu, const fat_arch *arch)
{
  fat_resident resident[FAT_SPACE_LAUNCHES] = {0};
  for (int i = 0; i < point->launches; i++) {
    const fat_work *w = &point->work[i];
    fat_footprint f = {(int)w->threads, (int)fmin(w->registers, arch->regs_thread), (int)w->shared};
    resident[i].blocks = fat_occupancy_blocks(arch, &f, NULL);
    resident[i].spills = (int)w->spills;
    if (resident[i].blocks == 0)
      return INFINITY;
  }
  return fat_model_predict(gpu, point->work, resident, point->launches).ms;
}

typedef struct ranked {
  double ms;
  int place;
} ranked;

static int by_time(const void *a, const void *b)
{
  const ranked *x = a, *y = b;
  if (x->ms != y->ms)
    return x->ms < y->ms ? -1 : 1;
  return x->place < y->place ? -1 : 1; /* places differ: the order is total */
}

static bool has_value(const fat_config *c, const char *name, int32_t value)
{
  int32_t v;
  return fat_config_get(c, name, &v) == FAT_OK && v == value;
}

static void choose(fat_shortlist *s, bool *taken, int place)
{
  taken[place] = true;
  s->chosen[s->count++] = place;
}

static bool all_say(const fat_shortlist *s, const char *name)
{
  int32_t value;
  for (int i = 0; i < s->count; i++)
    if (fat_config_get(&s->space.points[s->chosen[i]].config, name, &value) != FAT_OK)
      return false;
  return true;
}

/* Whether a point has a value that none of the chosen has, or lacks a tunable that all of them have. */
static bool brings_new(const fat_shortlist *s, int place)
{
  const fat_config *c = &s->space.points[place].config, *first = &s->space.points[s->chosen[0]].config;
  int32_t value;
  for (int v = 0; v < first->count; v++)
    if (fat_config_get(c, first->values[v].name, &value) != FAT_OK && all_say(s, first->values[v].name))
      return true;
  for (int v = 0; v < c->count; v++) {
    bool seen = false;
    for (int i = 0; i < s->count && !seen; i++)
      seen = has_value(&s->space.points[s->chosen[i]].config, c->values[v].name, c->values[v].value);
    if (!seen)
      return true;
  }
  return false;
}

/* Whether one with the same estimate is chosen. */
static bool has_like(const fat_shortlist *s, double ms)
{
  for (int i = 0; i < s->count; i++)
    if (s->estimate[s->chosen[i]] == ms)
      return true;
  return false;
}

/* The estimates decide. */
static void choose_promising(fat_shortlist *s, const fat_shortlist_rule *rule, int most, const ranked *order,
                             bool *taken)
{
  int n = s->space.count, breadth = rule->trusting ? 0 : most / 2;
  for (int i = 0; i < n && s->count < breadth; i++)
    if (!taken[order[i].place] && isfinite(order[i].ms) && brings_new(s, order[i].place))
      choose(s, taken, order[i].place);
  for (int i = 0; i < n && s->count < most; i++)
    if (!taken[order[i].place] && !has_like(s, order[i].ms))
      choose(s, taken, order[i].place);
  for (int i = 0; i < n && s->count < most; i++)
    if (!taken[order[i].place])
      choose(s, taken, order[i].place);
}

/* The next 64-bit number of a sequence that the seed determines (splitmix64's constants). */
static uint64_t next_number(uint64_t *state)
{
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Draws from places 1 to n-1 without putting back. */
static void choose_randomly(fat_shortlist *s, int most, uint64_t seed, ranked *order, bool *taken)
{
  int n = s->space.count;
  for (int i = 0; i < n; i++)
    order[i].place = i;
  for (int i = 1; i < n && s->count < most; i++) {
    int j = i + (int)(next_number(&seed) % (uint64_t)(n - i));
    int place = order[j].place;
    order[j].place = order[i].place;
    choose(s, taken, place);
  }
}

/* The default, and what is known of this kernel and still is a valid point of it. */
static fat_status list_known(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                             const fat_known *known, fat_space *space, fat_error *err)
{
  *space = (fat_space){.points = calloc(1 + (size_t)known->count, sizeof *space->points)};
  if (!space->points)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the known configs of %s", kernel);
  FAT_TRY(fat_space_default(script, kernel, p, gpu, &space->points[0], err));
  space->count = 1;
  char usual[FAT_CONFIG_TEXT];
  fat_config_print(&space->points[0].config, usual);
  for (int i = 0; i < known->count; i++) {
    fat_config config;
    fat_error why = {0};
    if (fat_config_parse(known->config[i], &config, &why) != FAT_OK || strcmp(config.kernel, kernel) != 0 ||
        strcmp(known->config[i], usual) == 0)
      continue;
    fat_status status = fat_space_point(script, &config, p, gpu, &space->points[space->count], &why);
    space->count += status == FAT_OK;
    if (status != FAT_OK && status != FAT_E_INPUT && status != FAT_E_UNSUPPORTED)
      return fat_status_fail(err, status, "%s", why.text);
  }
  space->walked = space->count;
  return FAT_OK;
}

fat_status fat_shortlist_make(fat_script *script, const char *kernel, const fat_problem *p,
                              const fat_gpu *gpu, fat_shortlist_rule rule, fat_shortlist *list,
                              fat_error *err)
{
  ranked *order = NULL;
  bool *taken = NULL;
  const fat_arch *arch = fat_gpu_arch(gpu->sm);
  *list = (fat_shortlist){0};
  fat_status status = !arch        ? fat_status_fail(err, FAT_E_UNSUPPORTED, "fatune knows no sm_%d", gpu->sm)
                      : rule.known ? list_known(script, kernel, p, gpu, rule.known, &list->space, err)
                                   : fat_space_list(script, kernel, p, gpu, &list->space, err);
  if (status != FAT_OK)
    goto done;
  int n = list->space.count, most = rule.most < n ? rule.most : n;
  order = malloc((size_t)n * sizeof *order);
  taken = calloc((size_t)n, sizeof *taken);
  list->chosen = malloc((size_t)n * sizeof *list->chosen);
  list->estimate = malloc((size_t)n * sizeof *list->estimate);
  if (!order || !taken || !list->chosen || !list->estimate) {
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for %d configs of %s", n, kernel);
    goto done;
  }
  for (int i = 0; i < n; i++) {
    list->estimate[i] = estimate_ms(&list->space.points[i], gpu, arch);
    order[i] = (ranked){list->estimate[i], i};
  }
  qsort(order, (size_t)n, sizeof *order, by_time);
  choose(list, taken, 0);
  if (rule.known) /* in their order */
    while (list->count < n)
      choose(list, taken, list->count);
  else if (rule.shuffle)
    choose_randomly(list, most, rule.shuffle, order, taken);
  else
    choose_promising(list, &rule, most, order, taken);
done:
  free(order);
  free(taken);
  return status;
}

int fat_shortlist_find(const fat_shortlist *list, const char *config)
{
  char text[FAT_CONFIG_TEXT];
  for (int i = 0; i < list->space.count; i++)
    if (strcmp(fat_config_print(&list->space.points[i].config, text), config) == 0)
      return i;
  return -1;
}

bool fat_shortlist_has(const fat_shortlist *list, int place)
{
  for (int i = 0; i < list->count; i++)
    if (list->chosen[i] == place)
      return true;
  return false;
}

void fat_shortlist_free(fat_shortlist *list)
{
  fat_space_free(&list->space);
  free(list->chosen);
  free(list->estimate);
  *list = (fat_shortlist){0};
}
