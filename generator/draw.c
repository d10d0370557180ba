/* draw.c -- fixed draws: a few long batches and many short ones, one of them empty unless it is the only one.
 *
 * In: a problem, a place. Out: a number. Draws have no state, so any element is known at once. */
#include "draw.h"

enum { PARTS = 64 };
static const uint32_t lengths = FAT_DRAWN & ~(1u << FAT_PREFIX);

/* Parts of the longest, of 64: mean 0.31, as lengths of texts have it, whose longest few make up most. */
static const int parts[FAT_DRAW_PERIOD] = {64, 8, 20, 3, 32, 13, 48, 6, 0, 26, 10, 1, 16, 40, 4, 22};

/* A part of `most`, rounded up. What draws differ by (`other`) and the sizes decide where they begin, so that
 * small problems are not all alike. */
static int64_t length(const fat_problem *p, int64_t most, int64_t b, int64_t other)
{
  return (most * parts[(b + p->q + p->k + other) % FAT_DRAW_PERIOD] + PARTS - 1) / PARTS;
}

/* Where documents begin, in 64ths of the keys: eight, of several lengths. Row i belongs to that of the key at
 * which the causal mask from the bottom right has it. */
static int64_t document(const fat_problem *p, int which, int64_t i)
{
  static const int begins[] = {0, 20, 23, 32, 33, 47, 53, 57, PARTS};
  const int64_t at = i + p->k - p->q;
  int x = 0;
  if (at < 0)
    return 0;
  while (begins[x + 1] < PARTS && p->k * begins[x + 1] / PARTS <= at)
    x++;
  return p->k * begins[x + which] / PARTS;
}

/* The same of rows and keys that count: those of an only batch are never none, with which a tune would time
 * nothing. */
static int64_t counting(const fat_problem *p, int64_t most, int64_t b, int64_t other)
{
  const int64_t part = length(p, most, b, other);
  return p->b == 1 && part == 0 ? most : part;
}

static int64_t varlen(const fat_problem *p, int keys, int64_t b)
{
  return keys && p->k != p->q ? counting(p, p->k, b, 5) : counting(p, p->q, b, 0);
}

/* Where batch b begins: draws repeat. */
static int64_t begins(const fat_problem *p, int keys, int64_t b)
{
  int64_t sum = 0, period = 0;
  for (int64_t x = 0; x < FAT_DRAW_PERIOD; x++) {
    period += varlen(p, keys, x);
    sum += x < b % FAT_DRAW_PERIOD ? varlen(p, keys, x) : 0;
  }
  return sum + b / FAT_DRAW_PERIOD * period;
}

int64_t fat_draw_total(const fat_problem *p, int keys)
{
  const uint64_t told = p->arg[FAT_VARLEN][keys];
  return told > 0 ? (int64_t)told - 1 : begins(p, keys, p->b);
}

/* An end of the interval of a row of the tensors: of ragged batches they lie behind each other. */
static int64_t interval_end(const fat_problem *p, int which, fat_element at)
{
  if (fat_problem_has(p, FAT_VARLEN)) {
    int64_t period = begins(p, 0, FAT_DRAW_PERIOD);
    at.b = period > 0 ? at.i / period * FAT_DRAW_PERIOD : 0;
    while (begins(p, 0, at.b + 1) <= at.i)
      at.b++;
  }
  const fat_batch x = fat_draw_batch(p, at.b, NULL, NULL);
  return document(&x.p, which, at.i - x.q0);
}

int64_t fat_draw_blocks(const fat_problem *p, int keys)
{
  if (!fat_problem_has(p, FAT_BLOCKSPARSE))
    return 0;
  const int64_t block = (int64_t)p->arg[FAT_BLOCKSPARSE][keys];
  return ((keys ? p->k : p->q) + block - 1) / block;
}

bool fat_draw_block(const fat_problem *p, fat_element at, int64_t column)
{
  const int64_t columns = fat_draw_blocks(p, 1);
  uint64_t x = (uint64_t)(at.i * columns + (column + 3 * at.h + 5 * at.b) % columns);
  x = (x + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  return (x ^ x >> 27) % FAT_DRAW_BLOCKS == 0;
}

int64_t fat_draw_number(const fat_problem *p, fat_feature f, int which, fat_element at)
{
  switch (f) {
  case FAT_VARLEN:
    return begins(p, which, at.b);
  case FAT_INTERVAL:
    return interval_end(p, which, at);
  case FAT_USED:
    return which ? counting(p, p->k, at.b, 8) : counting(p, p->q, at.b, 3);
  case FAT_PREFIX:
    return length(p, p->k, at.b, 5);
  case FAT_LEFTPAD:
    return length(p, p->k / 2, at.b, 11);
  default:
    return 0;
  }
}

static int64_t drawn(const fat_problem *p, fat_feature f, int which, int64_t b, const void *from)
{
  (void)from;
  return fat_draw_number(p, f, which, (fat_element){b, 0, 0});
}

static int64_t clamp(int64_t x, int64_t most)
{
  return x < 0 ? 0 : x > most ? most : x;
}

fat_batch fat_draw_batch(const fat_problem *p, int64_t b, fat_draw_from number, const void *from)
{
  fat_batch x = {.p = *p};
  number = number ? number : drawn;
  if (fat_problem_has(p, FAT_VARLEN)) {
    x.q0 = number(p, FAT_VARLEN, 0, b, from);
    x.k0 = number(p, FAT_VARLEN, 1, b, from);
    x.p.q = clamp(number(p, FAT_VARLEN, 0, b + 1, from) - x.q0, p->q);
    x.p.k = clamp(number(p, FAT_VARLEN, 1, b + 1, from) - x.k0, p->k);
  }
  if (fat_problem_has(p, FAT_USED)) {
    x.p.q = clamp(number(p, FAT_USED, 0, b, from), x.p.q);
    x.p.k = clamp(number(p, FAT_USED, 1, b, from), x.p.k);
  }
  if (fat_problem_has(p, FAT_LEFTPAD)) {
    const int64_t pad = clamp(number(p, FAT_LEFTPAD, 0, b, from), x.p.k);
    x.k0 += pad;
    x.p.k -= pad;
  }
  if (fat_problem_has(p, FAT_PREFIX)) {
    x.p.arg[FAT_PREFIX][0] = (uint64_t)clamp(number(p, FAT_PREFIX, 0, b, from), x.p.k);
    x.p.arg[FAT_PREFIX][1] = 1;
  }
  x.p.b = 1;
  x.p.features &= ~lengths;
  return x;
}

bool fat_draw_by_batch(const fat_problem *p)
{
  const bool unknown = fat_problem_has(p, FAT_PREFIX) && p->arg[FAT_PREFIX][1] == 0;
  return unknown || (p->features & lengths) != 0;
}
