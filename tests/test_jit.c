/* test_jit.c -- compile on miss: libfatune-jit writes and compiles what nothing stored serves. Needs an
 * NVRTC. */
#include "ahead.h"
#include "jit.h"
#include "plan.h"
#include "family.h"
#include "jit_fixture.h"
#include <signal.h>
#include <sys/resource.h>

#define PLAIN "fwd:Br64-Bc32-T128-R4-W4-s0" /* not the default */
#define TWIN  "fwd:Br32-Bc32-T128-R4-W1-s0" /* takes tensors that are not aligned */

/* A process that cannot compile is served from what is stored by now. */
static void is_kept(const char *problem, const char *kernel)
{
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, problem, kernel, FATUNE_FALLBACK);
  describes(plan, "kernel-from stored");
  describes(plan, "twin-from stored");
  computes(plan, problem, 0);
  computes(plan, problem, 1);
  fatune_plan_free(plan);
  fatune_close(h);
  setenv("FATUNE_JIT", JIT, 1);
}

static bool count_rows(const fat_trial *t, void *user)
{
  assert_int_equal(t->origin, FAT_PREDICTED);
  assert_true(isnan(t->ms));
  ++*(int *)user;
  return true;
}

/* What was compiled on demand is no measurement, and no winner. */
static void is_no_measurement(int rows)
{
  fat_db *db = NULL;
  fat_best best;
  fat_problem p;
  int count = 0;
  MUST(fat_problem_parse(ASKED, &p, err));
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_db_trials(db, NULL, count_rows, &count, err));
  assert_int_equal(count, rows);
  assert_int_equal(fat_db_best(db, &p, fixture_gpu("H200"), NULL, false, &best, NULL), FAT_E_NOT_FOUND);
  fat_db_close(db);
}

/* Nothing is stored: the default and its twin are compiled, compute, and are kept. */
static void the_default_is_compiled(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, ASKED, NULL, FATUNE_COMPILE);
  describes(plan, "pick default");
  describes(plan, "kernel fwd:");
  describes(plan, "kernel-from compiled now");
  describes(plan, "twin-from compiled now");
  describes(plan, "twin-alignment 4");
  give_source(plan, ASKED, "kernel");
  give_source(plan, ASKED, "twin");
  computes(plan, ASKED, 0);
  computes(plan, ASKED, 1);
  fatune_plan_free(plan);
  fatune_close(h);
  is_no_measurement(2);
  is_kept(ASKED, NULL);
  is_kept(NEAR, NULL);                                /* of the same family */
  is_kept("fwd-f32-b2-h4k2-q1-k65-d64-causal", NULL); /* even far away, where nothing can be compiled */
  is_kept(ASKED, "fwd");
  h = open_usual();
  fatune_request r = request_of(ASKED, FATUNE_FAIL);
  EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  fatune_close(h);
}

/* What was kept and is damaged since is compiled again where that may be, and else a miss. */
static void a_damaged_default_is_a_miss(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan_free(plan_for(h, ASKED, NULL, FATUNE_COMPILE));
  fatune_close(h);
  fixture_sql(path, "UPDATE binary SET cubin = zeroblob(9); UPDATE source SET text = 'damaged'");
  h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  fatune_close(h);
  h = open_usual();
  plan = plan_for(h, ASKED, NULL, FATUNE_COMPILE);
  describes(plan, "kernel-from compiled now");
  give_source(plan, ASKED, "kernel");
  give_source(plan, ASKED, "twin");
  fatune_plan_free(plan);
  fatune_close(h);
  is_kept(ASKED, NULL); /* and put in the place of what was damaged */
}

/* Another shape of the family may have another default, which is then compiled too. */
static void each_shape_has_its_own_default(void **state)
{
  const char *many = "fwd-f16-b1-h4k1-q80-k64-d64", *few = "fwd-f16-b1-h4k1-q1-k64-d64";
  fatune_plan *plan;
  (void)state;
  for (int i = 0; i < 4; i++) {
    const bool first = i == 0 || i == 2;
    fatune *h = open_usual();
    plan = plan_for(h, i < 2 ? many : few, "fwd", FATUNE_COMPILE);
    describes(plan, first ? "kernel-from compiled now" : "kernel-from stored");
    assert_int_equal(strstr(fatune_describe(plan), "-G1\n") != NULL, i >= 2);
    fatune_plan_free(plan);
    plan = plan_for(h, "fwd-f16-b2-h4k1-q65-k64-d64", "fwd", FATUNE_COMPILE);
    describes(plan, "kernel-from stored");
    fatune_plan_free(plan);
    fatune_close(h);
  }
  is_kept("fwd-f16-b1-h4k1-q2-k64-d64", "fwd");
}

