/* inputs_anchor.c -- places the anchor, and knows a few of its rows.
 *
 * In: a problem, the block of random numbers. Out: where the tensors lie, and what is right for some rows. */
#include "inputs.h"

#include "half.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>

float *fat_inputs_block(uint64_t seed)
{
  return fat_inputs_numbers(FAT_INPUTS_BLOCK, seed);
}

/* `count` elements of the anchor's image, from a row of a tensor on. */
static void read_block(const float *block, const fat_slot *s, int64_t row, int64_t count, float *to)
{
  int64_t from = row / s->bytes;
  for (int64_t i = 0; i < count; i++)
    to[i] = fat_half_round(s->type, block[(from + i) % FAT_INPUTS_BLOCK]);
}

/* The first and the last row of the first and last head, and others in between, as whole numbers scatter. */
static void choose_rows(fat_anchor *a)
{
  const fat_problem *p = &a->problem;
  int64_t heads = p->b * p->h;
  a->rows = heads * p->q > FAT_INPUTS_ROWS ? FAT_INPUTS_ROWS : (int)(heads * p->q);
  for (int r = 0; r < a->rows; r++) {
    int64_t flat = a->rows == 1 ? 0 : (int64_t)((double)(heads * p->q - 1) * r / (a->rows - 1));
    a->row[r].b = flat / p->q / p->h;
    a->row[r].h = flat / p->q % p->h;
    a->row[r].i = flat % p->q;
  }
}

/* One known row: its row of Q and its head of K and V are read out of the block. */
static void solve_row(const fat_anchor *a, int r, const float *block, float *room, double *scores,
                      fat_reference_bound *bound)
{
  const fat_problem *p = &a->problem;
  int64_t kv = a->row[r].h / (p->h / p->hk), b = a->row[r].b;
  float *q = room, *k = q + p->d, *v = k + p->k * p->d;
  const fat_slot *s = a->slot;
  read_block(block, &s[FAT_Q], fat_inputs_row(&s[FAT_Q], b, a->row[r].h, a->row[r].i), p->d, q);
  read_block(block, &s[FAT_K], fat_inputs_row(&s[FAT_K], b, kv, 0), p->k * p->d, k);
  read_block(block, &s[FAT_V], fat_inputs_row(&s[FAT_V], b, kv, 0), p->k * p->dv, v);
  const fat_reference_inputs in = {q, k, v, a->scale};
  fat_reference_row(p, fat_reference_keys(p, a->row[r].i), &in, scores, a->o + r * p->dv, &a->lse[r], bound);
}

fat_status fat_inputs_anchor(const fat_problem *p, const float *block, fat_anchor *anchor, fat_error *err)
{
  fat_anchor *a = anchor;
  fat_reference_bound bound = {0};
  *a = (fat_anchor){.problem = *p, .scale = 1 / sqrtf((float)p->d)};
  FAT_TRY(fat_inputs_check(p, err));
  a->bytes = fat_inputs_place(p, FAT_BHSD, 0, a->slot);
  choose_rows(a);
  size_t keys = (size_t)(p->k ? p->k : 1), rows = (size_t)(a->rows ? a->rows : 1);
  float *room = malloc(((size_t)p->d + keys * (size_t)(p->d + p->dv)) * sizeof *room);
  double *scores = malloc(keys * sizeof *scores);
  a->o = malloc(rows * (size_t)p->dv * sizeof *a->o);
  a->lse = malloc(rows * sizeof *a->lse);
  fat_status status = FAT_OK;
  if (!room || !scores || !a->o || !a->lse) {
    fat_inputs_anchor_free(a);
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for what is right at the anchor shape");
    goto done;
  }
  for (int r = 0; r < a->rows; r++)
    solve_row(a, r, block, room, scores, &bound);
  a->allowed_o = fat_reference_allowed_o(p, &bound);
  for (int stored = 0; stored < 2; stored++)
    a->allowed_lse[stored] = fat_reference_allowed_lse(p, &bound, stored);
done:
  free(room);
  free(scores);
  return status;
}

void fat_inputs_anchor_free(fat_anchor *anchor)
{
  free(anchor->o);
  free(anchor->lse);
  anchor->o = anchor->lse = NULL;
}
