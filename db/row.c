/* row.c -- a trial as a row: the one place where stored or imported values become a fat_trial, and back.
 *
 * In: a statement with the columns of columns.def, from our file, a foreign one or a JSON line. Out: a row
 * in which every value was checked (texts through their own readers, numbers against ranges), or
 * FAT_E_CORRUPT with the first thing wrong. The same check guards what is stored. */
#include "private.h"
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int index_of(const char *const *names, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

/* -- one value */

typedef struct reader {
  sqlite3_stmt *stmt;
  fat_error *err;
  fat_status status; /* of the first value that is wrong */
} reader;

static void wrong(reader *r, fat_db_column column, const char *why)
{
  if (r->status == FAT_OK)
    r->status = fat_status_fail(
        r->err, FAT_E_CORRUPT, "%s %s",
        column == FAT_ROW_name ? fat_db_fields[column].path : fat_db_fields[column].name, why);
}

/* A text of at most `most` bytes without control characters other than line ends and tabs; "" for NULL. */
static const char *text_of(reader *r, fat_db_column column, size_t most)
{
  int type = sqlite3_column_type(r->stmt, column);
  if (type == SQLITE_NULL)
    return "";
  const char *text = type == SQLITE_TEXT ? (const char *)sqlite3_column_text(r->stmt, column) : NULL;
  if (!text) {
    if (type == SQLITE_TEXT)
      r->status = fat_status_fail(r->err, FAT_E_NOMEM, "out of memory for a row");
    else
      wrong(r, column, "is no text");
    return "";
  }
  if (strlen(text) == (size_t)sqlite3_column_bytes(r->stmt, column) && fat_db_is_text(text, most))
    return text;
  wrong(r, column, "is too long or has bytes that are no text");
  return "";
}

/* Ranges are fat_db_trial_check's; here only what an int holds. */
static int64_t integer_of(reader *r, fat_db_column column)
{
  if (sqlite3_column_type(r->stmt, column) != SQLITE_INTEGER)
    wrong(r, column, "is no whole number");
  return sqlite3_column_int64(r->stmt, column);
}

static int int_of(reader *r, fat_db_column column)
{
  int64_t value = integer_of(r, column);
  if (value < INT_MIN || value > INT_MAX)
    wrong(r, column, "is out of range");
  return (int)value;
}

/* NAN for NULL. */
static double real_of(reader *r, fat_db_column column)
{
  int type = sqlite3_column_type(r->stmt, column);
  if (type == SQLITE_NULL)
    return NAN;
  if (type != SQLITE_FLOAT && type != SQLITE_INTEGER)
    wrong(r, column, "is no number");
  return sqlite3_column_double(r->stmt, column);
}

static int name_of(reader *r, fat_db_column column, const char *const *names, int count)
{
  int index = index_of(names, count, text_of(r, column, 32));
  if (index < 0)
    wrong(r, column, "is unknown");
  return index < 0 ? 0 : index;
}

/* -- a row */

/* 2025-11-21T03:07:00Z, or with a fraction of the second. */
static bool is_date(const char *date)
{
  const char *form = "dddd-dd-ddTdd:dd:dd";
  for (; *form; form++, date++)
    if (*form == 'd' ? !fat_text_is_digit(*date) : *date != *form)
      return false;
  if (*date == '.')
    for (date++; fat_text_is_digit(*date); date++)
      ;
  return strcmp(date, "Z") == 0;
}

/* Takes over the verdict of a reader of texts. */
static void parsed(reader *r, fat_status status, const fat_error *why)
{
  if (r->status == FAT_OK && status != FAT_OK)
    r->status = fat_status_fail(r->err, FAT_E_CORRUPT, "%s", why->text);
}

/* One value to its member of the row. */
static void read_value(reader *r, fat_db_column at, fat_db_row *row)
{
  const fat_db_field *f = &fat_db_fields[at];
  void *to = (char *)row + f->member;
  const char *text;
  fat_error why = {0};
  switch (f->value) {
  case FAT_VALUE_ID:
    *(int64_t *)to = sqlite3_column_type(r->stmt, at) == SQLITE_NULL ? 0 : integer_of(r, at);
    break;
  case FAT_VALUE_WHOLE:
  case FAT_VALUE_SAMPLES:
    *(int *)to = int_of(r, at);
    break;
  case FAT_VALUE_LONG:
    *(int64_t *)to = integer_of(r, at);
    break;
  case FAT_VALUE_REAL:
  case FAT_VALUE_KNOWN:
    *(double *)to = real_of(r, at);
    break;
  case FAT_VALUE_WORD:
  case FAT_VALUE_TEXT:
  case FAT_VALUE_LOG:
    *(const char **)to = text_of(r, at, (size_t)f->high);
    break;
  case FAT_VALUE_NAME:
    text = text_of(r, at, sizeof row->trial.gpu.name - 1);
    memcpy(to, text, strlen(text) + 1);
    break;
  case FAT_VALUE_DATE:
    *(const char **)to = text = text_of(r, at, (size_t)f->high);
    if (!is_date(text))
      wrong(r, at, "is no UTC date as 2025-11-21T03:07:00Z");
    break;
  case FAT_VALUE_OUTCOME:
    row->trial.outcome = (fat_outcome)name_of(r, at, fat_db_outcomes, FAT_OUTCOME_COUNT);
    break;
  case FAT_VALUE_ORIGIN:
    row->trial.origin = (fat_origin)name_of(r, at, fat_db_origins, FAT_ORIGIN_COUNT);
    break;
  case FAT_VALUE_PROBLEM:
    parsed(r, fat_problem_parse(text_of(r, at, (size_t)f->high), to, &why), &why);
    break;
  case FAT_VALUE_CONFIG:
    parsed(r, fat_config_parse(text_of(r, at, (size_t)f->high), to, &why), &why);
    break;
  case FAT_VALUE_FACTS: /* once its numbers are read */
    break;
  }
}

fat_status fat_db_row_read(sqlite3_stmt *stmt, fat_db_row *row, fat_error *err)
{
  reader r = {stmt, err, FAT_OK};
  fat_trial *t = &row->trial;
  char facts[FAT_GPU_FACTS];
  memset(t, 0, sizeof *t);
  for (int i = 0; i < FAT_ROW_COUNT; i++)
    read_value(&r, (fat_db_column)i, row);
  /* An imported row has no text of facts; where there is one it must say the same. */
  const char *stored = text_of(&r, FAT_ROW_facts, sizeof facts);
  if (*stored && strcmp(stored, fat_gpu_facts(&t->gpu, facts)) != 0)
    wrong(&r, FAT_ROW_facts, "does not agree with the device's numbers");
  fat_error why = {0};
  if (r.status == FAT_OK)
    parsed(&r, fat_db_trial_check(t, &why), &why);
  if (r.status == FAT_OK)
    parsed(&r, fat_db_mods_know(&t->problem, row->mod, row->mask_mod, &why), &why);
  return r.status;
}

/* JSON has no infinity: an endless error is stored as a huge one. */
static int bind_real(sqlite3_stmt *stmt, int at, double value)
{
  return isnan(value) ? sqlite3_bind_null(stmt, at) : sqlite3_bind_double(stmt, at, fmin(value, 1e300));
}

static int bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
  return sqlite3_bind_text(stmt, at, text ? text : "", -1, SQLITE_TRANSIENT);
}

