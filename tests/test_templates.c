/* test_templates.c -- every template through the real NVRTC for every architecture, no GPU needed: it
 * compiles, without spills, with products that run side by side, with the shared memory and threads that its
 * recipe asks for; a mistake in a template is told with the template's line; nvcc takes a rendered text as it
 * stands.
 *
 * Skipped (exit 77) where there is no libnvrtc. FATUNE_FULL=1 compiles every default of every dimension, and
 * the cases behind those of the short form in each table.
 */
#include "compile.h"
#include "changed.h"
#include "recipe.h"
#include "render.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fat_nvrtc *nvrtc;
static fat_script *script;
static const char *const kernels[] = {"fwd", "fa1", "standard"};
static const int sms[] = {75, 80, 86, 89, 90, 100, 120};

static bool is_full(void)
{
  return getenv("FATUNE_FULL") != NULL;
}

/* How many of `all` cases are compiled; the short form has the first few. */
static size_t chosen(size_t few, size_t all)
{
  return is_full() ? all : few;
}

static fat_source render(fat_script *from, const char *kernel, const char *problem, const fat_gpu *gpu)
{
  return render_default(from, kernel, problem, gpu, FAT_LINES_TEMPLATE);
}

/* Launches of a call. */
static int launches_of(const fat_source *s)
{
  fat_recipe recipe;
  int launches = 0;
  assert_int_equal(fat_recipe_parse(fat_text_get(&s->recipe), &recipe, NULL), FAT_OK);
  for (int i = 0; i < recipe.steps; i++)
    launches += recipe.step[i].kind == FAT_STEP_LAUNCH;
  return launches;
}

/* Bytes of spill stores and loads that a default may have: none, but for bwd's from Ampere on. There configs
 * that spill some were the best of 49 to 293 by the clock (templates/bwd.lua says which). Threads that copy
 * have 24 registers in bwd_ws. More than these would be news. */
static int spills_allowed(const char *kernel, int sm)
{
  return strcmp(kernel, "bwd") == 0 && sm >= 80 ? 360 : strcmp(kernel, "bwd_ws") == 0 ? 200 : 0;
}

/* Compiles a source, frees it, and holds the compiler's figures against the limits of the GPU. */
static void compile_source(fat_source s, const char *kernel, const char *problem, int sm)
{
  const fat_arch *arch = fat_gpu_arch(sm);
  fat_binary binary;
  fat_error err = {0};
  if (fat_compile(nvrtc, fat_text_get(&s.text), "kernel.cu", arch->target, 120, NULL, &binary, &err) !=
      FAT_OK)
    fail_msg("%s %s %s: %s", kernel, problem, arch->target, err.text);
  assert_int_equal(binary.entries, launches_of(&s));
  for (int i = 0; i < binary.entries; i++) {
    const fat_entry *e = &binary.entry[i];
    const int most = spills_allowed(kernel, sm);
    if (e->spills > most || (most == 0 && e->stack != 0))
      fail_msg("%s %s %s: %d bytes of spills, %d of stack", e->name, problem, arch->target, e->spills,
               e->stack);
    if (e->serial)
      fail_msg("%s %s %s: ptxas has its products wait for each other", e->name, problem, arch->target);
    assert_in_range(e->registers, 16, arch->regs_thread);
    char tail[20];
    snprintf(tail, sizeof tail, "_%.16s", s.hash);
    assert_non_null(strstr(e->name, tail));
  }
  fat_binary_free(&binary);
  fat_source_free(&s);
}

/* One default config. */
static void compile_one(const char *kernel, const char *problem, int sm)
{
  if (fat_nvrtc_targets(nvrtc, sm))
    compile_source(render(script, kernel, problem, render_gpu(sm)), kernel, problem, sm);
}

static void every_template_on_every_architecture(void **state)
{
  (void)state;
  for (size_t a = 0; a < sizeof sms / sizeof sms[0]; a++)
    for (int i = 0; i < 3; i++)
      compile_one(kernels[i], "fwd-f32-b1-h1-q64-k64-d64-causal", sms[a]);
}

