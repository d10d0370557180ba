/* sees.c -- the interval masks in closed form.
 *
 * In: a problem. Out: intervals, sums of their lengths, sums of tiles. Both ends of a row's interval are a
 * line of slope 1 along the rows, cut off at 0 and at k: lo(i) = clamp(i - from), hi(i) = clamp(i + beyond).
 * Chunks cut them off at the ends of the row's chunk.
 * All arithmetic is in 64 bits, so that no length and no window overflows it. */
#include "sees.h"
#include "draw.h"

/* lo(i) = i - from, hi(i) = i + beyond, before they are cut off. Where there is a prefix, which only the
 * causal mask heeds, hi(i) = min(i + wide, max(i + beyond, prefix)). */
typedef struct band {
  int64_t from, beyond, wide, prefix;
} band;

static const int64_t ALL = INT64_C(1) << 40; /* beyond every length */
enum {
  WALK = 4096,
  WALK_BLOCKS = 256
}; /* rows or tiles that are counted one by one at most; blocks of one */

static band band_of(const fat_problem *p)
{
  const int64_t diagonal = p->k - p->q; /* row i stands at key i + diagonal */
  band b = {ALL, ALL, ALL, 0};
  if (fat_problem_has(p, FAT_WINDOW)) {
    const int64_t left = (int64_t)p->arg[FAT_WINDOW][0], right = (int64_t)p->arg[FAT_WINDOW][1];
    b.from = left == FAT_PROBLEM_ALL ? ALL : left - diagonal;
    b.beyond = right == FAT_PROBLEM_ALL ? ALL : right + diagonal + 1;
  }
  b.wide = b.beyond;
  if (fat_problem_has(p, FAT_CAUSAL)) /* whose window has no right end of its own */
    b.wide = ALL;
  if (fat_problem_has(p, FAT_PREFIX))
    b.prefix = (int64_t)p->arg[FAT_PREFIX][0];
  if (fat_problem_has(p, FAT_CAUSAL) && diagonal + 1 < b.beyond)
    b.beyond = diagonal + 1;
  if (fat_problem_has(p, FAT_CAUSAL_TL) && b.beyond > 1)
    b.beyond = 1;
  return b;
}

static int64_t clamp(int64_t x, int64_t most)
{
  return x < 0 ? 0 : x > most ? most : x;
}

static fat_interval cut(int64_t lo, int64_t hi, int64_t most)
{
  fat_interval x = {clamp(lo, most), clamp(hi, most)};
  if (x.lo > x.hi)
    x.lo = x.hi;
  return x;
}

/* Keys of a chunk; more than there are where there are no chunks. */
static int64_t chunk_of(const fat_problem *p)
{
  return fat_problem_has(p, FAT_CHUNK) ? (int64_t)p->arg[FAT_CHUNK][0] : ALL;
}

fat_interval fat_sees(const fat_problem *p, int64_t i)
{
  const band b = band_of(p);
  const int64_t chunk = chunk_of(p), at = i + p->k - p->q; /* the key that the row stands at */
  const int64_t lifted = i + b.wide < b.prefix ? i + b.wide : b.prefix;
  fat_interval seen = cut(i - b.from, i + b.beyond > lifted ? i + b.beyond : lifted, p->k);
  if (chunk < ALL) {
    const int64_t first = at < 0 ? -chunk : at - at % chunk; /* rows ahead of the first key see none */
    seen = cut(seen.lo > first ? seen.lo : first, seen.hi < first + chunk ? seen.hi : first + chunk, p->k);
  }
  return seen;
}

fat_interval fat_sees_within(const fat_problem *p, int64_t i, int64_t lo, int64_t hi)
{
  const fat_interval seen = fat_sees(p, i);
  return cut(seen.lo > lo ? seen.lo : lo, seen.hi < hi ? seen.hi : hi, p->k);
}

/* Of a batch, with the interval that is drawn where there is one. */
static fat_interval sees_drawn(const fat_problem *p, int64_t i)
{
  if (!fat_problem_has(p, FAT_INTERVAL))
    return fat_sees(p, i);
  const fat_element at = {0, 0, i};
  return fat_sees_within(p, i, fat_draw_number(p, FAT_INTERVAL, 0, at),
                         fat_draw_number(p, FAT_INTERVAL, 1, at));
}

