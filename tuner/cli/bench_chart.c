/* bench_chart.c -- rows of a bench as a picture: time, TFLOP/s and memory over the parameter with the most
 * values.
 *
 * Plain SVG, one file, no script and no font from outside; light colours on white, so that it prints. An
 * algorithm has one colour, its masks, types and sizes have dashes; what spans more than two powers of ten is
 * drawn by powers of ten. */
#include "bench_chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  WIDTH = 380,
  HEIGHT = 250,
  LEFT = 60,
  RIGHT = 12,
  TOP = 52,
  PLOT = 170,
  PANELS = 3,
  SERIES = 32,
  VALUES = 64,
  NAME = 96,
  LINE = 18,
  PARAMETERS = 4,
  GRID = 4,
  POWERS = 100 /* times the least: from there on by powers of ten */
};

static const char *const colours[] = {"#4c6ef5", "#e8590c", "#2b8a3e", "#c2255c",
                                      "#5f3dc4", "#0b7285", "#846358", "#495057"};
enum { COLOURS = sizeof colours / sizeof *colours };
static const char *const dashes[] = {"", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 3\"",
                                     " stroke-dasharray=\"9 3 2 3\""};
enum { DASHES = sizeof dashes / sizeof *dashes };
static const char *const titles[PANELS] = {"forward + backward, ms", "forward + backward, TFLOP/s",
                                           "GPU memory, MiB"};
static const char *const parameters[PARAMETERS] = {"seq_len", "batch_size", "num_heads", "emb_dim"};

typedef struct chart {
  const fat_bench_row *rows;
  int count;
  int along;              /* the parameter that runs to the right */
  int64_t values[VALUES]; /* of it, rising */
  int value_count;
  char names[SERIES][NAME];
  const char *colour[SERIES], *dash[SERIES];
  int series;
  fat_text *out;
} chart;

/* Of a panel: where a figure lies. */
typedef struct scale {
  bool by_powers;
  double from, step; /* a line of the grid stands at from + i * step, of the figure or of its power of ten */
  int lines;         /* beside that at the bottom */
} scale;

static int64_t parameter(const fat_bench_row *row, int which)
{
  const int64_t all[PARAMETERS] = {row->seq_len, row->batch_size, row->num_heads, row->emb_dim};
  return all[which];
}

static double figure(const fat_bench_row *row, int panel)
{
  const double all[PANELS] = {fat_bench_seconds(row, 2) * 1e3, fat_bench_tflops(row, 2), row->mb};
  return all[panel];
}

/* The values of a parameter, rising, each once. */
static int list_values(const chart *c, int which, int64_t values[VALUES])
{
  int n = 0;
  for (int i = 0; i < c->count; i++) {
    const int64_t v = parameter(&c->rows[i], which);
    int at = 0;
    while (at < n && values[at] < v)
      at++;
    if ((at < n && values[at] == v) || n == VALUES)
      continue;
    memmove(&values[at + 1], &values[at], (size_t)(n - at) * sizeof *values);
    values[at] = v;
    n++;
  }
  return n;
}

static bool both_masks(const chart *c)
{
  for (int i = 1; i < c->count; i++)
    if (c->rows[i].causal != c->rows[0].causal)
      return true;
  return false;
}

static bool many_types(const chart *c)
{
  for (int i = 1; i < c->count; i++)
    if (c->rows[i].dtype != c->rows[0].dtype)
      return true;
  return false;
}

/* What tells a row's line from the others'. */
static void name_of(const chart *c, const fat_bench_row *row, char name[NAME])
{
  int64_t values[VALUES];
  int used = snprintf(name, NAME, "%s", fat_impl_names[row->impl]);
  if (both_masks(c))
    used += snprintf(name + used, (size_t)(NAME - used), ", %s", row->causal ? "causal" : "full");
  if (many_types(c))
    used += snprintf(name + used, (size_t)(NAME - used), ", %s", fat_dtypes[row->dtype].name);
  for (int p = 0; p < PARAMETERS && used < NAME - 40; p++)
    if (p != c->along && list_values(c, p, values) > 1)
      used += snprintf(name + used, (size_t)(NAME - used), ", %s %lld", parameters[p],
                       (long long)parameter(row, p));
}

static int series_of(const chart *c, const fat_bench_row *row)
{
  char name[NAME];
  name_of(c, row, name);
  for (int i = 0; i < c->series; i++)
    if (strcmp(c->names[i], name) == 0)
      return i;
  return -1;
}

/* The colour of its algorithm, and the next dash that this has not used. */
static void add_series(chart *c, const fat_bench_row *row)
{
  const int at = c->series++;
  int before = 0;
  name_of(c, row, c->names[at]);
  c->colour[at] = colours[row->impl % COLOURS];
  for (int i = 0; i < at; i++)
    before += c->colour[i] == c->colour[at];
  c->dash[at] = dashes[before % DASHES];
}

static void list_series(chart *c)
{
  int64_t values[VALUES];
  for (int p = 0; p < PARAMETERS; p++) {
    const int n = list_values(c, p, values);
    if (p == 0 || n > c->value_count) {
      c->along = p;
      c->value_count = n;
      memcpy(c->values, values, sizeof values);
    }
  }
  for (int i = 0; i < c->count; i++)
    if (!c->rows[i].failed[0] && series_of(c, &c->rows[i]) < 0 && c->series < SERIES)
      add_series(c, &c->rows[i]);
}

