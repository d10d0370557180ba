/* progress.h -- how far a tune is, on stderr: one live line on a terminal, plain lines elsewhere. */
#ifndef FAT_PROGRESS_H
#define FAT_PROGRESS_H

#include "db.h"
#include <stdbool.h>

typedef struct fat_progress {
  bool on;          /* off: says nothing at all */
  bool live;        /* stderr is a terminal */
  bool json;        /* lines of JSON for programs */
  bool drawn;       /* the live line stands there */
  const char *what; /* what has been done: "tried", "compiled" */
  char gpu[32];
  int total, done; /* trials of this run */
  int outcomes[FAT_OUTCOME_COUNT];
  char best[160];      /* the winner found last */
  double begun, shown; /* monotonic seconds */
} fat_progress;

void fat_progress_begin(fat_progress *p, bool on, const char *gpu, int total, const char *what);
/* A line that stays. */
void fat_progress_say(fat_progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One trial ended. */
void fat_progress_count(fat_progress *p, fat_outcome outcome);
/* Shows the state if it is time to: ten times a second live, else every five seconds. */
void fat_progress_show(fat_progress *p);
/* Leaves no line behind. */
void fat_progress_drop(fat_progress *p);
/* Shows the last state and leaves the line. */
void fat_progress_end(fat_progress *p);

#endif
