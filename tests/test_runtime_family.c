/* test_runtime_family.c -- a plan that serves a family: each call brings its sizes and gets the kernel of the
 * stored shape that promises most and is valid for them; sizes a config is none for. */
#include "plan.h"
#include "runtime_fixture.h"

#define FAMILY       "fwd-f32-d64-causal"
#define SHORT        ASKED
#define LONG         "fwd-f32-b1-h4k2-q1024-k1024-d64-causal"
#define DECODE       "fwd-f32-b1-h4k2-q1-k4096-d64-causal"
#define MAIN         "fwd-f32-b4-h32-q4096-k4096-d64-causal"
#define OTHER        "fwd:Br32-Bc32-T128-R4-W4-s0"
#define OTHER_NARROW "fwd:Br32-Bc32-T128-R4-W1-s0"
#define MASK_TEXT    "j <= 2 * i + 5"
#define MASK_HASH    "0f14b36eb0422cac" /* of that text */
#define ELSEWHERE    "fwd-f32-b2-h8k2-q256-k256-d64-causal"
#define FOURTH       "fwd:Br64-Bc64-T128-R4-W4-s0" /* another device's */
#define THIRD        "fwd:Br32-Bc32-T128-R4-W4-s1"

static fatune *h;

static int end(void **state)
{
  (void)state;
  fatune_close(h);
  h = NULL;
  return 0;
}

static void store_measured(const char *problem, const char *config, double ms)
{
  store((stored){.problem = problem, .gpu = "H200", .config = config, .ms = ms, .origin = FAT_MEASURED});
}

/* Three shapes, each with a kernel of its own, which is as good as the others' by its rounds of tiles: 167,
 * 1104 and 3771 units of work; the first has a twin too. */
static void store_three(void)
{
  store_usual();
  store_measured(LONG, OTHER, 6.58);
  store_measured(DECODE, THIRD, 22.47);
  h = open_usual();
}

static fatune_sizes sizes_of(const char *problem)
{
  fat_problem p;
  MUST(fat_problem_parse(problem, &p, err));
  return (fatune_sizes){.size = sizeof(fatune_sizes), .b = p.b, .h = p.h, .hk = p.hk, .q = p.q, .k = p.k};
}

/* The entry of a config. */
static const char *entry_of(const char *config)
{
  static char name[64];
  fat_source source;
  fat_trial t = fixture_trial(ASKED, "H200", config, 1);
  MUST(fat_source_render(script, &t.problem, &t.gpu, &t.config, FAT_LINES_TEMPLATE, &source, err));
  snprintf(name, sizeof name, "%s_%.16s", t.config.kernel, source.hash);
  fat_source_free(&source);
  return name;
}

/* One call computes what is right, by this config. */
static void runs_by(const fatune_plan *plan, const char *problem, int64_t off, const char *config)
{
  const fatune_sizes sizes = sizes_of(problem);
  attention a = attention_make(problem, 0, off);
  const char *entry = entry_of(config);
  const long ran = cu.fake_launches(entry), all = cu.fake_launches("*");
  MUST_RUN(fatune_run(plan, tensors_of(&a), &sizes, NULL, NULL));
  is_right(&a);
  attention_free(&a);
  assert_int_equal(cu.fake_launches("*"), all + 1);
  if (cu.fake_launches(entry) != ran + 1)
    fail_msg("%s did not run by %s", problem, config);
}

static void the_nearest_shape_is_taken(void **state)
{
  (void)state;
  store_three();
  fatune_plan *plan = plan_of(h, FAMILY);
  runs_by(plan, SHORT, 0, WIDE);
  runs_by(plan, LONG, 0, OTHER);
  runs_by(plan, DECODE, 0, THIRD);
  runs_by(plan, "fwd-f32-b2-h4k2-q40-k70-d64-causal", 0, WIDE);
  runs_by(plan, "fwd-f32-b1-h4k2-q800-k1111-d64-causal", 0, OTHER);
  runs_by(plan, "fwd-f32-b1-h4k2-q2-k3000-d64-causal", 0, THIRD);
  runs_by(plan, SHORT, 1, NARROW); /* not aligned: its twin */
  describes(plan, "family " FAMILY);
  describes(plan, "variants 3");
  describes(plan, "cubins 4");
  describes(plan, "variant " SHORT " exact " WIDE " twin " NARROW);
  describes(plan, "variant " LONG " exact " OTHER);
  describes(plan, "variant " DECODE " exact " THIRD);
  assert_null(strstr(fatune_describe(plan), "left out"));
  for (int i = 1; i < plan->family.shapes; i++) /* of equal promises the row of the least time comes first */
    assert_true(plan->family.shape[i - 1].ms <= plan->family.shape[i].ms);
  fatune_plan_free(plan);
}

