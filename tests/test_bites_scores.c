/* test_bites_scores.c -- the emulator bites kernels in what features make of scores: each hook is spoiled in
 * one place after another, and each must be found by a wrong result. A table holds the defects
 * (bites_defects.h says how). */
#include "bites_defects.h"

#define CAP     "fwd-f16-b1-h2k1-q67-k70-d64-softcap all data=wide"
#define CAP_32  "fwd-f32-b1-h1-q20-k35-d40-softcap all data=wide scale=-0.3"
#define CAP_BWD "bwd-f16-b1-h2k1-q70-k90-d40-causal-softcap all data=wide"

#define ALIBI     "fwd-f16-b2-h2k1-q67-k70-d64-alibi all"
#define ALIBI_CUT "fwd-f16-b2-h2k1-q67-k70-d64-causal-alibi all"
#define ALIBI_32  "fwd-f32-b2-h2k1-q20-k35-d40-alibi all"
#define ALIBI_BWD "bwd-f16-b2-h2k1-q70-k90-d40-alibi-softcap all"

#define SINK_BWD "bwd-f16-b2-h2k1-q70-k90-d40-causal-sink-dsink all"

static const defect defects[] = {
    /* the gradient of sinks: its sign, all batches, whole blocks */
    {"bwd,bwd_two", "sum -= ex2(sink - of.x) * of.y", "sum += ex2(sink - of.x) * of.y", SINK_BWD, WRONG, NULL,
     NULL},
    {"bwd,bwd_two", "(i64(b) * a.h + h) * rows_of_head", "i64(h) * rows_of_head", SINK_BWD, WRONG, NULL,
     NULL},
    {"fa1_bwd,standard_bwd", "*at.sink - at.LSE[i]", "-at.LSE[i]", SINK_BWD, WRONG, NULL, NULL},
    {"bwd", "n < T && thread_id() == 0", "n < 32 && thread_id() == 0", SINK_BWD, WRONG, NULL, NULL},
    /* alibi: the slope of the batch, the diagonal's place, both of its sides, its share in the derivative */
    {"fwd", "b * a.slopes.b + ", "", ALIBI, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "at.nq - i", "at.nk - i", ALIBI_32, WRONG, NULL, NULL},
    {"fwd", "fabsf(first + along)", "(first + along)", ALIBI, WRONG, NULL, NULL},
    {"fwd", "first *= slope;", "", ALIBI_CUT, WRONG, NULL, NULL},
    {"bwd,bwd_two", "float(-on)", "float(on)", ALIBI_BWD, WRONG, NULL, NULL},
    {"fa1_bwd,standard_bwd,bwd,bwd_two", "L - added.at(c)", "L", ALIBI_BWD, WRONG, NULL, NULL},
    /* softcap: the cap on either side, the sign of the scale, the derivative with and without its LSE */
    {"fwd", "a.scale / a.softcap", "a.scale", CAP, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "1.44269504088896f * a.softcap", "1.44269504088896f", CAP_32, WRONG, NULL, NULL},
    {"fwd", "a.scale / a.softcap", "fabsf(a.scale) / a.softcap", CAP_32, WRONG, NULL, NULL},
    {"fa1_bwd,bwd,bwd_two", "fmaf(-t, t, 1.f)", "1.f", CAP_BWD, WRONG, NULL, NULL},
    {"standard_bwd,bwd", "lg2(P) + L", "lg2(P)", CAP_BWD, WRONG, NULL, NULL},
};

static void every_defect_is_found(void **state)
{
  (void)state;
  defects_are_found(defects, sizeof defects / sizeof *defects);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_defect_is_found),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
