/* kept.h -- stored rows that the pick does not weigh: twins, and what was compiled on demand.
 *
 * A kernel that a plan had to compile is stored as a trial without a time, of origin predicted, whose
 * `made_by` says which libfatune made it: it is no measurement, never wins, and is not taken for tried by a
 * tune. */
#ifndef FAT_KEPT_H
#define FAT_KEPT_H

#include "db.h"
#include "jit_abi.h"

enum { FAT_KEPT_MOST = 16 };

/* Configs that may have code; the best come first. */
typedef struct fat_kept {
  int count;
  struct {
    char config[FAT_CONFIG_TEXT], source_hash[FAT_HASH_SIZE], problem[FAT_PROBLEM_TEXT];
    double rank; /* less is better */
  } row[FAT_KEPT_MOST];
} fat_kept;

/* Configs with W = 1 that worked for a problem on devices of this architecture: those made as the twin of
 * this very config, then the nearest of the same kernel. Where that has no W, other kernels stand in: what
 * was made as the twin of any of its configs, then what may be picked unasked. */
fat_status fat_kept_twins(fat_db *db, const char *problem, int sm, const fat_config *config, fat_kept *kept,
                          fat_error *err);

/* Default configs that this version compiled on demand for the family on this architecture, the nearest
 * problem first. `kernel`: the one asked for, or NULL: one that may be picked unasked. `maps`: whether the
 * driver makes tensor maps; what was the default for want of them is none where they are made. */
fat_status fat_kept_defaults(fat_db *db, const fat_problem *p, const fat_gpu *gpu, const char *kernel,
                             bool maps, fat_kept *kept, fat_error *err);

/* A kernel that was compiled on demand. */
typedef struct fat_made {
  fat_problem problem;
  char config[FAT_CONFIG_TEXT];
  char twin_of[FAT_CONFIG_TEXT]; /* "": none's */
  bool usual;                    /* the default; neither: rebuilt from its stored source */
  bool mapless;                  /* the default for want of tensor maps alone */
  fatune_jit_answer answer;
} fat_made;

/* Stores it in the user's database, which is made where there is none. */
fat_status fat_kept_put(const char *path, const fat_gpu *gpu, const fat_made *made, fat_error *err);

#endif
