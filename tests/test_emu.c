/* test_emu.c -- the emulator itself: small kernels, each with one defect that must be found on its line, and
 * sound ones in which nothing may be found under any order.
 * The bench is that of emu_bench.h. */
#include "emu_bench.h"

static const defect defects[] = {
    /* a neighbour's element, read with no barrier in between */
    {KERNEL(S64) "s[thread_id()] = 1.f;\n"
                 "a.y[thread_id()] = s[thread_id() ^ 32];\n}",
     one_block, EMU_RACE, "templates/t.cu", 3, "templates/t.cu:2"},
    /* the same inside a warp: lanes do not march in step */
    {KERNEL(S64) "s[thread_id()] = 1.f;\n"
                 "shfl_xor(0.f, 1);\n"
                 "a.y[thread_id()] = s[thread_id() ^ 1];\n}",
     one_block, EMU_RACE, "templates/t.cu", 4, "shared memory["},
    /* a barrier of the warp does not order warps */
    {KERNEL(S64) "s[thread_id()] = 1.f; warp_sync();\n"
                 "a.y[thread_id()] = s[thread_id() ^ 32];\n}",
     one_block, EMU_RACE, "templates/t.cu", 3, "templates/t.cu:2"},
    /* written again while others may still read; the place is inside a lib function */
    {KERNEL(S64) "s[thread_id()] = 1.f; block_sync();\n"
                 "a.y[thread_id()] = s[thread_id() ^ 32];\n"
                 "put(s + thread_id(), 2.f);\n}",
     one_block, EMU_RACE, "templates/lib/tools.cuh", 3, "templates/t.cu:3"},
    /* many readers in several warps, one writer among them */
    {KERNEL(S64) "if (thread_id() == 0) s[0] = 1.f;\nblock_sync();\n"
                 "a.y[thread_id()] = s[0];\nwarp_sync();\n"
                 "if (thread_id() == 63) s[0] = 2.f;\n}",
     one_block, EMU_RACE, "templates/t.cu", 6, "templates/t.cu:4"},
    /* two blocks, one element */
    {KERNEL("") "a.y[thread_id()] = block_id();\n}", four_blocks, EMU_RACE, "templates/t.cu", 2, "y["},
    {KERNEL("") "if (block_id() == 0) a.y[thread_id()] = 1.f;\n"
                "else if (block_id() == 3) w[thread_id()] = a.y[thread_id()];\n}",
     four_blocks, EMU_RACE, "templates/t.cu", 3, "templates/t.cu:2"},
    /* bounds: between rows, before, behind, far away, shared, workspace */
    {KERNEL("") "if (thread_id() < 16)\n  a.y[thread_id()] = a.x[thread_id()];\n}", one_block,
     EMU_OUT_OF_BOUNDS, "templates/t.cu", 3, "reads x at byte 48"},
    {KERNEL("") "a.y[thread_id()] = 0.f;\na.x[thread_id() - 1] = 0.f;\n}", one_block, EMU_OUT_OF_BOUNDS,
     "templates/t.cu", 3, "writes x at byte -4"},
    {KERNEL("") "a.y[thread_id() * 5] = 0.f;\n}", one_block, EMU_OUT_OF_BOUNDS, "templates/t.cu", 2,
     "y at byte"},
    {KERNEL("") "a.y[thread_id() * (1ll << 40)] = 0.f;\n}", one_block, EMU_OUT_OF_BOUNDS, "templates/t.cu", 2,
     "belongs to no tensor"},
    {KERNEL(S64) "s[thread_id() + 1] = 0.f;\n}", one_block, EMU_OUT_OF_BOUNDS, "templates/t.cu", 2,
     "shared memory"},
    {KERNEL("") "w[thread_id() + 1] = 0.f;\n}", one_block, EMU_OUT_OF_BOUNDS, "templates/t.cu", 2,
     "workspace"},
    {KERNEL("") "float r[4] = {};\nfor (i32 i = 0; i <= 4; i++)\n  r[i] = a.x[i];\na.y[thread_id()] = "
                "r[thread_id() % 4];\n}",
     one_block, EMU_REGISTER_BOUNDS, "templates/t.cu", 4, "register"},
    /* never written */
    {KERNEL(S64) "a.y[thread_id()] = s[thread_id()];\n}", one_block, EMU_UNINITIALISED, "templates/t.cu", 2,
     "shared memory[0]"},
    {KERNEL("") "a.y[thread_id()] += 1.f;\n}", one_block, EMU_UNINITIALISED, "templates/t.cu", 2, "y["},
    {KERNEL("") "a.y[thread_id()] = w[thread_id()];\n}", one_block, EMU_UNINITIALISED, "templates/t.cu", 2,
     "workspace["},
    /* sixteen bytes from an address that is a multiple of four only */
    {KERNEL("") "if (thread_id() == 0) {\nfloat4 v = *(const float4 *)(a.x + 1);\na.y[0] = v.x + v.w;\n}\n}",
     one_block, EMU_MISALIGNED, "templates/t.cu", 3, "x["},
    /* threads that miss a barrier: elsewhere, or gone */
    {KERNEL("") "if (thread_id() == 5)\n  return;\nblock_sync();\n}", one_block, EMU_DIVERGENT_BARRIER,
     "templates/t.cu", 4, "thread 5 has ended"},
    {KERNEL("") "if (thread_id() < 32)\n  block_sync();\nelse\n  warp_sync();\nblock_sync();\n}", one_block,
     EMU_DIVERGENT_BARRIER, "templates/t.cu", 6, "has ended"},
    {KERNEL(S64) "float m = thread_id();\nif (thread_id() != 7)\n  m = shfl_xor(m, 1);\n"
                 "block_sync();\na.y[thread_id()] = m;\n}",
     one_block, EMU_MISSING_LANES, "templates/t.cu", 4, "thread 7 waits at templates/t.cu:5"},
    {KERNEL("") "if (thread_id() == 33)\n  return;\nwarp_sync();\n}", one_block, EMU_MISSING_LANES,
     "templates/t.cu", 4, "thread 33 has ended"},
    /* int32 where int64 is needed */
    {KERNEL("") "i32 n = 1 << 30;\nfor (i32 i = 0; i < 2; i++)\n  n += n;\na.y[thread_id()] = n;\n}",
     one_block, EMU_ARITHMETIC, "templates/t.cu", 4, "arithmetic"},
    {KERNEL("") "while (a.x[1] == 1.f) a.y[thread_id()] = 0.f;\n}", one_block, EMU_ENDLESS, "templates/t.cu",
     2, "endless"},
};

