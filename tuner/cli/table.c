/* table.c -- aligned columns for people; programs read --json.
 *
 * In: columns and cells. Out: text with a title line. Widths count characters, not bytes. What does not fit a
 * narrow terminal is dropped whole and named: a number is shown right or not at all. Prose alone is cut. */
#include "table.h"
#include "grow.h"
#include "status.h"

#include "search/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GAP = 2, CELL_ROOM = 1024 };

/* What prose keeps while other columns may go for it: a third of the line, and never less than this. */
enum { PROSE_SHARE = 3, PROSE_LEAST = 16 };
static const char ellipsis[] = "\xe2\x80\xa6";

void fat_table_add(fat_table *t, const char *cell)
{
  char *copy = strdup(cell && *cell ? cell : "-");
  char **larger = fat_grow(t->cells, t->cell_count, sizeof *larger);
  t->cells = larger ? larger : t->cells;
  if (!copy || !larger) {
    free(copy);
    t->failed = true;
    return;
  }
  fat_status_line(copy);
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

void fat_table_mark(fat_table *t)
{
  if (t->mark_count < FAT_TABLE_MARKS && t->cell_count > 0)
    t->marked[t->mark_count++] = (t->cell_count - 1) / t->column_count;
}

fat_look fat_table_look(void)
{
  const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  return (fat_look){.width = fat_terminal_width(STDOUT_FILENO),
                    .glance = terminal,
                    .colour = terminal && !(none && *none) && term && strcmp(term, "dumb") != 0};
}

void fat_table_free(fat_table *t)
{
  for (int i = 0; i < t->cell_count; i++)
    free(t->cells[i]);
  free(t->cells);
  t->cells = NULL;
  t->cell_count = 0;
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
  fat_look look;
  int rows;
  int width[FAT_TABLE_COLUMNS];
  int behind[FAT_TABLE_COLUMNS]; /* of the widest number: its point and what follows */
  bool shown[FAT_TABLE_COLUMNS];
  bool shared[FAT_TABLE_COLUMNS]; /* all rows have the same, which stands above them */
  bool headings;                  /* heading columns stand as lines */
  int margin;                     /* for marks */
  int whole[FAT_TABLE_COLUMNS];   /* the width before anything was cut */
} layout;

/* A number's point and what follows: ".25x" of "1.25x". */
static int behind_point(const char *cell)
{
  const char *point = strchr(cell, '.');
  return point ? characters(point) : 0;
}

/* Blanks behind a cell of a number, so that points stand below each other. */
static int tail_of(const fat_table *t, const layout *l, int row, int column)
{
  if (row < 0 || !t->columns[column].right)
    return 0;
  return l->behind[column] - behind_point(cell_of(t, row, column));
}

static int total_width(const fat_table *t, const layout *l)
{
  int sum = (l->headings ? GAP : 0) + l->margin, shown = 0;
  for (int c = 0; c < t->column_count; c++)
    if (l->shown[c]) {
      sum += l->width[c];
      shown++;
    }
  return sum + (shown ? GAP * (shown - 1) : 0);
}

static void measure(const fat_table *t, layout *l)
{
  l->margin = l->look.glance && t->mark_count > 0 ? GAP : 0;
  for (int c = 0; c < t->column_count; c++) {
    bool same = l->look.glance && l->rows > 1;
    l->width[c] = characters(t->columns[c].title);
    l->behind[c] = 0;
    for (int r = 0; r < l->rows; r++) {
      const int behind = t->columns[c].right ? behind_point(cell_of(t, r, c)) : 0;
      l->behind[c] = behind > l->behind[c] ? behind : l->behind[c];
      same = same && strcmp(cell_of(t, r, c), cell_of(t, 0, c)) == 0;
    }
    for (int r = 0; r < l->rows; r++) {
      const int n = characters(cell_of(t, r, c)) + tail_of(t, l, r, c);
      l->width[c] = n > l->width[c] ? n : l->width[c];
    }
    l->shared[c] = same;
    l->shown[c] = !same;
  }
}

static bool is_heading(const fat_table *t, const layout *l, int column)
{
  return t->columns[column].heading && !l->shared[column];
}

/* Whether a column is left out for lack of room. */
static bool is_hidden(const fat_table *t, const layout *l, int column)
{
  return !l->shown[column] && !l->shared[column] && !(l->headings && t->columns[column].heading);
}

static bool is_prose(const fat_table *t, int column)
{
  return t->prose && strcmp(t->columns[column].title, t->prose) == 0;
}

/* Prose as narrow as it may become, so that other columns can be weighed against it. */
static void squeeze(const fat_table *t, layout *l)
{
  const int share = l->look.width / PROSE_SHARE, least = share > PROSE_LEAST ? share : PROSE_LEAST;
  for (int c = 0; c < t->column_count; c++)
    if (is_prose(t, c) && l->width[c] > least)
      l->width[c] = least;
}

/* Hides columns until the rest fits or only those stay that matter most. */
static void drop(const fat_table *t, layout *l)
{
  while (total_width(t, l) > l->look.width) {
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

/* A wide column that went may have left room for narrow ones that went before it. */
static void bring_back(const fat_table *t, layout *l)
{
  bool tried[FAT_TABLE_COLUMNS] = {false};
  for (;;) {
    int most = -1;
    for (int c = 0; c < t->column_count; c++)
      if (!tried[c] && is_hidden(t, l, c) && (most < 0 || t->columns[c].keep > t->columns[most].keep))
        most = c;
    if (most < 0)
      return;
    tried[most] = true;
    l->shown[most] = true;
    l->shown[most] = total_width(t, l) <= l->look.width;
  }
}

/* Gives prose the room that is left. */
static void stretch(const fat_table *t, layout *l)
{
  for (int c = 0; c < t->column_count; c++) {
    const int room = l->look.width - total_width(t, l), missing = l->whole[c] - l->width[c];
    if (is_prose(t, c) && l->shown[c] && room > 0)
      l->width[c] += missing < room ? missing : room;
  }
}

static void fit(const fat_table *t, layout *l)
{
  measure(t, l);
  memcpy(l->whole, l->width, sizeof l->whole);
  if (l->look.width <= 0 || total_width(t, l) <= l->look.width)
    return;
  for (int c = 0; c < t->column_count; c++)
    if (is_heading(t, l, c)) {
      l->headings = true;
      l->shown[c] = false;
    }
  squeeze(t, l);
  drop(t, l);
  bring_back(t, l);
  stretch(t, l);
}

static bool is_marked(const fat_table *t, int row)
{
  for (int i = 0; i < t->mark_count; i++)
    if (t->marked[i] == row)
      return true;
  return false;
}

/* A cell at the width of its column, with the last of its characters an ellipsis where it is longer. */
static void print_cell(const char *cell, int width, fat_text *out)
{
  const char *end = cell;
  if (characters(cell) <= width) {
    fat_text_add(out, cell);
    return;
  }
  for (int n = 0; *end; end++) {
    n += ((unsigned char)*end & 0xc0) != 0x80;
    if (n == width)
      break;
  }
  fat_text_add_bytes(out, cell, (size_t)(end - cell));
  fat_text_add(out, ellipsis);
}

static void print_line(const fat_table *t, const layout *l, int row, fat_text *out)
{
  const bool marked = row >= 0 && l->margin > 0 && is_marked(t, row), colour = marked && l->look.colour;
  int blanks = (l->headings ? GAP : 0) + l->margin;
  if (colour)
    fat_text_add(out, "\033[1;32m");
  if (marked) {
    fat_text_add(out, "*");
    blanks--;
  }
  for (int c = 0; c < t->column_count; c++) {
    if (!l->shown[c])
      continue;
    const char *cell = row < 0 ? t->columns[c].title : cell_of(t, row, c);
    const int tail = tail_of(t, l, row, c), length = characters(cell),
              pad = length < l->width[c] ? l->width[c] - length - tail : 0;
    if (t->columns[c].right)
      blanks += pad;
    fat_text_format(out, "%*s", blanks, "");
    print_cell(cell, l->width[c], out);
    blanks = GAP + (t->columns[c].right ? tail : pad);
  }
  fat_text_add(out, colour ? "\033[0m\n" : "\n");
}

/* What all rows have in common, but for columns in which nothing stands. */
static void print_shared(const fat_table *t, const layout *l, fat_text *out)
{
  const char *before = "";
  for (int c = 0; c < t->column_count; c++)
    if (l->shared[c] && strcmp(cell_of(t, 0, c), "-") != 0) {
      fat_text_format(out, "%s%s: %s", before, t->columns[c].title, cell_of(t, 0, c));
      before = ", ";
    }
  if (*before)
    fat_text_add(out, "\n");
}

/* The heading line above a row: what differs from the row before, and its title where there are several
 * headings. */
static void print_heading(const fat_table *t, const layout *l, int row, fat_text *out)
{
  const char *before = "";
  int headings = 0;
  for (int c = 0; c < t->column_count; c++)
    headings += is_heading(t, l, c);
  for (int c = 0; c < t->column_count; c++)
    if (is_heading(t, l, c) && (row == 0 || strcmp(cell_of(t, row, c), cell_of(t, row - 1, c)) != 0)) {
      fat_text_format(out, "%s%s%s%s", before, headings > 1 ? t->columns[c].title : "",
                      headings > 1 ? ": " : "", cell_of(t, row, c));
      before = ", ";
    }
  if (*before)
    fat_text_add(out, "\n");
}

/* What does not stand there, or not whole. */
static void name_hidden(const fat_table *t, const layout *l, fat_text *out)
{
  const char *before = "(no room for: ";
  for (int c = 0; c < t->column_count; c++) {
    const bool cut = l->shown[c] && l->width[c] < l->whole[c];
    if (!cut && !is_hidden(t, l, c))
      continue;
    fat_text_format(out, "%s%s%s", before, cut ? "all of " : "", t->columns[c].title);
    before = ", ";
  }
  if (before[0] == ',')
    fat_text_add(out, "; a wider terminal or --json has all)\n");
}

fat_status fat_table_print(const fat_table *t, fat_look look, fat_text *out, fat_error *err)
{
  layout l = {.look = look, .rows = t->cell_count / t->column_count};
  if (t->failed)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory while a table was laid out");
  fit(t, &l);
  print_shared(t, &l, out);
  print_line(t, &l, -1, out);
  for (int r = 0; r < l.rows; r++) {
    if (l.headings)
      print_heading(t, &l, r, out);
    print_line(t, &l, r, out);
  }
  name_hidden(t, &l, out);
  return fat_text_status(out, err);
}