static void dimensions(void **state)
{
  (void)state;
  bool full = is_full();
  static const int some[] = {8, 40, 128, 256};
  for (int d = 8; d <= 256; d += 8) {
    bool chosen = full;
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
      chosen = chosen || d == some[i];
    for (int i = 0; i < 3 && chosen; i++) {
      char problem[FAT_PROBLEM_TEXT];
      snprintf(problem, sizeof problem, "fwd-f32-b1-h1-q64-k64-d%d", d);
      compile_one(kernels[i], problem, 75);
    }
  }
  compile_one("fwd", "fwd-f32-b1-h1-q64-k64-d192v128-causal", 80);
  if (full)
    compile_one("fwd", "fwd-f32-b1-h1-q64-k64-d64v256", 75);
}

/* The defaults for few rows of heads that share K and V; none for d 256 does without spills on Turing. */
static void few_rows_of_shared_heads(void **state)
{
  (void)state;
  static const char *const dims[] = {"d64", "d128-causal", "d192v128", "d256-causal"};
  for (size_t a = 0; a < sizeof sms / sizeof sms[0]; a++)
    for (size_t i = 0; i < sizeof dims / sizeof dims[0] - (sms[a] < 80); i++) {
      if (!is_full() && i != a % 4)
        continue; /* one of each, spread over the architectures */
      char problem[FAT_PROBLEM_TEXT];
      snprintf(problem, sizeof problem, "fwd-%s-b8-h32k8-q1-k8192-%s", sms[a] < 80 ? "f16" : "bf16", dims[i]);
      compile_one("fwd", problem, sms[a]);
    }
  compile_one("fwd", "fwd-tf32-b8-h32k8-q1-k8192-d64-causal", 80);
  compile_one("fwd", "fwd-f32x3-b8-h32k8-q1-k8192-d64-causal", 80);
}

/* The defaults where tiles of fewer rows reach more SMs, one of each row of the table. */
static void few_tiles(void **state)
{
  (void)state;
  static const char *const shapes[] = {"h8-q2048-k2048-d64-causal",  "h4-q2048-k2048-d128-causal",
                                       "h4-q1024-k1024-d256-causal", "h8-q300-k2048-d64",
                                       "h24-q1024-k1024-d80",        "h128-q2048-k2048-d112",
                                       "h4-q1024-k1024-d192"};
  for (size_t i = 0; i < chosen(3, sizeof shapes / sizeof shapes[0]); i++) {
    char problem[FAT_PROBLEM_TEXT];
    snprintf(problem, sizeof problem, "fwd-bf16-b1-%s", shapes[i]);
    compile_one("fwd_ws", problem, 90);
  }
}

/* The defaults of windows spill nothing either. */
static void windows(void **state)
{
  (void)state;
  static const char *const kernels[] = {"standard", "fa1", "fwd"};
  static const int some[] = {75, 80, 90};
  for (size_t a = 0; a < sizeof some / sizeof some[0]; a++)
    for (int i = 0; i < 3; i++) {
      if (!is_full() && i != 2 && i != (int)a)
        continue; /* fwd everywhere, the others once */
      compile_one(kernels[i], "fwd-f32-b1-h1-q64-k64-d64-w9.3", some[a]);
      compile_one(kernels[i],
                  some[a] < 80 ? "fwd-f16-b1-h1-q64-k64-d64-causal-w9.0"
                               : "fwd-bf16-b1-h1-q64-k64-d128-causal-w9.0",
                  some[a]);
    }
  compile_one("fwd", "fwd-f16-b1-h1-q64-k64-d128-causal-w9.0", 75);
  compile_one("fwd_ws", "fwd-bf16-b4-h16-q4096-k4096-d128-causal-w1023.0", 90);
  if (!is_full())
    return;
  compile_one("fwd_ws", "fwd-f16-b4-h32-q4096-k4096-d64-w512.512", 90);
  compile_one("fwd_ws", "fwd-bf16-b4-h8-q4096-k4096-d256-causal-w1023.0", 90);
}

