/* test_hooks.c -- the kernels' own words about masks against generator/sees.c, by their numbers alone.
 *
 * A rendered kernel gets one more entry, which asks its hooks: what a row sees, who sees a key, which tiles
 * are visited and which of them no mask touches, which keys of a tile are kept. Lengths go up to 2^31 - 1,
 * where no kernel could run on the emulator and 32 bits overflow first. */
#include "check.h"
#include "sees.h"
#include "tensors.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LO, HI, FIRST, FREE, FULL, LAST, KEPT, WORDS = KEPT + 256 };

static const char forward[] =
    "\n#line 1 \"templates/probe.cu\"\n"
    "extern \"C\" __global__ void __launch_bounds__(32) probe(const call a, i32 *out, i32 at, i32 tile)\n"
    "{\n"
    "  if (thread_id() != 0) return;\n"
    "  const sequence my = sequence_of(a, 0);\n"
    "  const interval seen = sees(a, my, at);\n"
    "  const spans v = range(a, my, at / Br * Br);\n"
    "  out[0] = seen.lo, out[1] = seen.hi, out[2] = v.first, out[3] = v.free, out[4] = v.full, out[5] = "
    "v.last;\n"
    "  for (i32 x = 0; x < Bc; x++)\n"
    "    out[6 + x] = KEEP;\n"
    "}\n";
static const char backward[] =
    "\n#line 1 \"templates/probe.cu\"\n"
    "extern \"C\" __global__ void __launch_bounds__(32) probe(const call a, i32 *out, i32 at, i32 tile)\n"
    "{\n"
    "  if (thread_id() != 0) return;\n"
    "  const sequence my = sequence_of(a, 0);\n"
    "  const interval by = seen_by(a, my, at);\n"
    "  const spans v = range_rows(a, my, at / Bc * Bc);\n"
    "  out[0] = by.lo, out[1] = by.hi, out[2] = v.first, out[3] = v.free, out[4] = v.full, out[5] = v.last;\n"
    "  for (i32 x = 0; x < Br; x++)\n"
    "    out[6 + x] = keep(by, u32(tile) * Br + x) && keep_from(by, u32(tile) * Br + x);\n"
    "}\n";

typedef struct probe {
  emu_module *module;
  fat_problem family;
  int32_t rows, keys; /* Br, Bc */
  bool by_key;        /* the backward's: keys ask which rows see them */
} probe;

static probe probe_of(const char *family, const char *kernel)
{
  probe p = {.by_key = strncmp(family, "bwd", 3) == 0};
  char word[FAT_CONFIG_TEXT];
  fat_error err = {0};
  fat_source source;
  assert_int_equal(fat_problem_parse_family(family, &p.family, &err), FAT_OK);
  p.family.q = p.family.k = 512;
  emu_case c;
  emu_case_plain(&c, &p.family);
  snprintf(word, sizeof word, "%s", kernel);
  fat_config config = emu_check_config(word, &c);
  assert_int_equal(fat_config_get(&config, "Br", &p.rows), FAT_OK);
  assert_int_equal(fat_config_get(&config, "Bc", &p.keys), FAT_OK);
  assert_int_equal(emu_kernel_render(emu_check_script(), &p.family, c.gpu, &config, &source, &err), FAT_OK);
  const bool left = fat_problem_has(&p.family, FAT_WINDOW) || fat_problem_has(&p.family, FAT_CHUNK);
  const char *keep = left ? "keep(seen, u32(tile) * Bc + x) && keep_from(seen, u32(tile) * Bc + x)"
                          : "keep(seen, u32(tile) * Bc + x)";
  const char *text = p.by_key ? backward : forward, *hole = strstr(text, "KEEP");
  fat_text_add_bytes(&source.text, text, hole ? (size_t)(hole - text) : strlen(text));
  if (hole) {
    fat_text_add(&source.text, keep);
    fat_text_add(&source.text, hole + strlen("KEEP"));
  }
  if (emu_module_load(fat_text_get(&source.text), &p.module, &err) != FAT_OK)
    fail_msg("%s: %s", family, err.text);
  fat_source_free(&source);
  return p;
}

