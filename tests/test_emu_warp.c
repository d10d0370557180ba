/* test_emu_warp.c -- what a whole warp does together, shared memory by its own addresses, halves of words:
 * sound kernels in which the emulator may find nothing, and defects that it must find.
 *
 * The bench is that of emu_bench.h. */
#include "emu_bench.h"

/* ---- sound kernels ---- */

typedef struct sound {
  const char *kernel, *steps;
  uint32_t v[4]; /* v[0], v[1], v[33], v[63] */
} sound;

static const sound sounds[] = {
    /* by its own addresses or by pointers: the same memory */
    {KERNEL(AT) "put4(at + 4 * thread_id(), 7 * thread_id());\nblock_sync();\n"
                "const quad q = get16(at + thread_id() / 4 * 16);\n"
                "a.v[thread_id()] = q.at[3 - thread_id() % 4] + ((u32 *)shared_memory())[thread_id() ^ 1]"
                " - get4(at + 4 * (thread_id() ^ 1));\n}",
     one_block,
     {21, 14, 238, 420}},
    /* two threads write the halves of a word, a third reads it */
    {KERNEL("") "u16 *const s = (u16 *)shared_memory();\ns[thread_id()] = thread_id();\nblock_sync();\n"
                "if (thread_id() < 32) a.v[thread_id()] = ((u32 *)shared_memory())[thread_id()];\n"
                "else a.v[thread_id()] = s[thread_id()];\nblock_sync();\n"
                "((u32 *)shared_memory())[thread_id()] = 0;\n}",
     one_block,
     {1u << 16, 3u << 16 | 2, 33, 63}},
    /* half written, then whole, then half again */
    {KERNEL("") "u16 *const s = (u16 *)shared_memory();\n"
                "for (i32 i = 0; i < 8; i++) {\n"
                "  s[2 * thread_id() + i % 2] = i;\n  ((u32 *)s)[thread_id()] = 5;\n"
                "  s[2 * thread_id() + 1] = thread_id();\n}\n"
                "a.v[thread_id()] = ((u32 *)s)[thread_id()];\n}",
     one_block,
     {5, 1u << 16 | 5, 33u << 16 | 5, 63u << 16 | 5}},
    /* all elements of a tensor whose rows end in the middle of a word */
    {KERNEL("") "if (thread_id() < 15) a.h[thread_id() / 5 * 7 + thread_id() % 5] = thread_id();\n"
                "a.v[thread_id()] = thread_id() < 15 ? a.h[thread_id() / 5 * 7 + thread_id() % 5] : 99;\n}",
     one_block,
     {0, 1, 99, 99}},
};

static void sound_kernels_give_no_finding(void **state)
{
  (void)state;
  for (unsigned i = 0; i < sizeof sounds / sizeof *sounds; i++)
    for (int order = EMU_IN_ORDER; order <= EMU_RANDOM; order++) {
      emu_options options = {.order = (emu_order)order, .seed = 7 + i};
      bench b = bench_open();
      emu_report r = bench_run(&b, sounds[i].kernel, sounds[i].steps, &options);
      if (r.findings)
        fail_msg("sound kernel %u, order %d: %s", i, order, r.finding[0].text);
      static const int at[4] = {0, 1, 33, 63};
      for (int j = 0; j < 4; j++)
        if (b.a.v[at[j]] != sounds[i].v[j])
          fail_msg("sound kernel %u: v[%d] is %u", i, at[j], b.a.v[at[j]]);
      emu_close(b.e);
    }
}

/* ---- defects ---- */

#define TILE MATRICES "float c0 = 0, c1 = 0, c2 = 0, c3 = 0;\n" /* seven lines */