/* A text that may have any bytes. */
static int bind_cleaned(sqlite3_stmt *stmt, int at, const char *text, size_t most)
{
  char *clean = fat_db_clean(text, most);
  return clean ? sqlite3_bind_text(stmt, at, clean, -1, free) : SQLITE_NOMEM;
}

static int bind_value(sqlite3_stmt *stmt, int at, const fat_db_field *f, const fat_trial *t)
{
  const void *from = (const char *)t + f->member;
  char config[FAT_CONFIG_TEXT];
  switch (f->value) {
  case FAT_VALUE_WHOLE:
    return sqlite3_bind_int(stmt, at, *(const int *)from);
  case FAT_VALUE_SAMPLES:
    return sqlite3_bind_int(stmt, at, t->samples ? t->sample_count : 0);
  case FAT_VALUE_REAL:
    return bind_real(stmt, at, *(const double *)from);
  case FAT_VALUE_TEXT:
  case FAT_VALUE_LOG:
    return bind_cleaned(stmt, at, *(const char *const *)from, (size_t)f->high);
  case FAT_VALUE_OUTCOME:
    return bind_text(stmt, at, fat_db_outcome_name(t->outcome));
  case FAT_VALUE_ORIGIN:
    return bind_text(stmt, at, fat_db_origin_name(t->origin));
  case FAT_VALUE_CONFIG:
    return bind_text(stmt, at, fat_config_print(&t->config, config));
  default:
    return bind_text(stmt, at, *(const char *const *)from);
  }
}

