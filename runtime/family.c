/* family.c -- shapes with their kernels, and the nearest to a call's.
 *
 * In: what was chosen for each shape. Out: the shape that a plan for the call's problem would have taken its
 * row from: distance and ties are the pick's (runtime/candidate.c), on numbers that are made once. */
#include "family.h"

#include <math.h>
#include <stdlib.h>

/* Where a loaded kernel stands in the list; it is put there, or was before. */
static int place(fat_family *f, fat_loaded *loaded)
{
  for (int i = 0; i < f->codes; i++)
    if (f->code[i].recipe == loaded->recipe)
      return i;
  loaded->shared = false;
  f->code[f->codes] = *loaded;
  loaded->shared = true;
  return f->codes++;
}

fat_status fat_family_add(fat_family *family, const fat_problem *p, double ms, fat_loaded *main,
                          fat_loaded *twin, fat_error *err)
{
  fat_family *f = family;
  fat_shape *shapes = realloc(f->shape, (size_t)(f->shapes + 1) * sizeof *shapes);
  f->shape = shapes ? shapes : f->shape;
  fat_loaded *codes = realloc(f->code, (size_t)(f->codes + 2) * sizeof *codes);
  f->code = codes ? codes : f->code;
  if (!shapes || !codes)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a family's kernels");
  int at = f->shapes++;
  for (; at > 0 && f->shape[at - 1].ms > ms; at--)
    f->shape[at] = f->shape[at - 1];
  f->shape[at] = (fat_shape){.at = fat_candidate_measure(p), .ms = ms, .main = place(f, main), .twin = -1};
  if (twin)
    f->shape[at].twin = place(f, twin);
  return FAT_OK;
}

const fat_loaded *fat_family_twin(const fat_family *family, const fat_loaded *main)
{
  for (int i = 0; i < family->shapes; i++) {
    const fat_shape *s = &family->shape[i];
    if (s->twin >= 0 && family->code[s->main].recipe == main->recipe)
      return &family->code[s->twin];
  }
  return NULL;
}

void fat_family_free(fat_family *family)
{
  for (int i = 0; i < family->codes; i++)
    fat_loaded_free(&family->code[i]);
  free(family->code);
  free(family->shape);
  fat_text_free(&family->text);
  *family = (fat_family){0};
}

const fat_shape *fat_family_nearest(const fat_family *family, const fat_measure *at, uint32_t passed)
{
  const fat_shape *best = NULL;
  double least = INFINITY, least_rows = INFINITY;
  for (int i = 0; i < family->shapes; i++) {
    const fat_shape *s = &family->shape[i];
    const double apart = fat_candidate_apart(&s->at, at);
    if (apart > least || (passed >> s->main & 1u))
      continue;
    const double rows = fabs(s->at.all - at->all);
    if (apart == least && rows >= least_rows)
      continue;
    best = s;
    least = apart;
    least_rows = rows;
  }
  return best;
}
