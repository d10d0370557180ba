/* winner.c -- compares measured records, breaks near ties, and stores the winner.
 *
 * In: records. Out: the winner. Near ties are decided by a fixed rule and not by noise, so that the same GPU
 * is given the same kernel again tomorrow. */
#include "winner.h"
#include "fitting.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double tie = 1.01, noisy_tie = 1.02; /* times the best */

double fat_winner_cost(const fat_record *record, fat_yardstick by)
{
  if (by == FAT_BY_MEAN)
    return record->mean > 0 ? record->mean : record->ms;
  return by == FAT_BY_CLOCKS ? record->ms * record->timing.clock : record->ms;
}

fat_yardstick fat_winner_yardstick(const fat_records *records, const char *kernel)
{
  for (int i = 0; i < records->count; i++)
    if (fat_records_works(&records->list[i], kernel) && !(records->list[i].timing.clock > 0))
      return FAT_BY_MS;
  return FAT_BY_CLOCKS;
}

const fat_record *fat_winner_fastest(const fat_records *records, const char *kernel, fat_yardstick by,
                                     const fat_record *beside)
{
  const fat_record *best = NULL;
  for (int i = 0; i < records->count; i++) {
    const fat_record *record = &records->list[i];
    if (!fat_records_works(record, kernel) || (beside && !fat_records_raced(record, beside)))
      continue;
    if (!best || fat_winner_cost(record, by) < fat_winner_cost(best, by) ||
        (fat_winner_cost(record, by) == fat_winner_cost(best, by) && record->id < best->id))
      best = record;
  }
  return best;
}

/* How far a median may be off: twice its standard error. Of normal samples that is 1.25 standard deviations
 * over the root of their number, and the middle 60 % of them are 1.68 standard deviations wide. */
static double noise(const fat_timing *t)
{
  return 2 * 1.25 / 1.68 * (t->p80 - t->p20) / sqrt(t->count > 0 ? t->count : 1);
}

/* Whether noise may have decided between two that were timed in a race. A mean is taken to be as noisy as the
 * time on normal data, half of which it is. Where power limits the clocks, they differ by some percent from
 * one turn to the next, and with them five samples of each: that is no reason to prefer what was 2 % slower.
 */
static bool ties(const fat_record *record, const fat_record *best)
{
  if (record == best)
    return true;
  const double cost = fat_winner_cost(record, FAT_BY_MEAN), least = fat_winner_cost(best, FAT_BY_MEAN);
  return fat_records_raced(record, best) &&
         (cost <= tie * least ||
          (cost <= noisy_tie * least && cost - least <= hypot(noise(&record->timing), noise(&best->timing))));
}

static bool preferred(const fat_record *a, const fat_record *b, const char *incumbent)
{
  if (strcmp(a->config, b->config) == 0)
    return false;
  if (strcmp(a->config, incumbent) == 0 || strcmp(b->config, incumbent) == 0)
    return strcmp(a->config, incumbent) == 0;
  if (a->figures.shared != b->figures.shared)
    return a->figures.shared < b->figures.shared;
  if (a->figures.registers != b->figures.registers)
    return a->figures.registers < b->figures.registers;
  return strcmp(a->config, b->config) < 0;
}

const fat_record *fat_winner_find(const fat_records *records, const char *incumbent)
{
  const fat_record *best = fat_winner_fastest(records, NULL, fat_winner_yardstick(records, NULL), NULL),
                   *last = best ? fat_records_newest(records, best->kernel, fat_records_is_timed) : NULL,
                   *winner;
  /* What was there before a race and not near enough to be in it does not win by its time from then: a budget
   * may have ended before it got a race. A race without its kernel is another kernel's own, and says nothing
   * of what was so far ahead that it had no rival. */
  if (best && last && last->id > best->id && !fat_records_is_timed(best))
    best = last;
  if (best && fat_records_is_timed(best)) /* times of one race say more than clocks; of two, less */
    best = fat_winner_fastest(records, NULL, FAT_BY_MEAN, best);
  winner = best;
  for (int i = 0; best && i < records->count; i++) {
    const fat_record *record = &records->list[i];
    if (fat_records_works(record, NULL) && ties(record, best) && preferred(record, winner, incumbent))
      winner = record;
  }
  return winner;
}

/* The config of the measured winner that is stored for a problem, or "". */
static fat_status find_own(const fat_session *session, const fat_problem *p, char config[FAT_CONFIG_TEXT],
                           fat_error *err)
{
  fat_best best;
  fat_status status = fat_db_best(session->db, p, session->gpu, NULL, false, &best, err);
  config[0] = 0;
  if (status == FAT_E_NOT_FOUND)
    return FAT_OK;
  FAT_TRY(status);
  if (best.trial.origin == FAT_MEASURED)
    fat_config_print(&best.trial.config, config);
  fat_db_best_free(&best);
  return FAT_OK;
}

fat_status fat_winner_before(const fat_session *session, const fat_problem *p, char config[FAT_CONFIG_TEXT],
                             fat_error *err)
{
  const fat_pick_question question = {.problem = p, .gpu = session->gpu, .now = (int64_t)time(NULL)};
  fat_pick_rows rows = {0};
  FAT_TRY(find_own(session, p, config, err));
  if (*config)
    return FAT_OK;
  fat_pick *pick = malloc(sizeof *pick); /* large */
  if (!pick)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the steps of a pick");
  const fat_status status = fat_fitting_answer(session->db, session->script, &question, &rows, pick, err);
  if (status == FAT_OK && pick->step <= FAT_PICK_ARCH)
    snprintf(config, FAT_CONFIG_TEXT, "%s", pick->row[pick->step].config);
  fat_pick_rows_free(&rows);
  free(pick);
  return status;
}

/* A record that was copied from the system's file may have become the winner by its time already. */
static fat_status prefer(const fat_session *session, const fat_problem *p, const fat_record *winner,
                         fat_error *err)
{
  int64_t id;
  FAT_TRY(fat_records_own(session->db, winner, p, session->gpu, &session->tools, &id, err));
  fat_status status = fat_db_prefer(session->db, id, err);
  return status == FAT_E_NOT_FOUND && winner->id < 0 ? FAT_OK : status;
}

fat_status fat_winner_store(const fat_session *session, const fat_problem *p, const char *incumbent,
                            fat_error *err)
{
  char now[FAT_CONFIG_TEXT];
  fat_records records;
  fat_status status = FAT_OK;
  FAT_TRY(find_own(session, p, now, err));
  FAT_TRY(fat_records_read(session->db, p, session->gpu, &session->tools, &records, err));
  const fat_record *winner = fat_winner_find(&records, incumbent);
  if (winner && strcmp(winner->config, now) != 0)
    status = prefer(session, p, winner, err);
  fat_records_free(&records);
  return status;
}
