/* choosing.h -- a choice while it is made: what the files that make it share.
 *
 * choose.c says the order for a problem and choose_family.c for a family, take.c takes what one step of the
 * order names. */
#ifndef FAT_CHOOSING_H
#define FAT_CHOOSING_H

#include "choose.h"

enum { FAT_CHOOSING_REFUSED = 32 /* rows that are tried before giving up on what is stored */ };
enum { FAT_CHOOSING_UNFIT = 4 };

typedef struct fat_choosing {
  fat_ask ask;
  fat_choice *out;
  fat_loader loader;
  fat_pick_rows rows, plain_rows; /* what the database told the pick, of the family and of its plain one */
  fat_text *why;
  bool brief; /* of the steps only the one that is taken is told */
  char refused[FAT_CHOOSING_REFUSED][FAT_HASH_SIZE];
  int refused_count;
  /* Kernels that need what this driver lacks. */
  char unfit[FAT_CHOOSING_UNFIT][FAT_CONFIG_KERNEL];
  int unfit_count;
  bool hidden;       /* the present problem's winner was left out */
  bool far_too;      /* no default could be compiled: rows that lie far off may be taken, too */
  bool alone;        /* a row of the other type of 16 bits could not be compiled: nor could another */
  char without[512]; /* why there is no database, or one was left out; "" otherwise */
  fat_error unable;  /* FAT_E_UNSUPPORTED: why one of them cannot serve */
  bool jit_off;      /* FATUNE_DISABLE_JIT: nothing is compiled, whatever the policy says */
  /* The first measured row that was left out for want of a binary: "config for problem"; "": none was. */
  char unbuilt[FAT_CONFIG_TEXT + FAT_PROBLEM_TEXT + 8];
} fat_choosing;

/* A choice begins, opens its databases (one that cannot be read is left out), and ends. */
void fat_choosing_begin(fat_choosing *c, const fat_ask *ask, fat_choice *choice);
fat_status fat_choosing_open_db(fat_choosing *c, fat_error *err);
fat_status fat_choosing_end(fat_choosing *c, fat_status status, fat_error *err);

/* The whole order for the present problem but its twin. */
fat_status fat_choosing_kernel(fat_choosing *c, fat_pick *pick, fat_error *err);

/* Forgets what was left out for another problem, and goes on with this one. */
void fat_choosing_turn(fat_choosing *c, const fat_problem *p);

/* Says what the database has to tell, and goes on without it. */
void fat_choosing_leave_db(fat_choosing *c, const char *reason);

/* What the pick is asked for the present problem. */
fat_pick_question fat_take_question(const fat_choosing *c);

/* Takes the first stored row that loads. *found false: there is none that may be taken, or the loader put off
 * to compile it. */
fat_status fat_take_stored(fat_choosing *c, fat_pick *pick, bool *found, fat_error *err);

/* A default that was compiled on demand before: for this shape, or for another that has the same default. */
fat_status fat_take_kept(fat_choosing *c, bool *found, fat_error *err);

/* What the policy says where nothing stored may be taken; where there is no default either, the kernel's row
 * for tensors that are not aligned. */
fat_status fat_take_default(fat_choosing *c, const fat_pick *pick, fat_error *err);

/* What takes tensors that are not aligned. That there is none is no error. */
fat_status fat_take_twin(fat_choosing *c, fat_error *err);

#endif