static const defect defects[] = {
    /* lanes that miss what all must do */
    {MATRICES "if (l != 5) q = ldmatrix(at + 16 * l);\na.v[l] = q.at[0];\n}", one_warp, EMU_MISSING_LANES,
     "templates/t.cu", 7, "thread 5 has ended"},
    {TILE "if (l < 16) mma_f16(c0, c1, c2, c3, q, 0, 0);\nwarp_sync();\na.y[l] = c0;\n}", one_warp,
     EMU_MISSING_LANES, "templates/t.cu", 8, "templates/t.cu:9"},
    /* all come, to two calls */
    {TILE "if (l != 9)\nmma_f16(c0, c1, c2, c3, q, 0, 0);\nelse\nmma_f16(c1, c0, c2, c3, q, 0, 0);\n"
          "a.y[l] = c0;\n}",
     one_warp, EMU_MISSING_LANES, "templates/t.cu", 9, "thread 9 waits at templates/t.cu:11"},
    {TILE "if (l < 9) mma_f16(c0, c1, c2, c3, q, 0, 0); else mma_bf16(c0, c1, c2, c3, q, 0, 0);\n"
          "a.y[l] = c0;\n}",
     one_warp, EMU_MISSING_LANES, "templates/t.cu", 8, "thread 9"},
    /* rows: beyond the end, never written, not a multiple of 16, not yet there */
    {MATRICES "q = ldmatrix(at + 16 * l + 16);\na.v[l] = q.at[0];\n}", one_warp, EMU_OUT_OF_BOUNDS,
     "templates/t.cu", 7, "shared memory at byte 512"},
    {KERNEL(AT) "const quad q = ldmatrix(at + 16 * thread_id());\na.v[thread_id()] = q.at[0];\n}", one_warp,
     EMU_UNINITIALISED, "templates/t.cu", 2, "shared memory[0]"},
    {MATRICES "q = ldmatrix_trans(at + 8 * l);\na.v[l] = q.at[0];\n}", one_warp, EMU_MISALIGNED,
     "templates/t.cu", 7, "shared memory["},
    {KERNEL(AT) "const i32 l = thread_id();\nput16(at + 16 * l, quad{});\nquad q = ldmatrix(at + 16 * (l ^ "
                "1));\n"
                "a.v[l] = q.at[0];\n}",
     one_warp, EMU_RACE, "templates/t.cu", 4, "templates/t.cu:3"},
    /* nothing that a warp does together orders memory */
    {TILE "put4(at + 4 * l, 1);\nmma_f16(c0, c1, c2, c3, q, 0, 0);\na.v[l] = get4(at + 4 * (l ^ 1));\n"
          "a.y[l] = c0;\n}",
     one_warp, EMU_RACE, "templates/t.cu", 10, "templates/t.cu:8"},
    /* shared memory is all that its addresses reach */
    {KERNEL(AT) "put4(at - 4, 0);\n}", one_warp, EMU_OUT_OF_BOUNDS, "templates/t.cu", 2,
     "writes shared memory at byte -4"},
    {KERNEL("") "a.v[thread_id()] = get4(shared_address(a.u));\n}", one_warp, EMU_OUT_OF_BOUNDS,
     "templates/t.cu", 2, "shared memory at byte"},
    {KERNEL(AT) "put4(at + 65536 * thread_id() + 4, 0);\n}", one_warp, EMU_OUT_OF_BOUNDS, "templates/t.cu", 2,
     "shared memory at byte 65540"},
    {KERNEL(AT) "put16(at + 504, quad{});\n}", one_warp, EMU_OUT_OF_BOUNDS, "templates/t.cu", 2,
     "shared memory at byte 504"},
    {KERNEL(AT) "put16(at + 24, quad{});\n}", one_warp, EMU_MISALIGNED, "templates/t.cu", 2,
     "shared memory[6]"},
    {KERNEL(AT) "put4(at + 2, 0);\n}", one_warp, EMU_MISALIGNED, "templates/t.cu", 2, "shared memory[0]"},
    /* halves: one too many behind a row, before the first, the other's, one never written */
    {KERNEL("") "if (thread_id() < 6) a.h[thread_id()] = 0;\n}", one_block, EMU_OUT_OF_BOUNDS,
     "templates/t.cu", 2, "writes h at byte 10"},
    {KERNEL("") "if (thread_id() < 4) a.h[thread_id() - 1] = 0;\n}", one_block, EMU_OUT_OF_BOUNDS,
     "templates/t.cu", 2, "writes h at byte -2"},
    {KERNEL("") "u16 *const s = (u16 *)shared_memory();\ns[thread_id()] = thread_id();\n"
                "a.v[thread_id()] = s[thread_id() ^ 1];\n}",
     one_block, EMU_RACE, "templates/t.cu", 4, "templates/t.cu:3"},
    {KERNEL("") "u16 *const s = (u16 *)shared_memory();\ns[thread_id() & ~1] = 1;\n}", one_block, EMU_RACE,
     "templates/t.cu", 3, "templates/t.cu:3"},
    {KERNEL("") "u16 *const s = (u16 *)shared_memory();\ns[2 * thread_id()] = 1;\n"
                "a.v[thread_id()] = ((u32 *)s)[thread_id()];\n}",
     one_block, EMU_UNINITIALISED, "templates/t.cu", 4, "shared memory[0]"},
    {KERNEL("") "if (thread_id() == 0) a.h[1] = a.h[0];\n}", one_block, EMU_UNINITIALISED, "templates/t.cu",
     2, "h[batch 0, head 0, row 0, column 0]"},
    /* a product without end */
    {TILE "while (c0 == 0.f) mma_f16(c0, c1, c2, c3, quad{}, 0, 0);\na.y[l] = c0;\n}", one_warp, EMU_ENDLESS,
     "templates/t.cu", 8, "endless"},
};

static void every_defect_is_found_on_its_line(void **state)
{
  (void)state;
  for (unsigned i = 0; i < sizeof defects / sizeof *defects; i++)
    for (int order = EMU_IN_ORDER; order <= EMU_RANDOM; order++) {
      const defect *d = &defects[i];
      emu_options options = {.order = (emu_order)order, .seed = i, .accesses = 100000};
      bench b = bench_open();
      emu_report r = bench_run(&b, d->kernel, d->steps, &options);
      emu_close(b.e);
      if (!bench_finds(d, &r, order == EMU_IN_ORDER))
        fail_msg("defect %u, order %d: want %s at %s:%d with '%s', got %d findings, first: %s", i, order,
                 emu_kind_name(d->kind), d->file, d->line, d->words, r.findings,
                 r.findings ? r.finding[0].text : "-");
      for (int f = 0; f < r.findings; f++)
        if (r.finding[f].kind != d->kind && r.finding[f].kind != EMU_PADDING &&
            (d->kind != EMU_RACE || r.finding[f].kind != EMU_UNINITIALISED))
          fail_msg("defect %u, order %d: beside it: %s", i, order, r.finding[f].text);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sound_kernels_give_no_finding),
      cmocka_unit_test(every_defect_is_found_on_its_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
