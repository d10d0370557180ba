/* candidate.c -- one row of the database against one question.
 *
 * In: a trial, a device, what is in use now. Out: copies of what an answer says of it, where it lies among
 * the problems of its family, and what differs since it was made. */
#include "candidate.h"
#include "width.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Doublings above 1. */
static double doublings(double a)
{
  return log2(a > 1 ? a : 1);
}

/* As far as they tell GPUs apart: more than 512 tiles of 128 keep any GPU of today busy. */
static const double plenty = 512 * 128, log_plenty = 16;

double fat_candidate_rows(const fat_problem *p)
{
  return fmin(fat_reach_rows(p), plenty);
}

/* Keys that a row may see. */
static int64_t keys_of(const fat_problem *p)
{
  int64_t keys = p->k;
  if (fat_problem_has(p, FAT_WINDOW)) {
    const int64_t wide = (int64_t)p->arg[FAT_WINDOW][0] + (int64_t)p->arg[FAT_WINDOW][1] + 1;
    keys = wide < keys ? wide : keys;
  }
  if (fat_problem_has(p, FAT_CHUNK) && (int64_t)p->arg[FAT_CHUNK][0] < keys)
    keys = (int64_t)p->arg[FAT_CHUNK][0];
  return keys;
}

fat_measure fat_candidate_measure(const fat_problem *p)
{
  const double all = doublings(fat_reach_rows(p)); /* a logarithm takes 5 ns, and a call does this */
  const double group = p->h == p->hk ? 0 : doublings((double)p->h / (double)(p->hk > 0 ? p->hk : 1));
  const int64_t keys = keys_of(p);
  const double q = doublings((double)p->q), k = keys == p->q ? q : doublings((double)keys);
  return (fat_measure){fmin(all, log_plenty), k, q, group, all};
}

double fat_candidate_apart(const fat_measure *a, const fat_measure *b)
{
  return fabs(a->rows - b->rows) + fabs(a->keys - b->keys) + 0.5 * fabs(a->q - b->q) +
         0.5 * fabs(a->group - b->group);
}

bool fat_candidate_near(const fat_measure *a, const fat_measure *b)
{
  return fat_candidate_apart(a, b) <= 8 && fabs(a->rows - b->rows) < 3;
}

fat_asked fat_candidate_asked(const fat_problem *p, const fat_room *room)
{
  return (fat_asked){p, fat_candidate_measure(p), fat_reach_of(p, room)};
}

bool fat_candidate_same(const fat_problem *a, const fat_problem *b)
{
  return a->b == b->b && a->h == b->h && a->hk == b->hk && a->q == b->q && a->k == b->k &&
         memcmp(a->arg, b->arg, sizeof a->arg) == 0;
}

double fat_candidate_distance(const fat_problem *a, const fat_problem *b)
{
  const fat_measure x = fat_candidate_measure(a), y = fat_candidate_measure(b);
  return fat_candidate_apart(&x, &y);
}

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

static void add_difference(fat_candidate *row, const char *what, const char *then, const char *now)
{
  size_t n = strlen(row->differences);
  then = then ? then : "";
  if (!now || strcmp(then, now) == 0)
    return;
  snprintf(row->differences + n, sizeof row->differences - n, "%s%s '%.60s', now '%.60s'", n ? "; " : "",
           what, then, now);
}

/* Of data sheets. */
static double clocks_of(const fat_gpu *from, const fat_gpu *to)
{
  return from->clock > 0 && to->clock > 0 ? (double)from->clock / to->clock : 1;
}

/* By how much a time of another GPU is stretched: as its clock is faster, and a little for what else differs,
 * so that of rows that promise the same this device's comes first, then that of the GPU with as many SMs. On
 * an H100 whose 42 shapes were held out in turn, its own rows alone lost 4.3 % to the best that was timed
 * there, 92 % at worst; with an H200's beside them, stretched by 1 to 5 %, 1.2 and 12 %. */
static double stretched(const fat_gpu *from, const fat_gpu *to)
{
  const double sms = from->sms > 0 && to->sms > 0 ? (double)from->sms / to->sms : 1;
  return clocks_of(from, to) * (1.03 + 0.1 * fabs(log2(sms)));
}

