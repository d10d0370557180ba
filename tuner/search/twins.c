/* twins.c -- makes sure that the best of each pair has a twin.
 *
 * In: stored records, and the space that twins are found in. Out: records with code. A config that was tried
 * but lacks code is compiled again. One that was dropped as slow is timed in full, since a twin need not be
 * fast. Everything is read from the database, so the next run goes on where a killed one stopped. */
#include "twins.h"

#include "twin.h"
#include "winner.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is to be done for a pair. */
typedef struct need {
  bool due;
  fat_point point;
  const fat_record *record; /* it works, its code is to be made again; NULL: it is to be tried */
  char of[FAT_CONFIG_TEXT];
} need;

/* The record that a call would be given for this kernel. When the budget is used up, of the kernel that calls
 * get unasked alone: a slow one's twin takes as long to time as it does, and is made by the next run. */
static const fat_record *find_best(const fat_schedule *schedule, const fat_pair *pair,
                                   const fat_records *records)
{
  const fat_session *s = schedule->session;
  const char *incumbent = schedule->incumbents[pair->item - s->agenda->list];
  const fat_record *winner = s->labs > 0 ? fat_winner_find(records, incumbent) : NULL;
  const bool wins = winner && strcmp(winner->kernel, pair->kernel->name) == 0;
  if (wins && pair->kernel->picked)
    return winner;
  if (winner && !wins && s->out_of_budget)
    return NULL;
  const fat_record *best = fat_records_best(records, pair->kernel->name);
  return best && best->outcome == FAT_OUT_OK ? best : NULL;
}

static fat_status has_code(const fat_session *s, const fat_problem *p, const fat_record *record, bool *has,
                           fat_error *err)
{
  fat_code code;
  fat_status status = fat_records_code(s->db, record, p, s->gpu, &code, err);
  *has = status == FAT_OK;
  if (status == FAT_OK)
    fat_db_code_free(&code);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* Whether it is not known yet whether the record's config works as a twin. */
static bool is_open(const fat_record *record)
{
  return !record || !record->same_source || record->outcome == FAT_OUT_OOM || record->outcome == FAT_OUT_SLOW;
}

/* The space of a kernel for a pair's problem, walked when the schedule was made; NULL where it is on none. */
static const fat_space *find_space(const fat_schedule *schedule, const fat_pair *pair, const char *kernel)
{
  for (const fat_pair *other = schedule->pairs; other < schedule->pairs + schedule->pair_count; other++)
    if (other->item == pair->item && strcmp(other->kernel->name, kernel) == 0)
      return &other->shortlist.space;
  return NULL;
}

static fat_status find_need(const fat_schedule *schedule, const fat_pair *pair, const fat_records *records,
                            need *n, fat_error *err)
{
  const fat_session *s = schedule->session;
  char text[FAT_CONFIG_TEXT], kernel[FAT_CONFIG_KERNEL];
  fat_point twins[FAT_TWIN_MOST];
  fat_config config;
  int count;
  const fat_record *best = find_best(schedule, pair, records);
  if (!best)
    return FAT_OK;
  FAT_TRY(fat_config_parse(best->config, &config, err));
  snprintf(n->of, sizeof n->of, "%s", best->config);
  FAT_TRY(fat_twin_kernel(s->script, &config, &pair->item->problem, s->gpu, kernel, err));
  FAT_TRY(fat_twin_find(s->script, find_space(schedule, pair, kernel), &config, &pair->item->problem, s->gpu,
                        twins, &count, err));
  for (int i = 0; i < count; i++) {
    const fat_record *record = fat_records_find(records, fat_config_print(&twins[i].config, text));
    bool has = false;
    n->point = twins[i];
    if (is_open(record)) {
      n->due = true;
      return FAT_OK;
    }
    if (record->outcome != FAT_OUT_OK)
      continue;
    FAT_TRY(has_code(s, &pair->item->problem, record, &has, err));
    n->due = !has;
    n->record = has ? NULL : record;
    return FAT_OK;
  }
  return FAT_OK;
}

/* A row that is copied from the package is the own file's, which is asked first: the winner goes there before
 * it, or its twin would win. */
static fat_status own_winner(const fat_schedule *schedule, const fat_pair *pair, const fat_records *records,
                             fat_error *err)
{
  const fat_session *s = schedule->session;
  const fat_record *winner = fat_winner_find(records, schedule->incumbents[pair->item - s->agenda->list]);
  int64_t id;
  if (!winner || winner->id >= 0)
    return FAT_OK;
  return fat_records_own(s->db, winner, &pair->item->problem, s->gpu, &s->tools, &id, err);
}

/* Schedules what is due for a pair; code that is missing is made at once. */
static fat_status make(fat_schedule *schedule, fat_pair *pair, need *n, fat_error *err)
{
  fat_session *s = schedule->session;
  fat_records records = {0};
  *n = (need){0};
  FAT_TRY(fat_records_read(s->db, &pair->item->problem, s->gpu, &s->tools, &records, err));
  fat_status status = find_need(schedule, pair, &records, n, err);
  if (status == FAT_OK && n->due)
    status = fat_schedule_begin(schedule, err);
  if (status == FAT_OK && n->due && n->record && n->record->id < 0)
    status = own_winner(schedule, pair, &records, err);
  if (status == FAT_OK && n->due)
    status = n->record ? fat_attempt_remake(s, &pair->item->problem, n->record, err)
                       : fat_schedule_add_twin(schedule, pair, &n->point, n->of, err);
  n->due = n->due && !n->record; /* it may fail, so that another is due */
  fat_records_free(&records);
  return status == FAT_E_CANCELLED ? FAT_OK : status;
}

/* One twin of each pair that needs one, by all cores and GPUs. *more: some were tried. */
static fat_status make_all(fat_schedule *schedule, need *needs, bool *more, fat_error *err)
{
  const int before = schedule->count;
  fat_status status = FAT_OK;
  for (int i = 0; i < schedule->pair_count && status == FAT_OK && !*schedule->session->stop; i++)
    if (needs[i].due)
      status = make(schedule, &schedule->pairs[i], &needs[i], err);
  *more = schedule->count > before;
  if (status == FAT_OK && *more)
    status = fat_work_run(schedule, err);
  schedule->count = schedule->begun = before; /* the points go with the needs */
  return status;
}

fat_status fat_twins_make(fat_schedule *schedule, fat_error *err)
{
  need *needs = calloc((size_t)schedule->pair_count + 1, sizeof *needs);
  bool more = true;
  fat_status status = FAT_OK;
  if (!needs)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for twins");
  for (int i = 0; i < schedule->pair_count; i++)
    /* A kernel that only who names it gets has its twin compiled when it is called; where it is measured,
     * that too. */
    needs[i].due = schedule->session->labs > 0 || schedule->pairs[i].kernel->picked;
  schedule->closing = true;
  for (int k = 0; k < FAT_TWIN_MOST && more && status == FAT_OK && !*schedule->session->stop; k++)
    status = make_all(schedule, needs, &more, err);
  schedule->closing = false;
  free(needs);
  return status;
}
