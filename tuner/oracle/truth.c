/* truth.c -- makes random inputs, changes them to the kind of data asked for, and solves them. */
#include "truth.h"

#include "draw.h"
#include "half.h"
#include "whole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ORDER DATA. `q` and `v`: factors of Q and V; nats by which scores rise from key to key. */
static const struct {
  float q, v, rise;
} stretches[FAT_DATAS] = {{1, 1, 0}, {200, 1, 0},     {1, 1, 0.5f}, {1, 1, 0},
                          {1, 1, 0}, {2000, 4096, 0}, {6, 1, 0},    {1, 1, 1.0f / 16}};
const char *const fat_data_names[FAT_DATAS] = {"normal", "large", "rising", "falling",
                                               "equal",  "huge",  "wide",   "creeping"};

enum { PADDED_ROWS = 5 /* between heads, where rows of one number have no padding of their own */ };
static const int64_t most_biases = (int64_t)1 << 31; /* of all heads: 4 GiB of 16 bits */

/* Roughly normal, from whole numbers only. */
static float number(uint64_t *state)
{
  int64_t sum = 0;
  for (int i = 0; i < 2; i++) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    sum += (int64_t)(x & 0xfffff) + (int64_t)(x >> 24 & 0xfffff) - (1 << 20);
  }
  return (float)sum / (float)(1 << 20) * 1.732f; /* four uniform numbers of variance 1/12 each */
}

/* All of a tensor of whole numbers. */
static float *drawn(const fat_problem *p, int t)
{
  const fat_extent e = fat_tensors_extent(p, t);
  const int64_t count = fat_tensors_elements(p, t), rows = e.size[2], heads = e.size[1];
  float *x = malloc((size_t)(count + 1) * sizeof *x);
  for (int64_t i = 0; x && i < count; i++)
    x[i] = (float)fat_tensors_drawn(p, t, (fat_element){i / rows / heads, i / rows % heads, i % rows});
  return x;
}

float *fat_truth_numbers(int64_t count, uint64_t seed)
{
  float *x = malloc((size_t)(count ? count : 1) * sizeof *x);
  for (int64_t i = 0; x && i < count; i++)
    x[i] = number(&seed);
  return x;
}

float fat_truth_fit(const fat_problem *p, int t, int64_t element, float x)
{
  const int64_t head = element % p->h, batch = element / p->h;
  if (t == FAT_SLOPES) /* 2^-8/h to 2^-8, and half of that in every other batch */
    return exp2f(-8.0f * (float)(head + 1) / (float)p->h - (float)(batch % 2));
  if (t == FAT_MASKS)
    return x > -0.5f;
  if (t == FAT_BLOCKS) {
    const int64_t columns = fat_draw_blocks(p, 1), rows = fat_draw_blocks(p, 0),
                  all = element / columns / rows;
    return fat_draw_block(p, (fat_element){all / p->h, all % p->h, element / columns % rows},
                          element % columns);
  }
  if (t == FAT_RNG) { /* bits */
    static const uint32_t words[] = {0x89abcdef, 0x01234567, 0x87654321, 0x0fedcba9};
    return fat_half_of_bits(words[element % 4]);
  }
  return x;
}

static void stretch(float *x, int64_t count, float by)
{
  for (int64_t i = 0; i < count; i++)
    x[i] *= by;
}

/* Keys rise or fall along the first column, which Q has at 1. */
static void bend(const fat_problem *p, float scale, fat_data data, float *in[FAT_TENSORS])
{
  const int64_t rows = fat_tensors_elements(p, FAT_LSE), keys = fat_tensors_elements(p, FAT_K) / p->d;
  const float unit = sqrtf((float)p->d);
  stretch(in[FAT_Q], rows * p->d, stretches[data].q);
  if (p->op == FAT_FWD) /* in a backward call dP would overflow f16, in PyTorch too */
    stretch(in[FAT_V], keys * p->dv, stretches[data].v);
  const bool bends = stretches[data].rise > 0 || data == FAT_FALLING;
  for (int64_t i = 0; bends && i < rows; i++)
    in[FAT_Q][i * p->d] = scale < 0 ? -1 : 1;
  for (int64_t j = 0; (bends || data == FAT_EQUAL) && j < keys; j++) {
    const int64_t along = j % p->k;
    float *key = in[FAT_K] + j * p->d;
    if (data == FAT_EQUAL)
      memmove(key, in[FAT_K], (size_t)p->d * sizeof *key);
    else if (data == FAT_FALLING)
      *key = along == 0 ? 8 * unit : 0;
    else
      *key = (float)along * stretches[data].rise * unit;
  }
}

/* Room for the outputs of an op. */
static bool make_room(const fat_problem *p, double *right[FAT_TENSORS])
{
  bool made = true;
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_is_out(fat_tensors_role(p, t)) && !right[t]) {
      right[t] = malloc((size_t)(fat_tensors_elements(p, t) + 1) * sizeof *right[t]);
      made = made && right[t];
    }
  return made;
}

/* The inputs of a backward call that are the forward call's outputs. */
static bool run_forward(const fat_problem *p, float scale, float *in[FAT_TENSORS])
{
  fat_problem forward = *p;
  fat_reference_inputs inputs = {.scale = scale};
  fat_tensors_usual(inputs.scalar);
  double *right[FAT_TENSORS] = {NULL};
  forward.op = FAT_FWD;
  for (int t = 0; t < FAT_TENSORS; t++)
    inputs.of[t] = fat_tensors_is_in(fat_tensors_role(&forward, t)) ? in[t] : NULL;
  const bool done = make_room(&forward, right) && fat_whole_double(&forward, &inputs, right);
  for (int t = 0; t < FAT_TENSORS; t++) {
    for (int64_t i = 0; done && right[t] && in[t] && i < fat_tensors_elements(p, t); i++)
      in[t][i] = (float)right[t][i];
    free(right[t]);
  }
  return done;
}

