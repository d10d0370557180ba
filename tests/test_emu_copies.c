/* test_emu_copies.c -- copies that run on by themselves, in the emulator: a ring of copies is sound under
 * every order and landing, and each of its parts is missed where it is left out.
 *
 * The bench is that of emu_bench.h. */
#include "emu_bench.h"

/* A ring of two slots of 256 words. In each of 9 steps every thread begins to copy its chunk of the next
 * slot, waits for its chunk of this one, meets the others, and adds up a word that another thread has copied.
 */
#define RING(begin, commit, wait, met, seen, end)                                                            \
  KERNEL(AT)                                                                                                 \
  "const i32 t = thread_id();\nu32 sum = 0;\n"                                                               \
  "copy_async(at + 16 * t, a.u + 4 * t, true);\n"                                                            \
  "copy_commit();\n"                                                                                         \
  "for (i32 s = 0; s < 9; s++) {\n" begin "\n" commit "\n" wait "\n" met "\n"                                \
  "sum += get4(at + s % 2 * 1024 + 4 * (255 - t));\n" seen "\n}\n" end "\na.v[t] = sum;\n}"

/* Its pieces and their lines; line 11 reads. */
#define BEGIN /* 7 */                                                                                        \
  "if (s < 8) copy_async(at + (s + 1) % 2 * 1024 + 16 * t, a.u + 256 * (s + 1) + 4 * t, true);"
#define COMMIT "copy_commit();"  /* 8 */
#define WAIT   "copy_wait<1>();" /* 9 */
#define MET    "block_sync();"   /* 10 */
#define SEEN   "block_sync();"   /* 12 */

static const char one_ring[] = "workspace 256\nlaunch k grid 1 block 64 shared 2048 args call ws(0)\n";

static const emu_landing landings[] = {EMU_LAND_LATE, EMU_LAND_EARLY, EMU_LAND_RANDOM};
enum { LANDINGS = 3, ORDERS = 3 };

typedef struct sound {
  const char *kernel;
  uint32_t first, step; /* v[t] is first + step t */
} sound;

static const sound sounds[] = {
    {RING(BEGIN, COMMIT, WAIT, MET, SEEN, ""), 9 * 255 + 256 * 36, 0u - 9},
    /* a copy that is not real reads nothing, not even beyond a tensor, and leaves zeros */
    {KERNEL(AT) "const i32 t = thread_id();\nput4(at + 4 * t, 7);\nblock_sync();\n"
                "if (t < 16) copy_async(at + 16 * t, a.u + 4 * t + (t % 2 ? 1 << 30 : 0), t % 2 == 0);\n"
                "copy_commit();\ncopy_wait<0>();\nblock_sync();\n"
                "a.v[t] = (t / 4 % 2 ? get4(at + 4 * t) + t : get4(at + 4 * t));\n}",
     0, 1},
    /* its own thread sees a chunk without a barrier; empty groups count; what was read may be written again
     */
    {KERNEL(AT) "const i32 t = thread_id();\ncopy_async(at + 16 * t, a.u + 4 * t, true);\ncopy_commit();\n"
                "copy_commit();\ncopy_commit();\ncopy_wait<2>();\n"
                "a.v[t] = get16(at + 16 * t).at[0] - 3 * t;\nput4(at + 16 * t, 1);\na.u[4 * t] = 5;\n}",
     0, 1},
    /* a chunk whose halves were written apart before, and are read apart after */
    {KERNEL(
         AT) "const i32 t = thread_id();\nu16 *const s = (u16 *)shared_memory();\n"
             "for (i32 i = 0; i < 16; i++) s[t + 64 * i] = i;\nblock_sync();\n"
             "copy_async(at + 16 * t, a.u + 4 * t, true);\ncopy_commit();\ncopy_wait<0>();\nblock_sync();\n"
             "a.v[t] = s[2 * t] + s[2 * t + 1];\n}",
     0, 1},
};

static void sound_copies_give_no_finding(void **state)
{
  (void)state;
  for (unsigned i = 0; i < sizeof sounds / sizeof *sounds; i++)
    for (int run = 0; run < ORDERS * LANDINGS; run++) {
      const sound *s = &sounds[i];
      emu_options options = {
          .order = (emu_order)(run / LANDINGS), .landing = landings[run % LANDINGS], .seed = i};
      bench b = bench_open();
      emu_report r = bench_run(&b, s->kernel, one_ring, &options);
      if (r.findings)
        fail_msg("sound kernel %u, run %d: %s", i, run, r.finding[0].text);
      assert_true(r.copies >= 16);
      for (uint32_t t = 0; t < 64; t++)
        if (b.a.v[t] != s->first + s->step * t)
          fail_msg("sound kernel %u, run %d: v[%u] is %u, not %u", i, run, t, b.a.v[t],
                   s->first + s->step * t);
      emu_close(b.e);
    }
}

