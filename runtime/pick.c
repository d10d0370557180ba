/* pick.c -- the runtime's choice on one page.
 *
 * In: a problem, a device, what is in use now, the winner rows of the family. Out: one row per step of the
 * order, and the first step that has one. One pass over the winners serves all steps; only where a row of
 * another kernel promises more is the database asked again, whether that kernel was tried. Rows of another
 * architecture never serve: their cubins cannot be loaded. */
#include "pick.h"
#include "feature.h"
#include "grow.h"
#include "insert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER PICK */
static const char *const step_names[FAT_PICK_STEPS] = {"exact",     "nearest", "arch",
                                                       "predicted", "default", "unsupported"};

const char *fat_pick_step_name(fat_pick_step step)
{
  return step_names[step];
}

enum { KERNELS = 8 /* that may be picked unasked; more are not weighed against each other */ };
static const double doubled = 2.5; /* the distance between N and 2 N: rows of Q 1, k 1, q a half */
/* What was measured for the very problem yields to a promise of so many times its speed, as promises are off
 * by a fifth: one of 2 % less than 0.546 ms, at d 192, came to 0.59 (H200s). */
static const double sure_promise = 1.25;

/* The pass over the rows. */
typedef struct pass {
  const fat_pick_question *question;
  fat_room room;
  fat_asked asked;
  char problem[FAT_PROBLEM_TEXT];
  fat_pick *pick;
  bool some, near_some;        /* there are rows; some of them near */
  fat_candidate near[KERNELS]; /* the best row of each kernel on this device, not the exact one */
} pass;

static void say(fat_pick *pick, int step, const char *why)
{
  snprintf(pick->why[step], sizeof pick->why[step], "%s", why);
}

/* The step that a row belongs to. */
static fat_pick_step step_of(const pass *p, const fat_candidate *row)
{
  if (row->origin == FAT_PREDICTED)
    return FAT_PICK_PREDICTED;
  if (!row->same_device)
    return FAT_PICK_ARCH;
  return !row->lent && strcmp(row->problem, p->problem) == 0 ? FAT_PICK_EXACT : FAT_PICK_NEAREST;
}

static bool is_refused(const fat_pick_question *q, const char *source_hash)
{
  for (int i = 0; i < q->refused_count; i++)
    if (source_hash && strcmp(q->refused[i], source_hash) == 0)
      return true;
  return false;
}

static bool is_before(const pass *p, const fat_candidate *a, const fat_candidate *b)
{
  return fat_candidate_before(a, b, &p->asked, p->question->gpu->sms);
}

static void note_near(pass *p, const fat_candidate *row)
{
  for (int i = 0; i < KERNELS; i++) {
    fat_candidate *near = &p->near[i];
    if (near->found && strcmp(near->kernel, row->kernel) != 0)
      continue;
    if (is_before(p, row, near))
      *near = *row;
    return;
  }
}

/* Whether losers count too, since not every kernel, or not every row, may win. */
static bool takes_losers(const fat_pick_question *q)
{
  return q->kernel || q->unfit_count > 0 || q->hidden;
}

static bool is_unfit(const fat_pick_question *q, const fat_candidate *row)
{
  for (int i = 0; i < q->unfit_count; i++)
    if (strcmp(q->unfit[i], row->kernel) == 0)
      return true;
  return !q->kernel && !row->eligible;
}

static void note_twin(pass *p, const fat_candidate *row, fat_pick_step step)
{
  fat_pick_twin *twin = &p->pick->twin;
  if (!twin->row.found || step < twin->step || (step == twin->step && is_before(p, row, &twin->row)))
    *twin = (fat_pick_twin){*row, step};
}

static bool is_out(const pass *p, const fat_candidate *row)
{
  return (p->question->alone && row->lent) || is_refused(p->question, row->source_hash) ||
         is_unfit(p->question, row);
}

/* Whether what was measured of a row's problem says more than the row does: here, if the row is another
 * device's; on the row's own device in the type that is asked for, if it is lent by the other and does not
 * lead by much. */
