/* test_compile.c -- one compile: cubin, figures, errors, deadline, cancelling, key.
 *
 * What NVRTC does on command is tried with a library of our own; what it says of real text with a real one,
 * where there is one. */
#include "compile.h"
#include "source.h"

#include <elf.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static fat_nvrtc *fake13, *fake12, *real;
static char no_real[1024];

static fat_nvrtc *open_fake(const char *path)
{
  fat_nvrtc *nvrtc = NULL;
  setenv("FATUNE_NVRTC", path, 1);
  fat_nvrtc_open(0, &nvrtc, NULL);
  return nvrtc;
}

static int open_all(void **state)
{
  (void)state;
  fat_error err;
  const char *given = getenv("FATUNE_NVRTC");
  char *kept = given ? strdup(given) : NULL;
  if (fat_nvrtc_open(0, &real, &err) != FAT_OK)
    snprintf(no_real, sizeof no_real, "%s", err.text);
  fake13 = open_fake(FAKES "/fake_nvrtc_13.so");
  fake12 = open_fake(FAKES "/fake_nvrtc_12.so");
  unsetenv("FATUNE_NVRTC");
  if (kept)
    setenv("FATUNE_NVRTC", kept, 1);
  free(kept);
  return fake13 && fake12 ? 0 : -1;
}

static int close_all(void **state)
{
  (void)state;
  fat_nvrtc_close(fake13);
  fat_nvrtc_close(fake12);
  fat_nvrtc_close(real);
  return 0;
}

static void need_real(void)
{
  if (!real) {
    print_message("skipped: %s\n", no_real);
    skip();
  }
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void hands_out_the_cubin(void **state)
{
  (void)state;
  fat_binary b;
  char hash[FAT_HASH_SIZE];
  assert_int_equal(fat_compile(fake13, "text", "x.cu", "sm_75", 10, NULL, &b, NULL), FAT_OK);
  assert_int_equal(b.size, strlen("sm_75 text"));
  assert_memory_equal(b.cubin, "sm_75 text", b.size);
  fat_text_hash("sm_75 text", b.size, hash);
  assert_string_equal(b.hash, hash);
  assert_int_equal(b.entries, 0);
  fat_binary_free(&b);
  assert_null(b.cubin);
  fat_binary_free(&b);
}

static void maps_every_result(void **state)
{
  (void)state;
  static const struct {
    const char *source;
    fat_status status;
    const char *text;
  } cases[] = {
      {"fake result 6\nfake log t.cu(3): error: no|  x;|", FAT_E_COMPILE,
       "t.cu(3): error: no: `x;` (for sm_75)"},
      {"fake result 6\nfake log ptxas info : Compiling entry function 'k' for 'sm_75'|ptxas info : Used 9 "
       "registers, 144000 bytes smem",
       FAT_E_COMPILE, "k has 9 registers and 144000 bytes of static shared memory"},
      {"fake result 6\n", FAT_E_COMPILE, "without a reason (FAKE_ERROR_6)"},
      {"fake result 1\n", FAT_E_NOMEM, "NVRTC ran out of memory"},
      {"fake result 5\nfake log nvrtc: error: bad option|more", FAT_E_NVRTC,
       "FAKE_ERROR_5: nvrtc: error: bad option"},
      {"fake result 11\n", FAT_E_NVRTC, "FAKE_ERROR_11"},
      {"fake result 999\n", FAT_E_NVRTC, "FAKE_ERROR_999"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fat_binary b;
    fat_error err = {0};
    assert_int_equal(fat_compile(fake13, cases[i].source, "x.cu", "sm_75", 10, NULL, &b, &err),
                     cases[i].status);
    if (!strstr(err.text, cases[i].text))
      fail_msg("'%s' does not say '%s'", err.text, cases[i].text);
    assert_null(b.cubin);
    fat_binary_free(&b);
  }
}

static void keeps_the_deadline(void **state)
{
  (void)state;
  fat_binary b;
  fat_error err;
  double start = now();
  assert_int_equal(fat_compile(fake13, "fake wait 100000", "x.cu", "sm_75", 0.1, NULL, &b, &err),
                   FAT_E_TIMEOUT);
  assert_true(now() - start < 50); /* of 100 */
  assert_true(b.seconds >= 0.1 && b.seconds < 50);
  assert_non_null(strstr(err.text, "0.1 s"));
  fat_binary_free(&b);
  /* An older library cannot be stopped; its late result counts as none. */
  assert_int_equal(fat_compile(fake12, "fake wait 200", "x.cu", "sm_75", 0.1, NULL, &b, &err), FAT_E_TIMEOUT);
  assert_true(b.seconds >= 0.2);
  assert_null(b.cubin);
  fat_binary_free(&b);
  assert_int_equal(fat_compile(fake12, "fake wait 50", "x.cu", "sm_75", 0, NULL, &b, &err), FAT_OK);
  fat_binary_free(&b);
  /* An error found late is still the error. */
  assert_int_equal(fat_compile(fake12, "fake wait 200\nfake result 6", "x.cu", "sm_75", 0.1, NULL, &b, &err),
                   FAT_E_COMPILE);
  fat_binary_free(&b);
}

static volatile int cancel;
static void *cancel_soon(void *unused)
{
  usleep(100000);
  __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
  return unused;
}

static void can_be_cancelled(void **state)
{
  (void)state;
  fat_binary b;
  pthread_t thread;
  cancel = 0;
  double start = now();
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, NULL), 0);
  assert_int_equal(fat_compile(fake13, "fake wait 100000", "x.cu", "sm_75", 0, &cancel, &b, NULL),
                   FAT_E_CANCELLED);
  pthread_join(thread, NULL);
  fat_binary_free(&b);
  assert_int_equal(fat_compile(fake13, "fake wait 100000", "x.cu", "sm_75", 0, &cancel, &b, NULL),
                   FAT_E_CANCELLED);
  fat_binary_free(&b);
  assert_true(now() - start < 50);
}