static void every_defect_is_found_on_its_line(void **state)
{
  (void)state;
  bench b;
  for (unsigned i = 0; i < sizeof defects / sizeof *defects; i++)
    for (int order = EMU_IN_ORDER; order <= EMU_RANDOM; order++) {
      const defect *d = &defects[i];
      const char *cxx = getenv("FATUNE_EMU_CXX");
      if (d->kind == EMU_MISALIGNED && cxx && strstr(cxx, "clang"))
        continue; /* clang does not check copies of structs */
      emu_options options = {.order = (emu_order)order, .seed = i, .accesses = 100000};
      b = bench_open();
      emu_report r = bench_run(&b, d->kernel, d->steps, &options);
      emu_close(b.e);
      if (!bench_finds(d, &r, order == EMU_IN_ORDER))
        fail_msg("defect %u, order %d: want %s at %s:%d with '%s', got %d findings, first: %s", i, order,
                 emu_kind_name(d->kind), d->file, d->line, d->words, r.findings,
                 r.findings ? r.finding[0].text : "-");
      /* Where a barrier is missing, what it waits for may not have been written yet; a pointer that is wrong
       * for one thread may be right for another. */
      for (int f = 0; f < r.findings; f++)
        if (r.finding[f].kind != d->kind && (d->kind != EMU_RACE || r.finding[f].kind != EMU_UNINITIALISED) &&
            (d->kind != EMU_OUT_OF_BOUNDS || r.finding[f].kind != EMU_PADDING))
          fail_msg("defect %u, order %d: beside it: %s", i, order, r.finding[f].text);
    }
}