static void round_inputs(const fat_problem *p, float *in[FAT_TENSORS])
{
  for (int t = 0; t < FAT_TENSORS; t++)
    if (in[t])
      fat_half_round_all(fat_tensors_dtype(p, t), in[t], fat_tensors_elements(p, t));
}

/* Keys that no batch has are no numbers: whoever reads them shows it. Rows are: of them NaN would be made,
 * which outputs begin as; but of every other head's dO and, backward, which makes none, of biases. */
static void spoil_outside(const fat_problem *p, float *in[FAT_TENSORS])
{
  for (int t = 0; t < FAT_TENSORS; t++) {
    const fat_extent e = fat_tensors_extent(p, t);
    const bool of_keys = fat_tensors[t].side == FAT_OF_K, of_biases = t == FAT_BIASES && p->op == FAT_BWD;
    for (int64_t i = 0; in[t] && (of_keys || t == FAT_DO || of_biases) && i < fat_tensors_elements(p, t);
         i++) {
      const int64_t row = i / e.size[3], n = row % e.size[2];
      const fat_batch x = fat_draw_batch(p, row / e.size[2] / e.size[1], NULL, NULL);
      const bool is_outside =
          of_keys ? n < x.k0 || n >= x.k0 + x.p.k : (of_biases || row / e.size[2] % 2 == 1) && n >= x.p.q;
      if (e.size[0] == p->b && is_outside)
        in[t][i] = NAN;
    }
  }
}

fat_status fat_truth_make(const fat_problem *p, float scale, fat_data data, uint64_t seed, fat_truth *truth,
                          fat_error *err)
{
  bool made = true;
  *truth = (fat_truth){0};
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_is_in(fat_tensors_role(p, t))) {
      truth->in[t] = fat_tensors_dtype(p, t) == FAT_I32
                         ? drawn(p, t)
                         : fat_truth_numbers(fat_tensors_elements(p, t), seed + (uint64_t)t);
      made = made && truth->in[t];
    }
  for (int t = 0; t < FAT_TENSORS && made; t++)
    for (int64_t e = 0; truth->in[t] && e < fat_tensors_elements(p, t); e++)
      truth->in[t][e] = fat_truth_fit(p, t, e, truth->in[t][e]);
  if (made) {
    bend(p, scale, data, truth->in);
    if (fat_draw_by_batch(p))
      spoil_outside(p, truth->in);
    round_inputs(p, truth->in);
    made = p->op == FAT_FWD || run_forward(p, scale, truth->in);
    round_inputs(p, truth->in);
  }
  if (made)
    return fat_truth_solve(p, scale, truth, err);
  fat_truth_free(truth);
  return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the inputs of a case");
}

fat_status fat_truth_solve(const fat_problem *p, float scale, fat_truth *truth, fat_error *err)
{
  fat_reference_inputs inputs = {.scale = scale};
  fat_bound bound;
  fat_tensors_usual(inputs.scalar);
  for (int t = 0; t < FAT_TENSORS; t++)
    inputs.of[t] = truth->in[t];
  if (!make_room(p, truth->right) || !fat_whole_solve(p, &inputs, truth->right, &bound)) {
    fat_truth_free(truth);
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for what is right of a case");
  }
  for (int t = 0; t < FAT_TENSORS; t++)
    for (int stored = 0; truth->right[t] && stored < 2; stored++)
      truth->allowed[t][stored] = fat_reference_allowed(p, &bound, t, stored);
  return FAT_OK;
}

void fat_truth_drop_inputs(fat_truth *truth)
{
  for (int t = 0; t < FAT_TENSORS; t++) {
    free(truth->in[t]);
    truth->in[t] = NULL;
  }
}

void fat_truth_free(fat_truth *truth)
{
  fat_truth_drop_inputs(truth);
  for (int t = 0; t < FAT_TENSORS; t++)
    free(truth->right[t]);
  *truth = (fat_truth){0};
}

void fat_truth_lay(const fat_problem *p, int t, fat_lay how, int unit, int64_t stride[3])
{
  const fat_extent e = fat_tensors_extent(p, t);
  const int64_t h = e.size[1], n = e.size[2], d = e.size[3];
  if (fat_tensors[t].side == FAT_OF_TABLE)
    how = FAT_BHSD;                                    /* whose strides are its size */
  const bool row = fat_tensors[t].width == FAT_WIDE_1; /* whose rows are contiguous in every layout */
  stride[2] = how == FAT_PADDED && !row ? d + (int64_t)(1 + t) * unit : d;
  stride[1] = (how == FAT_PADDED && row ? n + PADDED_ROWS : n * stride[2]);
  if (how == FAT_PADDED && !row)
    stride[1] += (int64_t)3 * unit;
  stride[0] = h * stride[1] + (how == FAT_PADDED && !row ? (int64_t)5 * unit : 0);
  if (how == FAT_SHARED && fat_tensors[t].width == FAT_WIDE_K && fat_tensors_is_in(fat_tensors_role(p, t))) {
    stride[0] = 0;
    if (t != FAT_BIASES || h * stride[1] > most_biases)
      stride[1] = 0;
  }
  if (how == FAT_BSHD && !row) {
    stride[0] = n * h * d;
    stride[1] = d;
    stride[2] = h * d;
  }
}
