/* attempt.h -- one config on its way through all stages: rendered, compiled, verified, timed, stored. */
#ifndef FAT_ATTEMPT_H
#define FAT_ATTEMPT_H

#include "compile.h"
#include "model.h"
#include "session.h"
#include "source.h"

/* What goes in, and after fat_attempt_make what came out. */
typedef struct fat_attempt {
  const fat_problem *problem;
  const fat_gpu *gpu;
  const fat_point *point;
  int eligible; /* may win unasked */

  fat_status status; /* not FAT_OK: no outcome, the tune cannot go on (or was cancelled) */
  fat_error error;
  char config[FAT_CONFIG_TEXT];
  fat_source source;
  fat_binary binary;
  fat_outcome outcome;
  fat_forecast forecast;
  fat_figures figures;
  char twin_of[FAT_CONFIG_TEXT]; /* the config that it was made to stand in for, or "" */
  char detail[1024];             /* why it failed, or what the compiler says of it */
  const char *serial;            /* an entry whose products ptxas has wait for each other */
  fat_timing timing;             /* count 0: not timed */
} fat_attempt;

/* The first half: render -> compile -> inspect -> predict -> dump. Runs on any thread, with that thread's own
 * script. That a config does not work is an outcome; attempt->status is for what would stop every config. */
void fat_attempt_make(fat_attempt *attempt, const fat_session *session, fat_script *script);

/* The second half, where a GPU is at hand: a worker verifies and times it. fat_attempt_runs says whether
 * there is anything to measure, the entrant (borrowed from the attempt) is what the worker gets, and judge
 * takes over what it found. */
bool fat_attempt_runs(const fat_attempt *attempt);
fat_entrant fat_attempt_entrant(const fat_attempt *attempt);
void fat_attempt_judge(fat_attempt *attempt, const fat_verdict *verdict);

/* Milliseconds: measured, else predicted; NAN where there are none or the attempt failed. */
double fat_attempt_ms(const fat_attempt *attempt);

/* Stores the trial, with source, recipe and cubin where `whole`. */
fat_status fat_attempt_store(const fat_attempt *attempt, const fat_session *session, bool whole,
                             fat_error *err);

/* Attaches source, recipe and cubin to the trial `id`, which has the same source. */
fat_status fat_attempt_attach(const fat_attempt *attempt, fat_db *db, int64_t id, fat_error *err);
/* Makes the code of a record again and attaches it, if its source is still the same. */
fat_status fat_attempt_remake(const fat_session *session, const fat_problem *p, const fat_record *record,
                              fat_error *err);

/* Frees what came out; what went in stays the caller's. */
void fat_attempt_free(fat_attempt *attempt);

#endif
