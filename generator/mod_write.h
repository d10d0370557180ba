/* mod_write.h -- what writes an expression as lines of CUDA, for mod_emit.c and mod_course.c: which of its
 * nodes are asked for, and how each of them goes along a thread's pairs. */
#ifndef FAT_MOD_WRITE_H
#define FAT_MOD_WRITE_H

#include "mod.h"

/* The same for all pairs, by a constant for each row and key, or else. */
enum { FAT_MOD_FIXED, FAT_MOD_EVEN, FAT_MOD_FREE };

typedef struct fat_mod_course {
  uint8_t goes;          /* one of these */
  int8_t by_row, by_key; /* what a whole number that goes evenly grows by */
  float most; /* of a whole number: it lies within -most and most, where sums of such do not wrap around */
} fat_mod_course;

typedef struct fat_mod_writer {
  const fat_mod *mod;
  fat_mod_course course[FAT_MOD_NODES];
  bool said[FAT_MOD_NODES], parted[FAT_MOD_NODES]; /* is needed as a value, by its parts */
  int16_t known[FAT_MOD_NODES]; /* from 1 on: the number of what was looked up before; 0: none was */
  fat_text *out;
} fat_mod_writer;

void fat_mod_write_begin(fat_mod_writer *w, const fat_mod *mod, fat_text *out);
/* Whether a node is kept as two parts. */
bool fat_mod_write_splits(const fat_mod_writer *w, int i);
/* Asks for what those nodes need that are asked for. */
void fat_mod_write_mark(fat_mod_writer *w);
/* The lines of all that is asked for, with `slopes` derivatives, too. */
void fat_mod_write_nodes(const fat_mod_writer *w, bool slopes);

#endif
