/* test_problem.c -- problem texts both ways: what is read, what is written, and how each mistake is told. */
#include "problem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_same(const fat_problem *a, const fat_problem *b)
{
  assert_int_equal(a->op, b->op);
  assert_int_equal(a->dtype, b->dtype);
  assert_int_equal(a->b, b->b);
  assert_int_equal(a->h, b->h);
  assert_int_equal(a->hk, b->hk);
  assert_int_equal(a->q, b->q);
  assert_int_equal(a->k, b->k);
  assert_int_equal(a->d, b->d);
  assert_int_equal(a->dv, b->dv);
  assert_int_equal(a->features, b->features);
  assert_memory_equal(a->arg, b->arg, sizeof a->arg);
}

/* Reads `text` as a problem or a family and says that it must. */
static fat_problem read_text(const char *text, bool family)
{
  fat_problem p;
  fat_error err = {0};
  fat_status status = family ? fat_problem_parse_family(text, &p, &err) : fat_problem_parse(text, &p, &err);
  if (status != FAT_OK)
    fail_msg("'%s' was refused: %s", text, err.text);
  return p;
}

static void every_part_is_read_into_its_field(void **state)
{
  (void)state;
  fat_problem p = read_text("fwd-tf32-b2-h16k4-q4096-k4097-d128v64-causaltl-w5.6-chunk7-paged8-bs9x10-"
                            "maskfedcba9876543210-mod0123456789abcdef-split128-partial",
                            false);
  fat_problem expected = {FAT_FWD, FAT_TF32, 2, 16, 4, 4096, 4097, 128, 64, 0, {{0}}};
  const struct {
    fat_feature feature;
    uint64_t first, second;
  } features[] = {{FAT_CAUSAL_TL, 0, 0},
                  {FAT_WINDOW, 5, 6},
                  {FAT_CHUNK, 7, 0},
                  {FAT_PAGED, 8, 0},
                  {FAT_BLOCKSPARSE, 9, 10},
                  {FAT_MASK_MOD, 0xfedcba9876543210, 0},
                  {FAT_MOD, 0x0123456789abcdef, 0},
                  {FAT_SPLIT, 128, 0},
                  {FAT_PARTIAL, 0, 0}};
  for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
    expected.features |= 1u << features[i].feature;
    expected.arg[features[i].feature][0] = features[i].first;
    expected.arg[features[i].feature][1] = features[i].second;
    assert_true(fat_problem_has(&p, features[i].feature));
  }
  assert_same(&p, &expected);
  assert_false(fat_problem_has(&p, FAT_VARLEN));
}

