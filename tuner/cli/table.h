/* table.h -- rows of text in aligned columns, as wide as the place they are printed to. */
#ifndef FAT_TABLE_H
#define FAT_TABLE_H

#include "text.h"
#include <stdbool.h>

enum { FAT_TABLE_COLUMNS = 32 };

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
  char **cells; /* row after row */
  int cell_count, cell_room;
  bool failed;
} fat_table;

/* Adds the next cell (NULL or "": shown as '-'). Rows are as long as there are columns. */
void fat_table_add(fat_table *t, const char *cell);
void fat_table_addf(fat_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints into `out` with at most `width` columns of text (0: no limit): heading columns become lines of
 * their own first, then columns are left out, which a last line names. */
fat_status fat_table_print(const fat_table *t, int width, fat_text *out, fat_error *err);
void fat_table_free(fat_table *t);

#endif