static double x_of(const chart *c, const fat_bench_row *row)
{
  const double step = (double)(WIDTH - LEFT - RIGHT) / (c->value_count > 1 ? c->value_count : 2);
  for (int i = 0; i < c->value_count; i++)
    if (c->values[i] == parameter(row, c->along))
      return LEFT + step * (i + 0.5);
  return LEFT;
}

/* 1, 2 or 5 times a power of ten, so that GRID of them reach `most`. */
static double step_for(double most)
{
  const double least = most > 0 ? most / GRID : 1, power = pow(10, floor(log10(least)));
  const double part = least / power;
  return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void text(const chart *c, double x, double y, const char *anchor, const char *words)
{
  fat_text_format(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, words);
}

/* TFLOP/s begin at 0 whatever they span. */
static scale scale_of(const chart *c, int panel)
{
  double most = 0, least = INFINITY;
  for (int i = 0; i < c->count; i++)
    if (!c->rows[i].failed[0]) {
      most = fmax(most, figure(&c->rows[i], panel));
      least = fmin(least, figure(&c->rows[i], panel));
    }
  if (panel == 1 || !(least > 0) || most < POWERS * least)
    return (scale){.step = step_for(most), .lines = GRID};
  const double from = floor(log10(least));
  return (scale){true, from, 1, (int)(ceil(log10(most)) - from)};
}

static double y_of(const scale *s, double value)
{
  const double at = ((s->by_powers ? log10(value) : value) - s->from) / s->step;
  return TOP + PLOT - PLOT * at / s->lines;
}

static void write_value(char words[64], int64_t value)
{
  const bool whole = value >= 1024 && value % 1024 == 0; /* so that labels do not touch */
  snprintf(words, 64, whole ? "%lldk" : "%lld", (long long)(whole ? value / 1024 : value));
}

static void draw_axes(const chart *c, int panel, const scale *s)
{
  char words[64];
  text(c, LEFT, TOP - 12, "start", titles[panel]);
  for (int i = 0; i <= s->lines; i++) {
    const double y = TOP + PLOT - (double)PLOT * i / s->lines, value = s->from + s->step * i;
    fat_text_format(c->out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\"/>\n", LEFT, y,
                    WIDTH - RIGHT, y, i ? "#dee2e6" : "#212529");
    snprintf(words, sizeof words, "%g", s->by_powers ? pow(10, value) : value);
    text(c, LEFT - 6, y + 4, "end", words);
  }
  const int every = (c->value_count + 7) / 8; /* so that labels do not touch */
  for (int i = 0; i < c->value_count; i += every) {
    const double wide = (double)(WIDTH - LEFT - RIGHT) / (c->value_count > 1 ? c->value_count : 2);
    write_value(words, c->values[i]);
    text(c, LEFT + wide * (i + 0.5), TOP + PLOT + 16, "middle", words);
  }
  text(c, (LEFT + WIDTH - RIGHT) / 2.0, TOP + PLOT + 34, "middle", parameters[c->along]);
}

/* One series: a line through its rows in the order of the values, a mark at each with its numbers as a tip.
 */
static void draw_series(const chart *c, int panel, int series, const scale *s)
{
  const char *colour = c->colour[series];
  fat_text_format(c->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
                  c->dash[series]);
  for (int v = 0; v < c->value_count; v++)
    for (int i = 0; i < c->count; i++)
      if (!c->rows[i].failed[0] && parameter(&c->rows[i], c->along) == c->values[v] &&
          series_of(c, &c->rows[i]) == series)
        fat_text_format(c->out, "%.1f,%.1f ", x_of(c, &c->rows[i]), y_of(s, figure(&c->rows[i], panel)));
  fat_text_add(c->out, "\"/>\n");
  for (int i = 0; i < c->count; i++)
    if (!c->rows[i].failed[0] && series_of(c, &c->rows[i]) == series)
      fat_text_format(
          c->out,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %s %lld: %.4g</title></circle>\n",
          x_of(c, &c->rows[i]), y_of(s, figure(&c->rows[i], panel)), colour, c->names[series],
          parameters[c->along], (long long)parameter(&c->rows[i], c->along), figure(&c->rows[i], panel));
}

static void draw_panel(const chart *c, int panel)
{
  const scale s = scale_of(c, panel);
  fat_text_format(c->out, "<g transform=\"translate(%d 0)\">\n", panel * WIDTH);
  draw_axes(c, panel, &s);
  for (int i = 0; i < c->series; i++)
    draw_series(c, panel, i, &s);
  fat_text_add(c->out, "</g>\n");
}

fat_status fat_bench_chart(const fat_bench_row *rows, int count, const char *gpu, fat_text *out,
                           fat_error *err)
{
  chart c = {.rows = rows, .count = count, .out = out};
  list_series(&c);
  const int height = HEIGHT + 30 + LINE * c.series;
  fat_text_format(
      out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#212529\">\n<rect width=\"100%%\" height=\"100%%\" "
      "fill=\"white\"/>\n",
      PANELS * WIDTH, height, PANELS * WIDTH, height);
  char words[160];
  snprintf(words, sizeof words, "fatune bench, %.60s, %s", gpu, fat_dtypes[rows[0].dtype].name);
  text(&c, LEFT, 20, "start", words);
  for (int panel = 0; panel < PANELS; panel++)
    draw_panel(&c, panel);
  for (int s = 0; s < c.series; s++) {
    const double y = HEIGHT + 24 + LINE * s;
    fat_text_format(
        out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", LEFT,
        y - 4, LEFT + 26, y - 4, c.colour[s], c.dash[s]);
    text(&c, LEFT + 34, y, "start", c.names[s]);
  }
  fat_text_add(out, "</svg>\n");
  return fat_text_status(out, err);
}