static bool is_told_better(const pass *p, const fat_candidate *row)
{
  for (int i = 0; i < p->pick->weighed->count; i++) {
    const fat_candidate *other = &p->pick->weighed->row[i];
    const bool better = (!row->same_device && other->same_device) ||
                        (row->lent && !other->lent && strcmp(other->facts, row->facts) == 0 &&
                         !fat_candidate_leads(row, other));
    if (better && other->origin == FAT_MEASURED && !other->twin && !is_out(p, other) &&
        fat_candidate_same(&other->shape, &row->shape))
      return true;
  }
  return false;
}

static void weigh(pass *p, fat_candidate *row)
{
  row->score = NAN; /* until it is weighed */
  if (is_out(p, row))
    return;
  const fat_pick_step step = step_of(p, row);
  if ((step == FAT_PICK_ARCH || row->lent) && is_told_better(p, row))
    return;
  fat_candidate_weigh(row, &p->asked);
  if (row->twin && takes_losers(p->question)) { /* of winners it is the better one for any tensors */
    note_twin(p, row, step);
    row->score = NAN;
    return;
  }
  p->some = true;
  p->near_some = p->near_some || fat_candidate_near(&row->at, &p->asked.at);
  if (is_before(p, row, &p->pick->row[step]))
    p->pick->row[step] = *row;
  if (step == FAT_PICK_NEAREST)
    note_near(p, row);
}

/* ORDER PICK: what a step without a row says. */
static const char *const nothing[FAT_PICK_DEFAULT] = {
    "no measurement of this problem on this device",
    "no measurement of the family on this device",
    "no measurement of the family on another device of this architecture",
    "no prediction of the family for this architecture",
};

/* -- the rows */

typedef struct reading {
  const fat_pick_question *question;
  fat_pick_list *list;
  bool lent; /* rows of another type or width: those that were measured, but for twins */
  bool full; /* no memory for another */
} reading;

static bool keep(const fat_trial *t, void *user)
{
  reading *r = user;
  fat_pick_list *list = r->list;
  const fat_pick_question *q = r->question;
  const fat_candidate_scale scale = {q->gpu, q->driver, q->compile_key, q->templates, q->now};
  if (t->outcome != FAT_OUT_OK || !isfinite(t->ms) || !(t->ms > 0) || t->gpu.sm != q->gpu->sm ||
      (r->lent && t->origin != FAT_MEASURED))
    return true;
  fat_candidate *more = fat_grow(list->row, list->count, sizeof *more);
  r->full = !more;
  if (r->full)
    return false;
  list->row = more;
  fat_candidate *row = &list->row[list->count];
  fat_candidate_read(t, &scale, row);
  if (r->lent)
    fat_candidate_lend(row, q->problem);
  list->count += !(row->lent && row->twin);
  return true;
}

static void free_list(fat_pick_list *list)
{
  free(list->row);
  *list = (fat_pick_list){0};
}

void fat_pick_rows_free(fat_pick_rows *rows)
{
  free_list(&rows->winners);
  free_list(&rows->all);
}

/* The winners of a family, or all its trials, as rows behind those that are there. */
static fat_status read_family(fat_db *db, const fat_problem *p, reading *r, fat_error *err)
{
  const bool losers = takes_losers(r->question);
  const int before = r->list->count;
  char family[FAT_PROBLEM_TEXT];
  const fat_db_filter filter = {.family = fat_problem_family(p, family),
                                .kernel = r->question->kernel,
                                .outcome_plus_1 = 1 + FAT_OUT_OK};
  fat_status status = losers ? fat_db_trials(db, &filter, keep, r, err) : fat_db_winners(db, p, keep, r, err);
  if (r->full)
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for the rows of %s", family);
  if (status == FAT_OK && !losers && r->list->count > before) /* losers may be thousands */
    fat_candidate_level(&r->list->row[before], r->list->count - before);
  return status;
}

