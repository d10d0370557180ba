/* test_reference.c -- the rule by which kernels are judged: honest computations pass it in every precision,
 * those with a defect do not.
 *
 * A kernel is played by a plain FlashAttention loop whose roundings, sums and defects are chosen. */
#include "oracle/half.h"
#include "sees.h"
#include "oracle/truth.h"
#include "oracle/whole.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Bc = 32 };

/* How the played kernel computes. */
typedef struct ways {
  bool cut_sums;         /* sums are cut to a float after each step of 8, as tensor cores do */
  bool rounded_scores;   /* S goes through the element type */
  bool narrow_sums;      /* O is added up in the element type */
  bool lost_key, lost_v; /* the last key is left out; a row of V is the next one's */
  bool single_pass;      /* of f32x3: only the first of its three products */
  bool no_decay;         /* O is not scaled down when the maximum grows */
  fat_dtype stored;      /* what O is rounded to */
} ways;

typedef struct played {
  fat_problem p;
  float *q, *k, *v, scale;
  double *o, *lse;
  double allowed_o, allowed_lse, allowed_lse_stored;
} played;

static uint64_t seed;

static float number(void)
{
  int sum = 0;
  for (int i = 0; i < 4; i++) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    sum += (int)(seed >> 44) - (1 << 19);
  }
  return (float)sum / (float)(1 << 19) * 0.866f;
}

static float *numbers(fat_dtype type, int64_t count, float size)
{
  float *x = malloc((size_t)count * sizeof *x);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++)
    x[i] = fat_half_round(type, number() * size);
  return x;
}

static void solve(played *g, fat_bound *bound)
{
  const fat_reference_inputs in = {.of = {[FAT_Q] = g->q, [FAT_K] = g->k, [FAT_V] = g->v}, .scale = g->scale};
  double *right[FAT_TENSORS] = {[FAT_O] = g->o, [FAT_LSE] = g->lse};
  assert_true(fat_whole_solve(&g->p, &in, right, bound));
  g->allowed_o = fat_reference_allowed(&g->p, bound, FAT_O, false);
  g->allowed_lse = fat_reference_allowed(&g->p, bound, FAT_LSE, false);
  g->allowed_lse_stored = fat_reference_allowed(&g->p, bound, FAT_LSE, true);
}

static played play(const char *problem, float size_q, float size_v)
{
  played g = {0};
  fat_bound bound;
  assert_int_equal(fat_problem_parse(problem, &g.p, NULL), FAT_OK);
  const fat_problem *p = &g.p;
  int64_t rows = p->b * p->h * p->q, keys = p->b * p->hk * p->k;
  seed = 7;
  g.scale = 1 / sqrtf((float)p->d);
  g.q = numbers(p->dtype, rows * p->d, size_q);
  g.k = numbers(p->dtype, keys * p->d, 1);
  g.v = numbers(p->dtype, keys * p->dv, size_v);
  g.o = malloc((size_t)(rows * p->dv) * sizeof *g.o);
  g.lse = malloc((size_t)rows * sizeof *g.lse);
  assert_true(g.o && g.lse);
  solve(&g, &bound);
  return g;
}

static void put_away(played *g)
{
  free(g->q);
  free(g->k);
  free(g->v);
  free(g->o);
  free(g->lse);
}

/* A double to a float by cutting, as tensor cores do; or to the nearest. */
static float to_float(double x, bool cut)
{
  float f = (float)x;
  return cut && fabs((double)f) > fabs(x) ? nextafterf(f, 0) : f;
}

/* One product of operands, exact enough in double: in the type's own way. */
static double product(const played *g, const ways *w, float a, float b)
{
  if (g->p.dtype == FAT_F16 || g->p.dtype == FAT_BF16 || g->p.dtype == FAT_F32)
    return (double)a * (double)b;
  float ah = fat_half_tf32(a), bh = fat_half_tf32(b);
  if (g->p.dtype == FAT_TF32 || w->single_pass)
    return (double)ah * (double)bh;
  float al = fat_half_tf32(a - ah), bl = fat_half_tf32(b - bh);
  return (double)ah * (double)bh + (double)ah * (double)bl + (double)al * (double)bh;
}

/* Sum of x[i step_x] y[i step_y], `n` of them, onto `sum`, in steps of 8. */
static float dot(const played *g, const ways *w, float sum, const float *x, int64_t step_x, const float *y,
                 int64_t step_y, int64_t n)
{
  for (int64_t i = 0; i < n; i += 8) {
    double step = (double)sum;
    for (int64_t j = i; j < n && j < i + 8; j++)
      step += product(g, w, x[j * step_x], y[j * step_y]);
    sum = to_float(step, w->cut_sums);
    if (w->narrow_sums)
      sum = fat_half_round(g->p.dtype, sum);
  }
  return sum;
}