/* Few heads are given small tiles, so that they reach all SMs. */
static void few_heads_have_their_own_default(void **state)
{
  static const struct {
    const char *problem, *from, *config;
  } calls[] = {{"fwd-f16-b1-h4-q1024-k64-d64", "kernel-from compiled now", "fwd_ws:Br64-"},
               {"fwd-f16-b8-h64-q1024-k64-d64", "kernel-from compiled now", "fwd_ws:Br192-"},
               {"fwd-f16-b8-h50-q1024-k64-d64", "kernel-from stored", "fwd_ws:Br192-"},
               {"fwd-f16-b1-h5-q900-k64-d64", "kernel-from stored", "fwd_ws:Br64-"}};
  (void)state;
  for (int i = 0; i < 4; i++) {
    fatune *h = open_usual();
    fatune_plan *plan = plan_for(h, calls[i].problem, "fwd_ws", FATUNE_COMPILE);
    describes(plan, calls[i].from);
    assert_non_null(strstr(fatune_describe(plan), calls[i].config));
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* A database that cannot be written costs nothing but the next compile. */
static void no_place_to_keep_it(void **state)
{
  (void)state;
  setenv("FATUNE_DB", "/dev/null/fatune.db", 1);
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, ASKED, NULL, FATUNE_COMPILE);
  describes(plan, "kernel-from compiled now");
  describes(plan, "twin-from compiled now");
  describes(plan, "why kept: fwd:");
  assert_non_null(strstr(fatune_describe(plan), " is not stored: "));
  fatune_plan_free(plan);
  fatune_close(h);
  setenv("FATUNE_DB", "", 1);
}

/* Nor does a limit of a file's size, whose signal would end this program. */
static void no_room_to_keep_it(void **state)
{
  struct rlimit before, small;
  sigset_t pending;
  (void)state;
  fatune *h = open_usual();
  getrlimit(RLIMIT_FSIZE, &before);
  small = before, small.rlim_cur = 16384;
  setrlimit(RLIMIT_FSIZE, &small);
  fatune_plan *plan = plan_for(h, ASKED, NULL, FATUNE_COMPILE);
  setrlimit(RLIMIT_FSIZE, &before);
  describes(plan, "why kept: fwd:");
  sigpending(&pending);
  assert_false(sigismember(&pending, SIGXFSZ));
  fatune_plan_free(plan);
  fatune_close(h);
}

static void an_asked_kernel_is_compiled(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, ASKED, "standard", FATUNE_COMPILE);
  describes(plan, "kernel standard:");
  fatune_plan_free(plan);
  is_kept(ASKED, "standard");
  fatune_request unasked =
      request_of(ASKED, FATUNE_FALLBACK); /* a kernel that is only given when asked for */
  EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &unasked, &plan));
  fatune_request r = request_of(ASKED, FATUNE_COMPILE);
  r.kernel = "flash9";
  EXPECT(FATUNE_ERR_UNSUPPORTED, "no kernel 'flash9'", fatune_plan_make(h, &r, &plan));
  EXPECT(FATUNE_ERR_UNSUPPORTED, "no kernel 'flash9'", fatune_supported(h, &r));
  r = request_of("fwd-f16-b1-h1-q64-k64-d64-partial", FATUNE_COMPILE);
  EXPECT(FATUNE_ERR_UNSUPPORTED, "fwd-f16", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  fatune_close(h);
}

/* What is stored is preferred to compiling; only its twin is made. */
static void stored_code_is_preferred(void **state)
{
  (void)state;
  store((stored){.problem = NEAR, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_PREDICTED});
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, ASKED, NULL, FATUNE_COMPILE);
  describes(plan, "pick predicted");
  describes(plan, "kernel-from stored");
  describes(plan, "twin " NARROW);
  describes(plan, "twin-from compiled now");
  fatune_plan_free(plan);
  fatune_close(h);
  is_kept(NEAR, NULL);
}

/* Biases that begin a row anywhere come to the same kernel, whose map of them is then of zeros. */
static void biases_need_no_map(void **state)
{
  (void)state;
  static const char problem[] = "fwd-bf16-b1-h2-q128-k128-d64-bias";
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, problem, NULL, FATUNE_COMPILE);
  attention a = attention_make(problem, 0, 0);
  float *numbers = random_numbers(FAT_BF16, 2 * 128 * 128, 4);
  for (int pad = 0; pad < 2; pad++) {
    const long maps = cu.fake_calls("cuTensorMapEncodeTiled");
    const fatune_tensor bias = upload(FAT_BF16, numbers, 1, 2, 128, 128, pad, 0);
    fatune_tensors all = *tensors_of(&a);
    all.bias = &bias;
    MUST_RUN(fatune_run(plan, &all, NULL, NULL, NULL));
    assert_int_equal(cu.fake_calls("cuTensorMapEncodeTiled"), maps + (pad ? 4 : 5));
    assert_int_equal(cu.cuCtxSynchronize(), 0);
    assert_int_equal(cu.fake_findings(), 0);
  }
  free(numbers);
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* Nothing is known of the family, but of the plain one: its winner stands in the default's place, where it is
 * of the kernel that is wanted. */
static void a_plain_winner_is_compiled(void **state)
{
  (void)state;
  fat_problem p;
  fat_point usual;
  char config[FAT_CONFIG_TEXT];
  MUST(fat_problem_parse(ASKED "-alibi", &p, err));
  MUST(fat_space_default(script, "fwd", &p, fixture_gpu("H200"), &usual, err));
  assert_string_not_equal(fat_config_print(&usual.config, config), PLAIN);
  store((stored){.problem = ASKED, .gpu = "H200", .config = PLAIN, .ms = 1, .origin = FAT_MEASURED});
  fatune *h = open_usual();
  char why[8192];
  fatune_request r = request_of(ASKED "-alibi", FATUNE_COMPILE);
  MUST_RUN(fatune_why(h, &r, why, sizeof why));
  assert_non_null(strstr(why, "default: " PLAIN ", which won for " ASKED ", compiled because"));
  fatune_plan *plan = plan_for(h, ASKED "-alibi", NULL, FATUNE_COMPILE);
  describes(plan, "pick default");
  describes(plan, "kernel " PLAIN);
  fatune_plan_free(plan);
  plan = plan_for(h, ASKED "-bs128x128", NULL, FATUNE_COMPILE);
  fatune_request blocks = request_of(ASKED "-bs128x128", FATUNE_COMPILE);
  MUST_RUN(fatune_why(h, &blocks, why, sizeof why));
  assert_null(strstr(why, "which won for"));
  fatune_plan_free(plan);
  plan = plan_for(h, ASKED "-bias", NULL, FATUNE_COMPILE);
  fatune_request biased = request_of(ASKED "-bias", FATUNE_COMPILE);
  MUST_RUN(fatune_why(h, &biased, why, sizeof why));
  assert_null(strstr(why, "which won for"));
  fatune_plan_free(plan);
  plan = plan_for(h, ASKED "-sink", "standard", FATUNE_COMPILE);
  describes(plan, "kernel standard:");
  fatune_plan_free(plan);
  fatune_close(h);
}

