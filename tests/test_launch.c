/* test_launch.c -- a recipe's numbers frozen for sizes, and what a run then passes to the driver. */
#include "launch.h"
#include "emu/maps.h"
#include "runtime_fixture.h"

static fat_driver *driver;

static int begin_driver(void **state)
{
  begin(state);
  cu.fake_compute(FAKE_NOTHING);
  MUST(fat_driver_open(&driver, err));
  return 0;
}

static int end_driver(void **state)
{
  (void)state;
  fat_driver_close(driver);
  return 0;
}

/* A module with the entries of a recipe. */
static fat_module *module_for(const char *text, fat_recipe *recipe)
{
  char hash[FAT_HASH_SIZE];
  size_t size;
  fat_module *m;
  MUST(fat_recipe_parse(text, recipe, err));
  void *cubin = cubin_for(text, 90, &size);
  fat_text_hash(cubin, size, hash);
  MUST(fat_module_load(driver, cubin, size, hash, &m, err));
  free(cubin);
  return m;
}

static const char two_steps[] =
    "workspace 8*b*h*q\n"
    "clear 4*b*h*q 4*b*h*q\n"
    "launch a_0123456789abcdef grid b*h*ceildiv(q,32) block 64 shared 2048 args call ws(0) int(q)\n"
    "launch b_0123456789abcdef grid b*h block 32 shared 0 args ws(4*b*h*q) call\n";

static void numbers_are_frozen(void **state)
{
  (void)state;
  static fat_recipe recipe;
  fat_launch l;
  const fat_problem p = {.b = 2, .h = 3, .hk = 1, .q = 33, .k = 40, .d = 64, .dv = 64};
  fat_module *m = module_for(two_steps, &recipe);
  MUST(fat_launch_prepare(&recipe, &p, 132, m, &l, err));
  memset(&recipe, 0xff, sizeof recipe); /* not needed any more */
  assert_int_equal(l.workspace, 8 * 2 * 3 * 33);
  assert_int_equal(l.steps, 3);
  assert_int_equal(l.step[0].offset, 4 * 2 * 3 * 33);
  assert_int_equal(l.step[0].bytes, 4 * 2 * 3 * 33);
  assert_int_equal(l.step[1].grid, 12);
  assert_int_equal(l.step[1].block, 64);
  assert_int_equal(l.step[1].shared, 2048);
  assert_int_equal(l.step[1].args, 3);
  assert_int_equal(l.step[1].arg[2].value, 33);
  assert_int_equal(l.step[2].arg[0].value, 4 * 2 * 3 * 33);
  fat_module_free(m);
}

/* The clear reaches its bytes and no others; a failing step is named. */
static void steps_run_in_order(void **state)
{
  (void)state;
  static fat_recipe recipe;
  fat_launch l;
  const fat_problem p = {.b = 1, .h = 1, .hk = 1, .q = 8, .k = 8, .d = 64, .dv = 64};
  const fat_call args = {.scale = 1};
  unsigned char bytes[64];
  fat_error err = {0};
  fat_module *m = module_for(two_steps, &recipe);
  MUST(fat_launch_prepare(&recipe, &p, 132, m, &l, err));
  fat_cuda_address ws = (uintptr_t)device_memory(64);
  assert_int_equal(cu.cuMemsetD8_v2(ws, 7, 64), 0);
  MUST(fat_launch_run(driver, &l, &args, ws, NULL, err));
  assert_int_equal(cu.fake_launches("a_*"), 1);
  assert_int_equal(cu.fake_launches("b_*"), 1);
  assert_int_equal(cu.cuMemcpyDtoH_v2(bytes, ws, 64), 0);
  for (int i = 0; i < 64; i++)
    assert_int_equal(bytes[i], i < 32 ? 7 : 0);
  const struct {
    const char *plan, *word;
  } faults[] = {{"cuMemsetD8Async=1", "step 1 of 3: cuMemsetD8Async"},
                {"cuLaunchKernel#1=701", "step 2 of 3: cuLaunchKernel"},
                {"cuLaunchKernel#2=701", "step 3 of 3: cuLaunchKernel"}};
  for (int i = 0; i < 3; i++) {
    cu.fake_fault(faults[i].plan);
    assert_int_equal(fat_launch_run(driver, &l, &args, ws, NULL, &err), i == 0 ? FAT_E_CUDA : FAT_E_LAUNCH);
    if (!strstr(err.text, faults[i].word))
      fail_msg("'%s' does not say '%s'", err.text, faults[i].word);
  }
  cu.fake_fault(NULL);
  fat_module_free(m);
}

