/* pick.h -- which stored kernel serves a call, and why: a question to the database alone.
 *
 * The order: exact (measured, this problem, this device) -> nearest measured shape of the family on this
 * device -> the same on another device of this architecture -> predicted -> the default config ->
 * unsupported. Every step says what it found or why it found nothing, so the answer explains itself. */
#ifndef FAT_PICK_H
#define FAT_PICK_H

#include "db.h"

/* ORDER PICK */
typedef enum fat_pick_step {
  FAT_PICK_EXACT,
  FAT_PICK_NEAREST,
  FAT_PICK_ARCH,
  FAT_PICK_PREDICTED,
  FAT_PICK_DEFAULT,
  FAT_PICK_UNSUPPORTED,
  FAT_PICK_STEPS
} fat_pick_step;
const char *fat_pick_step_name(fat_pick_step step); /* "exact", "nearest", "arch", ... */

typedef struct fat_pick_question {
  const fat_problem *problem;
  const fat_gpu *gpu;
  const char *kernel;   /* NULL: one that may be picked unasked */
  const char *unserved; /* NULL: some kernel serves the family here; else why none does */
  /* What is in use now; a row made with something else is named as such, but is no miss. NULL: not compared.
   */
  const char *driver, *compile_key, *templates;
  int64_t now; /* seconds since 1970 */
  /* Source hashes of rows that are no answer: their code turned out not to be there or not to load. */
  const char (*refused)[FAT_HASH_SIZE];
  int refused_count;
} fat_pick_question;

/* A row as the pick weighs it; texts are copies. */
typedef struct fat_pick_row {
  bool found;
  char problem[FAT_PROBLEM_TEXT], gpu[32], facts[FAT_GPU_FACTS];
  char config[FAT_CONFIG_TEXT], source_hash[FAT_HASH_SIZE], date[40];
  fat_origin origin;
  double ms, distance;
  bool same_device;
  double age_days;       /* NAN: its date cannot be read */
  char differences[400]; /* "driver 580.1, now 590.2; ..."; "" if none */
  int sms;
} fat_pick_row;

typedef struct fat_pick {
  fat_pick_step step; /* the first that found something */
  fat_pick_row row[FAT_PICK_STEPS];
  char why[FAT_PICK_STEPS][1024]; /* one sentence for each step, up to the chosen one */
} fat_pick;

/* Answers. `db` NULL: there is no database, the first four steps say so. */
fat_status fat_pick_answer(fat_db *db, const fat_pick_question *question, fat_pick *pick, fat_error *err);

/* How far two problems of one family lie apart: the doublings between their rows of Q in all heads, counted
 * up to 2^16, and between their k, and half of those between their q and between their heads per KV head.
 * Rows of all heads say whether the GPU is full, k how long each tile works; a config for few heads, of small
 * tiles, is slow at the same length with many (0.6 of cuDNN's rate where the right neighbour's gives 1.0, d
 * 128 on an H200). */
double fat_pick_distance(const fat_problem *a, const fat_problem *b);

#endif
