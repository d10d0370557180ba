/* kept.c -- finds twins by what is stored of them.
 *
 * In: a config. Out: configs in the order to try; whether their code is there, loading them tells. */
#include "kept.h"

#include "width.h"

#include <stdio.h>
#include <string.h>

typedef struct search {
  fat_kept *kept;
  const fat_config *config;
  char mark[FAT_CONFIG_TEXT + 32]; /* how the detail of its own twin begins */
  int sm;
} search;

/* Sorted by rank; of equals the earlier stays before. One config stands once. */
static void insert(fat_kept *kept, const fat_trial *t, double rank)
{
  char config[FAT_CONFIG_TEXT], problem[FAT_PROBLEM_TEXT];
  int at = kept->count;
  fat_config_print(&t->config, config);
  for (int i = 0; i < kept->count; i++)
    if (strcmp(kept->row[i].config, config) == 0 && strcmp(kept->row[i].source_hash, t->source_hash) == 0)
      return;
  while (at > 0 && kept->row[at - 1].rank > rank)
    at--;
  if (at == FAT_KEPT_MOST)
    return;
  int end = kept->count < FAT_KEPT_MOST ? kept->count++ : FAT_KEPT_MOST - 1;
  memmove(&kept->row[at + 1], &kept->row[at], (size_t)(end - at) * sizeof kept->row[0]);
  snprintf(kept->row[at].config, sizeof kept->row[at].config, "%s", config);
  snprintf(kept->row[at].source_hash, sizeof kept->row[at].source_hash, "%s", t->source_hash);
  snprintf(kept->row[at].problem, sizeof kept->row[at].problem, "%s",
           fat_problem_print(&t->problem, problem));
  kept->row[at].rank = rank;
}

static bool take_twin(const fat_trial *t, void *user)
{
  const search *s = user;
  if (t->gpu.sm != s->sm || fat_width_get(&t->config) != 1)
    return true;
  bool own = strncmp(t->detail, s->mark, strlen(s->mark)) == 0;
  insert(s->kept, t, own ? -1 : fat_width_distance(s->config, &t->config));
  return true;
}

fat_status fat_kept_twins(fat_db *db, const char *problem, int sm, const fat_config *config, fat_kept *kept,
                          fat_error *err)
{
  char text[FAT_CONFIG_TEXT];
  search s = {.kept = kept, .config = config, .sm = sm};
  const fat_db_filter filter = {
      .problem = problem, .kernel = config->kernel, .outcome_plus_1 = 1 + FAT_OUT_OK};
  kept->count = 0;
  snprintf(s.mark, sizeof s.mark, FAT_WIDTH_TWIN "%s,", fat_config_print(config, text));
  fat_status status = fat_db_trials(db, &filter, take_twin, &s, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}
