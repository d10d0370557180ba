/* anchor.c -- anchors of a family: the main one, q = k = 4096, 16k tokens, H*d = 2048; one row of Q. */
#include "anchor.h"
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

bool fat_anchor_decode(const fat_problem *family, const fat_gpu *gpu, fat_problem *p)
{
  *p = fat_anchor_main(family, gpu);
  p->b = p->q = 1;
  p->k = 2 * FAT_ANCHOR_LENGTH;
  fat_anchor_heads(p, 2 * FAT_ANCHOR_WIDTH, 4);
  return p->op == FAT_FWD && p->dtype != FAT_F32 && !fat_problem_has(p, FAT_SPLIT) &&
         !fat_problem_has(p, FAT_BLOCKSPARSE) && !fat_problem_has(p, FAT_DROP);
}
