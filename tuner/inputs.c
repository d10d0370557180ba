/* inputs.c -- makes the cases of a family and the known rows of an anchor.
 *
 * In: a problem, a seed. Out: images and what is right for them. The lengths of the cases are chosen once for
 * all tile sizes up to 128: one below, one beyond and on multiples of them, with more keys than rows and the
 * other way round. */
#include "inputs.h"

#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 8192, WIDE = 4, SEEDS = 16 }; /* guard: words between two tensors, 32 KiB */

/* Where the rows of a tensor lie. ORDER LAY */
typedef enum lay { BHSD, BSHD, PADDED, ODD } lay;
static const char *const lay_names[] = {"packed", "BSHD", "padded", "odd strides"};
/* ORDER DATA */
typedef enum data { NORMAL, LARGE, RISING, FALLING, EQUAL } data;
static const char *const data_names[] = {"random", "large scores", "rising row maxima", "falling row maxima",
                                         "equal keys"};

static const struct {
  int b, h, hk, q, k;
  data data;
  lay lay;
  float sign; /* of the scale */
} plan[] = {
    {2, 2, 1, 131, 131, NORMAL, BHSD, 1},   {1, 2, 2, 67, 259, NORMAL, BSHD, 1},
    {1, 2, 1, 259, 67, NORMAL, PADDED, -1}, {1, 1, 1, 256, 256, LARGE, BSHD, 1},
    {1, 2, 1, 127, 255, RISING, PADDED, 1}, {1, 1, 1, 129, 257, FALLING, BHSD, 1},
    {1, 1, 1, 64, 130, EQUAL, BHSD, -1},    {3, 2, 1, 1, 97, NORMAL, PADDED, 1},
    {1, 1, 1, 65, 1, NORMAL, BSHD, 1},      {2, 2, 2, 33, 47, NORMAL, ODD, 1},
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
  return last + 1;
}

/* Strides of one tensor; `which` makes the paddings of a call's tensors differ. */
static fat_slot lay_out(lay how, int which, int64_t b, int64_t h, int64_t n, int64_t d)
{
  fat_slot s = {.size = {b, h, n, d}, .stride = {h * n * d, n * d, d}};
  int unit = how == ODD ? 1 : WIDE;
  if (how == BSHD) {
    s.stride[0] = n * h * d;
    s.stride[1] = d;
    s.stride[2] = h * d;
  } else if (how == PADDED || how == ODD) {
    s.stride[2] = d + (1 + which) * unit;
    s.stride[1] = n * s.stride[2] + 3 * unit;
    s.stride[0] = h * s.stride[1] + 5 * unit;
  }
  return s;
}

/* Places all tensors of a call behind each other; returns the words up to the guard behind the last. */
static int64_t place(const fat_problem *p, lay how, int64_t from, fat_slot slot[FAT_TENSORS])
{
  int64_t pad = how == PADDED || how == ODD ? 5 : 0;
  slot[FAT_Q] = lay_out(how, 0, p->b, p->h, p->q, p->d);
  slot[FAT_K] = lay_out(how, 1, p->b, p->hk, p->k, p->d);
  slot[FAT_V] = lay_out(how, 2, p->b, p->hk, p->k, p->dv);
  slot[FAT_O] = lay_out(how, 3, p->b, p->h, p->q, p->dv);
  slot[FAT_LSE] = (fat_slot){{p->b, p->h, p->q, 1}, {p->h * (p->q + pad), p->q + pad, 1}, 0};
  for (int t = 0; t < FAT_TENSORS; t++) {
    slot[t].at = from + GUARD + (how == ODD ? 1 + t : 0);
    from = (slot[t].at + fat_inputs_span(&slot[t]) + 63) / 64 * 64; /* the next one on 256 bytes */
  }
  return from + GUARD;
}

static float *row_of(float *image, const fat_slot *s, int64_t b, int64_t h, int64_t n)
{
  return image + s->at + b * s->stride[0] + h * s->stride[1] + n * s->stride[2];
}

