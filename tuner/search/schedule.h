/* schedule.h -- what a tune will try: the configs on the shortlists of all pairs that are not stored yet, in
 * the order in which they are tried. */
#ifndef FAT_SCHEDULE_H
#define FAT_SCHEDULE_H

#include "leader.h"
#include "shortlist.h"

/* One item of the agenda and one of its kernels. */
typedef struct fat_pair {
  const fat_item *item;
  const fat_item_kernel *kernel;
  fat_shortlist shortlist; /* count 0 where no config is valid */
  fat_error why;           /* then: why not */
  double best_ms;          /* of what works: measured so far, or predicted in this run; 0: none */
  fat_leader leader;
} fat_pair;

typedef struct fat_scheduled {
  fat_attempt attempt; /* first: the pool carries attempt pointers */
  fat_pair *pair;
  int rank;  /* in its pair's order; 0 is the default config, or any of what is known or named */
  int place; /* among all, as they were added */
} fat_scheduled;

typedef struct fat_schedule {
  fat_session *session;
  fat_pair *pairs; /* in the order of items and their kernels */
  int pair_count;
  int chosen, stored;                  /* configs; those found stored */
  fat_records *records;                /* of each item, as they were when the tune began */
  char (*incumbents)[FAT_CONFIG_TEXT]; /* of each item: what calls got before this tune by what was measured,
                                          or "" */
  fat_known *known;                    /* of each item, where no more is tried; else NULL */
  fat_won won;                         /* of the item that was read last */
  fat_scheduled *list;
  int count;
  int begun;    /* so many of the list have been handed out */
  bool closing; /* twins are due: they are made when the budget is used up, too */
} fat_schedule;

/* Fills in the schedule; stops early once *session->stop is set. To be freed whatever the status. */
fat_status fat_schedule_make(fat_session *session, fat_schedule *schedule, fat_error *err);
void fat_schedule_free(fat_schedule *schedule);

/* Schedules one more point of a pair, after all others. It must not be scheduled already (fat_schedule_has),
 * and no attempt may be running. */
fat_status fat_schedule_add(fat_schedule *schedule, fat_pair *pair, const fat_point *point, fat_error *err);
/* The same for the twin of a config, which is stored whole, however slow it is. The point must outlive its
 * attempt. */
fat_status fat_schedule_add_twin(fat_schedule *schedule, fat_pair *pair, const fat_point *point,
                                 const char *of, fat_error *err);
bool fat_schedule_has(const fat_schedule *schedule, const fat_pair *pair, const fat_point *point);

/* Whether an attempt may still become the best of its pair. Without measurements a forecast is the estimate
 * plus what the compiler's figures cost, so a config whose estimate is already worse than the best forecast
 * is not compiled. */
bool fat_schedule_may_win(const fat_schedule *schedule, const fat_scheduled *attempt);

/* Begins the run in the database, unless it has begun, and says what is scheduled. A tune that finds all done
 * has no run. */
fat_status fat_schedule_begin(fat_schedule *schedule, fat_error *err);

/* Looks at the clock: whether the budget is used up. */
void fat_schedule_watch(const fat_schedule *schedule);
/* Whether the tune is to end: a signal, an error or its budget. */
bool fat_schedule_ends(const fat_schedule *schedule);

#endif
