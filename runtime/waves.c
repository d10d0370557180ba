/* waves.c -- the arithmetic of waves.h.
 *
 * In: sizes, a config's tiles. Out: work. Whole numbers are made without the C library: a call of it costs as
 * much as the rest. */
#include "waves.h"
#include "draw.h"
#include "sees.h"
#include <string.h>

/* These numbers are fitted to times of one config at shapes of its family (H200), most of them drawn by lot
 * (bench/results/h200-lot-fwd.tsv, h200-lot-bwd.tsv), and to what bench_pick loses with these files and with
 * those that it reads unasked. One foretold from another, 71,484 pairs of forwards and 137,750 of backwards,
 * they are off by 23 and 17 % in the root mean square; of fewer shapes by 25 and 27 where heads that share a
 * tile of keys were one long head, and a mask's tiles always found a free SM; by what a config takes in the
 * median of its shapes forwards by 15 % for 17, of 256 rows and more 11 for 14. Held out, the pick lost 6.1
 * and 4.5 % with rows of a problem's own type alone; of fewer shapes 6.4 and 4.7 for 7.3 and 6.2, a backward
 * 6.0 where what a call's tiles take beside their keys raised doubt, too, which in a forward loses less.
 * Fitted again since T counts and steps and memory take time of their own (below, reach.c): of 446 backwards
 * it loses 2.7 % for 3.6, 60 % at worst for 90, by the package's rows alone 4.5 for 5.7, of an H100's 56 3.8
 * for 5.9; of 497 forwards 3.5 for 4.2, 44 at worst for 82, by the package's rows 8.2 for 9.7, of an H100's
 * 61 1.5 for 2.3; less in each half of an H200's shapes, too. */
typedef struct numbers {
  double wgmma, mma; /* keys that the beginning and the end of a tile take the time of, */
  double again;      /* those of each further head that it passes by wgmma */
  double launch_ms;  /* that a launch takes: those of a backward wait for each other */
  double alone;      /* of a round's time what one block alone on its SM takes, where more would fit */
  double doubt;      /* what each unit of distance adds to a time foretold: what is near counts for more; */
  double of_rate;    /* how many times as much to what comes by a rate, where it was told from a time that was
                        all launches, beginnings and ends */
} numbers;
static const numbers fitted[] = {
    [FAT_FWD] = {224, 80, 0, 0.0025, 0.6, 0.018, 6}, [FAT_BWD] = {160, 64, 8, 0.003, 0.7, 0.02, 10}};
/* What merging takes where keys are split, a launch of its own. Without it `fwd` with N = 2, the fastest over
 * a cache of 8,192 keys, was picked for 5 to 102 keys, where it took 1.4 to 3 times as long as one launch
 * (H200, six shapes by lot). */
static const double merge_ms = 0.0025;
/* Of a round's time what one block alone on its SM takes where all warps that fit have a scheduler each: they
 * hardly wait for each other. 2,898 pairs of such forwards are off by 20 % in the root mean square, for 28
 * with the half of other blocks. */
static const double alone_few = 0.8;
enum { SCHEDULERS = 4 /* of an SM */ };
/* Keys that the wait for the next Bc takes the time of, in each step but the first, where wgmma has one stage
 * and nothing is loaded meanwhile. Of 174 times of such configs, each foretold from one at another number of
 * keys (H200, 16 to 384 keys), none is off by 17 % in the root mean square, 64 by 9, 128 by 18. */
static const double wait_wgmma = 64;
/* What each step of a forward by mma.sync takes beside its keys, for barriers, copies and latencies. As keys
 * it would fit as well, but tiles of 16 keys, timed where one step passes all, would be held for slower than
 * two launches. */
static const double step_ms = 0.0003;
/* The part of a tile's time that its rows of Q take; the rest is K and V, which pass however few they are. */
static const double rows_part = 0.05;
/* And what it takes beside its warpgroups, each of which has 64 rows or none: as much as 4.5 of them. Of
 * 1,269 pairs a full tile of 192 rows was foretold from one of 64 or fewer as 32 % faster without that, as
 * 4 % with it. */
static const double beside_groups = 4.5;
/* The SMs of a GPC that can be counted on, those of a quarter of one, and tiles more than there are: the
 * blocks of a cluster lie in one GPC, and clusters of splits are as large as lets all of them run at once
 * (templates/lib/split.lua). */
static const double gpc = 16, quarter = 4, spare = 2;
static double least(double a, double b)
{
  return a < b ? a : b;
}

/* The whole number below x, for those that a double tells apart: 2^52 + 2^51 leaves no room for a fraction.
 * By way of an integer it takes twice as long. */
