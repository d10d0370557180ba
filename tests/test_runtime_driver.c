/* test_runtime_driver.c -- a driver that says its version: a plan names what has changed since its row was
 * measured, and takes it all the same. The version is what the driver's file is called. */
#define FAKE_DRIVER driver
static char driver[400];
#include "runtime_fixture.h"

#define SINCE "driver '580.1', now '590.44.1'"

/* The fake driver under the name that an installed one has. */
static int begin_named(void **state)
{
  fat_text bytes = {0};
  if (!driver[0]) {
    snprintf(driver, sizeof driver, "%s/libcuda.so.590.44.1", files.path);
    MUST(fat_text_read_file(&bytes, FAKES "/fake_cuda.so", 1 << 28, err));
    fixture_write(driver, bytes.data, bytes.length);
    fat_text_free(&bytes);
    setenv("FATUNE_LIBCUDA", driver, 1);
  }
  return begin(state);
}

static void a_row_of_another_driver_serves(void **state)
{
  (void)state;
  char why[4000];
  store_usual();
  fatune *h = open_usual();
  fatune_request r = request_of(ASKED, FATUNE_FAIL);
  MUST_RUN(fatune_why(h, &r, why, sizeof why));
  assert_non_null(strstr(why, SINCE));
  fatune_plan *plan = plan_of(h, ASKED);
  describes(plan, "pick exact");
  describes(plan, "row-differences " SINCE);
  computes(plan, ASKED, 0);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* A prediction was made without any driver. */
static void a_prediction_has_no_driver(void **state)
{
  (void)state;
  store((stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_PREDICTED});
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  describes(plan, "pick predicted");
  assert_null(strstr(fatune_describe(plan), "row-differences"));
  fatune_plan_free(plan);
  fatune_close(h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_row_of_another_driver_serves, begin_named),
      cmocka_unit_test_setup(a_prediction_has_no_driver, begin_named),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