void fat_candidate_read(const fat_trial *t, const fat_candidate_scale *scale, fat_candidate *row)
{
  char text[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT], facts[FAT_GPU_FACTS];
  *row = (fat_candidate){.found = true,
                         .shape = t->problem,
                         .origin = t->origin,
                         .ms = t->ms,
                         .mean = t->mean,
                         .sms = t->gpu.sms};
  row->at = fat_candidate_measure(&t->problem);
  const fat_room room = fat_reach_room(&t->gpu);
  const fat_reach reach = fat_reach_of(&t->problem, &room);
  row->waves = fat_waves_of(&t->config, t->problem.op, t->blocks_per_sm);
  row->pace = fat_waves_pace(&row->waves, &reach, t->ms, fat_waves_work(&row->waves, &reach));
  row->eligible = t->eligible;
  /* One that came to a race is weighed for itself. */
  row->twin = fat_width_get(&t->config) == 1 && *t->twin_of && !*t->race;
  keep(row->problem, sizeof row->problem, fat_problem_print(&t->problem, text));
  keep(row->timed, sizeof row->timed, text);
  keep(row->gpu, sizeof row->gpu, t->gpu.name);
  keep(row->facts, sizeof row->facts, fat_gpu_facts(&t->gpu, facts));
  keep(row->config, sizeof row->config, fat_config_print(&t->config, config));
  keep(row->kernel, sizeof row->kernel, t->config.kernel);
  keep(row->source_hash, sizeof row->source_hash, t->source_hash);
  keep(row->date, sizeof row->date, t->date);
  row->same_device = strcmp(row->facts, fat_gpu_facts(scale->gpu, facts)) == 0;
  row->clocks = clocks_of(&t->gpu, scale->gpu);
  row->pace.rate *= row->same_device ? 1 : stretched(&t->gpu, scale->gpu);
  row->age_days = age_days(t->date, scale->now);
  if (t->origin == FAT_MEASURED)
    add_difference(row, "driver", t->driver, scale->driver);
  add_difference(row, "compiled by", t->compile_key, scale->compile_key);
  if (scale->templates && t->templates && strcmp(t->templates, scale->templates) != 0) {
    size_t n = strlen(row->differences);
    snprintf(row->differences + n, sizeof row->differences - n, "%stemplates have changed since",
             n ? "; " : "");
  }
}

static const double in_other_half = 1.03;

void fat_candidate_lend(fat_candidate *row, const fat_problem *asked)
{
  const bool other_half = row->shape.dtype != asked->dtype;
  char width[16] = "";
  row->wider = row->shape.d != asked->d;
  if (row->wider)
    snprintf(width, sizeof width, " at d %d", (int)row->shape.d);
  snprintf(row->lender, sizeof row->lender, "%s%s", other_half ? " in the other type of 16 bits" : "", width);
  row->lent = true;
  row->shape.dtype = asked->dtype;
  row->shape.d = asked->d;
  row->shape.dv = asked->dv;
  row->pace.rate *= other_half ? in_other_half : 1;
  fat_problem_print(&row->shape, row->problem);
}

/* Of configs that were timed in both types for a problem (H200, 276 in races and 262 in tunes of shapes by
 * lot) 5 % take more than 1.045 times as long in f16 as in bf16, and 5 % less than 0.92 and 0.85 times. */
static const double sure_lead_in_f16 = 1.05, sure_lead = 1.15;

bool fat_candidate_leads(const fat_candidate *lent, const fat_candidate *own)
{
  const double lead = own->shape.dtype == FAT_F16 ? sure_lead_in_f16 : sure_lead;
  return strcmp(lent->config, own->config) != 0 && lead * lent->ms < own->ms;
}

/* The fastest row that was measured for a problem on a device; NULL: none was. */
static const fat_candidate *fastest(const fat_candidate *rows, int count, const fat_problem *p,
                                    const char *facts)
{
  const fat_candidate *least = NULL;
  for (int i = 0; i < count; i++) {
    const bool counts = rows[i].origin == FAT_MEASURED && fat_candidate_same(&rows[i].shape, p) &&
                        strcmp(rows[i].facts, facts) == 0;
    if (counts && (!least || rows[i].ms < least->ms))
      least = &rows[i];
  }
  return least;
}

/* In the mean, how many times as long problems take on one device as on another, where one kernel won on
 * both; 0: there is none. Where a problem had been tried with `fwd` alone on an H100, an H200's `fwd_ws` made
 * all rows of the H100 seem faster by a quarter (d 96, causal), and its configs were picked on H200s.
 */
static double times(const fat_candidate *rows, int count, const char *here, const char *there)
{
  double logs = 0;
  int common = 0;
  for (int i = 0; i < count; i++) {
    if (rows[i].origin != FAT_MEASURED || strcmp(rows[i].facts, there) != 0 ||
        fastest(rows, count, &rows[i].shape, there) != &rows[i])
      continue;
    const fat_candidate *own = fastest(rows, count, &rows[i].shape, here);
    if (own && strcmp(own->kernel, rows[i].kernel) == 0) {
      logs += log(own->ms / rows[i].ms);
      common++;
    }
  }
  return common > 0 ? exp(logs / common) : 0;
}

