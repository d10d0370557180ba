/* kept.h -- stored rows that the pick does not weigh. */
#ifndef FAT_KEPT_H
#define FAT_KEPT_H

#include "db.h"

enum { FAT_KEPT_MOST = 16 };

/* Configs that may have code; the best come first. */
typedef struct fat_kept {
  int count;
  struct {
    char config[FAT_CONFIG_TEXT], source_hash[FAT_HASH_SIZE], problem[FAT_PROBLEM_TEXT];
    double rank; /* less is better */
  } row[FAT_KEPT_MOST];
} fat_kept;

/* Configs with W = 1 of the same kernel that worked for a problem on devices of this architecture: those made
 * as the twin of this very config, then the nearest. */
fat_status fat_kept_twins(fat_db *db, const char *problem, int sm, const fat_config *config, fat_kept *kept,
                          fat_error *err);

#endif
