/* table.c -- aligned columns for people; programs read --json.
 *
 * In: columns and cells. Out: text with a title line. Widths count characters, not bytes. What does not fit a
 * narrow terminal is dropped whole, never cut, and is named: a number is shown right or not at all. */
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 2, CELL_ROOM = 1024 };

void fat_table_add(fat_table *t, const char *cell)
{
  char *copy = strdup(cell && *cell ? cell : "-");
  if (copy && t->cell_count == t->cell_room) {
    int room = t->cell_room ? 2 * t->cell_room : 64;
    char **larger = realloc(t->cells, (size_t)room * sizeof *larger);
    if (larger) {
      t->cells = larger;
      t->cell_room = room;
    }
  }
  if (!copy || t->cell_count == t->cell_room) {
    free(copy);
    t->failed = true;
    return;
  }
  for (char *s = copy; *s; s++)
    if ((unsigned char)*s < ' ' || *s == 0x7f)
      *s = ' ';
  t->cells[t->cell_count++] = copy;
}

void fat_table_addf(fat_table *t, const char *format, ...)
{
  char cell[CELL_ROOM];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(cell, sizeof cell, format, arguments);
  va_end(arguments);
  fat_table_add(t, cell);
}

void fat_table_free(fat_table *t)
{
  for (int i = 0; i < t->cell_count; i++)
    free(t->cells[i]);
  free(t->cells);
  t->cells = NULL;
  t->cell_count = t->cell_room = 0;
}

/* Characters of UTF-8 text: continuation bytes do not count. */
static int characters(const char *s)
{
  int n = 0;
  for (; *s; s++)
    n += ((unsigned char)*s & 0xc0) != 0x80;
  return n;
}

static const char *cell_of(const fat_table *t, int row, int column)
{
  return t->cells[row * t->column_count + column];
}

/* What is shown and how wide. */
typedef struct layout {
  int rows;
  int width[FAT_TABLE_COLUMNS];
  bool shown[FAT_TABLE_COLUMNS];
  bool headings; /* heading columns stand as lines */
} layout;

static int total_width(const fat_table *t, const layout *l)
{
  int sum = l->headings ? GAP : 0, shown = 0;
  for (int c = 0; c < t->column_count; c++)
    if (l->shown[c]) {
      sum += l->width[c];
      shown++;
    }
  return sum + (shown ? GAP * (shown - 1) : 0);
}

static void fit(const fat_table *t, int width, layout *l)
{
  for (int c = 0; c < t->column_count; c++) {
    l->shown[c] = true;
    l->width[c] = characters(t->columns[c].title);
    for (int r = 0; r < l->rows; r++) {
      int n = characters(cell_of(t, r, c));
      if (n > l->width[c])
        l->width[c] = n;
    }
  }
  if (width <= 0 || total_width(t, l) <= width)
    return;
  for (int c = 0; c < t->column_count; c++)
    if (t->columns[c].heading) {
      l->headings = true;
      l->shown[c] = false;
    }
  while (total_width(t, l) > width) {
    int least = -1, most = -1;
    for (int c = 0; c < t->column_count; c++) {
      if (!l->shown[c])
        continue;
      if (least < 0 || t->columns[c].keep < t->columns[least].keep)
        least = c;
      if (most < 0 || t->columns[c].keep > t->columns[most].keep)
        most = c;
    }
    if (least < 0 || t->columns[least].keep == t->columns[most].keep)
      return;
    l->shown[least] = false;
  }
}

static void print_line(const fat_table *t, const layout *l, int row, fat_text *out)
{
  int blanks = l->headings ? GAP : 0;
  for (int c = 0; c < t->column_count; c++) {
    if (!l->shown[c])
      continue;
    const char *cell = row < 0 ? t->columns[c].title : cell_of(t, row, c);
    int pad = l->width[c] - characters(cell);
    if (t->columns[c].right)
      blanks += pad;
    fat_text_format(out, "%*s%s", blanks, "", cell);
    blanks = GAP + (t->columns[c].right ? 0 : pad);
  }
  fat_text_add(out, "\n");
}

/* The heading line above a row, where it differs from that of the row before. */
static void print_heading(const fat_table *t, int row, fat_text *out)
{
  for (int c = 0; c < t->column_count; c++)
    if (t->columns[c].heading && (row == 0 || strcmp(cell_of(t, row, c), cell_of(t, row - 1, c)) != 0))
      fat_text_format(out, "%s\n", cell_of(t, row, c));
}

static void name_hidden(const fat_table *t, const layout *l, fat_text *out)
{
  const char *before = "(no room for: ";
  for (int c = 0; c < t->column_count; c++)
    if (!l->shown[c] && !(l->headings && t->columns[c].heading)) {
      fat_text_format(out, "%s%s", before, t->columns[c].title);
      before = ", ";
    }
  if (before[0] == ',')
    fat_text_add(out, "; a wider terminal or --json has all)\n");
}

fat_status fat_table_print(const fat_table *t, int width, fat_text *out, fat_error *err)
{
  layout l = {.rows = t->cell_count / t->column_count};
  if (t->failed)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory while a table was laid out");
  fit(t, width, &l);
  print_line(t, &l, -1, out);
  for (int r = 0; r < l.rows; r++) {
    if (l.headings)
      print_heading(t, r, out);
    print_line(t, &l, r, out);
  }
  name_hidden(t, &l, out);
  return fat_text_status(out, err);
}
