/* fitting.c -- asks the pick until its row is valid for the sizes and has code, as a plan does
 * (runtime/take.c).
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
  char more[32] = "";
  if (passed > 1)
    snprintf(more, sizeof more, ", and %d more", passed - 1);
  snprintf(to + n, room - n, " (passed over: %s of %s, since %s%s)", first->config, first->problem, why->text,
           more);
}

/* Whether a plan loads the row's code, or has its source compiled, without these templates. */
static bool is_stored(fat_db *db, const fat_candidate *row, const fat_gpu *gpu)
{
  fat_code code;
  const fat_code_filter filter = {.problem = &row->shape,
                                  .sm = gpu->sm,
                                  .facts = row->facts,
                                  .config = row->config,
                                  .source_hash = row->source_hash};
  if (fat_db_code(db, &filter, &code, NULL) != FAT_OK)
    return false;
  fat_db_code_free(&code);
  return true;
}

/* Why a plan would leave the row out; FAT_OK: it takes it. */
static fat_error refusal(fat_db *db, fat_script *script, const fat_pick_question *q, const fat_candidate *row)
{
  const fat_rendered today = fat_rendered_today(script, q->problem, q->gpu, row->config, NULL);
  if (today.unwritten.status != FAT_OK && !is_stored(db, row, q->gpu))
    return today.unwritten;
  return today.invalid.status == FAT_E_UNSUPPORTED ? today.invalid : (fat_error){0};
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
    const fat_error refused_for = refusal(db, script, &q, row);
    if (refused_for.status == FAT_OK)
      break;
    if (!first.found) {
      first = *row;
      why = refused_for;
    }
    memcpy(refused[q.refused_count], row->source_hash, FAT_HASH_SIZE);
    q.hidden = q.hidden || pick->step == FAT_PICK_EXACT;
  }
  if (first.found)
    tell(&first, &why, q.refused_count, pick->why[pick->step], sizeof pick->why[0]);
  return FAT_OK;
}
