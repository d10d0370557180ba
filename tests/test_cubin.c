/* test_cubin.c -- what a cubin says of its kernels is what the compiler's log says; damage is never followed.
 *
 * Skipped (exit 77) where there is no libnvrtc. */
#include "compile.h"
#include "cubin.h"
#include "ptxas.h"
#include "render.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fat_nvrtc *nvrtc;
static fat_script *script;

static fat_binary compile(const char *kernel, int sm)
{
  fat_source s =
      render_default(script, kernel, "fwd-f32-b1-h1-q64-k64-d64", render_gpu(sm), FAT_LINES_TEMPLATE);
  fat_binary binary;
  fat_error err = {0};
  if (fat_compile(nvrtc, fat_text_get(&s.text), "kernel.cu", fat_gpu_arch(sm)->target, 60, NULL, &binary,
                  &err) != FAT_OK)
    fail_msg("%s", err.text);
  fat_source_free(&s);
  return binary;
}

static void cubin_and_log_agree(void **state)
{
  (void)state;
  static const int sms[] = {75, 80, 90, 120};
  for (size_t i = 0; i < sizeof sms / sizeof sms[0]; i++) {
    if (!fat_nvrtc_targets(nvrtc, sms[i]))
      continue;
    fat_binary b = compile("standard", sms[i]);
    fat_entry own[FAT_COMPILE_ENTRIES], logged[FAT_COMPILE_ENTRIES];
    assert_int_equal(fat_cubin_entries(b.cubin, b.size, own, FAT_COMPILE_ENTRIES), 3);
    assert_int_equal(fat_ptxas_entries(fat_text_get(&b.log), logged, FAT_COMPILE_ENTRIES), 3);
    for (int k = 0; k < 3; k++) {
      int at = 0;
      while (at < 3 && strcmp(logged[at].name, own[k].name) != 0)
        at++;
      assert_true(at < 3);
      assert_int_equal(own[k].registers, logged[at].registers);
      assert_int_equal(own[k].stack, logged[at].stack);
      assert_int_equal(own[k].shared, logged[at].shared);
    }
    fat_binary_free(&b);
  }
}

/* A copy of its own size, so that a sanitizer sees each byte read behind it. */
static int entries_of(const unsigned char *bytes, size_t size)
{
  unsigned char *copy = malloc(size ? size : 1);
  fat_entry entries[FAT_COMPILE_ENTRIES];
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  int count = fat_cubin_entries(copy, size, entries, FAT_COMPILE_ENTRIES);
  free(copy);
  return count;
}

static void damage_is_never_followed(void **state)
{
  (void)state;
  fat_binary b = compile("fwd", 75);
  assert_int_equal(entries_of(b.cubin, b.size), 1);
  for (size_t size = 0; size < b.size; size += 1 + size / 50)
    assert_in_range(entries_of(b.cubin, size), 0, FAT_COMPILE_ENTRIES);
  assert_int_equal(entries_of(b.cubin, 0), 0);
  assert_int_equal(entries_of((const unsigned char *)"no cubin", 8), 0);
  srand(1);
  for (int round = 0; round < 3000; round++) {
    size_t at = (size_t)rand() % b.size;
    if (round % 2 == 0) /* half of them in the header */
      at %= 64;
    unsigned char old = b.cubin[at];
    b.cubin[at] = (unsigned char)rand();
    assert_in_range(entries_of(b.cubin, b.size), 0, FAT_COMPILE_ENTRIES);
    b.cubin[at] = old;
  }
  fat_binary_free(&b);
}

int main(void)
{
  fat_error err = {0};
  if (fat_nvrtc_open(0, &nvrtc, &err) != FAT_OK) {
    printf("skipped: %s\n", err.text);
    return 77;
  }
  if (fat_script_open(NULL, &script, &err) != FAT_OK) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(cubin_and_log_agree),
                                     cmocka_unit_test(damage_is_never_followed)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  fat_script_close(script);
  fat_nvrtc_close(nvrtc);
  return failed;
}