/* One row: S, m, l and O tile by tile; then the errors. */
static void row(const played *g, const ways *w, int64_t head, int64_t i, double *off_o, double *off_lse)
{
  const fat_problem *p = &g->p;
  ways scores = *w;
  const fat_interval seen = fat_sees(p, i);
  const int64_t keys = seen.hi - w->lost_key, at = head * p->q + i;
  float o[FAT_PROBLEM_DV_MAX] = {0}, s[Bc], m = -INFINITY, l = 0;
  scores.narrow_sums = false;
  for (int64_t j0 = seen.lo; j0 < keys; j0 += Bc) {
    int64_t n = keys - j0 < Bc ? keys - j0 : Bc;
    float m_old = m, sum = 0;
    for (int64_t j = 0; j < n; j++) {
      s[j] =
          g->scale * dot(g, &scores, 0, g->q + at * p->d, 1, g->k + (head * p->k + j0 + j) * p->d, 1, p->d);
      s[j] = w->rounded_scores ? fat_half_round(p->dtype, s[j]) : s[j];
      m = fmaxf(m, s[j]);
    }
    for (int64_t j = 0; j < n; j++) {
      s[j] = expf(s[j] - m);
      sum += s[j];
      s[j] = p->dtype == FAT_TF32 ? s[j] : fat_half_round(p->dtype, s[j]);
    }
    float decay = m_old == m || w->no_decay ? 1 : expf(m_old - m);
    l = l * (m_old == m ? 1 : expf(m_old - m)) + sum;
    for (int32_t c = 0; c < p->dv; c++)
      o[c] = dot(g, w, o[c] * decay, s, 1, g->v + (head * p->k + j0 + w->lost_v) * p->dv + c, p->dv,
                 w->lost_v && j0 + n == p->k ? n - 1 : n);
  }
  float lse = m + logf(l);
  for (int32_t c = 0; c < p->dv; c++)
    *off_o = fmax(*off_o, fat_reference_off(g->o[at * p->dv + c], fat_half_round(w->stored, o[c] / l)));
  *off_lse = fmax(*off_lse, fat_reference_off(g->lse[at], lse));
}

typedef struct verdict {
  bool o, lse, stored; /* right; LSE as that of a kernel that keeps S in memory */
} verdict;

static verdict judge(const played *g, const ways *w)
{
  double off_o = 0, off_lse = 0;
  for (int64_t head = 0; head < g->p.b * g->p.h; head++)
    for (int64_t i = 0; i < g->p.q; i++)
      row(g, w, head, i, &off_o, &off_lse);
  return (verdict){off_o <= g->allowed_o, off_lse <= g->allowed_lse, off_lse <= g->allowed_lse_stored};
}

static const char *const problems[] = {
    "fwd-f16-b1-h1-q33-k150-d64",
    "fwd-bf16-b1-h1-q33-k150-d64",
    "fwd-f32-b1-h1-q33-k150-d64",
    "fwd-tf32-b1-h1-q33-k150-d64",
    "fwd-f32x3-b1-h1-q33-k150-d64",
    "fwd-f16-b1-h2-q20-k20-d128-causal",
    "fwd-tf32-b1-h1-q8-k1500-d256",
    "fwd-f32x3-b1-h1-q8-k1500-d256",
    "fwd-bf16-b1-h1-q40-k1-d32",
    "fwd-f16-b1-h1-q50-k70-d32-w9.3",
    "fwd-f16-b1-h2-q40-k90-d32-causal-w0.0",
    "fwd-bf16-b1-h1-q40-k70-d32-wx.5",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static ways honest(const played *g)
{
  return (ways){.stored = g->p.dtype, .cut_sums = g->p.dtype != FAT_F32};
}

/* Ordinary numbers, scores in the thousands and tens of thousands, large values. */
static void honest_kernels_are_right(void **state)
{
  (void)state;
  static const float sizes[][2] = {{1, 1}, {200, 1}, {2000, 4096}, {0.01f, 1e-3f}};
  for (int i = 0; i < PROBLEMS; i++)
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      played g = play(problems[i], sizes[s][0], sizes[s][1]);
      const ways w = honest(&g);
      verdict v = judge(&g, &w);
      if (!v.o || !v.lse)
        fail_msg("%s, q times %g: %s is refused", problems[i], (double)sizes[s][0], v.o ? "LSE" : "O");
      assert_true(isfinite(g.allowed_o) && isfinite(g.allowed_lse));
      put_away(&g);
    }
}

/* The bound of O is about what the type resolves, not more. */
static void bounds_are_of_the_types_size(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    double most_o, most_lse;
  } bounds[] = {{"fwd-f16-b1-h1-q33-k150-d64", 4e-3, 5e-5},
                {"fwd-bf16-b1-h1-q33-k150-d64", 3e-2, 5e-5},
                {"fwd-f32-b1-h1-q33-k150-d64", 3e-6, 5e-6},
                {"fwd-tf32-b1-h1-q33-k150-d64", 3e-3, 5e-3},
                {"fwd-f32x3-b1-h1-q33-k150-d64", 1e-4, 1.5e-4}};
  for (unsigned i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    played g = play(bounds[i].problem, 1, 1);
    if (!(g.allowed_o < bounds[i].most_o && g.allowed_lse < bounds[i].most_lse))
      fail_msg("%s: O may be off by %.3g, LSE by %.3g", bounds[i].problem, g.allowed_o, g.allowed_lse);
    put_away(&g);
  }
}