fat_status fat_pick_read(fat_db *db, const fat_pick_question *question, fat_pick_rows *rows,
                         fat_pick_list **list, fat_error *err)
{
  const fat_pick_question *q = question;
  fat_problem kin[FAT_PROBLEM_KIN];
  *list = takes_losers(q) ? &rows->all : &rows->winners;
  reading r = {.question = q, .list = *list};
  if (r.list->read)
    return FAT_OK;
  fat_status status = FAT_OK;
  const int count = fat_problem_kin(q->problem, kin);
  for (int i = 0; i < count && status == FAT_OK; i++) {
    r.lent = i > 0;
    status = read_family(db, &kin[i], &r, err);
  }
  if (status != FAT_OK)
    free_list(r.list);
  r.list->read = status == FAT_OK;
  return status;
}

int fat_pick_list_weighed(const fat_pick *pick, const fat_candidate *row[FAT_PICK_LISTED])
{
  const fat_pick_list *list = pick->weighed;
  const fat_candidate *chosen = &pick->row[pick->step];
  int count = 0;
  if (!list || pick->step == FAT_PICK_EXACT || pick->step >= FAT_PICK_DEFAULT)
    return 0;
  for (int i = 0; i < list->count; i++) {
    const fat_candidate *c = &list->row[i];
    if (isnan(c->score) || c->origin != chosen->origin)
      continue;
    int at = count;
    while (at > 0 && row[at - 1]->score > c->score)
      at--;
    if (fat_insert_room(row, sizeof row[0], &count, FAT_PICK_LISTED, at))
      row[at] = c;
  }
  return count;
}

/* -- kernels against each other */

static bool see_one(const fat_trial *t, void *user)
{
  *(bool *)user = t != NULL;
  return false;
}

