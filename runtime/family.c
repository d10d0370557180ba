/* family.c -- shapes with their kernels, and the best for a call.
 *
 * In: what was chosen for each shape. Out: the shape that a plan for the call's problem would have taken its
 * row from: scores and ties are the pick's (runtime/candidate.c), on numbers that are made once. */
#include "family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Where the tiles of a config stand in the list; they are put there, or were before. */
static int place_waves(fat_family *f, const fat_waves *waves)
{
  for (int i = 0; i < f->waves_count; i++)
    if (memcmp(&f->waves[i], waves, sizeof *waves) == 0)
      return i;
  f->waves[f->waves_count] = *waves;
  return f->waves_count++;
}

/* Room for one more shape and so many kernels. */
static fat_status make_room(fat_family *f, int kernels, fat_error *err)
{
  fat_shape *shapes = realloc(f->shape, (size_t)(f->shapes + 1) * sizeof *shapes);
  f->shape = shapes ? shapes : f->shape;
  fat_waves *waves = realloc(f->waves, (size_t)(f->waves_count + 1) * sizeof *waves);
  f->waves = waves ? waves : f->waves;
  fat_loaded *codes = realloc(f->code, (size_t)(f->codes + kernels) * sizeof *codes);
  f->code = codes ? codes : f->code;
  f->kept = f->kept ? f->kept : calloc(FAT_FAMILY_KEPT, sizeof *f->kept);
  return shapes && waves && codes && f->kept
             ? FAT_OK
             : fat_status_fail(err, FAT_E_NOMEM, "out of memory for a family's kernels");
}

/* Puts a shape where its time belongs, into room that is there. */
static void insert(fat_family *f, const fat_shape *shape)
{
  int at = f->shapes++;
  for (; at > 0 && f->shape[at - 1].ms > shape->ms; at--)
    f->shape[at] = f->shape[at - 1];
  f->shape[at] = *shape;
  f->usuals += shape->usual;
  f->unbuilt += shape->main < 0;
}

fat_status fat_family_add(fat_family *family, const fat_candidate *row, fat_loaded *main, fat_loaded *twin,
                          fat_error *err)
{
  FAT_TRY(make_room(family, 2, err));
  fat_shape shape = {.problem = row->shape,
                     .at = fat_candidate_measure(&row->shape),
                     .ms = row->ms,
                     .pace = row->pace,
                     .waves = place_waves(family, &row->waves),
                     .main = main ? place(family, main) : -1,
                     .twin = -1,
                     .usual = row->usual};
  if (twin)
    shape.twin = place(family, twin);
  insert(family, &shape);
  return FAT_OK;
}

fat_status fat_family_begin(fat_family *family, const fat_family *before, fat_error *err)
{
  for (int i = 0; i < before->codes; i++) {
    FAT_TRY(make_room(family, 1, err));
    family->code[family->codes] = before->code[i];
    family->code[family->codes++].shared = true;
  }
  for (int i = 0; i < before->shapes; i++) {
    fat_shape shape = before->shape[i];
    if (!shape.usual)
      continue;
    FAT_TRY(make_room(family, 1, err));
    shape.waves = place_waves(family, &before->waves[shape.waves]);
    insert(family, &shape);
  }
  return FAT_OK;
}

const fat_loaded *fat_family_twin(const fat_family *family, const fat_loaded *main)
{
  for (int i = 0; i < family->shapes; i++) {
    const fat_shape *s = &family->shape[i];
    if (s->twin >= 0 && s->main >= 0 && family->code[s->main].recipe == main->recipe)
      return &family->code[s->twin];
  }
  return NULL;
}

void fat_family_remove(fat_family *family, const fat_shape *shape)
{
  family->usuals -= shape->usual;
  family->unbuilt -= shape->main < 0;
  fat_shape *at = &family->shape[shape - family->shape];
  memmove(at, at + 1, (size_t)(--family->shapes - (shape - family->shape)) * sizeof *at);
}

void fat_family_free(fat_family *family)
{
  for (int i = 0; i < family->codes; i++)
    fat_loaded_free(&family->code[i]);
  free(family->code);
  free(family->shape);
  free(family->waves);
  free(family->kept);
  fat_text_free(&family->text);
  *family = (fat_family){0};
}

/* By words, since calls do this; make.c, once a plan, goes by bytes. */
static uint64_t mixed(uint64_t key, uint64_t number)
{
  key = (key ^ number) * 0x9e3779b97f4a7c15;
  return key ^ key >> 32;
}

/* All of a call that the best depends on, as one number. */
static uint64_t key_of(const fat_problem *p)
{
  const int64_t sizes[] = {p->b, p->h, p->hk, p->q, p->k};
  uint64_t key = 1;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    key = mixed(key, (uint64_t)sizes[i]);
  for (uint32_t left = p->features; left != 0; left &= left - 1) {
    const uint64_t *arg = p->arg[__builtin_ctz(left)];
    key = mixed(mixed(key, arg[0]), arg[1]);
  }
  return key;
}