/* A stored source stands for a cubin that is not there or does not load. */
static void stored_source_is_rebuilt(void **state)
{
  for (int i = 0; i < 2; i++) {
    begin_jit(state);
    stored s = {.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED};
    s.no_cubin = i == 0;
    s.sm = i == 1 ? 75 : 0;
    store(s);
    fatune *h = open_usual();
    fatune_plan *plan = plan_for(h, ASKED, NULL, FATUNE_COMPILE);
    describes(plan, "pick exact");
    describes(plan, "kernel " WIDE);
    describes(plan, "kernel-from rebuilt from its source");
    computes(plan, ASKED, 0);
    fatune_plan_free(plan);
    fatune_close(h);
    is_kept(ASKED, NULL);
  }
}

/* A row that came without its code, as an export has it: its own config is compiled, not the default, and
 * kept beside it; from another device's row too. Not under FATUNE_FAIL. */
static void an_imported_row_is_compiled(void **state)
{
  for (int i = 0; i < 2; i++) {
    begin_jit(state);
    store((stored){.problem = ASKED,
                   .gpu = i ? "H100 SXM" : "H200",
                   .config = PLAIN,
                   .ms = 1,
                   .origin = FAT_MEASURED,
                   .no_content = true});
    fatune *h = open_usual();
    fatune_plan *plan = NULL;
    fatune_request r = request_of(ASKED, FATUNE_FAIL);
    EXPECT(FATUNE_ERR_MISS, i ? "not measured itself" : "measured, but stored without a binary",
           fatune_plan_make(h, &r, &plan));
    plan = plan_for(h, ASKED, NULL, FATUNE_FALLBACK);
    describes(plan, i ? "pick arch" : "pick exact");
    describes(plan, "kernel " PLAIN);
    describes(plan, "kernel-from compiled now");
    computes(plan, ASKED, 0);
    fatune_plan_free(plan);
    plan = plan_for(h, "fwd-f32-d64-causal", NULL, FATUNE_COMPILE);
    describes(plan, "kernel " PLAIN);
    fatune_plan_free(plan);
    fatune_close(h);
    is_kept(ASKED, NULL);
  }
  /* One whose config no template makes any more is left out. */
  begin_jit(state);
  store((stored){
      .problem = ASKED, .gpu = "H200", .config = PLAIN, .ms = 1, .origin = FAT_MEASURED, .no_content = true});
  fixture_sql(path, "UPDATE trial SET config = config || '-x1'");
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, ASKED, NULL, FATUNE_COMPILE);
  describes(plan, "pick default");
  assert_non_null(strstr(fatune_describe(plan), "left out: " PLAIN "-x1 of "));
  fatune_plan_free(plan);
  /* And that is what is said of it. */
  char why[2000];
  fatune_request r = request_of(ASKED, FATUNE_COMPILE);
  MUST_RUN(fatune_why(h, &r, why, sizeof why));
  assert_non_null(strstr(why, "left out: " PLAIN "-x1 of "));
  fatune_close(h);
}

