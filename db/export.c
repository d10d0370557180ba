/* export.c -- the user's trials as JSON lines: parameters and results, no binaries, no source, no names.
 *
 * One object a line, written by SQLite, in the form import.c reads. What says who or where (command, host)
 * and compiler logs stay at home. The winners alone are a text that lies under version control: rows stand in
 * an order of their own, what they share is written once above them, numbers have six digits. */
#include "private.h"
#include "width.h"
#include <stdlib.h>
#include <string.h>

static const char LINES[] =
    "SELECT json_object('fatune', 1, 'problem', p.text, 'gpu', json_object('name', d.name, 'sm', d.sm, "
    "'sms', d.sms,"
    " 'shared_block', d.shared_block, 'shared_sm', d.shared_sm, 'l2', d.l2, 'bus', d.bus, 'clock', d.clock,"
    " 'memory_clock', d.memory_clock, 'dram', d.dram, 'memory', d.memory), 'config', t.config,"
    " 'eligible', t.eligible, 'source', t.source, 'templates', t.templates, 'compile_key', k.compile_key,"
    " 'driver', k.driver, 'nvrtc', coalesce(r.nvrtc, ''), 'version', coalesce(r.version, ''),"
    " 'outcome', t.outcome, 'origin', t.origin, 'ms', t.ms, 'p20', t.p20, 'p80', t.p80,"
    " 'clock_mhz', t.clock_mhz, 'error_max', t.error_max, 'error_allowed', t.error_allowed,"
    " 'limit_by', t.limit_by, 'registers', t.registers, 'stack', t.stack, 'spills', t.spills,"
    " 'shared', t.shared, 'blocks_per_sm', t.blocks_per_sm, 'compile_seconds', t.compile_seconds,"
    " 'samples', json((SELECT json_group_array(ms) FROM (SELECT ms FROM main.sample WHERE trial = t.id ORDER "
    "BY n))),"
    " 'clocks', json((SELECT json_group_array(clock)"
    " FROM (SELECT clock FROM main.sample WHERE trial = t.id ORDER BY n))),"
    " 'detail', t.detail, 'date', t.date)"
    " FROM main.trial t JOIN main.problem p ON p.id = t.problem JOIN main.device d ON d.id = t.device"
    " JOIN main.toolchain k ON k.id = t.toolchain LEFT JOIN main.run r ON r.id = t.run ORDER BY t.id";

/* Column 0 of a row is a line; column 1, where there is one, is what the lines share from there on. */
static fat_status print(fat_db *db, sqlite3_stmt *stmt, fat_text *out, fat_error *err)
{
  bool row = true, shares = sqlite3_column_count(stmt) > 1;
  char *shared = NULL;
  fat_status status = FAT_OK;
  while (status == FAT_OK && !out->failed) {
    status = fat_db_step(db, stmt, &row, err);
    if (status != FAT_OK || !row)
      break;
    const char *line = (const char *)sqlite3_column_text(stmt, 0);
    const char *now = shares ? (const char *)sqlite3_column_text(stmt, 1) : NULL;
    if (now && (!shared || strcmp(shared, now) != 0)) {
      fat_text_format(out, "%s\n", now);
      free(shared);
      shared = strdup(now);
    }
    if (!line || (shares && !shared))
      status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for an export");
    fat_text_format(out, "%s\n", line ? line : "");
  }
  free(shared);
  return status == FAT_OK ? fat_text_status(out, err) : status;
}

fat_status fat_db_export(fat_db *db, fat_text *out, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  FAT_TRY(fat_db_ready(db, false, err));
  FAT_TRY(fat_db_prepare(db, db->sql, LINES, &stmt, err));
  fat_status status = print(db, stmt, out, err);
  sqlite3_finalize(stmt);
  return status;
}

/* -- the winners */

/* Of a problem and device: the winner; of each other kernel that may win unasked the best, and of each such
 * kernel the twins and the best that takes any tensors. Of kernels that are only used when asked for the
 * same, at the largest problem of a family: others are served by it. None that would win in the winner's
 * place where only these rows are known: a winner that a rule chose among equals may be a little slower than
 * another. */
static const char CHOSEN[] =
    "WITH good AS (SELECT t.id, t.problem, t.device, t.kernel, t.config, t.ms, t.detail, t.eligible,"
    " t.config LIKE '%-W1' OR t.config LIKE '%-W1-%' OR t.config LIKE '%:W1-%' AS narrow,"
    " dense_rank() OVER (PARTITION BY p.family, t.device ORDER BY p.flops DESC, p.text) AS size"
    " FROM main.trial t JOIN main.problem p ON p.id = t.problem"
    " WHERE t.origin = 'measured' AND t.outcome = 'ok' AND t.current = 1 AND t.ms > 0),"
    " first AS (SELECT g.* FROM good g JOIN main.winner w ON w.trial = g.id),"
    " beside AS (SELECT g.*, row_number() OVER (PARTITION BY g.problem, g.device, g.kernel ORDER BY g.ms,"
    " g.config) AS place, row_number() OVER (PARTITION BY g.problem, g.device, g.kernel, g.narrow"
    " ORDER BY g.ms, g.config) AS width_place, f.kernel AS first_kernel"
    " FROM good g LEFT JOIN first f ON f.problem = g.problem AND f.device = g.device"
    " WHERE g.id IS NOT f.id AND iif(g.eligible, g.ms >= f.ms, g.size = 1)),"
    " kept AS (SELECT id, 1 AS wins FROM first UNION ALL SELECT id, 0 FROM beside"
    " WHERE (place = 1 AND kernel IS NOT first_kernel)"
    " OR (narrow AND (width_place = 1 OR substr(detail, 1, length(?2)) = ?2)))";