/* Nor do several blocks that share an SM, but for what some features want. */
static void several_blocks(void **state)
{
  (void)state;
  static const char *const problems[] = {
      "fwd-bf16-b8-h64k8-q1024-k1024-d64-causal-w127.0-sink", "fwd-f16-b64-h12-q49-k49-d32",
      "fwd-bf16-b16-h12-q512-k512-d128-causal-w127.0", "fwd-bf16-b16-h12-q512-k512-d64-causal-alibi"};
  for (size_t i = 0; i < chosen(2, sizeof problems / sizeof problems[0]); i++)
    compile_one("fwd_ws", problems[i], 90);
}

/* No feature's default spills on Turing, whose K and V travel through registers; here those that need the
 * most of them, all for FATUNE_FULL=1. */
static void features_on_turing(void **state)
{
  (void)state;
  static const char *const all[] = {
      "",          "-causal",    "-causaltl",    "-causal-w100.0", "-w100.50",
      "-chunk100", "-varlen",    "-causal-used", "-causal-prefix", "-iv",
      "-lpad",     "-bs128x128", "-mask",        "-bias",          "-alibi",
      "-softcap",  "-sink",      "-drop",        "-bias-dbias",    "-sink-dsink",
      "-dlse"};
  char problem[FAT_PROBLEM_TEXT];
  compile_one("fwd", "fwd-f16-b4-h16-q4096-k4096-d64-mask", 75);
  compile_one("fwd", "fwd-f16-b4-h16-q4096-k4096-d128-causal-alibi", 75);
  for (size_t i = 0; is_full() && i < 4 * (sizeof all / sizeof all[0]); i++) {
    const bool back = i % 2;
    const char *word = all[i / 4];
    if (strstr(word, back ? "chunk" : "-d") && strcmp(word, "-drop") != 0)
      continue;
    if (back && strcmp(word, "-sink") == 0)
      continue;
    snprintf(problem, sizeof problem, "%s-f16-b4-h16-q4096-k4096-d%d%s", back ? "bwd" : "fwd",
             i / 2 % 2 ? 128 : 64, word);
    compile_one(back ? "bwd" : "fwd", problem, 75);
  }
}

/* The defaults of the backward: those with the most registers, and each way through shared memory. */
static void backward(void **state)
{
  (void)state;
  static const struct {
    int sm;
    const char *dtype, *rest;
  } cases[] = {{75, "f16", "d64-causal"},
               {75, "f16", "d128"},
               {80, "bf16", "d64"},
               {80, "f16", "d128-causal"},
               {86, "bf16", "d96"},
               {89, "f16", "d128-causal"},
               {90, "bf16", "d256-causal"},
               {120, "bf16", "d128"},
               {80, "bf16", "d256"},
               {89, "bf16", "d192"},
               {90, "bf16", "d128-causal-w9.0"},
               {90, "f16", "d64"},
               {120, "f16", "d256-causal"}};
  for (size_t i = 0; i < chosen(8, sizeof cases / sizeof cases[0]); i++) {
    char problem[FAT_PROBLEM_TEXT];
    snprintf(problem, sizeof problem, "bwd-%s-b1-h1-q64-k64-%s", cases[i].dtype, cases[i].rest);
    compile_one("bwd", problem, cases[i].sm);
  }
  compile_one("standard_bwd", "bwd-f32-b1-h1-q64-k64-d64-causal", 75);
  compile_one("standard_bwd", "bwd-bf16-b1-h1-q64-k64-d128", 80);
  compile_one("bwd_two", "bwd-f16-b1-h1-q64-k64-d128", 75);
  compile_one("bwd_two", "bwd-bf16-b1-h1-q64-k64-d128-causal", 80);
  compile_one("bwd_two", "bwd-bf16-b1-h1-q64-k64-d256-causal", 89);
  compile_one("bwd_two", "bwd-bf16-b1-h1-q64-k64-d64-w9.5", 90);
}