static void refuses_unknown_targets(void **state)
{
  (void)state;
  fat_binary b;
  fat_error err;
  assert_int_equal(fat_compile(fake13, "", "x.cu", "arch_75", 0, NULL, &b, &err), FAT_E_INPUT);
  fat_binary_free(&b);
  assert_int_equal(fat_compile(fake13, "", "x.cu", "compute_120", 0, NULL, &b, &err), FAT_E_NVRTC);
  fat_binary_free(&b);
  assert_int_equal(fat_compile(fake13, "", "x.cu", "sm_120", 0, NULL, &b, &err), FAT_E_NVRTC);
  assert_non_null(strstr(err.text, "13.900"));
  assert_non_null(strstr(err.text, "sm_120"));
  fat_binary_free(&b);
}

static void key_names_what_decides(void **state)
{
  (void)state;
  fat_text plain = {0}, flagged = {0}, older = {0};
  unsetenv("NVRTC_APPEND_FLAGS");
  assert_int_equal(fat_compile_key(fake13, &plain, NULL), FAT_OK);
  assert_int_equal(fat_compile_key(fake12, &older, NULL), FAT_OK);
  setenv("NVRTC_APPEND_FLAGS", "--use_fast_math", 1);
  assert_int_equal(fat_compile_key(fake13, &flagged, NULL), FAT_OK);
  unsetenv("NVRTC_APPEND_FLAGS");
  assert_non_null(strstr(fat_text_get(&plain), "nvrtc 13.900"));
  for (int i = 0; i < fat_source_option_count; i++)
    assert_non_null(strstr(fat_text_get(&plain), fat_source_options[i]));
  assert_string_not_equal(fat_text_get(&plain), fat_text_get(&older));
  assert_non_null(strstr(fat_text_get(&flagged), "NVRTC_APPEND_FLAGS=--use_fast_math"));
  fat_text_free(&plain);
  fat_text_free(&flagged);
  fat_text_free(&older);
}

/* The register count that the cubin itself carries for an entry (sm_75: top byte of its section's info). */
static int elf_registers(const fat_binary *b, const char *entry)
{
  Elf64_Ehdr header;
  memcpy(&header, b->cubin, sizeof header);
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(b->cubin + header.e_shoff);
  const char *names = (const char *)b->cubin + sections[header.e_shstrndx].sh_offset;
  for (int i = 0; i < header.e_shnum; i++) {
    const char *name = names + sections[i].sh_name;
    if (strncmp(name, ".text.", 6) == 0 && strcmp(name + 6, entry) == 0)
      return (int)(sections[i].sh_info >> 24);
  }
  return -1;
}

static const char sample[] =
    "__device__ __noinline__ float pick(float *x, int n)\n"
    "{ float a[64]; for (int i = 0; i < 64; i++) a[i] = x[i * n];\n"
    "  float s = 0; for (int i = 0; i < n; i++) s += a[(i * 7) & 63]; return s; }\n"
    "extern \"C\" __global__ void k_small(float *x, int n)\n"
    "{ __shared__ float sh[36]; sh[threadIdx.x] = pick(x, n); __syncthreads(); x[0] = sh[n]; }\n"
    "extern \"C\" __global__ void __launch_bounds__(1024) k_large(float *x, int n)\n"
    "{ float a[80]; for (int i = 0; i < 80; i++) a[i] = x[i * n + threadIdx.x]; __syncthreads();\n"
    "  for (int j = 0; j < 80; j++) for (int i = 0; i < 80; i++) a[i] += a[j] * x[j];\n"
    "  for (int i = 0; i < 80; i++) x[i] = a[i]; }\n";

static const fat_entry *entry_of(const fat_binary *b, const char *name)
{
  for (int i = 0; i < b->entries; i++)
    if (strcmp(b->entry[i].name, name) == 0)
      return &b->entry[i];
  fail_msg("no entry %s in:\n%s", name, fat_text_get(&b->log));
  return NULL;
}

