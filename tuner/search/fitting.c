/* fitting.c -- asks the pick until its row is valid for the sizes, as a plan does (runtime/take.c).
 *
 * In: a question, the database, templates. Out: the answer. */
#include "fitting.h"
#include "rendered.h"

#include <stdio.h>
#include <string.h>

enum { PASSED = 32 /* rows, at most */ };

static void tell(const fat_candidate *first, const fat_error *why, int passed, char *to, size_t room)
{
  const size_t n = strlen(to);
  snprintf(to + n, room - n, "; passed over: %s of %s, since %s", first->config, first->problem, why->text);
  const size_t m = strlen(to);
  if (passed > 1)
    snprintf(to + m, room - m, ", and %d more", passed - 1);
}

fat_status fat_fitting_answer(fat_db *db, fat_script *script, const fat_pick_question *question,
                              fat_pick_rows *rows, fat_pick *pick, fat_error *err)
{
  char refused[PASSED][FAT_HASH_SIZE];
  fat_pick_question q = *question;
  fat_candidate first = {0};
  fat_error why = {0};
  q.refused = refused;
  for (q.refused_count = 0; q.refused_count <= PASSED; q.refused_count++) {
    FAT_TRY(fat_pick_answer(db, &q, rows, pick, err));
    const fat_candidate *row = &pick->row[pick->step];
    if (pick->step >= FAT_PICK_DEFAULT || !row->found || q.refused_count == PASSED)
      break;
    const fat_rendered today = fat_rendered_today(script, q.problem, q.gpu, row->config, NULL);
    if (today.invalid.status != FAT_E_UNSUPPORTED)
      break;
    if (!first.found) {
      first = *row;
      why = today.invalid;
    }
    memcpy(refused[q.refused_count], row->source_hash, FAT_HASH_SIZE);
  }
  if (first.found)
    tell(&first, &why, q.refused_count, pick->why[pick->step], sizeof pick->why[0]);
  return FAT_OK;
}
