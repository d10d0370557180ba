/* test_twin.c -- twins for tensors that are not aligned: which config is one, how a plan finds it, and from a
 * tune of the program to a call of the library. The tunes need an NVRTC. */
#include "nvrtc.h"
#include "runtime_fixture.h"
#include "twin.h"
#include "width.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static fat_config config_of(const char *text)
{
  fat_config c;
  MUST(fat_config_parse(text, &c, err));
  return c;
}

static void widths(void **state)
{
  (void)state;
  char text[FAT_CONFIG_TEXT];
  fat_config wide = config_of(WIDE), narrow = wide, without = config_of("fwd:Br64");
  fat_width_narrow(&narrow);
  assert_string_equal(fat_config_print(&narrow, text), NARROW);
  assert_int_equal(fat_width_get(&wide), 4);
  assert_int_equal(fat_width_get(&narrow), 1);
  assert_int_equal(fat_width_get(&without), 0);
  fat_width_narrow(&without);
  assert_string_equal(fat_config_print(&without, text), "fwd:Br64");
  assert_int_equal(fat_width_alignment(&wide, 4), 16);
  assert_int_equal(fat_width_alignment(&narrow, 4), 4);
  assert_int_equal(fat_width_alignment(&narrow, 2), 2);
  assert_int_equal(fat_width_alignment(&without, 4), 16);
  fat_config bytes = config_of("fwd:Br64-W16"), two = config_of("fwd:Br64-W2");
  assert_int_equal(fat_width_alignment(&bytes, 2), 16);
  assert_int_equal(fat_width_alignment(&bytes, 4), 16);
  assert_int_equal(fat_width_alignment(&two, 4), 8);
  assert_int_equal(fat_width_distance(&wide, &narrow), 1);
  assert_int_equal(fat_width_distance(&wide, &without), 5);
  assert_int_equal(fat_width_distance(&wide, &wide), 0);
}

/* The twins of a config of fwd on an H200, as text. */
static const char *twins_of(const char *problem, const char *config)
{
  static char text[FAT_TWIN_MOST * (FAT_CONFIG_TEXT + 1)];
  char one[FAT_CONFIG_TEXT];
  fat_point twins[FAT_TWIN_MOST];
  fat_script *script;
  fat_problem p;
  fat_space space;
  const fat_gpu *gpu;
  int count;
  const fat_config c = config_of(config);
  MUST(fat_script_open(NULL, &script, err));
  MUST(fat_problem_parse(problem, &p, err));
  MUST(fat_gpu_find("H200", &gpu, err));
  MUST(fat_space_list(script, "fwd", &p, gpu, &space, err));
  MUST(fat_twin_find(script, &space, &c, &p, gpu, twins, &count, err));
  text[0] = 0;
  for (int i = 0; i < count; i++) {
    strcat(text, i ? " " : "");
    strcat(text, fat_config_print(&twins[i].config, one) + strlen("fwd:"));
  }
  fat_space_free(&space);
  fat_script_close(script);
  return text;
}

static void twins_of_configs(void **state)
{
  static const char f32[] = "fwd-f32-b4-h32-q4096-k4096-d64", f16[] = "fwd-f16-b4-h32-q4096-k4096-d64";
  (void)state;
  /* itself, then the default */
  assert_string_equal(twins_of(f32, "fwd:Br128-Bc32-T128-R8-W2-s1"),
                      "Br128-Bc32-T128-R8-W1-s1 Br64-Bc32-T128-R4-W1-s1");
  /* is the default */
  assert_string_equal(twins_of(f32, WIDE), "Br64-Bc32-T128-R4-W1-s1");
  /* takes any tensors */
  assert_string_equal(twins_of(f32, NARROW), "");
  /* points that no search walks */
  const char *found = twins_of(f16, "fwd:Br128-Bc64-w4-s1-Q1-b1-Z1-W16");
  assert_memory_equal(found, "Br128-Bc64-w4-s1-Q1-b1-Z1-W1 ", strlen("Br128-Bc64-w4-s1-Q1-b1-Z1-W1 "));
  /* a ring of copies is not for them: the default, then the nearest */
  found = twins_of(f16, "fwd:Br128-Bc32-w4-s3-Q1-b1-Z1-W16");
  assert_null(strstr(found, "-s3-"));
  assert_null(strstr(found, "-W16"));
  assert_non_null(strstr(found, " Br128-Bc32-w4-"));
}