/* Copies a packed tensor into its image. */
static void spread(float *image, const fat_slot *s, const float *packed)
{
  for (int64_t b = 0; b < s->size[0]; b++)
    for (int64_t h = 0; h < s->size[1]; h++)
      for (int64_t n = 0; n < s->size[2]; n++, packed += s->size[3])
        memcpy(row_of(image, s, b, h, n), packed, (size_t)s->size[3] * sizeof *packed);
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

static float *numbers(int64_t count, uint64_t seed)
{
  float *x = malloc((size_t)(count ? count : 1) * sizeof *x);
  for (int64_t i = 0; x && i < count; i++)
    x[i] = number(&seed);
  return x;
}

/* Bends the numbers to what the case is about. Keys rise or fall along the first column, which Q has at 1. */
static void bend(const fat_case *c, data kind, packed *in)
{
  const fat_problem *p = &c->problem;
  int64_t rows = p->b * p->h * p->q, keys = p->b * p->hk * p->k;
  float unit = sqrtf((float)p->d);
  for (int64_t i = 0; kind == LARGE && i < rows * p->d; i++)
    in->q[i] *= 200;
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
}

/* Results and bounds from packed inputs. */
static fat_status solve(fat_case *c, const packed *in, fat_error *err)
{
  const fat_problem *p = &c->problem;
  int64_t rows = p->b * p->h * p->q;
  const fat_reference_inputs inputs = {in->q, in->k, in->v, c->scale};
  float *plain = malloc((size_t)(rows * (p->dv + 1)) * sizeof *plain);
  c->o = malloc((size_t)(rows * p->dv) * sizeof *c->o);
  c->lse = malloc((size_t)rows * sizeof *c->lse);
  double score = -1;
  if (plain && c->o && c->lse)
    score = fat_reference_double(p, &inputs, c->o, c->lse);
  if (score >= 0 && fat_reference_float(p, &inputs, plain, plain + rows * p->dv) >= 0) {
    c->allowed_o = fat_reference_allowed(c->o, plain, rows * p->dv, score);
    c->allowed_lse = fat_reference_allowed_lse(c->lse, plain + rows * p->dv, rows, score);
  } else {
    score = -1;
  }
  free(plain);
  return score >= 0 ? FAT_OK : fat_status_fail(err, FAT_E_NOMEM, "out of memory for the case %s", c->title);
}

static fat_status make_case(fat_cases *cases, int i, uint64_t seed, fat_error *err)
{
  fat_case *c = &cases->list[i];
  const fat_problem *p = &c->problem;
  packed in = {numbers(p->b * p->h * p->q * p->d, seed), numbers(p->b * p->hk * p->k * p->d, seed + 1),
               numbers(p->b * p->hk * p->k * p->dv, seed + 2)};
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
    c->unit = plan[i].lay == ODD ? 1 : WIDE;
    snprintf(c->title, sizeof c->title, "%s (%s, %s%s)", fat_problem_print(&c->problem, text),
             data_names[plan[i].data], lay_names[plan[i].lay], plan[i].sign < 0 ? ", negative scale" : "");
    cases->words = place(&c->problem, plan[i].lay, cases->words, c->slot);
  }
}

static fat_status check_type(const fat_problem *p, fat_error *err)
{
  if (p->op == FAT_FWD && p->dtype == FAT_F32 && (p->features & ~(1u << FAT_CAUSAL)) == 0)
    return FAT_OK;
  char family[FAT_PROBLEM_TEXT];
  return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s: there is no reference to verify such kernels by",
                         fat_problem_family(p, family));
}

