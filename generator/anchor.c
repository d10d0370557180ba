/* anchor.c -- the main anchor of a family: q = k = 4096, 16k tokens, H*d = 2048. */
#include "anchor.h"

/* Bytes of Q, K, V, O, the row sums, and one score matrix. In double: a product of five lengths. */
static double bytes_needed(const fat_problem *p)
{
  double rows = (double)p->b * (double)p->h, kv_rows = (double)p->b * (double)p->hk;
  double q = (double)p->q, k = (double)p->k, element = fat_dtypes[p->dtype].bytes;
  double tensors = element * (rows * q * (p->d + p->dv) + kv_rows * k * (p->d + p->dv));
  return tensors + 4.0 * rows * q + 4.0 * rows * q * k;
}

void fat_anchor_clip(fat_problem *p, const fat_gpu *gpu)
{
  const double memory = gpu->memory * 1024 * 1024 * 1024;
  while (p->b > 1 && memory > 0 && bytes_needed(p) > memory)
    p->b /= 2;
}

void fat_anchor_shape(fat_problem *p, const fat_gpu *gpu)
{
  p->b = p->q < FAT_ANCHOR_TOKENS ? FAT_ANCHOR_TOKENS / (p->q > 0 ? p->q : 1) : 1;
  p->h = p->hk = p->d < FAT_ANCHOR_WIDTH ? FAT_ANCHOR_WIDTH / p->d : 1;
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
