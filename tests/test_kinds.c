/* test_kinds.c -- kinds of data: the scores are what the name says, whatever the shape, dtype and scale; what
 * the times on them weigh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "oracle/half.h"
#include "oracle/kinds.h"
#include "oracle/reference.h"
#include "oracle/truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
  const char *problem;
  float scale; /* times 1 / sqrt(d) */
} shape;

/* One head of each. */
typedef struct head {
  fat_problem p;
  float scale, *q, *k, *lse;
} head;

static head make(const shape *s, int kind)
{
  head h;
  assert_int_equal(fat_problem_parse(s->problem, &h.p, NULL), FAT_OK);
  h.scale = s->scale / sqrtf((float)h.p.d);
  h.q = fat_truth_numbers(h.p.q * h.p.d, 1);
  h.k = fat_truth_numbers(h.p.k * h.p.d, 2);
  h.lse = fat_truth_numbers(h.p.q, 3);
  fat_half_round_all(h.p.dtype, h.q, h.p.q * h.p.d);
  fat_half_round_all(h.p.dtype, h.k, h.p.k * h.p.d);
  fat_kinds_bend(&h.p, kind, h.scale, h.q, h.k, h.lse);
  return h;
}

static void free_head(head *h)
{
  free(h->q);
  free(h->k);
  free(h->lse);
}

/* Of columns `from` on. */
static double score(const head *h, int64_t i, int64_t j, int64_t from)
{
  double sum = 0;
  for (int64_t x = from; x < h->p.d; x++)
    sum += (double)h->q[i * h->p.d + x] * (double)h->k[j * h->p.d + x];
  return sum * (double)h->scale;
}

