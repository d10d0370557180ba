/* waves.c -- the arithmetic of waves.h.
 *
 * In: sizes, a config's tiles. Out: work. Whole numbers are made without the C library: a call of it costs as
 * much as the rest. */
#include "waves.h"
#include "draw.h"
#include "sees.h"
#include <string.h>

/* Keys that the beginning and the end of a tile take the time of, and what a launch takes. By 14,351 choices
 * between two configs at a shape where both were timed, each from the time at some other shape (H200, fwd_ws,
 * h200-ws-max.tsv), and 5,140 of an earlier text (h200-ws-tune.tsv): the nearer of the two shapes loses 1.9
 * and 2.5 %, these numbers 0.87 and 1.29 %; 128 to 256 keys with 1 to 3 us 0.78 to 0.89 and 1.29 to 1.42 %.
 */
static const double tile_keys = 192, launch_ms = 0.002;
/* The part of a tile's time that its rows of Q take; the rest is K and V, which pass however few there are.
 */
static const double rows_part = 0.3;

/* x / m in whole steps, x not negative: `per` is 1 / m, which is not exact. */
static double steps(double x, double per)
{
  return (double)(int64_t)(x * per + (1 - 1e-6));
}

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

fat_reach fat_waves_reach(const fat_problem *p, int64_t sms)
{
  const bool of_keys = p->op == FAT_BWD;
  const double heads = (double)p->b * (double)p->h * fat_problem_slices(p);
  const double group = (double)p->h / (double)(p->hk > 0 ? p->hk : 1);
  fat_reach r = {.rows = (double)p->q,
                 .heads = heads,
                 .group = group,
                 .keys = (double)p->k,
                 .ends = ends_of(p),
                 .sms = (double)(sms > 0 ? sms : 1)};
  if (of_keys)
    r = (fat_reach){(double)p->k, heads / group, group, (double)p->q, 0, 0, r.ends, 0, r.sms, 0};
  r.per_sm = 1 / r.sms;
  r.mean = r.most = r.keys;
  if (fat_problem_has(p, FAT_SPLIT) && p->arg[FAT_SPLIT][0] > 0)
    r.per_split = 1 / (double)p->arg[FAT_SPLIT][0];
  fat_problem known = *p; /* lengths by batch and intervals lie on the device */
  known.features &= ~(FAT_DRAWN | 1u << FAT_INTERVAL);
  if (r.ends > 0 && r.rows > 0)
    r.mean = fat_sees_pairs(&known) / r.rows;
  if (fat_problem_has(p, FAT_CHUNK))
    r.most = least(r.keys, (double)p->arg[FAT_CHUNK][0]);
  if (fat_problem_has(p, FAT_WINDOW) && r.ends > 1) {
    const double right = fat_problem_has(p, FAT_CAUSAL) ? 0 : (double)p->arg[FAT_WINDOW][1];
    r.most = least(r.most, (double)p->arg[FAT_WINDOW][0] + right + 1);
  }
  return r;
}

static double value_of(const fat_config *config, const char *name, int32_t other)
{
  int32_t value;
  return fat_config_get(config, name, &value) == FAT_OK && value > 0 ? value : other;
}

static int64_t divisor(int64_t a, int64_t b)
{
  while (b > 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

fat_waves fat_waves_of(const fat_config *config, fat_op op, int blocks_per_sm)
{
  int32_t packed;
  double Br = value_of(config, "Br", 64), Bc = value_of(config, "Bc", 64);
  if (op == FAT_BWD) {
    const double rows = Bc;
    Bc = Br;
    Br = rows;
  }
  return (fat_waves){
      .Br = Br,
      .Bc = Bc,
      .per_Br = 1 / Br,
      .per_Bc = 1 / Bc,
      .edge = (Bc - (double)divisor((int64_t)Br, (int64_t)Bc) - 1) / 2,
      .per_block = blocks_per_sm > 1 ? 1.0 / blocks_per_sm : 1,
      .together = value_of(config, "Z", 1),
      .gathers = strcmp(config->kernel, "fwd_ws") == 0 ? 1 : 0,
      .wanted = value_of(config, "N", 0),
      .packed = op == FAT_FWD && fat_config_get(config, "G", &packed) == FAT_OK && packed == 1 ? 1 : 0};
}

/* Of a round: what so many blocks take, as many as there are or fewer. */
static double part(const fat_waves *w, const fat_reach *r, double blocks)
{
  return (1 + least(steps(blocks, r->per_sm) * w->per_block, 1)) / 2;
}

/* Blocks that share the keys of a tile, as the recipe of fwd.lua counts them. */
static double splits_of(const fat_waves *w, const fat_reach *r, double tiles)
{
  if (r->per_split > 0)
    return steps(r->keys, r->per_split);
  if (w->wanted == 0)
    return 1;
  const double room = (double)(int64_t)(r->sms * w->wanted / (tiles > 1 ? tiles : 1));
  const double splits = least(room, steps(r->keys, w->per_Bc));
  return splits > 1 ? splits : 1;
}

double fat_waves_work(const fat_waves *w, const fat_reach *r)
{
  const double group = w->packed > 0 ? r->group : 1;
  const double Tr = steps(r->rows * group, w->per_Br);
  const double whole_tiles = Tr * (w->packed > 0 ? r->heads / group : r->heads);
  const double splits = splits_of(w, r, whole_tiles), share = splits > 1 ? 1 / splits : 1;
  const double tiles = whole_tiles * splits;
  const double rounds = tiles * r->per_sm * w->per_block;
  const double full = steps(r->keys, w->per_Bc) * w->Bc;
  const double fill = 1 - rows_part + rows_part * least(r->rows * group * w->per_Br, 1);
  if (r->ends == 0) {
    const double whole = (double)(int64_t)(rounds + 1e-6),
                 left = (rounds - whole) / (r->per_sm * w->per_block);
    return fill * (full * share + tile_keys) * (whole + (left > 0.5 ? part(w, r, left) : 0));
  }
  const double edge = r->ends * ((w->packed > 0 ? w->Br / group : w->Br) / 2 + w->edge);
  const double mean = least(full, r->mean + edge) * share + tile_keys;
  const double longest = least(full, r->most + edge) * share + tile_keys;
  const double gathered = w->gathers * 2 * r->sms / Tr,
               together = gathered > w->together ? gathered : w->together;
  const double before = rounds - together * Tr * splits * r->per_sm * w->per_block - 1;
  const double late = (before > 0 ? before : 0) * mean + part(w, r, tiles) * longest;
  return fill * (rounds * mean > late ? rounds * mean : late);
}

fat_pace fat_waves_pace(double ms, double work)
{
  const double once = least(launch_ms, ms / 2);
  return (fat_pace){once, work > 0 ? (ms - once) / work : 0};
}
