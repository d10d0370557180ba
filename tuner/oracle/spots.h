/* spots.h -- a problem at its own size, of which a few rows are known.
 *
 * It is too large to be made on the host: each of its inputs is one block of random numbers over and over
 * (fat_spots_number; the block's length is prime, so no two heads are alike), and all else is poison. */
#ifndef FAT_SPOTS_H
#define FAT_SPOTS_H

#include "image.h"

enum { FAT_SPOTS_BLOCK = 1048583, FAT_SPOTS_ROWS = 12 };
typedef struct fat_spots {
  fat_problem problem;
  float scale;
  fat_slot slot[FAT_TENSORS];
  int64_t bytes;       /* of one image: a multiple of 4, as all places in it are */
  int64_t outputs;     /* from here on the image has no inputs */
  int rows[FAT_SIDES]; /* known ones: rows of Q, keys */
  bool untold;         /* none are, as their scores would allow anything */
  struct {
    int64_t b, h, i;
    int64_t first; /* row of the batch in the tensors, where those of all lie behind each other */
  } row[2][FAT_SPOTS_ROWS];
  double *right[FAT_TENSORS]; /* of the known rows */
  double allowed[FAT_TENSORS][2];
} fat_spots;

/* The block, of FAT_SPOTS_BLOCK numbers; NULL without memory. */
float *fat_spots_block(uint64_t seed);
fat_status fat_spots_make(const fat_problem *p, const float *block, fat_spots *spots, fat_error *err);
void fat_spots_free(fat_spots *spots);
/* Where the r-th known row of an output begins: bytes from the image's beginning. */
int64_t fat_spots_row(const fat_spots *spots, int tensor, int r);
/* What stands in an input, so many elements behind its first. Periodic in FAT_SPOTS_BLOCK. */
float fat_spots_number(const fat_spots *spots, const float *block, int tensor, int64_t element);

#endif
