/* inputs.c -- makes the cases of a family.
 *
 * In: a problem, a seed. Out: one image and what is right for it. The lengths of the cases are chosen once
 * for all tile sizes up to 128: one below, one beyond and on multiples of them, with more keys than rows and
 * the other way round. */
#include "inputs.h"

#include "half.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 16, APART = 256, SEEDS = 16 }; /* bytes: of the widest move, between aligned tensors */

/* Where the rows of a tensor lie. ORDER LAY */
static const char *const lay_names[] = {"packed", "BSHD", "padded", "odd strides"};
/* Large: scores in the thousands, and sums of rows of V that f16 cannot hold. Huge: scores that it cannot.
 * All inputs and results are numbers of every type. ORDER DATA */
typedef enum data { NORMAL, LARGE, HUGE_SCORES, RISING, FALLING, EQUAL } data;
static const char *const data_names[] = {
    "random",    "large scores and values", "huge scores", "rising row maxima", "falling row maxima",
    "equal keys"};

static const struct {
  int b, h, hk, q, k;
  data data;
  fat_lay lay;
  float sign; /* of the scale */
} plan[] = {
    {2, 2, 1, 131, 131, NORMAL, FAT_BHSD, 1},     {1, 2, 2, 67, 259, NORMAL, FAT_BSHD, 1},
    {1, 2, 1, 259, 67, NORMAL, FAT_PADDED, -1},   {1, 1, 1, 256, 256, LARGE, FAT_BHSD, 1},
    {1, 1, 1, 65, 150, HUGE_SCORES, FAT_BSHD, 1}, {1, 2, 1, 127, 255, RISING, FAT_PADDED, 1},
    {1, 1, 1, 129, 257, FALLING, FAT_BHSD, 1},    {1, 1, 1, 64, 130, EQUAL, FAT_BHSD, -1},
    {3, 4, 2, 1, 97, NORMAL, FAT_PADDED, 1},      {1, 1, 1, 65, 1, NORMAL, FAT_BSHD, 1},
    {2, 2, 2, 33, 47, NORMAL, FAT_ODD, 1},
};
enum { CASES = sizeof plan / sizeof plan[0] };

/* Roughly normal, from whole numbers only: the same on every machine. */
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

int64_t fat_inputs_span(const fat_slot *slot)
{
  for (int i = 0; i < 4; i++)
    if (slot->size[i] == 0)
      return 0;
  int64_t last = slot->size[3] - 1;
  for (int i = 0; i < 3; i++)
    last += (slot->size[i] - 1) * slot->stride[i];
  return (last + 1) * slot->bytes;
}

int64_t fat_inputs_row(const fat_slot *slot, int64_t b, int64_t h, int64_t n)
{
  return slot->at + (b * slot->stride[0] + h * slot->stride[1] + n * slot->stride[2]) * slot->bytes;
}

bool fat_inputs_poisoned(const fat_slot *slot, const void *element)
{
  const uint32_t poison = FAT_INPUTS_POISON;
  return memcmp(element, &poison, (size_t)slot->bytes) == 0;
}

/* Strides of one tensor; `which` makes the paddings of a call's tensors differ. */
static fat_slot lay_out(fat_dtype type, fat_lay how, int which, int64_t b, int64_t h, int64_t n, int64_t d)
{
  fat_slot s = {
      .type = type, .bytes = fat_dtypes[type].bytes, .size = {b, h, n, d}, .stride = {h * n * d, n * d, d}};
  int unit = how == FAT_ODD ? 1 : WIDE / s.bytes;
  if (how == FAT_BSHD) {
    s.stride[0] = n * h * d;
    s.stride[1] = d;
    s.stride[2] = h * d;
  } else if (how == FAT_PADDED || how == FAT_ODD) {
    s.stride[2] = d + (1 + which) * unit;
    s.stride[1] = n * s.stride[2] + 3 * unit;
    s.stride[0] = h * s.stride[1] + 5 * unit;
  }
  return s;
}

