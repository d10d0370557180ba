/* drop.h -- which weights dropout keeps: FlashAttention-2's bits for the same seed and offset.
 * templates/lib/drop.cuh has the same in a kernel. */
#ifndef FAT_DROP_H
#define FAT_DROP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fat_rng {
  uint64_t seed, offset;
} fat_rng;

/* Of row i and key j of a head, which is the batch times all query heads and the head. */
bool fat_drop_keeps(const fat_rng *rng, float rate, int64_t head, int64_t i, int64_t j);

#endif
