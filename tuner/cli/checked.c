/* checked.c -- a kernel that was verified, as a line of a table or an object of JSON.
 *
 * In: a verdict and how the kernel was stored. Out: cells, or an object. */
#include "checked.h"

#include <math.h>

void fat_checked_json(const fat_checked *row, fat_json *json)
{
  const fat_verdict *v = row->verdict;
  const bool right = v->outcome == FAT_OUT_OK;
  fat_json_open(json, NULL, '{');
  fat_json_string(json, "problem", row->problem);
  fat_json_string(json, "config", row->config);
  if (row->as)
    fat_json_string(json, "as", row->as);
  fat_json_bool(json, "right", right);
  fat_json_string(json, "outcome", fat_db_outcome_name(v->outcome));
  fat_json_double(json, "error", v->error_max);
  fat_json_double(json, "allowed", v->error_allowed);
  if (row->made)
    fat_json_double(json, row->as ? "proxy_ms" : "ms", v->timing.median);
  if (row->timed && row->then) {
    fat_json_double(json, "stored_ms", row->then->ms);
    fat_json_double(json, "ms", right ? v->timing.median : NAN);
    fat_json_double(json, "slower", row->slower);
    fat_json_string(json, "stored_driver", row->then->driver);
    fat_json_string(json, "driver", row->driver);
  }
  fat_json_string(json, "detail", v->detail);
  fat_json_close(json, '}');
}

void fat_checked_cells(const fat_checked *row, fat_table *table)
{
  const fat_verdict *v = row->verdict;
  const bool right = v->outcome == FAT_OUT_OK;
  fat_table_add(table, row->problem);
  fat_table_add(table, row->config);
  fat_table_add(table, right ? "right" : fat_db_outcome_name(v->outcome));
  fat_table_addf(table, "%.3g", v->error_max);
  fat_table_addf(table, "%.3g", v->error_allowed);
  if (row->made)
    fat_table_addf(table, isfinite(v->timing.median) ? "%.4g" : "-", v->timing.median);
  if (row->timed) {
    fat_table_addf(table, row->then ? "%.4g" : "-", row->then ? row->then->ms : 0);
    fat_table_addf(table, right ? "%.4g" : "-", v->timing.median);
    fat_table_addf(table, isfinite(row->slower) ? "%+.1f%%" : "-", 100 * row->slower);
    fat_table_add(table, row->then ? row->then->driver : "-");
  }
}

void fat_checked_sum(const fat_checked_counts *sum, const char *gpu, const char *as, const char *driver,
                     fat_text *text)
{
  fat_text_format(text, "%d of %d kernels are right on the %s at hand.\n", sum->checked - sum->bad,
                  sum->checked, gpu);
  if (as)
    fat_text_format(text,
                    "They are the %s's, as PTX that the driver compiled for the %s: the %s's machine code "
                    "and speed are not seen.\n",
                    as, gpu, as);
  if (sum->bare > 0)
    fat_text_format(text, "%d more came without binaries, by an import, and are not checked.\n", sum->bare);
  if (sum->misread > 0)
    fat_text_format(text,
                    "What racecheck or synccheck report of %d of them is what they misread in such kernels: "
                    "docs/measured.md, \"Memory, f32, sanitizers\".\n",
                    sum->misread);
  if (driver)
    fat_text_format(text, "%d take more than %.0f %% longer than when they were tuned (driver %s now).\n",
                    sum->slower, 100 * FAT_CHECKED_NOTICEABLE, driver);
}
