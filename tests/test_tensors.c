/* test_tensors.c -- the table of tensors: roles, extents, the struct that a kernel takes, packed and read
 * back. */
#include "unpack.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static fat_problem problem(const char *text)
{
  fat_problem p;
  fat_error err = {0};
  if (fat_problem_parse(text, &p, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return p;
}

/* The struct of plain forward families, as C lays it out: a kernel compiled against it must keep working. */
typedef struct tensor {
  void *data;
  long long b, h, n;
} tensor;
typedef struct row_tensor {
  float *data;
  long long b, h;
} row_tensor;
typedef struct plain {
  tensor Q, K, V, O;
  row_tensor LSE;
  int b, h, hk, q, k;
  float scale;
} plain;
typedef struct windowed {
  plain all;
  int L, R;
} windowed;
typedef struct sunk {
  plain all;
  row_tensor sink;
} sunk;
typedef struct backward {
  tensor Q, K, V, O;
  row_tensor LSE;
  tensor dO, dQ, dK, dV;
  int b, h, hk, q, k;
  float scale;
} backward;

static void forward_lies_as_the_kernels_know_it(void **state)
{
  static const size_t at[] = {offsetof(plain, Q), offsetof(plain, K), offsetof(plain, V), offsetof(plain, O),
                              offsetof(plain, LSE)};
  const fat_problem p = problem("fwd-f16-b1-h1-q1-k1-d64-causal");
  fat_call_layout l;
  (void)state;
  fat_tensors_layout(&p, &l);
  assert_int_equal(l.bytes, 176);
  assert_int_equal(sizeof(plain), 176);
  for (int t = 0; t < FAT_TENSORS; t++)
    assert_int_equal(l.tensor[t], t <= FAT_LSE ? (int)at[t] : -1);
  assert_int_equal(l.sizes, offsetof(plain, b));
  for (int f = 0; f < FAT_FEATURE_COUNT; f++)
    assert_int_equal(l.number[f], -1);
}

/* What features bring stands behind all else, in the order of the grammar. */
static void features_append_and_move_nothing(void **state)
{
  const fat_problem bare = problem("fwd-f16-b1-h1-q1-k1-d64");
  fat_call_layout before, l;
  (void)state;
  fat_tensors_layout(&bare, &before);
  fat_problem p = problem("fwd-f16-b1-h1-q1-k1-d64-w5.6");
  fat_tensors_layout(&p, &l);
  assert_int_equal(l.number[FAT_WINDOW], offsetof(windowed, L));
  assert_int_equal(l.bytes, sizeof(windowed));
  assert_int_equal(l.bytes, 184);
  assert_memory_equal(l.tensor, before.tensor, sizeof l.tensor);
  assert_int_equal(l.sizes, before.sizes);
  p = problem("fwd-f16-b1-h1-q1-k1-d64-sink");
  fat_tensors_layout(&p, &l);
  assert_int_equal(l.tensor[FAT_SINKS], offsetof(sunk, sink));
  assert_int_equal(l.bytes, sizeof(sunk));
  assert_memory_equal(l.tensor, before.tensor, FAT_SINKS * sizeof *l.tensor);
  p = problem("fwd-f16-b1-h1-q1-k1-d64-w5.6-sink"); /* behind the numbers of an earlier feature */
  fat_tensors_layout(&p, &l);
  assert_int_equal(l.number[FAT_WINDOW], 176);
  assert_int_equal(l.tensor[FAT_SINKS], 184);
  p = problem("fwd-f16-b1-h1-q1-k1-d64-w5.6-softcap-sink"); /* and behind a scalar */
  fat_tensors_layout(&p, &l);
  assert_int_equal(l.scalar[FAT_CAP], 184);
  assert_int_equal(l.tensor[FAT_SINKS], 192);
  p = problem("fwd-f16-b1-h1-q1-k1-d64-w5.6-chunk7-paged8-split640");
  fat_tensors_layout(&p, &l);
  assert_int_equal(l.number[FAT_WINDOW], 176);
  assert_int_equal(l.number[FAT_CHUNK], 184);
  assert_int_equal(l.number[FAT_PAGED], 188);
  assert_int_equal(l.number[FAT_SPLIT], 192);
  assert_int_equal(l.bytes, 200); /* a multiple of 8, as C rounds a struct of addresses up */
  assert_memory_equal(l.tensor, before.tensor, sizeof l.tensor);
  p = problem("fwd-f16-b1-h1-q1-k1-d64-bs9x10");
  fat_tensors_layout(&p, &l);
  assert_int_equal(l.number[FAT_BLOCKSPARSE], 176);
  assert_int_equal(l.tensor[FAT_BLOCKS], 184);
  p = problem("fwd-f16-b1-h1-q1-k1-d64-mod0123456789abcdef"); /* numbers that decide the code */
  fat_tensors_layout(&p, &l);
  assert_memory_equal(&l, &before, sizeof l);
  p = problem("fwd-bf16-b7-h6k3-q9-k99-d192v128"); /* sizes and types move nothing either */
  fat_tensors_layout(&p, &l);
  assert_memory_equal(&l, &before, sizeof l);
}

static void backward_has_a_struct_of_its_own(void **state)
{
  static const size_t at[] = {offsetof(backward, Q),  offsetof(backward, K),   offsetof(backward, V),
                              offsetof(backward, O),  offsetof(backward, LSE), offsetof(backward, dO),
                              offsetof(backward, dQ), offsetof(backward, dK),  offsetof(backward, dV)};
  const fat_problem p = problem("bwd-f16-b1-h1-q1-k1-d64-causal");
  fat_call_layout l;
  (void)state;
  fat_tensors_layout(&p, &l);
  for (int t = 0; t < FAT_TENSORS; t++)
    assert_int_equal(l.tensor[t], t <= FAT_DV ? (int)at[t] : -1);
  assert_int_equal(l.sizes, offsetof(backward, b));
  assert_int_equal(l.bytes, sizeof(backward));
}

static void what_is_packed_comes_back(void **state)
{
  static const char *const texts[] = {
      "fwd-f16-b2-h6k3-q9-k99-d192v128-causal",
      "bwd-tf32-b2-h6k3-q9-k99-d64-causal-w1023.0",
      "fwd-f16-b2-h6k3-q2147483647-k2147483646-d64-wx.6-chunk2147483647-split640",
      "fwd-bf16-b2-h6k3-q9-k99-d64-w5.6-sink",
      "fwd-bf16-b2-h6k3-q9-k99-d64-w5.6-alibi-softcap-sink",
      "bwd-bf16-b2-h6k3-q9-k99-d64-causal-used"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const fat_problem p = problem(texts[i]);
    fat_call_layout l;
    fat_call call = {.scale = 0.125f}, again;
    unsigned char bytes[FAT_CALL_BYTES];
    char family[FAT_PROBLEM_TEXT];
    fat_problem q;
    memset(bytes, 0x5a, sizeof bytes);
    fat_tensors_layout(&p, &l);
    for (int s = 0; s < FAT_SCALARS; s++)
      call.scalar[s] = fat_problem_has(&p, fat_scalars[s].feature) ? 1.5f + (float)s : 0;
    for (int t = 0; t < FAT_TENSORS; t++) {
      const bool row = fat_tensors[t].width == FAT_WIDE_1;
      if (l.tensor[t] >= 0)
        call.tensor[t] =
            (fat_view){(void *)(uintptr_t)(4096 + t), {INT64_C(1) << (40 + t), -7 - t, row ? 1 : 5 + t}};
      else if (row)
        call.tensor[t].stride[2] = 1;
    }
    fat_tensors_pack(&l, &p, &call, bytes);
    for (size_t b = (size_t)l.bytes; b < sizeof bytes; b++)
      assert_int_equal(bytes[b], 0x5a);
    assert_int_equal(fat_problem_parse_family(fat_problem_family(&p, family), &q, NULL), FAT_OK);
    unpack(&l, bytes, &q, &again);
    assert_memory_equal(&call, &again, sizeof call);
    assert_memory_equal(&p, &q, sizeof p);
  }
}

/* The kernel's own struct reads what was packed. */
static void c_reads_the_members(void **state)
{
  const fat_problem p = problem("fwd-f16-b2-h6k3-q9-k99-d64-causal-w1023.0");
  fat_call_layout l;
  fat_call call = {.scale = 0.5f};
  unsigned char bytes[FAT_CALL_BYTES];
  windowed c;
  (void)state;
  fat_tensors_layout(&p, &l);
  call.tensor[FAT_V] = (fat_view){&c, {1, 2, 3}};
  call.tensor[FAT_LSE] = (fat_view){&l, {4, 5, 1}};
  fat_tensors_pack(&l, &p, &call, bytes);
  memcpy(&c, bytes, sizeof c);
  assert_ptr_equal(c.all.V.data, &c);
  assert_true(c.all.V.b == 1 && c.all.V.h == 2 && c.all.V.n == 3);
  assert_ptr_equal(c.all.LSE.data, &l);
  assert_true(c.all.LSE.b == 4 && c.all.LSE.h == 5);
  assert_true(c.all.b == 2 && c.all.h == 6 && c.all.hk == 3 && c.all.q == 9 && c.all.k == 99);
  assert_true(c.all.scale == 0.5f && c.L == 1023 && c.R == 0 && c.all.Q.data == NULL);
}

static void every_row_makes_sense(void **state)
{
  static const char *const texts[] = {"fwd-bf16-b2-h6k3-q9-k99-d192v128", "bwd-bf16-b2-h6k3-q9-k99-d192v128"};
  (void)state;
  for (int op = 0; op < FAT_OP_COUNT; op++) {
    const fat_problem p = problem(texts[op]);
    int in = 0, out = 0;
    for (int t = 0; t < FAT_TENSORS; t++) {
      const fat_role role = fat_tensors_role(&p, t);
      const fat_extent e = fat_tensors_extent(&p, t);
      in += role == FAT_ROLE_IN;
      out += fat_tensors_is_out(role);
      assert_true(fat_tensors[t].name && fat_tensors[t].name[0]);
      static const int64_t sizes[][3] = {
          [FAT_OF_Q] = {2, 6, 9},         [FAT_OF_K] = {2, 3, 99},      [FAT_OF_HEADS] = {1, 6, 1},
          [FAT_OF_ALL_HEADS] = {2, 6, 1}, [FAT_OF_BATCHES] = {2, 1, 1}, [FAT_OF_ENDS] = {3, 1, 1},
          [FAT_OF_CALL] = {1, 1, 1},      [FAT_OF_TABLE] = {1, 1, 1},   [FAT_OF_BLOCKS] = {2, 6, 0}};
      assert_memory_equal(e.size, sizes[fat_tensors[t].side], sizeof sizes[0]);
      static const fat_dtype types[] = {[FAT_ELEMENT_OWN] = FAT_BF16,
                                        [FAT_ELEMENT_F32] = FAT_F32,
                                        [FAT_ELEMENT_I32] = FAT_I32,
                                        [FAT_ELEMENT_BYTE] = FAT_BYTE};
      assert_int_equal(fat_tensors_dtype(&p, t), types[fat_tensors[t].element]);
    }
    assert_int_equal(in, op == FAT_FWD ? 3 : 6);
    assert_int_equal(out, op == FAT_FWD ? 2 : 3);
  }
  const fat_problem p = problem(texts[1]);
  assert_int_equal(fat_tensors_extent(&p, FAT_Q).size[3], 192);
  assert_int_equal(fat_tensors_extent(&p, FAT_DV).size[3], 128);
  assert_int_equal(fat_tensors_extent(&p, FAT_LSE).size[3], 1);
}

static void templates_are_told_the_same(void **state)
{
  static const struct {
    const char *problem, *facts;
  } cases[] = {
      {"fwd-f16-b1-h1-q1-k1-d64",
       "p.call= Q:q:d:in K:k:d:in V:k:dv:in O:q:dv:out LSE:q:1:wanted |\np.call_bytes=176\n"},
      {"fwd-f16-b1-h1-q1-k1-d64-causal-w5.0",
       "p.call= Q:q:d:in K:k:d:in V:k:dv:in O:q:dv:out LSE:q:1:wanted | w/2\np.call_bytes=184\n"},
      {"fwd-f16-b1-h1-q1-k1-d64-w5.0-sink", "p.call= Q:q:d:in K:k:d:in V:k:dv:in O:q:dv:out LSE:q:1:wanted "
                                            "| w/2 sink:h:1:in\np.call_bytes=208\n"},
      {"fwd-f16-b1-h1-q1-k1-d64-used", "p.call= Q:q:d:in K:k:d:in V:k:dv:in O:q:dv:out LSE:q:1:wanted "
                                       "| used_q:b:1i:in used_k:b:1i:in\np.call_bytes=224\n"},
      {"bwd-f16-b1-h1-q1-k1-d64", "p.call= Q:q:d:in K:k:d:in V:k:dv:in O:q:dv:in LSE:q:1:in dO:q:dv:in "
                                  "dQ:q:d:out dK:k:d:out dV:k:dv:out |\np.call_bytes=304\n"},
      {"bwd-f16-b1-h1-q1-k1-d64-dlse-det",
       "p.call= Q:q:d:in K:k:d:in V:k:dv:in O:q:dv:in LSE:q:1:in dO:q:dv:in "
       "dQ:q:d:out dK:k:d:out dV:k:dv:out | dLSE:q:1:in\np.call_bytes=328\n"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_problem p = problem(cases[i].problem);
    fat_text text = {0};
    fat_tensors_facts(&p, &text);
    assert_string_equal(fat_text_get(&text), cases[i].facts);
    fat_text_free(&text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forward_lies_as_the_kernels_know_it),
      cmocka_unit_test(features_append_and_move_nothing),
      cmocka_unit_test(backward_has_a_struct_of_its_own),
      cmocka_unit_test(what_is_packed_comes_back),
      cmocka_unit_test(c_reads_the_members),
      cmocka_unit_test(every_row_makes_sense),
      cmocka_unit_test(templates_are_told_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