/* The backwards for warpgroups, whose schedules rest on products that run side by side: plain, and with what
 * changes a step. */
static void backward_for_warpgroups(void **state)
{
  (void)state;
  static const char *const rest[] = {
      "d64-causal",      "d128-causal", "d64-causal-bias",   "d128-causal-det", "d128-causal-drop",
      "d64-causal-drop", "d128",        "d128-causal-alibi", "d96-causal"};
  char problem[FAT_PROBLEM_TEXT];
  for (size_t i = 0; i < chosen(5, sizeof rest / sizeof rest[0]); i++) {
    snprintf(problem, sizeof problem, "bwd-bf16-b4-h16-q4096-k4096-%s", rest[i]);
    compile_one("bwd_ws", problem, 90);
  }
  if (is_full())
    compile_one("bwd_ws", "bwd-f16-b32-h16-q512-k512-d128", 90);
  /* Heads that share K and V, parted. */
  static const char *const shared[] = {"h8k1-q8192-k8192-d128-causal", "h71k1-q2048-k2048-d64-causal",
                                       "h8k1-q2048-k2048-d128-causal", "h12k1-q4096-k4096-d96"};
  for (size_t i = 0; i < chosen(2, sizeof shared / sizeof shared[0]); i++) {
    snprintf(problem, sizeof problem, "bwd-bf16-b1-%s", shared[i]);
    compile_one("bwd_ws", problem, 90);
  }
  compile_one("bwd_wide", "bwd-bf16-b4-h10-q4096-k4096-d192-causal", 90);
  compile_one("bwd_pair", "bwd-bf16-b4-h10-q4096-k4096-d192-causal", 90);
  compile_one("bwd_pair", "bwd-bf16-b4-h8-q4096-k4096-d256", 90);
  compile_one("bwd_pair", "bwd-bf16-b1-h8k1-q4096-k4096-d256-causal", 90);
}

/* V of more columns than a block makes: slices of it, each as good as a V of its own. */
static void wide_values_are_made_in_slices(void **state)
{
  (void)state;
  compile_one("fwd", "fwd-f16-b1-h2-q64-k64-d64v512", 80);
  compile_one("fwd", "fwd-f32-b1-h2-q64-k64-d64v384", 80);
  compile_one("fwd_ws", "fwd-bf16-b1-h2-q64-k64-d64v512-causal", 90);
}

/* P in shared memory: more of Bc than registers would leave room for. */
static void weights_in_shared_memory(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"fwd-bf16-b1-h1-q64-k64-d64", "fwd_ws:Br192-Bc192-s2-q1-Q0-I2-P0-L0-Z1-S1"},
      {"fwd-f16-b1-h1-q64-k64-d64-causal", "fwd_ws:Br192-Bc160-s2-q1-Q0-I1-P0-L0-Z8-S1"},
      {"fwd-bf16-b1-h1-q64-k64-d128", "fwd_ws:Br192-Bc128-s2-q1-Q0-I2-P0-L0-Z1-S1"},
      {"fwd-f16-b1-h1-q64-k64-d256", "fwd_ws:Br128-Bc96-s1-q1-Q0-I2-P1-L1-Z1-S1"}};
  if (!fat_nvrtc_targets(nvrtc, 90))
    return;
  for (size_t i = 0; i < chosen(2, sizeof cases / sizeof cases[0]); i++) {
    fat_problem p;
    fat_config c;
    fat_source s = {0};
    fat_error err = {0};
    if (fat_problem_parse(cases[i][0], &p, &err) != FAT_OK ||
        fat_config_parse(cases[i][1], &c, &err) != FAT_OK ||
        fat_source_render(script, &p, render_gpu(90), &c, FAT_LINES_TEMPLATE, &s, &err) != FAT_OK)
      fail_msg("%s", err.text);
    compile_source(s, "fwd_ws", cases[i][0], 90);
  }
}

