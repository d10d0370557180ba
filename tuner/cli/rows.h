/* rows.h -- rows of a view of the database: chosen, ordered and counted as the options say, in every form. */
#ifndef FAT_ROWS_H
#define FAT_ROWS_H

#include "db.h"
#include "options.h"

enum { FAT_ROWS_COLUMNS = 64, FAT_ROWS_KEY = 5 };

typedef struct fat_rows {
  char *names[FAT_ROWS_COLUMNS];
  int column_count;
  int key[FAT_ROWS_KEY]; /* the columns that tell one trial from another; -1: the view has none such */
  char ***row;           /* its cells, in the order of the names */
  char **json;           /* the same row as an object */
  int count;             /* of those that were chosen */
  int shipped;           /* of a package, and left out */
  fat_text text, objects;
} fat_rows;

/* Reads a view; --gpu, --problem, --kernel and --origin choose rows, --sort and --top order and cut them.
 * Without any of these and with `own`, rows of a package are left out and counted where the user has some.
 * FAT_E_INPUT names a column that the view lacks. */
fat_status fat_rows_read(fat_db *db, const char *view, const fat_options *options, bool own, fat_rows *rows,
                         fat_error *err);
void fat_rows_free(fat_rows *rows);

/* The place of a column, or -1. */
int fat_rows_column(const fat_rows *rows, const char *name);
/* What tells the trial of a row from all others: config, problem, device, source and date; false: the view
 * lacks one of these. */
bool fat_rows_trial(const fat_rows *rows, int row, const char *trial[FAT_ROWS_KEY]);
/* Whether one of the rows is that trial. */
bool fat_rows_have(const fat_rows *rows, const char *const trial[FAT_ROWS_KEY]);
/* Whether a goal names the kernel, alone or with its config; where it names none, any is asked for. */
bool fat_rows_asks_for(const fat_goal *goal, const char *kernel, const char *config);
/* Whether the options leave rows out or order them. */
bool fat_rows_filtered(const fat_options *options);

void fat_rows_csv(const fat_rows *rows, fat_text *out);
void fat_rows_json(const fat_rows *rows, fat_text *out);

#endif
