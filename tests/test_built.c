/* test_built.c -- a family's kernels that are compiled when calls need them (fatune_request.sizes). Needs an
 * NVRTC. */
#include "jit_fixture.h"
#include "plan.h"
#include <pthread.h>
#include <stdatomic.h>

#define FAMILY "fwd-f16-d64-causal"
#define LONG   "fwd-f16-b2-h8-q2048-k2048-d64-causal"
#define SHORT  "fwd-f16-b4-h8-q256-k256-d64-causal"
#define MIDDLE "fwd-f16-b4-h8-q700-k700-d64-causal"
#define TWICE  "fwd-f16-b1-h8-q4096-k4096-d64-causal" /* by the kernel of LONG */
#define DECODE "fwd-f16-b2-h8k2-q1-k2048-d64-causal"

static const struct {
  const char *problem, *config;
  double ms;
} rows[] = {
    {LONG, "fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16", 0.1},    {TWICE, "fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16", 0.19},
    {SHORT, "fwd:Br32-Bc32-w2-s1-Q0-b1-Z1-W16", 0.01},  {MIDDLE, "fwd:Br64-Bc32-w4-s1-Q0-b1-Z1-W16", 0.03},
    {DECODE, "fwd:Br16-Bc32-w1-s1-Q0-b1-Z1-W16", 0.01},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* One of them, without a binary. */
static void store_unbuilt(int row)
{
  store((stored){.problem = rows[row].problem,
                 .gpu = "H200",
                 .config = rows[row].config,
                 .ms = rows[row].ms,
                 .origin = FAT_MEASURED,
                 .no_content = true});
}

/* All shapes, of which none is compiled. */
static int begin_unbuilt(void **state)
{
  begin_jit(state);
  for (int i = 0; i < ROWS; i++)
    store_unbuilt(i);
  return 0;
}

static fatune_sizes sizes_of(const char *problem)
{
  fat_problem p;
  MUST(fat_problem_parse(problem, &p, err));
  return (fatune_sizes){.size = sizeof(fatune_sizes), .b = p.b, .h = p.h, .hk = p.hk, .q = p.q, .k = p.k};
}

/* The family's plan for a call of this problem; NULL: with all kernels. */
static fatune_plan *built_for(fatune *h, const char *problem)
{
  fatune_plan *plan = NULL;
  const fatune_sizes sizes = problem ? sizes_of(problem) : (fatune_sizes){0};
  fatune_request r = request_of(FAMILY, FATUNE_COMPILE);
  r.flags = FATUNE_ALIGNED;
  r.sizes = problem ? &sizes : NULL;
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  return plan;
}

static long loads(void)
{
  return cu.fake_calls("cuModuleLoadData");
}

/* The config that a call is given; "": it waits for one. */
static const char *given(const fatune_plan *plan, const char *problem)
{
  fat_problem p;
  MUST(fat_problem_parse(problem, &p, err));
  const fat_shape *shape = fat_family_best(&plan->family, &p, &plan->room, NULL);
  assert_non_null(shape);
  return shape->main < 0 ? "" : plan->family.code[shape->main].config;
}

static fatune_status run(const fatune_plan *plan, const char *problem)
{
  size_t bytes = 0;
  const fatune_sizes sizes = sizes_of(problem);
  attention a = attention_make(problem, 0, 0);
  cu.fake_compute(FAKE_NOTHING);
  fatune_status status = fatune_run(plan, tensors_of(&a), &sizes, device_memory(1 << 20), NULL);
  assert_int_equal(fatune_workspace(plan, &sizes, &bytes), status);
  attention_free(&a);
  return status;
}

/* The call's kernel alone; a call that needs another one says so, and gets it with a plan of its own. */
static void what_a_call_needs_is_compiled(void **state)
{
  (void)state;
  fatune *h = open_usual();
  const long before = loads();
  fatune_plan *first = built_for(h, LONG);
  assert_int_equal(loads(), before + 1);
  describes(first, "variants 5");
  describes(first, "cubins 1");
  describes(first, "variant " LONG " exact fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16");
  describes(first, "variant " TWICE " exact fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16\n");
  describes(first, "variant " SHORT " exact fwd:Br32-Bc32-w2-s1-Q0-b1-Z1-W16 unbuilt");
  assert_null(strstr(fatune_describe(first), "rebuild"));
  MUST_RUN(run(first, LONG));
  MUST_RUN(run(first, TWICE));
  EXPECT(FATUNE_ERR_MISS, "not compiled yet", run(first, SHORT));
  fatune_plan *again = built_for(h, "fwd-f16-b4-h8-q4096-k4096-d64-causal");
  assert_ptr_equal(again, first); /* it has what that needs */
  fatune_plan_free(again);
  fatune_plan *second = built_for(h, SHORT);
  assert_ptr_not_equal(second, first);
  assert_int_equal(loads(), before + 2); /* the first kernel is there */
  MUST_RUN(run(second, LONG));
  MUST_RUN(run(second, SHORT));
  MUST_RUN(run(first, LONG)); /* as before */
  EXPECT(FATUNE_ERR_MISS, "not compiled yet", run(first, SHORT));
  again = built_for(h, LONG);
  assert_ptr_equal(again, second);
  fatune_plan_free(again);
  fatune_plan_free(first);
  fatune_plan_free(second);
  fatune_close(h);
}

/* Without sizes all is compiled, and whoever names some gets that, too. */
static void all_at_once(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *one = built_for(h, LONG), *all = built_for(h, NULL), *again = built_for(h, SHORT);
  assert_ptr_not_equal(one, all);
  assert_ptr_equal(all, again);
  assert_null(strstr(fatune_describe(all), "unbuilt"));
  for (int i = 0; i < ROWS; i++) {
    assert_string_equal(given(all, rows[i].problem), rows[i].config);
    MUST_RUN(run(all, rows[i].problem));
  }
  fatune_plan_free(one);
  fatune_plan_free(all);
  fatune_plan_free(again);
  fatune_close(h);
}

/* Every call gets the kernel that it gets where all are compiled; what is compiled is kept. */
static void calls_get_the_same(void **state)
{
  (void)state;
  unsigned seed = 7;
  fatune *h = open_usual(), *other = open_usual();
  fatune_plan *all = built_for(h, NULL);
  fixture_sql(path, "DELETE FROM binary"); /* for `other` none is */
  for (int i = 0; i < 60; i++) {
    char problem[FAT_PROBLEM_TEXT];
    int number[4];
    for (int j = 0; j < 4; j++) {
      seed = seed * 1664525u + 1013904223u;
      number[j] = 1 + (int)(seed >> 8) % (j < 2 ? 8 : 3000);
    }
    snprintf(problem, sizeof problem, "fwd-f16-b%d-h%d-q%d-k%d-d64-causal", number[0], number[1],
             i % 4 ? number[2] : 1, number[3]);
    fatune_plan *plan = built_for(other, problem);
    assert_string_equal(given(plan, problem), given(all, problem));
    fatune_plan_free(plan);
  }
  fatune_plan_free(all);
  fatune_close(h);
  fatune_close(other);
  h = open_usual();
  const long before = loads();
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  fatune_plan *plan = built_for(h, LONG);
  assert_true(loads() > before + 1); /* those that are stored by now */
  describes(plan, "kernel-from stored");
  fatune_plan_free(plan);
  fatune_close(h);
}

/* Where nothing can be kept, a later plan has what an earlier one compiled, the defaults too. */
static void nowhere_to_keep_it(void **state)
{
  static const char far[] = "fwd-f16-b16-h32-q3-k3-d64-causal";
  (void)state;
  const fatune_options read_only = {.size = sizeof read_only, .database = "", .system_database = path};
  fatune *h = NULL;
  MUST_RUN(fatune_open(&read_only, &h));
  fatune_plan *first = built_for(h, LONG), *second = built_for(h, far), *third = built_for(h, SHORT);
  assert_int_equal(first->family.codes, 1);
  assert_true(second->family.codes > 1 && third->family.codes == second->family.codes + 1);
  for (int i = 0; i < second->family.codes; i++)
    assert_ptr_equal(third->family.code[i].recipe, second->family.code[i].recipe);
  assert_ptr_equal(first->family.code[0].recipe, second->family.code[0].recipe);
  fatune_plan_free(first);
  fatune_plan_free(second);
  MUST_RUN(run(third, LONG));
  MUST_RUN(run(third, SHORT));
  MUST_RUN(run(third, far));
  fatune_plan_free(third);
  fatune_close(h);
}

/* One of several threads that ask for plans of all sizes, each in another order, and run them. */
static void *asks(void *user)
{
  fatune *h = user;
  static atomic_int next;
  const int first = atomic_fetch_add(&next, 1);
  intptr_t failed = cu.cuCtxSetCurrent(bench.context) != 0;
  for (int i = 0; i < 3 * ROWS; i++) {
    const char *problem = rows[(first + i * (first % 2 ? 1 : 2)) % ROWS].problem;
    const fatune_sizes sizes = sizes_of(problem);
    fatune_request r = request_of(FAMILY, FATUNE_COMPILE);
    fatune_plan *plan = NULL;
    size_t bytes = 0;
    r.flags = FATUNE_ALIGNED;
    r.sizes = &sizes;
    failed |=
        fatune_plan_make(h, &r, &plan) != FATUNE_OK || fatune_workspace(plan, &sizes, &bytes) != FATUNE_OK;
    fatune_plan_free(plan);
  }
  return (void *)failed;
}

static void from_many_threads(void **state)
{
  (void)state;
  enum { THREADS = 8 };
  pthread_t thread[THREADS];
  fatune *h = open_usual();
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, asks, h), 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    pthread_join(thread[i], &failed);
    assert_null(failed);
  }
  fatune_plan *plan = built_for(h, DECODE);
  assert_null(strstr(fatune_describe(plan), "unbuilt"));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* No call is at hand: nothing is compiled; and a problem's plan has sizes of its own. */
