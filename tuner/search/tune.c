/* tune.c -- the tuner on one page: schedule, try, transfer, twins, races, winners.
 *
 * In: a session with its agenda. Out: a row for every config that was chosen, and the winners. What is stored
 * with the same source and tools is not tried again. Every stage reads what it needs from the database, so
 * the same command goes on where an earlier one stopped. */
#include "tune.h"

#include "clock.h"
#include "race.h"
#include "stop.h"
#include "transfer.h"
#include "twins.h"
#include "winner.h"
#include "work.h"

/* The schedule, and what its main anchors find for the others. */
static fat_status try_scheduled(fat_schedule *schedule, fat_error *err)
{
  for (;;) {
    if (!fat_schedule_ends(schedule))
      FAT_TRY(fat_transfer_add(schedule, err));
    if (schedule->begun == schedule->count)
      return FAT_OK;
    FAT_TRY(fat_schedule_begin(schedule, err));
    FAT_TRY(fat_work_run(schedule, err));
  }
}

/* A race may change who is best, and so what is transferred and whose twin is missing. */
static fat_status run_rounds(fat_schedule *schedule, fat_error *err)
{
  enum { ROUNDS = 3 };
  const fat_session *s = schedule->session;
  /* A race begun before the budget ended may yield a winner after it, which then still needs its twin. */
  for (int round = 0, before = -1; round < ROUNDS && before < s->done; round++) {
    before = s->done;
    FAT_TRY(try_scheduled(schedule, err));
    FAT_TRY(fat_twins_make(schedule, err));
    if (s->labs > 0 && round < ROUNDS - 1)
      FAT_TRY(fat_race_hold_all(schedule, err));
  }
  return FAT_OK;
}

static fat_status end_run(fat_session *s, fat_status status, fat_error *err)
{
  s->signal = fat_stop_signal();
  fat_progress_end(&s->progress);
  if (!s->run)
    return status;
  const char *how = status != FAT_OK   ? "failed"
                    : s->signal        ? "interrupted"
                    : s->out_of_budget ? "budget"
                                       : "done";
  fat_status ended = fat_db_run_end(s->db, s->run, how, status == FAT_OK ? err : NULL);
  return status == FAT_OK ? ended : status;
}

/* Winners where trials were measured, else code for the best of each pair. What an error ended is stored as
 * far as it came: a trial of one's own would stand before a faster row of the package. */
static fat_status store_best(fat_schedule *schedule, fat_error *err)
{
  const fat_session *s = schedule->session;
  for (int a = 0; a < s->agenda->count && s->labs > 0; a++)
    FAT_TRY(fat_winner_store(s, &s->agenda->list[a].problem, schedule->incumbents[a], err));
  for (fat_pair *pair = schedule->pairs; pair < schedule->pairs + schedule->pair_count && s->labs == 0;
       pair++)
    FAT_TRY(fat_leader_store(&pair->leader, s, &pair->item->problem, pair->kernel->name, err));
  return FAT_OK;
}

fat_status fat_tune_run(fat_session *session, fat_schedule *schedule, fat_error *err)
{
  fat_stop stops;
  fat_error later; /* the first error is told */
  session->stop = fat_stop_begin(&stops, session->quiet || session->json_progress);
  fat_status status = fat_schedule_make(session, schedule, err);
  const bool is_made = status == FAT_OK;
  session->begun = fat_clock_now();
  if (is_made)
    status = run_rounds(schedule, err);
  status = end_run(session, status, err);
  const fat_status stored = is_made ? store_best(schedule, status == FAT_OK ? err : &later) : FAT_OK;
  fat_stop_end(&stops);
  return status == FAT_OK ? stored : status;
}
