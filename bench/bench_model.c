/* bench_model.c -- the model that ranks configs, against times measured on a GPU.
 *
 *   bench_model [GPU FILE]     default: H200 bench/results/h200-f32-configs.tsv
 *
 * In: rows of problem, config, registers of each launch, spills, milliseconds. For each problem and kernel it
 * prints the rank correlation (Spearman) of predicted and measured times, the measured loss of the config
 * that the model puts first and of the best among its first 8, and how far off its milliseconds are. Ends
 * with 1 where the first 8 hold none within 5 % of the best, in more than a tenth of the groups. */
#include "model.h"
#include "occupancy.h"
#include "space.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4096, TOP = 8, FEW = 16 }; /* FEW: groups of fewer rows say little and are only shown */

typedef struct row {
  char group[FAT_PROBLEM_TEXT + FAT_CONFIG_KERNEL]; /* problem and kernel */
  double measured, predicted;
} row;

static int by_measured(const void *x, const void *y)
{
  const row *a = x, *b = y;
  int order = strcmp(a->group, b->group);
  return order != 0 ? order : (a->measured > b->measured) - (a->measured < b->measured);
}

static int by_predicted(const void *x, const void *y)
{
  const row *a = x, *b = y;
  return (a->predicted > b->predicted) - (a->predicted < b->predicted);
}

/* The forecast for one line of the file. */
static fat_status predict(fat_script *script, const fat_gpu *gpu, const char *problem, const char *config,
                          const char *registers, int spills, row *r, fat_error *err)
{
  fat_problem p;
  fat_config c;
  fat_point point;
  fat_resident resident[FAT_SPACE_LAUNCHES];
  FAT_TRY(fat_problem_parse(problem, &p, err));
  FAT_TRY(fat_config_parse(config, &c, err));
  FAT_TRY(fat_space_point(script, &c, &p, gpu, &point, err));
  for (int i = 0; i < point.launches; i++) {
    const fat_work *w = &point.work[i];
    fat_footprint f = {(int)w->threads, atoi(registers), (int)w->shared};
    resident[i] = (fat_resident){fat_occupancy_blocks(fat_gpu_arch(gpu->sm), &f, NULL), spills};
    registers += strcspn(registers, ",");
    registers += *registers == ',';
  }
  r->predicted = fat_model_predict(gpu, point.work, resident, point.launches).ms;
  snprintf(r->group, sizeof r->group, "%s %s", problem, c.kernel);
  return FAT_OK;
}

static int read_rows(FILE *file, fat_script *script, const fat_gpu *gpu, row *rows)
{
  char line[1024], problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT], registers[100];
  int count = 0, spills;
  while (count < ROWS && fgets(line, sizeof line, file) != NULL) {
    fat_error err = {0};
    row *r = &rows[count];
    if (line[0] == '#' ||
        sscanf(line, "%255s %399s %99s %d %lf", problem, config, registers, &spills, &r->measured) != 5)
      continue;
    if (predict(script, gpu, problem, config, registers, spills, r, &err) == FAT_OK)
      count++;
    else
      fprintf(stderr, "left out: %s\n", err.text);
  }
  return count;
}

/* One group, in order of measured time. Returns the loss of the best of the model's first TOP. */
static double report(row *rows, int count)
{
  double best = rows[0].measured, squares = 0, ratio = 0;
  for (int i = 0; i < count; i++) {
    int rank = 0;
    for (int k = 0; k < count; k++)
      rank += rows[k].predicted < rows[i].predicted;
    squares += (double)(rank - i) * (rank - i);
    ratio += log(rows[i].measured / rows[i].predicted) / count;
  }
  qsort(rows, (size_t)count, sizeof *rows, by_predicted);
  double top = rows[0].measured;
  for (int i = 1; i < TOP && i < count; i++)
    top = fmin(top, rows[i].measured);
  printf("%-50s %5d  %8.2f  %7.1f %%  %7.1f %%  %9.2f\n", rows[0].group, count,
         count > 2 ? 1 - 6 * squares / (count * ((double)count * count - 1)) : NAN,
         100 * (rows[0].measured / best - 1), 100 * (top / best - 1), exp(ratio));
  return top / best - 1;
}

int main(int argc, char **argv)
{
  static row rows[ROWS];
  const char *path = argc > 2 ? argv[2] : "bench/results/h200-f32-configs.tsv";
  const fat_gpu *gpu;
  fat_script *script;
  fat_error err = {0};
  FILE *file = fopen(path, "r");
  if (file == NULL || fat_gpu_find(argc > 2 ? argv[1] : "H200", &gpu, &err) != FAT_OK ||
      fat_script_open(NULL, &script, &err) != FAT_OK) {
    fprintf(stderr, "bench_model: %s\n", file == NULL ? path : err.text);
    return 2;
  }
  int count = read_rows(file, script, gpu, rows), groups = 0, missed = 0;
  fclose(file);
  fat_script_close(script);
  qsort(rows, (size_t)count, sizeof *rows, by_measured);
  printf("%-50s %5s  %8s  %9s  %9s  %9s\n", "problem, kernel", "rows", "spearman", "first is", "first 8",
         "measured/");
  printf("%-50s %5s  %8s  %9s  %9s  %9s\n", "", "", "", "off by", "off by", "predicted");
  for (int from = 0, to; from < count; from = to) {
    for (to = from; to < count && strcmp(rows[to].group, rows[from].group) == 0;)
      to++;
    double loss = report(rows + from, to - from);
    groups += to - from >= FEW;
    missed += to - from >= FEW && loss > 0.05;
  }
  printf("%d groups of %d rows or more: in %d the model's first %d hold a config within 5 %% of the best\n",
         groups, FEW, groups - missed, TOP);
  return groups == 0 || missed * 10 > groups;
}