static void defects_are_found(void **state)
{
  (void)state;
  for (int i = 0; i < 5; i++) {
    played g = play(problems[i], 1, 1);
    const ways good = honest(&g);
    ways w = good;
    w.lost_key = true;
    verdict v = judge(&g, &w);
    assert_false(v.lse);
    assert_false(v.o);
    w = good;
    w.lost_v = true;
    v = judge(&g, &w);
    assert_true(v.lse && !v.o);
    w = good;
    w.no_decay = true;
    v = judge(&g, &w);
    assert_true(v.lse && !v.o);
    put_away(&g);
  }
}

/* The standard algorithm keeps S in memory, rounded, and is no worse than PyTorch for it. */
static void stored_scores_have_a_bound_of_their_own(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    played g = play(problems[i], 1, 1);
    ways w = honest(&g);
    w.rounded_scores = true;
    verdict v = judge(&g, &w);
    assert_true(v.o && v.stored && !v.lse);
    w.lost_key = true;
    assert_false(judge(&g, &w).o);
    put_away(&g);
  }
  assert_true(fat_reference_stores("standard") && !fat_reference_stores("fwd") &&
              !fat_reference_stores("fa1"));
}

/* Computing in a coarser way than the type promises. */
static void coarser_arithmetic_is_found(void **state)
{
  (void)state;
  static const char *const long_rows[] = {"fwd-f16-b1-h1-q8-k4000-d16", "fwd-bf16-b1-h1-q8-k4000-d16"};
  for (int i = 0; i < 2; i++) { /* sums of P V that are not kept in float, S that is not */
    played g = play(long_rows[i], 1, 1);
    ways w = honest(&g);
    assert_true(judge(&g, &w).o);
    w.narrow_sums = true;
    assert_false(judge(&g, &w).o);
    w = honest(&g);
    w.rounded_scores = true;
    assert_false(judge(&g, &w).lse);
    put_away(&g);
  }
  played g = play("fwd-f16-b1-h1-q33-k150-d64", 1, 1);
  ways w = honest(&g);
  w.stored = FAT_BF16;
  assert_false(judge(&g, &w).o);
  put_away(&g);
  g = play("fwd-f32x3-b1-h1-q33-k150-d64", 1, 1);
  w = honest(&g);
  w.single_pass = true;
  verdict v = judge(&g, &w);
  assert_true(!v.o && !v.lse);
  put_away(&g);
}

/* Scores that f16 cannot hold are ordinary numbers for a kernel that keeps them in float; S in f16 is
 * infinite there, and its row NaN. */
static void scores_beyond_f16_have_a_finite_bound(void **state)
{
  (void)state;
  played g = play("fwd-f16-b1-h1-q16-k40-d64", 8000, 1);
  g.scale = 1;
  fat_bound bound;
  solve(&g, &bound);
  assert_true(bound.score > 65520);
  assert_true(isfinite(g.allowed_o) && isfinite(g.allowed_lse));
  ways w = honest(&g);
  verdict v = judge(&g, &w);
  assert_true(v.o && v.lse);
  w.rounded_scores = true;
  v = judge(&g, &w);
  assert_true(!v.o && !v.lse);
  put_away(&g);
}

static void rows_without_keys_have_no_part(void **state)
{
  (void)state;
  played g = play("fwd-f16-b1-h1-q5-k2-d16-causal", 1, 1);
  assert_true(isinf(g.lse[0]) && g.lse[0] > 0 && g.o[0] == 0);
  assert_true(isfinite(g.allowed_o) && isfinite(g.allowed_lse) && g.allowed_o > 0);
  assert_true(fat_reference_off(INFINITY, INFINITY) == 0 && isinf(fat_reference_off(INFINITY, -INFINITY)));
  assert_true(isinf(fat_reference_off(1, NAN)) && isinf(fat_reference_off(INFINITY, NAN)));
  put_away(&g);
}

/* ---- masks ---- */

