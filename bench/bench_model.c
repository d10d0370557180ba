/* bench_model.c -- the model that ranks configs, against times measured on a GPU.
 *
 *   bench_model [GPU FILE...]     default: H200 and the files of bench/results/
 *
 * In: rows of problem, config, registers of each launch, spills, milliseconds and, where it is known, the
 * SMs' clock meanwhile: milliseconds are then compared at one clock, that of the GPU's row, since a power cap
 * lowers it by how long a kernel was timed. A line "#fitted d64 d96" names the families that the model's
 * constants were fitted to; all others were kept from the fit. For each problem and kernel it prints the rank
 * correlation (Spearman) of predicted and measured times, the measured loss of the config that the model puts
 * first and of the best among its first 8, the latter also as the search sees it before anything is compiled,
 * and how far off its milliseconds are. Ends with 1 where the first 8 hold none within 5 % of the best, in
 * more than a tenth of the groups that were kept from the fit. */
#include "search/model.h"
#include "search/occupancy.h"
#include "space.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 65536, TOP = 8, FEW = 16, DIMS = 16 }; /* FEW: groups of fewer rows say little, only shown */

typedef struct row {
  char group[FAT_PROBLEM_TEXT + FAT_CONFIG_KERNEL]; /* problem and kernel */
  int file;                                         /* its times were measured together */
  double measured, predicted, guessed;              /* guessed: before a compile */
  bool fitted;
} row;

/* What a kind of group came to. */
typedef struct summary {
  int groups, hits, guessed_hits;
  double correlation;
} summary;

static int by_group(const row *a, const row *b)
{
  return a->file != b->file ? a->file - b->file : strcmp(a->group, b->group);
}

static int by_measured(const void *x, const void *y)
{
  const row *a = x, *b = y;
  int order = by_group(a, b);
  return order != 0 ? order : (a->measured > b->measured) - (a->measured < b->measured);
}

static int by_predicted(const void *x, const void *y)
{
  const row *a = x, *b = y;
  return (a->predicted > b->predicted) - (a->predicted < b->predicted);
}

static int by_guessed(const void *x, const void *y)
{
  const row *a = x, *b = y;
  return (a->guessed > b->guessed) - (a->guessed < b->guessed);
}

static fat_resident resident_of(const fat_gpu *gpu, const fat_work *w, int registers, int spills)
{
  fat_footprint f = {(int)w->threads, registers, (int)w->shared};
  return (fat_resident){fat_occupancy_blocks(fat_gpu_arch(gpu->sm), &f, NULL), spills};
}

/* The forecasts for one line of the file. */
static fat_status predict(fat_script *script, const fat_gpu *gpu, const char *problem, const char *config,
                          const char *registers, int spills, row *r, fat_problem *p, fat_error *err)
{
  fat_config c;
  fat_point point;
  fat_resident known[FAT_SPACE_LAUNCHES], guessed[FAT_SPACE_LAUNCHES];
  FAT_TRY(fat_problem_parse(problem, p, err));
  FAT_TRY(fat_config_parse(config, &c, err));
  FAT_TRY(fat_space_point(script, &c, p, gpu, &point, err));
  for (int i = 0; i < point.launches; i++) {
    const fat_work *w = &point.work[i];
    known[i] = resident_of(gpu, w, atoi(registers), spills);
    guessed[i] = resident_of(gpu, w, (int)fmin(w->registers, 255), (int)w->spills);
    registers += strcspn(registers, ",");
    registers += *registers == ',';
  }
  r->predicted = fat_model_predict(gpu, point.work, known, point.launches).ms;
  r->guessed = fat_model_predict(gpu, point.work, guessed, point.launches).ms;
  snprintf(r->group, sizeof r->group, "%s %s", problem, c.kernel);
  return FAT_OK;
}

/* Head dimensions of a line "#fitted d64 d96"; returns how many. */
static int read_fitted(char *line, int dims[DIMS])
{
  int count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(line, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest))
    if (word[0] == 'd' && count < DIMS)
      dims[count++] = atoi(word + 1);
  return count;
}

/* Milliseconds at the clock of the GPU's row. A row of a file with clocks that has none was timed too briefly
 * for it, being slow: it takes that of the row before. */
static double at_one_clock(double ms, const char *mhz, const fat_gpu *gpu, double *clock)
{
  double read = atof(mhz);
  *clock = read > 0 ? read : *clock;
  return *mhz && *clock > 0 ? ms * *clock / gpu->clock : ms;
}

