/* spots.c -- places the tensors of a full-size problem, and computes a few of its rows.
 *
 * In: a problem, the block of random numbers. Out: where the tensors lie, and what is right for some rows.
 * The O and LSE that a backward call takes are made up, since a forward call of this size is too much to
 * compute: the formulas hold for any, and an LSE of about the right size keeps P at the right size. */
#include "spots.h"

#include "draw.h"
#include "half.h"

#include <math.h>
#include <stdlib.h>

enum { APART = 104729 /* elements by which the block is shifted from tensor to tensor */ };

float *fat_spots_block(uint64_t seed)
{
  return fat_truth_numbers(FAT_SPOTS_BLOCK, seed);
}

float fat_spots_number(const fat_spots *spots, const float *block, int tensor, int64_t element)
{
  if (spots->slot[tensor].type == FAT_I32) {
    const int64_t rows = spots->slot[tensor].size[2], heads = spots->slot[tensor].size[1]; /* packed */
    return (float)fat_tensors_drawn(
        &spots->problem, tensor,
        (fat_element){element / rows / heads, element / rows % heads, element % rows});
  }
  const float x = block[(element + (int64_t)tensor * APART) % FAT_SPOTS_BLOCK];
  if (!fat_tensors[tensor].is_lse)
    return fat_half_round(spots->slot[tensor].type, fat_truth_fit(&spots->problem, tensor, element, x));
  /* The LSE of n normal scores is about log(n) + 1/2. */
  return logf((float)(spots->problem.k > 0 ? spots->problem.k : 1)) + 0.5f + 0.1f * x;
}

/* `count` elements of an input, from a row on. */
static void read_block(const fat_spots *a, const float *block, int t, int64_t row, int64_t count, float *to)
{
  const int64_t from = (row - a->slot[t].at) / a->slot[t].bytes;
  for (int64_t i = 0; i < count; i++)
    to[i] = fat_spots_number(a, block, t, from + i);
}

/* Rows of batches alone, which may begin behind the tensor's first: one of this batch, or of the next that
 * has any. */
static void settle_row(fat_spots *a, int side, int r)
{
  for (int i = 0; i < FAT_DRAW_PERIOD; i++) {
    const fat_batch x = fat_draw_batch(&a->problem, a->row[side][r].b, NULL, NULL);
    const int64_t rows = side == FAT_OF_Q ? x.p.q : x.p.k;
    a->row[side][r].first = side == FAT_OF_Q ? x.q0 : x.k0;
    if (rows > 0) {
      a->row[side][r].i %= rows;
      return;
    }
    a->row[side][r].b = (a->row[side][r].b + 1) % a->problem.b;
  }
  a->rows[side] = 0; /* there are none */
}

int64_t fat_spots_row(const fat_spots *spots, int tensor, int r)
{
  const fat_slot *s = &spots->slot[tensor];
  const int side = (int)fat_tensors[tensor].side;
  return fat_image_row(s, s->size[0] > 1 ? spots->row[side][r].b : 0, spots->row[side][r].h,
                       spots->row[side][r].first + spots->row[side][r].i);
}

/* The first row of the first head, the last row of the last one, and others spread evenly in between. */
static void choose_rows(fat_spots *a, int side)
{
  const fat_problem *p = &a->problem;
  const int64_t heads = side == FAT_OF_Q ? p->h : p->hk, n = side == FAT_OF_Q ? p->q : p->k;
  const int64_t all = p->b * heads * n;
  a->rows[side] = !fat_reference_has(p, (fat_side)side) ? 0
                  : all > FAT_SPOTS_ROWS                ? FAT_SPOTS_ROWS
                                                        : (int)all;
  for (int r = 0; r < a->rows[side]; r++) {
    int64_t flat = a->rows[side] == 1 ? 0 : (int64_t)((double)(all - 1) * r / (a->rows[side] - 1));
    a->row[side][r].b = flat / n / heads;
    a->row[side][r].h = flat / n % heads;
    a->row[side][r].i = flat % n;
    if (fat_problem_has(p, FAT_VARLEN) || fat_problem_has(p, FAT_LEFTPAD))
      settle_row(a, side, r);
  }
}

/* Reads what one known row depends on out of the block: its own row of each input of its side, and of the
 * others the head that it reads, or all heads that share it. False without memory. */
static bool read_inputs(const fat_spots *a, int side, int r, const fat_batch *batch, const float *block,
                        fat_reference_inputs *in, float *made[FAT_TENSORS])
{
  const fat_problem *p = &a->problem;
  const int64_t group = p->h / p->hk, b = a->row[side][r].b, h = a->row[side][r].h, i = a->row[side][r].i;
  for (int t = 0; t < FAT_TENSORS; t++) {
    const fat_slot *s = &a->slot[t];
    if (!fat_tensors_is_in(s->role))
      continue;
    const int of = (int)fat_tensors[t].side;
    const bool own = of == side, same_heads = (of == FAT_OF_K) == (side == FAT_OF_K);
    const bool whole = of == FAT_OF_CALL || of == FAT_OF_TABLE;
    const int64_t heads = same_heads || whole || side == FAT_OF_Q || s->size[1] == 1 ? 1 : group;
    const int64_t head = whole ? 0 : same_heads ? h : side == FAT_OF_Q ? h / group : h * group;
    const int64_t begin = of == FAT_OF_Q ? batch->q0 : of == FAT_OF_K ? batch->k0 : 0;
    const int64_t count = own ? s->size[3] : s->size[2] * s->size[3];
    made[t] = malloc((size_t)(heads * count + 1) * sizeof *made[t]);
    if (!made[t])
      return false;
    for (int64_t n = 0; n < heads; n++)
      read_block(a, block, t,
                 fat_image_row(s, s->size[0] > 1 ? b : 0, s->size[1] > 1 ? head + n : 0, own ? begin + i : 0),
                 count, made[t] + n * count);
    in->of[t] = made[t] + (own ? 0 : begin * s->size[3]) +
                (fat_tensors[t].width == FAT_WIDE_K && !fat_problem_has(p, FAT_VARLEN) ? batch->k0 : 0);
  }
  return true;
}

