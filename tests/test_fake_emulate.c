/* test_fake_emulate.c -- a kernel launched through the fake driver computes attention.
 *
 * Rendered kernels, one recipe step after the other as a runtime takes them, on memory of the fake; the
 * result is compared with the reference in double. The cubin is one without code: the numbers come from the
 * source, found by the hash in the entry's name. */
#include "arguments.h"
#include "db_fixture.h"
#include "fake/bench.h"
#include "folder.h"
#include "check.h"
#include "map.h"

static fake_bench b;
static folder files;
#define cu (b.cu)

typedef struct job {
  emu_case c;
  fat_truth truth;
  fat_source source;
  fat_config config;
  fat_recipe recipe;
  void *module;
  fat_cuda_address at[FAT_TENSORS], workspace;
  fat_problem told; /* the sizes that its kernels are told */
  fat_call call;
  fat_call_layout layout;
  unsigned char packed[FAT_CALL_BYTES]; /* of the latest launch */
} job;

static int begin(void **state)
{
  (void)state;
  fake_bench_clean(&b, "T4");
  fake_bench_begin(&b, 75);
  cu.fake_compute(FAKE_EMULATE);
  cu.fake_sources(files.path);
  return 0;
}

/* ---- a job, step by step ---- */

static fat_sizes sizes_of(const job *j)
{
  return fat_recipe_sizes(&j->c.problem, 40);
}

static job job_render(const char *kernel, const char *problem)
{
  job j = {.c = emu_check_case(problem)};
  j.c.seed = 5;
  j.truth = emu_check_truth(&j.c);
  fat_tensors_layout(&j.c.problem, &j.layout);
  j.config = emu_check_config(kernel, &j.c);
  MUST(emu_kernel_render(emu_check_script(), &j.c.problem, j.c.gpu, &j.config, &j.source, err));
  MUST(fat_recipe_parse(fat_text_get(&j.source.recipe), &j.recipe, err));
  return j;
}

static void job_write_source(const job *j)
{
  char name[64];
  snprintf(name, sizeof name, "%.16s.cu", j->source.hash);
  folder_write(&files, name, fat_text_get(&j->source.text));
}

/* A cubin with the recipe's entries and their parameters. */
static void job_load(job *j)
{
  fake_kernel kernels[FAT_RECIPE_STEPS];
  int count = 0;
  size_t size;
  for (int i = 0; i < j->recipe.steps; i++) {
    const fat_step *s = &j->recipe.step[i];
    if (s->kind != FAT_STEP_LAUNCH)
      continue;
    kernels[count] = (fake_kernel){.name = s->entry, .registers = 64, .params = s->args};
    for (int a = 0; a < s->args; a++)
      kernels[count].size[a] = (int)argument_size(s->arg[a].kind, (size_t)j->layout.bytes);
    count++;
  }
  void *image = cu.fake_cubin(75, count, kernels, &size);
  assert_int_equal(cu.cuModuleLoadData(&j->module, image), 0);
  free(image);
}

static fat_cuda_address tensor_of(const float *data, int64_t count)
{
  fat_cuda_address a;
  assert_int_equal(cu.cuMemAlloc_v2(&a, (size_t)count * sizeof *data), 0);
  if (data)
    assert_int_equal(cu.cuMemcpyHtoD_v2(a, data, (size_t)count * sizeof *data), 0);
  return a;
}

static void job_allocate(job *j)
{
  const fat_problem *p = &j->c.problem;
  const fat_sizes sizes = sizes_of(j);
  int64_t bytes = 0;
  j->told = *p;
  j->call.scale = j->c.scale;
  for (int t = 0; t < FAT_TENSORS; t++) {
    if (fat_tensors_role(p, t) == FAT_ROLE_NONE)
      continue;
    j->at[t] = tensor_of(j->truth.in[t], fat_tensors_elements(p, t));
    j->call.tensor[t].data = (void *)(uintptr_t)j->at[t];
    fat_truth_lay(p, t, FAT_BHSD, 1, j->call.tensor[t].stride);
  }
  if (j->recipe.workspace.count)
    MUST(fat_recipe_workspace(&j->recipe, &sizes, &bytes, err));
  j->workspace = bytes ? tensor_of(NULL, (bytes + 3) / 4) : 0;
}

