/* rows.c -- rows of a view of the database: chosen, ordered and counted as the options say, in every form.
 *
 * In: a view as tab-separated text and, row by row in the same order, as JSON. Out: the rows that the options
 * choose. SQL stays in db: what is chosen here is chosen by the words that were printed. */
#include "rows.h"

#include "gpu.h"
#include "grow.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int split(char *line, char **fields)
{
  int n = 0;
  for (char *s = line; s && n < FAT_ROWS_COLUMNS;) {
    fields[n++] = s;
    s = strchr(s, '\t');
    if (s)
      *s++ = 0;
  }
  return n;
}

int fat_rows_column(const fat_rows *rows, const char *name)
{
  for (int i = 0; i < rows->column_count; i++)
    if (strcmp(rows->names[i], name) == 0)
      return i;
  return -1;
}

bool fat_rows_trial(const fat_rows *rows, int row, const char *trial[FAT_ROWS_KEY])
{
  for (int i = 0; i < FAT_ROWS_KEY; i++) {
    if (rows->key[i] < 0)
      return false;
    trial[i] = rows->row[row][rows->key[i]];
  }
  return true;
}

bool fat_rows_have(const fat_rows *rows, const char *const trial[FAT_ROWS_KEY])
{
  const char *own[FAT_ROWS_KEY];
  for (int r = 0; r < rows->count && fat_rows_trial(rows, r, own); r++) {
    int same = 0;
    while (same < FAT_ROWS_KEY && strcmp(own[same], trial[same]) == 0)
      same++;
    if (same == FAT_ROWS_KEY)
      return true;
  }
  return false;
}

static const char *cell(const fat_rows *rows, char **row, const char *column)
{
  const int at = fat_rows_column(rows, column);
  return at < 0 ? "" : row[at];
}

/* The GPU as it is stored: --gpu rtx4090 means the rows of "RTX 4090", and a name of no table those that bear
 * it. */
static const char *stored_name(const char *gpu)
{
  const fat_gpu *row;
  return fat_gpu_find(gpu, &row, NULL) == FAT_OK ? row->name : gpu;
}

bool fat_rows_asks_for(const fat_goal *goal, const char *kernel, const char *config)
{
  for (int i = 0; i < goal->kernel_count; i++) {
    const size_t n = strlen(goal->kernels[i]);
    if (strcmp(kernel, goal->kernels[i]) == 0 ||
        (strncmp(config, goal->kernels[i], n) == 0 && config[n] == ':'))
      return true;
  }
  return goal->kernel_count == 0;
}

static bool is_chosen(const fat_rows *rows, char **row, const fat_options *o)
{
  return (!o->gpu || strcmp(cell(rows, row, "gpu"), stored_name(o->gpu)) == 0) &&
         (!o->problem || strstr(cell(rows, row, "problem"), o->problem)) &&
         (!o->origin_plus_1 ||
          strcmp(cell(rows, row, "origin"), fat_db_origin_name((fat_origin)(o->origin_plus_1 - 1))) == 0) &&
         fat_rows_asks_for(&o->goal, cell(rows, row, "kernel"), cell(rows, row, "config"));
}

/* A filter by a column that the view lacks would leave out all rows. */
static fat_status check_filters(const fat_rows *rows, const fat_options *o, fat_error *err)
{
  const struct {
    const char *column;
    bool given;
  } filters[] = {{"gpu", o->gpu},
                 {"problem", o->problem},
                 {"origin", o->origin_plus_1 > 0},
                 {"kernel", o->goal.kernel_count > 0}};
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
    if (filters[i].given && fat_rows_column(rows, filters[i].column) < 0)
      return fat_status_fail(err, FAT_E_INPUT,
                             "--%s: this view has no such column (--csv prints all of them)",
                             filters[i].column);
  return FAT_OK;
}

bool fat_rows_filtered(const fat_options *o)
{
  return o->gpu || o->problem || o->origin_plus_1 || o->goal.kernel_count || o->sort || o->top;
}

typedef struct ordered {
  char **row, *json;
  const char *key;
  int place;
  bool down;
} ordered;

/* Numbers by value and before words; nothing comes last, whichever way. */
static int by_key(const void *a, const void *b)
{
  const ordered *x = a, *y = b;
  char *end_x, *end_y;
  const double v = strtod(x->key, &end_x), w = strtod(y->key, &end_y);
  const bool number_x = *x->key && !*end_x, number_y = *y->key && !*end_y;
  int order = 0;
  if (!*x->key || !*y->key)
    return *x->key ? -1 : *y->key ? 1 : x->place - y->place;
  if (number_x && number_y)
    order = (v > w) - (v < w);
  else
    order = number_x != number_y ? number_y - number_x : strcmp(x->key, y->key);
  order = x->down ? -order : order;
  return order ? order : x->place - y->place;
}

static fat_status sort_rows(fat_rows *rows, const char *column, fat_error *err)
{
  const bool down = *column == '-';
  const int at = fat_rows_column(rows, column + down);
  if (at < 0)
    return fat_status_fail(err, FAT_E_INPUT,
                           "--sort '%s': this view has no such column (--csv prints all of them)", column);
  ordered *list = malloc((size_t)(rows->count + 1) * sizeof *list);
  if (!list)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for rows");
  for (int i = 0; i < rows->count; i++)
    list[i] = (ordered){rows->row[i], rows->json[i], rows->row[i][at], i, down};
  qsort(list, (size_t)rows->count, sizeof *list, by_key);
  for (int i = 0; i < rows->count; i++) {
    rows->row[i] = list[i].row;
    rows->json[i] = list[i].json;
  }
  free(list);
  return FAT_OK;
}

