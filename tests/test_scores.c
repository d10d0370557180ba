/* test_scores.c -- what features make of scores, in the reference: O and LSE against the definition written
 * out here, gradients against differences of the forward call. */
#include "drop.h"
#include "mod.h"
#include "oracle/truth.h"
#include "oracle/whole.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fat_problem problem(const char *sizes, const char *both, const char *more)
{
  char text[FAT_PROBLEM_TEXT];
  fat_problem p;
  fat_error err = {0};
  const char *mod = strchr(both, ' '); /* behind the features */
  snprintf(text, sizeof text, "%s%.*s%s", sizes, (int)strcspn(both, " "), both, more);
  if (fat_problem_parse(text, &p, &err) != FAT_OK || (mod && fat_mod_add(mod, FAT_MOD, &p, &err) != FAT_OK))
    fail_msg("%s", err.text);
  return p;
}

static fat_truth truth_of(const fat_problem *p)
{
  fat_truth t;
  fat_error err = {0};
  if (fat_truth_make(p, 0.25f, FAT_WIDE, 7, &t, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return t;
}

/* The score of row i and key j of head h, as README and fatune.h define it; -inf where it is not seen. */
static double score(const fat_problem *p, const fat_truth *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
  const int64_t row = (b * p->h + h) * p->q + i, key = (b * p->hk + h / (p->h / p->hk)) * p->k + j;
  double s = 0;
  for (int32_t c = 0; c < p->d; c++)
    s += 0.25 * (double)t->in[FAT_Q][row * p->d + c] * (double)t->in[FAT_K][key * p->d + c];
  if (fat_problem_has(p, FAT_SOFTCAP))
    s = 4 * tanh(s / 4);
  if (fat_problem_has(p, FAT_ALIBI))
    s -= (double)t->in[FAT_SLOPES][b * p->h + h] * fabs((double)(i + p->k - p->q - j));
  if (fat_problem_has(p, FAT_BIAS))
    s += (double)t->in[FAT_BIASES][row * p->k + j];
  if (fat_problem_has(p, FAT_MOD)) /* the one below, h / 2 being 0 and 1 */
    s = (j < 5 ? 3 * tanh(s / 3) : exp(s / 4) - s / (1 + fabs(s))) *
        (double)t->in[FAT_TABLE][h / 2 * 13 + (j > i ? j - i : 0)];
  if (fat_problem_has(p, FAT_MASK) && t->in[FAT_MASKS][row * p->k + j] == 0)
    return -INFINITY;
  return fat_problem_has(p, FAT_CAUSAL) && j > i + p->k - p->q ? -INFINITY : s;
}

static bool is_dropped(const fat_problem *p, const fat_truth *t, int64_t head, int64_t i, int64_t j)
{
  fat_rng rng;
  if (!fat_problem_has(p, FAT_DROP))
    return false;
  memcpy(&rng, t->in[FAT_RNG], sizeof rng);
  return !fat_drop_keeps(&rng, 0.25f, head, i, j);
}

static void row_is_right(const fat_problem *p, const fat_truth *t, int64_t b, int64_t h, int64_t i)
{
  const int64_t row = (b * p->h + h) * p->q + i, first = (b * p->hk + h / (p->h / p->hk)) * p->k;
  double l = t->in[FAT_SINKS] ? exp((double)t->in[FAT_SINKS][h]) : 0, o = 0;
  for (int64_t j = 0; j < p->k; j++) {
    const double w = exp(score(p, t, b, h, i, j));
    l += w;
    o += (is_dropped(p, t, b * p->h + h, i, j) ? 0 : w) * (double)t->in[FAT_V][(first + j) * p->dv + 3];
  }
  assert_float_equal(t->right[FAT_O][row * p->dv + 3],
                     l > 0 ? o / l / (fat_problem_has(p, FAT_DROP) ? 0.75 : 1) : 0, 1e-9);
  if (l > 0)
    assert_float_equal(t->right[FAT_LSE][row], log(l), 1e-9);
}

static const struct {
  const char *both, *backward;
} features[] = {
    {"-softcap", ""},
    {"-causal-softcap", ""},
    {"-alibi", ""},
    {"-causal-alibi-softcap", ""},
    {"-causal-sink", "-dsink"},
    {"-causal-drop", ""},
    {"-softcap-drop", ""},
    {"-mask", ""},
    {"-causal-mask-bias-drop", "-dbias"},
    {"-causal-mask-bias-softcap", ""},
    {"-softcap-drop select(j < 5, 3.0 * tanh(s / 3), exp(s / 4) - s / (1 + abs(s))) * table0[h // 2, j - i]",
     ""}};
enum { FEATURES = sizeof features / sizeof *features };

static void scores_are_what_is_defined(void **state)
{
  (void)state;
  for (int f = 0; f < FEATURES; f++) {
    const fat_problem p = problem("fwd-f32-b2-h4k2-q9-k13-d8", features[f].both, "");
    fat_truth t = truth_of(&p);
    for (int64_t b = 0; b < p.b; b++)
      for (int64_t h = 0; h < p.h; h++)
        for (int64_t i = 0; i < p.q; i++)
          row_is_right(&p, &t, b, h, i);
    fat_truth_free(&t);
  }
}

/* dO O, summed over all of a forward call of these inputs. */
static double loss(const fat_problem *p, const fat_truth *t)
{
  fat_problem forward = *p;
  double *right[FAT_TENSORS] = {NULL}, sum = 0;
  fat_reference_inputs in = {.scale = 0.25f};
  forward.op = FAT_FWD;
  fat_tensors_usual(in.scalar);
  for (int x = 0; x < FAT_TENSORS; x++) {
    if (fat_tensors_role(&forward, x) == FAT_ROLE_IN)
      in.of[x] = t->in[x];
    if (fat_tensors_is_out(fat_tensors_role(&forward, x)))
      right[x] = calloc((size_t)fat_tensors_elements(&forward, x), sizeof(double));
  }
  assert_true(fat_whole_double(&forward, &in, right));
  for (int64_t x = 0; x < fat_tensors_elements(&forward, FAT_O); x++)
    sum += right[FAT_O][x] * (double)t->in[FAT_DO][x];
  for (int x = 0; x < FAT_TENSORS; x++)
    free(right[x]);
  return sum;
}

static const struct {
  fat_tensor of, gradient;
} gradients[] = {
    {FAT_Q, FAT_DQ}, {FAT_K, FAT_DK}, {FAT_V, FAT_DV}, {FAT_SINKS, FAT_DSINKS}, {FAT_BIASES, FAT_DBIASES}};

/* Central differences of steps that floats hold: their own error is the third derivative's, below 2e-3 here.
 */
static void gradients_are_differences(void **state)
{
  (void)state;
  for (int f = 0; f < FEATURES; f++) {
    const fat_problem p = problem("bwd-f32-b2-h2k1-q5-k7-d8", features[f].both, features[f].backward);
    fat_truth t = truth_of(&p);
    for (unsigned g = 0; g < sizeof gradients / sizeof *gradients; g++) {
      const double *right = t.right[gradients[g].gradient];
      const int64_t count = fat_tensors_elements(&p, gradients[g].of);
      double most = 0;
      for (int64_t x = 0; right && x < count; x += 1 + count / 40) {
        float *at = &t.in[gradients[g].of][x], was = *at;
        *at = was + 0x1p-9f;
        const double above = loss(&p, &t), step = (double)*at;
        *at = was - 0x1p-9f;
        const double below = loss(&p, &t), by = step - (double)*at;
        *at = was;
        assert_float_equal((above - below) / by, right[x], 2e-3);
        most = fmax(most, fabs(right[x]));
      }
      if (right && most < 0.05)
        fail_msg("%s: all %s are nearly 0", features[f].both, fat_tensors[gradients[g].gradient].name);
    }
    fat_truth_free(&t);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scores_are_what_is_defined),
      cmocka_unit_test(gradients_are_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