/* Their defaults have tiles on their way that a twin cannot have: it is far in the space, and must be found.
 */
static void defaults_of_the_backward_have_twins(void **state)
{
  static const char *const kernels[] = {"bwd", "bwd_two"}, *const gpus[] = {"A100", "RTX4090", "H200"};
  static const int dims[] = {64, 128, 192, 256};
  fat_script *script;
  (void)state;
  MUST(fat_script_open(NULL, &script, err));
  for (int i = 0; i < 24; i++) {
    const char *kernel = kernels[i % 2];
    char problem[FAT_PROBLEM_TEXT];
    fat_point twins[FAT_TWIN_MOST];
    fat_problem p;
    fat_space space;
    const fat_gpu *gpu;
    int count;
    snprintf(problem, sizeof problem, "bwd-bf16-b2-h16-q4096-k4096-d%d", dims[i / 2 % 4]);
    MUST(fat_problem_parse(problem, &p, err));
    MUST(fat_gpu_find(gpus[i / 8], &gpu, err));
    MUST(fat_space_list(script, kernel, &p, gpu, &space, err));
    MUST(fat_twin_find(script, &space, &space.points[0].config, &p, gpu, twins, &count, err));
    if (count == 0)
      fail_msg("%s on %s: the default of %s has no twin", problem, gpus[i / 8], kernel);
    fat_space_free(&space);
  }
  fat_script_close(script);
}

static void runs(const fatune_plan *plan)
{
  computes(plan, ASKED, 0);
  computes(plan, ASKED, 1);
}

#define OTHER  "fwd:Br32-Bc32-T128-R4-W1-s0" /* a twin that differs in more than W */
#define NEARER "fwd:Br64-Bc32-T128-R4-W1-s0"

static fatune_plan *plan_with_twin(fatune *h, const char *twin)
{
  char line[FAT_CONFIG_TEXT + 8];
  fatune_plan *plan = plan_of(h, ASKED);
  describes(plan, "kernel " WIDE);
  snprintf(line, sizeof line, "twin %s\n", twin);
  describes(plan, line);
  return plan;
}