/* Splits both texts, which have one line for each row, and keeps the rows that are chosen. */
static fat_status choose(fat_rows *rows, const fat_options *o, fat_error *err)
{
  static const char *const key[FAT_ROWS_KEY] = {"config", "problem", "device", "source", "date"};
  char *rest = rows->text.data, *objects = rows->objects.data, *line = rest ? strsep(&rest, "\n") : NULL;
  rows->column_count = line ? split(line, rows->names) : 0;
  for (int i = 0; i < FAT_ROWS_KEY; i++)
    rows->key[i] = fat_rows_column(rows, key[i]);
  if (line)
    FAT_TRY(check_filters(rows, o, err));
  if (objects)
    strsep(&objects, "\n"); /* its bracket */
  while (rest && (line = strsep(&rest, "\n")) && *line) {
    char *object = objects ? strsep(&objects, "\n") : NULL;
    void *larger = fat_grow(rows->row, rows->count, sizeof *rows->row);
    rows->row = larger ? larger : rows->row;
    void *jsons = fat_grow(rows->json, rows->count, sizeof *rows->json);
    rows->json = jsons ? jsons : rows->json;
    if (!larger || !jsons)
      return fat_status_fail(err, FAT_E_NOMEM, "out of memory for rows");
    char **cells = calloc(FAT_ROWS_COLUMNS, sizeof *cells);
    if (!cells)
      return fat_status_fail(err, FAT_E_NOMEM, "out of memory for rows");
    for (int i = split(line, cells); i < rows->column_count; i++)
      cells[i] = line + strlen(line);
    if (!is_chosen(rows, cells, o)) {
      free(cells);
      continue;
    }
    rows->json[rows->count] = object;
    rows->row[rows->count++] = cells;
  }
  return FAT_OK;
}

static void leave_out_shipped(fat_rows *rows)
{
  int own = 0;
  for (int i = 0; i < rows->count; i++)
    own += strcmp(cell(rows, rows->row[i], "database"), "user") == 0;
  for (int i = 0; i < rows->count && own > 0; i++)
    if (strcmp(cell(rows, rows->row[i], "database"), "user") != 0) {
      rows->shipped = rows->count - own;
      for (int j = i; j < rows->count; j++)
        free(rows->row[j]);
      rows->count = i; /* those of a package come last */
    }
}

fat_status fat_rows_read(fat_db *db, const char *view, const fat_options *o, bool own, fat_rows *rows,
                         fat_error *err)
{
  *rows = (fat_rows){0};
  fat_db_read_begin(db);
  fat_status status = fat_db_view(db, view, false, &rows->text, err);
  if (status == FAT_OK)
    status = fat_text_status(&rows->text, err);
  if (status == FAT_OK && o->json)
    status = fat_db_view(db, view, true, &rows->objects, err);
  if (status == FAT_OK && o->json)
    status = fat_text_status(&rows->objects, err);
  fat_db_read_end(db);
  if (status == FAT_OK)
    status = choose(rows, o, err);
  if (status == FAT_OK && own && !fat_rows_filtered(o) && !o->all)
    leave_out_shipped(rows);
  if (status == FAT_OK && o->sort)
    status = sort_rows(rows, o->sort, err);
  while (status == FAT_OK && o->top && rows->count > o->top)
    free(rows->row[--rows->count]);
  return status;
}

void fat_rows_free(fat_rows *rows)
{
  for (int i = 0; i < rows->count; i++)
    free(rows->row[i]);
  free(rows->row);
  free(rows->json);
  fat_text_free(&rows->text);
  fat_text_free(&rows->objects);
  *rows = (fat_rows){0};
}

/* As RFC 4180 quotes. */
static void csv_cell(fat_text *out, const char *text, bool last)
{
  const bool quoted = strpbrk(text, ",\"") != NULL;
  fat_text_add(out, quoted ? "\"" : "");
  for (const char *c = text; *c; c++)
    fat_text_format(out, *c == '"' ? "\"\"" : "%c", *c);
  fat_text_add(out, quoted ? "\"" : "");
  fat_text_add(out, last ? "\n" : ",");
}

void fat_rows_csv(const fat_rows *rows, fat_text *out)
{
  for (int c = 0; c < rows->column_count; c++)
    csv_cell(out, rows->names[c], c == rows->column_count - 1);
  for (int r = 0; r < rows->count; r++)
    for (int c = 0; c < rows->column_count; c++)
      csv_cell(out, rows->row[r][c], c == rows->column_count - 1);
}

void fat_rows_json(const fat_rows *rows, fat_text *out)
{
  fat_text_add(out, "[");
  for (int r = 0; r < rows->count; r++) {
    const char *object = rows->json[r];
    const size_t n = strlen(object);
    fat_text_add(out, r ? ",\n" : "\n");
    fat_text_add_bytes(out, object, n - (n > 0 && object[n - 1] == ','));
  }
  fat_text_add(out, rows->count ? "\n]\n" : "]\n");
}