/* PTX is a text: its zero comes along, and it says nothing of entries. */
static void hands_out_ptx(void **state)
{
  (void)state;
  fat_binary b;
  assert_int_equal(fat_compile(fake13, "text", "x.cu", "compute_75", 10, NULL, &b, NULL), FAT_OK);
  assert_int_equal(b.size, sizeof "compute_75 text");
  assert_string_equal((const char *)b.cubin, "compute_75 text");
  fat_binary_free(&b);
  if (!real)
    return;
  assert_int_equal(fat_compile(real, sample, "sample.cu", "compute_75", 60, NULL, &b, NULL), FAT_OK);
  assert_int_equal(b.entries, 0);
  assert_int_equal(b.size, strlen((const char *)b.cubin) + 1);
  assert_non_null(strstr((const char *)b.cubin, "\n.target sm_75\n"));
  assert_non_null(strstr((const char *)b.cubin, ".entry k_large("));
  fat_binary_free(&b);
}

static void real_figures_agree_with_the_cubin(void **state)
{
  (void)state;
  need_real();
  fat_binary b, again;
  fat_error err = {0};
  if (fat_compile(real, sample, "sample.cu", "sm_75", 60, NULL, &b, &err) != FAT_OK)
    fail_msg("%s", err.text);
  assert_memory_equal(b.cubin, "\177ELF", 4);
  assert_int_equal(b.entries, 2);
  const fat_entry *small = entry_of(&b, "k_small"), *large = entry_of(&b, "k_large");
  assert_int_equal(small->shared, 144);
  assert_true(small->stack >= 256);
  assert_int_equal(small->spills, 0);
  assert_true(large->spills > 0); /* 80 live values in the 64 registers that 1024 threads leave */
  assert_int_equal(large->registers, elf_registers(&b, "k_large"));
  assert_int_equal(small->registers, elf_registers(&b, "k_small"));
  assert_int_equal(fat_compile(real, sample, "sample.cu", "sm_75", 60, NULL, &again, NULL), FAT_OK);
  assert_string_equal(b.hash, again.hash); /* the same text gives the same cubin */
  fat_binary_free(&b);
  fat_binary_free(&again);
}

static void real_errors_point_at_the_template(void **state)
{
  (void)state;
  need_real();
  static const struct {
    const char *source, *text;
  } cases[] = {
      {"#line 42 \"templates/fwd.cu\"\nextern \"C\" __global__ void k(float *x) { x[0] = nothing; }\n",
       "templates/fwd.cu(42): error"},
      {"extern \"C\" __global__ void k(float *x) { asm volatile(\"bogus.f32 %r0;\"); }\n", "bogus"},
      {"extern \"C\" __global__ void k(float *x, int n)\n"
       "{ __shared__ float sh[36000]; sh[threadIdx.x] = x[n]; __syncthreads(); x[0] = sh[n]; }\n",
       "144000"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fat_binary b;
    fat_error err = {0};
    assert_int_equal(fat_compile(real, cases[i].source, "x.cu", "sm_75", 60, NULL, &b, &err), FAT_E_COMPILE);
    if (!strstr(err.text, cases[i].text))
      fail_msg("'%s' does not say '%s'", err.text, cases[i].text);
    assert_true(b.log.length > 0);
    fat_binary_free(&b);
  }
}

/* A text that takes a real compiler many seconds stops near its deadline. */
static void real_deadline(void **state)
{
  (void)state;
  need_real();
  if (!fat_nvrtc_table(real)->watch) {
    print_message("skipped: NVRTC %s cannot be stopped\n", fat_nvrtc_version(real));
    skip();
  }
  fat_text source = {0};
  fat_text_add(&source, "extern \"C\" __global__ void k(float *x) {\n");
  for (int i = 0; i < 12000; i++)
    fat_text_format(&source, "x[%d] = x[%d] * x[%d] + __expf(x[%d]) / x[%d];\n", i, i + 1, i * 7 % 501,
                    i % 33, i % 77);
  fat_text_add(&source, "}\n");
  fat_binary b;
  double start = now();
  assert_int_equal(fat_compile(real, fat_text_get(&source), "slow.cu", "sm_75", 0.5, NULL, &b, NULL),
                   FAT_E_TIMEOUT);
  assert_true(now() - start < 10);
  fat_binary_free(&b);
  fat_text_free(&source);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hands_out_the_cubin),
      cmocka_unit_test(hands_out_ptx),
      cmocka_unit_test(maps_every_result),
      cmocka_unit_test(keeps_the_deadline),
      cmocka_unit_test(can_be_cancelled),
      cmocka_unit_test(refuses_unknown_targets),
      cmocka_unit_test(key_names_what_decides),
      cmocka_unit_test(real_figures_agree_with_the_cubin),
      cmocka_unit_test(real_errors_point_at_the_template),
      cmocka_unit_test(real_deadline),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
