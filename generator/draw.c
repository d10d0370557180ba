/* draw.c -- fixed draws: a few long batches and many short ones, one of them empty.
 *
 * In: a problem, a place. Out: a number. Draws have no state, so any element is known at once. */
#include "draw.h"

enum { PARTS = 64 };

/* Parts of the longest, of 64: mean 0.31, as lengths of texts have it, whose longest few make up most. */
static const int lengths[FAT_DRAW_PERIOD] = {64, 8, 20, 3, 32, 13, 48, 6, 0, 26, 10, 1, 16, 40, 4, 22};

/* A part of `most`, rounded up. What draws differ by (`other`) and the sizes decide where they begin, so that
 * small problems are not all alike. */
static int64_t length(const fat_problem *p, int64_t most, int64_t b, int64_t other)
{
  return (most * lengths[(b + p->q + p->k + other) % FAT_DRAW_PERIOD] + PARTS - 1) / PARTS;
}

int64_t fat_draw_number(const fat_problem *p, int tensor, fat_element at)
{
  switch (tensor) {
  case FAT_USED_Q:
    return length(p, p->q, at.b, 3);
  case FAT_USED_K:
    return length(p, p->k, at.b, 8);
  default:
    return 0;
  }
}

static int64_t drawn(const fat_problem *p, int tensor, int64_t b, const void *from)
{
  (void)from;
  return fat_draw_number(p, tensor, (fat_element){b, 0, 0});
}

static int64_t clamp(int64_t x, int64_t most)
{
  return x < 0 ? 0 : x > most ? most : x;
}

fat_batch fat_draw_batch(const fat_problem *p, int64_t b, fat_draw_from number, const void *from)
{
  fat_batch x = {.p = *p};
  number = number ? number : drawn;
  if (fat_problem_has(p, FAT_USED)) {
    x.p.q = clamp(number(p, FAT_USED_Q, b, from), x.p.q);
    x.p.k = clamp(number(p, FAT_USED_K, b, from), x.p.k);
  }
  x.p.b = 1;
  x.p.features &= ~(1u << FAT_USED);
  return x;
}

bool fat_draw_by_batch(const fat_problem *p)
{
  return fat_problem_has(p, FAT_USED);
}
