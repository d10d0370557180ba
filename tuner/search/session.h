/* session.h -- everything that is open while a tune runs, and what has happened so far. */
#ifndef FAT_SESSION_H
#define FAT_SESSION_H

#include "agenda.h"
#include "progress.h"
#include "records.h"
#include "worker/lab.h"

typedef struct fat_session {
  const fat_goal *goal;
  const fat_agenda *agenda;
  const fat_gpu *gpu;
  const char *templates; /* folder, or NULL for those inside */
  fat_script *script;    /* the main thread's */
  fat_nvrtc *nvrtc;
  fat_tools tools;
  const char *dump; /* folder for .cu, .cubin and .log, or NULL */
  fat_db *db;
  const char *command;    /* as typed */
  fat_lab *lab[FAT_LABS]; /* of each of the equal GPUs at hand; without one trials are predicted */
  int labs;
  bool quiet;         /* no progress on stderr */
  bool json_progress; /* as JSON lines */

  const volatile int *stop; /* not 0: somebody has asked to stop */
  int64_t run;              /* in the database; 0: nothing has been tried yet */
  double begun;             /* when the run began, by fat_clock_now */
  int done;                 /* attempts and races that ended in this run */
  int signal;               /* that ended the tune, or 0 */
  bool out_of_budget;
  fat_progress progress;
} fat_session;

/* A GPU that cannot be used any more, of several: the others go on, and the last of them takes its place.
 * Else, and where it failed in another way, `why` is the result. */
fat_status fat_session_leave_out(fat_session *s, int at, const fat_error *why, fat_error *err);

#endif