static void job_map(const job *j, fat_tensor tensor, fat_map_box box, void *map)
{
  const fat_cuda_calls calls = {.map_tiled = cu.cuTensorMapEncodeTiled};
  const fat_map_shape shape = fat_map_shape_of(&j->c.problem, (int)tensor);
  assert_int_equal(fat_map_encode(&calls, &shape, &j->call.tensor[tensor], box, map), 0);
}

static void job_launch(job *j, const fat_step *s, const fat_step_values *v, void *stream)
{
  void *function, *arguments[FAT_RECIPE_ARGS];
  argument value[FAT_RECIPE_ARGS];
  fat_tensors_pack(&j->layout, &j->told, &j->call, j->packed);
  for (int a = 0; a < s->args; a++) {
    arguments[a] = &value[a];
    if (s->arg[a].kind == FAT_ARG_CALL)
      arguments[a] = j->packed;
    else if (s->arg[a].kind == FAT_ARG_WS)
      value[a].pointer = (void *)(uintptr_t)(j->workspace + (uint64_t)v->arg[a]);
    else if (s->arg[a].kind == FAT_ARG_INT)
      value[a].number = (int32_t)v->arg[a];
    else
      job_map(j, s->arg[a].tensor, fat_map_box_of((int)s->arg[a].tensor, v->arg[a], v->heads), value[a].map);
  }
  assert_int_equal(cu.cuModuleGetFunction(&function, j->module, s->entry), 0);
  assert_int_equal(cu.cuFuncSetAttribute(function, FAT_CUDA_FUNCTION_DYNAMIC_SHARED, (int)v->shared), 0);
  assert_int_equal(cu.cuLaunchKernel(function, (unsigned)v->grid, 1, 1, (unsigned)v->block, 1, 1,
                                     (unsigned)v->shared, stream, arguments, NULL),
                   0);
}

static void job_run(job *j, void *stream)
{
  const fat_sizes sizes = sizes_of(j);
  for (int i = 0; i < j->recipe.steps; i++) {
    fat_step_values v;
    MUST(fat_recipe_step(&j->recipe, i, &sizes, &v, err));
    if (j->recipe.step[i].kind == FAT_STEP_CLEAR)
      assert_int_equal(cu.cuMemsetD8Async(j->workspace + (uint64_t)v.offset, 0, (size_t)v.bytes, stream), 0);
    else
      job_launch(j, &j->recipe.step[i], &v, stream);
  }
}

static emu_result job_read(const job *j)
{
  const fat_problem *p = &j->c.problem;
  emu_result r = {.stored = false};
  for (int t = 0; t < FAT_TENSORS; t++) {
    const size_t bytes = (size_t)fat_tensors_elements(p, t) * sizeof(float);
    if (!fat_tensors_is_out(fat_tensors_role(p, t)))
      continue;
    r.out[t] = malloc(bytes);
    assert_non_null(r.out[t]);
    assert_int_equal(cu.cuMemcpyDtoH_v2(r.out[t], j->at[t], bytes), 0);
  }
  return r;
}

static void job_is_right(const job *j)
{
  char why[512];
  emu_result r = job_read(j);
  if (cu.fake_findings())
    fail_msg("%s", cu.fake_finding(0));
  if (!emu_attention_right(&j->c, &j->truth, &r, why, sizeof why))
    fail_msg("%s: %s", emu_check_title(&j->c, &j->config), why);
  assert_int_equal(cu.fake_canaries(), 0);
  emu_result_free(&r);
}

static void job_free(job *j)
{
  fat_truth_free(&j->truth);
  fat_source_free(&j->source);
}

/* Ready to run. */
static job job_make(const char *kernel, const char *problem)
{
  job j = job_render(kernel, problem);
  job_write_source(&j);
  job_load(&j);
  job_allocate(&j);
  return j;
}

/* ---- tests ---- */