/* A twin that came without its code is compiled where nothing else may be, too, and is there next time. */
static void an_imported_twin_is_compiled(void **state)
{
  for (int i = 0; i < 2; i++) {
    begin_jit(state);
    store((stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
    store((stored){.problem = ASKED,
                   .gpu = "H200",
                   .config = TWIN,
                   .ms = 2,
                   .origin = FAT_MEASURED,
                   .no_content = true,
                   .twin_of = WIDE});
    if (i) /* measured with other templates */
      fixture_sql(path, "UPDATE trial SET source = replace(source, substr(source, 1, 8), 'cafecafe')"
                        " WHERE twin_of <> ''");
    for (int round = 0; round < 2; round++) {
      fatune *h = open_usual();
      fatune_plan *plan = plan_for(h, ASKED, NULL, FATUNE_FALLBACK);
      describes(plan, "kernel " WIDE);
      describes(plan, "twin " TWIN);
      describes(plan, round ? "twin-from stored" : "twin-from compiled now");
      fatune_plan_free(plan);
      fatune_close(h);
      setenv("FATUNE_DISABLE_JIT", "1", 1);
    }
  }
}

/* What was measured elsewhere is compiled for a call, then stored for it. */
static void is_lent(const char *asked, const char *config, const char *where)
{
  char words[80];
  snprintf(words, sizeof words, "the row was measured %s", where);
  for (int i = 0; i < 2; i++) {
    fatune *h = open_usual();
    fatune_plan *plan = plan_for(h, asked, NULL, FATUNE_COMPILE);
    describes(plan, "pick nearest");
    assert_non_null(strstr(fatune_describe(plan), config));
    assert_non_null(strstr(fatune_describe(plan), words));
    describes(plan, i ? "kernel-from stored" : "kernel-from compiled now");
    give_source(plan, asked, "kernel");
    give_source(plan, asked, "twin");
    computes(plan, asked, 0);
    computes(plan, asked, 1);
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* A row of the other type of 16 bits: its config is compiled for the type that is asked for, and kept as that
 * one's. Where nothing can be compiled it does not count. */
static void a_row_of_the_other_half_is_compiled(void **state)
{
  static const char f16[] = "fwd-f16-b2-h4k2-q33-k65-d64-causal",
                    bf16[] = "fwd-bf16-b2-h4k2-q33-k65-d64-causal",
                    config[] = "fwd:Br64-Bc32-w4-s1-Q0-b1-Z1-W16";
  (void)state;
  store((stored){
      .problem = bf16, .gpu = "H200", .config = config, .ms = 1, .origin = FAT_MEASURED, .no_content = true});
  fatune *h = open_usual();
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  fatune_plan *plan = NULL;
  fatune_request r = request_of(f16, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  setenv("FATUNE_JIT", JIT, 1);
  fatune_close(h);
  is_lent(f16, config, "in the other type of 16 bits");
  h = open_usual();
  plan = plan_for(h, bf16, NULL, FATUNE_COMPILE); /* is given none of that */
  describes(plan, "pick exact");
  describes(plan, "kernel-from compiled now");
  describes(plan, "twin-from compiled now");
  fatune_plan_free(plan);
  plan = plan_for(h, "fwd-f16-d64-causal", NULL, FATUNE_COMPILE);
  assert_non_null(strstr(fatune_describe(plan), config));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* A row of the next wider head that most shapes are tuned for: its config is compiled for the head that is
 * asked for, and kept as that one's; so it is in a family's plan, behind what was measured at that head
 * itself. */
static void a_row_of_a_wider_head_is_compiled(void **state)
{
  static const char narrow[] = "fwd-f16-b2-h4k2-q133-k165-d40-causal",
                    wide[] = "fwd-f16-b2-h4k2-q133-k165-d64-causal",
                    own[] = "fwd-f16-b2-h4k2-q13-k1650-d40-causal",
                    config[] = "fwd:Br64-Bc32-w4-s1-Q0-b1-Z1-W16",
                    other[] = "fwd:Br32-Bc32-w2-s1-Q0-b1-Z1-W16";
  (void)state;
  store((stored){
      .problem = wide, .gpu = "H200", .config = config, .ms = 1, .origin = FAT_MEASURED, .no_content = true});
  is_lent(narrow, config, "at d 64");
  for (int i = 0; i < FAT_FAMILY_SHAPES; i++) { /* all nearer to the family's main shape than `own` */
    char near[FAT_PROBLEM_TEXT];
    snprintf(near, sizeof near, "fwd-f16-b2-h4k2-q%d-k4096-d64-causal", 3000 + i);
    store((stored){.problem = near,
                   .gpu = "H200",
                   .config = config,
                   .ms = 1,
                   .origin = FAT_MEASURED,
                   .no_content = true});
  }
  for (int i = 0; i < 2; i++)
    store((stored){.problem = i ? narrow : own,
                   .gpu = "H200",
                   .config = other,
                   .ms = 0.5,
                   .origin = FAT_MEASURED,
                   .no_content = true});
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, "fwd-f16-d40-causal", NULL, FATUNE_COMPILE);
  const char *first = strstr(fatune_describe(plan), narrow); /* once: the lent one is the same shape */
  assert_true(first && strstr(first, own) && !strstr(first + 1, narrow));
  assert_non_null(strstr(fatune_describe(plan), other));
  assert_non_null(strstr(fatune_describe(plan), "left out: 2 shapes"));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* What is stored without a cubin is compiled when it is first called, also where nothing else may be; not
 * under FATUNE_FAIL, nor where compiling is switched off. */
static void a_stored_config_is_compiled_when_it_is_called(void **state)
{
  static const char *const texts[] = {ASKED, "fwd-f32-d64-causal"};
  for (int i = 0; i < 2; i++) {
    begin_jit(state);
    store((stored){
        .problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .no_cubin = true});
    store((stored){.problem = ASKED,
                   .gpu = "H200",
                   .config = NARROW,
                   .ms = 2,
                   .origin = FAT_MEASURED,
                   .no_cubin = true});
    fatune_request r = request_of(texts[i], FATUNE_FALLBACK);
    fatune_plan *plan = NULL;
    fatune *h = open_usual();
    setenv("FATUNE_DISABLE_JIT", "1", 1);
    EXPECT(FATUNE_ERR_MISS, "measured, but stored without a binary", fatune_plan_make(h, &r, &plan));
    unsetenv("FATUNE_DISABLE_JIT");
    r.policy = FATUNE_FAIL;
    EXPECT(FATUNE_ERR_MISS, i ? "not measured itself" : "measured, but stored without a binary",
           fatune_plan_make(h, &r, &plan));
    plan = plan_for(h, texts[i], NULL, FATUNE_FALLBACK);
    describes(plan, "kernel " WIDE);
    describes(plan, "kernel-from rebuilt from its source");
    describes(plan,
              i ? "variant " ASKED " exact " WIDE " twin " NARROW : "twin-from rebuilt from its source");
    fatune_plan_free(plan);
    fatune_close(h);
    is_kept(ASKED, NULL);
  }
  /* Nothing is stored: still a miss. */
  begin_jit(state);
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  for (int i = 0; i < 2; i++) {
    fatune_request r = request_of(texts[i], FATUNE_FALLBACK);
    EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  }
  fatune_close(h);
}

/* Two shapes without cubins: both kernels are compiled, the default of a few rows of many heads, which they
 * lie far off, and one twin, which serves all. */
static void a_family_compiles_one_twin(void **state)
{
  (void)state;
  static const char other[] = "fwd-f32-b1-h4k2-q1024-k1024-d64-causal",
                    config[] = "fwd:Br32-Bc32-T128-R4-W4-s0";
  const long loads = cu.fake_calls("cuModuleLoadData");
  store((stored){
      .problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .no_cubin = true});
  store((stored){
      .problem = other, .gpu = "H200", .config = config, .ms = 1, .origin = FAT_MEASURED, .no_cubin = true});
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, "fwd-f32-d64-causal", NULL, FATUNE_COMPILE);
  describes(plan, "variants 3");
  describes(plan, "cubins 4");
  assert_int_equal(cu.fake_calls("cuModuleLoadData"), loads + 3); /* that default is one of the kernels */
  attention a = attention_make(ASKED, 0, 1), b = attention_make(other, 0, 1);
  const fatune_sizes near = {.size = sizeof near, .b = 2, .h = 4, .hk = 2, .q = 33, .k = 65},
                     far = {.size = sizeof far, .b = 1, .h = 4, .hk = 2, .q = 1024, .k = 1024};
  cu.fake_compute(FAKE_NOTHING);
  MUST_RUN(fatune_run(plan, tensors_of(&a), &near, NULL, NULL));
  MUST_RUN(fatune_run(plan, tensors_of(&b), &far, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 2);
  attention_free(&a);
  attention_free(&b);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* Whether what was compiled ahead answers this. */
static bool is_ahead(fat_ahead *ahead, fat_jit *library, fatune_jit_request r)
{
  fatune_jit_answer answer = {0};
  const bool found = fat_ahead_take(ahead, &r, &answer);
  assert_true(!found || (answer.cubin && (r.source || answer.recipe)));
  fat_jit_free(library, &answer);
  return found;
}

/* Side by side: a row without code, one with its source, each once; not what has a cubin or does not compile.
 */
static void several_at_once(void **state)
{
  (void)state;
  static const char *const configs[] = {PLAIN, "fwd:Br32-Bc32-T128-R4-W4-s0", WIDE, NARROW};
  fat_jit library = {0};
  fat_ahead ahead = {0};
  fat_db *db = NULL;
  fat_problem p;
  fat_code code;
  MUST(fat_problem_parse(ASKED, &p, err));
  for (int i = 0; i < 4; i++)
    store((stored){.problem = ASKED,
                   .gpu = "H200",
                   .config = configs[i],
                   .ms = 1,
                   .origin = FAT_MEASURED,
                   .no_content = i == 0 || i == 3,
                   .no_cubin = i == 1});
  fixture_sql(path, "UPDATE trial SET config = config || '-x1' WHERE config = '" NARROW "'");
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  for (int i = 0; i < 10; i++) {
    const fat_code_filter filter = {
        .problem = &p, .sm = 90, .config = i % 5 < 4 ? configs[i % 5] : NARROW "-x1"};
    if (i % 5 != 3)
      fat_ahead_note(&ahead, db, &filter);
  }
  assert_int_equal(ahead.count, 3);
  const fat_code_filter known = {.problem = &p, .sm = 90, .config = configs[1]};
  MUST(fat_db_code(db, &known, &code, err));
  const fatune_jit_request like = {.gpu = fixture_gpu("H200"), .cuda = 13, .narrow = 1, .config = PLAIN};
  fat_ahead_run(&ahead, &library, &like);
  assert_false(is_ahead(&ahead, &library, like)); /* narrow */
  assert_true(is_ahead(&ahead, &library, (fatune_jit_request){.config = PLAIN}));
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.config = PLAIN})); /* it was taken */
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.config = configs[1]}));
  assert_true(is_ahead(&ahead, &library, (fatune_jit_request){.config = configs[1], .source = code.source}));
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.config = WIDE}));
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.config = NARROW "-x1"}));
  fat_ahead_free(&ahead, &library);
  fat_jit_close(&library);
  fat_db_code_free(&code);
  fat_db_close(db);
}

