/* choose_family.c -- the choice of a family's plan: that of each shape which is stored for it, so that a call
 * gets what a plan for its sizes would have; where none is, defaults of a few shapes.
 *
 * In: a family, a device, a policy. Out: shapes with their kernels, and lines that say why these. */
#include "shapes.h"
#include "cuda_error.h"
#include "feature.h"
#include "mod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a row of the present problem itself took, even where its kernel yielded to one that promises more; the
 * other type's, where it yielded to that. `none`: where there is no row. */
static const fat_candidate *row_of(const fat_choosing *c, const fat_pick *pick, const fat_candidate *none)
{
  const fat_choice *out = c->out;
  const fat_candidate *exact = &pick->row[FAT_PICK_EXACT];
  const bool led = out->row.lent && fat_candidate_same(&out->row.shape, c->ask.problem);
  return exact->found && !led ? exact : out->row.found ? &out->row : none;
}

/* Puts a shape into the family, whose kernels are those that are known from then on. */
static fat_status put(fat_choosing *c, const fat_candidate *row, fat_loaded *main, fat_loaded *twin,
                      fat_family *family, fat_error *err)
{
  FAT_TRY(fat_family_add(family, row, main, twin, err));
  c->loader.known = family->code;
  c->loader.known_count = family->codes;
  return FAT_OK;
}

/* Puts what was chosen for the present problem into the family. */
static fat_status add(fat_choosing *c, const fat_pick *pick, fat_family *family, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fat_choice *out = c->out;
  const fat_candidate none = {.shape = *c->ask.problem}, *row = row_of(c, pick, &none);
  fat_text_format(&family->text, "variant %s %s %s", fat_problem_print(c->ask.problem, problem),
                  fat_pick_step_name(out->step), out->main.config);
  fat_text_format(&family->text, out->has_twin ? " twin %s\n" : "\n", out->twin.config);
  if (c->ask.look)
    return FAT_OK;
  return put(c, row, &out->main, out->has_twin ? &out->twin : NULL, family, err);
}

/* The twin of another shape that has the present one's kernel. */
static bool share_twin(fat_choosing *c, const fat_family *family)
{
  const fat_loaded *twin = fat_family_twin(family, &c->out->main);
  if (!twin)
    return false;
  const fat_code_filter filter = {.problem = c->ask.problem,
                                  .sm = c->out->gpu.sm,
                                  .config = twin->config,
                                  .source_hash = twin->source_hash};
  c->out->has_twin = fat_load_stored(&c->loader, &filter, &c->out->twin, NULL) == FAT_OK;
  return c->out->has_twin;
}

/* The twin of the present shape's kernel. Where a shape has one, no other is compiled: a call whose tensors
 * need it is given the nearest there is. */
static fat_status take_twin(fat_choosing *c, const fat_family *family, fat_error *err)
{
  const bool may_compile = c->loader.may_compile, may_rebuild = c->loader.may_rebuild;
  if (share_twin(c, family))
    return FAT_OK;
  for (int i = 0; i < family->shapes; i++)
    if (family->shape[i].twin >= 0)
      c->loader.may_compile = c->loader.may_rebuild = false;
  fat_status status = fat_take_twin(c, err);
  c->loader.may_compile = may_compile;
  c->loader.may_rebuild = may_rebuild;
  return status;
}

/* What is asked for while the shapes from one on are taken. */
typedef struct foreseen {
  fat_choosing *c;
  const fat_shapes *s;
  int from;
} foreseen;

/* The rows that they will be given, unless one turns out not to load. */
static void note_shapes(void *user, fat_ahead *ahead)
{
  const foreseen *f = user;
  fat_choosing *c = f->c;
  fat_error why = {0};
  fat_pick *pick = malloc(sizeof *pick);
  for (int i = f->from; pick && i < f->s->count && ahead->count < FAT_FAMILY_CODES; i++) {
    fat_pick_question q = fat_take_question(c);
    q.problem = &f->s->list[i].problem;
    q.refused_count = q.unfit_count = 0;
    q.hidden = false;
    if (fat_pick_answer(c->loader.db, &q, &c->rows, pick, &why) != FAT_OK || pick->step >= FAT_PICK_DEFAULT)
      continue;
    const fat_candidate *row = &pick->row[pick->step];
    const fat_code_filter filter = {.problem = &row->shape,
                                    .sm = c->out->gpu.sm,
                                    .facts = row->facts,
                                    .config = row->config,
                                    .source_hash = row->source_hash};
    fat_ahead_note(ahead, c->loader.db, &filter);
  }
  free(pick);
}