fat_status fat_inputs_cases(const fat_problem *p, uint64_t seed, fat_cases *cases, fat_error *err)
{
  *cases = (fat_cases){0};
  FAT_TRY(check_type(p, err));
  fat_problem_family(p, cases->family);
  cases->list = calloc(CASES, sizeof *cases->list);
  cases->count = CASES;
  fat_status status = FAT_OK;
  if (cases->list) {
    plan_cases(p, cases);
    cases->image = malloc((size_t)cases->words * sizeof *cases->image);
  }
  if (!cases->image) {
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for the cases of %s", cases->family);
    goto done;
  }
  const uint32_t poison = FAT_INPUTS_POISON;
  for (int64_t w = 0; w < cases->words; w++)
    memcpy(&cases->image[w], &poison, sizeof poison);
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

float *fat_inputs_block(uint64_t seed)
{
  return numbers(FAT_INPUTS_BLOCK, seed);
}

/* Elements `from` to `from + count` of the anchor's image. */
static void read_block(const float *block, int64_t from, int64_t count, float *to)
{
  for (int64_t i = 0; i < count; i++)
    to[i] = block[(from + i) % FAT_INPUTS_BLOCK];
}

static int64_t element(const fat_slot *s, int64_t b, int64_t h, int64_t n)
{
  return s->at + b * s->stride[0] + h * s->stride[1] + n * s->stride[2];
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
static double solve_row(const fat_anchor *a, int r, const float *block, float *room, double *scores,
                        float *plain)
{
  const fat_problem *p = &a->problem;
  int64_t kv = a->row[r].h / (p->h / p->hk), b = a->row[r].b;
  float *q = room, *k = q + p->d, *v = k + p->k * p->d;
  read_block(block, element(&a->slot[FAT_Q], b, a->row[r].h, a->row[r].i), p->d, q);
  read_block(block, element(&a->slot[FAT_K], b, kv, 0), p->k * p->d, k);
  read_block(block, element(&a->slot[FAT_V], b, kv, 0), p->k * p->dv, v);
  const fat_reference_inputs in = {q, k, v, a->scale};
  int64_t keys = fat_reference_keys(p, a->row[r].i);
  double size = fat_reference_row_double(p, keys, &in, scores, a->o + r * p->dv, &a->lse[r]);
  fat_reference_row_float(p, keys, &in, (float *)scores, plain + r * p->dv, &plain[a->rows * p->dv + r]);
  return size;
}

fat_status fat_inputs_anchor(const fat_problem *p, const float *block, fat_anchor *anchor, fat_error *err)
{
  fat_anchor *a = anchor;
  *a = (fat_anchor){.problem = *p, .scale = 1 / sqrtf((float)p->d)};
  FAT_TRY(check_type(p, err));
  a->words = place(p, BHSD, 0, a->slot);
  choose_rows(a);
  size_t keys = (size_t)(p->k ? p->k : 1), rows = (size_t)(a->rows ? a->rows : 1);
  float *room = malloc(((size_t)p->d + keys * (size_t)(p->d + p->dv)) * sizeof *room);
  double *scores = malloc(keys * sizeof *scores);
  float *plain = malloc(rows * (size_t)(p->dv + 1) * sizeof *plain);
  a->o = malloc(rows * (size_t)p->dv * sizeof *a->o);
  a->lse = malloc(rows * sizeof *a->lse);
  fat_status status = FAT_OK;
  if (!room || !scores || !plain || !a->o || !a->lse) {
    fat_inputs_anchor_free(a);
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for what is right at the anchor shape");
    goto done;
  }
  double score = 0;
  for (int r = 0; r < a->rows; r++)
    score = fmax(score, solve_row(a, r, block, room, scores, plain));
  a->allowed_o = fat_reference_allowed(a->o, plain, a->rows * p->dv, score);
  a->allowed_lse = fat_reference_allowed_lse(a->lse, plain + a->rows * p->dv, a->rows, score);
done:
  free(room);
  free(scores);
  free(plain);
  return status;
}

void fat_inputs_anchor_free(fat_anchor *anchor)
{
  free(anchor->o);
  free(anchor->lse);
  anchor->o = anchor->lse = NULL;
}