/* What the hooks say of row (or key) `at` and of the tile of keys (rows) `tile`. */
static void ask(const probe *x, const fat_problem *p, int64_t at, int64_t tile, int32_t out[WORDS])
{
  struct {
    unsigned char call[FAT_CALL_BYTES];
    int32_t *out;
    int32_t at, tile;
  } arguments;
  static const emu_layout layout = {"out", {1, 1, 1, WORDS}, {WORDS, WORDS, WORDS, 1}, 4, 0};
  const int offset[] = {0, (int)((char *)&arguments.out - (char *)&arguments),
                        (int)((char *)&arguments.at - (char *)&arguments),
                        (int)((char *)&arguments.tile - (char *)&arguments)};
  fat_call_layout l;
  const fat_call call = {.scale = 1};
  emu_report report;
  fat_error err = {0};
  emu *e = emu_check_machine();
  emu_reset(e);
  fat_tensors_layout(p, &l);
  fat_tensors_pack(&l, p, &call, arguments.call);
  arguments.out = emu_tensor(e, &layout);
  arguments.at = (int32_t)at;
  arguments.tile = (int32_t)tile;
  const emu_call launch = {.entry = "probe",
                           .grid = 1,
                           .block = 32,
                           .shared = 0,
                           .args = 4,
                           .memory = &arguments,
                           .bytes = sizeof arguments,
                           .offset = offset};
  assert_non_null(arguments.out);
  const emu_options options = {0};
  if (emu_launch(e, x->module, &launch, &options, &report, &err) != FAT_OK)
    fail_msg("%s", err.text);
  if (report.findings > 0)
    fail_msg("%s", report.finding[0].text);
  memcpy(out, arguments.out, WORDS * sizeof *out);
}

static int64_t up(int64_t x, int64_t by)
{
  return (x + by - 1) / by;
}

/* The interval of a row (or key), and of the first and the last of its tile. */
static fat_interval of(const probe *x, const fat_problem *p, int64_t at)
{
  return x->by_key ? fat_sees_rows(p, at) : fat_sees(p, at);
}

/* The tiles of rows that visit these keys at the ends: by `range` of such rows they do, too. standard_bwd
 * reads for a tile of keys what it wrote for tiles of rows. */
static void visits_agree(const probe *x, const fat_problem *p, int64_t keys, int64_t first, int64_t last)
{
  const int64_t tiles[] = {first, last};
  char text[FAT_PROBLEM_TEXT];
  for (int t = 0; t < 2; t++) {
    const int64_t begin = tiles[t] * x->rows, end = begin + x->rows < p->q ? begin + x->rows : p->q;
    if (begin >= end || fat_sees(p, begin).lo / x->keys > keys ||
        up(fat_sees(p, end - 1).hi, x->keys) <= keys)
      fail_msg("%s: tile %lld of keys visits tile %lld of rows, which does not visit it",
               fat_problem_print(p, text), (long long)keys, (long long)tiles[t]);
  }
}

static void agrees(const probe *x, const fat_problem *p, int64_t at, int64_t tile)
{
  int32_t out[WORDS];
  char text[FAT_PROBLEM_TEXT];
  const int64_t own = x->by_key ? x->keys : x->rows, other = x->by_key ? x->rows : x->keys;
  const int64_t count = x->by_key ? p->k : p->q, begin = at / own * own;
  const int64_t end = begin + own < count ? begin + own : count;
  const fat_interval seen = of(x, p, at), top = of(x, p, begin), bottom = of(x, p, end - 1);
  ask(x, p, at, tile, out);
  fat_problem_print(p, text);
  if (seen.lo < seen.hi && (out[LO] != seen.lo || out[HI] != seen.hi))
    fail_msg("%s: %lld sees [%d, %d), and should [%lld, %lld)", text, (long long)at, out[LO], out[HI],
             (long long)seen.lo, (long long)seen.hi);
  if (seen.lo >= seen.hi && out[LO] < out[HI])
    fail_msg("%s: %lld sees [%d, %d), and should nothing", text, (long long)at, out[LO], out[HI]);
  for (int64_t i = 0; i < other; i++) {
    const int64_t j = tile * other + i;
    if (out[KEPT + i] != (j >= seen.lo && j < seen.hi))
      fail_msg("%s: %lld and %lld: kept is %d", text, (long long)at, (long long)j, out[KEPT + i]);
  }
  /* All that is seen is visited, nothing is visited twice, and what no mask touches is seen by all. */
  assert_true(out[FIRST] <= out[FREE] && out[FREE] <= out[FULL] && out[FULL] <= out[LAST]);
  for (int64_t i = begin; i < end; i++) {
    const fat_interval one = of(x, p, i);
    if (one.lo < one.hi && (out[FIRST] > one.lo / other || out[LAST] < up(one.hi, other)))
      fail_msg("%s: the tile of %lld visits [%d, %d) of tiles of %lld", text, (long long)at, out[FIRST],
               out[LAST], (long long)other);
  }
  if (x->by_key && out[FIRST] < out[LAST])
    visits_agree(x, p, begin / own, out[FIRST], out[LAST] - 1);
  if (out[FREE] < out[FULL])
    assert_true(out[FREE] * other >= bottom.lo && out[FULL] * other <= top.hi);
  if (out[FREE] < out[FULL] && x->by_key)
    assert_true(begin + own <= p->k); /* a ragged tile of keys is masked throughout */
}