static void every_kernel_computes_attention(void **state)
{
  (void)state;
  static const char *const problems[] = {"fwd-f32-b1-h2k1-q37-k50-d64-causal", "fwd-f32-b2-h2-q20-k70-d40"};
  for (int k = 0; k < EMU_KERNELS; k++)
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
      job j = job_make(emu_kernel_names[k], problems[i]);
      job_run(&j, NULL);
      assert_int_equal(cu.cuCtxSynchronize(), 0);
      job_is_right(&j);
      job_free(&j);
    }
}

/* The same numbers, from the reference: no kernel runs, and a wrong family would show. */
static void the_reference_stands_in_for_every_kernel(void **state)
{
  (void)state;
  cu.fake_compute(FAKE_REFERENCE);
  for (int k = 0; k < EMU_KERNELS; k++) {
    job j = job_make(emu_kernel_names[k], "fwd-f32-b2-h4k2-q37-k50-d64-causal");
    job_run(&j, NULL);
    assert_int_equal(cu.cuCtxSynchronize(), 0);
    job_is_right(&j);
    job_free(&j);
  }
}

static void a_graph_gives_the_same_bits(void **state)
{
  (void)state;
  void *stream, *graph, *exec;
  job j = job_make("fa1", "fwd-f32-b1-h2-q37-k50-d64-causal");
  job_run(&j, NULL);
  emu_result first = job_read(&j), again;
  assert_int_equal(cu.cuMemsetD8_v2(j.at[FAT_O], 0xff, 4 * 2 * 37 * 64), 0);
  assert_int_equal(cu.cuStreamCreate(&stream, 1), 0);
  assert_int_equal(cu.cuStreamBeginCapture_v2(stream, 0), 0);
  job_run(&j, stream);
  assert_int_equal(cu.cuStreamEndCapture(stream, &graph), 0);
  assert_int_equal(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
  for (int i = 0; i < 2; i++)
    assert_int_equal(cu.cuGraphLaunch(exec, stream), 0);
  assert_int_equal(cu.cuStreamSynchronize(stream), 0);
  again = job_read(&j);
  assert_memory_equal(first.out[FAT_O], again.out[FAT_O], 4 * 2 * 37 * 64);
  assert_memory_equal(first.out[FAT_LSE], again.out[FAT_LSE], 4 * 2 * 37);
  job_is_right(&j);
  emu_result_free(&first);
  emu_result_free(&again);
  job_free(&j);
}

/* What a device would notice is its error; what it would not is a finding. */
static void faults_of_a_kernel_are_found(void **state)
{
  (void)state;
  job j = job_make("fwd", "fwd-f32-b1-h1-q20-k30-d64");
  assert_int_equal(cu.cuMemFree_v2(j.at[FAT_K]), 0);
  j.at[FAT_K] = tensor_of(NULL, 30 * 64); /* nobody fills it */
  j.call.tensor[FAT_K].data = (void *)(uintptr_t)j.at[FAT_K];
  job_run(&j, NULL);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  assert_true(cu.fake_findings() > 0);
  assert_non_null(strstr(cu.fake_finding(0), "uninitialised read: templates/"));
  job_free(&j);
  begin(NULL);
  j = job_make("fwd", "fwd-f32-b1-h1-q20-k30-d64");
  j.told.k = 31; /* a row more than there is */
  job_run(&j, NULL);
  assert_int_equal(cu.cuCtxSynchronize(), 700);
  assert_int_equal(cu.cuCtxSynchronize(), 700);
  assert_non_null(strstr(cu.fake_finding(0), "out of bounds: templates/"));
  job_free(&j);
}

static void the_reference_stays_in_bounds(void **state)
{
  (void)state;
  cu.fake_compute(FAKE_REFERENCE);
  job j = job_make("fwd", "fwd-f32-b1-h1-q20-k30-d64");
  j.told.q = 21;
  job_run(&j, NULL);
  assert_int_equal(cu.cuCtxSynchronize(), 700);
  assert_non_null(strstr(cu.fake_finding(0), "beyond its allocation"));
  job_free(&j);
}

static void a_missing_source_is_told(void **state)
{
  (void)state;
  job j = job_make("fwd", "fwd-f32-b1-h1-q20-k30-d64");
  cu.fake_sources("/nowhere");
  job_run(&j, NULL);
  assert_int_equal(cu.cuCtxSynchronize(), 719);
  assert_non_null(strstr(cu.fake_finding(0), "no source whose hash begins with"));
  job_free(&j);
}

/* A tool's kernel, like one that reads a clock, has no source anywhere: it runs and changes nothing. */
static void an_entry_without_a_hash_leaves_memory_alone(void **state)
{
  (void)state;
  const fake_kernel tool = {.name = "fat_stamp", .registers = 16, .params = 1, .size = {8}};
  const uint64_t before = 0x0123456789abcdef;
  uint64_t after = 0;
  fat_cuda_address stamp;
  size_t size;
  void *module, *function, *arguments[] = {&stamp};
  void *image = cu.fake_cubin(75, 1, &tool, &size);
  assert_int_equal(cu.cuModuleLoadData(&module, image), 0);
  free(image);
  assert_int_equal(cu.cuModuleGetFunction(&function, module, tool.name), 0);
  assert_int_equal(cu.cuMemAlloc_v2(&stamp, sizeof before), 0);
  assert_int_equal(cu.cuMemcpyHtoD_v2(stamp, &before, sizeof before), 0);
  assert_int_equal(cu.cuLaunchKernel(function, 40, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), 0);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  assert_int_equal(cu.cuMemcpyDtoH_v2(&after, stamp, sizeof after), 0);
  assert_true(after == before);
  assert_int_equal(cu.fake_launches("fat_stamp"), 1);
  assert_int_equal(cu.fake_findings(), 0);
}

/* The way of a tuned kernel: its source lies in the database. */
static void a_source_is_found_in_a_database(void **state)
{
  (void)state;
  char path[300], config[FAT_CONFIG_TEXT];
  fat_db *db;
  job j = job_render("fwd", "fwd-f32-b1-h2-q37-k50-d64-causal");
  fat_trial t =
      fixture_trial("fwd-f32-b1-h2-q37-k50-d64-causal", "T4", fat_config_print(&j.config, config), 1);
  const fat_artifact artifact = {.source = fat_text_get(&j.source.text),
                                 .recipe = fat_text_get(&j.source.recipe)};
  t.source_hash = j.source.hash;
  snprintf(path, sizeof path, "%s/tuned.db", files.path);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_put(db, &t, &artifact, err));
  cu.fake_sources("/nowhere");
  setenv("FAKE_CUDA_DB", path, 1);
  job_load(&j);
  job_allocate(&j);
  job_run(&j, NULL); /* while the database is open here */
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  job_is_right(&j);
  fat_db_close(db);
  job_free(&j);
}