/* Defaults of two shapes, too, for who asks for no kernel and for nothing in their place. */
static void defaults_at_once(void **state)
{
  (void)state;
  static const char far[] = "fwd-f32-b1-h4k2-q1024-k1024-d64-causal";
  fat_jit library = {0};
  fat_ahead ahead = {0};
  fat_problem p, q;
  MUST(fat_problem_parse(ASKED, &p, err));
  MUST(fat_problem_parse(far, &q, err));
  fat_ahead_note_default(&ahead, &p);
  fat_ahead_note_default(&ahead, &q);
  fat_ahead_run(&ahead, &library, &(fatune_jit_request){.gpu = fixture_gpu("H200"), .cuda = 13});
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.problem = ASKED, .kernel = "fwd"}));
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.problem = ASKED, .rather = PLAIN}));
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.problem = ASKED, .config = PLAIN}));
  assert_false(is_ahead(&ahead, &library, (fatune_jit_request){.problem = NEAR}));
  assert_true(is_ahead(&ahead, &library, (fatune_jit_request){.problem = far}));
  assert_true(is_ahead(&ahead, &library, (fatune_jit_request){.problem = ASKED}));
  fat_ahead_free(&ahead, &library);
  fat_jit_close(&library);
}

/* Nothing is stored for a family: its main anchor's default. */
static void a_familys_default_is_compiled(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, "fwd-f32-d64-causal", NULL, FATUNE_COMPILE);
  describes(plan, "variants 1");
  describes(plan, "variant fwd-f32-b4-h32-q4096-k4096-d64-causal default fwd:");
  describes(plan, "kernel-from compiled now");
  fatune_plan_free(plan);
  fatune_close(h);
  h = open_usual();
  plan = plan_for(h, "fwd-f32-d64-causal", NULL, FATUNE_FALLBACK);
  describes(plan, "kernel-from stored");
  fatune_plan_free(plan);
  fatune_close(h);
}