/* The same kernel as a plan for the very problem gets. */
static void a_family_chooses_as_problems_do(void **state)
{
  (void)state;
  unsigned seed = 7;
  int seen[4] = {0};
  store_three();
  for (int slow = 0; slow < 2; slow++) /* one that no call may get, one that many should */
    store((stored){.problem = slow ? ELSEWHERE : "fwd-f32-b2-h8k2-q512-k512-d64-causal",
                   .gpu = "H100 SXM",
                   .config = FOURTH,
                   .ms = slow ? 40 : 3.5,
                   .origin = FAT_MEASURED});
  cu.fake_compute(FAKE_NOTHING);
  fatune_plan *plan = plan_of(h, FAMILY);
  attention a = attention_make(SHORT, 0, 0);
  for (int i = 0; i < 60; i++) {
    static const char *const configs[] = {WIDE, OTHER, THIRD, FOURTH};
    char problem[FAT_PROBLEM_TEXT];
    int n[4];
    for (int j = 0; j < 4; j++) {
      seed = seed * 1664525u + 1013904223u;
      n[j] = (int)(seed >> 16);
    }
    snprintf(problem, sizeof problem, "fwd-f32-b%d-h%dk2-q%d-k%d-d64-causal", 1 + n[0] % 3, 2 << n[1] % 3,
             1 << n[2] % 12, 1 + (n[3] & ((1 << (4 + n[2] % 9)) - 1)));
    if (i == 0) /* the very shape that another device measured */
      snprintf(problem, sizeof problem, "%s", ELSEWHERE);
    const fatune_sizes sizes = sizes_of(problem);
    fatune_plan *own = plan_of(h, problem);
    for (int c = 0; c < 4; c++) {
      const char *entry = entry_of(configs[c]);
      const long before = cu.fake_launches(entry);
      MUST_RUN(fatune_run(plan, tensors_of(&a), &sizes, NULL, NULL));
      const bool family = cu.fake_launches(entry) > before;
      char line[FAT_CONFIG_TEXT + 16];
      snprintf(line, sizeof line, "\nkernel %s\n", configs[c]);
      if (family != (strstr(fatune_describe(own), line) != NULL))
        fail_msg("%s: the family's plan %s %s, its own plan is\n%s", problem, family ? "takes" : "leaves",
                 configs[c], fatune_describe(own));
      seen[c] += family;
    }
    fatune_plan_free(own);
  }
  assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0 && seen[3] > 0);
  attention_free(&a);
  fatune_plan_free(plan);
}

/* What was found is kept by all that it depends on: calls of one size may differ in a window. */
static void kept_by_numbers_too(void **state)
{
  (void)state;
  static const char *const texts[] = {"fwd-f32-b1-h8-q4096-k4096-d64-causal-w63.0",
                                      "fwd-f32-b1-h8-q4096-k4096-d64-causal-w2047.0",
                                      "fwd-f32-b2-h8-q4096-k4096-d64-causal-w63.0"};
  const fat_room room = {132, 1.0 / 132, 0};
  fat_waves waves = {
      .Br = 64, .Bc = 64, .per_Bc = 1.0 / 64, .blocks = 1, .per_block = 1, .pair = 1, .per_pair = 1.0 / 64};
  fat_shape shape[3] = {{.ms = 0}};
  _Atomic(uint64_t) kept[FAT_FAMILY_KEPT] = {0};
  const fat_family family = {.shape = shape, .shapes = 3, .waves = &waves, .waves_count = 1, .kept = kept};
  for (int i = 0; i < 3; i++)
    MUST(fat_problem_parse(texts[i], &shape[i].problem, err));
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < 3; i++)
      assert_ptr_equal(fat_family_known(&family, &shape[i].problem, &room), &shape[i]);
  int used = 0;
  for (int i = 0; i < FAT_FAMILY_KEPT; i++)
    used += kept[i] != 0;
  assert_true(used > 0); /* and not found anew each time */
}

