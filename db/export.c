/* export.c -- the user's trials as JSON lines: parameters and results, no binaries, no source, no names.
 *
 * One object a line, written by SQLite, in the form import.c reads. What says who or where (command, host)
 * and compiler logs stay at home. */
#include "private.h"

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

fat_status fat_db_export(fat_db *db, fat_text *out, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  bool row = true;
  FAT_TRY(fat_db_ready(db, false, err));
  FAT_TRY(fat_db_prepare(db, db->sql, LINES, &stmt, err));
  fat_status status = FAT_OK;
  while (status == FAT_OK && !out->failed) {
    status = fat_db_step(db, stmt, &row, err);
    if (status != FAT_OK || !row)
      break;
    const char *line = (const char *)sqlite3_column_text(stmt, 0);
    if (!line)
      status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for an export");
    fat_text_add(out, line ? line : "");
    fat_text_add(out, "\n");
  }
  sqlite3_finalize(stmt);
  return status == FAT_OK ? fat_text_status(out, err) : status;
}