/* A zero length leaves nothing to launch or to clear. */
static void empty_steps_are_left_out(void **state)
{
  (void)state;
  static fat_recipe recipe;
  fat_launch l;
  const fat_problem p = {.b = 0, .h = 1, .hk = 1, .q = 8, .k = 8, .d = 64, .dv = 64};
  const fat_call args = {0};
  long launches = cu.fake_calls("cuLaunchKernel"), fills = cu.fake_calls("cuMemsetD8Async");
  fat_module *m = module_for(two_steps, &recipe);
  MUST(fat_launch_prepare(&recipe, &p, 132, m, &l, err));
  MUST(fat_launch_run(driver, &l, &args, 0, NULL, err));
  assert_int_equal(cu.fake_calls("cuLaunchKernel"), launches);
  assert_int_equal(cu.fake_calls("cuMemsetD8Async"), fills);
  fat_module_free(m);
}

static void what_cannot_be_prepared(void **state)
{
  (void)state;
  static fat_recipe recipe, other;
  fat_launch l;
  fat_error err = {0};
  const fat_problem p = {.b = 1, .h = 1, .hk = 1, .q = 8, .k = 8, .d = 64, .dv = 64};
  fat_module *m = module_for(two_steps, &recipe);
  MUST(fat_recipe_parse("launch c_0123456789abcdef grid 1 block 32 shared 0 args call\n", &other, err));
  assert_int_equal(fat_launch_prepare(&other, &p, 132, m, &l, &err), FAT_E_IMAGE);
  MUST(fat_recipe_parse("launch a_0123456789abcdef grid b-1 block 32 shared 0 args call\n", &other, err));
  assert_int_equal(fat_launch_prepare(&other, &p, 132, m, &l, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "grid is 0"));
  MUST(fat_recipe_parse("workspace k-9\nlaunch a_0123456789abcdef grid 1 block 32 shared 0 args call\n",
                        &other, err));
  assert_int_equal(fat_launch_prepare(&other, &p, 132, m, &l, &err), FAT_E_INPUT);
  fat_module_free(m);
}

/* Clusters and overlaps go by cuLaunchKernelEx, all else as it always did. */
static void clusters_and_overlaps(void **state)
{
  (void)state;
  static fat_recipe recipe;
  static const char text[] =
      "launch a_0123456789abcdef grid 4*b block 64 shared 0 cluster 2 overlap args call\n"
      "launch b_0123456789abcdef grid b block 64 shared 0 overlap args call\n"
      "launch c_0123456789abcdef grid 4*b block 64 shared 0 cluster 4 args call\n"
      "launch d_0123456789abcdef grid b block 64 shared 0 args call\n";
  fat_launch l;
  fat_error err = {0};
  const fat_problem p = {.b = 2, .h = 1, .hk = 1, .q = 8, .k = 8, .d = 64, .dv = 64};
  const fat_call args = {.scale = 1};
  long plain = cu.fake_calls("cuLaunchKernel"), with = cu.fake_calls("cuLaunchKernelEx");
  fat_module *m = module_for(text, &recipe);
  MUST(fat_launch_prepare(&recipe, &p, 132, m, &l, err));
  assert_true(l.step[0].cluster == 2 && l.step[0].overlap && l.step[1].cluster == 0 && !l.step[2].overlap);
  MUST(fat_launch_run(driver, &l, &args, 0, NULL, err));
  assert_int_equal(cu.fake_calls("cuLaunchKernel"), plain + 1);
  assert_int_equal(cu.fake_calls("cuLaunchKernelEx"), with + 3);
  assert_int_equal(cu.fake_launches("*"), 4);
  l.step[2].grid = 6; /* the driver refuses what does not divide */
  assert_int_equal(fat_launch_run(driver, &l, &args, 0, NULL, &err), FAT_E_LAUNCH);
  assert_non_null(strstr(err.text, "step 3 of 4: cuLaunchKernelEx fails with"));
  fat_cuda_calls *calls = (fat_cuda_calls *)fat_driver_table(driver);
  calls->launch_with = NULL;
  assert_int_equal(fat_launch_prepare(&recipe, &p, 132, m, &l, &err), FAT_E_UNSUPPORTED);
  assert_non_null(strstr(err.text, "a_0123456789abcdef is launched in clusters"));
  assert_non_null(strstr(err.text, "CUDA 11.8"));
  fat_module_free(m);
  m = module_for(strstr(text, "launch d"),
                 &recipe); /* an overlap is a permission: an old driver goes without */
  recipe.step[0].overlap = true;
  MUST(fat_launch_prepare(&recipe, &p, 132, m, &l, err));
  MUST(fat_launch_run(driver, &l, &args, 0, NULL, err));
  assert_int_equal(cu.fake_calls("cuLaunchKernel"), plain + 2);
  fat_module_free(m);
}

