/* import.c -- rows from elsewhere as JSON lines (take.c). Parameters and results; source and binaries are
 * made here, by our own templates and compiler. One transaction: all of an import counts, or nothing of it.
 * A line that holds an object "shared" is no row: the rows below it, up to the next such line, have what it
 * says and they do not. */
#include "private.h"
#include "prose.h"
#include <stdlib.h>
#include <string.h>

/* Of a row, which may have 100,000 samples, and of what rows share, which is read again for each of them. */
enum { LINE_MAX_BYTES = 1 << 22, SHARED_MAX_BYTES = 1 << 16 };

/* Of the line ?1. json_type comes first: it fails where memory is short, and there json_valid of SQLite 3.40
 * says that the line is no JSON. json_valid keeps out what json_type takes since JSON5. */
#define IS_OBJECT "json_type(?1) = 'object' AND json_valid(?1)"

/* What lines of version 1.0 said in sentences. */
static const struct {
  fat_db_column column;
  const char *sql;
} prose[] = {
    {FAT_ROW_twin_of, FAT_PROSE_TWIN_OF("detail")}, {FAT_ROW_race, FAT_PROSE_RACE("detail")},
    {FAT_ROW_rivals, FAT_PROSE_RIVALS("detail")},   {FAT_ROW_made_as, FAT_PROSE_MADE_AS("detail")},
    {FAT_ROW_detail, FAT_PROSE_DETAIL("detail")},   {FAT_ROW_driver, FAT_PROSE_DRIVER("driver")},
    {FAT_ROW_made_by, FAT_PROSE_MADE_BY("driver")},
};

static const char *prose_of(int column)
{
  for (size_t i = 0; i < sizeof prose / sizeof *prose; i++)
    if ((int)prose[i].column == column)
      return prose[i].sql;
  return NULL;
}

/* A value of JSON, by its path; a blob, which no column is, for one that SQLite would take as a number or a
 * text. */
#define VALUE                                                                                                \
  "iif(json_type(j, '$.%1$s') IN ('true', 'false', 'array', 'object'), x'', json_extract(j, '$.%1$s'))"

/* A line ?1 as a row, over what the lines above share, ?2. */
static fat_status line_sql(fat_text *sql, fat_error *err)
{
  for (int i = 0; i < FAT_ROW_COUNT; i++) {
    const fat_db_field *f = &fat_db_fields[i];
    const char *old = prose_of(i);
    fat_text_add(sql, i ? ", " : "SELECT ");
    if (!fat_db_travels(f))
      fat_text_add(sql, "NULL");
    else if (f->value == FAT_VALUE_SAMPLES)
      fat_text_add(sql, "iif(coalesce(json_type(?1, '$.samples'), 'null') IN ('null', 'array'),"
                        " coalesce(json_array_length(?1, '$.samples'), 0), x'')");
    else if (old)
      fat_text_format(sql, "iif(old, %2$s, " VALUE ")", f->path, old);
    else
      fat_text_format(sql, VALUE, f->path);
  }
  fat_text_add(sql, " FROM (SELECT j, json_type(j, '$.made_by') IS NULL AS old");
  fat_text_format(sql, ", " VALUE " AS %1$s", "detail");
  fat_text_format(sql, ", " VALUE " AS %1$s", "driver");
  fat_text_add(sql, " FROM (SELECT json_patch(coalesce(?2, '{}'), ?1) AS j WHERE " IS_OBJECT "))");
  return fat_text_status(sql, err);
}

static const char LINE_NEWER[] = "SELECT json_extract(?1, '$.fatune') > 1",
                  LINE_SHARED[] = "SELECT json_extract(?1, '$.shared') WHERE " IS_OBJECT
                                  " AND json_type(?1, '$.shared') = 'object'";
/* A time or a clock: what is no number is a text, which fat_db_row_samples refuses. */
#define NUMBER "iif(type IN ('null', 'integer', 'real'), value, 'no number')"
/* As FAT_DB_TIMES; grouped, since a join would walk all clocks for each sample. Kinds that are no object have
 * no names. */
static const char LINE_TIMES[] =
    "SELECT max(ms), max(clock), NULL, place FROM"
    " (SELECT " NUMBER " AS ms, NULL AS clock, key AS place, 1 AS timed"
    " FROM json_each(?1, '$.samples') WHERE json_type(?1, '$.samples') = 'array'"
    " UNION ALL SELECT NULL, " NUMBER
    ", key, 0 FROM json_each(?1, '$.clocks')) GROUP BY place HAVING max(timed)"
    " UNION ALL SELECT " NUMBER ", NULL, iif(json_type(?1, '$.kinds') = 'object', key, ''), 1000000 + id"
    " FROM json_each(?1, '$.kinds') WHERE json_type(?1, '$.kinds') <> 'null' ORDER BY place";

typedef struct reading {
  fat_db *db;
  sqlite3_stmt *row, *samples, *shared, *newer;
  fat_text common; /* what the rows share; empty: nothing */
  fat_db_row space;
  fat_import *counts;
} reading;

static fat_status bind_line(reading *r, sqlite3_stmt *stmt, const char *line, size_t length, fat_error *err)
{
  if (sqlite3_bind_text(stmt, 1, line, (int)length, SQLITE_STATIC) == SQLITE_OK)
    return FAT_OK;
  return fat_db_fail(r->db, r->db->sql, "importing", err);
}