static int line_of(const char *file, const char *piece)
{
  char name[100];
  snprintf(name, sizeof name, "templates/%s", file);
  const char *text = fat_embed_find(name)->text, *at = strstr(text, piece);
  int line = 1;
  for (const char *c = text; c < at; c++)
    line += *c == '\n';
  return line;
}

static void mistakes_point_at_the_template(void **state)
{
  (void)state;
  static const struct {
    const char *file, *old, *fresh;
  } cases[] = {
      {"fwd.cu", "store(O, O_tile", "store(Ox, O_tile"},
      {"lib/simt.cuh", "S.at[r][c] = fmaf(a[r].at[w]", "S.at[r][c] = fmaff(a[r].at[w]"},
      {"lib/hooks.cuh", "return j < u32(seen.hi)", "return j < u32(seeen.hi)"},
      {"arch/sm75.cuh", "return threadIdx.x;", "return threadIdxx.x;"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    folder f = changed_templates(cases[i].file, cases[i].old, cases[i].fresh);
    fat_script *own;
    assert_int_equal(fat_script_open(f.path, &own, NULL), FAT_OK);
    fat_source s = render(own, "fwd", "fwd-f32-b1-h1-q64-k64-d64-causal", render_gpu(75));
    fat_binary binary;
    fat_error err = {0};
    assert_int_equal(fat_compile(nvrtc, fat_text_get(&s.text), "kernel.cu", "sm_75", 60, NULL, &binary, &err),
                     FAT_E_COMPILE);
    char where[100];
    snprintf(where, sizeof where, "templates/%s(%d): error", cases[i].file,
             line_of(cases[i].file, cases[i].old));
    if (strstr(err.text, where) == NULL)
      fail_msg("'%s' does not hold '%s'", err.text, where);
    fat_binary_free(&binary);
    fat_source_free(&s);
    fat_script_close(own);
    folder_remove(&f);
  }
}

static void nvcc_takes_a_render_as_it_stands(void **state)
{
  (void)state;
  if (system("nvcc --version > /dev/null 2>&1") != 0) {
    print_message("nvcc is not installed: skipped\n");
    skip();
  }
  for (int i = 0; i < 3; i++) {
    folder f = folder_make();
    fat_source s = render(script, kernels[i], "fwd-f32-b1-h1-q64-k64-d64", render_gpu(75));
    folder_write(&f, "kernel.cu", fat_text_get(&s.text));
    /* The line that the header of the text gives, run in its folder. */
    const char *line = strstr(fat_text_get(&s.text), "nvcc -cubin");
    assert_non_null(line);
    char command[1000];
    snprintf(command, sizeof command, "cd %s && %.*s && test -s kernel.cubin", f.path,
             (int)strcspn(line, "\n"), line);
    assert_int_equal(system(command), 0);
    fat_source_free(&s);
    folder_remove(&f);
  }
}

int main(void)
{
  fat_error err = {0};
  if (fat_nvrtc_open(0, &nvrtc, &err) != FAT_OK) {
    printf("skipped: %s\n", err.text);
    return 77;
  }
  if (fat_script_open(NULL, &script, &err) != FAT_OK) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_template_on_every_architecture),
      cmocka_unit_test(dimensions),
      cmocka_unit_test(few_rows_of_shared_heads),
      cmocka_unit_test(few_tiles),
      cmocka_unit_test(windows),
      cmocka_unit_test(several_blocks),
      cmocka_unit_test(features_on_turing),
      cmocka_unit_test(backward),
      cmocka_unit_test(backward_for_warpgroups),
      cmocka_unit_test(wide_values_are_made_in_slices),
      cmocka_unit_test(weights_in_shared_memory),
      cmocka_unit_test(mistakes_point_at_the_template),
      cmocka_unit_test(nvcc_takes_a_render_as_it_stands),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  fat_script_close(script);
  fat_nvrtc_close(nvrtc);
  return failed;
}
