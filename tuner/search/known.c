/* known.c -- which configs have won for a family, the nearest first.
 *
 * In: the database. Out: a few configs. A winner of another GPU, driver or set of templates is no answer
 * here, but the likeliest to be one: it is tried, and what is timed decides. */
#include "known.h"

#include "candidate.h"
#include "grow.h"

#include <stdlib.h>
#include <string.h>

/* Doublings: another architecture is farther than any problem; the other type of 16 bits is near, for of 176
 * configs that were timed in both at the same problem the middle eight of ten take 0.98 to 1.03 times as long
 * in one as in the other (H200); and so is the wider head that lends. */
static const double elsewhere = 1000, lent = 1;

typedef struct reading {
  fat_won *won;
  bool failed;
} reading;

static bool keep(const fat_trial *t, void *user)
{
  reading *r = user;
  fat_won *won = r->won;
  if (t->origin != FAT_MEASURED)
    return true;
  struct fat_won_row *larger = fat_grow(won->row, won->count, sizeof *larger);
  r->failed = !larger;
  if (!larger)
    return false;
  won->row = larger;
  struct fat_won_row *row = &won->row[won->count++];
  *row = (struct fat_won_row){.problem = t->problem, .sm = t->gpu.sm};
  fat_problem_print(&t->problem, row->text);
  fat_config_print(&t->config, row->config);
  return true;
}

static fat_status read_family(fat_db *db, const fat_problem *p, fat_won *won, fat_error *err)
{
  char family[FAT_PROBLEM_TEXT];
  reading r = {.won = won};
  fat_problem kin[FAT_PROBLEM_KIN];
  fat_status status = FAT_OK;
  if (strcmp(fat_problem_family(p, family), won->family) == 0)
    return FAT_OK;
  fat_won_free(won);
  const int count = fat_problem_kin(p, kin);
  for (int i = 0; i < count && status == FAT_OK; i++)
    status = fat_db_winners(db, &kin[i], keep, &r, err);
  if (status == FAT_OK && r.failed)
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for a family's winners");
  if (status == FAT_OK)
    strcpy(won->family, family);
  return status;
}

static int by_distance(const void *a, const void *b)
{
  const struct fat_won_row *x = a, *y = b;
  if (x->far != y->far)
    return x->far < y->far ? -1 : 1;
  const int order = strcmp(x->text, y->text);
  return order ? order : strcmp(x->config, y->config);
}

bool fat_known_add(fat_known *known, const char *config)
{
  for (int i = 0; i < known->count; i++)
    if (strcmp(known->config[i], config) == 0)
      return true;
  if (known->count == FAT_KNOWN_ROOM)
    return false;
  strcpy(known->config[known->count++], config);
  return true;
}

fat_status fat_known_read(fat_db *db, const fat_problem *p, const fat_gpu *gpu, fat_won *won,
                          fat_known *known, fat_error *err)
{
  known->count = 0;
  FAT_TRY(read_family(db, p, won, err));
  for (int i = 0; i < won->count; i++)
    won->row[i].far =
        fat_candidate_distance(&won->row[i].problem, p) + (won->row[i].sm == gpu->sm ? 0 : elsewhere) +
        (won->row[i].problem.dtype == p->dtype ? 0 : lent) + (won->row[i].problem.d == p->d ? 0 : lent);
  if (won->count > 0)
    qsort(won->row, (size_t)won->count, sizeof *won->row, by_distance);
  for (int i = 0; i < won->count && known->count < FAT_KNOWN_MOST; i++)
    fat_known_add(known, won->row[i].config);
  return FAT_OK;
}

void fat_won_free(fat_won *won)
{
  free(won->row);
  *won = (fat_won){0};
}
