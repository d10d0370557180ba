/* shard.h -- which part of a tune this process is, as the launcher of many processes tells it. */
#ifndef FAT_SHARD_H
#define FAT_SHARD_H

#include "status.h"

/* 1 to *count. FAT_E_INPUT where no launcher has said. */
fat_status fat_shard_here(int *index, int *count, fat_error *err);

#endif