/* A row that sees an interval of keys has the results of a call with those keys alone. */
static void a_row_is_that_of_its_keys(void **state)
{
  static const char *const texts[] = {
      "fwd-f32-b2-h4k2-q9-k7-d16-w2.1",        "fwd-f32-b1-h2k1-q5-k12-d16-causal-w3.0",
      "fwd-f32-b1-h1-q12-k5-d16-causal",       "fwd-f32-b1-h1-q5-k9-d16-causaltl",
      "fwd-f32-b1-h1-q20-k6-d16-w0.0",         "fwd-f32-b1-h1-q6-k20-d16-wx.2",
      "fwd-f32-b1-h1-q7-k7-d16-w2147483646.0", "fwd-f32-b1-h2-q9-k9-d16-causaltl-w1.5"};
  int empty = 0;
  (void)state;
  for (size_t x = 0; x < sizeof texts / sizeof *texts; x++) {
    fat_problem p;
    fat_truth t;
    assert_int_equal(fat_problem_parse(texts[x], &p, NULL), FAT_OK);
    assert_int_equal(fat_truth_make(&p, 0.25f, FAT_NORMAL, 16 * x, &t, NULL), FAT_OK);
    for (int64_t row = 0; row < p.b * p.h * p.q; row++) {
      const fat_interval keys = fat_sees(&p, row % p.q);
      const int64_t head = row / p.q, kv = head / (p.h / p.hk) * p.k + keys.lo;
      fat_problem one = {FAT_FWD, FAT_F32, 1, 1, 1, 1, keys.hi - keys.lo, p.d, p.dv, 0, {{0}}};
      double o[16], lse, *right[FAT_TENSORS] = {[FAT_O] = o, [FAT_LSE] = &lse};
      const fat_reference_inputs in = {
          .of = {t.in[FAT_Q] + row * p.d, t.in[FAT_K] + kv * p.d, t.in[FAT_V] + kv * p.dv}, .scale = 0.25f};
      assert_true(fat_whole_double(&one, &in, right));
      assert_memory_equal(o, t.right[FAT_O] + row * p.dv, sizeof o);
      assert_true(lse == t.right[FAT_LSE][row]);
      empty += keys.hi == keys.lo;
      assert_true((keys.hi == keys.lo) == (isinf(lse) && lse > 0));
    }
    fat_truth_free(&t);
  }
  assert_true(empty > 20);
}

/* ---- sinks ---- */

/* Keys and rows of V with one more key at the head's end. */
static void append(const float *from, int64_t heads, int64_t k, int32_t d, const float *last, float *to)
{
  for (int64_t h = 0; h < heads; h++, to += d) {
    memcpy(to, from + h * k * d, (size_t)(k * d) * sizeof *to);
    to += k * d;
    memcpy(to, last, (size_t)d * sizeof *to);
  }
}

/* What is timed: learned biases are each head's, masks are all heads', and neither is copied for each batch.
 */
static void shared_pairs_are_those_of_batches(void **state)
{
  static const struct {
    const char *problem;
    int tensor;
    int64_t head; /* from head to head */
  } cases[] = {{"fwd-bf16-b2-h3-q5-k8-d64-bias", FAT_BIASES, 5 * 8},
               {"fwd-bf16-b2-h32-q8192-k8192-d64-bias", FAT_BIASES, 8192 * 8192},
               {"fwd-bf16-b2-h33-q8192-k8192-d64-bias", FAT_BIASES, 0}, /* no room for 33 */
               {"fwd-bf16-b2-h3-q5-k8-d64-mask", FAT_MASKS, 0},
               {"bwd-bf16-b2-h3-q5-k8-d64-bias-dbias", FAT_BIASES, 5 * 8}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_problem p;
    int64_t stride[3];
    assert_int_equal(fat_problem_parse(cases[i].problem, &p, NULL), FAT_OK);
    fat_truth_lay(&p, cases[i].tensor, FAT_SHARED, 1, stride);
    assert_int_equal(stride[0], 0);
    assert_int_equal(stride[1], cases[i].head);
    assert_int_equal(stride[2], p.k);
    fat_truth_lay(&p, FAT_DBIASES, FAT_SHARED, 1, stride); /* results are never shared */
    assert_true(stride[0] > 0);
  }
}

/* A sink is one more key, whose V is 0 and whose score is the sink: Q is 1 and that key the sink in a column
 * that all other keys have at 0. */
static void a_sink_is_a_key_without_a_value(void **state)
{
  (void)state;
  enum { H = 4, Q = 5, K = 7, D = 16 };
  fat_problem p, plain;
  fat_truth t;
  assert_int_equal(fat_problem_parse("fwd-f32-b2-h4k2-q5-k7-d16-sink", &p, NULL), FAT_OK);
  assert_int_equal(fat_truth_make(&p, 1, FAT_NORMAL, 0, &t, NULL), FAT_OK);
  for (int64_t i = 0; i < 2 * H * Q; i++)
    t.in[FAT_Q][i * D] = 1;
  for (int64_t j = 0; j < 2 * H / 2 * K; j++)
    t.in[FAT_K][j * D] = 0;
  assert_int_equal(fat_truth_solve(&p, 1, &t, NULL), FAT_OK);
  for (int h = 0; h < H; h++) { /* its sink is the score of no other head's extra key */
    float k[2 * H / 2 * (K + 1) * D], v[2 * H / 2 * (K + 1) * D], key[D] = {t.in[FAT_SINKS][h]},
                                                                  none[D] = {0};
    double o[2 * H * Q * D], lse[2 * H * Q], *right[FAT_TENSORS] = {[FAT_O] = o, [FAT_LSE] = lse};
    const fat_reference_inputs in = {.of = {t.in[FAT_Q], k, v}, .scale = 1};
    append(t.in[FAT_K], 2 * H / 2, K, D, key, k);
    append(t.in[FAT_V], 2 * H / 2, K, D, none, v);
    plain = p;
    plain.features = 0;
    plain.k = K + 1;
    assert_true(fat_whole_double(&plain, &in, right));
    for (int b = 0; b < 2; b++)
      for (int64_t i = ((int64_t)b * H + h) * Q; i < ((int64_t)b * H + h + 1) * Q; i++) {
        assert_true(fabs(lse[i] - t.right[FAT_LSE][i]) < 1e-12);
        for (int c = 0; c < D; c++)
          assert_true(fabs(o[i * D + c] - t.right[FAT_O][i * D + c]) < 1e-12);
      }
  }
  fat_truth_free(&t);
}

