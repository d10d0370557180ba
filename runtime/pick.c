/* pick.c -- the runtime's choice on one page.
 *
 * In: a problem, a device, what is in use now, the winner rows of the family. Out: one row per step of the
 * order, and the first step that has one. One pass over the winners serves all steps. Rows of another
 * architecture never serve: their cubins cannot be loaded. */
#include "pick.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ORDER PICK */
static const char *const step_names[FAT_PICK_STEPS] = {"exact",     "nearest", "arch",
                                                       "predicted", "default", "unsupported"};

const char *fat_pick_step_name(fat_pick_step step)
{
  return step_names[step];
}

static double doublings(double a, double b)
{
  return fabs(log2(fmax(a, 1)) - log2(fmax(b, 1)));
}

/* Rows of Q of all heads; more than 512 tiles of 128 keep any GPU of today busy, and differ no further. */
static double rows_of(const fat_problem *p)
{
  const double plenty = 512 * 128;
  return fmin((double)p->b * (double)p->h * (double)p->q, plenty);
}

double fat_pick_distance(const fat_problem *a, const fat_problem *b)
{
  double group_a = (double)a->h / (double)(a->hk > 0 ? a->hk : 1);
  double group_b = (double)b->h / (double)(b->hk > 0 ? b->hk : 1);
  return doublings(rows_of(a), rows_of(b)) + doublings((double)a->k, (double)b->k) +
         0.5 * doublings((double)a->q, (double)b->q) + 0.5 * doublings(group_a, group_b);
}

/* The pass over the rows. */
typedef struct pass {
  const fat_pick_question *question;
  char facts[FAT_GPU_FACTS], problem[FAT_PROBLEM_TEXT];
  fat_pick *pick;
} pass;

static void keep(char *to, size_t room, const char *from)
{
  snprintf(to, room, "%s", from ? from : "");
}

static double age_days(const char *date, int64_t now)
{
  struct tm t = {0};
  int year, month;
  if (!date ||
      sscanf(date, "%d-%d-%d%*c%d:%d:%d", &year, &month, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec) != 6)
    return NAN;
  t.tm_year = year - 1900;
  t.tm_mon = month - 1;
  return (double)(now - (int64_t)timegm(&t)) / (24 * 3600);
}

static void add_difference(fat_pick_row *row, const char *what, const char *then, const char *now)
{
  size_t n = strlen(row->differences);
  then = then ? then : "";
  if (!now || strcmp(then, now) == 0)
    return;
  snprintf(row->differences + n, sizeof row->differences - n, "%s%s '%.60s', now '%.60s'", n ? "; " : "",
           what, then, now);
}

static void fill(const pass *p, const fat_trial *t, fat_pick_row *row)
{
  const fat_pick_question *q = p->question;
  char text[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT], facts[FAT_GPU_FACTS];
  *row = (fat_pick_row){.found = true, .origin = t->origin, .ms = t->ms, .sms = t->gpu.sms};
  keep(row->problem, sizeof row->problem, fat_problem_print(&t->problem, text));
  keep(row->gpu, sizeof row->gpu, t->gpu.name);
  keep(row->facts, sizeof row->facts, fat_gpu_facts(&t->gpu, facts));
  keep(row->config, sizeof row->config, fat_config_print(&t->config, config));
  keep(row->source_hash, sizeof row->source_hash, t->source_hash);
  keep(row->date, sizeof row->date, t->date);
  row->same_device = strcmp(row->facts, p->facts) == 0;
  row->distance = fat_pick_distance(q->problem, &t->problem);
  row->age_days = age_days(t->date, q->now);
  if (t->origin == FAT_MEASURED)
    add_difference(row, "driver", t->driver, q->driver);
  add_difference(row, "compiled by", t->compile_key, q->compile_key);
  if (q->templates && t->templates && strcmp(t->templates, q->templates) != 0) {
    size_t n = strlen(row->differences);
    snprintf(row->differences + n, sizeof row->differences - n, "%stemplates have changed since",
             n ? "; " : "");
  }
}

/* The step that a row belongs to. */
static fat_pick_step step_of(const pass *p, const fat_pick_row *row)
{
  if (row->origin == FAT_PREDICTED)
    return FAT_PICK_PREDICTED;
  if (!row->same_device)
    return FAT_PICK_ARCH;
  return strcmp(row->problem, p->problem) == 0 ? FAT_PICK_EXACT : FAT_PICK_NEAREST;
}

