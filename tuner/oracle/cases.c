/* cases.c -- makes the cases of a family.
 *
 * In: a problem, a seed. Out: one image and what is right for it. The lengths suit all tile sizes up to 128:
 * multiples of them, one less and one more, with more keys than rows and the other way round. Where the
 * family has a window or chunks, each case has some of its own. */
#include "cases.h"

#include "half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 16 };
#define ALL FAT_PROBLEM_ALL

/* ORDER LAY */
static const char *const lay_names[] = {"packed", "BSHD", "padded"};

/* Windows: narrower than a tile, wider than everything, the diagonal alone, open to one side, and such that
 * some rows see no key. All inputs and results fit every element type. */
static const struct {
  int b, h, hk, q, k;
  fat_data data;
  fat_lay lay;
  bool odd;
  float sign; /* of the scale */
  int64_t left, right;
} shapes[] = {
    {2, 2, 1, 131, 131, FAT_NORMAL, FAT_BHSD, false, 1, 5, 3},
    {1, 2, 2, 67, 259, FAT_NORMAL, FAT_BSHD, false, 1, 150, 40},
    {1, 2, 1, 259, 67, FAT_NORMAL, FAT_PADDED, false, -1, 20, 10},
    {1, 1, 1, 256, 256, FAT_LARGE, FAT_BHSD, false, 1, 64, 64},
    {1, 1, 1, 65, 150, FAT_HUGE, FAT_BSHD, false, 1, 1000, 1000},
    {1, 2, 1, 127, 255, FAT_RISING, FAT_PADDED, false, 1, 0, 0},
    {1, 1, 1, 65, 321, FAT_WIDE, FAT_BSHD, false, 1, 300, 20},
    {1, 1, 1, 67, 323, FAT_CREEPING, FAT_BHSD, false, 1, ALL, 9},
    {1, 1, 1, 129, 257, FAT_FALLING, FAT_BHSD, false, 1, ALL, 7},
    {1, 1, 1, 64, 130, FAT_EQUAL, FAT_BHSD, false, -1, 0, ALL},
    {3, 4, 2, 1, 97, FAT_NORMAL, FAT_PADDED, false, 1, 16, 2},
    {1, 1, 1, 65, 1, FAT_NORMAL, FAT_BSHD, false, 1, 3, 30},
    {2, 2, 2, 33, 47, FAT_NORMAL, FAT_PADDED, true, 1, 7, 1},
};
enum { CASES = sizeof shapes / sizeof shapes[0] };

/* Copies a packed tensor into its image. */
static void spread(char *image, const fat_slot *s, const float *packed)
{
  for (int64_t b = 0; b < s->size[0]; b++)
    for (int64_t h = 0; h < s->size[1]; h++)
      for (int64_t n = 0; n < s->size[2]; n++, packed += s->size[3])
        fat_half_store(s->type, image + fat_image_row(s, b, h, n), packed, s->size[3]);
}

static fat_status make_case(fat_cases *cases, int i, uint64_t seed, fat_error *err)
{
  fat_case *c = &cases->list[i];
  fat_error why = {0};
  fat_status status = fat_truth_make(&c->problem, c->scale, shapes[i].data, seed, &c->truth, &why);
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s: %s", c->title, why.text);
  for (int t = 0; t < FAT_TENSORS; t++)
    if (c->truth.in[t])
      spread(cases->image, &c->slot[t], c->truth.in[t]);
  fat_truth_drop_inputs(&c->truth);
  return FAT_OK;
}

/* Lengths, heads and the window of one case; all else is the family's. */
static fat_problem problem_of(const fat_problem *family, int i)
{
  fat_problem p = *family;
  p.b = shapes[i].b;
  p.h = shapes[i].h;
  p.hk = shapes[i].hk;
  p.q = shapes[i].q;
  p.k = shapes[i].k;
  if (fat_problem_has(&p, FAT_WINDOW)) {
    p.arg[FAT_WINDOW][0] = (uint64_t)shapes[i].left;
    p.arg[FAT_WINDOW][1] = fat_problem_has(&p, FAT_CAUSAL) ? 0 : (uint64_t)shapes[i].right;
  }
  if (fat_problem_has(&p, FAT_CHUNK))
    p.arg[FAT_CHUNK][0] = shapes[i].left == ALL ? 50 : (uint64_t)shapes[i].left + 1;
  return p;
}

/* Shapes and places of all cases. */
static void place_cases(const fat_problem *family, fat_cases *cases)
{
  char text[FAT_PROBLEM_TEXT];
  for (int i = 0; i < CASES; i++) {
    fat_case *c = &cases->list[i];
    c->problem = problem_of(family, i);
    c->scale = shapes[i].sign / sqrtf((float)family->d);
    c->unit = shapes[i].odd ? fat_dtypes[family->dtype].bytes : FAT_IMAGE_WIDE;
    snprintf(c->title, sizeof c->title, "%s (%s data, %s%s)", fat_problem_print(&c->problem, text),
             fat_data_names[shapes[i].data], shapes[i].odd ? "odd strides" : lay_names[shapes[i].lay],
             shapes[i].sign < 0 ? ", negative scale" : "");
    cases->bytes = fat_image_place(&c->problem, shapes[i].lay, shapes[i].odd, cases->bytes, c->slot);
  }
}

fat_status fat_cases_make(const fat_problem *p, uint64_t seed, fat_cases *cases, fat_error *err)
{
  *cases = (fat_cases){0};
  FAT_TRY(fat_reference_check(p, err));
  fat_problem_family(p, cases->family);
  cases->list = calloc(CASES, sizeof *cases->list);
  cases->count = CASES;
  fat_status status = FAT_OK;
  if (cases->list) {
    place_cases(p, cases);
    cases->image = malloc((size_t)cases->bytes);
  }
  if (!cases->image) {
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for the cases of %s", cases->family);
    goto done;
  }
  const uint32_t poison = FAT_IMAGE_POISON;
  for (int64_t at = 0; at < cases->bytes; at += (int64_t)sizeof poison)
    memcpy(cases->image + at, &poison, sizeof poison);
  for (int i = 0; i < CASES && status == FAT_OK; i++)
    status = make_case(cases, i, seed + (uint64_t)i * SEEDS, err);
done:
  if (status != FAT_OK)
    fat_cases_free(cases);
  return status;
}

void fat_cases_free(fat_cases *cases)
{
  for (int i = 0; cases->list && i < cases->count; i++)
    fat_truth_free(&cases->list[i].truth);
  free(cases->list);
  free(cases->image);
  *cases = (fat_cases){0};
}
