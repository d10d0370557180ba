/* detail.h -- what a public call says when it fails: a public status, and a sentence kept for its thread. */
#ifndef FAT_DETAIL_H
#define FAT_DETAIL_H

#include "fatune.h"
#include "status.h"

/* Keeps the sentence for fatune_detail and gives the public status that stands for `status`. */
fatune_status fat_detail_keep(fat_status status, const char *sentence);

#endif