/* Whether the line is written in a later way, which may mean something else by the same names. */
static fat_status look_newer(reading *r, const char *line, size_t length, bool *newer, fat_error *err)
{
  bool found = false;
  FAT_TRY(bind_line(r, r->newer, line, length, err));
  fat_status status = fat_db_step(r->db, r->newer, &found, err);
  *newer = status == FAT_OK && found && sqlite3_column_int(r->newer, 0) == 1;
  fat_db_release(r->newer);
  return status;
}

/* *found: the line says what the rows below it share, and is done with. */
static fat_status take_shared(reading *r, const char *line, size_t length, bool *found, fat_error *err)
{
  FAT_TRY(bind_line(r, r->shared, line, length, err));
  fat_status status = fat_db_step(r->db, r->shared, found, err);
  if (status == FAT_OK && *found) {
    const char *text = (const char *)sqlite3_column_text(r->shared, 0);
    fat_text_clear(&r->common);
    fat_text_add(&r->common, text ? text : "");
    status = text ? fat_text_status(&r->common, err)
                  : fat_status_fail(err, FAT_E_NOMEM, "out of memory for a line");
  }
  fat_db_release(r->shared);
  return status;
}

/* *found: the line is a row, on which the statement stands. */
static fat_status find_row(reading *r, const char *line, size_t length, bool *found, fat_error *err)
{
  FAT_TRY(bind_line(r, r->row, line, length, err));
  FAT_TRY(bind_line(r, r->samples, line, length, err));
  if (r->common.length && sqlite3_bind_text(r->row, 2, fat_text_get(&r->common), (int)r->common.length,
                                            SQLITE_STATIC) != SQLITE_OK)
    return fat_db_fail(r->db, r->db->sql, "importing", err);
  return fat_db_step(r->db, r->row, found, err);
}

static fat_status take_line(reading *r, const char *line, size_t length, long number, fat_error *err)
{
  bool shared = false, found = false, newer = false;
  fat_error why = {0};
  if (length > LINE_MAX_BYTES) {
    fat_db_take_refuse(r->counts, "line", number, "longer than 4 MiB");
    return FAT_OK;
  }
  fat_status status = look_newer(r, line, length, &newer, &why);
  if (newer) {
    fat_db_take_refuse(r->counts, "line", number, "written by a newer fatune, in another way: update fatune");
    return FAT_OK;
  }
  if (status == FAT_OK)
    status = take_shared(r, line, length, &shared, &why);
  if (status == FAT_OK && shared && r->common.length > SHARED_MAX_BYTES) {
    fat_text_clear(&r->common);
    fat_db_take_refuse(r->counts, "line", number, "what rows share is longer than 64 KiB");
  }
  if (status == FAT_OK && !shared)
    status = find_row(r, line, length, &found, &why);
  if (status == FAT_E_DB) /* SQLite's "malformed JSON" */
    status = FAT_OK;
  if (status == FAT_OK && found)
    status = fat_db_take_row(r->db, r->row, r->samples, &r->space, "line", number, r->counts, &why);
  else if (status == FAT_OK && !shared)
    fat_db_take_refuse(r->counts, "line", number, "no JSON object");
  fat_db_release(r->row);
  fat_db_release(r->samples);
  return status == FAT_OK ? status : fat_status_fail(err, status, "%s", why.text);
}

static bool is_blank(const char *text, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
      return false;
  return true;
}

static fat_status take_lines(fat_db *db, const char *text, size_t length, fat_import *counts, fat_error *err)
{
  reading r = {.db = db, .counts = counts};
  const char *end = text + length;
  long number = 0;
  fat_text sql = {0};
  fat_status status = line_sql(&sql, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, fat_text_get(&sql), &r.row, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, LINE_TIMES, &r.samples, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, LINE_SHARED, &r.shared, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, LINE_NEWER, &r.newer, err);
  while (status == FAT_OK && text < end) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    size_t n = (size_t)((stop ? stop : end) - text);
    number++;
    if (!is_blank(text, n))
      status = take_line(&r, text, n, number, err);
    text = stop ? stop + 1 : end;
  }
  sqlite3_finalize(r.row);
  sqlite3_finalize(r.samples);
  sqlite3_finalize(r.shared);
  sqlite3_finalize(r.newer);
  fat_db_row_free(&r.space);
  fat_text_free(&r.common);
  fat_text_free(&sql);
  return status;
}

static fat_status import(fat_db *db, const char *json_lines, size_t length, bool any_date, fat_import *counts,
                         fat_error *err)
{
  *counts = (fat_import){.any_date = any_date};
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_begin(db, err));
  fat_status status = take_lines(db, json_lines, length, counts, err);
  status = fat_db_end(db, status, err);
  if (status != FAT_OK)
    memset(counts, 0, sizeof *counts);
  return status;
}

fat_status fat_db_import(fat_db *db, const char *json_lines, size_t length, fat_import *counts,
                         fat_error *err)
{
  return import(db, json_lines, length, false, counts, err);
}

fat_status fat_db_import_shipped(fat_db *db, const char *json_lines, size_t length, fat_import *counts,
                                 fat_error *err)
{
  return import(db, json_lines, length, true, counts, err);
}