static uint64_t seed = 1;
static int64_t draw(int64_t below)
{
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return below > 0 ? (int64_t)((seed >> 33) % (uint64_t)below) : 0;
}

/* A length: small, ordinary, or as long as a problem may be. */
static int64_t draw_length(void)
{
  switch (draw(4)) {
  case 0:
    return 1 + draw(70);
  case 1:
    return 1 + draw(100000);
  case 2:
    return FAT_PROBLEM_SIZE_MAX - draw(300);
  default:
    return 1 + draw(FAT_PROBLEM_SIZE_MAX);
  }
}

static void hooks_agree(const char *family, const char *kernel)
{
  probe x = probe_of(family, kernel);
  for (int i = 0; i < (emu_check_full() ? 4000 : 400); i++) {
    fat_problem p = x.family;
    p.q = draw_length();
    p.k = draw_length();
    if (fat_problem_has(&p, FAT_WINDOW)) {
      p.arg[FAT_WINDOW][0] = (uint64_t)(draw(3) ? draw_length() - 1 : FAT_PROBLEM_ALL);
      p.arg[FAT_WINDOW][1] = fat_problem_has(&p, FAT_CAUSAL) ? 0 : (uint64_t)(draw_length() - 1);
    }
    if (fat_problem_has(&p, FAT_CHUNK))
      p.arg[FAT_CHUNK][0] = (uint64_t)draw_length();
    const int64_t count = x.by_key ? p.k : p.q, other = x.by_key ? x.rows : x.keys;
    const int64_t at = draw(3) ? draw(count) : count - 1;
    const fat_interval seen = of(&x, &p, at);
    /* The tiles of its ends decide most, and the one that reaches beyond the last. */
    const int64_t tiles[] = {seen.lo / other, seen.hi > 0 ? (seen.hi - 1) / other : 0,
                             ((x.by_key ? p.q : p.k) - 1) / other};
    for (int t = 0; t < 3; t++)
      agrees(&x, &p, at, tiles[t]);
  }
  emu_module_free(x.module);
}

static void rows_see_what_the_reference_says(void **state)
{
  (void)state;
  static const char *const families[] = {
      "fwd-f32-d8",          "fwd-f32-d8-causal",         "fwd-f32-d8-w",
      "fwd-f32-d8-causal-w", "fwd-f32-d8-causaltl",       "fwd-f32-d8-causaltl-w",
      "fwd-f32-d8-chunk",    "fwd-f32-d8-causal-w-chunk", "fwd-f32-d8-causaltl-chunk"};
  for (unsigned i = 0; i < sizeof families / sizeof *families; i++)
    hooks_agree(families[i], "fwd");
  /* 96 does not divide 2^31: the last tile of keys reaches beyond it */
  hooks_agree("fwd-f16-d64-causal", "fwd:Br128-Bc96-w4-s1-Q0-b1-Z1-W16");
  hooks_agree("fwd-f16-d64-causal-w", "fwd:Br128-Bc112-w4-s1-Q0-b1-Z1-W16");
}

static void keys_are_seen_by_whom_the_reference_says(void **state)
{
  (void)state;
  static const char *const families[] = {"bwd-f32-d8",          "bwd-f32-d8-causal",
                                         "bwd-f32-d8-w",        "bwd-f32-d8-causal-w",
                                         "bwd-f32-d8-causaltl", "bwd-f32-d8-causaltl-w"};
  for (unsigned i = 0; i < sizeof families / sizeof *families; i++)
    hooks_agree(families[i], "fa1_bwd");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_see_what_the_reference_says),
      cmocka_unit_test(keys_are_seen_by_whom_the_reference_says),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