fat_interval fat_sees_rows(const fat_problem *p, int64_t j)
{
  const band b = band_of(p); /* i - from <= j < i + beyond */
  const int64_t chunk = chunk_of(p),
                first = j - j % chunk - (p->k - p->q); /* who stands at the chunk's first */
  fat_interval rows = {j - (j < b.prefix ? b.wide : b.beyond) + 1, j + b.from + 1};
  if (chunk < ALL) {
    rows.lo = rows.lo > first ? rows.lo : first;
    rows.hi = rows.hi < first + chunk ? rows.hi : first + chunk;
  }
  return cut(rows.lo, rows.hi, p->q);
}

/* The sum over i = 0 .. n - 1 of clamp(i + shift) to 0 .. most. */
static double sum_clamped(int64_t n, int64_t shift, int64_t most)
{
  const int64_t first = clamp(-shift, n), full = clamp(most - shift, n); /* 0 before, most from there on */
  const double rising = (double)(full - first);
  if (full <= first)
    return (double)(n - first) * (double)most;
  return rising * ((double)(first + shift) + (double)(full - 1 + shift)) / 2 +
         (double)(n - full) * (double)most;
}

/* Whether no row sees a key. Where lo would pass hi a row is empty: from + beyond < 0 alone, which no mask of
 * the grammar makes but causaltl with a window whose rows lie to the right of it. */
static bool sees_nothing(const fat_problem *p, band b)
{
  return p->q <= 0 || p->k <= 0 || (b.prefix == 0 && b.from + b.beyond <= 0);
}

/* Pairs of the rows that stand at keys [from, to) of the chunk that begins at `first` and has n keys. */
static double chunk_pairs(const fat_problem *p, band b, int64_t first, int64_t from, int64_t to, int64_t n)
{
  const int64_t row = from - (p->k - p->q), rows = to - from;
  return sum_clamped(rows, row + b.beyond - first, n) - sum_clamped(rows, row - b.from - first, n);
}

/* All chunks but the first and the last that rows stand in are alike: both lines go along with the rows. */
static double chunked_pairs(const fat_problem *p, band b)
{
  const int64_t C = chunk_of(p), begin = p->k > p->q ? p->k - p->q : 0;
  double sum = 0;
  for (int64_t at = begin; at < p->k;) {
    const int64_t first = at - at % C, end = first + C < p->k ? first + C : p->k;
    const int64_t alike = at == first ? (p->k - first) / C : 0; /* whole chunks from here on */
    sum += chunk_pairs(p, b, first, at, end, end - first) * (alike > 1 ? (double)alike : 1);
    at = alike > 1 ? first + alike * C : end;
  }
  return sum;
}

/* The x-th of `counted` that lie evenly among n and stand for all of them. */
static int64_t spread(int64_t x, int64_t n, int64_t counted)
{
  return (int64_t)(((double)x + 0.5) * (double)n / (double)counted);
}

/* Keys of the blocks that are drawn for the row, of those that it sees; of very many some stand for all. */
static double keys_of_row(const fat_problem *p, int64_t i)
{
  const fat_interval seen = sees_drawn(p, i);
  if (!fat_problem_has(p, FAT_BLOCKSPARSE) || seen.lo >= seen.hi)
    return (double)(seen.hi - seen.lo);
  const int64_t R = (int64_t)p->arg[FAT_BLOCKSPARSE][0], C = (int64_t)p->arg[FAT_BLOCKSPARSE][1];
  const int64_t first = seen.lo / C, blocks = (seen.hi + C - 1) / C - first,
                counted = blocks < WALK_BLOCKS ? blocks : WALK_BLOCKS;
  int64_t sum = 0;
  for (int64_t x = 0; x < counted; x++) {
    const int64_t J = first + spread(x, blocks, counted);
    const int64_t lo = J * C > seen.lo ? J * C : seen.lo, hi = (J + 1) * C < seen.hi ? (J + 1) * C : seen.hi;
    sum += fat_draw_block(p, (fat_element){0, 0, i / R}, J) ? hi - lo : 0;
  }
  return (double)sum * ((double)blocks / (double)counted);
}

/* Row by row; of very many some stand for all. */
static double walked_pairs(const fat_problem *p)
{
  const int64_t counted = p->q < WALK ? p->q : WALK;
  double sum = 0;
  for (int64_t x = 0; x < counted; x++)
    sum += keys_of_row(p, spread(x, p->q, counted));
  return counted > 0 ? sum * ((double)p->q / (double)counted) : 0;
}

