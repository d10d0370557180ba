/* anchor.c -- anchors of a family: the main one, q = k = 4096, 16k tokens, H*d = 2048; the others; one row of
 * Q. */
#include "anchor.h"
#include "mod.h"
#include "tensors.h"

/* Bytes of all tensors and one score matrix. In double: a product of five lengths. */
static double bytes_needed(const fat_problem *p)
{
  double bytes = 4.0 * (double)p->b * (double)p->h * (double)p->q * (double)p->k;
  for (int t = 0; t < FAT_TENSORS; t++) {
    const fat_extent e = fat_tensors_extent(p, t);
    double elements = fat_tensors_role(p, t) == FAT_ROLE_NONE ? 0 : 1;
    for (int i = 0; i < 4; i++)
      elements *= (double)e.size[i];
    bytes += elements * fat_dtypes[fat_tensors_dtype(p, t)].bytes;
  }
  return bytes;
}

void fat_anchor_clip(fat_problem *p, const fat_gpu *gpu)
{
  const double memory = gpu->memory * 1024 * 1024 * 1024;
  while (p->b > 1 && memory > 0 && bytes_needed(p) > memory)
    p->b /= 2;
}

void fat_anchor_heads(fat_problem *p, int32_t width, int32_t peers)
{
  p->hk = p->d * peers < width ? width / peers / p->d : 1;
  p->h = p->hk * peers;
}

void fat_anchor_shape(fat_problem *p, const fat_gpu *gpu)
{
  p->b = p->q < FAT_ANCHOR_TOKENS ? FAT_ANCHOR_TOKENS / (p->q > 0 ? p->q : 1) : 1;
  fat_anchor_heads(p, FAT_ANCHOR_WIDTH, 1);
  fat_anchor_clip(p, gpu);
}

fat_problem fat_anchor_main(const fat_problem *family, const fat_gpu *gpu)
{
  fat_problem p = *family;
  p.q = p.k = FAT_ANCHOR_LENGTH;
  if (fat_problem_has(&p, FAT_WINDOW)) {
    p.arg[FAT_WINDOW][0] = FAT_ANCHOR_WINDOW - 1;
    p.arg[FAT_WINDOW][1] = fat_problem_has(&p, FAT_CAUSAL) ? 0 : FAT_ANCHOR_WINDOW - 1;
  }
  if (fat_problem_has(&p, FAT_CHUNK))
    p.arg[FAT_CHUNK][0] = FAT_ANCHOR_WINDOW;
  fat_anchor_shape(&p, gpu);
  return p;
}

enum { TOKENS = FAT_ANCHOR_TOKENS, WIDTH = FAT_ANCHOR_WIDTH };
enum { FEW_HEADS = 2, SHORT_FWD = 8, SHORT_BWD = 5 }; /* which of the others are those */

/* `tokens` are those of K and V, `width` is H*d, `peers` counts the heads of Q that share one of K and V;
 * behind the last there are none. The shape with few heads fills half of a large GPU with tiles of 128 rows.
 * That of 320 rows and keys is three rounds of a large GPU at most, and no whole number of the usual tiles:
 * there configs win that no other anchor knows, and a call whose length is ragged is given one of those that
 * the family's anchors have. Few rows: one and several over a cache, in groups of heads too, and over as many
 * keys.
 *
 * The last three forward anchors, and the last three backward ones in place of those of 1 and 16 rows, cut
 * what the pick loses on other shapes: forward 24 to 19 % (221 shapes), backward 11 to 9 % (278; H200). */
static const struct {
  int64_t q, k, tokens;
  int32_t width, peers;
} others[FAT_OP_COUNT][FAT_ANCHOR_OTHERS] = {
    [FAT_FWD] = {{512, 512, TOKENS, WIDTH, 1},
                 {16384, 16384, TOKENS, WIDTH, 1},
                 {2048, 2048, 2048, 512, 1},
                 {1, 4096, 16 * 4096, WIDTH, 1},
                 {16, 8192, 8192, WIDTH, 1},
                 {1, 8192, 8 * 8192, 2 * WIDTH, 4},
                 {320, 320, 8 * 320, WIDTH, 1},
                 {8, 8, 16 * 8, WIDTH, 1},
                 {40, 40, 8 * 40, 2 * WIDTH, 1},
                 {8, 2048, 16 * 2048, 2 * WIDTH, 4}},
    [FAT_BWD] = {{512, 512, TOKENS, WIDTH, 1},
                 {16384, 16384, TOKENS, WIDTH, 1},
                 {2048, 2048, 2048, 512, 1},
                 {320, 320, 8 * 320, WIDTH, 1},
                 {160, 160, 16 * 160, WIDTH, 1},
                 {32, 32, 16 * 32, WIDTH, 1},
                 {32, 2048, 8 * 2048, WIDTH, 1}},
};

bool fat_anchor_other(const fat_problem *central, int n, const fat_gpu *gpu, fat_problem *p)
{
  *p = *central;
  if (n >= FAT_ANCHOR_OTHERS || others[p->op][n].tokens == 0)
    return false;
  p->q = others[p->op][n].q;
  p->k = others[p->op][n].k;
  p->b = others[p->op][n].tokens / p->k;
  fat_anchor_heads(p, others[p->op][n].width, others[p->op][n].peers);
  fat_anchor_clip(p, gpu);
  return true;
}

static bool decodes(const fat_problem *central, const fat_gpu *gpu, fat_problem *p)
{
  *p = fat_anchor_main(central, gpu);
  p->b = p->q = 1;
  p->k = 2 * FAT_ANCHOR_LENGTH;
  fat_anchor_heads(p, 2 * FAT_ANCHOR_WIDTH, 4);
  return p->op == FAT_FWD && p->dtype != FAT_F32 && !fat_problem_has(p, FAT_SPLIT) &&
         !fat_problem_has(p, FAT_BLOCKSPARSE) && !fat_problem_has(p, FAT_DROP);
}

bool fat_anchor_default(const fat_problem *central, fat_anchor_beside which, const fat_gpu *gpu,
                        fat_problem *p)
{
  if (which == FAT_ANCHOR_ONE_ROW)
    return decodes(central, gpu, p);
  const int few_rows = central->op == FAT_BWD ? SHORT_BWD : SHORT_FWD;
  return !fat_mod_used(central) &&
         fat_anchor_other(central, which == FAT_ANCHOR_FEW_HEADS ? FEW_HEADS : few_rows, gpu, p);
}