static void without_a_call(void **state)
{
  (void)state;
  const fatune_sizes none = {.size = sizeof none};
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  const long before = loads();
  fatune_request r = request_of(FAMILY, FATUNE_COMPILE);
  r.sizes = &none;
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  assert_int_equal(loads(), before);
  describes(plan, "cubins 0");
  for (int i = 0; i < ROWS; i++)
    EXPECT(FATUNE_ERR_MISS, "not compiled yet", run(plan, rows[i].problem));
  fatune_plan_free(plan);
  r.problem = LONG;
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  describes(plan, "kernel-from compiled now");
  fatune_plan_free(plan);
  const fatune_sizes wrong = {.size = sizeof wrong, .b = 1, .h = 3, .hk = 2, .q = 1, .k = 1};
  r = request_of(FAMILY, FATUNE_COMPILE);
  r.sizes = &wrong;
  EXPECT(FATUNE_ERR_INPUT, "must divide", fatune_plan_make(h, &r, &plan));
  fatune_close(h);
}

/* A config that does not compile is left out, and the call gets the next; where none does, what the policy
 * says. */
static void what_does_not_compile(void **state)
{
  (void)state;
  fixture_sql(path,
              "UPDATE trial SET config = config || '-x1' WHERE config = 'fwd:Br32-Bc32-w2-s1-Q0-b1-Z1-W16'");
  fatune *h = open_usual();
  fatune_plan *all = built_for(h, NULL), *plan = NULL;
  assert_string_not_equal(given(all, SHORT), rows[2].config);
  fatune *other = open_usual();
  plan = built_for(other, SHORT);
  assert_string_equal(given(plan, SHORT), given(all, SHORT));
  assert_non_null(strstr(fatune_describe(plan), "left out: fwd:Br32-Bc32-w2-s1-Q0-b1-Z1-W16-x1"));
  fatune_plan_free(plan);
  fatune_plan_free(all);
  fatune_close(h);
  fatune_close(other);
  fixture_sql(path, "DELETE FROM binary");
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  h = open_usual();
  const fatune_sizes sizes = sizes_of(LONG);
  fatune_request r = request_of(FAMILY, FATUNE_COMPILE);
  r.sizes = &sizes;
  EXPECT(FATUNE_ERR_COMPILE, "/nowhere", fatune_plan_make(h, &r, &plan));
  r.policy = FATUNE_FALLBACK;
  EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  fatune_close(h);
}