static double whole_below(double x)
{
  static const double no_fraction = 6755399441055744.;
  return x - 0.5 + no_fraction - no_fraction;
}

/* x / m in whole steps, x not negative: `per` is 1 / m, which is not exact. */
static double steps(double x, double per)
{
  return whole_below(x * per + (1 - 1e-6));
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

/* Whether the first block at a tile of dQ lays its sums down and the last one rounds them. */
static bool settles(const fat_config *config)
{
  return value_of(config, "T", 0) >= 2;
}

/* Whether the first keys, or the last, come first at a tile of dQ: not where whoever comes first lays its
 * sums down. */
static bool in_turn(const fat_config *config)
{
  return settles(config) && value_of(config, "T", 0) <= 3;
}

/* Whether dQ takes a launch of its own behind that of dK and dV, to round its sums or, by `bwd_two`, to make
 * it: not where one block has whole heads, or those that add round it. */
static bool ends_apart(const fat_config *config)
{
  return value_of(config, "H", 0) != 1 && !settles(config);
}

/* Whether dQ's sums are cleared and rounded by launches of their own: not where Q has blocks of its own. */
static bool sums_apart(const fat_config *config)
{
  return ends_apart(config) && strcmp(config->kernel, "bwd_two") != 0;
}

/* Launches one behind the other. That backwards without the last are two took what H100s lose from 3.8 to
 * 3.4 %. */
static int launches_of(const fat_config *config, fat_op op)
{
  return op != FAT_BWD ? 1 : ends_apart(config) ? 3 : 2;
}

/* Whether a kernel's warps compute by warpgroups. */
static bool has_groups(const fat_config *config)
{
  static const char *const kernels[] = {"fwd_ws", "bwd_ws", "bwd_pair", "bwd_wide"};
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    if (strcmp(config->kernel, kernels[i]) == 0)
      return true;
  return false;
}

/* Of a round's time what one block alone on its SM takes. */
static double alone_of(const fat_config *config, fat_op op, int blocks_per_sm)
{
  const double warps = value_of(config, "w", SCHEDULERS);
  if (blocks_per_sm <= 1)
    return 1;
  if (op == FAT_FWD && !has_groups(config) && warps * blocks_per_sm <= SCHEDULERS)
    return alone_few;
  return fitted[op == FAT_BWD ? FAT_BWD : FAT_FWD].alone;
}

fat_waves fat_waves_of(const fat_config *config, fat_op op, int blocks_per_sm)
{
  const bool groups = has_groups(config), wgmma = groups && op != FAT_BWD;
  const numbers *n = &fitted[op == FAT_BWD ? FAT_BWD : FAT_FWD];
  const double alone = alone_of(config, op, blocks_per_sm);
  int32_t packed;
  double Br = value_of(config, "Br", 64), Bc = value_of(config, "Bc", 64);
  const double wait = wgmma && value_of(config, "s", 2) < 2 ? wait_wgmma : 0;
  const double pair = wgmma && value_of(config, "M", 0) == 1 ? 2 : 1;
  const double parts = groups && op == FAT_BWD ? value_of(config, "G", 1) : 1;
  if (op == FAT_BWD) {
    const double rows = Bc;
    Bc = Br;
    Br = rows;
  }
  const double piece = wgmma ? 64 : Br, pieces = piece < pair * Br ? pair * Br / piece : 0,
               beside = pair * beside_groups;
  return (fat_waves){
      .Br = Br,
      .Bc = Bc,
      .per_Bc = 1 / Bc,
      .piece = piece,
      .pieces = pieces,
      .beside_pieces = beside,
      .per_pieces = 1 / (beside + pieces),
      .edge = (Bc - (double)divisor((int64_t)Br, (int64_t)Bc) - 1) / 2,
      .blocks = blocks_per_sm > 1 ? blocks_per_sm : 1,
      .per_block = blocks_per_sm > 1 ? 1.0 / blocks_per_sm : 1,
      .alone = alone,
      .another = blocks_per_sm > 1 ? (1 - alone) / (blocks_per_sm - 1) : 0,
      .together = value_of(config, "Z", 1),
      .pair = pair,
      .per_pair = 1 / (pair * Br),
      .gathers = wgmma ? 1 : 0,
      .overhead = (groups ? n->wgmma : n->mma) - wait,
      .again = groups ? n->again : 0,
      .step = 1 + wait / Bc,
      .wanted = value_of(config, "N", 0),
      .most = value_of(config, "M", INT32_MAX),
      .once = launches_of(config, op) * n->launch_ms + (value_of(config, "N", 0) > 0 ? merge_ms : 0),
      .sums = op == FAT_BWD && sums_apart(config) ? 1 : 0,
      .in_turn = op == FAT_BWD && in_turn(config) ? 1 : 0,
      .step_ms = op != FAT_BWD && !groups && value_of(config, "w", 0) > 0 ? step_ms : 0,
      .owns = op == FAT_BWD && value_of(config, "H", 0) == 1 ? 1 : 0,
      .parts = parts,
      .passes_apart = op == FAT_BWD ? 1 : 0,
      .doubt = n->doubt,
      .of_rate = n->of_rate,
      .packed = op == FAT_FWD && fat_config_get(config, "G", &packed) == FAT_OK && packed == 1 ? 1 : 0};
}

/* Of a round: what so many blocks take, as many as there are or fewer. */
static double part(const fat_waves *w, const fat_reach *r, double blocks)
{
  return w->alone + w->another * (least(steps(blocks, r->per_sm), w->blocks) - 1);
}

/* How many splits find room for each of so many tiles, as a cluster or as blocks that lie anywhere. */
static double room_of(const fat_waves *w, const fat_reach *r, double tiles)
{
  if (w->most == INT32_MAX)
    return (double)(int64_t)(r->sms * w->wanted / (tiles > 1 ? tiles : 1));
  const double quarters = w->wanted * steps(r->sms, 1 / quarter);
  return least(w->most,
               (double)(int64_t)(gpc / steps(gpc / quarter * (tiles + spare * w->wanted), 1 / quarters)));
}

/* Blocks that share the keys of a tile, as templates/lib/split.lua counts them. */
static double splits_of(const fat_waves *w, const fat_reach *r, double tiles)
{
  if (r->per_split > 0)
    return steps(r->keys, r->per_split);
  if (w->wanted == 0)
    return 1;
  const double splits = least(room_of(w, r, tiles), steps(r->keys, w->per_Bc));
  return splits > 1 ? splits : 1;
}

/* How many times the keys that a row sees its tile passes over, where tiles hold many blocks, of which one in
 * FAT_DRAW_BLOCKS is there: one is enough. A tile that has some and not all counts twice: with blocks of 64
 * tiles of 128 keys took 4.1 times as long as with blocks of 128 (fwd_ws, d 64, H200), and tiles of 128
 * rows 5.1 times (bwd_ws); by this 3.3 and 5.5. Right where tiles hold 1, 2, 4, ... blocks.
 */
static double widened(const fat_waves *w, const fat_reach *r)
{
  const double down = w->piece * r->per_block_rows, across = w->Bc * r->per_block_keys;
  double all = 1.0 / FAT_DRAW_BLOCKS, none = 1 - all;
  for (double blocks = (down > 1 ? down : 1) * (across > 1 ? across : 1); blocks > 1; blocks /= 2) {
    all *= all;
    none *= none;
  }
  return (2 * (1 - none) - all) * FAT_DRAW_BLOCKS;
}

/* Keys of all heads that a tile passes over where a row sees every one. */
static double all_keys(const fat_waves *w, const fat_reach *r)
{
  return r->passes * steps(r->keys, w->per_Bc) * w->Bc;
}

/* The part of a tile's time that is left where rows do not fill it, or those that are beside each other;
 * `rows` are a head's, or a group's. Of heads of one tile fwd_ws with M = 1 takes 1.5 to 1.7 times as long as
 * without (H200), foretold 1.7: the other block of each pair has no rows, and copies for both. */
static double filled(const fat_waves *w, double rows)
{
  const double part = least(rows * w->per_pair, 1), fill = 1 - rows_part + rows_part * part;
  return w->pieces > 0 ? fill * (w->beside_pieces + steps(part * w->pieces, 1)) * w->per_pieces : fill;
}

/* The work that tiles are, whose keys are shared by so many blocks: rounds of what a tile takes. */
static double work_of(const fat_waves *w, const fat_reach *r, double Tr, double whole_tiles, double splits)
{
  const double group = w->packed > 0 ? r->group : 1, share = splits > 1 ? 1 / splits : 1;
  const double tiles = whole_tiles * splits;
  const double full = all_keys(w, r);
  const double overhead = w->overhead + (r->passes > 1 ? w->again * (r->passes - 1) : 0);
  const double fill = filled(w, r->rows * group);
  if (w->owns > 0) {
    const double each = least(full, r->mean + r->ends * (w->Br / 2 + w->edge)) + overhead;
    return fill * Tr * each * steps(r->heads, r->per_sm);
  }
  const double rounds = tiles * r->per_sm * w->per_block, whole = whole_below(rounds + 1e-6);
  const double left = (rounds - whole) * r->sms * w->blocks;
  const double sum = whole + (left > 0.5 ? part(w, r, left) : 0);
  if (r->ends == 0 && r->per_block_keys == 0)
    return fill * ((full * share * w->step + overhead) * sum + w->in_turn * (Tr - 1) * w->Bc);
  const double edge = r->ends * ((w->packed > 0 ? w->Br / group : w->Br) / 2 + w->edge);
  const double times = (r->per_block_keys > 0 ? widened(w, r) : 1) * share * w->step;
  const double mean = times * least(full, r->mean + edge) + overhead;
  const double longest = times * least(full, r->most + edge) + overhead;
  const double low = 2 * r->mean - r->most; /* rows that see more differ evenly from the mean */
  const double shortest = times * least(full, (low > 0 ? low : 0) + edge) + overhead;
  const double gathered = w->gathers * 2 * r->sms, ordered = w->together * Tr;
  const double last = gathered > ordered ? gathered : ordered; /* tiles of heads whose tiles start together */
  const double before = rounds - last * splits * r->per_sm * w->per_block - 1;
  const double late = (before > 0 ? before : 0) * mean + part(w, r, tiles) * longest;
  const double even = rounds * mean + (sum > rounds ? sum - rounds : 0) * least(shortest, mean);
  return fill * (even > late ? even : late);
}

/* Blocks that have a tile of keys together: of few steps fewer (templates/lib/ws_parts.cuh). */
static double blocks_of(const fat_waves *w, const fat_reach *r)
{
  const double most = r->mean * w->per_Bc / 2;
  return least(w->parts, most > 1 ? most : 1);
}

/* The same: more tiles, each of fewer keys. Blocks that a short tile lacks do nothing but begin and end, and
 * one that has a tile alone lays no sums down. */
static fat_demand parted_work(const fat_waves *w, const fat_reach *r)
{
  const double blocks = blocks_of(w, r), Tr = steps(r->rows, w->per_pair);
  const double idle = (w->parts - blocks) * Tr * r->heads * r->per_sm * w->per_block * w->overhead;
  fat_reach own = *r;
  own.heads *= blocks;
  own.passes /= blocks;
  own.mean /= blocks;
  own.most /= blocks;
  own.ends /= blocks;
  return (fat_demand){work_of(w, &own, Tr, Tr * own.heads, 1) + idle, blocks > 1 ? blocks * r->part_ms : 0};
}

/* What steps take beside their keys, in each round. */
static double beside_keys(const fat_waves *w, const fat_reach *r, double tiles, double splits)
{
  if (w->step_ms == 0)
    return 0;
  const double steps_of_tile = least(all_keys(w, r), r->mean + w->Bc) * w->per_Bc;
  const double rounds = tiles * r->per_sm * w->per_block;
  return w->step_ms * steps_of_tile * (rounds * splits > 1 ? rounds : 1 / splits);
}

fat_demand fat_waves_work(const fat_waves *w, const fat_reach *r)
{
  if (w->parts > 1)
    return parted_work(w, r);
  const double group = w->packed > 0 ? r->group : 1;
  const double Tr = w->pair * steps(r->rows * group, w->per_pair);
  const double tiles = Tr * (w->packed > 0 ? r->heads / group : r->heads);
  const double splits = splits_of(w, r, tiles);
  const bool merges = r->per_split > 0 || (w->wanted > 0 && w->most == INT32_MAX);
  return (fat_demand){work_of(w, r, Tr, tiles, splits),
                      (merges ? splits * r->split_ms : 0) + beside_keys(w, r, tiles, splits)};
}

/* Keys that a tile passes. */
static double passed(const fat_waves *w, const fat_reach *r)
{
  return least(all_keys(w, r), r->mean + w->Bc) / blocks_of(w, r);
}

double fat_waves_tile_part(const fat_waves *w, const fat_reach *r)
{
  const double keys = passed(w, r);
  return keys > 0 ? keys / (keys + w->overhead) : 1;
}

fat_pace fat_waves_pace(const fat_waves *w, const fat_reach *r, double ms, fat_demand work)
{
  const double once = least(w->once, ms / 2);
  const double beside = least(work.beside + r->memory_ms + w->sums * r->sums_ms, (ms - once) / 2),
               tiles = ms - once - beside;
  const double fixed = once + beside + tiles * w->overhead / (w->overhead + passed(w, r));
  return (fat_pace){.once = once,
                    .rate = work.tiles > 0 ? tiles / work.tiles : 0,
                    .sums = w->sums,
                    .sure = w->passes_apart > 0 ? once : FAT_REACH_FLOOR,
                    .doubt = w->doubt,
                    .doubt_rate = w->doubt * w->of_rate * fixed / ms};
}
