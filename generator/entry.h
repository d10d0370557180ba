/* entry.h -- what is known of one kernel of a binary. */
#ifndef FAT_ENTRY_H
#define FAT_ENTRY_H

enum { FAT_ENTRY_NAME = 64 };

/* What the compiler says of one __global__ function. */
typedef struct fat_entry {
  char name[FAT_ENTRY_NAME];
  int registers; /* of a thread */
  int stack;     /* bytes of local memory of a thread */
  int spills;    /* bytes of spill stores + spill loads */
  int shared;    /* static shared memory, bytes */
  int serial;    /* 1: ptxas lets no product of a warpgroup begin before the one before has ended */
} fat_entry;

#endif
