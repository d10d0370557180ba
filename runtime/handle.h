/* handle.h -- the library handle and its plans, as the files of the runtime share them.
 *
 * Two locks: `lookup` guards the list of known plans and is held for moments; `making` is held while a plan
 * is made (files, loading, compiling), so that a cold problem is made once and others wait. `run` takes
 * neither. */
#ifndef FAT_HANDLE_H
#define FAT_HANDLE_H

#include "fatune.h"
#include "jit.h"
#include "module.h"
#include <pthread.h>
#include <stdatomic.h>

enum { FAT_HANDLE_PLANS = 256 /* known problems; beyond that the oldest that nobody holds is forgotten */ };

struct fatune {
  atomic_int references; /* the caller's hold, and one for each plan a caller holds */
  unsigned forks;        /* fat_handle_forks at the time of opening */
  fat_driver *driver;
  char *database, *system; /* NULL: none */
  char note[256];          /* why there is no database; "" otherwise */
  pthread_mutex_t lookup, making;
  fat_modules modules; /* by `making` */
  fat_jit jit;         /* by `making` */
  struct fatune_plan *known[FAT_HANDLE_PLANS];
  int count, next;                           /* by `lookup`; next: the oldest, once all places are taken */
  void (*release)(struct fatune_plan *plan); /* how a known plan is given up; set with the first of them */
};

/* How many forks lie between the process that loaded us and this one. */
unsigned fat_handle_forks(void);

fat_status fat_handle_open(const fatune_options *options, fatune **handle, fat_error *err);
/* FAT_E_FORKED in a child of the process that opened it, FAT_E_INPUT for NULL. */
fat_status fat_handle_check(const fatune *handle, fat_error *err);
void fat_handle_hold(fatune *handle);
void fat_handle_release(fatune *handle);

#endif
