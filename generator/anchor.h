/* anchor.h -- the shapes at which families are measured: what of them tuner and runtime must agree on. */
#ifndef FAT_ANCHOR_H
#define FAT_ANCHOR_H

#include <stdbool.h>

#include "gpu.h"
#include "problem.h"

enum {
  FAT_ANCHOR_TOKENS = 16384, /* b * q */
  FAT_ANCHOR_WIDTH = 2048,   /* h * d */
  FAT_ANCHOR_LENGTH = 4096,  /* q = k of the main one */
  FAT_ANCHOR_WINDOW = 1024   /* keys of a row with a window, to each side; of a chunk */
};

/* As many heads as make h * d that wide, of which `peers` share one of K and V; one of K and V at least. */
void fat_anchor_heads(fat_problem *p, int32_t width, int32_t peers);

/* Batch and heads of an anchor whose op, dtype, d, q and k are set, clipped to the GPU's memory. */
void fat_anchor_shape(fat_problem *p, const fat_gpu *gpu);

/* Halves the batch until tensors and one score matrix (what the standard algorithm keeps, which every other
 * is compared with) fit the GPU's memory. */
void fat_anchor_clip(fat_problem *p, const fat_gpu *gpu);

/* The main anchor of a family. */
fat_problem fat_anchor_main(const fat_problem *family, const fat_gpu *gpu);

/* The other anchors of the main one's family, one after another: short and long sequences, few heads, few
 * short ones that fill no tiles, and few rows of Q, with and without heads that share K and V. False behind
 * the last. */
enum { FAT_ANCHOR_OTHERS = 10 /* forward; a backward has fewer */ };
bool fat_anchor_other(const fat_problem *central, int n, const fat_gpu *gpu, fat_problem *p);

/* The shapes that a plan of a family may have defaults of beside the main anchor's: one row of Q, decoding,
 * where tiles of 128 rows would take 12 times as long (an A100 by the model, 32 heads on 8, 8192 keys), a few
 * rows on as many keys, and few heads, which fill a large GPU by smaller tiles. */
typedef enum fat_anchor_beside {
  FAT_ANCHOR_ONE_ROW,
  FAT_ANCHOR_FEW_ROWS,
  FAT_ANCHOR_FEW_HEADS,
  FAT_ANCHOR_BESIDES
} fat_anchor_beside;

/* False where such a shape makes no sense or its default is the main anchor's, and for expressions, of which
 * each compiles its own kernels, but for one row. */
bool fat_anchor_default(const fat_problem *central, fat_anchor_beside which, const fat_gpu *gpu,
                        fat_problem *p);

#endif