fat_status fat_choose_shape(fat_choosing *c, fat_shapes *s, int i, fat_pick *pick, fat_family *family,
                            bool *taken, fat_error *err)
{
  const bool later = c->loader.later;
  bool found = false;
  fat_choosing_turn(c, &s->list[i].problem);
  FAT_TRY(fat_take_stored(c, pick, &found, err));
  s->list[i].unbuilt = !found && c->loader.put_off;
  *taken = found || s->list[i].unbuilt;
  if (s->list[i].unbuilt) {
    const fat_candidate *row = row_of(c, pick, &c->out->row);
    s->list[i].step = c->out->step;
    memcpy(s->list[i].config, c->out->row.config, sizeof s->list[i].config);
    s->list[i].row = row->shape;
    return put(c, row, NULL, NULL, family, err);
  }
  if (!found)
    return FAT_OK;
  c->loader.later = false;
  fat_status status = take_twin(c, family, err);
  c->loader.later = later;
  return status == FAT_OK ? add(c, pick, family, err) : status;
}

/* All of them. */
static fat_status choose_shapes(fat_choosing *c, fat_shapes *s, fat_pick *pick, fat_family *family,
                                int *taken, fat_error *err)
{
  int left = s->left;
  foreseen f = {c, s, 0};
  c->brief = true;
  c->loader.later = c->ask.later;
  c->loader.foresees = &f;
  c->loader.foresee = !c->ask.later && !fat_mod_used(&s->main) && s->count > 1 ? note_shapes : NULL;
  for (int i = 0; i < s->count; i++) {
    bool one = false;
    f.from = i;
    if (family->codes + 2 > FAT_FAMILY_CODES) {
      left++;
      continue;
    }
    FAT_TRY(fat_choose_shape(c, s, i, pick, family, &one, err));
    *taken += one;
  }
  c->brief = false;
  c->loader.later = false;
  c->loader.foresee = NULL;
  if (left > 0)
    fat_text_format(c->why,
                    "left out: %d shapes: a plan holds %d shapes and %d cubins, those nearest to the "
                    "main anchor\n",
                    left, FAT_FAMILY_SHAPES, FAT_FAMILY_CODES);
  return FAT_OK;
}

/* FATUNE_FAIL: the main anchor was measured here, or it is a miss. */
static fat_status demand_anchor(fat_choosing *c, const fat_shapes *s, fat_pick *pick, fat_error *err)
{
  bool found = false;
  if (c->ask.policy != FATUNE_FAIL)
    return FAT_OK;
  fat_choosing_turn(c, &s->main);
  FAT_TRY(fat_take_stored(c, pick, &found, err));
  return found ? FAT_OK : fat_take_default(c, pick, err);
}

/* Both are compiled side by side where the first one is: not where the plain family's winner may come before
 * a default, as that is another request. */
static void note_defaults(void *user, fat_ahead *ahead)
{
  const fat_shapes *s = user;
  fat_ahead_note_default(ahead, &s->main);
  fat_ahead_note_default(ahead, &s->list[0].problem);
}

/* What the default that was taken is expected to take: what the best row promises at this shape, of the plain
 * family or, where none tells of this one, of its own. A default is as good there, and as it lies nearest to
 * calls of such sizes these are given it. Whether there is such a row. */
static bool foretell(fat_choosing *c, fat_pick *pick)
{
  const fat_room room = fat_reach_room(&c->out->gpu);
  fat_pick_question q = fat_take_question(c);
  fat_problem plain;
  fat_candidate row;
  q.near = false;
  if (!c->loader.db || fat_pick_plain(c->loader.db, &q, &c->plain_rows, &plain, &row, NULL) != FAT_OK)
    return false;
  if (!row.found) {
    if (fat_pick_answer(c->loader.db, &q, &c->rows, pick, NULL) != FAT_OK || pick->step >= FAT_PICK_DEFAULT)
      return false;
    row = pick->row[pick->step];
  }
  fat_candidate_stand_in(&row, c->ask.problem, c->out->main.config, &room);
  c->out->row = row;
  return true;
}

/* The default of a shape beside the main anchor's. Where it is not to be had, that is said and no error. */
static fat_status add_untuned(fat_choosing *c, const fat_problem *p, fat_anchor_beside which, bool foretold,
                              fat_pick *pick, fat_family *family, fat_error *err)
{
  static const char *const what[] = {[FAT_ANCHOR_ONE_ROW] = "one row of Q",
                                     [FAT_ANCHOR_FEW_ROWS] = "a few rows",
                                     [FAT_ANCHOR_FEW_HEADS] = "few heads"};
  fat_error why = {0};
  if (family->shapes == FAT_FAMILY_SHAPES || family->codes + 2 > FAT_FAMILY_CODES)
    return FAT_OK;
  fat_choosing_turn(c, p);
  c->brief = true;
  fat_status status = fat_choosing_kernel(c, pick, &why);
  c->brief = false;
  if (status == FAT_OK) {
    if (foretold && !foretell(c, pick)) /* then it would seem to take no time */
      return FAT_OK;
    FAT_TRY(take_twin(c, family, err));
    return add(c, pick, family, err);
  }
  if (status == FAT_E_NOMEM || fat_cuda_error_is_fatal(status))
    return fat_status_fail(err, status, "%s", why.text);
  fat_text_format(c->why, "left out: %s: %s\n", what[which], why.text);
  return FAT_OK;
}

