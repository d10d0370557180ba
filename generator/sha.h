/* sha.h -- SHA-256 over whole blocks by the processor's own instructions, where it has them. */
#ifndef FAT_SHA_H
#define FAT_SHA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAT_SHA_BLOCK = 64 };

/* Takes `blocks` blocks into the state, words a to h. False, and nothing is done: this processor has no such
 * instructions, or we know none for it. */
bool fat_sha_blocks(uint32_t state[8], const void *bytes, size_t blocks);

#endif
