/* test_runtime_oom.c -- every allocation of libfatune's calls fails in turn (__wrap_malloc), SQLite's among
 * them: a status, a sentence, nothing lost, and the next call works. */
#include "runtime_fixture.h"
#include "starve.h"

enum { MOST = 20000 };

/* A family's plan that has built nothing, one that takes over from it, and calls, of a length never seen and
 * of a stored one, which need no memory: they succeed where nothing is left. */
static fatune_status family_calls(fatune *h, attention *a)
{
  const fat_problem *p = &a->p;
  fatune_sizes sizes = {.size = sizeof sizes, .b = p->b, .h = p->h, .hk = p->hk, .q = p->q, .k = p->k};
  fatune_request r = request_of("fwd-f32-d64-causal", FATUNE_FALLBACK);
  const fatune_sizes none = {.size = sizeof none};
  fatune_plan *plan = NULL;
  size_t bytes;
  r.sizes = &none;
  fatune_status status = fatune_plan_make(h, &r, &plan);
  fatune_plan_free(plan);
  plan = NULL;
  r.sizes = NULL;
  if (status == FATUNE_OK)
    status = fatune_plan_make(h, &r, &plan);
  if (status == FATUNE_OK)
    status = fatune_workspace(plan, &sizes, &bytes);
  if (status == FATUNE_OK) {
    const long budget = starve_budget;
    const bool all = starve_on;
    starve_budget = 0;
    starve_on = true;
    sizes.k = p->k - 1;
    status = fatune_run(plan, tensors_of(a), &sizes, NULL, NULL);
    sizes.k = p->k;
    if (status == FATUNE_OK)
      status = fatune_run(plan, tensors_of(a), &sizes, NULL, NULL);
    starve_budget = budget;
    starve_on = all;
  }
  fatune_plan_free(plan);
  return status;
}

/* Opens, plans, looks, describes, runs and closes; FATUNE_OK where all of it went well. */
static fatune_status all_calls(attention *a)
{
  fatune *h = NULL;
  fatune_plan *plan = NULL;
  size_t bytes;
  char why[2000];
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  fatune_request named = r;
  named.kernel = "fwd";
  fatune_status status = fatune_open(NULL, &h);
  if (status == FATUNE_OK)
    status = fatune_why(h, &r, why, sizeof why);
  if (status == FATUNE_OK)
    status = fatune_plan_make(h, &named, &plan);
  fatune_plan_free(plan);
  plan = NULL;
  if (status == FATUNE_OK)
    status = fatune_plan_make(h, &r, &plan);
  if (status == FATUNE_OK)
    status = fatune_workspace(plan, NULL, &bytes);
  if (status == FATUNE_OK)
    status = fatune_run(plan, tensors_of(a), NULL, NULL, NULL);
  if ((plan != NULL) != (status == FATUNE_OK))
    fail_msg("a plan beside the status '%s'", fatune_status_text(status));
  fatune_plan_free(plan);
  if (status == FATUNE_OK)
    status = family_calls(h, a);
  fatune_close(h);
  return status;
}

static void fail_each(bool all_that_follow)
{
  attention a = attention_make(ASKED, 0, 0);
  fake_live before, after;
  store_usual();
  store((stored){.problem = "fwd-f32-b2-h4k2-q2000-k2000-d64-causal",
                 .gpu = "H200",
                 .config = WIDE,
                 .ms = 1,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  cu.fake_count(&before);
  long n = 0;
  /* SQLite's are thousands: each of them in the long form, else about one in thirty. */
  for (; n < MOST; n += n < 100 || getenv("FATUNE_FULL") ? 1 : 1 + n % 61) {
    starve_after(n, all_that_follow);
    fatune_status status = all_calls(&a);
    bool refused = starve_end();
    if (status != FATUNE_OK && status != FATUNE_ERR_MEMORY)
      fail_msg("allocation %ld: '%s': %s", n, fatune_status_text(status), fatune_detail());
    if (status == FATUNE_OK && refused && all_that_follow)
      fail_msg("allocation %ld and all after it failed, and no call did", n);
    cu.fake_count(&after);
    assert_int_equal(after.modules, before.modules);
    if (!refused)
      break;
  }
  assert_in_range(n, 100, MOST - 1);
  assert_int_equal(all_calls(&a), FATUNE_OK);
  is_right(&a);
  attention_free(&a);
}

static void each_allocation_fails(void **state)
{
  (void)state;
  fail_each(false);
}

static void memory_runs_out(void **state)
{
  (void)state;
  fail_each(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(each_allocation_fails, begin),
      cmocka_unit_test_setup(memory_runs_out, begin),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