int64_t fat_inputs_place(const fat_problem *p, fat_lay how, int64_t from, fat_slot slot[FAT_FORWARD])
{
  int64_t pad = how == FAT_PADDED || how == FAT_ODD ? 5 : 0, rows = p->q + pad;
  slot[FAT_Q] = lay_out(p->dtype, how, 0, p->b, p->h, p->q, p->d);
  slot[FAT_K] = lay_out(p->dtype, how, 1, p->b, p->hk, p->k, p->d);
  slot[FAT_V] = lay_out(p->dtype, how, 2, p->b, p->hk, p->k, p->dv);
  slot[FAT_O] = lay_out(p->dtype, how, 3, p->b, p->h, p->q, p->dv);
  slot[FAT_LSE] = (fat_slot){FAT_F32, sizeof(float), {p->b, p->h, p->q, 1}, {p->h * rows, rows, 1}, 0};
  for (int t = 0; t < FAT_FORWARD; t++) {
    slot[t].at = from + FAT_INPUTS_GUARD + (how == FAT_ODD ? (1 + t) * slot[t].bytes : 0);
    from = (slot[t].at + fat_inputs_span(&slot[t]) + APART - 1) / APART * APART;
  }
  return from + FAT_INPUTS_GUARD;
}

/* Copies a packed tensor into its image. */
static void spread(char *image, const fat_slot *s, const float *packed)
{
  for (int64_t b = 0; b < s->size[0]; b++)
    for (int64_t h = 0; h < s->size[1]; h++)
      for (int64_t n = 0; n < s->size[2]; n++, packed += s->size[3])
        fat_half_store(s->type, image + fat_inputs_row(s, b, h, n), packed, s->size[3]);
}

/* Packed inputs of one case. */
typedef struct packed {
  float *q, *k, *v;
} packed;

static void packed_free(packed *in)
{
  free(in->q);
  free(in->k);
  free(in->v);
}

float *fat_inputs_numbers(int64_t count, uint64_t seed)
{
  float *x = malloc((size_t)(count ? count : 1) * sizeof *x);
  for (int64_t i = 0; x && i < count; i++)
    x[i] = number(&seed);
  return x;
}

static void stretch(float *x, int64_t count, float by)
{
  for (int64_t i = 0; i < count; i++)
    x[i] *= by;
}

/* Bends the numbers to what the case is about. Keys rise or fall along the first column, which Q has at 1. */
static void bend(const fat_case *c, data kind, packed *in)
{
  const fat_problem *p = &c->problem;
  int64_t rows = p->b * p->h * p->q, keys = p->b * p->hk * p->k;
  float unit = sqrtf((float)p->d);
  if (kind == LARGE)
    stretch(in->v, keys * p->dv, 4096);
  if (kind == LARGE || kind == HUGE_SCORES)
    stretch(in->q, rows * p->d, kind == LARGE ? 200 : 2000);
  for (int64_t i = 0; (kind == RISING || kind == FALLING) && i < rows; i++)
    in->q[i * p->d] = c->scale < 0 ? -1 : 1;
  for (int64_t j = 0; kind >= RISING && j < keys; j++) {
    int64_t along = j % p->k;
    if (kind == EQUAL)
      memmove(in->k + j * p->d, in->k, (size_t)p->d * sizeof *in->k);
    else if (kind == RISING)
      in->k[j * p->d] = (float)along * 0.5f * unit;
    else
      in->k[j * p->d] = along == 0 ? 8 * unit : 0;
  }
  fat_half_round_all(p->dtype, in->q, rows * p->d);
  fat_half_round_all(p->dtype, in->k, keys * p->d);
  fat_half_round_all(p->dtype, in->v, keys * p->dv);
}

/* Results and bounds from packed inputs. */
static fat_status solve(fat_case *c, const packed *in, fat_error *err)
{
  const fat_problem *p = &c->problem;
  int64_t rows = p->b * p->h * p->q;
  const fat_reference_inputs inputs = {in->q, in->k, in->v, c->scale};
  fat_reference_bound bound;
  c->o = malloc((size_t)(rows * p->dv) * sizeof *c->o);
  c->lse = malloc((size_t)rows * sizeof *c->lse);
  if (!c->o || !c->lse || !fat_reference_solve(p, &inputs, c->o, c->lse, &bound))
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the case %s", c->title);
  c->allowed_o = fat_reference_allowed_o(p, &bound);
  for (int stored = 0; stored < 2; stored++)
    c->allowed_lse[stored] = fat_reference_allowed_lse(p, &bound, stored);
  return FAT_OK;
}

