/* known.c -- which configs have won for a family, the nearest first.
 *
 * In: the database. Out: a few configs. A winner of another GPU, driver or set of templates is no answer
 * here, but the likeliest to be one: it is tried, and what is timed decides. */
#include "known.h"

#include "candidate.h"

#include <stdlib.h>
#include <string.h>

/* A problem and a GPU that trials were measured for. */
typedef struct place {
  fat_problem problem;
  fat_gpu gpu;
  char text[FAT_PROBLEM_TEXT], facts[FAT_GPU_FACTS]; /* what they are known by */
  double far;                                        /* another architecture is farther than any problem */
} place;

typedef struct places {
  const fat_problem *of;
  int sm;
  place *list;
  int count;
  bool failed;
} places;

static bool collect(const fat_trial *t, void *user)
{
  static const double elsewhere = 1000; /* doublings */
  places *all = user;
  place here = {.problem = t->problem, .gpu = t->gpu};
  if (!t->eligible)
    return true;
  fat_problem_print(&t->problem, here.text);
  fat_gpu_facts(&t->gpu, here.facts);
  for (int i = 0; i < all->count; i++)
    if (strcmp(all->list[i].text, here.text) == 0 && strcmp(all->list[i].facts, here.facts) == 0)
      return true;
  here.far = fat_candidate_distance(&t->problem, all->of) + (t->gpu.sm == all->sm ? 0 : elsewhere);
  place *larger = realloc(all->list, (size_t)(all->count + 1) * sizeof *larger);
  all->failed = !larger;
  if (!larger)
    return false;
  all->list = larger;
  all->list[all->count++] = here;
  return true;
}

static int by_distance(const void *a, const void *b)
{
  const place *x = a, *y = b;
  if (x->far != y->far)
    return x->far < y->far ? -1 : 1;
  return strcmp(x->text, y->text);
}

static fat_status add_winner(fat_db *db, const place *at, fat_known *known, fat_error *err)
{
  fat_best best;
  char config[FAT_CONFIG_TEXT];
  fat_error why = {0};
  fat_status status = fat_db_best(db, &at->problem, &at->gpu, NULL, false, &best, &why);
  if (status == FAT_E_NOT_FOUND)
    return FAT_OK;
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s", why.text);
  fat_config_print(&best.trial.config, config);
  bool is_new = best.trial.origin == FAT_MEASURED;
  for (int i = 0; i < known->count; i++)
    is_new = is_new && strcmp(known->config[i], config) != 0;
  if (is_new)
    memcpy(known->config[known->count++], config, sizeof config);
  fat_db_best_free(&best);
  return FAT_OK;
}

fat_status fat_known_read(fat_db *db, const fat_problem *p, const fat_gpu *gpu, fat_known *known,
                          fat_error *err)
{
  char family[FAT_PROBLEM_TEXT];
  places all = {.of = p, .sm = gpu->sm};
  const fat_db_filter filter = {.family = fat_problem_family(p, family),
                                .outcome_plus_1 = 1 + FAT_OUT_OK,
                                .origin_plus_1 = 1 + FAT_MEASURED};
  known->count = 0;
  fat_status status = fat_db_trials(db, &filter, collect, &all, err);
  if (status == FAT_OK && all.failed)
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for a family's winners");
  if (all.count > 0)
    qsort(all.list, (size_t)all.count, sizeof *all.list, by_distance);
  for (int i = 0; i < all.count && known->count < FAT_KNOWN_MOST && status == FAT_OK; i++)
    status = add_winner(db, &all.list[i], known, err);
  free(all.list);
  return status;
}
