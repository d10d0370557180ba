/* test_runtime_faults.c -- libfatune when things go wrong: driver, GPU, stored code, database, fork. */
#include "runtime_fixture.h"

/* -- the driver */

static void no_driver_no_device(void **state)
{
  (void)state;
  fatune *h = NULL;
  setenv("FATUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  EXPECT(FATUNE_ERR_NO_DRIVER, "/nowhere/libcuda.so.1", fatune_open(NULL, &h));
  setenv("FATUNE_LIBCUDA", FAKES "/fake_cuda.so", 1);
  cu.fake_fault("cuInit=34");
  EXPECT(FATUNE_ERR_NO_DRIVER, "stub", fatune_open(NULL, &h));
  cu.fake_fault("cuInit=100");
  EXPECT(FATUNE_ERR_NO_DEVICE, "CUDA_VISIBLE_DEVICES", fatune_open(NULL, &h));
  assert_null(h);
  cu.fake_fault(NULL);
  MUST_RUN(fatune_open(NULL, &h));
  fatune_close(h);
}

/* What each code means, at the calls of a plan and at a launch. */
static void codes_become_statuses(void **state)
{
  (void)state;
  const struct {
    const char *plan;
    fatune_status status;
    const char *word;
  } at_plan[] = {
      {"cuCtxGetCurrent=999", FATUNE_ERR_DEVICE_LOST, "cuCtxGetCurrent"},
      {"cuCtxGetDevice=201", FATUNE_ERR_NO_CONTEXT, "cuCtxGetDevice"},
      {"cuCtxGetId=3", FATUNE_ERR_NO_DRIVER, "cuCtxGetId"},
      {"cuDeviceGetAttribute=101", FATUNE_ERR_NO_DEVICE, "cuDeviceGetAttribute"},
      {"cuDeviceGetName=999", FATUNE_ERR_NO_DEVICE, "cuDeviceGetName"},
      {"cuDeviceTotalMem=999", FATUNE_ERR_NO_DEVICE, "cuDeviceTotalMem"},
      {"cuModuleLoadData=2", FATUNE_ERR_DEVICE_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY (2)"},
      {"cuModuleLoadData=700", FATUNE_ERR_CONTEXT_DEAD, "700"},
      {"cuModuleLoadData=214", FATUNE_ERR_DEVICE_LOST, "214"},
      {"cuModuleLoadData=900", FATUNE_ERR_CAPTURE, "900"},
      {"cuModuleLoadData=209", FATUNE_ERR_MISS, "no measurement"},
      {"cuModuleLoadData=200", FATUNE_ERR_MISS, "no measurement"},
      {"cuModuleLoadData=222", FATUNE_ERR_MISS, "no measurement"},
      {"cuModuleGetFunction=500", FATUNE_ERR_MISS, "no measurement"},
      {"cuFuncLoad=1", FATUNE_ERR_CUDA, "cuFuncLoad"},
      {"cuFuncSetAttribute=1", FATUNE_ERR_MISS, "no measurement"},
      {"cuFuncSetAttribute=400", FATUNE_ERR_CUDA, "cuFuncSetAttribute"},
  };
  const struct {
    const char *plan;
    fatune_status status;
  } at_run[] = {
      {"cuLaunchKernel=701", FATUNE_ERR_LAUNCH},       {"cuLaunchKernel=1", FATUNE_ERR_CUDA},
      {"cuLaunchKernel=2", FATUNE_ERR_DEVICE_MEMORY},  {"cuLaunchKernel=700", FATUNE_ERR_CONTEXT_DEAD},
      {"cuLaunchKernel=716", FATUNE_ERR_CONTEXT_DEAD}, {"cuLaunchKernel=719", FATUNE_ERR_CONTEXT_DEAD},
      {"cuLaunchKernel=702", FATUNE_ERR_CONTEXT_DEAD}, {"cuLaunchKernel=999", FATUNE_ERR_DEVICE_LOST},
      {"cuLaunchKernel=901", FATUNE_ERR_CAPTURE},      {"cuLaunchKernel=400", FATUNE_ERR_CUDA},
      {"cuLaunchKernel=5555", FATUNE_ERR_CUDA},        {"cuCtxGetCurrent=201", FATUNE_ERR_NO_CONTEXT},
      {"cuLaunchKernel=709", FATUNE_ERR_NO_CONTEXT},
  };
  for (size_t i = 0; i < sizeof at_plan / sizeof *at_plan; i++) {
    begin(state);
    store_usual();
    fatune *h = open_usual();
    fatune_plan *plan = NULL;
    fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
    cu.fake_fault(at_plan[i].plan);
    EXPECT(at_plan[i].status, at_plan[i].word, fatune_plan_make(h, &r, &plan));
    assert_null(plan);
    fatune_close(h);
  }
  for (size_t i = 0; i < sizeof at_run / sizeof *at_run; i++) {
    begin(state);
    store_usual();
    fatune *h = open_usual();
    fatune_plan *plan = plan_of(h, ASKED);
    attention a = attention_make(ASKED, 0, 0);
    cu.fake_fault(at_run[i].plan);
    EXPECT(at_run[i].status, "fails with", fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
    attention_free(&a);
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* After a failure that is not for ever, the same handle and plan go on. */
static void what_passes_is_forgotten(void **state)
{
  (void)state;
  store_usual();
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  cu.fake_fault("cuModuleLoadData#1=2,cuLaunchKernel#1=701");
  assert_int_equal(fatune_plan_make(h, &r, &plan), FATUNE_ERR_DEVICE_MEMORY);
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  attention a = attention_make(ASKED, 0, 0);
  assert_int_equal(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL), FATUNE_ERR_LAUNCH);
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  is_right(&a);
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* A fault of a kernel shows where the caller waits; from then on each run says that the context is dead. */
static void a_dead_context_is_told(void **state)
{
  (void)state;
  store_usual();
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  attention a = attention_make(ASKED, 0, 0);
  cu.fake_fault("fwd_*#1=700");
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  assert_int_equal(cu.cuCtxSynchronize(), 700);
  EXPECT(FATUNE_ERR_CONTEXT_DEAD, "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
         fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* What the GPU dies of while the twin's code is loaded is told, and no miss; what only that code is to blame
 * for leaves a plan without a twin. */
static void the_twin_kills_or_is_left_out(void **state)
{
  static const struct {
    const char *fault;
    fatune_status status;
  } cases[] = {{"cuModuleLoadData#2=700", FATUNE_ERR_CONTEXT_DEAD},
               {"cuModuleLoadData#2=2", FATUNE_ERR_DEVICE_MEMORY},
               {"cuModuleLoadData#2=200,cuModuleLoadData#3=700", FATUNE_ERR_CONTEXT_DEAD},
               {"cuModuleLoadData#2+=200", FATUNE_OK}};
  const stored elsewhere = {
      .problem = ASKED, .gpu = "H100 SXM", .config = NARROW, .ms = 2, .origin = FAT_MEASURED};
  for (int i = 0; i < 4; i++) {
    begin(state);
    store_usual();
    store(elsewhere); /* the same twin once more */
    fatune *h = open_usual();
    fatune_plan *plan = NULL;
    fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
    cu.fake_fault(cases[i].fault);
    if (cases[i].status != FATUNE_OK) {
      EXPECT(cases[i].status, "cuModuleLoadData fails with", fatune_plan_make(h, &r, &plan));
      assert_null(plan);
    } else {
      MUST_RUN(fatune_plan_make(h, &r, &plan));
      describes(plan, "kernel " WIDE);
      describes(plan, "why twin: none");
      computes(plan, ASKED, 0);
    }
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* -- stored code */

static void expect_pick(const char *pick, const char *kernel, const char *word)
{
  char line[FAT_CONFIG_TEXT + 16];
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  describes(plan, pick);
  snprintf(line, sizeof line, "kernel %s", kernel);
  describes(plan, line);
  if (!strstr(fatune_describe(plan), word))
    fail_msg("no '%s' in %s", word, fatune_describe(plan));
  computes(plan, ASKED, 0);
  fatune_plan_free(plan);
  fatune_close(h);
}

#define SECOND "fwd:Br32-Bc32-T128-R4-W4-s0"

/* A row whose code cannot be loaded is left out, the next best serves, and describe says so. */
static void unusable_code_is_left_out(void **state)
{
  const char *const damages[] = {
      "UPDATE binary SET cubin = zeroblob(length(cubin)) WHERE rowid = (SELECT min(rowid) FROM binary)",
      "UPDATE binary SET cubin = substr(cubin, 1, 40) WHERE rowid = (SELECT min(rowid) FROM binary)",
      "DELETE FROM recipe WHERE rowid = (SELECT min(rowid) FROM recipe)",
      "UPDATE recipe SET text = 'launch' WHERE rowid = (SELECT min(rowid) FROM recipe)",
  };
  const stored first = {.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED};
  const stored second = {.problem = NEAR, .gpu = "H200", .config = SECOND, .ms = 1, .origin = FAT_MEASURED};
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    begin(state);
    store(first);
    store(second);
    expect_pick("pick exact", WIDE, "kernel-from stored");
    char sql[200];
    snprintf(sql, sizeof sql, "PRAGMA foreign_keys = OFF; %s", damages[i]);
    fixture_sql(path, sql);
    expect_pick("pick nearest", SECOND, "why left out: " WIDE);
  }
  const stored others[] = {
      {.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .no_cubin = true},
      {.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .no_content = true},
      {.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .sm = 75},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    begin(state);
    store(others[i]);
    store(second);
    expect_pick("pick nearest", SECOND, "why left out: " WIDE);
  }
  /* The very code may lie with a trial of another shape. */
  begin(state);
  store(others[0]);
  store((stored){.problem = NEAR, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  expect_pick("pick exact", WIDE, "kernel-from stored");
}

/* -- the database: whatever is wrong with it is a miss */

static void expect_miss(const char *word)
{
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  char why[2000];
  EXPECT(FATUNE_ERR_MISS, "nothing stored", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  if (!strstr(fatune_detail(), strcmp(word, "database:") ? word : "; database: "))
    fail_msg("no '%s' in %s", word, fatune_detail());
  assert_int_equal(fatune_why(h, &r, why, sizeof why), FATUNE_ERR_MISS);
  if (!strstr(why, word))
    fail_msg("no '%s' in %s", word, why);
  fatune_close(h);
}

static void a_bad_database_is_a_miss(void **state)
{
  (void)state;
  char garbage[8192];
  memset(garbage, 'x', sizeof garbage);
  expect_miss("database:"); /* none */
  fixture_write(path, garbage, sizeof garbage);
  expect_miss("database:");
  fixture_write(path, "", 0);
  expect_miss("empty");
  unlink(path);
  store_usual();
  fixture_sql(path, "PRAGMA user_version = 9000");
  expect_miss("has version 9.0");
  fixture_sql(path, "PRAGMA user_version = 1002; DROP TABLE winner");
  expect_miss("damaged");
  unlink(path);
  store_usual();
  fixture_spoil(path, "trial");
  expect_miss("is damaged");
  unlink(path);
  mkdir(path, 0700);
  expect_miss("database:");
  rmdir(path);
  store_usual();
  chmod(path, 0666);
  expect_miss("may be written by others");
  chmod(path, 0600);
  unsetenv("FATUNE_DB");
  unsetenv("XDG_DATA_HOME");
  char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  unsetenv("HOME");
  expect_miss("HOME");
  if (home)
    setenv("HOME", home, 1);
  free(home);
}

/* The system's file serves where the user's cannot be read. */
static void the_system_file_stands_in(void **state)
{
  (void)state;
  char system[300];
  snprintf(system, sizeof system, "%s/system.db", files.path);
  unlink(system);
  store((stored){
      .problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .into = system});
  fixture_write(path, "this is no database, whatever its name says", 43);
  setenv("FATUNE_SYSTEM_DB", system, 1);
  expect_pick("pick exact", WIDE, "why database: ");
  unlink(system);
}

/* A database that somebody holds is a miss after SQLite's patience of 5 seconds, and no error. */
static void a_busy_database_is_a_miss(void **state)
{
  (void)state;
  sqlite3 *other = NULL;
  store_usual();
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_MISS, "nothing stored", fatune_plan_make(h, &r, &plan));
  sqlite3_close(other);
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* Between two plans no file is held: another program may lock, replace or remove the database. */
static void no_connection_is_held(void **state)
{
  (void)state;
  char name[64], target[400];
  store_usual();
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  for (int i = 3; i < 256; i++) {
    snprintf(name, sizeof name, "/proc/self/fd/%d", i);
    ssize_t n = readlink(name, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    if (strstr(target, path))
      fail_msg("%s is open", target);
  }
  fatune_plan_free(plan);
  fatune_close(h);
}

/* -- fork */

static int child_of(fatune *h, fatune_plan *plan)
{
  fatune_plan *made = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  attention a = {0};
  size_t bytes;
  char why[10];
  if (fatune_plan_make(h, &r, &made) != FATUNE_ERR_FORKED || made)
    return 1;
  if (!strstr(fatune_detail(), "fork"))
    return 2;
  if (fatune_run(plan, tensors_of(&a), NULL, NULL, NULL) != FATUNE_ERR_FORKED)
    return 3;
  if (fatune_workspace(plan, NULL, &bytes) != FATUNE_ERR_FORKED)
    return 4;
  if (fatune_supported(h, &r) != FATUNE_ERR_FORKED || fatune_why(h, &r, why, sizeof why) != FATUNE_ERR_FORKED)
    return 5;
  fatune_plan_free(plan);
  fatune_close(h);
  fatune *own = NULL; /* the parent used CUDA: the driver itself refuses */
  return fatune_open(NULL, &own) == FATUNE_ERR_NO_DRIVER ? 0 : 6;
}

static void a_forked_child_gets_an_error(void **state)
{
  (void)state;
  int status;
  store_usual();
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  pid_t pid = fork();
  if (pid == 0)
    _exit(child_of(h, plan));
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  attention a = attention_make(ASKED, 0, 0); /* the parent goes on */
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  is_right(&a);
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_close(h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(no_driver_no_device, begin),
      cmocka_unit_test_setup(codes_become_statuses, begin),
      cmocka_unit_test_setup(what_passes_is_forgotten, begin),
      cmocka_unit_test_setup(a_dead_context_is_told, begin),
      cmocka_unit_test_setup(the_twin_kills_or_is_left_out, begin),
      cmocka_unit_test_setup(unusable_code_is_left_out, begin),
      cmocka_unit_test_setup(a_bad_database_is_a_miss, begin),
      cmocka_unit_test_setup(the_system_file_stands_in, begin),
      cmocka_unit_test_setup(a_busy_database_is_a_miss, begin),
      cmocka_unit_test_setup(no_connection_is_held, begin),
      cmocka_unit_test_setup(a_forked_child_gets_an_error, begin),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
