/* leader.c -- stores the code of the best predicted config of each kernel.
 *
 * In: attempts as they end, then the database. Out: code of one trial per pair. Trials of a run that was
 * killed may lack theirs; the next run finds that and compiles those few again. */
#include "leader.h"

#include <math.h>
#include <string.h>

bool fat_leader_offer(fat_leader *leader, fat_attempt *attempt)
{
  bool clean = attempt->outcome == FAT_OUT_OK && isfinite(attempt->forecast.ms);
  if (!clean || (leader->held && leader->attempt.forecast.ms <= attempt->forecast.ms))
    return false;
  fat_leader_free(leader);
  leader->held = true;
  leader->attempt = *attempt;
  attempt->source = (fat_source){0};
  attempt->binary = (fat_binary){0};
  return true;
}

/* Whether the stored best of a kernel is `record` and has its cubin. */
static fat_status is_stored(const fat_session *session, const fat_problem *p, const char *kernel,
                            const fat_record *record, bool *stored, fat_error *err)
{
  fat_best best;
  fat_status status = fat_db_best(session->db, p, session->gpu, kernel, true, &best, err);
  *stored = false;
  if (status == FAT_E_NOT_FOUND)
    return FAT_OK;
  FAT_TRY(status);
  *stored = best.trial.id == record->id && best.cubin;
  fat_db_best_free(&best);
  return FAT_OK;
}

static bool holds(const fat_leader *leader, const fat_record *record)
{
  const fat_attempt *a = &leader->attempt;
  return leader->held && a->binary.cubin && strcmp(a->source.hash, record->source_hash) == 0 &&
         strcmp(a->config, record->config) == 0;
}

fat_status fat_leader_store(fat_leader *leader, const fat_session *session, const fat_problem *p,
                            const char *kernel, fat_error *err)
{
  fat_records records;
  bool stored = true;
  FAT_TRY(fat_records_read(session->db, p, session->gpu, &session->tools, &records, err));
  const fat_record *record = fat_records_best(&records, kernel);
  fat_status status = FAT_OK;
  if (record && record->origin == FAT_PREDICTED && record->outcome == FAT_OUT_OK) {
    if (holds(leader, record))
      status = fat_attempt_attach(&leader->attempt, session->db, record->id, err);
    else
      status = is_stored(session, p, kernel, record, &stored, err);
  }
  if (status == FAT_OK && !stored && !*session->stop)
    status = fat_attempt_remake(session, p, record, err);
  fat_records_free(&records);
  return status;
}

void fat_leader_free(fat_leader *leader)
{
  fat_attempt_free(&leader->attempt);
  *leader = (fat_leader){0};
}
