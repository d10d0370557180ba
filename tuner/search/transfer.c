/* transfer.c -- configs go from the main anchor of a family to its others.
 *
 * In: pairs, and what is stored by now. Out: more in the schedule. An anchor's own shortlist is short: the
 * main anchor knows best which configs are worth trying there. Everything is read from the database, so a
 * tune that was killed goes on. */
#include "transfer.h"

#include "effort.h"
#include "insert.h"

#include <stdlib.h>

enum { MOST = 64 };

/* The fastest records of a kernel, sorted; records with equal times keep their order. */
static int fastest(const fat_records *records, const char *kernel, int most, const fat_record *best[MOST])
{
  int count = 0;
  for (int i = 0; i < records->count; i++) {
    const fat_record *record = &records->list[i];
    int at = count;
    if (!fat_records_works(record, kernel))
      continue;
    while (at > 0 && best[at - 1]->ms > record->ms)
      at--;
    if (fat_insert_room(best, sizeof *best, &count, most, at))
      best[at] = record;
  }
  return count;
}

static fat_status transfer(fat_schedule *schedule, fat_pair *pair, const fat_records *of_main,
                           const fat_records *own, fat_error *err)
{
  const fat_record *best[MOST];
  int most = fat_effort_transfers(schedule->session->goal->effort);
  int count = fastest(of_main, pair->kernel->name, most < MOST ? most : MOST - 1, best);
  for (int i = 0; i < count; i++) {
    const int place = fat_shortlist_find(&pair->shortlist, best[i]->config);
    const fat_record *record = fat_records_find(own, best[i]->config);
    if (place < 0 || (record && record->same_source))
      continue;
    const fat_point *point = &pair->shortlist.space.points[place];
    if (!fat_schedule_has(schedule, pair, point))
      FAT_TRY(fat_schedule_add(schedule, pair, point, err));
  }
  return FAT_OK;
}

fat_status fat_transfer_add(fat_schedule *schedule, fat_error *err)
{
  const fat_session *s = schedule->session;
  for (int i = 0; i < schedule->pair_count; i++) {
    fat_pair *pair = &schedule->pairs[i];
    fat_records of_main = {0}, own = {0};
    if (pair->item->main_plus_1 == 0 || pair->shortlist.count == 0 || s->labs == 0)
      continue;
    const fat_problem *main_anchor = &s->agenda->list[pair->item->main_plus_1 - 1].problem;
    fat_status status = fat_records_read(s->db, main_anchor, s->gpu, &s->tools, &of_main, err);
    if (status == FAT_OK)
      status = fat_records_read(s->db, &pair->item->problem, s->gpu, &s->tools, &own, err);
    if (status == FAT_OK)
      status = transfer(schedule, pair, &of_main, &own, err);
    fat_records_free(&of_main);
    fat_records_free(&own);
    FAT_TRY(status);
  }
  return FAT_OK;
}