/* Before CUDA 12.3 a graph cannot capture a launch that overlaps: those drivers go without. */
static void overlaps_need_a_driver_that_captures_them(void **state)
{
  (void)state;
  static fat_recipe recipe;
  static const struct {
    const char *version;
    bool overlaps;
  } drivers[] = {{"12020", false}, {"12030", true}};
  for (int i = 0; i < 2; i++) {
    const fat_problem p = {.b = 2, .h = 1, .hk = 1, .q = 8, .k = 8, .d = 64, .dv = 64};
    const fat_call args = {.scale = 1};
    fat_launch l;
    fat_driver_close(driver);
    setenv("FAKE_CUDA_VERSION", drivers[i].version, 1);
    MUST(fat_driver_open(&driver, err));
    fat_module *m =
        module_for("launch a_0123456789abcdef grid b block 64 shared 0 overlap args call\n", &recipe);
    const long with = cu.fake_calls("cuLaunchKernelEx");
    MUST(fat_launch_prepare(&recipe, &p, 132, m, &l, err));
    MUST(fat_launch_run(driver, &l, &args, 0, NULL, err));
    assert_int_equal(cu.fake_calls("cuLaunchKernelEx"), with + drivers[i].overlaps);
    fat_module_free(m);
  }
}

/* The fake driver itself: one attribute off at a time. */
static void the_fake_driver_checks_attributes(void **state)
{
  (void)state;
  fat_cuda_attribute a[2] = {{.id = FAT_CUDA_LAUNCH_CLUSTER, .value.cluster = {2, 1, 1}},
                             {.id = FAT_CUDA_LAUNCH_OVERLAP, .value.overlap = 1}};
  fat_cuda_launch l = {.grid = {4, 1, 1}, .block = {32, 1, 1}, .attribute = a, .attributes = 2};
  void *arguments[] = {a, a, a};
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 0);
  assert_int_equal(cu.cuLaunchKernelEx(NULL, bench.function, arguments, NULL), 1);
  assert_int_equal(cu.cuLaunchKernelEx(&l, NULL, arguments, NULL), 400);
  a[0].value.cluster[0] = 3;
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 912);
  a[0].value.cluster[0] = 0;
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 912);
  l.grid[0] = a[0].value.cluster[0] = 16;
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 912);
  a[0].value.cluster[0] = 8;
  a[1].value.overlap = 2;
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 1);
  a[1].value.overlap = 0;
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 0);
  a[1].id = 3;
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 1);
  l.attribute = NULL;
  assert_int_equal(cu.cuLaunchKernelEx(&l, bench.function, arguments, NULL), 1);
}