/* A kernel that turns out to be not valid for the sizes is passed over, as it is in a call. */
static void what_is_not_valid(void **state)
{
  (void)state;
  store((stored){.problem = SHORT,
                 .gpu = "H200",
                 .config = rows[2].config,
                 .ms = 0.001,
                 .origin = FAT_MEASURED,
                 .valid = "200-q"});
  fatune *h = open_usual();
  fatune_plan *plan = built_for(h, SHORT);
  describes(plan, "cubins 1"); /* another's, though that one is stored */
  assert_string_not_equal(given(plan, SHORT), rows[2].config);
  MUST_RUN(run(plan, SHORT));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* So is one that is valid at its own shape and not at the call's: what comes next is built. */
static void what_is_not_valid_there(void **state)
{
  static const char longer[] = "fwd-f16-b4-h8-q4096-k4096-d64-causal";
  (void)state;
  begin_jit(state);
  store((stored){.problem = LONG,
                 .gpu = "H200",
                 .config = rows[0].config,
                 .ms = rows[0].ms,
                 .origin = FAT_MEASURED,
                 .valid = "3000-q"});
  store_unbuilt(3); /* MIDDLE */
  fatune *h = open_usual();
  fatune_plan *first = built_for(h, LONG);
  describes(first, "variant " MIDDLE " exact fwd:Br64-Bc32-w4-s1-Q0-b1-Z1-W16 unbuilt");
  assert_string_equal(given(first, longer), rows[0].config);
  fatune_plan *second = built_for(h, longer);
  assert_null(strstr(fatune_describe(second), "unbuilt"));
  MUST_RUN(run(second, longer));
  fatune_plan_free(first);
  fatune_plan_free(second);
  fatune_close(h);
}

/* Defaults for what lies far off all rows are compiled for the first such call. */
static void what_is_far_off(void **state)
{
  static const char far[] = "fwd-f16-b16-h32-q3-k3-d64-causal";
  (void)state;
  begin_jit(state);
  store_unbuilt(0); /* LONG */
  store_unbuilt(3); /* MIDDLE */
  fatune *h = open_usual();
  fatune_plan *near = built_for(h, LONG);
  describes(near, "variants 2");
  MUST_RUN(run(near, LONG));
  EXPECT(FATUNE_ERR_MISS, "not compiled yet", run(near, far));
  fatune_plan *both = built_for(h, far), *again = built_for(h, LONG);
  assert_ptr_equal(both, again);
  assert_true(strstr(fatune_describe(both), " default fwd"));
  MUST_RUN(run(both, far));
  MUST_RUN(run(both, LONG));
  fatune_plan *third = built_for(h, MIDDLE); /* takes the defaults over */
  assert_ptr_not_equal(third, both);
  assert_true(strstr(fatune_describe(third), " default fwd"));
  MUST_RUN(run(third, far));
  MUST_RUN(run(third, MIDDLE));
  fatune *other = open_usual();
  fatune_plan *all = built_for(other, NULL);
  assert_string_equal(given(both, far), given(all, far));
  assert_string_equal(given(third, far), given(all, far));
  fatune_plan_free(third);
  fatune_plan_free(near);
  fatune_plan_free(both);
  fatune_plan_free(again);
  fatune_plan_free(all);
  fatune_close(h);
  fatune_close(other);
}

int main(void)
{
  if (!has_nvrtc())
    return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(what_a_call_needs_is_compiled, begin_unbuilt),
      cmocka_unit_test_setup(all_at_once, begin_unbuilt),
      cmocka_unit_test_setup(calls_get_the_same, begin_unbuilt),
      cmocka_unit_test_setup(nowhere_to_keep_it, begin_unbuilt),
      cmocka_unit_test_setup(from_many_threads, begin_unbuilt),
      cmocka_unit_test_setup(without_a_call, begin_unbuilt),
      cmocka_unit_test_setup(what_does_not_compile, begin_unbuilt),
      cmocka_unit_test_setup(what_is_not_valid, begin_unbuilt),
      cmocka_unit_test_setup(what_is_not_valid_there, begin_unbuilt),
      cmocka_unit_test_setup(what_is_far_off, begin_unbuilt),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