/* Whether a comes before b within one step: this device, then the nearest shape, then the nearest SM count,
 * then the faster row (several configs of an asked kernel), then the text, so that the answer is always one.
 */
static bool before(const fat_pick_row *a, const fat_pick_row *b, int sms)
{
  if (!b->found || a->same_device != b->same_device)
    return !b->found || a->same_device;
  if (a->distance != b->distance)
    return a->distance < b->distance;
  int far_a = a->sms > sms ? a->sms - sms : sms - a->sms;
  int far_b = b->sms > sms ? b->sms - sms : sms - b->sms;
  if (far_a != far_b)
    return far_a < far_b;
  return a->ms != b->ms ? a->ms < b->ms : strcmp(a->config, b->config) < 0;
}

static bool is_refused(const fat_pick_question *q, const char *source_hash)
{
  for (int i = 0; i < q->refused_count; i++)
    if (source_hash && strcmp(q->refused[i], source_hash) == 0)
      return true;
  return false;
}

static bool weigh(const fat_trial *t, void *user)
{
  pass *p = user;
  fat_pick_row row;
  bool usable =
      t->outcome == FAT_OUT_OK && isfinite(t->ms) && t->ms > 0 && !is_refused(p->question, t->source_hash);
  if (!usable || t->gpu.sm != p->question->gpu->sm)
    return true;
  fill(p, t, &row);
  fat_pick_step step = step_of(p, &row);
  if (before(&row, &p->pick->row[step], p->question->gpu->sms))
    p->pick->row[step] = row;
  return true;
}

static void explain_row(const fat_pick_row *row, char *why, size_t room)
{
  int n = snprintf(why, room, "%s for %s on %s, %s %.4g ms", row->config, row->problem,
                   row->same_device ? "this device" : row->gpu, fat_db_origin_name(row->origin), row->ms);
  if (row->distance > 0 && n > 0 && (size_t)n < room)
    n += snprintf(why + n, room - (size_t)n, "; distance %.2g", row->distance);
  if (!row->same_device && n > 0 && (size_t)n < room)
    n += snprintf(why + n, room - (size_t)n, "; %d SMs there", row->sms);
  if (isfinite(row->age_days) && n > 0 && (size_t)n < room)
    n += row->age_days < 1 ? snprintf(why + n, room - (size_t)n, "; made within a day")
                           : snprintf(why + n, room - (size_t)n, "; %.0f days old", row->age_days);
  if (row->differences[0] && n > 0 && (size_t)n < room)
    snprintf(why + n, room - (size_t)n, "; %s", row->differences);
}

/* ORDER PICK: what a step without a row says. */
static const char *const nothing[FAT_PICK_DEFAULT] = {
    "no measurement of this problem on this device",
    "no measurement of the family on this device",
    "no measurement of the family on another device of this architecture",
    "no prediction of the family for this architecture",
};

static fat_status read_rows(fat_db *db, pass *p, fat_error *err)
{
  char family[FAT_PROBLEM_TEXT];
  const fat_pick_question *q = p->question;
  fat_db_filter filter = {.family = fat_problem_family(q->problem, family), .kernel = q->kernel};
  fat_status status =
      q->kernel ? fat_db_trials(db, &filter, weigh, p, err) : fat_db_winners(db, q->problem, weigh, p, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

fat_status fat_pick_answer(fat_db *db, const fat_pick_question *question, fat_pick *pick, fat_error *err)
{
  pass p = {.question = question, .pick = pick};
  *pick = (fat_pick){0};
  fat_gpu_facts(question->gpu, p.facts);
  fat_problem_print(question->problem, p.problem);
  if (question->unserved) {
    pick->step = FAT_PICK_UNSUPPORTED;
    keep(pick->why[FAT_PICK_UNSUPPORTED], sizeof pick->why[0], question->unserved);
    return FAT_OK;
  }
  if (db)
    FAT_TRY(read_rows(db, &p, err));
  for (int step = 0; step < FAT_PICK_DEFAULT; step++) {
    if (pick->row[step].found) {
      explain_row(&pick->row[step], pick->why[step], sizeof pick->why[step]);
      pick->step = (fat_pick_step)step;
      return FAT_OK;
    }
    keep(pick->why[step], sizeof pick->why[step], db ? nothing[step] : "there is no database");
  }
  pick->step = FAT_PICK_DEFAULT;
  keep(pick->why[FAT_PICK_DEFAULT], sizeof pick->why[0],
       "nothing stored serves it: the kernel's default config");
  return FAT_OK;
}
