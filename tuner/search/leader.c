/* leader.c -- so that the file can be carried to the GPU: the best of each kernel lie in it as cubins.
 *
 * In: trials as they end, then the database. Out: artifacts of one row per line. Rows of a run that was
 * killed may lack theirs; the next run finds that and compiles those few again. */
#include "leader.h"

#include "rows.h"

#include <math.h>
#include <string.h>

bool fat_keep_offer(fat_keep *keep, fat_job *job)
{
  bool clean = job->outcome == FAT_OUT_OK && isfinite(job->forecast.ms);
  if (!clean || (keep->held && keep->job.forecast.ms <= job->forecast.ms))
    return false;
  fat_keep_free(keep);
  keep->held = true;
  keep->job = *job;
  job->source = (fat_source){0};
  job->binary = (fat_binary){0};
  return true;
}

/* Whether the stored best of the line's kernel is `row` and has its cubin. */
static fat_status is_stored(const fat_line *line, const fat_order *order, const fat_row *row, bool *stored,
                            fat_error *err)
{
  fat_best best;
  fat_status status =
      fat_db_best(order->db, &line->ask->problem, order->gpu, line->kernel->name, true, &best, err);
  *stored = false;
  if (status == FAT_E_NOT_FOUND)
    return FAT_OK;
  FAT_TRY(status);
  *stored = best.trial.id == row->id && best.cubin;
  fat_db_best_free(&best);
  return FAT_OK;
}

static bool holds(const fat_keep *keep, const fat_row *row)
{
  char config[FAT_CONFIG_TEXT];
  return keep->held && keep->job.binary.cubin && strcmp(keep->job.source.hash, row->source_hash) == 0 &&
         strcmp(fat_config_print(&keep->job.point->config, config), row->config) == 0;
}

fat_status fat_keep_again(const fat_problem *p, const fat_order *order, const fat_row *row, fat_error *err)
{
  fat_config config;
  fat_point point;
  fat_error why = {0};
  FAT_TRY(fat_config_parse(row->config, &config, err));
  fat_status status = fat_space_point(order->script, &config, p, order->gpu, &point, &why);
  if (status == FAT_E_INPUT || status == FAT_E_UNSUPPORTED)
    return FAT_OK; /* the templates have changed: it is none of theirs */
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s", why.text);
  fat_job job = {.problem = p, .gpu = order->gpu, .point = &point};
  fat_trial_make(&job, &order->bench, order->script);
  status = job.status;
  if (status != FAT_OK)
    fat_status_fail(err, status, "%s", job.error.text);
  else if (job.binary.cubin && strcmp(job.source.hash, row->source_hash) == 0) {
    int64_t id;
    status = fat_rows_own(order->db, row, p, order->gpu, &order->bench.tools, 0, &id, err);
    if (status == FAT_OK)
      status = fat_trial_attach(&job, order->db, id, err);
  }
  fat_trial_free(&job);
  return status;
}

fat_status fat_keep_store(fat_keep *keep, const fat_line *line, const fat_order *order, bool hurried,
                          fat_error *err)
{
  fat_rows rows;
  bool stored;
  FAT_TRY(fat_rows_read(order->db, &line->ask->problem, order->gpu, &order->bench.tools, &rows, err));
  const fat_row *row = fat_rows_best(&rows, line->kernel->name);
  fat_status status = FAT_OK;
  if (!row || row->origin != FAT_PREDICTED || row->outcome != FAT_OUT_OK)
    goto done;
  if (holds(keep, row)) {
    status = fat_trial_attach(&keep->job, order->db, row->id, err);
    goto done;
  }
  status = is_stored(line, order, row, &stored, err);
  if (status == FAT_OK && !stored && !hurried)
    status = fat_keep_again(&line->ask->problem, order, row, err);
done:
  fat_rows_free(&rows);
  return status;
}

void fat_keep_free(fat_keep *keep)
{
  fat_trial_free(&keep->job);
  *keep = (fat_keep){0};
}
