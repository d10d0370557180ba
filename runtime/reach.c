/* reach.c -- the arithmetic of reach.h. Runs in calls: numbers alone. */
#include "reach.h"
#include "draw.h"
#include "sees.h"

/* What merging one more split takes: its numbers are written and read again, and read behind those of others.
 * Of 704 pairs of such forwards, of 1 to 128 splits, they are off by 22 % in the root mean square, for 29
 * without: 88 splits of 189 rows, foretold as 11 us, took 24 (H200). */
static const double split_ms = 4e-5, split_ms_per_byte = 1e-9;
/* The part of the data sheet's rate at which device memory passes Q, K, V and O of a forward once, at least
 * (a cache of 16,017 keys passes at 0.92), and what a backward reads and writes beside its products, in short
 * launches of their own. */
static const double dram_part = 0.9, beside_part = 0.6;
/* And the part of that time of a forward which tiles do not hide, however much they have to do: heads that
 * share K and V are faster, and so are long rows. Times foretold without it are off by 19 % (fwd_ws) and 26
 * (fwd) in the root mean square, with it by 16 and 24. */
static const double unhidden = 0.25;
/* Of the bytes of sums that parts leave each other, which L2 mostly has: of two parts 0.06 of the 0.09 ms
 * that they took more (8 x 16 heads on 8, 2,048 keys, H200). */
static const double part_of_bytes = 0.3;

static double least(double a, double b)
{
  return a < b ? a : b;
}

static double ends_of(const fat_problem *p)
{
  const bool window = fat_problem_has(p, FAT_WINDOW);
  const bool chunk = fat_problem_has(p, FAT_CHUNK);
  const bool left = chunk || (window && p->arg[FAT_WINDOW][0] != FAT_PROBLEM_ALL);
  const bool right = chunk || (window && p->arg[FAT_WINDOW][1] != FAT_PROBLEM_ALL) ||
                     fat_problem_has(p, FAT_CAUSAL) || fat_problem_has(p, FAT_CAUSAL_TL);
  return (left ? 1 : 0) + (right ? 1 : 0);
}

/* What a forward reads and writes at least, where rows see `keys` of each head. */
static double bytes_of(const fat_problem *p, double keys)
{
  const double rows = (double)p->h * (double)p->q + (double)p->hk * keys;
  return (double)p->b * rows * (double)(p->d + p->dv) * fat_dtypes[p->dtype].bytes;
}

/* Lengths by batch and intervals, which no text tells. */
static const uint32_t on_device = FAT_DRAWN | 1u << FAT_INTERVAL;

/* Pairs of a row and a key that it sees, as far as the text tells. */
static double pairs_of(const fat_problem *p)
{
  const uint32_t untold = on_device | 1u << FAT_BLOCKSPARSE;
  if (!(p->features & untold)) /* the copy takes 10 ns, and a call does this */
    return fat_sees_pairs(p);
  fat_problem known = *p;
  known.features &= ~untold;
  return fat_sees_pairs(&known);
}

fat_room fat_reach_room(const fat_gpu *gpu)
{
  const double sms = gpu->sms > 0 ? gpu->sms : 1;
  return (fat_room){sms, 1 / sms, gpu->dram > 0 ? 1e-6 / gpu->dram : 0};
}

/* Batches; of a ragged call as many as would hold its rows or keys, each as long as the longest. */
static double batches_of(const fat_problem *p, bool of_keys)
{
  const int64_t longest = of_keys ? p->k : p->q;
  if (!fat_problem_has(p, FAT_VARLEN) || longest <= 0)
    return (double)p->b;
  const double all = (double)fat_draw_total(p, of_keys) / (double)longest;
  return least(all > 1 ? all : 1, (double)p->b);
}

double fat_reach_rows(const fat_problem *p)
{
  return batches_of(p, false) * (double)p->h * (double)p->q;
}

fat_reach fat_reach_of(const fat_problem *p, const fat_room *room)
{
  const double batches = batches_of(p, p->op == FAT_BWD);
  const double heads = batches * (double)p->h * fat_problem_slices(p);
  const double group = p->h == p->hk ? 1 : (double)p->h / (double)(p->hk > 0 ? p->hk : 1);
  const bool of_keys = p->op == FAT_BWD;
  fat_reach r = {.rows = (double)(of_keys ? p->k : p->q),
                 .heads = of_keys ? heads / group : heads,
                 .group = group,
                 .keys = (double)(of_keys ? p->q : p->k),
                 .ends = ends_of(p),
                 .passes = of_keys ? group : 1,
                 .sms = room->sms,
                 .per_sm = room->per_sm};
  r.mean = r.most = r.keys;
  if (fat_problem_has(p, FAT_SPLIT) && p->arg[FAT_SPLIT][0] > 0)
    r.per_split = 1 / (double)p->arg[FAT_SPLIT][0];
  const bool has_blocks =
      fat_problem_has(p, FAT_BLOCKSPARSE) && p->arg[FAT_BLOCKSPARSE][0] > 0 && p->arg[FAT_BLOCKSPARSE][1] > 0;
  if (r.ends > 0 && r.rows > 0)
    r.mean = pairs_of(p) / r.rows;
  if (fat_problem_has(p, FAT_CHUNK))
    r.most = least(r.keys, (double)p->arg[FAT_CHUNK][0]);
  if (fat_problem_has(p, FAT_WINDOW) && r.ends > 1) {
    const double right = fat_problem_has(p, FAT_CAUSAL) ? 0 : (double)p->arg[FAT_WINDOW][1];
    r.most = least(r.most, (double)p->arg[FAT_WINDOW][0] + right + 1);
  }
  if (has_blocks) { /* They are not drawn one by one, which takes milliseconds: a call does this. */
    r.per_block_rows = 1 / (double)p->arg[FAT_BLOCKSPARSE][of_keys];
    r.per_block_keys = 1 / (double)p->arg[FAT_BLOCKSPARSE][!of_keys];
    r.mean /= FAT_DRAW_BLOCKS;
    r.most /= FAT_DRAW_BLOCKS;
  }
  if (of_keys) { /* a tile passes over the rows of all heads that share it */
    r.mean *= group;
    r.most *= group;
    r.ends *= group;
    const double rows = fat_reach_rows(p), bytes = fat_dtypes[p->dtype].bytes;
    const double ms_per_byte = room->ms_per_byte / beside_part;
    r.memory_ms = rows * (double)p->dv * 2 * bytes * ms_per_byte;
    r.sums_ms = rows * (double)p->d * (8 + bytes) * ms_per_byte;
    r.part_ms = r.rows * r.heads * (double)(p->d + p->dv) * 8 * part_of_bytes * ms_per_byte;
  }
  if (!of_keys && !(p->features & (on_device | 1u << FAT_BLOCKSPARSE)))
    r.least_ms = bytes_of(p, least(r.keys, r.most + r.rows)) * room->ms_per_byte / dram_part;
  if (!of_keys)
    r.memory_ms = unhidden * r.least_ms;
  if (r.least_ms < FAT_REACH_FLOOR)
    r.least_ms = FAT_REACH_FLOOR;
  if (!of_keys)
    r.split_ms = split_ms + split_ms_per_byte * 4 * r.rows * r.heads * (double)(p->dv + 1);
  return r;
}