static const char ORDERED[] =
    " FROM kept JOIN main.trial t ON t.id = kept.id JOIN main.problem p ON p.id = t.problem"
    " JOIN main.device d ON d.id = t.device JOIN main.toolchain k ON k.id = t.toolchain"
    " LEFT JOIN main.run r ON r.id = t.run WHERE ?1 IS NULL OR d.facts = ?1"
    " ORDER BY shared, p.op, p.dtype, p.d, p.dv, p.family, p.q, p.k, p.b, p.h, p.hk, kept.wins DESC,"
    " t.kernel, t.config";

typedef struct field {
  const char *name, *column;
  enum { AS_IT_IS, SHORT, SAMPLES } form;
} field;

static const field row_fields[] = {
    {"problem", "p.text", AS_IT_IS},
    {"config", "t.config", AS_IT_IS},
    {"ms", "t.ms", SHORT},
    {"p20", "t.p20", SHORT},
    {"p80", "t.p80", SHORT},
    {"samples", "ms", SAMPLES},
    {"clock_mhz", "t.clock_mhz", SHORT},
    {"error_max", "t.error_max", SHORT},
    {"error_allowed", "t.error_allowed", SHORT},
    {"eligible", "t.eligible", AS_IT_IS},
    {"limit_by", "t.limit_by", AS_IT_IS},
    {"registers", "t.registers", AS_IT_IS},
    {"stack", "t.stack", AS_IT_IS},
    {"spills", "t.spills", AS_IT_IS},
    {"shared", "t.shared", AS_IT_IS},
    {"blocks_per_sm", "t.blocks_per_sm", AS_IT_IS},
    {"source", "t.source", AS_IT_IS},
    {"detail", "t.detail", AS_IT_IS},
    {"date", "t.date", AS_IT_IS},
};
static const field shared_fields[] = {
    {"driver", "k.driver", AS_IT_IS},
    {"compile_key", "k.compile_key", AS_IT_IS},
    {"nvrtc", "coalesce(r.nvrtc, '')", AS_IT_IS},
    {"version", "coalesce(r.version, '')", AS_IT_IS},
    {"templates", "t.templates", AS_IT_IS},
    {"outcome", "t.outcome", AS_IT_IS},
    {"origin", "t.origin", AS_IT_IS},
};
static const field gpu_fields[] = {
    {"name", "d.name", AS_IT_IS},
    {"sm", "d.sm", AS_IT_IS},
    {"sms", "d.sms", AS_IT_IS},
    {"shared_block", "d.shared_block", AS_IT_IS},
    {"shared_sm", "d.shared_sm", AS_IT_IS},
    {"l2", "d.l2", AS_IT_IS},
    {"bus", "d.bus", AS_IT_IS},
    {"clock", "d.clock", AS_IT_IS},
    {"memory_clock", "d.memory_clock", AS_IT_IS},
    {"dram", "d.dram", AS_IT_IS},
    {"memory", "d.memory", AS_IT_IS},
};
#define COUNT(array) (sizeof array / sizeof *array)

/* More than six digits are noise, and would change with every run. Samples are those of winners alone. */
static const char *const forms[] = {
    [AS_IT_IS] = "%s",
    [SHORT] = "iif(%1$s IS NULL, NULL, CAST(PRINTF('%%.6g', %1$s) AS REAL))",
    [SAMPLES] = ("iif(kept.wins, json((SELECT json_group_array(x) FROM (SELECT CAST(PRINTF('%%.6g', %1$s) AS"
                 " REAL) AS x FROM main.sample WHERE trial = t.id ORDER BY n))), NULL)"),
};

/* 'name', expression, ... */
static void add_fields(fat_text *sql, const field *fields, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    fat_text_format(sql, "%s'%s', ", i ? ", " : "", fields[i].name);
    fat_text_format(sql, forms[fields[i].form], fields[i].column);
  }
}

static fat_status winners_sql(fat_text *sql, fat_error *err)
{
  fat_text_format(sql, "%s SELECT json_object(", CHOSEN);
  add_fields(sql, row_fields, COUNT(row_fields));
  fat_text_add(sql, "), json_object('fatune', 1, 'shared', json_object('gpu', json_object(");
  add_fields(sql, gpu_fields, COUNT(gpu_fields));
  fat_text_add(sql, "), ");
  add_fields(sql, shared_fields, COUNT(shared_fields));
  fat_text_format(sql, ")) AS shared%s", ORDERED);
  return fat_text_status(sql, err);
}

fat_status fat_db_export_winners(fat_db *db, const char *gpu, fat_text *out, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  fat_text sql = {0};
  FAT_TRY(fat_db_ready(db, false, err));
  fat_status status = winners_sql(&sql, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, fat_text_get(&sql), &stmt, err);
  if (status == FAT_OK)
    status = fat_db_bind(db, stmt, err, "tt", gpu, FAT_WIDTH_TWIN);
  if (status == FAT_OK)
    status = print(db, stmt, out, err);
  sqlite3_finalize(stmt);
  fat_text_free(&sql);
  return status;
}
