/* table.h -- rows of text in aligned columns, as wide as the place they are printed to. */
#ifndef FAT_TABLE_H
#define FAT_TABLE_H

#include "text.h"
#include <stdbool.h>

enum { FAT_TABLE_COLUMNS = 32, FAT_TABLE_MARKS = 256 };

typedef struct fat_column {
  const char *title;
  bool right;   /* numbers: flush right */
  int keep;     /* on a narrow terminal the column with the lowest goes first; the highest never goes */
  bool heading; /* its value changes rarely: on a narrow terminal it becomes a line above its rows */
} fat_column;

/* Cells are kept; freed by fat_table_free. Running out of memory shows in fat_table_print. */
typedef struct fat_table {
  const fat_column *columns;
  int column_count;
  const char *prose; /* the title of a column of sentences, or NULL: on a narrow terminal it is cut */
  char **cells;      /* row after row */
  int cell_count;
  int marked[FAT_TABLE_MARKS], mark_count; /* rows that matter most */
  bool failed;
} fat_table;

/* What the table is printed to. */
typedef struct fat_look {
  int width; /* columns of text; 0: no limit */
  bool
      glance; /* to a person: marks, and what all rows share in a line above. Programs get rows and no more */
  bool colour; /* of marked rows */
} fat_look;
/* Of stdout: a terminal, with colour unless NO_COLOR or TERM=dumb says otherwise. */
fat_look fat_table_look(void);

/* Adds the next cell (NULL or "": shown as '-'). Rows are as long as there are columns. */
void fat_table_add(fat_table *t, const char *cell);
void fat_table_addf(fat_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Marks the row that the last cell is of. */
void fat_table_mark(fat_table *t);

/* Prints into `out`, not wider than the look says: heading columns become lines of their own first, then
 * prose is cut and columns are left out, which a last line names. The points of numbers stand below each
 * other. */
fat_status fat_table_print(const fat_table *t, fat_look look, fat_text *out, fat_error *err);
void fat_table_free(fat_table *t);

#endif