/* One thread's copy, seen by itself. */
#define ALONE(before, after)                                                                                 \
  KERNEL(AT) "if (thread_id() == 0) {\n" before "\ncopy_async(at, a.u, true);\n" after "\n}\n}"

static const defect defects[] = {
    {RING(BEGIN, COMMIT, "", MET, SEEN, "copy_wait<0>();"), one_ring, EMU_RACE, "templates/t.cu", 11,
     "which a copy may still be writing that thread"},
    /* without the commit of each step the wait for all but one covers too little */
    {RING(BEGIN, "", WAIT, MET, SEEN, "copy_commit(); copy_wait<0>();"), one_ring, EMU_RACE, "templates/t.cu",
     11, "may still be writing"},
    /* a wait that leaves one too many */
    {RING(BEGIN, COMMIT, "copy_wait<2>();", MET, SEEN, "copy_wait<0>();"), one_ring, EMU_RACE,
     "templates/t.cu", 11, "may still be writing"},
    /* others see a chunk after a barrier that follows the wait, not the one before it */
    {RING(BEGIN, COMMIT, WAIT, "", SEEN, ""), one_ring, EMU_RACE, "templates/t.cu", 11,
     "reads shared memory["},
    {RING(BEGIN, COMMIT, "block_sync();", WAIT, SEEN, ""), one_ring, EMU_RACE, "templates/t.cu", 11,
     "reads shared memory["},
    /* the slot that others still read is filled again */
    {RING(BEGIN, COMMIT, WAIT, MET, "", ""), one_ring, EMU_RACE, "templates/t.cu", 7, "templates/t.cu:11"},
    /* the end comes first */
    {ALONE("", "copy_commit();"), one_ring, EMU_NEVER_AWAITED, "templates/t.cu", 4,
     "ends while this copy to shared memory[0] may still run"},
    {ALONE("", "copy_wait<0>();"), one_ring, EMU_NEVER_AWAITED, "templates/t.cu", 4, "never awaited"},
    {ALONE("", "copy_commit(); copy_wait<1>();"), one_ring, EMU_NEVER_AWAITED, "templates/t.cu", 4,
     "never awaited"},
    /* its own thread touches it while it runs: reads, writes, begins another */
    {ALONE("", "a.v[0] = get4(at + 12);\ncopy_commit(); copy_wait<0>();"), one_ring, EMU_RACE,
     "templates/t.cu", 5, "which a copy may still be writing that thread 0"},
    {ALONE("", "put4(at + 8, 1);\ncopy_commit(); copy_wait<0>();"), one_ring, EMU_RACE, "templates/t.cu", 5,
     "began at templates/t.cu:4"},
    {ALONE("", "copy_commit();\ncopy_async(at, a.u + 4, true); copy_commit(); copy_wait<0>();"), one_ring,
     EMU_RACE, "templates/t.cu", 6, "began at templates/t.cu:4"},
    {ALONE("", "((u16 *)shared_memory())[3] = 1;\ncopy_commit(); copy_wait<0>();"), one_ring, EMU_RACE,
     "templates/t.cu", 5, "began at templates/t.cu:4"},
    /* the source changes: by its own thread, by another behind a barrier and before one, half of a word */
    {ALONE("", "a.u[3] = 1;\ncopy_commit(); copy_wait<0>();"), one_ring, EMU_RACE, "templates/t.cu", 5,
     "reads u[3], which thread 0"},
    {ALONE("", "a.u[3] = 1; a.v[0] = a.u[3];\ncopy_commit(); copy_wait<0>();"), one_ring, EMU_RACE,
     "templates/t.cu", 5, "reads u[3]"},
    {ALONE("", "((u16 *)a.u)[3] = 1;\ncopy_commit(); copy_wait<0>();"), one_ring, EMU_RACE, "templates/t.cu",
     5, "u[1]"},
    {KERNEL(AT) "if (thread_id() == 0) copy_async(at, a.u, true);\nblock_sync();\n"
                "if (thread_id() == 40) a.u[2] = 1;\nblock_sync();\ncopy_commit(); copy_wait<0>();\n}",
     one_ring, EMU_RACE, "templates/t.cu", 4, "reads u[2], which thread 40"},
    /* the same after the wait, but with no barrier */
    {KERNEL(AT) "if (thread_id() == 0) copy_async(at, a.u, true);\ncopy_commit(); copy_wait<0>();\n"
                "if (thread_id() == 40) a.u[2] = 1;\n}",
     one_ring, EMU_RACE, "templates/t.cu", 4, "u[2]"},
    /* addresses: neither end aligned, neither inside, the source in shared memory or on the stack */
    {ALONE("", "copy_async(at + 8, a.u, true);"), one_ring, EMU_MISALIGNED, "templates/t.cu", 5,
     "shared memory[2]"},
    {ALONE("", "copy_async(at, a.u + 1, true);"), one_ring, EMU_MISALIGNED, "templates/t.cu", 5, "u[1]"},
    {ALONE(
         "",
         "copy_commit(); copy_wait<0>();\ncopy_async(at, a.u + 65536, true); copy_commit(); copy_wait<0>();"),
     one_ring, EMU_OUT_OF_BOUNDS, "templates/t.cu", 6, "reads u at byte 262144"},
    {ALONE("", "copy_commit(); copy_wait<0>();\ncopy_async(at + 2048, a.u, true);"), one_ring,
     EMU_OUT_OF_BOUNDS, "templates/t.cu", 6, "writes shared memory at byte 2048"},
    {ALONE("", "copy_commit(); copy_wait<0>();\ncopy_async(at + 16, shared_memory(), true);"), one_ring,
     EMU_OUT_OF_BOUNDS, "templates/t.cu", 6, "reads shared memory[0]"},
    {ALONE("", "copy_commit(); copy_wait<0>();\nquad q = {}; copy_async(at + 16, &q, true);"), one_ring,
     EMU_OUT_OF_BOUNDS, "templates/t.cu", 6, "belongs to no tensor"},
    {ALONE("",
           "copy_commit(); copy_wait<0>();\ncopy_async(at + 16, a.v, true); copy_commit(); copy_wait<0>();"),
     one_ring, EMU_UNINITIALISED, "templates/t.cu", 6, "reads v[0]"},
};

