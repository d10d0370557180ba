/* test_bites_scores.c -- the emulator bites kernels in what features make of scores: each hook is spoiled in
 * one place after another, and each must be found by a wrong result. A table holds the defects
 * (bites_defects.h says how). */
#include "bites_defects.h"

#define CAP     "fwd-f16-b1-h2k1-q67-k70-d64-softcap all data=wide"
#define CAP_32  "fwd-f32-b1-h1-q20-k35-d40-softcap all data=wide scale=-0.3"
#define CAP_BWD "bwd-f16-b1-h2k1-q70-k90-d40-causal-softcap all data=wide"

static const defect defects[] = {
    /* softcap: the cap on either side, the sign of the scale, the derivative with and without its LSE */
    {"fwd", "a.scale / a.softcap", "a.scale", CAP, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "log2e * a.softcap", "log2e", CAP_32, WRONG, NULL, NULL},
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