void fat_candidate_level(fat_candidate *rows, int count)
{
  const char *here = NULL;
  for (int i = 0; i < count && !here; i++)
    here = rows[i].same_device ? rows[i].facts : NULL;
  for (int i = 0; i < count && here; i++) {
    bool is_first = !rows[i].same_device && rows[i].origin == FAT_MEASURED;
    for (int k = 0; k < i && is_first; k++)
      is_first = rows[k].origin != FAT_MEASURED || strcmp(rows[k].facts, rows[i].facts) != 0;
    const double slower = is_first ? times(rows, count, here, rows[i].facts) : 0;
    for (int k = i; k < count && slower > 0; k++)
      if (strcmp(rows[k].facts, rows[i].facts) == 0)
        rows[k].pace.rate *= slower / rows[k].clocks;
  }
}

double fat_candidate_expected(const fat_candidate *row, const fat_asked *asked)
{
  return fat_waves_ms(&row->pace, &asked->reach, fat_waves_work(&row->waves, &asked->reach));
}

void fat_candidate_stand_in(fat_candidate *row, const fat_problem *p, const char *config,
                            const fat_room *room)
{
  const fat_asked asked = fat_candidate_asked(p, room);
  fat_config own;
  row->ms = fat_candidate_expected(row, &asked);
  if (strcmp(row->config, config) != 0 && fat_config_parse(config, &own, NULL) == FAT_OK)
    row->waves = fat_waves_of(&own, p->op, 1);
  row->usual = true;
  row->shape = *p;
  row->at = asked.at;
  row->pace = fat_waves_pace(&row->waves, &asked.reach, row->ms, fat_waves_work(&row->waves, &asked.reach));
}

void fat_candidate_weigh(fat_candidate *row, const fat_asked *asked)
{
  row->distance = fat_candidate_apart(&row->at, &asked->at);
  row->expected = fat_candidate_expected(row, asked);
  row->score = 0;
  if (row->same_device && fat_candidate_same(&row->shape, asked->problem))
    return;
  row->score = fat_candidate_score(&row->waves, &row->pace, &asked->reach, row->expected, row->distance);
}

bool fat_candidate_before(const fat_candidate *a, const fat_candidate *b, const fat_asked *asked, int sms)
{
  if (!b->found)
    return true;
  if (a->score != b->score)
    return a->score < b->score;
  if (a->distance != b->distance)
    return a->distance < b->distance;
  const double rows_a = fabs(a->at.all - asked->at.all), rows_b = fabs(b->at.all - asked->at.all);
  if (rows_a != rows_b)
    return rows_a < rows_b;
  int far_a = a->sms > sms ? a->sms - sms : sms - a->sms;
  int far_b = b->sms > sms ? b->sms - sms : sms - b->sms;
  if (far_a != far_b)
    return far_a < far_b;
  const bool means = strcmp(a->problem, b->problem) == 0 && (a->mean > 0 || b->mean > 0);
  if (means && !(a->mean > 0 && b->mean > 0))
    return a->mean > 0;
  if (means && a->mean != b->mean)
    return a->mean < b->mean;
  return a->ms != b->ms ? a->ms < b->ms : strcmp(a->config, b->config) < 0;
}

void fat_candidate_explain(const fat_candidate *row, char *why, size_t room)
{
  int n = snprintf(why, room, "%s for %s on %s, %s%s %.4g ms", row->config, row->problem,
                   row->same_device ? "this device" : row->gpu, fat_db_origin_name(row->origin), row->lender,
                   row->ms);
  if (row->distance > 0 && n > 0 && (size_t)n < room)
    n += snprintf(why + n, room - (size_t)n, "; distance %.2g", row->distance);
  if (row->score > 0 && n > 0 && (size_t)n < room)
    n += snprintf(why + n, room - (size_t)n, "; expected %.4g ms", row->expected);
  if (!row->same_device && n > 0 && (size_t)n < room)
    n += snprintf(why + n, room - (size_t)n, "; %d SMs there", row->sms);
  if (isfinite(row->age_days) && n > 0 && (size_t)n < room)
    n += row->age_days < 1 ? snprintf(why + n, room - (size_t)n, "; made within a day")
                           : snprintf(why + n, room - (size_t)n, "; %.0f days old", row->age_days);
  if (row->differences[0] && n > 0 && (size_t)n < room)
    snprintf(why + n, room - (size_t)n, "; %s", row->differences);
}

void fat_candidate_tell(const fat_candidate *row, fat_text *out)
{
  fat_text_format(out, "%.4g ms by %s of %s%s%s%s, distance %.2g\n", row->expected, row->config, row->problem,
                  row->same_device ? "" : " on ", row->same_device ? "" : row->gpu, row->lender,
                  row->distance);
}