/* What the config is none for, and shared memory beyond what was asked for when it was loaded. */
static void sizes_that_a_config_is_none_for(void **state)
{
  (void)state;
  static fat_recipe recipe;
  static const char text[] = "valid 65-q\n"
                             "launch a_0123456789abcdef grid b block 64 shared 16*k args call\n";
  fat_launch l;
  fat_entries entries;
  fat_call_layout layout;
  fat_error err = {0};
  fat_problem p = {.b = 2, .h = 1, .hk = 1, .q = 64, .k = 8, .d = 64, .dv = 64};
  fat_module *m = module_for(text, &recipe);
  const fat_sizes sizes = fat_recipe_sizes(&p, 132);
  fat_tensors_layout(&p, &layout);
  MUST(fat_launch_find(&recipe, &sizes, m, &entries, err));
  MUST(fat_launch_evaluate(&recipe, &entries, &p, &layout, 132, &l, err));
  assert_int_equal(l.step[0].shared, 128);
  p.k = 4;
  MUST(fat_launch_evaluate(&recipe, &entries, &p, &layout, 132, &l, err));
  assert_int_equal(l.step[0].shared, 64);
  p.k = 9;
  assert_int_equal(fat_launch_evaluate(&recipe, &entries, &p, &layout, 132, &l, &err), FAT_E_UNSUPPORTED);
  assert_non_null(strstr(err.text, "144 bytes of shared memory"));
  p.q = 65;
  assert_int_equal(fat_launch_evaluate(&recipe, &entries, &p, &layout, 132, &l, &err), FAT_E_UNSUPPORTED);
  assert_non_null(strstr(err.text, "65-q is 0"));
  assert_int_equal(fat_launch_prepare(&recipe, &p, 132, m, &l, &err), FAT_E_UNSUPPORTED);
  fat_module_free(m);
}

/* -- tensor maps */

static const fat_problem mapped = {
    .dtype = FAT_F16, .b = 2, .h = 3, .hk = 1, .q = 33, .k = 40, .d = 64, .dv = 40};
static const char with_maps[] =
    "launch a_0123456789abcdef grid b*h block 64 shared 0 args mapO(96) call mapK(64)\n";

static void maps_are_prepared(void **state)
{
  (void)state;
  static fat_recipe recipe;
  fat_launch l;
  fat_module *m = module_for(with_maps, &recipe);
  MUST(fat_launch_prepare(&recipe, &mapped, 132, m, &l, err));
  assert_int_equal(l.mapped, 1u << FAT_K | 1u << FAT_O);
  assert_int_equal(l.step[0].arg[0].kind, FAT_ARG_MAP);
  assert_int_equal(l.step[0].arg[0].tensor, FAT_O);
  assert_int_equal(l.step[0].arg[0].value, 96);
  assert_int_equal(l.shape[FAT_K].size[0], 64);
  assert_int_equal(l.shape[FAT_O].size[0], 40);
  /* Of the tensors that are mapped, and of no others. */
  void *odd = (void *)(uintptr_t)0x10008, *even = (void *)(uintptr_t)0x10000;
  fat_call c = {.tensor = {[FAT_Q] = {odd, {1, 1, 1}},
                           [FAT_K] = {even, {2560, 0, 64}},
                           [FAT_V] = {odd, {1, 1, 1}},
                           [FAT_O] = {even, {3960, 1320, 40}}}};
  assert_true(fat_launch_takes(&l, &c));
  c.tensor[FAT_O].stride[2] = -40;
  assert_false(fat_launch_takes(&l, &c));
  c.tensor[FAT_O].stride[2] = 40;
  c.tensor[FAT_K].data = odd;
  assert_false(fat_launch_takes(&l, &c));
  fat_module_free(m);
}