/* ---- sound kernels ---- */

typedef struct sound {
  const char *kernel, *steps;
  float y[4]; /* y[0], y[1], y[33], y[63] */
} sound;

static const sound sounds[] = {
    /* a sum over the warp, then over the block */
    {KERNEL(S64) "float v = thread_id();\n"
                 "for (i32 l = 1; l < 32; l *= 2) v += shfl_xor(v, l);\n"
                 "if (thread_id() % 32 == 0) s[thread_id() / 32] = v;\n"
                 "block_sync();\n"
                 "a.y[thread_id()] = s[0] + s[1];\n}",
     one_block,
     {2016, 2016, 2016, 2016}},
    /* rows passed on inside a warp, again and again */
    {KERNEL(S64) "float v = 1.f;\n"
                 "for (i32 i = 0; i < 5; i++) {\n"
                 "  s[thread_id()] = v; warp_sync();\n"
                 "  v += s[thread_id() ^ 1]; warp_sync();\n"
                 "}\na.y[thread_id()] = v;\n}",
     one_block,
     {32, 32, 32, 32}},
    /* many readers, then a writer, ordered by the barrier */
    {KERNEL(S64) "float v = 0.f;\nfor (i32 i = 0; i < 64; i++) {\n"
                 "  if (thread_id() == i) s[0] = i;\n  block_sync();\n  v += s[0];\n  block_sync();\n}\n"
                 "a.y[thread_id()] = v;\n}",
     one_block,
     {2016, 2016, 2016, 2016}},
    /* vectors, constants, register arrays, the edges of x */
    {KERNEL(S64) "static const float c[4] = {1, 2, 3, 4};\nfloat r[4];\n"
                 "for (i32 i = 0; i < 4; i++) r[i] = c[(i + thread_id()) % 4];\n"
                 "const float4 v = *(const float4 *)(a.x + thread_id() % 2 * 16 + 8);\n"
                 "*(float4 *)(a.y + 4 * thread_id()) = make_float4(v.w, r[1], fmaxf(v.x, 9.f), 0.f);\n}",
     one_block,
     {11, 2, 2, 0}},
    /* an array cleared by a step, filled by a launch, read by the next one: launches are ordered */
    {"extern \"C\" __global__ void __launch_bounds__(64) first(const call a, float *w) {\n"
     "if (block_id() == 3) w[thread_id()] += thread_id();\n}\n"
     "extern \"C\" __global__ void __launch_bounds__(64) second(const call a, float *w, i32 n) {\n"
     "if (block_id() == 0) a.y[thread_id()] = w[63 - thread_id()] + n;\n}\n",
     "workspace 256\nclear 0 256\nlaunch first grid 4 block 64 shared 0 args call ws(0)\n"
     "launch second grid 2 block 64 shared 0 args call ws(0) int(7)\n",
     {70, 69, 37, 7}},
    /* ex2 and lg2 as the instructions define them */
    {KERNEL("") "const float inf = __int_as_float(0x7f800000);\n"
                "a.y[thread_id()] = thread_id() == 0 ? ex2(-inf) : thread_id() == 1 ? ex2(3.f)\n"
                "  : thread_id() == 33 ? lg2(8.f) : ex2(-127.f);\n}",
     one_block,
     {0, 8, 3, 0}},
};

static void sound_kernels_give_no_finding(void **state)
{
  (void)state;
  for (unsigned i = 0; i < sizeof sounds / sizeof *sounds; i++)
    for (int order = EMU_IN_ORDER; order <= EMU_RANDOM; order++)
      for (int resident = 1; resident <= 3; resident++) {
        emu_options options = {.order = (emu_order)order, .seed = 7 + i, .resident = resident};
        bench b = bench_open();
        emu_report r = bench_run(&b, sounds[i].kernel, sounds[i].steps, &options);
        if (r.findings)
          fail_msg("sound kernel %u, order %d: %s", i, order, r.finding[0].text);
        static const int at[4] = {0, 1, 33, 63};
        for (int j = 0; j < 4; j++)
          if (b.a.y[at[j]] != sounds[i].y[j])
            fail_msg("sound kernel %u: y[%d] is %g", i, at[j], (double)b.a.y[at[j]]);
        emu_close(b.e);
      }
}

