/* race.c -- the last round: who is in it, and how it is held.
 *
 * In: measured records. Out: the same records with the times of the race. */
#include "race.h"

#include "insert.h"
#include "winner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Times the best, by clocks. A config that saves power may take more of them and still be the faster: where
 * two blocks share K and V (d 128, full, H200), 7 % more clocks took 0.5 % less time in the race. */
static const double near_best = 1.08;

/* Whether its race need not be held again: one that came to its end before there were kinds of data must. */
static bool was_held(const fat_record *record)
{
  return fat_records_is_finalist(record) && (record->mean > 0 || !fat_records_is_timed(record));
}

/* Keeps the fastest, sorted; the last place is left free for the default. */
static void insert(const fat_record *finalists[FAT_RACE_MOST], int *count, const fat_record *record,
                   fat_yardstick by)
{
  int at = *count;
  while (at > 0 && fat_winner_cost(finalists[at - 1], by) > fat_winner_cost(record, by))
    at--;
  if (fat_insert_room(finalists, sizeof *finalists, count, FAT_RACE_MOST - 1, at))
    finalists[at] = record;
}

int fat_race_finalists(const fat_records *records, const char *kernel, const char *default_config,
                       const fat_record *finalists[FAT_RACE_MOST])
{
  const fat_yardstick by = fat_winner_yardstick(records, kernel);
  const fat_record *best = fat_winner_fastest(records, kernel, by, NULL), *usual = NULL;
  int count = 0;
  if (!best)
    return 0;
  for (int i = 0; i < records->count; i++) {
    const fat_record *record = &records->list[i];
    if (!fat_records_works(record, kernel))
      continue;
    if (fat_winner_cost(record, by) <= near_best * fat_winner_cost(best, by))
      insert(finalists, &count, record, by);
    if (strcmp(record->config, default_config) == 0)
      usual = record;
  }
  bool entered = !usual;
  for (int i = 0; i < count; i++)
    entered = entered || finalists[i] == usual;
  if (!entered)
    finalists[count++] = usual;
  bool held = was_held(best) && (!usual || was_held(usual));
  const fat_record *raced = fat_records_newest(records, kernel, fat_records_is_finalist);
  const int64_t last = raced && raced->id > 0 ? raced->id : 0; /* the user's own, or none */
  for (int i = 0; i < count; i++)
    held = held && (fat_records_is_finalist(finalists[i]) || finalists[i]->id <= last);
  return count < 2 || held ? 0 : count;
}

/* The entrants, with their code. */
typedef struct field {
  const fat_record *record[FAT_RACE_MOST];
  fat_code code[FAT_RACE_MOST];
  fat_entrant entrant[FAT_RACE_MOST];
  int count;
} field;

/* A record that did not look like one of the best was stored without its binary: it is compiled again. */
static fat_status gather(const fat_session *s, const fat_problem *p, const fat_record *const *records,
                         int count, field *f, fat_error *err)
{
  for (int i = 0; i < count; i++) {
    fat_code *code = &f->code[f->count];
    fat_status status = fat_records_code(s->db, records[i], p, s->gpu, code, err);
    if (status == FAT_E_NOT_FOUND) {
      status = fat_attempt_remake(s, p, records[i], err);
      if (status != FAT_E_CANCELLED) /* or there is no race anyway */
        FAT_TRY(status);
      status = fat_records_code(s->db, records[i], p, s->gpu, code, err);
    }
    if (status == FAT_E_NOT_FOUND)
      continue;
    FAT_TRY(status);
    f->record[f->count] = records[i];
    f->entrant[f->count++] = (fat_entrant){.config = records[i]->config,
                                           .recipe = code->recipe,
                                           .cubin_hash = code->cubin_hash,
                                           .cubin = code->cubin,
                                           .cubin_size = code->cubin_size};
  }
  return FAT_OK;
}

/* Stores the record again with its times in a race; NULL: the race broke off, so the time that the record
 * had stays, and there are none on kinds of data. */
static fat_status store(const fat_session *s, const fat_problem *p, const fat_record *record,
                        const fat_verdict *verdict, const char *race, int rivals, const char *how,
                        fat_error *err)
{
  static const double none[FAT_KINDS];
  fat_record copy = *record;
  fat_trial trial;
  if (verdict)
    copy.timing = verdict->timing;
  memcpy(copy.kinds, verdict ? verdict->kinds : none, sizeof copy.kinds);
  copy.mean = fat_kinds_mean(copy.kinds);
  copy.rivals = rivals;
  snprintf(copy.race, sizeof copy.race, "%s", race);
  const bool was_broken_off = record->race[0] && record->rivals == 0; /* which its detail says */
  if (*how || was_broken_off)
    snprintf(copy.detail, sizeof copy.detail, "%s", how);
  FAT_TRY(fat_records_trial(&copy, p, s->gpu, &s->tools, &trial, err));
  trial.run = s->run;
  return fat_db_put(s->db, &trial, NULL, err);
}

