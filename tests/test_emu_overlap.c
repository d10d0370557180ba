/* test_emu_overlap.c -- launches that overlap in the emulator, and blocks that wait for numbers in device
 * memory: what is in order, and that what is not is found on its line. */
#include "emu_bench.h"

#define FIRST "extern \"C\" __global__ void __launch_bounds__(64) first(const call a, float *w, i32 *n) {\n"
#define SECOND                                                                                               \
  "}\nextern \"C\" __global__ void __launch_bounds__(64) second(const call a, float *w, i32 *n) {\n"
#define THIRD                                                                                                \
  "}\nextern \"C\" __global__ void __launch_bounds__(64) third(const call a, float *w, i32 *n) {\n"
#define NUMBER  "workspace 1040\nclear 1024 16\n"
#define CLEARED "workspace 1040\nclear 0 1040\n"
#define LAUNCHES                                                                                             \
  "launch first grid 4 block 64 shared 64 args call ws(0) ws(1024)\n"                                        \
  "launch second grid 2 block 64 shared 64 overlap args call ws(0) ws(1024)\n"
#define TWO   NUMBER LAUNCHES
#define THREE TWO "launch third grid 1 block 64 shared 64 overlap args call ws(0) ws(1024)\n"
#define ALONE NUMBER "launch first grid 4 block 64 shared 64 args call ws(0) ws(1024)\n"

#define FILL "w[64 * block_id() + thread_id()] = 1.f;\n"
#define ASK  "a.y[thread_id()] = block_id() ? 1.f : w[65];\n"
#define WAIT "launch_wait();\n"
/* Who of a block has filled its part says so. */
#define TELL "block_sync();\nif (thread_id() == 0) count_up(n);\n"

typedef struct overlap {
  const char *kernels, *steps;
  int line; /* of the finding; 0: there is none */
  const char *words;
} overlap;

static const overlap cases[] = {
    /* who waits comes behind; who does not is found, a reader and a writer, whether or not it is let begin
       early */
    {FIRST "launch_next();\n" FILL SECOND WAIT "if (block_id() == 0) " ASK "}\n", TWO, 0, NULL},
    {FIRST "launch_next();\n" FILL SECOND "if (block_id() == 0) " ASK "}\n", TWO, 6,
     "of a launch before wrote"},
    {FIRST FILL SECOND "if (block_id() == 0) " ASK "}\n", TWO, 5, "of whose end it does not know"},
    {FIRST "if (block_id() + thread_id() == 0) a.y[0] = w[0];\n" SECOND FILL "}\n", CLEARED LAUNCHES, 5,
     "of a launch before read"},
    /* one waits for its block, its warp, or tells of it by a barrier in shared memory; a shuffle tells
       nothing */
    {FIRST FILL SECOND "if (thread_id() == 63) " WAIT "block_sync();\nif (block_id() == 0) " ASK "}\n", TWO,
     0, NULL},
    {FIRST FILL SECOND "if (thread_id() % 32 == 0) " WAIT "warp_sync();\nif (block_id() == 0) " ASK "}\n",
     TWO, 0, NULL},
    {FIRST FILL SECOND "if (thread_id() == 0) " WAIT "warp_sync();\nif (block_id() == 0) " ASK "}\n", TWO, 7,
     "of block 0 of second reads"},
    {FIRST FILL SECOND
     "const u32 at = shared_address(shared_memory());\n"
     "if (thread_id() == 0) { barrier_init(at, 1); barrier_init_fence(); }\nblock_sync();\n"
     "if (thread_id() == 1) { launch_wait(); barrier_arrive(at); }\nwhile (!barrier_passed(at, 0)) {}\n"
     "if (block_id() == 0) " ASK "}\n",
     TWO, 0, NULL},
    {FIRST FILL SECOND "if (thread_id() % 32 == 0) " WAIT "const float x = shfl_xor(1.f, 1);\n"
                       "if (block_id() == 0) a.y[thread_id()] = x * w[65];\n}\n",
     TWO, 7, "of a launch before wrote"},
    /* the launch before the last: known where all of the last had waited for it before they let others begin,
       or ended */
    {FIRST FILL SECOND WAIT "launch_next();\n" THIRD ASK "}\n", THREE, 0, NULL},
    {FIRST FILL SECOND WAIT THIRD ASK "}\n", THREE, 0, NULL},
    {FIRST FILL SECOND "launch_next();\n" WAIT THIRD ASK "}\n", THREE, 9, "of a launch before wrote"},
    {FIRST FILL SECOND "if (block_id() == 0) " WAIT THIRD ASK "}\n", THREE, 8, "of a launch before wrote"},
    {FIRST FILL SECOND THIRD WAIT ASK "}\n", THREE, 0, NULL},
    /* a number that others count up: of blocks of one launch, and of the one that goes on */
    {FIRST FILL TELL "if (block_id() == 0) {\nawait_count(n, 4);\n" ASK "}\n}\n", ALONE, 0, NULL},
    {FIRST FILL TELL "if (block_id() == 0) {\n" ASK "}\n}\n", ALONE, 6, "with nothing in between"},
    {FIRST FILL "if (thread_id() == 0) count_up(n);\nif (block_id() == 0) {\nawait_count(n, 4);\n" ASK
                "}\n}\n",
     ALONE, 6, "with nothing in between"},
    {FIRST "launch_next();\n" FILL TELL SECOND "await_count(n, 4);\nif (block_id() == 0) " ASK "}\n", TWO, 0,
     NULL},
    {FIRST "launch_next();\n" FILL TELL SECOND
           "if (thread_id() < 32) await_count(n, 4);\nblock_sync();\nif (block_id() == 0) " ASK "}\n",
     TWO, 0, NULL},
    {FIRST "launch_next();\n" FILL TELL SECOND
           "if (thread_id() < 32) await_count(n, 4);\nif (block_id() == 0) " ASK "}\n",
     TWO, 9, "of block 0 of second reads"},
    /* sums of all that count */
    {FIRST "launch_next();\natomic_add(n + 2, 1);\n" TELL SECOND
           "await_count(n, 4);\nif (block_id() == 0) a.y[thread_id()] = n[2];\n}\n",
     TWO, 0, NULL},
    {FIRST "launch_next();\natomic_add(n + 2, 1);\n" TELL SECOND
           "if (block_id() == 0) a.y[thread_id()] = n[2];\n}\n",
     TWO, 8, "which atomics of others change"},
    /* more than are counted */
    {FIRST TELL "if (block_id() == 0) await_count(n, 5);\n}\n", ALONE, 4, ""},
};

static void what_overlaps_is_ordered_by_waits_alone(void **state)
{
  (void)state;
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int order = EMU_IN_ORDER; order <= EMU_RANDOM; order++) {
      const emu_options options = {.order = (emu_order)order, .seed = i, .resident = 4};
      bench b = bench_open();
      const emu_report r = bench_run(&b, cases[i].kernels, cases[i].steps, &options);
      if (cases[i].line == 0 && r.findings)
        fail_msg("case %u, order %d: %s", i, order, r.finding[0].text);
      if (cases[i].line != 0 && !r.findings)
        fail_msg("case %u, order %d: nothing is found", i, order);
      if (cases[i].line != 0 &&
          (r.finding[0].line != cases[i].line || !strstr(r.finding[0].text, cases[i].words)))
        fail_msg("case %u, order %d: line %d: %s", i, order, r.finding[0].line, r.finding[0].text);
      emu_close(b.e);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_overlaps_is_ordered_by_waits_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