static int read_rows(const char *path, fat_script *script, const fat_gpu *gpu, row *rows, int count)
{
  char line[1024], problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT], registers[100];
  int spills, dims[DIMS], fitted = 0, left_out = 0;
  double ms, clock = 0;
  fat_error first = {0};
  FILE *file = fopen(path, "r");
  if (file == NULL)
    fprintf(stderr, "bench_model: %s cannot be read\n", path);
  while (file != NULL && count < ROWS && fgets(line, sizeof line, file) != NULL) {
    fat_error err = {0};
    fat_problem p;
    char mhz[20] = "";
    row *r = &rows[count];
    if (strncmp(line, "#fitted", 7) == 0)
      fitted = read_fitted(line + 7, dims);
    if (line[0] == '#' ||
        sscanf(line, "%255s %399s %99s %d %lf %19s", problem, config, registers, &spills, &ms, mhz) < 5)
      continue;
    r->measured = at_one_clock(ms, mhz, gpu, &clock);
    if (predict(script, gpu, problem, config, registers, spills, r, &p, &err) != FAT_OK) {
      first = left_out++ == 0 ? err : first;
      continue;
    }
    r->fitted = false;
    for (int i = 0; i < fitted; i++)
      r->fitted = r->fitted || dims[i] == p.d;
    count++;
  }
  if (left_out > 0)
    fprintf(stderr, "%s: %d rows left out, first: %s\n", path, left_out, first.text);
  if (file != NULL)
    fclose(file);
  return count;
}

static double best_of_top(const row *rows, int count)
{
  double best = INFINITY;
  for (int i = 0; i < TOP && i < count; i++)
    best = fmin(best, rows[i].measured);
  return best;
}

/* One group, in order of measured time. */
static void report(row *rows, int count, summary *sum)
{
  double best = rows[0].measured, squares = 0, ratio = 0;
  for (int i = 0; i < count; i++) {
    int rank = 0;
    for (int k = 0; k < count; k++)
      rank += rows[k].predicted < rows[i].predicted;
    squares += (double)(rank - i) * (rank - i);
    ratio += log(rows[i].measured / rows[i].predicted) / count;
  }
  double spearman = count > 2 ? 1 - 6 * squares / (count * ((double)count * count - 1)) : NAN;
  qsort(rows, (size_t)count, sizeof *rows, by_guessed);
  double guessed = best_of_top(rows, count) / best - 1;
  qsort(rows, (size_t)count, sizeof *rows, by_predicted);
  double top = best_of_top(rows, count) / best - 1;
  printf("%-48s %-5s %5d  %8.2f  %7.1f %%  %7.1f %%  %7.1f %%  %9.2f\n", rows[0].group,
         rows[0].fitted ? "fit" : "kept", count, spearman, 100 * (rows[0].measured / best - 1), 100 * top,
         100 * guessed, exp(ratio));
  if (count < FEW)
    return;
  sum->groups++;
  sum->hits += top <= 0.05;
  sum->guessed_hits += guessed <= 0.05;
  sum->correlation += spearman;
}

static void say(const char *what, const summary *s)
{
  if (s->groups > 0)
    printf("%d groups of %d rows or more %s: mean rank correlation %.2f; in %d the model's first %d hold a "
           "config "
           "within 5 %% of the best, in %d before anything is compiled\n",
           s->groups, FEW, what, s->correlation / s->groups, s->hits, TOP, s->guessed_hits);
}

int main(int argc, char **argv)
{
  static row rows[ROWS];
  static const char *const kept[] = {
      "bench/results/h200-f32-configs.tsv", "bench/results/h200-bwd-f32.tsv",
      "bench/results/h200-mma-probe.tsv",   "bench/results/h200-mma-random.tsv",
      "bench/results/h200-ws-tune.tsv",     "bench/results/h200-ws-exhaustive.tsv",
      "bench/results/h200-ws-max.tsv"};
  const fat_gpu *gpu;
  fat_script *script;
  fat_error err = {0};
  summary sums[2] = {{0}, {0}};
  if (fat_gpu_find(argc > 2 ? argv[1] : "H200", &gpu, &err) != FAT_OK ||
      fat_script_open(NULL, &script, &err) != FAT_OK) {
    fprintf(stderr, "bench_model: %s\n", err.text);
    return 2;
  }
  int count = 0, files = argc > 2 ? argc - 2 : (int)(sizeof kept / sizeof kept[0]);
  for (int i = 0; i < files; i++) {
    int from = count;
    count = read_rows(argc > 2 ? argv[2 + i] : kept[i], script, gpu, rows, count);
    for (; from < count; from++)
      rows[from].file = i;
  }
  fat_script_close(script);
  qsort(rows, (size_t)count, sizeof *rows, by_measured);
  printf("%-48s %-5s %5s  %8s  %9s  %9s  %9s  %9s\n", "problem, kernel", "fit", "rows", "spearman",
         "first is", "first 8", "guessed 8", "measured/");
  printf("%-48s %-5s %5s  %8s  %9s  %9s  %9s  %9s\n", "", "", "", "", "off by", "off by", "off by",
         "predicted");
  for (int from = 0, to; from < count; from = to) {
    for (to = from; to < count && by_group(&rows[to], &rows[from]) == 0;)
      to++;
    report(rows + from, to - from, &sums[rows[from].fitted]);
  }
  say("that the fit saw", &sums[1]);
  say("kept from the fit", &sums[0]);
  return sums[0].groups == 0 || (sums[0].groups - sums[0].hits) * 10 > sums[0].groups;
}