/* Keys of a split are a number of the call, as a window's are. */
static void splits_are_of_the_call(void **state)
{
  (void)state;
  fat_problem family, p;
  fat_error why = {0};
  fatune_sizes s = sizes_of("fwd-f16-b2-h4k2-q9-k300-d64");
  MUST(fat_problem_parse_family("fwd-f16-d64-split", &family, err));
  s.split = 128;
  MUST(fat_call_sizes(&s, &family, &p, err));
  assert_int_equal(p.arg[FAT_SPLIT][0], 128);
  s.split = 100;
  assert_int_equal(fat_call_sizes(&s, &family, &p, &why), FAT_E_INPUT);
  assert_non_null(strstr(why.text, "multiples of 64"));
  s.split = 0;
  assert_int_equal(fat_call_sizes(&s, &family, &p, &why), FAT_E_INPUT);
}

/* No plan, no module, no look into a file for lengths never seen. */
static void ten_thousand_lengths(void **state)
{
  (void)state;
  store_three();
  cu.fake_compute(FAKE_NOTHING);
  fatune_plan *plan = plan_of(h, FAMILY), *again = plan_of(h, FAMILY);
  assert_ptr_equal(plan, again);
  attention a = attention_make(DECODE, 0, 0);
  fatune_sizes sizes = sizes_of(DECODE);
  static const char *const never[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute",
                                      "cuMemAlloc_v2", "cuCtxPushCurrent_v2"};
  long before[5];
  unlink(path);
  for (int i = 0; i < 5; i++)
    before[i] = cu.fake_calls(never[i]);
  for (int k = 1; k <= 10000; k++) {
    sizes.k = k;
    MUST_RUN(fatune_run(plan, tensors_of(&a), &sizes, NULL, NULL));
  }
  for (int i = 0; i < 5; i++)
    assert_int_equal(cu.fake_calls(never[i]), before[i]);
  assert_int_equal(cu.fake_launches("*"), 10000);
  assert_int_equal(h->count, 1);
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_plan_free(again);
}

/* -- what is stored */

