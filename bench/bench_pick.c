/* bench_pick.c -- what a call loses whose shape nobody tuned.
 *
 *   bench_pick [GPU FILE...]     default: H200 and five files of bench/results/
 *
 * In: measured rows of problem, config, registers, spills, milliseconds, as bench_model reads them, and maybe
 * the clock meanwhile: where a file's comment says "compare clocks", times are what they would be at one
 * clock, as rows of races, under load, lie beside others. Each problem in turn is held out: the other shapes
 * of its family in the same file are the stored ones, and those of the other type of 16 bits, each by the
 * fastest config among those that were measured both there and for the problem. Printed is how much slower
 * than the best of all these configs for the problem is what the pick takes (fat_candidate_before), beside
 * the same for the nearest shape's; then the geometric means and the worst, for all and for those of few
 * waves. Ends with 1 where nothing is held out, or the pick loses more than the nearest shape. */
#include "candidate.h"
#include "search/occupancy.h"
#include "space.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  ROWS = 65536,
  SHAPES = 1024,
  FEW = 2 /* configs in common, at least */,
  WAVES = 4 /* or fewer are few */
};

typedef struct row {
  int shape;
  char config[FAT_CONFIG_TEXT];
  int registers;
  double ms;
} row;

typedef struct shape {
  fat_problem problem;
  char text[FAT_PROBLEM_TEXT], family[FAT_PROBLEM_TEXT];
  int file, first; /* its first row; the rows of a shape are chained */
} shape;

static const double usual_mhz = 1800; /* of an H200 whose calls come with pauses */
static row rows[ROWS];
static int next[ROWS];
static shape shapes[SHAPES];
static int row_count, shape_count;

/* What a rule came to. */
typedef struct sum {
  double logs, worst;
  int count;
} sum;

static int shape_of(int file, const char *problem, fat_error *err)
{
  for (int i = 0; i < shape_count; i++)
    if (shapes[i].file == file && strcmp(shapes[i].text, problem) == 0)
      return i;
  shape *s = &shapes[shape_count];
  *s = (shape){.file = file, .first = -1};
  if (shape_count == SHAPES || fat_problem_parse(problem, &s->problem, err) != FAT_OK)
    return -1;
  snprintf(s->text, sizeof s->text, "%s", problem);
  fat_problem_family(&s->problem, s->family);
  return shape_count++;
}

static void read_rows(const char *path, int number)
{
  char line[1024], problem[FAT_PROBLEM_TEXT], registers[100];
  int spills;
  bool clocks = false;
  FILE *file = fopen(path, "r");
  if (file == NULL)
    fprintf(stderr, "bench_pick: %s cannot be read\n", path);
  while (file != NULL && row_count < ROWS && fgets(line, sizeof line, file) != NULL) {
    row *r = &rows[row_count];
    fat_error err = {0};
    double mhz = usual_mhz;
    clocks = clocks || (line[0] == '#' && strstr(line, "compare clocks") != NULL);
    if (line[0] == '#' ||
        sscanf(line, "%255s %399s %99s %d %lf %lf", problem, r->config, registers, &spills, &r->ms, &mhz) < 5)
      continue;
    r->ms *= clocks ? mhz / usual_mhz : 1;
    r->registers = atoi(registers);
    r->shape = shape_of(number, problem, &err);
    if (r->shape < 0) {
      fprintf(stderr, "left out: %s\n", err.text);
      continue;
    }
    next[row_count] = shapes[r->shape].first;
    shapes[r->shape].first = row_count++;
  }
  if (file != NULL)
    fclose(file);
}

/* The least time of a config for a shape: it may have been measured twice. */
static double time_of(int shape, const char *config)
{
  double least = INFINITY;
  for (int i = shapes[shape].first; i >= 0; i = next[i])
    if (strcmp(rows[i].config, config) == 0)
      least = fmin(least, rows[i].ms);
  return least;
}

/* As the tuner stores it. */
static int blocks_per_sm(fat_script *script, const fat_gpu *gpu, const fat_problem *p,
                         const fat_config *config, int registers)
{
  fat_point point;
  if (fat_space_point(script, config, p, gpu, &point, NULL) != FAT_OK)
    return 0;
  const fat_footprint f = {(int)point.work[0].threads, registers, (int)point.work[0].shared};
  return fat_occupancy_blocks(fat_gpu_arch(gpu->sm), &f, NULL);
}

/* Whether a shape's rows count for a held-out one: of its family, or lent by the other type of 16 bits where
 * the shape was not measured in its own. */
static bool counts(int of, int held)
{
  const shape *s = &shapes[of], *h = &shapes[held];
  fat_problem other;
  char family[FAT_PROBLEM_TEXT];
  if (of == held || s->file != h->file || strcmp(s->family, h->family) == 0)
    return of != held && s->file == h->file;
  if (!fat_problem_other_half(&s->problem, &other) ||
      strcmp(fat_problem_family(&other, family), h->family) != 0)
    return false;
  for (int i = 0; i < shape_count; i++)
    if (i != held && shapes[i].file == h->file && strcmp(shapes[i].family, family) == 0 &&
        fat_candidate_same(&shapes[i].problem, &other))
      return false;
  return true;
}