/* Nothing is stored: the default of the main anchor, and that of one row of Q where it is to be had; where
 * the plain family tells which is the better for a call, that of few heads, too. */
static fat_status choose_untuned(fat_choosing *c, fat_shapes *s, fat_pick *pick, fat_family *family,
                                 fat_error *err)
{
  fat_problem *decode = &s->list[0].problem, *few = &s->list[1].problem, plain;
  const fat_gpu *gpu = &c->out->gpu;
  const bool decodes = fat_anchor_default(&s->main, FAT_ANCHOR_ONE_ROW, gpu, decode) && !c->ask.kernel;
  fat_choosing_turn(c, &s->main);
  c->loader.foresees = s;
  c->loader.foresee = decodes && !fat_feature_plain(&s->main, &plain) ? note_defaults : NULL;
  fat_status status = fat_choosing_kernel(c, pick, err);
  c->loader.foresee = NULL;
  if (status == FAT_OK)
    status = fat_take_twin(c, err);
  const bool foretold = status == FAT_OK && !c->ask.kernel && foretell(c, pick);
  if (status == FAT_OK)
    status = add(c, pick, family, err);
  if (status == FAT_OK && decodes)
    status = add_untuned(c, decode, FAT_ANCHOR_ONE_ROW, foretold, pick, family, err);
  if (status == FAT_OK && foretold && fat_anchor_default(&s->main, FAT_ANCHOR_FEW_HEADS, gpu, few))
    status = add_untuned(c, few, FAT_ANCHOR_FEW_HEADS, foretold, pick, family, err);
  return status;
}

fat_status fat_choose_far(fat_choosing *c, fat_shapes *s, bool later, fat_pick *pick, fat_family *family,
                          fat_error *err)
{
  for (int i = 0; i < FAT_ANCHOR_BESIDES && c->loader.may_compile && c->loader.db && !c->ask.kernel; i++) {
    fat_problem *p = &s->far[i];
    if (!fat_anchor_default(&s->main, (fat_anchor_beside)i, &c->out->gpu, p))
      continue;
    fat_choosing_turn(c, p);
    const fat_pick_question q = fat_take_question(c);
    FAT_TRY(fat_pick_answer(c->loader.db, &q, &c->rows, pick, err));
    if (pick->far && later)
      family->far_unbuilt = true;
    else if (pick->far)
      FAT_TRY(add_untuned(c, p, (fat_anchor_beside)i, true, pick, family, err));
  }
  return FAT_OK;
}

static fat_status choose_family(fat_choosing *c, fat_shapes *s, fat_pick *pick, fat_family *family,
                                fat_error *err)
{
  int taken = 0;
  if (c->ask.before)
    FAT_TRY(fat_built_begin(c, family, err));
  FAT_TRY(fat_choosing_open_db(c, err));
  FAT_TRY(demand_anchor(c, s, pick, err));
  FAT_TRY(fat_shapes_list(c, s, err));
  FAT_TRY(choose_shapes(c, s, pick, family, &taken, err));
  if (taken > 0 && family->usuals == 0)
    FAT_TRY(fat_choose_far(c, s, c->ask.later, pick, family, err));
  if (taken > 0)
    FAT_TRY(fat_built_for_call(c, s, pick, family, &taken, err));
  if (taken > 0)
    return FAT_OK;
  family->far_unbuilt = false;
  return choose_untuned(c, s, pick, family, err);
}

fat_status fat_choose_family(const fat_ask *ask, fat_choice *choice, fat_family *family, fat_error *err)
{
  fat_choosing c;
  fat_choosing_begin(&c, ask, choice);
  fat_pick *pick = calloc(1, sizeof *pick);
  fat_shapes *s = calloc(1, sizeof *s);
  fat_status status = FAT_E_NOMEM;
  if (pick && s) {
    *s = (fat_shapes){.main = fat_anchor_main(ask->problem, &choice->gpu)};
    status = choose_family(&c, s, pick, family, err);
  } else
    fat_status_fail(err, status, "out of memory for a family's shapes");
  c.ask.problem = c.loader.problem = ask->problem; /* those of `s` go */
  status = fat_choosing_end(&c, status, err);
  free(pick);
  free(s);
  return status;
}