static void nothing_stored_is_a_miss(void **state)
{
  (void)state;
  h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(FAMILY, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_MISS, MAIN " on H200", fatune_plan_make(h, &r, &plan));
  assert_int_equal(fatune_supported(h, &r), FATUNE_ERR_MISS);
  r.problem = "fwd-f32-d64-causaal";
  EXPECT(FATUNE_ERR_INPUT, "did you mean 'causal'", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
}

static void fail_wants_the_main_anchor(void **state)
{
  (void)state;
  store_three();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(FAMILY, FATUNE_FAIL);
  EXPECT(FATUNE_ERR_MISS, "not measured itself", fatune_plan_make(h, &r, &plan));
  assert_int_equal(fatune_supported(h, &r), FATUNE_ERR_MISS);
  fatune_close(h);
  store((stored){.problem = MAIN, .gpu = "T4", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  h = open_usual();
  EXPECT(FATUNE_ERR_MISS, "not measured itself", fatune_plan_make(h, &r, &plan));
  fatune_close(h);
  store_measured(MAIN, WIDE, 5);
  h = open_usual();
  MUST_RUN(fatune_supported(h, &r));
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  describes(plan, "variants 4");
  runs_by(plan, LONG, 0, OTHER);
  fatune_plan_free(plan);
}

/* A kernel's twin is its own, and that of all shapes which have the kernel. */
static void each_kernel_has_its_own_twin(void **state)
{
  (void)state;
  store_usual();
  store_measured(LONG, OTHER, 6.58);
  store_measured(LONG, OTHER_NARROW, 8);
  store_measured(ELSEWHERE, WIDE, 3);
  h = open_usual();
  fatune_plan *plan = plan_of(h, FAMILY);
  describes(plan, "variant " SHORT " exact " WIDE " twin " NARROW);
  describes(plan, "variant " LONG " exact " OTHER " twin " OTHER_NARROW);
  describes(plan, "variant " ELSEWHERE " exact " WIDE " twin " NARROW);
  describes(plan, "cubins 4");
  fatune_plan_free(plan);
}

/* Of another device, or predicted, where this one has nothing. */
static void the_best_origin_alone(void **state)
{
  (void)state;
  store((stored){.problem = SHORT, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_PREDICTED});
  store((stored){.problem = LONG, .gpu = "H200", .config = OTHER, .ms = 1, .origin = FAT_PREDICTED});
  h = open_usual();
  fatune_plan *plan = plan_of(h, FAMILY);
  describes(plan, "variants 2");
  describes(plan, "variant " SHORT " predicted " WIDE);
  fatune_plan_free(plan);
  fatune_close(h);
  store((stored){.problem = LONG, .gpu = "H100", .config = THIRD, .ms = 1, .origin = FAT_MEASURED});
  store((stored){.problem = DECODE, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_PREDICTED});
  h = open_usual();
  plan = plan_of(h, FAMILY);
  describes(plan, "variants 1");
  describes(plan, "variant " LONG " arch " THIRD);
  fatune_plan_free(plan);
}

/* A row whose cubin is gone serves no shape; others do. */
static void a_row_that_does_not_load_is_left_out(void **state)
{
  (void)state;
  store_measured(SHORT, WIDE, 1);
  store((stored){
      .problem = LONG, .gpu = "H200", .config = OTHER, .ms = 1, .origin = FAT_MEASURED, .no_content = true});
  h = open_usual();
  fatune_plan *plan = plan_of(h, FAMILY);
  describes(plan, "variant " LONG " nearest " WIDE);
  describes(plan, "cubins 1");
  runs_by(plan, LONG, 0, WIDE);
  fatune_plan_free(plan);
}

/* A file whose rows cannot be read has no shapes. */
static void a_damaged_file_has_no_shapes(void **state)
{
  (void)state;
  fatune_plan *plan = NULL;
  store_three();
  fixture_spoil(path, "trial");
  const fatune_request r = request_of(FAMILY, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
}

/* Of many shapes those nearest to the main anchor. */
static void shapes_have_a_limit(void **state)
{
  (void)state;
  enum { MORE = 6 };
  char problem[FAT_PROBLEM_TEXT], line[64];
  for (int i = 0; i < FAT_FAMILY_SHAPES + MORE; i++) {
    snprintf(problem, sizeof problem, "fwd-f32-b1-h4k2-q16-k%d-d64-causal", 16 + i);
    store_measured(problem, WIDE, 1);
  }
  store_measured("fwd-f32-b1-h4k2-q16-k8-d64-causal", WIDE, 1); /* farther off than all that have room */
  h = open_usual();
  fatune_plan *plan = plan_of(h, FAMILY);
  snprintf(line, sizeof line, "variants %d", FAT_FAMILY_SHAPES);
  describes(plan, line);
  describes(plan, "cubins 1");
  describes(plan, "why left out: 7 shapes");
  assert_null(strstr(fatune_describe(plan), "-k21-"));
  assert_non_null(strstr(fatune_describe(plan), "-k22-"));
  fatune_plan_free(plan);
}

/* More kernels than a plan holds: it has as many as it may, each loaded once. */
static void cubins_have_a_limit(void **state)
{
  (void)state;
  enum { MORE = FAT_FAMILY_CODES + 4 };
  fat_space space;
  fat_problem p;
  char problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
  int count = 0;
  MUST(fat_problem_parse(SHORT, &p, err));
  MUST(fat_space_list(script, "fwd", &p, fixture_gpu("H200"), &space, err));
  for (int i = 0; i < space.count && count < MORE; i++) {
    fat_config_print(&space.points[i].config, config);
    if (!strstr(config, "-W4"))
      continue;
    snprintf(problem, sizeof problem, "fwd-f32-b1-h4k2-q16-k%d-d64-causal", 64 + 7 * count);
    store_measured(problem, config, 1);
    count++;
  }
  assert_int_equal(count, MORE);
  fat_space_free(&space);
  h = open_usual();
  const long loads = cu.fake_calls("cuModuleLoadData");
  fatune_plan *plan = plan_of(h, FAMILY);
  const int codes = plan->family.codes;
  assert_true(codes > FAT_FAMILY_CODES - 2 && codes <= FAT_FAMILY_CODES);
  assert_int_equal(cu.fake_calls("cuModuleLoadData"), loads + codes);
  assert_non_null(strstr(fatune_describe(plan), "why left out: "));
  fatune_plan_free(plan);
  fatune_close(h);
  /* Nor does a call find room for one more that it would have compiled: it is given another. */
  store((stored){.problem = MAIN,
                 .gpu = "H200",
                 .config = NARROW,
                 .ms = 0.001,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  const fatune_sizes sizes = sizes_of(MAIN);
  fatune_request r = request_of(FAMILY, FATUNE_FALLBACK);
  r.sizes = &sizes;
  h = open_usual();
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  assert_true(plan->family.codes > FAT_FAMILY_CODES - 2 && plan->family.unbuilt == 0);
  assert_null(strstr(fatune_describe(plan), MAIN));
  fatune_plan_free(plan);
}

static void kernels_that_are_passed_over_are_told_apart(void **state)
{
  (void)state;
  for (int code = 0; code < FAT_FAMILY_CODES; code++) {
    fat_passed passed = {0};
    fat_passed_add(&passed, code);
    for (int i = 0; i < FAT_FAMILY_CODES; i++)
      assert_int_equal(fat_passed_has(&passed, i), i == code);
    assert_false(fat_passed_has(NULL, code));
  }
}

static void why_of_a_family(void **state)
{
  (void)state;
  char why[4000];
  store_three();
  fatune_request r = request_of(FAMILY, FATUNE_FALLBACK);
  const long loads = cu.fake_calls("cuModuleLoadData");
  MUST_RUN(fatune_why(h, &r, why, sizeof why));
  assert_int_equal(cu.fake_calls("cuModuleLoadData"), loads);
  if (!strstr(why, "variant " LONG " exact " OTHER) || !strstr(why, "variant " SHORT " exact " WIDE))
    fail_msg("%s", why);
}

/* -- sizes */

static void sizes_are_checked(void **state)
{
  (void)state;
  store_three();
  fatune_plan *plan = plan_of(h, FAMILY);
  attention a = attention_make(SHORT, 0, 0);
  const fatune_sizes good = sizes_of(SHORT);
  fatune_sizes s = good;
  size_t bytes;
  const struct {
    int64_t *number, value;
    const char *word;
  } cases[] = {{&s.b, -1, "fatune_sizes.b is -1"},
               {&s.h, 0, "fatune_sizes.h is 0"},
               {&s.hk, 3, "4 heads and 3 KV heads"},
               {&s.hk, -4, "fatune_sizes.hk is -4"},
               {&s.q, INT64_C(1) << 31, "fatune_sizes.q is 2147483648"},
               {&s.k, INT64_MIN, "fatune_sizes.k is -"},
               {&s.total_q, 66, "fatune_sizes.total_q is 66"},
               {&s.total_k, 1, "fatune_sizes.total_k is 1"},
               {&s.window_left, 7, "fatune_sizes.window_left is 7"},
               {&s.window_right, -2, "fatune_sizes.window_right is -2"},
               {&s.chunk, 64, "fatune_sizes.chunk is 64"},
               {&s.split, 64, "fatune_sizes.split is 64"}};
  EXPECT(FATUNE_ERR_INPUT, "the sizes are NULL", fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  EXPECT(FATUNE_ERR_INPUT, "the sizes are NULL", fatune_workspace(plan, NULL, &bytes));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    *cases[i].number = cases[i].value;
    EXPECT(FATUNE_ERR_INPUT, cases[i].word, fatune_run(plan, tensors_of(&a), &s, NULL, NULL));
    EXPECT(FATUNE_ERR_INPUT, cases[i].word, fatune_workspace(plan, &s, &bytes));
    s = good;
  }
  s.size = sizeof s + 4096;
  EXPECT(FATUNE_ERR_INPUT, "fatune_sizes.size", fatune_run(plan, tensors_of(&a), &s, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 0);
  s = good;
  s.window_left = s.window_right = -1; /* all: as it is */
  MUST_RUN(fatune_run(plan, tensors_of(&a), &s, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 1);
  s.b = 0; /* nothing to do */
  MUST_RUN(fatune_run(plan, tensors_of(&a), &s, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 1);
  s = good;
  s.k = 0; /* fills */
  MUST_RUN(fatune_run(plan, tensors_of(&a), &s, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 1);
  attention_free(&a);
  fatune_plan_free(plan);
}

/* Numbers of a window reach the problem of the call; one that reaches everything is 2^31 - 1 wide. */
static void windows_of_a_call(void **state)
{
  (void)state;
  static const struct {
    const char *family;
    int64_t left, right;
    uint64_t is_left, is_right; /* 0, 0: refused */
  } cases[] = {{"fwd-f16-d64-w", 7, 3, 7, 3},
               {"fwd-f16-d64-w", -1, 0, FAT_PROBLEM_ALL, 0},
               {"fwd-f16-d64-w", INT64_MAX, -1, FAT_PROBLEM_ALL, FAT_PROBLEM_ALL},
               {"fwd-f16-d64-causal-w", 7, 0, 7, 0},
               {"fwd-f16-d64-causal-w", 7, -1, 7, 0},
               {"fwd-f16-d64-causal-w", 7, 1, 0, 0},
               {"fwd-f16-d64-w", -2, 3, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_problem family, p;
    fatune_sizes s = sizes_of("fwd-f16-b1-h2-q3-k4-d64");
    MUST(fat_problem_parse_family(cases[i].family, &family, err));
    s.window_left = cases[i].left;
    s.window_right = cases[i].right;
    const bool refused = cases[i].is_left == 0 && cases[i].is_right == 0;
    assert_int_equal(fat_call_sizes(&s, &family, &p, NULL), refused ? FAT_E_INPUT : FAT_OK);
    if (refused)
      continue;
    assert_true(p.arg[FAT_WINDOW][0] == cases[i].is_left && p.arg[FAT_WINDOW][1] == cases[i].is_right);
    assert_true(p.b == 1 && p.h == 2 && p.hk == 2 && p.q == 3 && p.k == 4 && p.features == family.features);
  }
}

/* Under a window the keys that a row sees are what is near, not k. */
static void nearness_by_the_keys_that_are_seen(void **state)
{
  (void)state;
  fat_problem narrow, wide, asked;
  MUST(fat_problem_parse("fwd-f16-b1-h8-q4096-k4096-d64-causal-w127.0", &narrow, err));
  MUST(fat_problem_parse("fwd-f16-b1-h8-q4096-k4096-d64-causal-w4095.0", &wide, err));
  MUST(fat_problem_parse("fwd-f16-b1-h8-q4096-k65536-d64-causal-w255.0", &asked, err));
  assert_true(fat_candidate_distance(&narrow, &asked) == 1);
  assert_true(fat_candidate_distance(&wide, &asked) == 4);
  MUST(fat_problem_parse("fwd-f16-b1-h8-q4096-k64-d64-causal-w255.0", &asked, err));
  assert_true(fat_candidate_distance(&narrow, &asked) == 1); /* k is less */
}

/* A problem's plan takes other sizes too, by its own kernel. */
static void a_problem_with_other_sizes(void **state)
{
  (void)state;
  store_three();
  fatune_plan *plan = plan_of(h, SHORT);
  runs_by(plan, LONG, 0, WIDE);
  runs_by(plan, LONG, 1, NARROW);
  computes(plan, SHORT, 0);
  fatune_plan_free(plan);
  plan = plan_of(h, "fwd-f32-b2-h4k2-q33-k0-d64-causal"); /* has none */
  attention a = attention_make(SHORT, 0, 0);
  const fatune_sizes sizes = sizes_of(SHORT);
  EXPECT(FATUNE_ERR_UNSUPPORTED, "plan the family", fatune_run(plan, tensors_of(&a), &sizes, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(plan);
}

static void workspace_follows_the_sizes(void **state)
{
  (void)state;
  store_measured(SHORT, "fa1:Br64-Bc32-T128-R4-W4", 1);
  store_measured(LONG, "fa1:Br32-Bc32-T128-R4-W4", 1);
  h = open_usual();
  fatune_plan *plan = NULL, *own;
  fatune_request r = request_of(FAMILY, FATUNE_FALLBACK);
  r.kernel = "fa1";
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  r.problem = SHORT;
  MUST_RUN(fatune_plan_make(h, &r, &own));
  const fatune_sizes few = sizes_of(SHORT), many = sizes_of(LONG);
  size_t little = 0, much = 0, known = 0, again = 0;
  MUST_RUN(fatune_workspace(plan, &few, &little));
  MUST_RUN(fatune_workspace(plan, &many, &much));
  MUST_RUN(fatune_workspace(own, NULL, &known));
  MUST_RUN(fatune_workspace(own, &few, &again));
  assert_true(little > 0 && little < much && known > 0 && known <= little && again == known);
  attention a = attention_make(LONG, 0, 0);
  EXPECT(FATUNE_ERR_INPUT, "workspace is NULL", fatune_run(plan, tensors_of(&a), &many, NULL, NULL));
  MUST_RUN(fatune_run(plan, tensors_of(&a), &many, device_memory(much), NULL));
  is_right(&a);
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_plan_free(own);
}

/* -- sizes that a config is none for */

#define TILES "2147483648-b*h*ceildiv(q,64)"
#define VAST  "fwd-f32-b65536-h65536-q1-k1-d64-causal"

/* More tiles than a kernel can count: a clear error, and never a launch that does nothing. */
static void too_many_tiles_are_refused(void **state)
{
  (void)state;
  store((stored){
      .problem = SHORT, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .valid = TILES});
  h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(VAST, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_UNSUPPORTED, TILES " is -2147483648", fatune_plan_make(h, &r, &plan));
  assert_int_equal(fatune_supported(h, &r), FATUNE_ERR_UNSUPPORTED);
  assert_null(plan);
  attention a = attention_make(SHORT, 0, 0);
  const fatune_sizes sizes = sizes_of(VAST);
  plan = plan_of(h, FAMILY);
  EXPECT(FATUNE_ERR_UNSUPPORTED, TILES " is -2147483648",
         fatune_run(plan, tensors_of(&a), &sizes, NULL, NULL));
  fatune_plan_free(plan);
  plan = plan_of(h, SHORT);
  EXPECT(FATUNE_ERR_UNSUPPORTED, TILES " is -2147483648",
         fatune_run(plan, tensors_of(&a), &sizes, NULL, NULL));
  fatune_plan_free(plan);
  fatune_close(h);
  begin(state);
  store_measured(SHORT, WIDE, 1); /* the same by the grid itself */
  h = open_usual();
  EXPECT(FATUNE_ERR_UNSUPPORTED, "grid is 4294967296", fatune_plan_make(h, &r, &plan));
  plan = plan_of(h, FAMILY);
  EXPECT(FATUNE_ERR_UNSUPPORTED, "grid is 4294967296", fatune_run(plan, tensors_of(&a), &sizes, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 0);
  attention_free(&a);
  fatune_plan_free(plan);
}

/* What is valid is taken instead: another row, of the kernel or of another one. */
static void a_row_that_is_not_valid_is_passed_over(void **state)
{
  (void)state;
  store((stored){
      .problem = LONG, .gpu = "H200", .config = OTHER, .ms = 1, .origin = FAT_MEASURED, .valid = "1000-q"});
  store_measured(SHORT, WIDE, 1);
  h = open_usual();
  fatune_plan *plan = plan_of(h, LONG);
  describes(plan, "pick nearest");
  describes(plan, "kernel " WIDE);
  assert_non_null(strstr(fatune_describe(plan),
                         "why left out: " OTHER " of " LONG ": the config is not valid "
                         "for these sizes: 1000-q is -24, it must be above 0"));
  fatune_plan_free(plan);
  plan = plan_of(h, "fwd-f32-b1-h4k2-q999-k1024-d64-causal");
  describes(plan, "kernel " OTHER);
  fatune_plan_free(plan);
  plan = plan_of(h, FAMILY); /* of LONG's shape by the other kernel, of both by that alone */
  describes(plan, "variants 2");
  describes(plan, "cubins 1");
  fatune_plan_free(plan);
  fatune_close(h);
  begin(state);
  store((stored){
      .problem = LONG, .gpu = "H200", .config = OTHER, .ms = 1, .origin = FAT_MEASURED, .valid = "1025-q"});
  store_measured(SHORT, WIDE, 1);
  h = open_usual();
  plan = plan_of(h, FAMILY);
  runs_by(plan, LONG, 0, OTHER);
  runs_by(plan, "fwd-f32-b1-h4k2-q1030-k1024-d64-causal", 0, WIDE);
  fatune_plan_free(plan);
}

/* However many rows of a kernel are not valid, another of it may be. */
static void rows_that_are_not_valid_cost_no_kernel(void **state)
{
  (void)state;
  store((stored){
      .problem = LONG, .gpu = "H200", .config = OTHER, .ms = 1, .origin = FAT_MEASURED, .valid = "1000-q"});
  store((stored){.problem = "fwd-f32-b1-h4k2-q1025-k1025-d64-causal",
                 .gpu = "H200",
                 .config = THIRD,
                 .ms = 1,
                 .origin = FAT_MEASURED,
                 .valid = "1000-q"});
  store((stored){.problem = "fwd-f32-b1-h4k2-q1030-k1030-d64-causal",
                 .gpu = "H200",
                 .config = FOURTH,
                 .ms = 1,
                 .origin = FAT_MEASURED,
                 .valid = "1000-q"});
  store_measured("fwd-f32-b1-h4k2-q2048-k2048-d64-causal", WIDE, 30);
  h = open_usual();
  fatune_plan *plan = plan_of(h, LONG);
  describes(plan, "kernel " WIDE);
  fatune_plan_free(plan);
}

/* An expression that nobody told this process is known by the database, by the package's too. */
static void an_expression_of_the_database(void **state)
{
  static const char *const problems[] = {"fwd-f32-d64-mod36035355560023ca", "fwd-f32-d64-mask" MASK_HASH};
  (void)state;
  char other[320];
  fat_db *package = NULL;
  fatune_plan *plan = NULL;
  store_measured(SHORT, WIDE, 1);
  snprintf(other, sizeof other, "%s/package.db", files.path);
  MUST(fat_db_open(other, NULL, FAT_DB_WRITE, &package, err));
  fat_db_close(package);
  setenv("FATUNE_SYSTEM_DB", other, 1);
  h = open_usual();
  for (int i = 0; i < 2; i++) {
    const fatune_request r = request_of(problems[i], FATUNE_FALLBACK);
    EXPECT(FATUNE_ERR_INPUT, problems[i] + strlen("fwd-f32-d64-"), fatune_plan_make(h, &r, &plan));
  }
  fixture_sql(path, "INSERT INTO mod(hash, text) VALUES('mod36035355560023ca', 's * 0.0625 + 3')");
  fixture_sql(other, "INSERT INTO mod(hash, text) VALUES('mask" MASK_HASH "', '" MASK_TEXT "')");
  for (int i = 0; i < 2; i++) {
    const fatune_request r = request_of(problems[i], FATUNE_FALLBACK);
    EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  }
  fatune_request r = request_of("fwd-f32-d64", FATUNE_FALLBACK);
  r.mask_mod = MASK_TEXT;
  EXPECT(FATUNE_ERR_MISS, "mask" MASK_HASH, fatune_plan_make(h, &r, &plan));
  unlink(other);
}

/* Of ragged batches the problem does not say how many rows there are in all. */
static void ragged_batches_need_sizes(void **state)
{
  static const char ragged[] = "fwd-f32-b2-h4k2-q33-k65-d64-varlen";
  (void)state;
  store_measured(ragged, WIDE, 1);
  h = open_usual();
  fatune_plan *plan = plan_of(h, ragged);
  size_t bytes;
  attention a = attention_make(SHORT, 0, 0);
  EXPECT(FATUNE_ERR_INPUT, "total_q", fatune_workspace(plan, NULL, &bytes));
  EXPECT(FATUNE_ERR_INPUT, "total_q", fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(plan);
}

int main(void)
{
#define WITH_HANDLE(test) cmocka_unit_test_setup_teardown(test, begin, end)
  const struct CMUnitTest tests[] = {
      WITH_HANDLE(the_nearest_shape_is_taken),
      WITH_HANDLE(a_family_chooses_as_problems_do),
      cmocka_unit_test(kept_by_numbers_too),
      WITH_HANDLE(splits_are_of_the_call),
      WITH_HANDLE(ten_thousand_lengths),
      WITH_HANDLE(nothing_stored_is_a_miss),
      WITH_HANDLE(fail_wants_the_main_anchor),
      WITH_HANDLE(each_kernel_has_its_own_twin),
      WITH_HANDLE(the_best_origin_alone),
      WITH_HANDLE(a_row_that_does_not_load_is_left_out),
      WITH_HANDLE(shapes_have_a_limit),
      WITH_HANDLE(cubins_have_a_limit),
      WITH_HANDLE(kernels_that_are_passed_over_are_told_apart),
      WITH_HANDLE(a_damaged_file_has_no_shapes),
      WITH_HANDLE(why_of_a_family),
      WITH_HANDLE(sizes_are_checked),
      cmocka_unit_test(windows_of_a_call),
      cmocka_unit_test(nearness_by_the_keys_that_are_seen),
      WITH_HANDLE(a_problem_with_other_sizes),
      WITH_HANDLE(workspace_follows_the_sizes),
      WITH_HANDLE(too_many_tiles_are_refused),
      WITH_HANDLE(a_row_that_is_not_valid_is_passed_over),
      WITH_HANDLE(rows_that_are_not_valid_cost_no_kernel),
      WITH_HANDLE(an_expression_of_the_database),
      WITH_HANDLE(ragged_batches_need_sizes),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