/* Rows that see no key have their head's sink for an LSE; a sink of -inf is none. */
static void a_sink_is_all_that_empty_rows_have(void **state)
{
  (void)state;
  fat_problem p;
  fat_truth t;
  assert_int_equal(fat_problem_parse("fwd-f32-b2-h2-q5-k2-d16-causal-sink", &p, NULL), FAT_OK);
  assert_int_equal(fat_truth_make(&p, 0.25f, FAT_NORMAL, 0, &t, NULL), FAT_OK);
  for (int b = 0; b < 2; b++)
    for (int h = 0; h < 2; h++)
      for (int i = 0; i < 3; i++) {
        assert_true(t.right[FAT_LSE][(b * 2 + h) * 5 + i] == (double)t.in[FAT_SINKS][h]);
        assert_true(t.right[FAT_O][((b * 2 + h) * 5 + i) * 16] == 0);
      }
  assert_true(t.allowed[FAT_LSE][0] > 0 && isfinite(t.allowed[FAT_LSE][0]));
  const double with = t.right[FAT_LSE][4];
  t.in[FAT_SINKS][0] = t.in[FAT_SINKS][1] = -INFINITY;
  assert_int_equal(fat_truth_solve(&p, 0.25f, &t, NULL), FAT_OK);
  assert_true(isinf(t.right[FAT_LSE][0]) && t.right[FAT_LSE][0] > 0);
  assert_true(t.right[FAT_LSE][4] < with && isfinite(t.allowed[FAT_LSE][0]));
  fat_truth_free(&t);
}

/* ---- gradients ---- */

static const char *const gradient_problems[] = {
    "bwd-f32-b1-h1-q3-k4-d8",
    "bwd-f32-b2-h4k2-q3-k3-d8v16-causal",
    "bwd-f32-b1-h2k1-q5-k3-d8-causal",
    "bwd-f32-b1-h2k1-q4-k6-d16v8-w1.1",
    "bwd-f32-b1-h1-q6-k3-d8-w0.1",
    "bwd-f32-b1-h3k1-q3-k5-d8-causal-w1.0",
    "bwd-f32-b1-h1-q3-k4-d8-causaltl",
    "bwd-f32-b1-h2-q4-k1-d8",
    "bwd-f32-b2-h2k1-q5-k3-d8-causal-dlse",
};

/* The sum of dO O of a forward call in double, and of dLSE LSE where there is one: what its gradients are
 * those of. */
static double loss(const fat_problem *p, const fat_truth *t)
{
  fat_problem forward = *p;
  const fat_reference_inputs in = {.of = {t->in[FAT_Q], t->in[FAT_K], t->in[FAT_V]}, .scale = 0.3f};
  const int64_t count = p->b * p->h * p->q * p->dv;
  double o[1024], lse[64], *right[FAT_TENSORS] = {[FAT_O] = o, [FAT_LSE] = lse}, sum = 0;
  assert_true(count <= 1024);
  forward.op = FAT_FWD;
  assert_true(fat_whole_double(&forward, &in, right));
  for (int64_t i = 0; i < count; i++)
    sum += (double)t->in[FAT_DO][i] * o[i];
  for (int64_t i = 0; t->in[FAT_DLSES] && i < p->b * p->h * p->q; i++)
    sum += isfinite(lse[i]) ? (double)t->in[FAT_DLSES][i] * lse[i] : 0;
  return sum;
}