static void every_defect_is_found_on_its_line(void **state)
{
  (void)state;
  for (unsigned i = 0; i < sizeof defects / sizeof *defects; i++)
    for (int run = 0; run < ORDERS * LANDINGS; run++) {
      const defect *d = &defects[i];
      emu_options options = {
          .order = (emu_order)(run / LANDINGS), .landing = landings[run % LANDINGS], .seed = i};
      bench b = bench_open();
      emu_report r = bench_run(&b, d->kernel, d->steps, &options);
      emu_close(b.e);
      if (!bench_finds(d, &r, options.order == EMU_IN_ORDER))
        fail_msg("defect %u, run %d: want %s at %s:%d with '%s', got %d findings, first: %s", i, run,
                 emu_kind_name(d->kind), d->file, d->line, d->words, r.findings,
                 r.findings ? r.finding[0].text : "-");
      for (int f = 0; f < r.findings; f++)
        if (r.finding[f].kind != d->kind && (d->kind != EMU_RACE || r.finding[f].kind != EMU_UNINITIALISED))
          fail_msg("defect %u, run %d: beside it: %s", i, run, r.finding[f].text);
    }
}

/* When a copy lands decides what a kernel sees that does not wait for it. */
static void landing_is_the_runs_choice(void **state)
{
  (void)state;
  static const char kernel[] = KERNEL(AT) "const i32 t = thread_id();\nput4(at + 16 * t, 77);\n"
                                          "copy_async(at + 16 * t, a.u + 4 * t + 64, true);\nwarp_sync();\n"
                                          "a.v[t] = get4(at + 16 * t);\ncopy_commit();\ncopy_wait<0>();\n}";
  int seen[LANDINGS] = {0};
  for (int i = 0; i < LANDINGS; i++) {
    emu_options options = {.landing = landings[i], .seed = 3};
    bench b = bench_open();
    bench_run(&b, kernel, one_ring, &options);
    for (uint32_t t = 0; t < 64; t++) {
      assert_true(b.a.v[t] == 77 || b.a.v[t] == 4 * t + 64);
      seen[i] += b.a.v[t] != 77;
    }
    emu_close(b.e);
  }
  assert_int_equal(seen[0], 0);
  assert_int_equal(seen[1], 64);
  assert_in_range(seen[2], 1, 63);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sound_copies_give_no_finding),
      cmocka_unit_test(every_defect_is_found_on_its_line),
      cmocka_unit_test(landing_is_the_runs_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