static bool solve_row(const fat_spots *a, int side, int r, const float *block, double *scores,
                      fat_bound *bound)
{
  const fat_batch batch = fat_draw_batch(&a->problem, a->row[side][r].b, NULL, NULL);
  const int64_t rows = side == FAT_OF_Q ? batch.p.q : batch.p.k;
  const int64_t group = a->problem.h / a->problem.hk, h = a->row[side][r].h;
  fat_reference_inputs in = {.scale = a->scale,
                             .rows = a->slot[FAT_Q].size[2],
                             .columns = a->problem.k,
                             .length = fat_tensors_extent(&a->problem, FAT_TABLE).size[3],
                             .blocks = fat_draw_blocks(&a->problem, 0) * fat_draw_blocks(&a->problem, 1),
                             .head = a->row[side][r].b * a->problem.h + (side == FAT_OF_Q ? h : h * group)};
  fat_tensors_usual(in.scalar);
  float *made[FAT_TENSORS] = {NULL};
  double *right[FAT_TENSORS] = {NULL};
  for (int t = 0; t < FAT_TENSORS; t++)
    if (a->right[t] && (int)fat_tensors[t].side == side)
      right[t] = a->right[t] + r * a->slot[t].size[3];
  const bool lies = a->row[side][r].i < rows; /* in the batch; other rows are left as they are */
  for (int t = 0; t < FAT_TENSORS && !lies; t++)
    for (int64_t x = 0; right[t] && x < a->slot[t].size[3]; x++)
      right[t][x] = NAN;
  const bool read = !lies || read_inputs(a, side, r, &batch, block, &in, made);
  if (read && lies)
    fat_reference_row(&batch.p, (fat_side)side, a->row[side][r].i, &in, scores, right, bound);
  for (int t = 0; t < FAT_TENSORS; t++)
    free(made[t]);
  return read;
}

/* Whether right can be told from wrong. Beside a made-up LSE the weights of an expression whose scores grow
 * with the distance exceed any bound. */
static bool is_told(const fat_spots *a, const fat_bound *bound)
{
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_is_out(a->slot[t].role) &&
        !(isfinite(a->allowed[t][0]) && isfinite(fat_half_round(a->slot[t].type, (float)bound->of[t].most))))
      return false;
  return true;
}

static bool solve(fat_spots *a, const float *block)
{
  const fat_problem *p = &a->problem;
  fat_bound bound = {0};
  double *scores = malloc((size_t)(p->k ? p->k : 1) * sizeof *scores);
  bool solved = scores != NULL;
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_is_out(a->slot[t].role)) {
      const size_t rows = (size_t)a->rows[fat_tensors[t].side];
      a->right[t] = malloc((rows * (size_t)a->slot[t].size[3] + 1) * sizeof *a->right[t]);
      solved = solved && a->right[t];
    }
  for (int side = FAT_OF_Q; side <= FAT_OF_K; side++)
    for (int r = 0; r < a->rows[side] && solved; r++)
      solved = solve_row(a, side, r, block, scores, &bound);
  for (int t = 0; t < FAT_TENSORS; t++)
    for (int stored = 0; stored < 2; stored++)
      a->allowed[t][stored] = fat_reference_allowed(p, &bound, t, stored);
  a->untold = solved && !is_told(a, &bound);
  if (a->untold)
    a->rows[FAT_OF_Q] = a->rows[FAT_OF_K] = 0;
  free(scores);
  return solved;
}

fat_status fat_spots_make(const fat_problem *p, const float *block, fat_spots *spots, fat_error *err)
{
  fat_spots *a = spots;
  *a = (fat_spots){.problem = *p, .scale = 1 / sqrtf((float)p->d)};
  FAT_TRY(fat_reference_check(p, err));
  a->bytes = fat_image_place(p, FAT_SHARED, false, 0, a->slot);
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_is_in(a->slot[t].role) && a->slot[t].at + fat_image_span(&a->slot[t]) > a->outputs)
      a->outputs = (a->slot[t].at + fat_image_span(&a->slot[t]) + 3) / 4 * 4;
  choose_rows(a, FAT_OF_Q);
  choose_rows(a, FAT_OF_K);
  if (solve(a, block))
    return FAT_OK;
  fat_spots_free(a);
  return fat_status_fail(err, FAT_E_NOMEM, "out of memory for what is right at full size");
}

void fat_spots_free(fat_spots *spots)
{
  for (int t = 0; t < FAT_TENSORS; t++) {
    free(spots->right[t]);
    spots->right[t] = NULL;
  }
}
