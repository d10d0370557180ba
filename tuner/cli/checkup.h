/* checkup.h -- what `fatune doctor` gathers: findings, each with what to do about it. */
#ifndef FAT_CHECKUP_H
#define FAT_CHECKUP_H

#include "options.h"

enum { FAT_CHECKUP_FINDINGS = 160 };

typedef enum fat_checkup_verdict { FAT_FINE, FAT_NOTE, FAT_PROBLEM } fat_checkup_verdict; /* ORDER VERDICT */

typedef struct fat_finding {
  fat_checkup_verdict verdict;
  const char *what;
  char found[1200], todo[300];
} fat_finding;

typedef struct fat_checkup {
  const fat_options *options;
  fat_finding list[FAT_CHECKUP_FINDINGS];
  int count;
  int cuda; /* the driver's CUDA major; 0 without one */
} fat_checkup;

/* Keeps a finding; `todo` may be NULL. */
void fat_checkup_add(fat_checkup *c, fat_checkup_verdict v, const char *what, const char *found,
                     const char *todo);

#endif