static int64_t launches_of(const fatune_plan *plan, int64_t q, int64_t k)
{
  char problem[FAT_PROBLEM_TEXT];
  const fatune_sizes sizes = {.size = sizeof sizes, .b = 1, .h = 8, .hk = 2, .q = q, .k = k};
  size_t bytes = 0;
  snprintf(problem, sizeof problem, "fwd-f16-b1-h8k2-q%lld-k%lld-d64", (long long)q, (long long)k);
  attention a = attention_make(problem, 0, 0);
  const long before = cu.fake_launches("fwd_ws*");
  cu.fake_compute(FAKE_NOTHING);
  MUST_RUN(fatune_workspace(plan, &sizes, &bytes));
  MUST_RUN(fatune_run(plan, tensors_of(&a), &sizes, bytes ? device_memory(bytes) : NULL, NULL));
  attention_free(&a);
  return cu.fake_launches("fwd_ws*") - before;
}

/* On tensor cores one row of Q has a default of its own, with its keys split; kept, too. */
static void a_familys_decoder_is_compiled(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    if (i == 1)
      setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
    fatune *h = open_usual();
    fatune_plan *plan = plan_for(h, "fwd-f16-d64", NULL, i == 0 ? FATUNE_COMPILE : FATUNE_FALLBACK);
    describes(plan, "variants 2");
    describes(plan, "cubins 3"); /* and one twin, which serves both */
    describes(plan, "variant fwd-f16-b4-h32-q4096-k4096-d64 default fwd_ws:");
    describes(plan, "variant fwd-f16-b1-h64k16-q1-k8192-d64 default fwd:Br16-");
    describes(plan, i == 0 ? "kernel-from compiled now" : "kernel-from stored");
    assert_int_equal(launches_of(plan, 1, 300), 0);
    assert_int_equal(launches_of(plan, 600, 600), 1);
    fatune_plan_free(plan);
    fatune_close(h);
  }
  setenv("FATUNE_JIT", JIT, 1);
}

/* The kernel that a family's plan gives a problem. */
static const char *given(const fatune_plan *plan, const char *problem)
{
  fat_problem p;
  MUST(fat_problem_parse(problem, &p, err));
  const fat_shape *shape = fat_family_best(&plan->family, &p, &plan->room, NULL);
  assert_non_null(shape);
  return plan->family.code[shape->main].config;
}

/* Where the plain family tells what a default takes, few heads have one of their own beside, and calls are
 * given the better of them; but for expressions. */
