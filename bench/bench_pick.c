/* bench_pick.c -- what a call loses that is given the winner of the nearest anchor.
 *
 *   bench_pick [GPU FILE...]     default: H200 bench/results/h200-mma-probe.tsv
 *
 * In: measured rows of problem, config, registers, spills, milliseconds, as bench_model reads them. A problem
 * of a file is an anchor where the tuner's grid has it, else held out. Each held-out one is given what
 * fat_candidate_distance gives it: the fastest config of the nearest anchor of its family that was measured,
 * among the configs that were measured for both. Printed is how much slower that is than the best config
 * measured for the problem itself, beside the same for the family's main anchor alone; then median and worst.
 * Ends with 1 where the median is above 5 %, or nothing is held out. */
#include "search/agenda.h"
#include "candidate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 65536, SHAPES = 1024, FEW = 8 }; /* FEW: configs in common, at least */

typedef struct row {
  int shape;
  char config[FAT_CONFIG_TEXT];
  double ms;
} row;

typedef struct shape {
  fat_problem problem;
  char text[FAT_PROBLEM_TEXT], family[FAT_PROBLEM_TEXT];
  bool anchor, central; /* one of the grid; the main one */
} shape;

typedef struct data {
  row rows[ROWS];
  shape shapes[SHAPES];
  int row_count, shape_count;
} data;

static data all;

/* Whether the tuner's grid of the family has the problem. */
static fat_status place(fat_script *script, const fat_gpu *gpu, shape *s, fat_error *err)
{
  char text[FAT_PROBLEM_TEXT];
  const fat_problem *p = &s->problem;
  fat_goal goal = {.dims = {1, {p->d}},
                   .dtypes = 1u << p->dtype,
                   .ops = 1u << p->op,
                   .causal = fat_problem_has(p, FAT_CAUSAL) ? 2 : 1};
  fat_agenda agenda;
  FAT_TRY(fat_agenda_list(&goal, gpu, script, &agenda, err));
  fat_status status = fat_agenda_grid(&goal, gpu, script, &agenda, err);
  for (int i = 0; i < agenda.count && status == FAT_OK; i++)
    if (strcmp(fat_problem_print(&agenda.list[i].problem, text), s->text) == 0) {
      s->anchor = true;
      s->central = agenda.list[i].main_plus_1 == 0;
    }
  fat_agenda_free(&agenda);
  return status;
}

static int shape_of(fat_script *script, const fat_gpu *gpu, const char *problem, fat_error *err)
{
  for (int i = 0; i < all.shape_count; i++)
    if (strcmp(all.shapes[i].text, problem) == 0)
      return i;
  shape *s = &all.shapes[all.shape_count];
  *s = (shape){.anchor = false};
  if (all.shape_count == SHAPES || fat_problem_parse(problem, &s->problem, err) != FAT_OK)
    return -1;
  snprintf(s->text, sizeof s->text, "%s", problem);
  fat_problem_family(&s->problem, s->family);
  return place(script, gpu, s, err) == FAT_OK ? all.shape_count++ : -1;
}

static void read_rows(const char *path, fat_script *script, const fat_gpu *gpu)
{
  char line[1024], problem[FAT_PROBLEM_TEXT], registers[100];
  int spills;
  FILE *file = fopen(path, "r");
  if (file == NULL)
    fprintf(stderr, "bench_pick: %s cannot be read\n", path);
  while (file != NULL && all.row_count < ROWS && fgets(line, sizeof line, file) != NULL) {
    row *r = &all.rows[all.row_count];
    fat_error err = {0};
    if (line[0] == '#' ||
        sscanf(line, "%255s %399s %99s %d %lf", problem, r->config, registers, &spills, &r->ms) != 5)
      continue;
    r->shape = shape_of(script, gpu, problem, &err);
    if (r->shape >= 0)
      all.row_count++;
    else
      fprintf(stderr, "left out: %s\n", err.text);
  }
  if (file != NULL)
    fclose(file);
}

static double time_of(int of, const char *config)
{
  for (int i = 0; i < all.row_count; i++)
    if (all.rows[i].shape == of && strcmp(all.rows[i].config, config) == 0)
      return all.rows[i].ms;
  return NAN;
}

/* What the winner of `anchor` takes for the problem `held`, over the best that was measured for that; NAN
 * where too few configs were measured for both. */
static double loss(int held, int anchor)
{
  double best = INFINITY, fastest = INFINITY, picked = NAN;
  int common = 0;
  for (int i = 0; i < all.row_count; i++)
    if (all.rows[i].shape == held)
      best = fmin(best, all.rows[i].ms);
  for (int i = 0; i < all.row_count; i++) {
    const row *r = &all.rows[i];
    double ms = r->shape == anchor ? time_of(held, r->config) : NAN;
    common += isfinite(ms);
    if (isfinite(ms) && r->ms < fastest) {
      fastest = r->ms;
      picked = ms;
    }
  }
  return common >= FEW ? picked / best - 1 : NAN;
}

/* The anchor of the family that a pick would take, or its main one; -1: none was measured. */
static int nearest(int held, bool central)
{
  int best = -1;
  double least = INFINITY;
  for (int i = 0; i < all.shape_count; i++) {
    const shape *s = &all.shapes[i], *h = &all.shapes[held];
    double distance = fat_candidate_distance(&h->problem, &s->problem);
    if (!s->anchor || (central && !s->central) || strcmp(s->family, h->family) != 0 || distance >= least ||
        isnan(loss(held, i)))
      continue;
    best = i;
    least = distance;
  }
  return best;
}

static int by_size(const void *x, const void *y)
{
  const double *a = x, *b = y;
  return (*a > *b) - (*a < *b);
}

static int report(void)
{
  static double losses[SHAPES];
  int count = 0;
  printf("%-44s %-44s %8s  %8s  %12s\n", "held out", "nearest anchor measured", "distance", "slower",
         "by main one");
  for (int i = 0; i < all.shape_count; i++) {
    int anchor = all.shapes[i].anchor ? -1 : nearest(i, false);
    if (anchor < 0)
      continue;
    int central = nearest(i, true);
    losses[count] = loss(i, anchor);
    printf("%-44s %-44s %8.2f  %6.1f %%", all.shapes[i].text, all.shapes[anchor].text,
           fat_candidate_distance(&all.shapes[i].problem, &all.shapes[anchor].problem), 100 * losses[count]);
    count++;
    if (central >= 0)
      printf("  %10.1f %%", 100 * loss(i, central));
    printf("\n");
  }
  if (count == 0) {
    printf("nothing is held out\n");
    return 1;
  }
  qsort(losses, (size_t)count, sizeof *losses, by_size);
  double median = (losses[count / 2] + losses[(count - 1) / 2]) / 2;
  printf("%d shapes held out: the nearest anchor's winner is %.1f %% slower than the best in the median, "
         "%.1f %% at "
         "worst\n",
         count, 100 * median, 100 * losses[count - 1]);
  return median > 0.05;
}

int main(int argc, char **argv)
{
  const fat_gpu *gpu;
  fat_script *script;
  fat_error err = {0};
  if (fat_gpu_find(argc > 2 ? argv[1] : "H200", &gpu, &err) != FAT_OK ||
      fat_script_open(NULL, &script, &err) != FAT_OK) {
    fprintf(stderr, "bench_pick: %s\n", err.text);
    return 2;
  }
  for (int i = 2; i < argc; i++)
    read_rows(argv[i], script, gpu);
  if (argc <= 2)
    read_rows("bench/results/h200-mma-probe.tsv", script, gpu);
  fat_script_close(script);
  return report();
}
