/* shapes.c -- lists the shapes that a family's rows are of.
 *
 * In: what the database tells the pick of a family. Out: each shape once, the nearest to the main anchor
 * first, at most as many as a plan holds; predicted ones only where none was measured. */
#include "shapes.h"
#include "insert.h"

/* What a wider head lends comes behind all that was measured at this one: it fills what room that leaves. */
static void insert(fat_shapes *s, const fat_problem *p, bool wider)
{
  const double behind = wider ? 1000 : 0, distance = fat_candidate_distance(&s->main, p) + behind;
  int at = s->count;
  for (int i = 0; i < s->count; i++)
    if (fat_candidate_same(&s->list[i].problem, p))
      return;
  while (at > 0 && s->list[at - 1].distance > distance)
    at--;
  s->left += s->count == FAT_FAMILY_SHAPES;
  if (!fat_insert_room(s->list, sizeof s->list[0], &s->count, FAT_FAMILY_SHAPES, at))
    return;
  s->list[at].problem = *p;
  s->list[at].distance = distance;
  s->list[at].unbuilt = false;
}

static void note_shape(fat_shapes *s, const fat_candidate *row)
{
  const bool measured = row->origin == FAT_MEASURED;
  if (s->measured && !measured)
    return;
  if (measured && !s->measured)
    s->count = s->left = 0;
  s->measured = measured;
  insert(s, &row->shape, row->wider);
}

fat_status fat_shapes_list(fat_choosing *c, fat_shapes *s, fat_error *err)
{
  fat_error why = {0};
  fat_pick_list *list;
  if (!c->loader.db)
    return FAT_OK;
  fat_choosing_turn(c, &s->main);
  const fat_pick_question q = fat_take_question(c);
  fat_status status = fat_pick_read(c->loader.db, &q, &c->rows, &list, &why);
  for (int i = 0; i < (status == FAT_OK ? list->count : 0); i++)
    note_shape(s, &list->row[i]);
  if (status == FAT_E_NOMEM)
    return fat_status_fail(err, status, "%s", why.text);
  if (status != FAT_OK)
    fat_choosing_leave_db(c, why.text);
  return FAT_OK;
}
