/* test_ptxas.c -- figures and first errors out of recorded compiler logs. */
#include "compile.h"
#include "ptxas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* NVRTC 13.0, sm_75: two entries, one of them spilling, and a function that is not inlined. */
static const char cuda13[] =
    "ptxas warning : Value of threads per SM for entry k_1 is out of range. .minnctapersm will be ignored\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'k_1' for 'sm_75'\n"
    "ptxas info    : Function properties for k_1\n"
    "ptxas         .     512 bytes stack frame, 400 bytes spill stores, 396 bytes spill loads\n"
    "ptxas info    : Used 64 registers, used 1 barriers, 512 bytes cumulative stack size, 364 bytes cmem[0]\n"
    "ptxas info    : Compile time = 80.865 ms\n"
    "ptxas info    : Compiling entry function 'k_0' for 'sm_75'\n"
    "ptxas info    : Function properties for k_0\n"
    "ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 72 registers, used 1 barriers, 272 bytes cumulative stack size, 144 bytes smem, "
    "364 "
    "bytes cmem[0]\n"
    "ptxas info    : Compile time = 23.607 ms\n"
    "ptxas info    : Function properties for _Z3fooPfi\n"
    "ptxas         .     0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n";

/* NVRTC 13.0, sm_90a: said of the second entry. */
static const char serial[] =
    "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline "
    "stage in the function 'bwd_ws_d9644bd4d42cfe09'\n"
    "ptxas info    : 220 bytes gmem\n"
    "ptxas info    : Compiling entry function 'bwd_ws_finish_d9644bd4d42cfe09' for 'sm_90a'\n"
    "ptxas info    : Used 38 registers, used 0 barriers\n"
    "ptxas info    : Compiling entry function 'bwd_ws_d9644bd4d42cfe09' for 'sm_90a'\n"
    "ptxas info    : Used 168 registers, used 16 barriers\n";

/* NVRTC 12.1: no barriers, no cumulative stack, no times. */
static const char cuda12[] =
    "ptxas info    : 304 bytes gmem\n"
    "ptxas info    : Compiling entry function 'k_0' for 'sm_75'\n"
    "ptxas info    : Function properties for k_0\n"
    "ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 72 registers, 144 bytes smem, 364 bytes cmem[0]";

static void reads_cuda13(void **state)
{
  (void)state;
  fat_entry e[FAT_COMPILE_ENTRIES];
  assert_int_equal(fat_ptxas_entries(cuda13, e, FAT_COMPILE_ENTRIES), 2);
  assert_string_equal(e[0].name, "k_1");
  assert_int_equal(e[0].registers, 64);
  assert_int_equal(e[0].stack, 512);
  assert_int_equal(e[0].spills, 796 + 12); /* the function's own spills count for every entry */
  assert_int_equal(e[0].shared, 0);
  assert_string_equal(e[1].name, "k_0");
  assert_int_equal(e[1].registers, 72);
  assert_int_equal(e[1].stack, 272); /* with the functions it calls */
  assert_int_equal(e[1].spills, 12);
  assert_int_equal(e[1].shared, 144);
}

static void reads_what_is_serial(void **state)
{
  (void)state;
  fat_entry e[FAT_COMPILE_ENTRIES];
  assert_int_equal(fat_ptxas_entries(serial, e, FAT_COMPILE_ENTRIES), 2);
  assert_int_equal(e[0].serial, 0);
  assert_int_equal(e[1].serial, 1);
  assert_int_equal(e[1].registers, 168);
}

static void reads_cuda12(void **state)
{
  (void)state;
  fat_entry e[FAT_COMPILE_ENTRIES];
  assert_int_equal(fat_ptxas_entries(cuda12, e, FAT_COMPILE_ENTRIES), 1);
  assert_int_equal(e[0].registers, 72);
  assert_int_equal(e[0].stack, 256);
  assert_int_equal(e[0].shared, 144);
}

static void keeps_within_room(void **state)
{
  (void)state;
  fat_entry e[2];
  memset(e, 0x5a, sizeof e);
  fat_entry guard = e[1];
  assert_int_equal(fat_ptxas_entries(cuda13, e, 1), 1);
  assert_string_equal(e[0].name, "k_1");
  assert_int_equal(e[0].registers, 64); /* those of the entry left out do not land here */
  assert_memory_equal(&guard, &e[1], sizeof guard);
}

static void survives_nonsense(void **state)
{
  (void)state;
  static const char *const logs[] = {
      "",
      "\n\n\n",
      "Compiling entry function '",
      "Compiling entry function ''",
      "Used registers, bytes smem",
      "ptxas info    : Used 46 registers",
      "bytes stack frame",
      "Compiling entry function 'k'\nUsed 99999999999999999999 registers, bytes smem, -4 bytes smem",
  };
  fat_entry e[FAT_COMPILE_ENTRIES];
  for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++)
    assert_int_equal(fat_ptxas_entries(logs[i], e, FAT_COMPILE_ENTRIES), i == 7);
  assert_int_equal(e[0].registers, INT32_MAX);
  char longest[6000], error[64];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  memcpy(longest, "t.cu(1): error: ", 16);
  assert_int_equal(fat_ptxas_entries(longest, e, FAT_COMPILE_ENTRIES), 0);
  fat_ptxas_error(longest, error, sizeof error);
  assert_int_equal(strlen(error), sizeof error - 1);
}

static void finds_first_error(void **state)
{
  (void)state;
  static const struct {
    const char *log, *error;
  } cases[] = {
      {"templates/fwd.cu(42): warning #177-D: variable \"error\" was declared but never referenced\n"
       "    int error;\n        ^\n\n"
       "templates/fwd.cu(43): error: identifier \"x\" is undefined\n  y = x;\n      ^\n"
       "templates/fwd.cu(44): error: expected a \";\"\n",
       "templates/fwd.cu(43): error: identifier \"x\" is undefined: `y = x;`"},
      {"templates/fwd.cu(7): error: expected a declaration\n          ^\n1 error detected",
       "templates/fwd.cu(7): error: expected a declaration"},
      {"ptxas application ptx input, line 24; error   : Not a name of any known instruction: 'bogus'\n"
       "ptxas fatal   : Ptx assembly aborted due to errors\n",
       "ptxas application ptx input, line 24; error   : Not a name of any known instruction: 'bogus'"},
      {"ptxas fatal   : (C7600) Register allocation failed",
       "ptxas fatal   : (C7600) Register allocation failed"},
      {"nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n",
       "nvrtc: error: failed to open libnvrtc-builtins.so.13.0."},
      {"ptxas info    : 0 bytes gmem\n", ""},
      {"", ""},
  };
  char text[512];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fat_ptxas_error(cases[i].log, text, sizeof text);
    assert_string_equal(text, cases[i].error);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_cuda13),      cmocka_unit_test(reads_what_is_serial),
      cmocka_unit_test(reads_cuda12),      cmocka_unit_test(keeps_within_room),
      cmocka_unit_test(survives_nonsense), cmocka_unit_test(finds_first_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