static void texts_are_written_as_they_are_read(void **state)
{
  (void)state;
  const struct {
    const char *read, *written, *family;
  } cases[] = {
      {"fwd-f16-b2-h16k4-q4096-k4096-d128-causal", NULL, "fwd-f16-d128-causal"},
      {"fwd-f32-b1-h1-q64-k64-d64", NULL, "fwd-f32-d64"},
      {"fwd-bf16-b2-h16k16-q1-k5-d8v8", "fwd-bf16-b2-h16-q1-k5-d8", "fwd-bf16-d8"},
      {"bwd-f32x3-b0-h3k1-q0-k0-d256v248-causaltl-det", NULL, "bwd-f32x3-d256v248-causaltl-det"},
      {"fwd-f16-b1-h1-q1-k1-d64-w9.5-varlen-bias-alibi-softcap-sink-drop", NULL,
       "fwd-f16-d64-w-varlen-bias-alibi-softcap-sink-drop"},
      {"fwd-f16-b1-h1-q1-k1-d64-causaltl-chunk7-used-prefix-iv-lpad-bs9x10-mask-split128-partial", NULL,
       "fwd-f16-d64-causaltl-chunk-used-prefix-iv-lpad-bs-mask-split-partial"},
      {"fwd-f16-b1-h1-q1-k1-d64-paged8-used", NULL, "fwd-f16-d64-paged-used"},
      {"bwd-f16-b1-h1-q1-k1-d64-bias-sink-dbias-dsink-dlse-det", NULL,
       "bwd-f16-d64-bias-sink-dbias-dsink-dlse-det"},
      {"fwd-f16-b1-h1-q1-k1-d64-append-rope", NULL, "fwd-f16-d64-append-rope"},
      {"fwd-f16-b1-h1-q1-k1-d64-append-ropei", NULL, "fwd-f16-d64-append-ropei"},
      {"fwd-f16-b1-h1-q1-k1-d64-mask0123456789abcdef-modabcdef0000000000", NULL,
       "fwd-f16-d64-mask0123456789abcdef-modabcdef0000000000"},
      {"fwd-f16-b1-h1-q1-k1-d64-mod0000000000000000", NULL, "fwd-f16-d64-mod0000000000000000"},
      {"fwd-f16-b2147483647-h2147483647-q2147483647-k2147483647-d64", NULL, "fwd-f16-d64"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[FAT_PROBLEM_TEXT], family[FAT_PROBLEM_TEXT], again[FAT_PROBLEM_TEXT];
    fat_problem p = read_text(cases[i].read, false);
    assert_string_equal(fat_problem_print(&p, text), cases[i].written ? cases[i].written : cases[i].read);
    assert_string_equal(fat_problem_family(&p, family), cases[i].family);
    fat_problem f = read_text(family, true);
    assert_string_equal(fat_problem_family(&f, again), family);
    assert_true(f.b == 1 && f.h == 1 && f.hk == 1 && f.q == 1 && f.k == 1);
    f.b = p.b, f.h = p.h, f.hk = p.hk, f.q = p.q, f.k = p.k;
    for (int x = 0; x < FAT_FEATURE_COUNT; x++)
      for (int n = 0; n < fat_problem_feature_numbers((fat_feature)x); n++) {
        const uint64_t least = x == FAT_SPLIT ? 64 : 1;
        assert_int_equal(f.arg[x][n], fat_problem_has(&f, (fat_feature)x) ? least : 0);
        f.arg[x][n] = p.arg[x][n];
      }
    assert_same(&f, &p);
  }
}

/* One text for each mask. */
static void windows_have_one_text_each(void **state)
{
  (void)state;
  static const struct {
    const char *read, *written, *family;
  } cases[] = {
      {"w1023.0", "causal-w1023.0", "causal-w"},
      {"causal-w1023.0", NULL, "causal-w"},
      {"causal-w7.5", "causal-w7.0", "causal-w"},
      {"causal-w7.x", "causal-w7.0", "causal-w"},
      {"w0.0", "causal-w0.0", "causal-w"},
      {"wx.0", "causal", "causal"},
      {"causal-wx.0", "causal", "causal"},
      {"causal-wx.9", "causal", "causal"},
      {"wx.x", "", ""},
      {"w7.x", NULL, "w"},
      {"wx.7", NULL, "w"},
      {"w0.3", NULL, "w"},
      {"wx.2147483647", "", ""},
      {"causaltl-w7.0", NULL, "causaltl-w"},
      {"causaltl-wx.0", NULL, "causaltl-w"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[FAT_PROBLEM_TEXT], written[FAT_PROBLEM_TEXT], expected[FAT_PROBLEM_TEXT];
    const char *wanted = cases[i].written ? cases[i].written : cases[i].read;
    snprintf(text, sizeof text, "fwd-f16-b1-h1-q5-k5-d8-%s", cases[i].read);
    fat_problem p = read_text(text, false);
    snprintf(expected, sizeof expected, "fwd-f16-b1-h1-q5-k5-d8%s%s", *wanted ? "-" : "", wanted);
    assert_string_equal(fat_problem_print(&p, written), expected);
    fat_problem again = read_text(written, false);
    assert_same(&p, &again);
    snprintf(expected, sizeof expected, "fwd-f16-d8%s%s", *cases[i].family ? "-" : "", cases[i].family);
    assert_string_equal(fat_problem_family(&p, written), expected);
  }
  /* A family's window has some numbers, and none of them makes it another family. */
  fat_problem family = read_text("fwd-f16-d8-w", true);
  assert_true(family.arg[FAT_WINDOW][0] == 1 && family.arg[FAT_WINDOW][1] == 1);
  family = read_text("fwd-f16-d8-causal-w", true);
  assert_true(family.arg[FAT_WINDOW][0] == 1 && family.arg[FAT_WINDOW][1] == 0);
}

/* A small generator of our own: the same numbers on every machine. */
static uint64_t seed = 1;
static uint64_t draw(uint64_t below)
{
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (seed >> 33) % below;
}

static fat_problem draw_problem(void)
{
  static const uint64_t most[] = {1, 4, 100, (uint64_t)FAT_PROBLEM_SIZE_MAX};
  fat_problem p = {0};
  p.op = (fat_op)draw(FAT_OP_COUNT);
  p.dtype = (fat_dtype)draw(FAT_DTYPE_COUNT);
  p.hk = 1 + (int64_t)draw(5000);
  p.h = p.hk * (1 + (int64_t)draw(5000));
  p.b = (int64_t)draw(1 + most[draw(4)]);
  p.q = (int64_t)draw(1 + most[draw(4)]);
  p.k = (int64_t)draw(1 + most[draw(4)]);
  p.d = 8 * (1 + (int32_t)draw(32));
  p.dv = draw(2) ? p.d : 8 * (1 + (int32_t)draw(32));
  p.features = (uint32_t)draw(1u << FAT_FEATURE_COUNT);
  const struct {
    fat_feature one, other;
    bool together; /* one means nothing without the other */
  } rules[] = {
      {FAT_CAUSAL_TL, FAT_CAUSAL, false}, {FAT_LEFTPAD, FAT_PAGED, false}, {FAT_ROPE_I, FAT_ROPE, false},
      {FAT_BIAS32, FAT_BIAS, true},       {FAT_DBIAS, FAT_BIAS, true},     {FAT_DSINK, FAT_SINK, true},
      {FAT_ROPE, FAT_APPEND, true},       {FAT_ROPE_I, FAT_APPEND, true},  {FAT_SPLIT, FAT_DROP, false},
      {FAT_DBIAS, FAT_SOFTCAP, false},    {FAT_DBIAS, FAT_VARLEN, false},  {FAT_DBIAS, FAT_USED, false},
      {FAT_DBIAS, FAT_LEFTPAD, false}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (fat_problem_has(&p, rules[i].other) != rules[i].together)
      p.features &= ~(1u << rules[i].one);
  if (!fat_problem_has(&p, FAT_CAUSAL) && !fat_problem_has(&p, FAT_CAUSAL_TL))
    p.features &= ~(1u << FAT_PREFIX);
  if (fat_dtypes[p.dtype].bytes == 4)
    p.features &= ~(1u << FAT_BIAS32);
  if (p.op == FAT_FWD)
    p.features &= ~(1u << FAT_DBIAS | 1u << FAT_DSINK | 1u << FAT_DLSE | 1u << FAT_DET);
  else
    p.features &= ~(1u << FAT_CHUNK);
  static const fat_feature one[] = {FAT_CHUNK, FAT_PAGED, FAT_SPLIT}, two[] = {FAT_WINDOW, FAT_BLOCKSPARSE};
  for (int i = 0; i < 3; i++)
    if (fat_problem_has(&p, one[i]))
      p.arg[one[i]][0] = 1 + draw(most[draw(4)]);
  p.arg[FAT_SPLIT][0] -= p.arg[FAT_SPLIT][0] % 64;
  if (fat_problem_has(&p, FAT_SPLIT) && p.arg[FAT_SPLIT][0] == 0)
    p.arg[FAT_SPLIT][0] = 64;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2 && fat_problem_has(&p, two[i]); j++)
      p.arg[two[i]][j] = 1 + draw(most[draw(4)]);
  if (fat_problem_has(&p, FAT_WINDOW)) {
    if (draw(4) == 0)
      p.arg[FAT_WINDOW][1] = (uint64_t)FAT_PROBLEM_ALL;
    else if (draw(4) == 0 && !fat_problem_has(&p, FAT_CAUSAL))
      p.arg[FAT_WINDOW][0] = (uint64_t)FAT_PROBLEM_ALL; /* with one on both sides there is no window */
    if (fat_problem_has(&p, FAT_CAUSAL))
      p.arg[FAT_WINDOW][1] = 0;
  }
  for (int i = 0; i < 2; i++) {
    const fat_feature hash = i ? FAT_MOD : FAT_MASK_MOD;
    if (fat_problem_has(&p, hash))
      p.arg[hash][0] = draw(UINT64_C(1) << 31) << 33 | draw(UINT64_C(1) << 31);
  }
  return p;
}

static void any_problem_comes_back_from_its_text(void **state)
{
  (void)state;
  for (int i = 0; i < 20000; i++) {
    char text[FAT_PROBLEM_TEXT];
    fat_problem p = draw_problem();
    assert_int_equal(fat_problem_check(&p, NULL), FAT_OK);
    fat_problem_print(&p, text);
    fat_problem again = read_text(text, false);
    assert_same(&p, &again);
  }
}

static void the_longest_text_fits_its_buffer(void **state)
{
  (void)state;
  const int64_t most = FAT_PROBLEM_SIZE_MAX;
  fat_problem p = {FAT_BWD, FAT_F32X3, most, most - 1, (most - 1) / 2, most, most, 256, 248, 0, {{0}}};
  char text[FAT_PROBLEM_TEXT];
  p.features = ((1u << FAT_FEATURE_COUNT) - 1) &
               ~(1u << FAT_CAUSAL | 1u << FAT_CHUNK | 1u << FAT_LEFTPAD | 1u << FAT_DROP | 1u << FAT_ROPE |
                 1u << FAT_DBIAS | 1u << FAT_BIAS32);
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    bool two = f == FAT_WINDOW || f == FAT_BLOCKSPARSE, one = f == FAT_PAGED || f == FAT_SPLIT;
    uint64_t size = (uint64_t)most - (f == FAT_WINDOW); /* the most of a window is its x, which is short */
    p.arg[f][0] = f == FAT_MOD || f == FAT_MASK_MOD ? UINT64_MAX : one || two ? size : 0;
    p.arg[f][1] = two ? size : 0;
  }
  p.arg[FAT_SPLIT][0] -= p.arg[FAT_SPLIT][0] % 64;
  assert_int_equal(fat_problem_check(&p, NULL), FAT_OK);
  fat_problem again = read_text(fat_problem_print(&p, text), false);
  assert_same(&p, &again);
  assert_true(strlen(text) > 284);
  /* a struct that no check has passed is cut, not written beyond the buffer */
  memset(&p, 0x5a, sizeof p);
  fat_problem_print(&p, text);
  assert_true(strlen(text) < FAT_PROBLEM_TEXT);
}

static void mistakes_are_told_with_their_place(void **state)
{
  (void)state;
  const struct {
    const char *text, *says;
  } cases[] = {
      {"", "the text ends at column 1 where an op is expected: fwd, bwd"},
      {"fwdd-f16", "'fwdd' at column 1 is no op: fwd, bwd"},
      {"fwd", "the text ends at column 4 where a dtype is expected: f16, bf16, f32, tf32, f32x3"},
      {"fwd-f15-b1", "'f15' at column 5 is no dtype: f16, bf16, f32, tf32, f32x3"},
      {"fwd--f16", "'' at column 5 is no dtype"},
      {"FWD-f16", "'FWD' at column 1 is no op"},
      {"fwd-f16", "the text ends at column 8 where 'b' and the batch, as in b2"},
      {"fwd-f16-h1-q5", "'h1' at column 9 is not expected here: expected 'b'"},
      {"fwd-f16-b2-h-q5-k5-d8", "'h' at column 12 is not complete or has a wrong letter: expected 'h'"},
      {"fwd-f16-b2-h4x2-q5-k5-d8", "'h4x2' at column 12 has 'x' behind its number"},
      {"fwd-f16-b2-h4k2k1-q5-k5-d8", "'h4k2k1' at column 12 has 'k' behind its number"},
      {"fwd-f16-b2-h4k-q5-k5-d8", "'h4k' at column 12 is not complete"},
      {"fwd-f16-b1-h1-q-5-k5-d8", "'q' at column 15 has a negative number: negative lengths are not allowed"},
      {"fwd-f16-b-1-h1-q5-k5-d8", "'b' at column 9 has a negative number"},
      {"fwd-f16-b1-h1-q+5-k5-d8", "'q+5' at column 15 is not complete or has a wrong letter"},
      {"fwd-f16-b1-h1-q 5-k5-d8", "'q 5' at column 15 is not complete or has a wrong letter"},
      {"fwd-f16-b01-h1-q5-k5-d8", "'b01' at column 9 has a number with leading zeros"},
      {"fwd-f16-b1-h1-q00-k5-d8", "'q00' at column 15 has a number with leading zeros"},
      {"fwd-f16-b1-h1-q2147483648-k5-d8",
       "'q2147483648' at column 15 has a number that is too large: at most "
       "2147483647 is allowed"},
      {"fwd-f16-b1-h1-q99999999999999999999999-k5-d8", "at column 15 has a number that is too large"},
      {"fwd-f16-b1-h0-q5-k5-d8", "h is 0: allowed are 1 to 2147483647"},
      {"fwd-f16-b1-h4k0-q5-k5-d8", "KV heads is 0: allowed are 1 to 2147483647"},
      {"fwd-f16-b1-h5k2-q5-k5-d8", "5 heads and 2 KV heads: the KV heads must divide the heads"},
      {"fwd-f16-b1-h2k4-q5-k5-d8", "2 heads and 4 KV heads: the KV heads must divide the heads"},
      {"fwd-f16-b1-h1-q5-k5-d0", "d is 0: allowed are multiples of 8 from 8 to 256"},
      {"fwd-f16-b1-h1-q5-k5-d12", "d is 12: allowed are multiples of 8 from 8 to 256"},
      {"fwd-f16-b1-h1-q5-k5-d264", "d is 264: allowed are multiples of 8 from 8 to 256"},
      {"fwd-f16-b1-h1-q5-k5-d64v12", "dv is 12: allowed are multiples of 8 from 8 to 256, 384 and 512"},
      {"fwd-f16-b1-h1-q5-k5-d64v320", "dv is 320: allowed are multiples of 8 from 8 to 256, 384 and 512"},
      {"fwd-f16-b1-h1-q5-k5-d64v640", "dv is 640: allowed"},
      {"fwd-f16-b1-h1-q5-k5-d8-casual", "'casual' at column 24 is no feature: did you mean 'causal'?"},
      {"fwd-f16-b1-h1-q5-k5-d8-Causal", "'Causal' at column 24 is no feature: did you mean 'causal'?"},
      {"fwd-f16-b1-h1-q5-k5-d8-splt8", "'splt8' at column 24 is no feature: did you mean 'split'?"},
      {"fwd-f16-b1-h1-q5-k5-d8-varlen2", "'varlen2' at column 24 is no feature: did you mean 'varlen'?"},
      {"fwd-f16-b1-h1-q5-k5-d8-xyz",
       "'xyz' at column 24 is no feature of fwd: causal, causaltl, w, chunk, varlen, used, prefix, iv, lpad, "
       "bs, mask, maskHASH, bias, bias32, alibi, softcap, sink, modHASH, drop, split"},
      {"bwd-f16-b1-h1-q5-k5-d8-xyz", "'xyz' at column 24 is no feature of bwd: causal, causaltl, w, varlen"},
      {"bwd-f16-b1-h1-q5-k5-d8-dsnk", "did you mean 'dsink'?"},
      {"fwd-f16-b1-h1-q5-k5-d8-dsnk", "did you mean 'sink'?"},
      {"fwd-f16-b1-h1-q5-k5-d8-window5", "'window5' at column 24 is no feature"},
      {"fwd-f16-b1-h1-q5-k5-d8-", "the text ends at column 24 where a feature is expected"},
      {"fwd-f16-b1-h1-q5-k5-d8--causal", "'' at column 24 is no feature"},
      {"fwd-f16-b1-h1-q5-k5-d8-causal-causaltl", "causal and causaltl exclude each other"},
      {"fwd-f16-b1-h1-q5-k5-d8-causaltl-causal", "'causal' at column 33 must stand before 'causaltl'"},
      {"bwd-f16-b1-h1-q5-k5-d8-det-det", "'det' at column 28 stands twice"},
      {"fwd-f16-b1-h1-q5-k5-d8-det", "fwd and det exclude each other: det is a word of bwd alone"},
      {"fwd-f16-b1-h1-q5-k5-d8-bias-dbias", "fwd and dbias exclude each other"},
      {"fwd-f16-b1-h1-q5-k5-d8-dlse", "fwd and dlse exclude each other"},
      {"bwd-f16-b1-h1-q5-k5-d8-chunk4", "bwd and chunk exclude each other: chunk is a word of fwd alone"},
      {"bwd-f16-b1-h1-q5-k5-d8-dbias", "dbias means nothing without bias: give both"},
      {"fwd-tf32-b1-h1-q5-k5-d8-bias-bias32", "biases of tf32 are of f32 anyhow: leave bias32 out"},
      {"bwd-f16-b1-h1-q5-k5-d8-dsink", "dsink means nothing without sink: give both"},
      {"fwd-f16-b1-h1-q5-k5-d8-ropei", "ropei means nothing without append: give both"},
      {"fwd-f16-b1-h1-q5-k5-d8-w4.1-prefix", "prefix means nothing without causal or causaltl"},
      {"fwd-f16-b1-h1-q5-k5-d8-paged4-lpad", "paged and lpad exclude each other: give one of them"},
      {"fwd-f16-b1-h1-q5-k5-d8-append-rope-ropei", "rope and ropei exclude each other: give one of them"},
      {"fwd-f16-b1-h1-q5-k5-d8-mask12", "expected mask and 16 hexadecimal digits in lower case"},
      {"fwd-f16-b1-h1-q5-k5-d8-w", "'w' at column 24 is not complete"},
      {"fwd-f16-b1-h1-q5-k5-d8-wx", "'wx' at column 24 is not complete or has a wrong letter: expected wL.R"},
      {"fwd-f16-b1-h1-q5-k5-d8-wx.y", "'wx.y' at column 24 is not complete"},
      {"fwd-f16-b1-h1-q5-k5-d8-w5.xx", "'w5.xx' at column 24 has 'x' behind it"},
      {"fwd-f16-b1-h1-q5-k5-d8-chunkx", "'chunkx' at column 24 is no feature: did you mean 'chunk'?"},
      {"fwd-f16-b1-h1-q5-k5-d8-varlen-causal", "'causal' at column 31 must stand before 'varlen'"},
      {"fwd-f16-b1-h1-q5-k5-d8-w5", "'w5' at column 24 is not complete or has a wrong letter: expected wL.R"},
      {"fwd-f16-b1-h1-q5-k5-d8-w5.", "'w5.' at column 24 is not complete"},
      {"fwd-f16-b1-h1-q5-k5-d8-w-5.1", "'w' at column 24 has a negative number"},
      {"fwd-f16-b1-h1-q5-k5-d8-w5.6.7", "'w5.6.7' at column 24 has '.' behind it"},
      {"fwd-f16-b1-h1-q5-k5-d8-chunk", "'chunk' at column 24 is not complete"},
      {"fwd-f16-b1-h1-q5-k5-d8-chunk0", "chunk has 0: allowed are 1 to 2147483647"},
      {"fwd-f16-b1-h1-q5-k5-d8-split100", "split has 100: allowed are multiples of 64"},
      {"fwd-f16-b1-h1-q5-k5-d8-bs4x0", "bs has 0: allowed are 1 to 2147483647"},
      {"fwd-f16-b1-h1-q5-k5-d8-bs4",
       "'bs4' at column 24 is not complete or has a wrong letter: expected bsRxC"},
      {"fwd-f16-b1-h1-q5-k5-d8-modabc", "expected mod and 16 hexadecimal digits in lower case"},
      {"fwd-f16-b1-h1-q5-k5-d8-mod0123456789ABCDEF", "expected mod and 16 hexadecimal digits in lower case"},
      {"fwd-f16-b1-h1-q5-k5-d8-mod0123456789abcdef0", "expected mod and 16 hexadecimal digits in lower case"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_problem p = {.b = 77}, before = p;
    fat_error err = {0};
    char head[300];
    assert_int_equal(fat_problem_parse(cases[i].text, &p, &err), FAT_E_INPUT);
    assert_int_equal(err.status, FAT_E_INPUT);
    snprintf(head, sizeof head, "problem '%s': ", cases[i].text);
    assert_memory_equal(err.text, head, strlen(head));
    if (strstr(err.text, cases[i].says) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, cases[i].says);
    assert_same(&p, &before); /* untouched on failure */
    assert_int_equal(fat_problem_parse(cases[i].text, &p, NULL), FAT_E_INPUT);
  }
}

static void a_family_has_no_sizes(void **state)
{
  (void)state;
  fat_problem p;
  fat_error err = {0};
  assert_int_equal(fat_problem_parse_family("fwd-f16-b1-h1-q5-k5-d8", &p, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "'b1' at column 9 is not expected here: expected 'd'"));
  assert_int_equal(fat_problem_parse_family("fwd-f16-d9", &p, &err), FAT_E_INPUT);
  assert_int_equal(fat_problem_parse("fwd-f16-d8", &p, &err), FAT_E_INPUT);
  assert_int_equal(fat_problem_parse_family("fwd-f16-d8-w5.6", &p, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "'w5.6' at column 12 has numbers, which a family leaves out: expected w"));
  assert_int_equal(fat_problem_parse_family("fwd-f16-d8-bs4x4", &p, &err), FAT_E_INPUT);
}

static void a_text_is_meant_as_a_family_where_its_third_word_is_d(void **state)
{
  (void)state;
  static const char *const families[] = {"fwd-f16-d64", "bwd-bf16-d192v128-causal", "fwd-f15-d9", "x-y-d"};
  static const char *const others[] = {"",     "fwd",   "fwd-f16", "fwd-f16-", "fwd-f16-b1-h1-q1-k1-d64",
                                       "-d64", "d-d64", "--b1-d64"};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    assert_true(fat_problem_is_family(families[i]));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_false(fat_problem_is_family(others[i]));
}

static void no_beginning_of_a_text_is_read_beyond_its_end(void **state)
{
  (void)state;
  const char *whole =
      "fwd-f16-b2-h16k4-q4096-k4096-d128v64-causaltl-w5.6-bs9x10-mod0123456789abcdef-split128";
  for (size_t n = 0; n <= strlen(whole); n++) {
    char *part = strndup(whole, n); /* of its exact size, so that a sanitizer sees the byte behind it */
    fat_problem p;
    assert_non_null(part);
    fat_status status = fat_problem_parse(part, &p, NULL);
    assert_true(status == FAT_OK || status == FAT_E_INPUT);
    assert_true(status == FAT_OK || n < strlen(whole));
    free(part);
  }
}

static void check_names_value_and_range(void **state)
{
  (void)state;
  const fat_problem good = {FAT_FWD, FAT_F16, 1, 4, 2, 5, 5, 64, 64, 0, {{0}}};
  fat_problem bad[] = {good, good, good, good, good, good, good, good, good};
  const char *says[] = {
      "b is -1: allowed are 0 to",   "h is -4: allowed are 1 to",      "q is 2147483648: allowed are 0",
      "k is -9: allowed are 0 to",   "d is 4: allowed are multiples",  "dv is -8: allowed are multiples",
      "op is 2: allowed are 0 to 1", "dtype is 5: allowed are 0 to 4", "features is 0x20000000: only the 29"};
  assert_int_equal(fat_problem_check(&good, NULL), FAT_OK);
  bad[0].b = -1;
  bad[1].h = -4;
  bad[2].q = FAT_PROBLEM_SIZE_MAX + 1;
  bad[3].k = -9;
  bad[4].d = 4;
  bad[5].dv = -8;
  bad[6].op = FAT_OP_COUNT;
  bad[7].dtype = FAT_DTYPE_COUNT;
  bad[8].features = 1u << FAT_FEATURE_COUNT;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    fat_error err = {0};
    assert_int_equal(fat_problem_check(&bad[i], &err), FAT_E_INPUT);
    if (strstr(err.text, says[i]) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, says[i]);
  }
}

static void operations_are_counted_by_convention(void **state)
{
  (void)state;
  const struct {
    const char *text;
    double flops;
  } cases[] = {
      {"fwd-f16-b1-h1-q1-k1-d64", 256},
      {"fwd-f16-b4-h16-q4096-k4096-d128", 4.0 * 4 * 16 * 4096 * 4096 * 128},
      {"fwd-f16-b4-h16k2-q4096-k4096-d128-causal", 4.0 * 4 * 16 * (4096.0 * 4097 / 2) * 128},
      {"fwd-f16-b1-h1-q10-k20-d64-causal", 4.0 * 64 * (11 + 20) * 10 / 2},
      {"fwd-f16-b1-h1-q20-k10-d64-causal", 4.0 * 64 * (1 + 10) * 10 / 2},
      {"fwd-f16-b4-h16-q10-k20-d64v32-causaltl", 2.0 * 4 * 16 * 96 * (1 + 10) * 10 / 2},
      {"fwd-f16-b1-h1-q10-k10-d64-w2.1", 4.0 * 64 * (10 * 4 - 1 - 2 - 1)},
      {"fwd-f16-b1-h1-q8192-k8192-d128-causal-w1023.0", 4.0 * 128 * (8192.0 * 1024 - 1024 * 1023.0 / 2)},
      {"bwd-f16-b4-h16-q4096-k4096-d128", 10.0 * 4 * 16 * 4096 * 4096 * 128},
      {"bwd-f16-b1-h1-q10-k10-d64-causal", 10.0 * 64 * 55},
      {"fwd-f16-b0-h16-q4096-k4096-d128", 0},
      {"fwd-f16-b1-h1-q10-k0-d128-causal", 0},
      {"fwd-f16-b2147483647-h2147483647-q2147483647-k2147483647-d256",
       1024 * 2147483647.0 * 2147483647.0 * 2147483647.0 * 2147483647.0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_problem p = read_text(cases[i].text, false);
    double flops = fat_problem_flops(&p);
    assert_true(flops >= cases[i].flops * (1 - 1e-12) && flops <= cases[i].flops * (1 + 1e-12));
  }
}

static void features_have_names(void **state)
{
  (void)state;
  assert_string_equal(fat_problem_feature_name(FAT_WINDOW), "w");
  assert_string_equal(fat_problem_feature_name(FAT_PARTIAL), "partial");
  assert_string_equal(fat_problem_feature_name(FAT_FEATURE_COUNT), "?");
  assert_string_equal(fat_problem_feature_form(FAT_MASK), "mask");
  assert_string_equal(fat_problem_feature_form(FAT_MASK_MOD), "maskHASH");
  assert_string_equal(fat_problem_feature_form(FAT_MOD), "modHASH");
  assert_int_equal(fat_problem_feature_numbers(FAT_WINDOW), 2);
  assert_int_equal(fat_problem_feature_numbers(FAT_SPLIT), 1);
  assert_int_equal(fat_problem_feature_numbers(FAT_BLOCKSPARSE), 2);
  assert_int_equal(fat_problem_feature_numbers(FAT_MOD), 0);
  assert_string_equal(fat_dtypes[FAT_TF32].element, "f32");
  assert_int_equal(fat_dtypes[FAT_BF16].bytes, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_part_is_read_into_its_field),
      cmocka_unit_test(texts_are_written_as_they_are_read),
      cmocka_unit_test(windows_have_one_text_each),
      cmocka_unit_test(any_problem_comes_back_from_its_text),
      cmocka_unit_test(the_longest_text_fits_its_buffer),
      cmocka_unit_test(mistakes_are_told_with_their_place),
      cmocka_unit_test(a_family_has_no_sizes),
      cmocka_unit_test(a_text_is_meant_as_a_family_where_its_third_word_is_d),
      cmocka_unit_test(no_beginning_of_a_text_is_read_beyond_its_end),
      cmocka_unit_test(check_names_value_and_range),
      cmocka_unit_test(operations_are_counted_by_convention),
      cmocka_unit_test(features_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