static void gradients_are_slopes(void **state)
{
  static const struct {
    fat_tensor input, gradient;
  } pairs[] = {{FAT_Q, FAT_DQ}, {FAT_K, FAT_DK}, {FAT_V, FAT_DV}};
  (void)state;
  for (size_t x = 0; x < sizeof gradient_problems / sizeof *gradient_problems; x++) {
    fat_problem p;
    fat_truth t;
    assert_int_equal(fat_problem_parse(gradient_problems[x], &p, NULL), FAT_OK);
    assert_int_equal(fat_truth_make(&p, 0.3f, FAT_NORMAL, 16 * x, &t, NULL), FAT_OK);
    for (int n = 0; n < 3; n++) {
      double most = 0;
      for (int64_t i = 0; i < fat_tensors_elements(&p, pairs[n].input); i++) {
        float *number = &t.in[pairs[n].input][i], was = *number, step = 0x1p-7f;
        *number = was + step;
        const double up = (double)*number, above = loss(&p, &t);
        *number = was - step;
        const double slope = (above - loss(&p, &t)) / (up - (double)*number);
        const double right = t.right[pairs[n].gradient][i];
        *number = was;
        if (!(fabs(slope - right) < 2e-4)) /* O and LSE are floats, and the step is no infinitesimal */
          fail_msg("%s: %s[%d] is %g, the slope is %g", gradient_problems[x],
                   fat_tensors[pairs[n].gradient].name, (int)i, right, slope);
        most = fmax(most, fabs(right));
      }
      assert_true(most > 0.01 || p.k == 1);
    }
    fat_truth_free(&t);
  }
}

/* V does not count in LSE: with that gradient alone dV is exactly 0, and dQ is not. */
static void lse_alone_does_not_move_v(void **state)
{
  fat_problem p;
  fat_truth t;
  (void)state;
  assert_int_equal(fat_problem_parse("bwd-bf16-b1-h2k1-q9-k7-d16-dlse", &p, NULL), FAT_OK);
  assert_int_equal(fat_truth_make(&p, 0.25f, FAT_NORMAL, 3, &t, NULL), FAT_OK);
  memset(t.in[FAT_DO], 0, (size_t)fat_tensors_elements(&p, FAT_DO) * sizeof(float));
  assert_int_equal(fat_truth_solve(&p, 0.25f, &t, NULL), FAT_OK);
  for (int64_t i = 0; i < fat_tensors_elements(&p, FAT_DV); i++)
    assert_true(t.right[FAT_DV][i] == 0);
  assert_true(t.right[FAT_DQ][0] != 0);
  fat_truth_free(&t);
}

/* Of the inputs of a backward call O and LSE are what the forward gives, as their tensors hold them. */
static void a_backward_call_has_the_forwards_results(void **state)
{
  fat_problem p;
  fat_truth t;
  (void)state;
  assert_int_equal(fat_problem_parse("bwd-f16-b2-h4k2-q9-k5-d16-causal", &p, NULL), FAT_OK);
  assert_int_equal(fat_truth_make(&p, 0.25f, FAT_NORMAL, 3, &t, NULL), FAT_OK);
  fat_problem forward = p;
  forward.op = FAT_FWD;
  fat_truth right = {.in = {t.in[FAT_Q], t.in[FAT_K], t.in[FAT_V]}};
  assert_int_equal(fat_truth_solve(&forward, 0.25f, &right, NULL), FAT_OK);
  for (int64_t i = 0; i < p.b * p.h * p.q; i++) {
    assert_true(t.in[FAT_LSE][i] == (float)right.right[FAT_LSE][i]);
    for (int32_t c = 0; c < p.dv; c++)
      assert_true(t.in[FAT_O][i * p.dv + c] ==
                  fat_half_round(FAT_F16, (float)right.right[FAT_O][i * p.dv + c]));
  }
  assert_true(isinf(t.in[FAT_LSE][0]) && t.right[FAT_DQ][0] == 0); /* row 0 sees no key */
  for (int i = 0; i < 3; i++)
    right.in[i] = NULL;
  fat_truth_free(&right);
  fat_truth_free(&t);
}

/* An honest backward keeps P and dS as elements and adds up in float, tile by tile; a dishonest one leaves
 * out a row, or adds up in the element type. Returns the share of what is allowed that dV and dQ take. */
static void play_backward(const fat_problem *p, const fat_truth *t, bool narrow, bool lost, double share[2])
{
  const float scale = 0.25f;
  share[0] = share[1] = 0;
  for (int64_t j = 0; j < p->k; j++) {
    const fat_interval rows = fat_sees_rows(p, j);
    for (int32_t c = 0; c < p->dv; c++) {
      float sum = 0;
      for (int64_t i = rows.lo; i < rows.hi - lost; i++) {
        float s = 0;
        for (int32_t x = 0; x < p->d; x++)
          s += t->in[FAT_Q][i * p->d + x] * t->in[FAT_K][j * p->d + x];
        sum += fat_half_round(p->dtype, expf(scale * s - t->in[FAT_LSE][i])) * t->in[FAT_DO][i * p->dv + c];
        sum = narrow ? fat_half_round(p->dtype, sum) : sum;
      }
      share[0] =
          fmax(share[0], fat_reference_off(t->right[FAT_DV][j * p->dv + c], fat_half_round(p->dtype, sum)) /
                             t->allowed[FAT_DV][0]);
    }
  }
  for (int64_t i = 0; i < p->q; i++) {
    const fat_interval keys = fat_sees(p, i);
    float dQ[FAT_PROBLEM_D_MAX] = {0};
    for (int64_t j = keys.lo; j < keys.hi - lost; j++) {
      float s = 0, dP = 0, D = 0;
      for (int32_t x = 0; x < p->d; x++)
        s += t->in[FAT_Q][i * p->d + x] * t->in[FAT_K][j * p->d + x];
      for (int32_t x = 0; x < p->dv; x++) {
        dP += t->in[FAT_DO][i * p->dv + x] * t->in[FAT_V][j * p->dv + x];
        D += t->in[FAT_DO][i * p->dv + x] * t->in[FAT_O][i * p->dv + x];
      }
      const float dS = fat_half_round(p->dtype, expf(scale * s - t->in[FAT_LSE][i]) * (dP - D));
      for (int32_t x = 0; x < p->d; x++)
        dQ[x] = narrow ? fat_half_round(p->dtype, dQ[x] + dS * t->in[FAT_K][j * p->d + x])
                       : dQ[x] + dS * t->in[FAT_K][j * p->d + x];
    }
    for (int32_t x = 0; x < p->d; x++)
      share[1] = fmax(share[1], fat_reference_off(t->right[FAT_DQ][i * p->d + x],
                                                  fat_half_round(p->dtype, scale * dQ[x])) /
                                    t->allowed[FAT_DQ][0]);
  }
}