static fat_status make_case(fat_cases *cases, int i, uint64_t seed, fat_error *err)
{
  fat_case *c = &cases->list[i];
  const fat_problem *p = &c->problem;
  packed in = {fat_inputs_numbers(p->b * p->h * p->q * p->d, seed),
               fat_inputs_numbers(p->b * p->hk * p->k * p->d, seed + 1),
               fat_inputs_numbers(p->b * p->hk * p->k * p->dv, seed + 2)};
  fat_status status = FAT_OK;
  if (in.q && in.k && in.v) {
    bend(c, plan[i].data, &in);
    spread(cases->image, &c->slot[FAT_Q], in.q);
    spread(cases->image, &c->slot[FAT_K], in.k);
    spread(cases->image, &c->slot[FAT_V], in.v);
    status = solve(c, &in, err);
  } else {
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for the case %s", c->title);
  }
  packed_free(&in);
  return status;
}

/* Shapes and places of all cases. */
static void plan_cases(const fat_problem *family, fat_cases *cases)
{
  char text[FAT_PROBLEM_TEXT];
  for (int i = 0; i < CASES; i++) {
    fat_case *c = &cases->list[i];
    c->problem = *family;
    c->problem.b = plan[i].b;
    c->problem.h = plan[i].h;
    c->problem.hk = plan[i].hk;
    c->problem.q = plan[i].q;
    c->problem.k = plan[i].k;
    c->scale = plan[i].sign / sqrtf((float)family->d);
    c->unit = plan[i].lay == FAT_ODD ? fat_dtypes[family->dtype].bytes : WIDE;
    snprintf(c->title, sizeof c->title, "%s (%s, %s%s)", fat_problem_print(&c->problem, text),
             data_names[plan[i].data], lay_names[plan[i].lay], plan[i].sign < 0 ? ", negative scale" : "");
    cases->bytes = fat_inputs_place(&c->problem, plan[i].lay, cases->bytes, c->slot);
  }
}

fat_status fat_inputs_check(const fat_problem *p, fat_error *err)
{
  if (p->op == FAT_FWD && (p->features & ~(1u << FAT_CAUSAL)) == 0)
    return FAT_OK;
  char family[FAT_PROBLEM_TEXT];
  return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s: there is no reference to verify such kernels by",
                         fat_problem_family(p, family));
}

fat_status fat_inputs_cases(const fat_problem *p, uint64_t seed, fat_cases *cases, fat_error *err)
{
  *cases = (fat_cases){0};
  FAT_TRY(fat_inputs_check(p, err));
  fat_problem_family(p, cases->family);
  cases->list = calloc(CASES, sizeof *cases->list);
  cases->count = CASES;
  fat_status status = FAT_OK;
  if (cases->list) {
    plan_cases(p, cases);
    cases->image = malloc((size_t)cases->bytes);
  }
  if (!cases->image) {
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for the cases of %s", cases->family);
    goto done;
  }
  const uint32_t poison = FAT_INPUTS_POISON;
  for (int64_t at = 0; at < cases->bytes; at += (int64_t)sizeof poison)
    memcpy(cases->image + at, &poison, sizeof poison);
  for (int i = 0; i < CASES && status == FAT_OK; i++)
    status = make_case(cases, i, seed + (uint64_t)i * SEEDS, err);
done:
  if (status != FAT_OK)
    fat_inputs_cases_free(cases);
  return status;
}

void fat_inputs_cases_free(fat_cases *cases)
{
  for (int i = 0; cases->list && i < cases->count; i++) {
    free(cases->list[i].o);
    free(cases->list[i].lse);
  }
  free(cases->list);
  free(cases->image);
  *cases = (fat_cases){0};
}