static void a_familys_few_heads_are_compiled(void **state)
{
  static const char large[] = "fwd_ws:Br128-Bc128-s2-q1-Q0-I1-P0-L2-Z1",
                    small[] = "fwd_ws:Br64-Bc128-s2-q1-Q0-I1-P0-L2-Z1";
  (void)state;
  store((stored){.problem = "fwd-f16-b4-h32-q4096-k4096-d64",
                 .gpu = "H200",
                 .config = large,
                 .ms = 0.5,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  store((stored){.problem = "fwd-f16-b1-h8-q2048-k2048-d64",
                 .gpu = "H200",
                 .config = small,
                 .ms = 0.0152,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  for (int i = 0; i < 2; i++) { /* compiled, then stored */
    fatune *h = open_usual();
    fatune_plan *plan = plan_for(h, "fwd-f16-d64-sink", NULL, FATUNE_COMPILE);
    describes(plan, "variants 3");
    describes(plan, "variant fwd-f16-b1-h8-q2048-k2048-d64-sink default fwd_ws:Br64-");
    describes(plan, i == 0 ? "kernel-from compiled now" : "kernel-from stored");
    assert_string_equal(given(plan, "fwd-f16-b1-h8-q1024-k1024-d64-sink"), small);
    assert_string_equal(given(plan, "fwd-f16-b16-h32-q1024-k1024-d64-sink"), large);
    assert_string_equal(given(plan, "fwd-f16-b1-h16-q1024-k1024-d64-sink"), large); /* one round of them */
    fatune_plan_free(plan);
    fatune_request r = request_of("fwd-f16-d64", FATUNE_COMPILE);
    r.mod = "s * 0.5";
    MUST_RUN(fatune_plan_make(h, &r, &plan));
    describes(plan, "variants 2");
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* A row of long sequences says nothing of decoding, which has a default beside it; where none can be compiled
 * the row serves. */
static void what_is_far_off_has_a_default(void **state)
{
  static const char large[] = "fwd_ws:Br128-Bc128-s2-q1-Q0-I1-P0-L2-Z1",
                    decode[] = "fwd-f16-b1-h32k8-q1-k4096-d64-sink";
  (void)state;
  store((stored){.problem = "fwd-f16-b4-h32-q4096-k4096-d64-sink",
                 .gpu = "H200",
                 .config = large,
                 .ms = 0.5,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, decode, NULL, FATUNE_FALLBACK);
  describes(plan, "pick nearest");
  fatune_plan_free(plan);
  fatune_close(h);
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  h = open_usual();
  plan = plan_for(h, decode, NULL, FATUNE_COMPILE);
  describes(plan, "pick nearest");
  fatune_plan_free(plan);
  fatune_close(h);
  setenv("FATUNE_JIT", JIT, 1);
  h = open_usual();
  plan = plan_for(h, decode, NULL, FATUNE_COMPILE);
  describes(plan, "pick default");
  describes(plan, "kernel fwd:Br16-");
  assert_non_null(strstr(fatune_describe(plan), "compiled because what is stored lies too far off"));
  fatune_plan_free(plan);
  plan = plan_for(h, "fwd-f16-d64-sink", NULL, FATUNE_COMPILE);
  describes(plan, "variants 3");
  describes(plan, "variant fwd-f16-b1-h64k16-q1-k8192-d64-sink default fwd:Br16-");
  assert_true(strncmp(given(plan, decode), "fwd:Br16-", 9) == 0);
  assert_string_equal(given(plan, "fwd-f16-b4-h32-q2048-k2048-d64-sink"), large);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* Where the defaults of what lies far off cannot be compiled the rows serve. */
static void far_defaults_that_cannot_be_had(void **state)
{
  (void)state;
  store((stored){.problem = "fwd-f16-b4-h32-q4096-k4096-d64-causal",
                 .gpu = "H200",
                 .config = "fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16",
                 .ms = 0.5,
                 .origin = FAT_MEASURED});
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, "fwd-f16-d64-causal", NULL, FATUNE_COMPILE);
  describes(plan, "cubins 1");
  assert_null(strstr(fatune_describe(plan), " default "));
  assert_non_null(strstr(given(plan, "fwd-f16-b1-h64k16-q1-k8192-d64-causal"), "Br64-Bc64"));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* A default beside the main one that does not load is left out, and said; where the GPU has failed the plan
 * does, too. */
static void a_default_beside_that_does_not_load(void **state)
{
  (void)state;
  fatune_plan *plan = NULL;
  fatune_request r = request_of("fwd-f16-d64-causal", FATUNE_COMPILE);
  r.flags = FATUNE_ALIGNED;
  for (int fatal = 0; fatal < 2; fatal++) {
    begin_jit(state);
    fatune *h = open_usual();
    cu.fake_fault(fatal ? "cuModuleLoadData#2=700" : "cuModuleLoadData#2=218");
    if (fatal) {
      EXPECT(FATUNE_ERR_CONTEXT_DEAD, "cuModuleLoadData", fatune_plan_make(h, &r, &plan));
    } else {
      MUST_RUN(fatune_plan_make(h, &r, &plan));
      describes(plan, "variants 1");
      assert_non_null(strstr(fatune_describe(plan), "why left out: one row of Q: "));
      fatune_plan_free(plan);
    }
    cu.fake_fault(NULL);
    fatune_close(h);
  }
}

/* A kernel of a mask that the request brings as text. */
static void a_mask_of_the_request(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of("fwd-f32-b1-h1-q65-k65-d64", FATUNE_COMPILE);
  r.mask_mod = "j <= i + 3";
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  describes(plan, "problem fwd-f32-b1-h1-q65-k65-d64-mask");
  describes(plan, "kernel-from compiled now");
  fatune_plan_free(plan);
  fatune_close(h);
}

/* A shape whose kernel yields to another kernel's row of the other type of 16 bits, of another shape, stays
 * in the family's plan with the time of its own row; where the other type's row is of this shape, with that.
 */
static void shapes_whose_rows_yield(void **state)
{
  static const char here[] = "fwd-f16-b4-h32-q4096-k4096-d64", there[] = "fwd-bf16-b4-h32-q3072-k3072-d64",
                    other[] = "fwd_ws:Br128-Bc128-s2-q1-Q0-I1-P0-L2-Z1",
                    third[] = "fwd_ws:Br64-Bc128-s2-q1-Q0-I1-P0-L2-Z1";
  (void)state;
  fat_problem p;
  MUST(fat_problem_parse(here, &p, err));
  store((stored){.problem = here,
                 .gpu = "H200",
                 .config = "fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16",
                 .ms = 2,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  store((stored){.problem = there,
                 .gpu = "H200",
                 .config = other,
                 .ms = 0.4,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, "fwd-f16-d64", NULL, FATUNE_COMPILE);
  assert_string_equal(given(plan, here), other);
  assert_true(fat_candidate_same(&fat_family_best(&plan->family, &p, &plan->room, NULL)->problem, &p));
  fatune_plan_free(plan);
  fatune_close(h);
  store((stored){.problem = "fwd-bf16-b4-h32-q4096-k4096-d64",
                 .gpu = "H200",
                 .config = third,
                 .ms = 0.3,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  h = open_usual();
  plan = plan_for(h, "fwd-f16-d64", NULL, FATUNE_COMPILE);
  assert_string_equal(given(plan, here), third);
  assert_true(fat_candidate_same(&fat_family_best(&plan->family, &p, &plan->room, NULL)->problem, &p));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* More tiles than any grid has: no default is compiled in vain, and the error says why. */
static void a_default_that_is_not_valid(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of("fwd-f32-b65536-h65536-q1-k1-d64", FATUNE_COMPILE);
  EXPECT(FATUNE_ERR_UNSUPPORTED, "grid is 4294967296", fatune_plan_make(h, &r, &plan));
  EXPECT(FATUNE_ERR_UNSUPPORTED, "grid is 4294967296", fatune_supported(h, &r));
  fatune_close(h);
}

/* No NVRTC for what the driver supports: the error says where was looked. */
static void without_nvrtc(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_COMPILE);
  const char *given = getenv("FATUNE_NVRTC");
  char *kept = given ? strdup(given) : NULL;
  setenv("FATUNE_NVRTC", "/nowhere", 1);
  EXPECT(FATUNE_ERR_COMPILE, "/nowhere", fatune_plan_make(h, &r, &plan));
  EXPECT(FATUNE_ERR_COMPILE, "/nowhere", fatune_supported(h, &r));
  unsetenv("FATUNE_NVRTC");
  if (kept)
    setenv("FATUNE_NVRTC", kept, 1);
  free(kept);
  assert_null(plan);
  fatune_close(h);
}

/* A library that is not of this release is left alone, and what is missing is said. */
static void another_libfatune_jit(void **state)
{
  static const char *const cases[][2] = {
      {FAKES "/fake_jit.so", "install both from one release"},
      {FAKES "/fake_nvml.so", "no function fatune_jit_abi"},
      {"/nowhere/libfatune-jit.so.0", "/nowhere/libfatune-jit.so.0"},
  };
  (void)state;
  for (int i = 0; i < 3; i++) {
    setenv("FATUNE_JIT", cases[i][0], 1);
    fatune *h = open_usual();
    fatune_plan *plan = NULL;
    fatune_request r = request_of(ASKED, FATUNE_COMPILE);
    EXPECT(FATUNE_ERR_COMPILE, cases[i][1], fatune_plan_make(h, &r, &plan));
    assert_null(plan);
    setenv("FATUNE_JIT", JIT, 1); /* the same handle goes on with the right one */
    MUST_RUN(fatune_supported(h, &r));
    fatune_close(h);
  }
}

/* Asked for directly: what a plan's twin is where a constraint forbids the very config with W = 1, and what
 * cannot be made at all. */
static void requests(void **state)
{
  (void)state;
  fat_jit jit = {0};
  fatune_jit_answer answer;
  fat_error err = {0};
  fat_gpu gpu = *fixture_gpu("H200");
  fatune_jit_request r = {.task = FATUNE_JIT_NAME, .problem = ASKED, .gpu = &gpu, .cuda = 13, .narrow = 1};
  r.config = "fwd:Br16-Bc32-T256-R8-W4-s1"; /* 128 lanes a row: no config of the space */
  MUST(fat_jit_ask(&jit, &r, &answer, err));
  assert_string_equal(answer.config, NARROW); /* the default, with W = 1 */
  fat_jit_free(&jit, &answer);
  r.config = NARROW; /* its own twin */
  MUST(fat_jit_ask(&jit, &r, &answer, err));
  assert_string_equal(answer.config, NARROW);
  fat_jit_free(&jit, &answer);
  r.config = "fwd:Br16-Bc32"; /* without W */
  assert_int_equal(fat_jit_ask(&jit, &r, &answer, &err), FAT_E_UNSUPPORTED);
  fat_jit_free(&jit, &answer);
  r.config = "fwd:16";
  assert_int_equal(fat_jit_ask(&jit, &r, &answer, &err), FAT_E_INPUT);
  fat_jit_free(&jit, &answer);
  gpu.sm = 60;
  assert_int_equal(fat_jit_ask(&jit, &r, &answer, &err), FAT_E_UNSUPPORTED);
  assert_non_null(strstr(err.text, "sm_60"));
  fat_jit_free(&jit, &answer);
  gpu.sm = 90;
  r = (fatune_jit_request){.task = FATUNE_JIT_REBUILD, .gpu = &gpu, .cuda = 13, .source = "this is no CUDA"};
  assert_int_equal(fat_jit_ask(&jit, &r, &answer, &err), FAT_E_COMPILE);
  assert_null(answer.cubin);
  fat_jit_free(&jit, &answer);
  fat_jit_close(&jit);
}

int main(void)
{
  if (!has_nvrtc())
    return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_default_is_compiled, begin_jit),
      cmocka_unit_test_setup(a_damaged_default_is_a_miss, begin_jit),
      cmocka_unit_test_setup(each_shape_has_its_own_default, begin_jit),
      cmocka_unit_test_setup(few_heads_have_their_own_default, begin_jit),
      cmocka_unit_test_setup(no_place_to_keep_it, begin_jit),
      cmocka_unit_test_setup(no_room_to_keep_it, begin_jit),
      cmocka_unit_test_setup(an_asked_kernel_is_compiled, begin_jit),
      cmocka_unit_test_setup(stored_code_is_preferred, begin_jit),
      cmocka_unit_test_setup(biases_need_no_map, begin_jit),
      cmocka_unit_test_setup(a_plain_winner_is_compiled, begin_jit),
      cmocka_unit_test_setup(stored_source_is_rebuilt, begin_jit),
      cmocka_unit_test_setup(an_imported_row_is_compiled, begin_jit),
      cmocka_unit_test_setup(an_imported_twin_is_compiled, begin_jit),
      cmocka_unit_test_setup(a_row_of_the_other_half_is_compiled, begin_jit),
      cmocka_unit_test_setup(a_row_of_a_wider_head_is_compiled, begin_jit),
      cmocka_unit_test_setup(a_stored_config_is_compiled_when_it_is_called, begin_jit),
      cmocka_unit_test_setup(a_family_compiles_one_twin, begin_jit),
      cmocka_unit_test_setup(several_at_once, begin_jit),
      cmocka_unit_test_setup(defaults_at_once, begin_jit),
      cmocka_unit_test_setup(a_familys_default_is_compiled, begin_jit),
      cmocka_unit_test_setup(a_familys_decoder_is_compiled, begin_jit),
      cmocka_unit_test_setup(a_familys_few_heads_are_compiled, begin_jit),
      cmocka_unit_test_setup(what_is_far_off_has_a_default, begin_jit),
      cmocka_unit_test_setup(far_defaults_that_cannot_be_had, begin_jit),
      cmocka_unit_test_setup(a_default_beside_that_does_not_load, begin_jit),
      cmocka_unit_test_setup(a_mask_of_the_request, begin_jit),
      cmocka_unit_test_setup(shapes_whose_rows_yield, begin_jit),
      cmocka_unit_test_setup(a_default_that_is_not_valid, begin_jit),
      cmocka_unit_test_setup(without_nvrtc, begin_jit),
      cmocka_unit_test_setup(another_libfatune_jit, begin_jit),
      cmocka_unit_test_setup(requests, begin_jit),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