/* The stored row of a shape for a held-out one; false where too few configs were measured for both. */
static bool stored_row(fat_script *script, const fat_gpu *gpu, int of, int held, fat_candidate *c)
{
  const shape *s = &shapes[of];
  int common = 0, fastest = -1;
  fat_config config;
  if (!counts(of, held))
    return false;
  for (int i = s->first; i >= 0; i = next[i]) {
    if (!isfinite(time_of(held, rows[i].config)))
      continue;
    common++;
    if (fastest < 0 || rows[i].ms < rows[fastest].ms)
      fastest = i;
  }
  if (common < FEW || fat_config_parse(rows[fastest].config, &config, NULL) != FAT_OK)
    return false;
  const fat_room room = fat_reach_room(gpu);
  const fat_reach reach = fat_reach_of(&s->problem, &room);
  *c = (fat_candidate){.found = true, .same_device = true, .shape = s->problem, .ms = rows[fastest].ms};
  c->at = fat_candidate_measure(&s->problem);
  c->waves = fat_waves_of(&config, s->problem.op,
                          blocks_per_sm(script, gpu, &s->problem, &config, rows[fastest].registers));
  c->pace = fat_waves_pace(&c->waves, &reach, c->ms, fat_waves_work(&c->waves, &reach));
  snprintf(c->config, sizeof c->config, "%s", rows[fastest].config);
  if (s->problem.dtype != shapes[held].problem.dtype)
    fat_candidate_lend(c, &shapes[held].problem);
  return true;
}

static bool is_nearer(const fat_candidate *a, const fat_candidate *b, const fat_asked *asked)
{
  if (!b->found || a->distance != b->distance)
    return !b->found || a->distance < b->distance;
  const double rows_a = fabs(a->at.all - asked->at.all), rows_b = fabs(b->at.all - asked->at.all);
  return rows_a != rows_b ? rows_a < rows_b : a->ms < b->ms;
}

static void add(sum *s, double loss)
{
  s->logs += log1p(loss);
  s->worst = fmax(s->worst, loss);
  s->count++;
}

static void tell(const char *what, const sum *nearest, const sum *pick)
{
  const int n = nearest->count > 0 ? nearest->count : 1;
  printf("%-24s %4d held out: the nearest shape's is %5.2f %% slower than the best, %5.1f %% at worst; the "
         "pick's %5.2f %%, %5.1f %%\n",
         what, nearest->count, 100 * expm1(nearest->logs / n), 100 * nearest->worst,
         100 * expm1(pick->logs / n), 100 * pick->worst);
}

/* Holds one out: [0] for all, [1] where the picked config's tiles make few waves. */
static void hold_out(fat_script *script, const fat_gpu *gpu, int held, sum nearest[2], sum pick[2])
{
  const fat_room room = fat_reach_room(gpu);
  const fat_asked asked = fat_candidate_asked(&shapes[held].problem, &room);
  fat_candidate c, near = {0}, best = {0};
  double least = INFINITY;
  for (int i = 0; i < shape_count; i++) {
    if (!stored_row(script, gpu, i, held, &c))
      continue;
    fat_candidate_weigh(&c, &asked);
    least = fmin(least, time_of(held, c.config));
    if (is_nearer(&c, &near, &asked))
      near = c;
    if (fat_candidate_before(&c, &best, &asked, gpu->sms))
      best = c;
  }
  if (!near.found)
    return;
  const double loss = time_of(held, near.config) / least - 1,
               by_pick = time_of(held, best.config) / least - 1;
  const fat_problem *p = &shapes[held].problem;
  const bool few = (double)p->b * (double)p->h * ceil((double)p->q / 128) <= WAVES * gpu->sms;
  for (int i = 0; i < 1 + few; i++) {
    add(&nearest[i], loss);
    add(&pick[i], by_pick);
  }
  if (strcmp(near.config, best.config) != 0)
    printf("%-44s %6.1f %% %-46s %6.1f %% %s\n", shapes[held].text, 100 * loss, near.config, 100 * by_pick,
           best.config);
}

int main(int argc, char **argv)
{
  static const char *const usual[] = {"bench/results/h200-ws-max.tsv", "bench/results/h200-ws-tune.tsv",
                                      "bench/results/h200-mma-probe.tsv", "bench/results/h200-bwd-tune.tsv",
                                      "bench/results/h200-det-tune.tsv"};
  const fat_gpu *gpu;
  fat_script *script;
  fat_error err = {0};
  sum nearest[2] = {{0}}, pick[2] = {{0}};
  if (fat_gpu_find(argc > 2 ? argv[1] : "H200", &gpu, &err) != FAT_OK ||
      fat_script_open(NULL, &script, &err) != FAT_OK) {
    fprintf(stderr, "bench_pick: %s\n", err.text);
    return 2;
  }
  for (int i = 2; i < argc; i++)
    read_rows(argv[i], i);
  for (int i = 0; argc <= 2 && i < (int)(sizeof usual / sizeof usual[0]); i++)
    read_rows(usual[i], i);
  printf("%-44s %8s %-46s %8s %s\n", "where they differ", "loss", "nearest shape's", "loss", "the pick's");
  for (int i = 0; i < shape_count; i++)
    hold_out(script, gpu, i, nearest, pick);
  fat_script_close(script);
  tell("all", &nearest[0], &pick[0]);
  tell("of 4 waves or fewer", &nearest[1], &pick[1]);
  return nearest[0].count == 0 || pick[0].logs > nearest[0].logs;
}
