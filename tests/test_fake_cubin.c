/* test_fake_cubin.c -- the fake driver reads cubins: those of the compiler, and damaged ones without harm. */
#include "fake/bench.h"
#include "compile.h"
#include "nvrtc.h"
#include "render.h"

static fake_bench b;
#define cu (b.cu)

/* Real cubins: what the fake reads in them is what the compiler says of them. */
static void cubins_of_the_compiler_are_read(void **state)
{
  (void)state;
  static const struct {
    const char *device;
    int sm;
    const char *target;
  } rows[] = {{"T4", 75, "sm_75"}, {"A100", 80, "sm_80"}, {"H200", 90, "sm_90a"}};
  fat_nvrtc *nvrtc;
  fat_error failed = {0};
  fat_script *script;
  if (fat_nvrtc_open(0, &nvrtc, &failed) != FAT_OK) {
    print_message("skipped: %s\n", failed.text);
    skip();
  }
  assert_int_equal(fat_script_open(NULL, &script, NULL), FAT_OK);
  fat_source source =
      render_default(script, "fwd", "fwd-f32-b1-h1-q20-k30-d64", render_gpu(75), FAT_LINES_TEMPLATE);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fat_binary binary;
    void *module, *function;
    int value;
    fake_bench_clean(&b, rows[i].device);
    fake_bench_begin(&b, rows[i].sm);
    assert_int_equal(
        fat_compile(nvrtc, fat_text_get(&source.text), "fwd", rows[i].target, 0, NULL, &binary, NULL),
        FAT_OK);
    assert_int_equal(cu.cuModuleLoadData(&module, binary.cubin), 0);
    assert_int_equal(cu.cuModuleGetFunction(&function, module, binary.entry[0].name), 0);
    assert_int_equal(cu.cuFuncGetAttribute(&value, FAT_CUDA_FUNCTION_REGISTERS, function), 0);
    assert_int_equal(value, binary.entry[0].registers);
    assert_int_equal(cu.cuFuncGetAttribute(&value, FAT_CUDA_FUNCTION_SHARED, function), 0);
    assert_int_equal(value, binary.entry[0].shared);
    assert_int_equal(cu.cuFuncGetAttribute(&value, FAT_CUDA_FUNCTION_THREADS, function), 0);
    assert_int_equal(value, 128);
    size_t offset, size;
    assert_int_equal(cu.cuFuncGetParamInfo(function, 0, &offset, &size), 0);
    assert_int_equal(size, 176); /* the struct of templates/lib/args.h */
    assert_int_equal(cu.cuFuncSetAttribute(function, 8, render_gpu(rows[i].sm)->shared_block), 0);
    fat_binary_free(&binary);
  }
  fat_nvrtc_close(nvrtc);
  fat_source_free(&source);
  fat_script_close(script);
}

/* PTX of an older architecture runs on newer devices, with the parameters and bounds of the cubin. */
static void ptx_of_the_compiler_is_read(void **state)
{
  (void)state;
  static const struct {
    const char *device;
    int sm;
    const char *target;
    int result;
  } rows[] = {{"A100", 80, "compute_75", 0},
              {"H200", 90, "compute_80", 0},
              {"H200", 90, "compute_90a", 0},
              {"T4", 75, "compute_80", 209},
              {"RTX4090", 89, "compute_90a", 209}};
  fat_nvrtc *nvrtc;
  fat_error failed = {0};
  fat_script *script;
  if (fat_nvrtc_open(0, &nvrtc, &failed) != FAT_OK) {
    print_message("skipped: %s\n", failed.text);
    skip();
  }
  assert_int_equal(fat_script_open(NULL, &script, NULL), FAT_OK);
  fat_source source =
      render_default(script, "fwd", "fwd-f32-b1-h1-q20-k30-d64", render_gpu(75), FAT_LINES_TEMPLATE);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fat_binary binary;
    void *module, *function;
    char name[32];
    int value;
    size_t offset, size;
    fake_bench_clean(&b, rows[i].device);
    fake_bench_begin(&b, rows[i].sm);
    assert_int_equal(
        fat_compile(nvrtc, fat_text_get(&source.text), "fwd", rows[i].target, 0, NULL, &binary, NULL),
        FAT_OK);
    assert_int_equal(cu.cuModuleLoadData(&module, binary.cubin), rows[i].result);
    if (rows[i].result == 0) {
      snprintf(name, sizeof name, "fwd_%.16s", source.hash);
      assert_int_equal(cu.cuModuleGetFunction(&function, module, name), 0);
      assert_int_equal(cu.cuFuncGetAttribute(&value, FAT_CUDA_FUNCTION_THREADS, function), 0);
      assert_int_equal(value, 128);
      assert_int_equal(cu.cuFuncGetParamInfo(function, 0, &offset, &size), 0);
      assert_int_equal(size, 176);
      assert_int_not_equal(cu.cuFuncGetParamInfo(function, 1, &offset, &size), 0);
    }
    fat_binary_free(&binary);
  }
  fat_nvrtc_close(nvrtc);
  fat_source_free(&source);
  fat_script_close(script);
}

/* Whatever one flipped bit does to a file, reading it ends with a code: sanitizers watch for more. */
static void damage_is_an_error(void **state)
{
  (void)state;
  size_t size, refused = 0;
  void *module;
  fake_bench_clean(&b, "T4");
  fake_bench_begin(&b, 75);
  setenv("FAKE_CUDA_DAMAGE", "code", 1);
  unsigned char *image = cu.fake_cubin(75, 1, &fake_copy_kernel, &size);
  assert_non_null(image);
  for (size_t i = 0; i < 8 * size; i++) {
    image[i / 8] ^= (unsigned char)(1 << i % 8);
    int result = cu.cuModuleLoadData(&module, image);
    assert_true(result == 0 || result == 200 || result == 209);
    refused += result != 0;
    if (result == 0)
      assert_int_equal(cu.cuModuleUnload(module), 0);
    image[i / 8] ^= (unsigned char)(1 << i % 8);
  }
  assert_true(refused > size / 10);
  assert_int_equal(cu.cuModuleLoadData(&module, image), 0);
  free(image);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cubins_of_the_compiler_are_read),
      cmocka_unit_test(ptx_of_the_compiler_is_read),
      cmocka_unit_test(damage_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