static void counts_are_kept(void **state)
{
  (void)state;
  bench b = bench_open();
  emu_report r = bench_run(&b, sounds[1].kernel, four_blocks, NULL);
  assert_int_equal(r.launches, 1);
  assert_int_equal(r.blocks, 4);
  assert_int_equal(r.barriers, 4 * 2 * 10);
  assert_int_equal(r.shuffles, 0);
  assert_int_equal(r.accesses, 4 * 64 * 11);
  assert_int_equal(r.findings, 1); /* the four blocks write one y */
  emu_close(b.e);
}

/* Memory between and behind rows that changes unseen, as by a defect of the emulator itself, is noticed. */
static void spoiled_padding_is_noticed(void **state)
{
  (void)state;
  bench b = bench_open();
  b.a.x[13] = 0;
  emu_report r = bench_run(&b, KERNEL("") "a.y[thread_id()] = 0.f;\n}", one_block, NULL);
  assert_int_equal(r.findings, 1);
  assert_int_equal(r.finding[0].kind, EMU_PADDING);
  assert_non_null(strstr(r.finding[0].text, "x at byte 52"));
  emu_close(b.e);
}

/* ---- texts that cannot run ---- */

static void load_fails(const char *text, fat_status status, const char *words)
{
  emu_module *m;
  fat_error err = {0};
  assert_int_equal(emu_module_load(text, &m, &err), status);
  assert_null(m);
  if (!strstr(err.text, words))
    fail_msg("'%s' is not in '%s'", words, err.text);
}

static void an_arch_function_without_twin_is_named(void **state)
{
  (void)state;
  load_fails(
      "#line 1 \"templates/arch/sm99.cuh\"\n__device__ __forceinline__ float warp_of_dreams(float x)\n{\n}\n",
      FAT_E_TEMPLATE, "'warp_of_dreams'");
}

static void a_compiler_error_has_the_templates_line(void **state)
{
  (void)state;
  load_fails("#line 41 \"templates/t.cu\"\n\nextern \"C\" __global__ void k() { nonsense(); }\n",
             FAT_E_COMPILE, "templates/t.cu:42");
}

static void wrong_launches_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *steps, *words;
  } cases[] = {
      {"launch other grid 1 block 64 shared 0 args call ws(0)\n", "no entry 'other'"},
      {"launch k grid 1 block 64 shared 0 args call\n", "1 arguments, it takes 2"},
      {"launch k grid 1 block 96 shared 0 args call ws(0)\n", "its bound is 64"},
      {"launch k grid 1 block 64 shared 0 args ws(0) call\n", "argument 1"},
  };
  char text[4096];
  fat_error err = {0};
  emu_module *m;
  fat_recipe recipe;
  fat_sizes sizes = {.b = 1, .h = 1, .hk = 1, .q = 1, .k = 1, .sms = 1};
  emu_report report;
  bench b = bench_open();
  snprintf(text, sizeof text, "%s%s", bench_head, KERNEL("") "}");
  assert_int_equal(emu_module_load(text, &m, &err), FAT_OK);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(fat_recipe_parse(cases[i].steps, &recipe, &err), FAT_OK);
    assert_int_not_equal(emu_run(b.e, m, &recipe, &sizes, &b.a, sizeof b.a, NULL, &report, &err), FAT_OK);
    if (!strstr(err.text, cases[i].words))
      fail_msg("'%s' is not in '%s'", cases[i].words, err.text);
  }
  emu_module_free(m);
  emu_close(b.e);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_defect_is_found_on_its_line),
      cmocka_unit_test(sound_kernels_give_no_finding),
      cmocka_unit_test(counts_are_kept),
      cmocka_unit_test(spoiled_padding_is_noticed),
      cmocka_unit_test(an_arch_function_without_twin_is_named),
      cmocka_unit_test(a_compiler_error_has_the_templates_line),
      cmocka_unit_test(wrong_launches_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
