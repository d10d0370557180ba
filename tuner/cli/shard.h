/* shard.h -- which part of a tune this process is, as the launcher of many processes tells it. */
#ifndef FAT_SHARD_H
#define FAT_SHARD_H

#include "status.h"

/* The index-th of `count` parts of a tune's families; count 0: all. */
typedef struct fat_shard {
  int index, count;
  const char *by; /* the variable that says so; NULL: it was typed */
} fat_shard;

/* From 1 to its count. FAT_E_INPUT where no launcher has said. */
fat_status fat_shard_here(fat_shard *shard, fat_error *err);

#endif