fat_status fat_db_row_bind(fat_db *db, sqlite3_stmt *stmt, int first, const fat_trial *trial, fat_error *err)
{
  for (int i = 0; i < FAT_ROW_COUNT; i++)
    if (fat_db_fields[i].table == 'T' && bind_value(stmt, first++, &fat_db_fields[i], trial) != SQLITE_OK) {
      fat_status status = fat_db_fail(db, db->sql, "storing a trial", err);
      fat_db_release(stmt);
      return status;
    }
  return FAT_OK;
}

/* One more kind of the trial; each has a name of its own. */
static fat_status add_kind(sqlite3_stmt *stmt, fat_trial *t, fat_error *err)
{
  const char *name = (const char *)sqlite3_column_text(stmt, 2);
  const int type = sqlite3_column_type(stmt, 0);
  const double ms = type == SQLITE_FLOAT || type == SQLITE_INTEGER ? sqlite3_column_double(stmt, 0) : 0;
  const size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") : 0;
  bool good = n > 0 && n < FAT_KIND_TIME_NAME && n == (size_t)sqlite3_column_bytes(stmt, 2) && ms > 0 &&
              ms <= FAT_DB_MS && t->kind_count < FAT_KIND_TIMES;
  for (int i = 0; good && i < t->kind_count; i++)
    good = strcmp(t->kinds[i].name, name) != 0;
  if (!good)
    return fat_status_fail(err, FAT_E_CORRUPT, "kinds of data are no names with times");
  fat_kind_time *kind = &t->kinds[t->kind_count++];
  memcpy(kind->name, name, n + 1);
  kind->ms = ms;
  return FAT_OK;
}

fat_status fat_db_row_samples(sqlite3_stmt *stmt, fat_db_row *row, fat_error *err)
{
  fat_trial *t = &row->trial;
  fat_status status = FAT_OK;
  int count = 0, rc;
  if (t->sample_count > row->room) {
    double *times = realloc(row->times, (size_t)t->sample_count * sizeof *times);
    row->times = times ? times : row->times;
    double *clocks = times ? realloc(row->clocks, (size_t)t->sample_count * sizeof *clocks) : NULL;
    row->clocks = clocks ? clocks : row->clocks;
    if (!clocks) {
      fat_db_release(stmt);
      return fat_status_fail(err, FAT_E_NOMEM, "out of memory for %d samples", t->sample_count);
    }
    row->room = t->sample_count;
  }
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && status == FAT_OK) {
    if (sqlite3_column_type(stmt, 2) != SQLITE_NULL) {
      status = add_kind(stmt, t, err);
      continue;
    }
    double ms = sqlite3_column_double(stmt, 0);
    int type = sqlite3_column_type(stmt, 0), clock = sqlite3_column_type(stmt, 1);
    bool known = clock == SQLITE_FLOAT || clock == SQLITE_INTEGER;
    if (count >= t->sample_count || (type != SQLITE_FLOAT && type != SQLITE_INTEGER) ||
        !(ms >= 0 && ms <= FAT_DB_MS) || (!known && clock != SQLITE_NULL)) {
      status = fat_status_fail(err, FAT_E_CORRUPT, "samples do not agree with their number or range");
      break;
    }
    row->times[count] = ms;
    row->clocks[count++] = known ? sqlite3_column_double(stmt, 1) : NAN;
  }
  if (status == FAT_OK && rc != SQLITE_DONE)
    status = fat_status_fail(
        err, (rc & 0xff) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM ? FAT_E_NOMEM : FAT_E_CORRUPT,
        "samples cannot be read");
  if (status == FAT_OK && count != t->sample_count)
    status = fat_status_fail(err, FAT_E_CORRUPT, "samples do not agree with their number");
  fat_db_release(stmt);
  t->samples = row->times;
  t->clocks = row->clocks;
  return status;
}

void fat_db_row_free(fat_db_row *row)
{
  free(row->times);
  free(row->clocks);
  row->times = row->clocks = NULL;
  row->room = 0;
}