/* Where the config itself has no twin, that which was made as its twin comes before those that are nearer. */
static void a_stored_twin_is_found(void **state)
{
  (void)state;
  store((stored){.problem = NEAR, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  store((stored){
      .problem = NEAR, .gpu = "H200", .config = OTHER, .ms = 3, .origin = FAT_MEASURED, .twin_of = WIDE});
  store((stored){.problem = NEAR, .gpu = "H200", .config = NEARER, .ms = 2, .origin = FAT_MEASURED});
  fatune *h = open_usual();
  fatune_plan *plan = plan_with_twin(h, OTHER);
  describes(plan, "pick nearest");
  runs(plan);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* The nearest whose code is there; with none the call is refused, and the plan says why. */
static void the_nearest_with_code(void **state)
{
  (void)state;
  store((stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  store((stored){.problem = ASKED,
                 .gpu = "H200",
                 .config = NEARER,
                 .ms = 2,
                 .origin = FAT_MEASURED,
                 .no_content = true});
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  attention a = attention_make(ASKED, 0, 1);
  describes(plan, "why twin: none for tensors that are not 16-byte aligned: no code of " NARROW);
  EXPECT(FATUNE_ERR_ALIGNMENT, "no multiple of 16 bytes", fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_close(h);
  store((stored){.problem = ASKED, .gpu = "H200", .config = OTHER, .ms = 3, .origin = FAT_MEASURED});
  h = open_usual();
  plan = plan_with_twin(h, OTHER);
  runs(plan);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* -- from the program to the library */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined __clang__
#define BUDGET "60s" /* a sanitized worker takes its time */
#else
#define BUDGET "5s"
#endif
#define DEADLINE "60s" /* nothing hangs here, but the fake may be slow: it computes what kernels would */

/* Runs `fatune tune` on the fake driver, or without one. Its dump is where the fake finds sources. */
static void tune_once(const char *problem, const char *driver, const char *gpu)
{
  char libcuda[300], dump[300], sources[300];
  char *argv[] = {"env",
                  libcuda,
                  dump,
                  sources,
                  "FAKE_CUDA_DEVICES=H200",
                  "FAKE_CUDA_EMULATE=reference",
                  FAKES "/../fatune",
                  "tune",
                  (char *)problem,
                  "--kernel",
                  "fwd",
                  "--budget",
                  BUDGET,
                  "--deadline",
                  DEADLINE,
                  "--quiet",
                  gpu ? "--gpu" : NULL,
                  (char *)gpu,
                  NULL};
  posix_spawn_file_actions_t silent;
  pid_t pid;
  int how;
  snprintf(libcuda, sizeof libcuda, "FATUNE_LIBCUDA=%s", driver);
  snprintf(dump, sizeof dump, "FATUNE_DUMP=%s", files.path);
  snprintf(sources, sizeof sources, "FAKE_CUDA_SOURCES=%s", files.path);
  posix_spawn_file_actions_init(&silent);
  posix_spawn_file_actions_addopen(&silent, 1, "/dev/null", O_WRONLY, 0);
  assert_int_equal(posix_spawnp(&pid, argv[0], &silent, NULL, argv, environ), 0);
  posix_spawn_file_actions_destroy(&silent);
  assert_int_equal(waitpid(pid, &how, 0), pid);
  assert_int_equal(how, 0);
}

static void tune(const char *problem, const char *driver, const char *gpu)
{
  int times = 0;
  do
    tune_once(problem, driver, gpu);
  while (!has_winner(problem, "H200") && ++times < FIXTURE_TUNES);
}

static void need_nvrtc(void)
{
  fat_nvrtc *nvrtc = NULL;
  if (fat_nvrtc_open(13, &nvrtc, NULL) != FAT_OK)
    skip();
  fat_nvrtc_close(nvrtc);
}

/* What was tuned serves tensors of any alignment, with nothing to compile. */
static void is_served(const char *pick)
{
  setenv("FATUNE_DISABLE_JIT", "1", 1);
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  describes(plan, pick);
  describes(plan, "kernel-from stored");
  if (strstr(fatune_describe(plan), "kernel-alignment 4\n") == NULL)
    describes(plan, "twin-from stored");
  runs(plan);
  fatune_plan_free(plan);
  fatune_close(h);
}

static void tuned_on_a_gpu(void **state)
{
  (void)state;
  need_nvrtc();
  tune(ASKED, FAKES "/fake_cuda.so", NULL);
  is_served("pick exact");
}

static void lose_code(void)
{
  sqlite3 *sql = NULL;
  assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
  assert_int_equal(sqlite3_exec(sql, "UPDATE trial SET binary = NULL; DELETE FROM binary", NULL, NULL, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

/* Code that was lost is made again by the next tune. */
static void tuned_without_a_gpu(void **state)
{
  (void)state;
  need_nvrtc();
  for (int i = 0; i < 2; i++) {
    tune(ASKED, "/nowhere/libcuda.so", "H200");
    is_served("pick predicted");
    lose_code();
  }
}

/* Kernels on tensor cores copy 16 bytes at a time; their twins take elements of two bytes as they lie. */
static void tuned_for_tensor_cores(void **state)
{
  (void)state;
  need_nvrtc();
  tune("fwd-f16-b1-h2-q64-k64-d64", "/nowhere/libcuda.so", "H200");
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, "fwd-f16-b1-h2-q64-k64-d64");
  describes(plan, "kernel-alignment 16");
  describes(plan, "twin-from stored");
  describes(plan, "twin-alignment 2");
  fatune_plan_free(plan);
  fatune_close(h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(widths),
      cmocka_unit_test(twins_of_configs),
      cmocka_unit_test(defaults_of_the_backward_have_twins),
      cmocka_unit_test_setup(a_stored_twin_is_found, begin),
      cmocka_unit_test_setup(the_nearest_with_code, begin),
      cmocka_unit_test_setup(tuned_on_a_gpu, begin),
      cmocka_unit_test_setup(tuned_without_a_gpu, begin),
      cmocka_unit_test_setup(tuned_for_tensor_cores, begin),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