/* A kernel that stores what it is given: a map behind another one and in a parameter's own alignment. */
static void kernels_get_the_maps(void **state)
{
  (void)state;
  static fat_recipe recipe;
  static const char text[] = "#line 1 \"maps.cu\"\n"
                             "typedef unsigned int u32;\n"
                             "struct alignas(64) map { u32 word[32]; };\n"
                             "struct tensor { void *data; long long b, h, n; };\n"
                             "struct call { tensor Q, K, V, O; float *LSE; long long LSE_b, LSE_h; int b, h, "
                             "hk, q, k; float scale; };\n"
                             "extern \"C\" __global__ void __launch_bounds__(64)\n"
                             "a_0123456789abcdef(const map O, const call a, const map K)\n"
                             "{\n"
                             "  u32 *to = (u32 *)a.Q.data;\n"
                             "  if (thread_id() < 32 && block_id() == 0) {\n"
                             "    to[thread_id()] = O.word[thread_id()];\n"
                             "    to[32 + thread_id()] = K.word[thread_id()];\n"
                             "  }\n"
                             "}\n";
  emu_tensor_map got[2];
  fat_launch l;
  folder_write(&files, "0123456789abcdef.cu", text);
  cu.fake_compute(FAKE_EMULATE);
  fat_module *m = module_for(with_maps, &recipe);
  MUST(fat_launch_prepare(&recipe, &mapped, 132, m, &l, err));
  void *to = device_memory(sizeof got), *keys = device_memory(64 * 1024), *o = device_memory(64 * 1024);
  const fat_call c = {
      .tensor = {
          [FAT_Q] = {to, {1, 1, 1}}, [FAT_K] = {keys, {2560, 7, 64}}, [FAT_O] = {o, {3960, 1320, 40}}}};
  MUST(fat_launch_run(driver, &l, &c, 0, NULL, err));
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  if (cu.fake_findings())
    fail_msg("%s", cu.fake_finding(0));
  assert_int_equal(cu.cuMemcpyDtoH_v2(got, (uintptr_t)to, sizeof got), 0);
  assert_true(got[0].magic == EMU_MAP_MAGIC && got[1].magic == EMU_MAP_MAGIC);
  assert_true(got[0].base == (uintptr_t)o && got[1].base == (uintptr_t)keys);
  assert_true(got[0].box[1] == 96 && got[1].box[1] == 64);
  assert_true(got[0].stride[2] == 2 * 3960 && got[1].stride[2] == 2 * 2560);
  assert_int_equal(got[1].stride[1], 128); /* one head: its stride means nothing */
  fat_module_free(m);
}

static void a_map_that_is_refused_is_told(void **state)
{
  (void)state;
  static fat_recipe recipe;
  fat_error err = {0};
  fat_launch l;
  fat_module *m = module_for(with_maps, &recipe);
  MUST(fat_launch_prepare(&recipe, &mapped, 132, m, &l, err));
  const fat_call c = {.tensor = {[FAT_K] = {(void *)(uintptr_t)0x10000, {2560, 0, 64}},
                                 [FAT_O] = {(void *)(uintptr_t)0x10008, {1, 1, 1}}}};
  assert_int_equal(fat_launch_run(driver, &l, &c, 0, NULL, &err), FAT_E_CUDA);
  assert_non_null(
      strstr(err.text, "step 1 of 1: cuTensorMapEncodeTiled fails with CUDA_ERROR_INVALID_VALUE"));
  assert_int_equal(cu.fake_launches("*"), 0);
  fat_module_free(m);
}

/* Drivers before CUDA 12.0 have no such function. */
static void a_driver_without_maps(void **state)
{
  (void)state;
  static fat_recipe recipe, plain;
  fat_error err = {0};
  fat_launch l;
  fat_cuda_calls *calls = (fat_cuda_calls *)fat_driver_table(driver);
  assert_non_null(calls->map_tiled);
  calls->map_tiled = NULL;
  fat_module *m = module_for(with_maps, &recipe);
  assert_int_equal(fat_launch_prepare(&recipe, &mapped, 132, m, &l, &err), FAT_E_UNSUPPORTED);
  assert_non_null(strstr(err.text, "a_0123456789abcdef takes tensor maps"));
  assert_non_null(strstr(err.text, "CUDA 12.0"));
  MUST(fat_recipe_parse("launch a_0123456789abcdef grid 1 block 32 shared 0 args call\n", &plain, err));
  MUST(fat_launch_prepare(&plain, &mapped, 132, m, &l, err));
  fat_module_free(m);
}

int main(void)
{
#define WITH_DRIVER(test) cmocka_unit_test_setup_teardown(test, begin_driver, end_driver)
  const struct CMUnitTest tests[] = {
      WITH_DRIVER(numbers_are_frozen),
      WITH_DRIVER(steps_run_in_order),
      WITH_DRIVER(empty_steps_are_left_out),
      WITH_DRIVER(what_cannot_be_prepared),
      WITH_DRIVER(clusters_and_overlaps),
      WITH_DRIVER(overlaps_need_a_driver_that_captures_them),
      WITH_DRIVER(the_fake_driver_checks_attributes),
      WITH_DRIVER(sizes_that_a_config_is_none_for),
      WITH_DRIVER(maps_are_prepared),
      WITH_DRIVER(kernels_get_the_maps),
      WITH_DRIVER(a_map_that_is_refused_is_told),
      WITH_DRIVER(a_driver_without_maps),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
