/* pick.c -- the runtime's choice on one page.
 *
 * In: a problem, a device, what is in use now, the winner rows of the family. Out: one row per step of the
 * order, and the first step that has one. One pass over the winners serves all steps; only where a row of
 * another kernel promises more is the database asked again, whether that kernel was tried. Rows of another
 * architecture never serve: their cubins cannot be loaded. */
#include "pick.h"
#include "width.h"

#include <math.h>
#include <stdio.h>
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

/* The pass over the rows. */
typedef struct pass {
  const fat_pick_question *question;
  fat_candidate_scale scale;
  char problem[FAT_PROBLEM_TEXT];
  fat_pick *pick;
  fat_candidate near[KERNELS]; /* the nearest row of each kernel on this device, not the exact one */
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
  return strcmp(row->problem, p->problem) == 0 ? FAT_PICK_EXACT : FAT_PICK_NEAREST;
}

static bool is_refused(const fat_pick_question *q, const char *source_hash)
{
  for (int i = 0; i < q->refused_count; i++)
    if (source_hash && strcmp(q->refused[i], source_hash) == 0)
      return true;
  return false;
}

static void note_near(pass *p, const fat_candidate *row)
{
  for (int i = 0; i < KERNELS; i++) {
    fat_candidate *near = &p->near[i];
    if (near->found && strcmp(near->kernel, row->kernel) != 0)
      continue;
    if (fat_candidate_before(row, near, &p->scale))
      *near = *row;
    return;
  }
}

/* Whether losers count too, since not every kernel may win. */
static bool takes_losers(const fat_pick_question *q)
{
  return q->kernel || q->unfit_count > 0;
}

static bool is_unfit(const fat_pick_question *q, const fat_trial *t)
{
  for (int i = 0; i < q->unfit_count; i++)
    if (strcmp(q->unfit[i], t->config.kernel) == 0)
      return true;
  return !q->kernel && !t->eligible;
}

/* Timed where it stands in for another config; of winners it is the better one for any tensors. */
static bool is_twin(const pass *p, const fat_trial *t)
{
  return takes_losers(p->question) && fat_width_get(&t->config) == 1 &&
         strncmp(t->detail, FAT_WIDTH_TWIN, strlen(FAT_WIDTH_TWIN)) == 0;
}

static void note_twin(pass *p, const fat_candidate *row, fat_pick_step step)
{
  fat_pick_twin *twin = &p->pick->twin;
  if (!twin->row.found || step < twin->step ||
      (step == twin->step && fat_candidate_before(row, &twin->row, &p->scale)))
    *twin = (fat_pick_twin){*row, step};
}

static bool weigh(const fat_trial *t, void *user)
{
  pass *p = user;
  fat_candidate row;
  bool usable = t->outcome == FAT_OUT_OK && isfinite(t->ms) && t->ms > 0 &&
                !is_refused(p->question, t->source_hash) && !is_unfit(p->question, t);
  if (!usable || t->gpu.sm != p->question->gpu->sm)
    return true;
  fat_candidate_read(t, &p->scale, &row);
  fat_pick_step step = step_of(p, &row);
  if (is_twin(p, t)) {
    note_twin(p, &row, step);
    return true;
  }
  if (fat_candidate_before(&row, &p->pick->row[step], &p->scale))
    p->pick->row[step] = row;
  if (step == FAT_PICK_NEAREST)
    note_near(p, &row);
  return true;
}

/* ORDER PICK: what a step without a row says. */
static const char *const nothing[FAT_PICK_DEFAULT] = {
    "no measurement of this problem on this device",
    "no measurement of the family on this device",
    "no measurement of the family on another device of this architecture",
    "no prediction of the family for this architecture",
};

fat_status fat_pick_rows(fat_db *db, const fat_problem *p, const char *kernel, bool losers,
                         fat_db_trial_fn fn, void *user, fat_error *err)
{
  char family[FAT_PROBLEM_TEXT];
  const fat_db_filter filter = {
      .family = fat_problem_family(p, family), .kernel = kernel, .outcome_plus_1 = 1 + FAT_OUT_OK};
  fat_status status =
      losers ? fat_db_trials(db, &filter, fn, user, err) : fat_db_winners(db, p, fn, user, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

static bool see_one(const fat_trial *t, void *user)
{
  bool *seen = user;
  (void)t;
  *seen = true;
  return false;
}

/* Whether a kernel was measured, or failed, where a row was measured. */
static fat_status was_tried(fat_db *db, const char *kernel, const fat_candidate *where, bool *tried,
                            fat_error *err)
{
  const fat_db_filter filter = {
      .problem = where->problem, .gpu = where->facts, .kernel = kernel, .origin_plus_1 = 1 + FAT_MEASURED};
  *tried = false;
  fat_status status = fat_db_trials(db, &filter, see_one, tried, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* The nearest row of another kernel that the chosen one has not beaten and that promises most; NULL: none. */
static fat_status find_rival(fat_db *db, const pass *p, const fat_candidate *chosen,
                             const fat_candidate **rival, fat_error *err)
{
  double least = chosen->ms;
  *rival = NULL;
  for (int i = 0; i < KERNELS && p->near[i].found; i++) {
    const fat_candidate *row = &p->near[i];
    double ms = fat_candidate_promise(row->ms, &row->shape, &chosen->shape);
    bool tried = strcmp(row->kernel, chosen->kernel) == 0;
    if (tried || fat_candidate_distance(&row->shape, &chosen->shape) > doubled || !(ms > 0 && ms < least))
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
  FAT_TRY(find_rival(db, p, &chosen, &rival, err));
  if (!rival)
    return FAT_OK;
  pick->step = FAT_PICK_NEAREST;
  pick->row[FAT_PICK_NEAREST] = *rival;
  fat_candidate_explain(rival, why, sizeof pick->why[0]);
  size_t n = strlen(why);
  snprintf(why + n, sizeof pick->why[0] - n,
           "; promises %.4g ms for %s, where %s was never tried and %s takes %.4g ms",
           fat_candidate_promise(rival->ms, &rival->shape, &chosen.shape), chosen.problem, rival->kernel,
           chosen.config, chosen.ms);
  return FAT_OK;
}

fat_status fat_pick_answer(fat_db *db, const fat_pick_question *question, fat_pick *pick, fat_error *err)
{
  const fat_pick_question *q = question;
  pass p = {.question = q,
            .scale = {q->problem, q->gpu, q->driver, q->compile_key, q->templates, q->now},
            .pick = pick};
  *pick = (fat_pick){0};
  fat_problem_print(q->problem, p.problem);
  if (q->unserved) {
    pick->step = FAT_PICK_UNSUPPORTED;
    say(pick, FAT_PICK_UNSUPPORTED, q->unserved);
    return FAT_OK;
  }
  if (db)
    FAT_TRY(fat_pick_rows(db, q->problem, q->kernel, takes_losers(q), weigh, &p, err));
  for (int step = 0; step < FAT_PICK_DEFAULT; step++) {
    if (pick->row[step].found) {
      fat_candidate_explain(&pick->row[step], pick->why[step], sizeof pick->why[step]);
      pick->step = (fat_pick_step)step;
      return weigh_kernels(db, &p, pick->step, err);
    }
    say(pick, step, db ? nothing[step] : "there is no database");
  }
  pick->step = FAT_PICK_DEFAULT;
  say(pick, FAT_PICK_DEFAULT,
      pick->twin.row.found
          ? "only a twin for tensors that are not aligned is stored: the kernel's default config"
          : "nothing stored serves it: the kernel's default config");
  return FAT_OK;
}