/* Of one batch. */
static double pairs(const fat_problem *p)
{
  const band b = band_of(p);
  if (sees_nothing(p, b))
    return 0;
  if (b.prefix > 0 || fat_problem_has(p, FAT_INTERVAL) || fat_problem_has(p, FAT_BLOCKSPARSE))
    return walked_pairs(p);
  if (fat_problem_has(p, FAT_CHUNK))
    return chunked_pairs(p, b);
  return sum_clamped(p->q, b.beyond, p->k) - sum_clamped(p->q, -b.from, p->k);
}

/* The sum over t = 0 .. n - 1 of floor((a t + c) / m), a, c >= 0, by Euclid's steps. */
static double sum_floor(int64_t n, int64_t a, int64_t c, int64_t m)
{
  double sum = 0, sign = 1;
  while (n > 0) {
    sum += sign * ((double)(a / m) * (double)n * (double)(n - 1) / 2 + (double)(c / m) * (double)n);
    a %= m;
    c %= m;
    const int64_t y = (a * (n - 1) + c) / m; /* the most; n a < 2^31 2^31 */
    if (y == 0)
      break;
    /* Count the points under the line by rows: y (n - 1) less the points above it. */
    sum += sign * (double)y * (double)(n - 1);
    sign = -sign;
    const int64_t old = m;
    c = m - c - 1;
    n = y;
    m = a;
    a = old;
  }
  return sum;
}

/* The sum over t = 0 .. n - 1 of floor(clamp(a t + c, most) / m). */
static double sum_tiles(int64_t n, int64_t a, int64_t c, int64_t m, int64_t most)
{
  const int64_t first = c >= 0 ? 0 : clamp((-c + a - 1) / a, n);
  const int64_t full = c >= most ? 0 : clamp((most - c + a - 1) / a, n);
  const double high = (double)(n - full) * (double)(most / m);
  return full > first ? sum_floor(full - first, a, a * first + c, m) + high : high;
}

/* Of tile t: first key of its first row, and the key behind the last of its last row. */
static fat_interval tile_keys(const fat_problem *p, int64_t t, int64_t Br, int64_t group)
{
  const int64_t rows = p->q * group, last = (t + 1) * Br < rows ? (t + 1) * Br - 1 : rows - 1;
  const fat_interval top = sees_drawn(p, t * Br / group), bottom = sees_drawn(p, last / group);
  return (fat_interval){top.lo < bottom.hi ? top.lo : bottom.hi, bottom.hi};
}

/* Whether a block is drawn for rows [i, i_end) and keys [j, j_end). */
static bool has_block(const fat_problem *p, int64_t i, int64_t i_end, int64_t j, int64_t j_end)
{
  const int64_t R = (int64_t)p->arg[FAT_BLOCKSPARSE][0], C = (int64_t)p->arg[FAT_BLOCKSPARSE][1];
  for (int64_t I = i / R; I * R < i_end && I * R < p->q; I++)
    for (int64_t J = j / C; J * C < j_end && J * C < p->k; J++)
      if (fat_draw_block(p, (fat_element){0, 0, I}, J))
        return true;
  return false;
}

static double visits(const fat_problem *p, int64_t t, int64_t Br, int64_t Bc, int64_t group)
{
  const fat_interval keys = tile_keys(p, t, Br, group);
  if (keys.hi <= keys.lo)
    return 0;
  const int64_t first = keys.lo / Bc, all = (keys.hi + Bc - 1) / Bc - first,
                counted = all < WALK ? all : WALK;
  int64_t drawn = 0;
  if (!fat_problem_has(p, FAT_BLOCKSPARSE))
    return (double)all;
  for (int64_t x = 0; x < counted; x++) {
    const int64_t j = first + spread(x, all, counted);
    drawn += has_block(p, t * Br / group, (t + 1) * Br / group, j * Bc, (j + 1) * Bc);
  }
  return (double)drawn * ((double)all / (double)counted);
}