/* Whether a kernel was measured, or failed, where a row was measured. */
static fat_status was_tried(fat_db *db, const char *kernel, const fat_candidate *where, bool *tried,
                            fat_error *err)
{
  const fat_db_filter filter = {
      .problem = where->timed, .gpu = where->facts, .kernel = kernel, .origin_plus_1 = 1 + FAT_MEASURED};
  *tried = false;
  fat_status status = fat_db_trials(db, &filter, see_one, tried, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* The best row of another kernel that the chosen one has not beaten and that promises less than `least`
 * there, at its problem; NULL: none. */
static fat_status find_rival(fat_db *db, const pass *p, const fat_candidate *chosen, const fat_asked *there,
                             double least, const fat_candidate **rival, fat_error *err)
{
  *rival = NULL;
  for (int i = 0; i < KERNELS && p->near[i].found; i++) {
    const fat_candidate *row = &p->near[i];
    const double ms = fat_candidate_expected(row, there);
    bool tried = strcmp(row->kernel, chosen->kernel) == 0;
    if (tried || fat_candidate_apart(&row->at, &chosen->at) > doubled || !(ms > 0 && ms < least))
      continue;
    FAT_TRY(was_tried(db, row->kernel, chosen, &tried, err));
    if (tried)
      continue;
    least = ms;
    *rival = row;
  }
  return FAT_OK;
}

/* Lets the row of a step yield to a rival, which is then the nearest. */
static fat_status weigh_kernels(fat_db *db, const pass *p, fat_pick_step step, fat_error *err)
{
  const fat_pick_question *q = p->question;
  fat_pick *pick = p->pick;
  const fat_candidate chosen = pick->row[step], *rival = NULL;
  char *why = pick->why[FAT_PICK_NEAREST];
  if (q->kernel || step > FAT_PICK_NEAREST || (q->exact && step == FAT_PICK_EXACT))
    return FAT_OK;
  const fat_asked there = fat_candidate_asked(&chosen.shape, &p->room);
  const double least = chosen.ms / (step == FAT_PICK_EXACT ? sure_promise : 1);
  FAT_TRY(find_rival(db, p, &chosen, &there, least, &rival, err));
  if (!rival)
    return FAT_OK;
  pick->step = FAT_PICK_NEAREST;
  pick->row[FAT_PICK_NEAREST] = *rival;
  fat_candidate_explain(rival, why, sizeof pick->why[0]);
  size_t n = strlen(why);
  snprintf(why + n, sizeof pick->why[0] - n,
           "; promises %.4g ms for %s, where %s was never tried and %s takes %.4g ms",
           fat_candidate_expected(rival, &there), chosen.problem, rival->kernel, chosen.config, chosen.ms);
  return FAT_OK;
}

/* Whether a step's row yields. The exact one does to what the other type of 16 bits took much less by: 16
 * rows on 8,192 keys, d 256, had 105 us in f16, where few configs had been tried, and 27 in bf16 (H200). The
 * nearest one does to another device's row that promises more, stretched as it is (runtime/candidate.c): what
 * was measured here once, far from what is asked, does not hide a neighbour's measurement of nearly that. */
static bool yields(const fat_pick_question *q, const fat_pick *pick, int step)
{
  const fat_candidate *row = &pick->row[step], *near = &pick->row[FAT_PICK_NEAREST],
                      *elsewhere = &pick->row[FAT_PICK_ARCH];
  if (step == FAT_PICK_EXACT)
    return !q->exact && near->found && near->lent && fat_candidate_same(&near->shape, &row->shape) &&
           fat_candidate_leads(near, row);
  return step == FAT_PICK_NEAREST && elsewhere->found && elsewhere->score < row->score;
}

fat_status fat_pick_answer(fat_db *db, const fat_pick_question *question, fat_pick_rows *rows, fat_pick *pick,
                           fat_error *err)
{
  const fat_pick_question *q = question;
  pass p = {.question = q, .room = fat_reach_room(q->gpu), .pick = pick};
  p.asked = fat_candidate_asked(q->problem, &p.room);
  fat_pick_list none = {0}, *list = &none;
  *pick = (fat_pick){0};
  fat_problem_print(q->problem, p.problem);
  if (q->unserved) {
    pick->step = FAT_PICK_UNSUPPORTED;
    say(pick, FAT_PICK_UNSUPPORTED, q->unserved);
    return FAT_OK;
  }
  if (db)
    FAT_TRY(fat_pick_read(db, q, rows, &list, err));
  pick->weighed = db ? list : NULL;
  for (int i = 0; i < list->count; i++)
    weigh(&p, &list->row[i]);
  pick->far = q->near && p.some && !p.near_some;
  for (int step = 0; step < FAT_PICK_DEFAULT; step++) {
    const fat_candidate *row = &pick->row[step];
    say(pick, step, db ? nothing[step] : "there is no database");
    if (row->found)
      fat_candidate_explain(row, pick->why[step], sizeof pick->why[step]);
    const bool behind = row->found && yields(q, pick, step);
    if (behind && step == FAT_PICK_EXACT)
      strncat(pick->why[step], "; the other type's took less",
              sizeof pick->why[0] - 1 - strlen(pick->why[step]));
    if (row->found && !pick->far && !behind) {
      pick->step = (fat_pick_step)step;
      return weigh_kernels(db, &p, pick->step, err);
    }
  }
  pick->step = FAT_PICK_DEFAULT;
  say(pick, FAT_PICK_DEFAULT,
      pick->far ? "what is stored lies too far off: the kernel's default config"
      : pick->twin.row.found
          ? "only a twin for tensors that are not aligned is stored: the kernel's default config"
          : "nothing stored serves it: the kernel's default config");
  return FAT_OK;
}

fat_status fat_pick_plain(fat_db *db, const fat_pick_question *question, fat_pick_rows *rows,
                          fat_problem *plain, fat_candidate *row, fat_error *err)
{
  fat_pick_question q = *question;
  row->found = false;
  q.problem = plain, q.refused_count = 0, q.hidden = false;
  if (!db || !fat_feature_plain(question->problem, plain))
    return FAT_OK;
  fat_pick *pick = malloc(sizeof *pick);
  if (!pick)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the steps of a pick");
  const fat_status status = fat_pick_answer(db, &q, rows, pick, err);
  if (status == FAT_OK && pick->step <= FAT_PICK_NEAREST)
    *row = pick->row[pick->step];
  free(pick);
  return status;
}