static void gradients_are_held_to_what_their_type_resolves(void **state)
{
  static const struct {
    const char *problem;
    double most; /* what is allowed, as a part of the largest element */
  } cases[] = {{"bwd-f16-b1-h1-q300-k200-d32", 0.01},
               {"bwd-bf16-b1-h1-q300-k200-d32-causal", 0.06},
               {"bwd-f32-b1-h1-q100-k90-d32", 2e-5},
               {"bwd-f16-b1-h1-q100-k300-d32-w20.5", 0.01}};
  (void)state;
  for (size_t x = 0; x < sizeof cases / sizeof *cases; x++) {
    fat_problem p;
    fat_truth t;
    double share[2];
    assert_int_equal(fat_problem_parse(cases[x].problem, &p, NULL), FAT_OK);
    assert_int_equal(fat_truth_make(&p, 0.25f, FAT_NORMAL, 5, &t, NULL), FAT_OK);
    play_backward(&p, &t, false, false, share);
    if (!(share[0] <= 1 && share[1] <= 1))
      fail_msg("%s: an honest dV has %g of its bound, dQ %g", cases[x].problem, share[0], share[1]);
    play_backward(&p, &t, false, true, share);
    if (!(share[0] > 1 && share[1] > 1))
      fail_msg("%s: a lost row is within %g of dV's bound, a lost key within %g of dQ's", cases[x].problem,
               share[0], share[1]);
    play_backward(&p, &t, true, false, share);
    if (p.dtype != FAT_F32 && !fat_problem_has(&p, FAT_WINDOW) && !(share[0] > 1))
      fail_msg("%s: a dV added up in its type has %g of its bound", cases[x].problem, share[0]);
    for (int n = FAT_DQ; n <= FAT_DV; n++) {
      double most = 0;
      for (int64_t i = 0; i < fat_tensors_elements(&p, n); i++)
        most = fmax(most, fabs(t.right[n][i]));
      if (!(t.allowed[n][0] > 0 && t.allowed[n][0] < cases[x].most * most))
        fail_msg("%s: %s may be off by %g of %g", cases[x].problem, fat_tensors[n].name, t.allowed[n][0],
                 most);
    }
    fat_truth_free(&t);
  }
}

/* A kernel whose exponentials flush every weight of a sink to 0 is right; one that keeps half of a weight
 * that is not flushed is not. */
static void weights_of_a_far_sink_may_be_flushed(void **state)
{
  (void)state;
  fat_problem p;
  fat_truth t;
  assert_int_equal(fat_problem_parse("bwd-f32-b1-h1-q9-k7-d16-sink-dsink", &p, NULL), FAT_OK);
  assert_int_equal(fat_truth_make(&p, 0.25f, FAT_NORMAL, 5, &t, NULL), FAT_OK);
  double least = INFINITY;
  for (int64_t i = 0; i < p.q; i++)
    least = fmin(least, t.in[FAT_LSE][i]);
  t.in[FAT_SINKS][0] = (float)(least + log(0x1p-126) - 0.1);
  assert_int_equal(fat_truth_solve(&p, 0.25f, &t, NULL), FAT_OK);
  assert_true(t.right[FAT_DSINKS][0] != 0 && fabs(t.right[FAT_DSINKS][0]) <= t.allowed[FAT_DSINKS][0]);
  t.in[FAT_SINKS][0] += 20;
  assert_int_equal(fat_truth_solve(&p, 0.25f, &t, NULL), FAT_OK);
  assert_true(fabs(t.right[FAT_DSINKS][0]) / 2 > t.allowed[FAT_DSINKS][0]);
  fat_truth_free(&t);
}

/* Of equal data few elements differ: no draw may have an honest dQ be unlucky where the computation was
 * lucky. */