static double tiles(const fat_problem *p, int64_t Br, int64_t Bc, int64_t group)
{
  const int64_t rows = p->q * group, Tr = (rows + Br - 1) / Br;
  const band b = band_of(p);
  if (sees_nothing(p, b))
    return 0;
  /* Where a tile ends amid the heads of a row, or rows are cut by chunks or lifted by a prefix, there is no
   * line: tiles are counted one by one, and of very many some stand for all. */
  const bool blocks = fat_problem_has(p, FAT_BLOCKSPARSE);
  if (Br % group != 0 || fat_problem_has(p, FAT_CHUNK) || fat_problem_has(p, FAT_INTERVAL) || b.prefix > 0 ||
      blocks) {
    const int64_t walk = blocks ? 64 : WALK, counted = Tr < walk ? Tr : walk;
    double sum = 0;
    for (int64_t t = 0; t < counted; t++)
      sum += visits(p, spread(t, Tr, counted), Br, Bc, group);
    return sum * ((double)Tr / (double)counted);
  }
  /* All tiles but the last, which may end early; rows of a tile of one head are Br / group. */
  const int64_t step = Br / group, n = Tr - 1;
  const double to = sum_tiles(n, step, step - 1 + b.beyond + Bc - 1, Bc, p->k + Bc - 1);
  const double from = sum_tiles(n, step, -b.from, Bc, p->k);
  return to - from + visits(p, Tr - 1, Br, Bc, group);
}

static int64_t most_tiles(const fat_problem *p, int64_t Br, int64_t Bc, int64_t group)
{
  const band b = band_of(p);
  if (sees_nothing(p, b))
    return 0;
  const int64_t first = fat_sees(p, 0).lo, last = fat_sees(p, p->q - 1).hi; /* what all rows together see */
  const int64_t all = last > first ? (last + Bc - 1) / Bc - first / Bc : 0;
  const int64_t rows = (Br + group - 2) / group + 1; /* that a tile of Br may have part in */
  const int64_t C = chunk_of(p),
                chunked = ((rows + C - 2) / C + 1) * C; /* keys of the chunks they stand in */
  const int64_t banded = rows - 1 + b.from + b.beyond, keys = chunked < banded ? chunked : banded;
  const int64_t most = (keys + Bc - 2) / Bc + 1; /* its ends may lie amid tiles */
  return most < all && b.prefix == 0 ? most : all;
}

/* -- of all batches, which repeat */

/* How many are the b-th of a period. */
static double times(const fat_problem *p, int64_t b)
{
  return (double)((p->b - b + FAT_DRAW_PERIOD - 1) / FAT_DRAW_PERIOD);
}

/* Tiles, as fat_sees_tiles is asked for them. */
typedef struct tiling {
  int64_t Br, Bc, group;
} tiling;

/* What is seen of one batch: tiles, or without a tiling pairs of a row and a key. */
static double seen_of(const fat_problem *p, const tiling *by)
{
  return by ? tiles(p, by->Br, by->Bc, by->group) : pairs(p);
}

/* The mean of all batches. */
static double mean_seen(const fat_problem *p, const tiling *by)
{
  double sum = 0;
  if (!fat_draw_by_batch(p))
    return seen_of(p, by);
  for (int64_t b = 0; b < FAT_DRAW_PERIOD && b < p->b; b++) {
    const fat_batch x = fat_draw_batch(p, b, NULL, NULL);
    sum += times(p, b) * seen_of(&x.p, by);
  }
  return p->b > 0 ? sum / (double)p->b : 0;
}

double fat_sees_pairs(const fat_problem *p)
{
  return mean_seen(p, NULL);
}

double fat_sees_tiles(const fat_problem *p, int64_t Br, int64_t Bc, int64_t group)
{
  const tiling by = {Br, Bc, group};
  return mean_seen(p, &by);
}

int64_t fat_sees_most_tiles(const fat_problem *p, int64_t Br, int64_t Bc, int64_t group)
{
  int64_t most = 0;
  if (!fat_draw_by_batch(p))
    return most_tiles(p, Br, Bc, group);
  for (int64_t b = 0; b < FAT_DRAW_PERIOD && b < p->b; b++) {
    const fat_batch x = fat_draw_batch(p, b, NULL, NULL);
    const int64_t own = most_tiles(&x.p, Br, Bc, group);
    most = own > most ? own : most;
  }
  return most;
}

bool fat_sees_uneven(const fat_problem *p)
{
  return fat_draw_by_batch(p) || (p->features & (1u << FAT_CAUSAL | 1u << FAT_CAUSAL_TL | 1u << FAT_WINDOW |
                                                 1u << FAT_CHUNK | 1u << FAT_BLOCKSPARSE)) != 0;
}
