/* test_nvrtc_memory.c -- the libnvrtc of the tests that remembers: in front of the fake one, which asks its
 * callback again and again while it compiles, so that the number of questions tells a compile from a memory.
 */
#include "folder.h"
#include "nvrtc.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static folder memory;
static fat_nvrtc *nvrtc;

static int open_all(void **state)
{
  fat_error err;
  (void)state;
  setenv("NVRTC_REAL", FAKES "/fake_nvrtc_13.so", 1);
  setenv("FATUNE_NVRTC", FAKES "/nvrtc_memory.so", 1);
  if (fat_nvrtc_open(0, &nvrtc, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return 0;
}

static int close_all(void **state)
{
  (void)state;
  fat_nvrtc_close(nvrtc);
  return 0;
}

static int begin(void **state)
{
  (void)state;
  memory = folder_make();
  setenv("NVRTC_MEMORY", memory.path, 1);
  return 0;
}

static int end(void **state)
{
  (void)state;
  folder_remove(&memory);
  return 0;
}

typedef struct compiled {
  int result, questions;
  char cubin[200], ptx[200], log[200];
} compiled;

/* Compiles; the callback says "stop" at question `stop`, counted from 1. */
typedef struct asked {
  int questions, stop;
} asked;

static int answer(void *payload, void *reserved)
{
  asked *a = payload;
  (void)reserved;
  return ++a->questions == a->stop;
}

static void read_part(int (*size_of)(void *, size_t *), int (*get)(void *, char *), void *program,
                      char text[200])
{
  size_t size;
  assert_int_equal(size_of(program, &size), FAT_NVRTC_SUCCESS);
  assert_true(size < 200);
  assert_int_equal(get(program, text), FAT_NVRTC_SUCCESS);
  text[size] = 0;
}

static compiled compile_until(const char *source, const char *name, const char *arch, int stop)
{
  const fat_nvrtc_calls *calls = fat_nvrtc_table(nvrtc);
  const char *options[] = {"--std=c++17", arch};
  compiled c = {0};
  asked a = {.stop = stop};
  void *program;
  assert_int_equal(calls->create(&program, source, name, 0, NULL, NULL), FAT_NVRTC_SUCCESS);
  assert_int_equal(calls->watch(program, answer, &a), FAT_NVRTC_SUCCESS);
  c.result = calls->compile(program, 2, options);
  c.questions = a.questions;
  read_part(calls->log_size, calls->log, program, c.log);
  if (c.result == FAT_NVRTC_SUCCESS) {
    read_part(calls->cubin_size, calls->cubin, program, c.cubin);
    read_part(calls->ptx_size, calls->ptx, program, c.ptx);
  }
  assert_int_equal(calls->destroy(&program), FAT_NVRTC_SUCCESS);
  return c;
}

#define SOURCE  "fake wait 15\nfake log some words|and more\n"
#define REFUSED SOURCE "fake result 6\n"

static compiled compile(const char *source)
{
  return compile_until(source, "name.cu", "--gpu-architecture=sm_75", 0);
}

static void says_what_was_said(const compiled *now, const compiled *before, int questions)
{
  assert_int_equal(now->result, before->result);
  assert_int_equal(now->questions, questions);
  assert_string_equal(now->cubin, before->cubin);
  assert_string_equal(now->ptx, before->ptx);
  assert_string_equal(now->log, before->log);
}

static void a_text_is_compiled_once(void **state)
{
  (void)state;
  compiled first = compile(SOURCE), again = compile(SOURCE);
  assert_int_equal(first.result, FAT_NVRTC_SUCCESS);
  assert_int_equal(first.questions, 3);
  assert_string_equal(first.cubin, "sm_75 " SOURCE);
  assert_memory_equal(first.log, "some words\nand more", 20);
  says_what_was_said(&again, &first, 1);
  assert_int_equal(compile(SOURCE " ").questions, 3);
  assert_int_equal(compile_until(SOURCE, "other.cu", "--gpu-architecture=sm_75", 0).questions, 3);
  compiled other = compile_until(SOURCE, "name.cu", "--gpu-architecture=sm_80", 0);
  assert_int_equal(other.questions, 3);
  assert_string_equal(other.cubin, "sm_80 " SOURCE);
  setenv("NVRTC_APPEND_FLAGS", "-G", 1);
  assert_int_equal(compile(SOURCE).questions, 3);
  unsetenv("NVRTC_APPEND_FLAGS");
  assert_int_equal(compile(SOURCE).questions, 1);
}

static void a_refusal_is_remembered(void **state)
{
  (void)state;
  compiled first = compile(REFUSED), again = compile(REFUSED);
  assert_int_equal(first.result, FAT_NVRTC_COMPILATION);
  assert_int_equal(first.questions, 3);
  assert_memory_equal(first.log, "some words", 10);
  says_what_was_said(&again, &first, 1);
}

static void what_passes_is_not(void **state)
{
  static const char *const sources[] = {SOURCE "fake result 1\n", SOURCE "fake result 11\n"};
  (void)state;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      assert_int_equal(compile(sources[i]).questions, 3);
  compiled stopped = compile_until(SOURCE, "name.cu", "--gpu-architecture=sm_75", 2);
  assert_int_equal(stopped.result, FAT_NVRTC_CANCELLED);
  assert_int_equal(compile(SOURCE).questions, 3);
  stopped = compile_until(SOURCE, "name.cu", "--gpu-architecture=sm_75", 1); /* what is remembered */
  assert_int_equal(stopped.result, FAT_NVRTC_CANCELLED);
}

/* By a program of its own: the same answers, remembered as others, and a compile that is stopped ends. */
static void another_process_compiles(void **state)
{
  (void)state;
  const compiled here = compile(SOURCE), refused = compile(REFUSED);
  setenv("NVRTC_MEMORY", "", 1);
  setenv("NVRTC_APART", FAKES "/nvrtc_apart", 1);
  compiled apart = compile(SOURCE);
  says_what_was_said(&apart, &here, apart.questions);
  apart = compile(REFUSED);
  says_what_was_said(&apart, &refused, apart.questions);
  setenv("NVRTC_MEMORY", memory.path, 1);
  compiled stopped = compile_until("fake wait 60000\n", "name.cu", "--gpu-architecture=sm_75", 2);
  assert_int_equal(stopped.result, FAT_NVRTC_CANCELLED);
  assert_int_equal(stopped.questions, 2);
  apart = compile(SOURCE "apart");
  assert_int_equal(compile(SOURCE "apart").questions, 1);
  unsetenv("NVRTC_APART");
  assert_int_equal(compile(SOURCE "apart").questions, 1);
  assert_string_equal(apart.cubin, "sm_75 " SOURCE "apart");
}

static void without_a_folder(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    setenv("NVRTC_MEMORY", i ? "" : "/nowhere/at/all", 1);
    compiled first = compile(SOURCE), again = compile(SOURCE);
    assert_int_equal(first.result, FAT_NVRTC_SUCCESS);
    says_what_was_said(&again, &first, 3);
  }
}

/* The path of the one answer. */
static void find_answer(char path[600])
{
  DIR *d = opendir(memory.path);
  int count = 0;
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));)
    if (e->d_name[0] != '.') {
      snprintf(path, 600, "%s/%s", memory.path, e->d_name);
      count++;
    }
  closedir(d);
  assert_int_equal(count, 1);
}

/* Cut anywhere, or with one byte changed, it is compiled again, and the answer is whole after that. */
static void a_damaged_answer(void **state)
{
  char path[600], bytes[1000];
  (void)state;
  const compiled first = compile(SOURCE);
  find_answer(path);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t size = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  assert_true(size > 100 && size < sizeof bytes);
  for (size_t i = 0; i < 2 * size; i += 7) {
    char damaged = (char)(bytes[i % size] ^ 1);
    f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(bytes, 1, i % size, f);
    if (i >= size) {
      fputc(damaged, f);
      fwrite(bytes + i % size + 1, 1, size - i % size - 1, f);
    }
    fclose(f);
    compiled now = compile(SOURCE), again = compile(SOURCE);
    says_what_was_said(&now, &first, 3);
    says_what_was_said(&again, &first, 1);
  }
  find_answer(path); /* and nothing lies beside it */
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0);
  compiled now = compile(SOURCE);
  says_what_was_said(&now, &first, 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_text_is_compiled_once),  TEST(a_refusal_is_remembered), TEST(what_passes_is_not),
      TEST(another_process_compiles), TEST(without_a_folder),        TEST(a_damaged_answer),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