static void few_large_summands_leave_room_for_luck(void **state)
{
  static const char *const problems[] = {"bwd-bf16-b1-h1-q16-k12-d64-causal",
                                         "bwd-f16-b1-h1-q16-k12-d64-causal"};
  (void)state;
  for (int x = 0; x < 2; x++)
    for (uint64_t seed = 1; seed <= 400; seed++) {
      fat_problem p;
      fat_truth t;
      double share[2];
      assert_int_equal(fat_problem_parse(problems[x], &p, NULL), FAT_OK);
      assert_int_equal(fat_truth_make(&p, 0.25f, FAT_EQUAL, seed, &t, NULL), FAT_OK);
      play_backward(&p, &t, false, false, share);
      if (!(share[0] <= 1 && share[1] <= 1))
        fail_msg("%s, seed %d: an honest dV has %g of its bound, dQ %g", problems[x], (int)seed, share[0],
                 share[1]);
      fat_truth_free(&t);
    }
}

/* A weight of 0 is rounded to what it is: dropped and masked ones give dV no more room. */
static void weights_of_0_leave_no_room(void **state)
{
  static const char *const problems[] = {"bwd-bf16-b1-h1-q300-k200-d32-drop",
                                         "bwd-bf16-b1-h1-q300-k200-d32-mask"};
  (void)state;
  for (int x = 0; x < 2; x++) {
    fat_problem p;
    fat_truth t;
    double most = 0;
    assert_int_equal(fat_problem_parse(problems[x], &p, NULL), FAT_OK);
    assert_int_equal(fat_truth_make(&p, 0.25f, FAT_NORMAL, 5, &t, NULL), FAT_OK);
    for (int64_t i = 0; i < fat_tensors_elements(&p, FAT_DV); i++)
      most = fmax(most, fabs(t.right[FAT_DV][i]));
    if (!(t.allowed[FAT_DV][0] > 0 && t.allowed[FAT_DV][0] < 0.025 * most))
      fail_msg("%s: dV may be off by %g of %g", problems[x], t.allowed[FAT_DV][0], most);
    fat_truth_free(&t);
  }
}

/* Where a row sees one key P is 1 and dS 0, but for roundings: of those there must be room. */
static void one_key_leaves_room_for_roundings(void **state)
{
  fat_problem p;
  fat_truth t;
  (void)state;
  assert_int_equal(fat_problem_parse("bwd-f32-b1-h1-q9-k1-d64", &p, NULL), FAT_OK);
  assert_int_equal(fat_truth_make(&p, 0.125f, FAT_NORMAL, 5, &t, NULL), FAT_OK);
  for (int n = FAT_DQ; n <= FAT_DK; n++)
    assert_true(t.allowed[n][0] > 1e-7 && t.allowed[n][0] < 1e-3);
  fat_truth_free(&t);
}

/* What is allowed grows in proportion to the results, which alone it is made of here. */
static void bounds_grow_with_the_results(void **state)
{
  static const fat_tensor tensors[] = {FAT_O, FAT_LSE};
  fat_problem p;
  (void)state;
  assert_int_equal(fat_problem_parse("fwd-f16-b1-h1-q64-k64-d64", &p, NULL), FAT_OK);
  for (int i = 0; i < 2; i++) {
    fat_bound small = {0}, large = {0};
    small.of[tensors[i]].most = 3;
    large.of[tensors[i]].most = 3000;
    const double ratio = fat_reference_allowed(&p, &large, tensors[i], false) /
                         fat_reference_allowed(&p, &small, tensors[i], false);
    assert_true(fabs(ratio / 1000 - 1) < 0.05);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds_grow_with_the_results),
      cmocka_unit_test(honest_kernels_are_right),
      cmocka_unit_test(bounds_are_of_the_types_size),
      cmocka_unit_test(defects_are_found),
      cmocka_unit_test(coarser_arithmetic_is_found),
      cmocka_unit_test(stored_scores_have_a_bound_of_their_own),
      cmocka_unit_test(scores_beyond_f16_have_a_finite_bound),
      cmocka_unit_test(rows_without_keys_have_no_part),
      cmocka_unit_test(a_row_is_that_of_its_keys),
      cmocka_unit_test(shared_pairs_are_those_of_batches),
      cmocka_unit_test(a_sink_is_a_key_without_a_value),
      cmocka_unit_test(a_sink_is_all_that_empty_rows_have),
      cmocka_unit_test(gradients_are_slopes),
      cmocka_unit_test(lse_alone_does_not_move_v),
      cmocka_unit_test(a_backward_call_has_the_forwards_results),
      cmocka_unit_test(gradients_are_held_to_what_their_type_resolves),
      cmocka_unit_test(weights_of_a_far_sink_may_be_flushed),
      cmocka_unit_test(few_large_summands_leave_room_for_luck),
      cmocka_unit_test(weights_of_0_leave_no_room),
      cmocka_unit_test(one_key_leaves_room_for_roundings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