static const shape shapes[] = {
    {"fwd-f16-b1-h1-q70-k300-d64", 1},  {"fwd-bf16-b1-h1-q300-k130-d128", 1},
    {"fwd-f32-b1-h1-q3-k1030-d8", 1},   {"fwd-bf16-b1-h1-q1-k520-d256-causal", 0.5f},
    {"fwd-f16-b1-h1-q65-k65-d96", -2},  {"fwd-tf32-b1-h1-q40-k600-d40", 1},
    {"fwd-bf16-b1-h1-q9-k9000-d64", 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Nats that the name promises on a key, written down again. */
static double promised(const char *name, int64_t j)
{
  static const char *const slopes[] = {"rise100", "rise16", "rise4", "fall100", "fall16", "fall4"};
  static const double per_key[] = {1 / 100.0, 1 / 16.0, 1 / 4.0, -1 / 100.0, -1 / 16.0, -1 / 4.0};
  for (int i = 0; i < 6; i++)
    if (strcmp(name, slopes[i]) == 0)
      return per_key[i] * (double)j;
  if (strcmp(name, "sink") == 0)
    return j < 4 ? 10 : 0;
  return strcmp(name, "peaks") == 0 && j % 64 == (29 * (j / 64) + 17) % 64 ? 12 : 0;
}

static void scores_are_what_the_name_says(void **state)
{
  (void)state;
  for (int s = 0; s < SHAPES; s++)
    for (int kind = 0; kind < FAT_KINDS; kind++) {
      const char *name = fat_kinds[kind].name;
      head h = make(&shapes[s], kind), normal = make(&shapes[s], 0);
      const int64_t columns = fat_kinds[kind].slope != 0                             ? 2
                              : fat_kinds[kind].sink > 0 || fat_kinds[kind].peak > 0 ? 1
                                                                                     : 0;
      double squares = 0;
      for (int64_t i = 0; i < h.p.q; i += 7)
        for (int64_t j = 0; j < h.p.k; j++) {
          const double added = score(&h, i, j, h.p.d - columns), wanted = promised(name, j);
          if (columns > 0 && fabs(added - wanted) > 0.0021 * fabs(wanted))
            fail_msg("%s of %s: %g is added to key %d, not %g", name, shapes[s].problem, added, (int)j,
                     wanted);
          const double all = score(&h, i, j, 0), was = score(&normal, i, j, 0);
          squares += all * all;
          if (columns > 0) /* the rest is as it was */
            assert_true(fabs(all - added - (was - score(&normal, i, j, h.p.d - columns))) < 1e-3);
        }
      if (strcmp(name, "wide") == 0 || kind == 0) {
        const double deviation = sqrt(squares / (double)((h.p.q + 6) / 7 * h.p.k));
        const double wanted = kind ? 6 : fabs((double)shapes[s].scale);
        if (fabs(deviation / wanted - 1) > 0.35) /* few rows of Q */
          fail_msg("%s of %s: standard deviation %g", name, shapes[s].problem, deviation);
      }
      free_head(&h);
      free_head(&normal);
    }
}

/* As tensors hold them: nothing is rounded once more. */
static void tensors_hold_them(void **state)
{
  (void)state;
  for (int s = 0; s < SHAPES; s++)
    for (int kind = 0; kind < FAT_KINDS; kind++) {
      head h = make(&shapes[s], kind);
      for (int64_t i = 0; i < h.p.q * h.p.d; i++)
        assert_true(isfinite(h.q[i]) && h.q[i] == fat_half_round(h.p.dtype, h.q[i]));
      for (int64_t i = 0; i < h.p.k * h.p.d; i++)
        assert_true(isfinite(h.k[i]) && h.k[i] == fat_half_round(h.p.dtype, h.k[i]));
      free_head(&h);
    }
}

/* The LSE that a backward call is given lies near the right one, so that no weight overflows and they sum to
 * about 1. */
static void backward_calls_have_a_likely_lse(void **state)
{
  static const shape cases[] = {{"bwd-f16-b1-h1-q50-k4000-d64", 1}, {"bwd-bf16-b1-h1-q50-k1000-d16", 1}};
  (void)state;
  for (int s = 0; s < 2; s++)
    for (int kind = 0; kind < 2; kind++) {
      head h = make(&cases[s], kind);
      for (int64_t i = 0; i < h.p.q; i++) {
        double most = -1e9, sum = 0;
        for (int64_t j = 0; j < h.p.k; j++)
          most = fmax(most, score(&h, i, j, 0));
        for (int64_t j = 0; j < h.p.k; j++)
          sum += exp(score(&h, i, j, 0) - most);
        const double off = (double)h.lse[i] - most - log(sum);
        if (fabs(off) > (kind ? 9 : 1)) /* e^9 is far from what f16 holds as a gradient's factor */
          fail_msg("%s of %s: the LSE of row %d is off by %g", fat_kinds[kind].name, cases[s].problem, (int)i,
                   off);
      }
      free_head(&h);
    }
}

static void who_is_timed_on_what(void **state)
{
  fat_problem forward, backward, endless;
  int count[3] = {0};
  (void)state;
  assert_int_equal(fat_problem_parse("fwd-f16-b1-h1-q4-k65536-d64", &forward, NULL), FAT_OK);
  assert_int_equal(fat_problem_parse("bwd-f16-b1-h1-q4-k65536-d64", &backward, NULL), FAT_OK);
  assert_int_equal(fat_problem_parse("fwd-f16-b1-h1-q4-k65537-d64", &endless, NULL), FAT_OK);
  for (int kind = 0; kind < FAT_KINDS; kind++) {
    count[0] += fat_kinds_has(&forward, kind);
    count[1] += fat_kinds_has(&backward, kind);
    count[2] += fat_kinds_has(&endless, kind);
  }
  assert_int_equal(count[0], 10);
  assert_int_equal(count[1], 2); /* normal, wide */
  assert_int_equal(count[2], 4); /* no slopes */
  assert_true(fat_kinds_has(&backward, 0) && fat_kinds_has(&backward, 1));
}

static void normal_weighs_half(void **state)
{
  double ms[FAT_KINDS] = {0};
  (void)state;
  assert_true(fat_kinds_mean(ms) == 0);
  ms[1] = 3;
  assert_true(fat_kinds_mean(ms) == 0); /* without normal data it is none */
  ms[0] = 2, ms[1] = 0;
  assert_true(fat_kinds_mean(ms) == 2);
  ms[1] = 8;
  assert_true(fabs(fat_kinds_mean(ms) - 4) < 1e-12);
  ms[4] = 2, ms[1] = 32;
  assert_true(fabs(fat_kinds_mean(ms) - 4) < 1e-12);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scores_are_what_the_name_says),
      cmocka_unit_test(tensors_hold_them),
      cmocka_unit_test(backward_calls_have_a_likely_lse),
      cmocka_unit_test(who_is_timed_on_what),
      cmocka_unit_test(normal_weighs_half),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