/* Now, to the millisecond: what a race is known by. */
static void name_race(char name[32])
{
  struct timespec now;
  struct tm utc;
  size_t n = 0;
  clock_gettime(CLOCK_REALTIME, &now);
  if (gmtime_r(&now.tv_sec, &utc))
    n = strftime(name, 32, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(name + n, 32 - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* A race that is being held, on one GPU. */
typedef struct race {
  const fat_pair *pair; /* NULL: none */
  int held;             /* so often was this pair's held */
  fat_records records;
  field f;
  char name[32];
  fat_verdict verdicts[FAT_WIRE_ENTRANTS];
} race;

static void clear(race *r)
{
  for (int i = 0; i < r->f.count; i++)
    fat_db_code_free(&r->f.code[i]);
  fat_records_free(&r->records);
  r->f.count = 0;
  r->pair = NULL;
}

/* The race of a GPU that is left out is not held in this run; what was measured before stands. */
static fat_status leave_out(fat_session *s, race *races, int at, const fat_error *why, fat_error *err)
{
  FAT_TRY(fat_session_leave_out(s, at, why, err));
  clear(&races[at]);
  races[at] = races[s->labs], races[s->labs] = (race){0};
  return FAT_OK;
}

static fat_status enter(fat_session *s, race *races, int at, fat_error *err)
{
  race *r = &races[at];
  fat_experiment e = {FAT_TASK_RACE, &r->pair->item->problem, s->gpu, r->f.entrant,
                      r->f.count,    .expected_ms = 0};
  name_race(r->name);
  for (int i = 0; i < r->f.count; i++)
    e.expected_ms = fmax(e.expected_ms, r->f.record[i]->ms);
  fat_error why = {0};
  return fat_lab_begin(s->lab[at], &e, &why) == FAT_OK ? FAT_OK : leave_out(s, races, at, &why, err);
}

/* Begins the race of a pair on a GPU if one is due; else races[at].pair is NULL. */
static fat_status begin(fat_schedule *schedule, const fat_pair *pair, race *races, int at, fat_error *err)
{
  race *r = &races[at];
  fat_session *s = schedule->session;
  const fat_problem *p = &pair->item->problem;
  const fat_record *finalists[FAT_RACE_MOST];
  char config[FAT_CONFIG_TEXT];
  if (pair->shortlist.count == 0)
    return FAT_OK;
  /* One pair races for all that may win unasked: that of the default which a call is given untuned. */
  const bool first = pair->kernel->picked && pair->kernel == pair->item->kernels;
  fat_config_print(&pair->shortlist.space.points[0].config, config);
  FAT_TRY(fat_records_read(s->db, p, s->gpu, &s->tools, &r->records, err));
  r->pair = pair;
  int count = fat_race_finalists(&r->records, first ? NULL : pair->kernel->name, config, finalists);
  fat_status status = count ? fat_schedule_begin(schedule, err) : FAT_OK;
  if (status == FAT_OK)
    status = gather(s, p, finalists, count, &r->f, err);
  if (status == FAT_OK && r->f.count > 1)
    return enter(s, races, at, err);
  clear(r);
  return status;
}

/* A race that was broken off is stored as one too, so that no later tune holds it again; not where memory ran
 * out, of which the next run may have more. *held: it came to its end. */
static fat_status end(fat_session *s, race *r, bool *held, fat_error *err)
{
  char how[1000] = ""; /* fits a record's detail */
  const fat_outcome outcome = r->verdicts[0].outcome;
  *held = outcome == FAT_OUT_OK;
  s->done++;
  if (!*held) {
    snprintf(how, sizeof how, "the last round was broken off (%s: %.900s); the first times stand",
             fat_db_outcome_name(outcome), r->verdicts[0].detail);
    fat_progress_say(&s->progress, "%s", how);
  }
  for (int i = 0; i < r->f.count && outcome != FAT_OUT_OOM; i++)
    FAT_TRY(store(s, &r->pair->item->problem, r->f.record[i], *held ? &r->verdicts[i] : NULL, r->name,
                  *held ? r->f.count - 1 : 0, how, err));
  return FAT_OK;
}

/* News of a GPU's race; once it is held it may be due again. */
static fat_status step(fat_schedule *schedule, race *races, int at, fat_error *err)
{
  enum { RACES = 3 };
  fat_session *s = schedule->session;
  race *r = &races[at];
  bool done, held;
  const fat_pair *pair = r->pair;
  fat_error why = {0};
  if (fat_worker_step(s->lab[at]->worker, 0, r->verdicts, &done, &why) != FAT_OK)
    return leave_out(s, races, at, &why, err);
  if (!done)
    return FAT_OK;
  FAT_TRY(end(s, r, &held, err));
  clear(r);
  return held && ++r->held < RACES && !fat_schedule_ends(schedule) ? begin(schedule, pair, races, at, err)
                                                                   : FAT_OK;
}

/* One round over all GPUs: those that are free take the next pair. *busy: some hold a race. */
static fat_status turn(fat_schedule *schedule, race *races, int *next, bool *busy, fat_error *err)
{
  const double pause = 0.1; /* seconds */
  fat_session *s = schedule->session;
  *busy = false;
  for (int i = 0; i < s->labs; i++) {
    while (i < s->labs && !races[i].pair && *next < schedule->pair_count && !fat_schedule_ends(schedule)) {
      races[i].held = 0;
      FAT_TRY(begin(schedule, &schedule->pairs[(*next)++], races, i, err));
    }
    *busy = *busy || races[i].pair;
  }
  if (*busy)
    fat_lab_wait(s->lab, s->labs, pause);
  for (int i = 0; i < s->labs; i++)
    if (races[i].pair)
      FAT_TRY(step(schedule, races, i, err));
  return FAT_OK;
}

fat_status fat_race_hold_all(fat_schedule *schedule, fat_error *err)
{
  fat_session *s = schedule->session;
  int next = 0;
  bool busy = true;
  race *races = calloc((size_t)s->labs, sizeof *races);
  if (!races)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for races");
  fat_status status = FAT_OK;
  while (status == FAT_OK && busy &&
         !*s->stop) { /* what has begun ends by its deadline, but a signal ends it */
    fat_schedule_watch(schedule);
    status = turn(schedule, races, &next, &busy, err);
    fat_progress_show(&s->progress);
  }
  for (int i = 0; i < s->labs; i++)
    if (races[i].pair)
      clear(&races[i]);
  free(races);
  return status;
}