/* Launches beyond what the emulator can number: it starts again, and finds no race with its own past. */
static void many_launches_do_not_mix(void **state)
{
  (void)state;
  job j = job_make("fwd", "fwd-f32-b2-h32-q8-k8-d8");
  for (int i = 0; i < 50; i++)
    job_run(&j, NULL);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  job_is_right(&j);
  assert_int_equal(cu.fake_launches("fwd_*"), 50);
  job_free(&j);
}

static int open_all(void **state)
{
  files = folder_make();
  return emu_check_open(state);
}

static int close_all(void **state)
{
  folder_remove(&files);
  return emu_check_close(state);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_kernel_computes_attention, begin),
      cmocka_unit_test_setup(the_reference_stands_in_for_every_kernel, begin),
      cmocka_unit_test_setup(a_graph_gives_the_same_bits, begin),
      cmocka_unit_test_setup(faults_of_a_kernel_are_found, begin),
      cmocka_unit_test_setup(the_reference_stays_in_bounds, begin),
      cmocka_unit_test_setup(a_missing_source_is_told, begin),
      cmocka_unit_test_setup(an_entry_without_a_hash_leaves_memory_alone, begin),
      cmocka_unit_test_setup(a_source_is_found_in_a_database, begin),
      cmocka_unit_test_setup(many_launches_do_not_mix, begin),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
