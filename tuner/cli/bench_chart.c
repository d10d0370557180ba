/* bench_chart.c -- rows of a bench as a picture: time, TFLOP/s and memory over the parameter with the most
 * values.
 *
 * Plain SVG, one file, no script and no font from outside; light colours on white, so that it prints. */
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
  GRID = 4
};

static const char *const colours[] = {"#4c6ef5", "#e8590c", "#2b8a3e", "#c2255c",
                                      "#5f3dc4", "#0b7285", "#846358", "#495057"};
enum { COLOURS = sizeof colours / sizeof *colours };
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
  int series;
  fat_text *out;
} chart;

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
      name_of(c, &c->rows[i], c->names[c->series++]);
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

static void draw_axes(const chart *c, int panel, double step)
{
  char words[64];
  text(c, LEFT, TOP - 12, "start", titles[panel]);
  for (int i = 0; i <= GRID; i++) {
    const double y = TOP + PLOT - (double)PLOT * i / GRID;
    fat_text_format(c->out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\"/>\n", LEFT, y,
                    WIDTH - RIGHT, y, i ? "#dee2e6" : "#212529");
    snprintf(words, sizeof words, "%g", step * i);
    text(c, LEFT - 6, y + 4, "end", words);
  }
  const int every = (c->value_count + 7) / 8; /* so that labels do not touch */
  for (int i = 0; i < c->value_count; i += every) {
    const double wide = (double)(WIDTH - LEFT - RIGHT) / (c->value_count > 1 ? c->value_count : 2);
    snprintf(words, sizeof words, "%lld", (long long)c->values[i]);
    text(c, LEFT + wide * (i + 0.5), TOP + PLOT + 16, "middle", words);
  }
  text(c, (LEFT + WIDTH - RIGHT) / 2.0, TOP + PLOT + 34, "middle", parameters[c->along]);
}

/* One series: a line through its rows in the order of the values, a mark at each with its numbers as a tip.
 */
static void draw_series(const chart *c, int panel, int series, double scale)
{
  const char *colour = colours[series % COLOURS];
  fat_text_format(c->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
                  series < COLOURS ? "" : " stroke-dasharray=\"6 3\"");
  for (int v = 0; v < c->value_count; v++)
    for (int i = 0; i < c->count; i++)
      if (!c->rows[i].failed[0] && parameter(&c->rows[i], c->along) == c->values[v] &&
          series_of(c, &c->rows[i]) == series)
        fat_text_format(c->out, "%.1f,%.1f ", x_of(c, &c->rows[i]),
                        TOP + PLOT - figure(&c->rows[i], panel) * scale);
  fat_text_add(c->out, "\"/>\n");
  for (int i = 0; i < c->count; i++)
    if (!c->rows[i].failed[0] && series_of(c, &c->rows[i]) == series)
      fat_text_format(
          c->out,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %s %lld: %.4g</title></circle>\n",
          x_of(c, &c->rows[i]), TOP + PLOT - figure(&c->rows[i], panel) * scale, colour, c->names[series],
          parameters[c->along], (long long)parameter(&c->rows[i], c->along), figure(&c->rows[i], panel));
}

static void draw_panel(const chart *c, int panel)
{
  double most = 0;
  for (int i = 0; i < c->count; i++)
    if (!c->rows[i].failed[0])
      most = fmax(most, figure(&c->rows[i], panel));
  const double step = step_for(most);
  fat_text_format(c->out, "<g transform=\"translate(%d 0)\">\n", panel * WIDTH);
  draw_axes(c, panel, step);
  for (int s = 0; s < c->series; s++)
    draw_series(c, panel, s, PLOT / (step * GRID));
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
    fat_text_format(out, "<rect x=\"%d\" y=\"%.1f\" width=\"14\" height=\"4\" fill=\"%s\"/>\n", LEFT, y - 6,
                    colours[s % COLOURS]);
    text(&c, LEFT + 22, y, "start", c.names[s]);
  }
  fat_text_add(out, "</svg>\n");
  return fat_text_status(out, err);
}