/* One word holds the key's upper 56 bits and the shape's number + 1, so that it is read and written as a
 * whole. Were two sizes to share these bits, one would be given the other's kernel, which is right for it,
 * too. */
const fat_shape *fat_family_known(const fat_family *family, const fat_problem *p, const fat_room *room)
{
  const uint64_t key = key_of(p), number = 0xff;
  _Static_assert(FAT_FAMILY_SHAPES < 0xff, "a byte numbers the shapes");
  if (!family->kept)
    return NULL;
  _Atomic(uint64_t) *kept = &family->kept[(key >> 8) % FAT_FAMILY_KEPT];
  const uint64_t before = atomic_load_explicit(kept, memory_order_relaxed);
  if (before != 0 && (before ^ key) <= number)
    return &family->shape[(before & number) - 1];
  const fat_shape *best = fat_family_best(family, p, room, NULL);
  if (best && best->main >= 0)
    atomic_store_explicit(kept, (key & ~number) | (uint64_t)(best - family->shape + 1), memory_order_relaxed);
  return best;
}

/* Whether a shape that was measured lies near what is asked. */
static bool is_near(const fat_family *f, const fat_asked *asked)
{
  for (int i = 0; i < f->shapes; i++)
    if (!f->shape[i].usual && fat_candidate_near(&f->shape[i].at, &asked->at))
      return true;
  return false;
}

/* Which shapes count, as a plan for the call's problem would have it: where all that was measured lies far
 * off, defaults alone. */
typedef enum counted { ALL, MEASURED, USUAL } counted;

static const fat_shape *best_of(const fat_family *family, const fat_asked *asked, const fat_passed *passed,
                                counted those)
{
  const fat_shape *best = NULL;
  fat_demand work[FAT_FAMILY_SHAPES];
  double least = INFINITY, least_apart = INFINITY, least_rows = INFINITY;
  for (int i = 0; i < family->waves_count; i++)
    work[i] = fat_waves_work(&family->waves[i], &asked->reach);
  for (int i = 0; i < family->shapes; i++) {
    const fat_shape *s = &family->shape[i];
    if (fat_passed_has(passed, s->main) || (those != ALL && s->usual == (those == MEASURED)))
      continue;
    if (fat_candidate_same(&s->problem, asked->problem))
      return s;
    const double ms = fat_waves_ms(&s->pace, &asked->reach, work[s->waves]);
    if (ms > least) /* its score is no less */
      continue;
    const double apart = fat_candidate_apart(&s->at, &asked->at);
    const fat_waves *waves = &family->waves[s->waves];
    const double score = fat_candidate_score(waves, &s->pace, &asked->reach, ms, apart);
    if (score > least || (score == least && apart > least_apart))
      continue;
    const double rows = fabs(s->at.all - asked->at.all);
    if (score == least && apart == least_apart && rows >= least_rows)
      continue;
    best = s;
    least = score;
    least_apart = apart;
    least_rows = rows;
  }
  return best;
}

/* Stands for the defaults of far shapes while they are not built. */
static const fat_shape far_default = {.main = -1, .twin = -1, .usual = true};

const fat_shape *fat_family_best(const fat_family *family, const fat_problem *p, const fat_room *room,
                                 const fat_passed *passed)
{
  const fat_asked asked = fat_candidate_asked(p, room);
  const bool far_unbuilt = family->far_unbuilt && !(passed && passed->unbuilt);
  if (!far_unbuilt && (family->usuals == 0 || family->usuals == family->shapes))
    return best_of(family, &asked, passed, ALL);
  const bool near = is_near(family, &asked);
  if (far_unbuilt && !near)
    return &far_default;
  const fat_shape *best = best_of(family, &asked, passed, near ? MEASURED : USUAL);
  return best ? best : best_of(family, &asked, passed, ALL);
}

fat_family_need fat_family_needs(const fat_family *family, const fat_problem *p, const fat_room *room,
                                 int64_t sms, const fat_shape **shape)
{
  const fat_sizes sizes = fat_recipe_sizes(p, sms);
  fat_passed passed = {0};
  if (family->unbuilt == 0 && !family->far_unbuilt)
    return FAT_NEEDS_NOTHING;
  while ((*shape = fat_family_best(family, p, room, &passed))) {
    const int code = (*shape)->main;
    if (code < 0)
      return *shape == &far_default ? FAT_NEEDS_FAR : FAT_NEEDS_SHAPE;
    if (fat_recipe_check(family->code[code].recipe, &sizes, NULL) == FAT_OK)
      break;
    fat_passed_add(&passed, code); /* not valid for these sizes: fatune_run passes it, too */
  }
  return FAT_NEEDS_NOTHING;
}
