/* test_text.c -- the growing text keeps what it held when memory runs out (by __wrap_malloc), files are read
 * whole or not at all, SHA-256 gives the standard's answers. */
#include "folder.h"
#include "starve.h"
#include "text.h"
#include <errno.h>
#include <setjmp.h>
#include <sha2.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mman.h>

static void adding_grows_the_text(void **state)
{
  (void)state;
  fat_text t = {0};
  fat_error err;
  assert_string_equal(fat_text_get(&t), "");
  for (int i = 0; i < 1000; i++) {
    fat_text_add(&t, "ab");
    fat_text_format(&t, "%03d%s", i, "");
    assert_int_equal(t.data[t.length], 0);
  }
  assert_int_equal(t.length, 5000);
  assert_memory_equal(t.data + 4990, "ab998ab999", 11);
  assert_int_equal(fat_text_status(&t, &err), FAT_OK);
  fat_text_clear(&t);
  assert_string_equal(fat_text_get(&t), "");
  assert_int_equal(t.length, 0);
  fat_text_add_bytes(&t, "a\0b", 3);
  fat_text_add_bytes(&t, NULL, 0);
  assert_int_equal(t.length, 3);
  assert_memory_equal(t.data, "a\0b", 4);
  fat_text_free(&t);
  fat_text_free(&t);
  assert_null(t.data);
}

static void a_failed_text_keeps_what_it_held(void **state)
{
  (void)state;
  char wide[500];
  memset(wide, 'w', sizeof wide);
  for (int way = 0; way < 3; way++) {
    fat_text t = {0};
    fat_error err = {0};
    fat_text_add(&t, "before");
    starve_after(0, true);
    if (way == 0)
      fat_text_add_bytes(&t, wide, sizeof wide);
    else if (way == 1)
      fat_text_format(&t, "%500d", 7);
    else
      fat_text_add_bytes(&t, wide, SIZE_MAX - 3); /* refused by arithmetic, before memory is asked */
    starve_end();
    assert_true(t.failed);
    assert_string_equal(fat_text_get(&t), "before");
    fat_text_add(&t, "after"); /* memory is back, but a text with a hole in it is of no use */
    assert_string_equal(fat_text_get(&t), "before");
    assert_int_equal(fat_text_status(&t, &err), FAT_E_NOMEM);
    assert_int_equal(err.status, FAT_E_NOMEM);
    fat_text_clear(&t);
    fat_text_add(&t, "again");
    assert_int_equal(fat_text_status(&t, &err), FAT_OK);
    assert_string_equal(fat_text_get(&t), "again");
    fat_text_free(&t);
  }
}

static void a_file_is_appended_whole(void **state)
{
  (void)state;
  folder at = folder_make();
  char path[600], big[10001];
  memset(big, 'z', 10000);
  big[10000] = 0;
  folder_write(&at, "big", big);
  folder_write(&at, "empty", "");
  fat_text t = {0};
  fat_error err = {0};
  snprintf(path, sizeof path, "%s/empty", at.path);
  assert_int_equal(fat_text_read_file(&t, path, 0, &err), FAT_OK);
  assert_non_null(t.data);
  assert_int_equal(t.length, 0);
  fat_text_add(&t, "head ");
  snprintf(path, sizeof path, "%s/big", at.path);
  assert_int_equal(fat_text_read_file(&t, path, 10000, &err), FAT_OK);
  assert_int_equal(t.length, 10005);
  assert_memory_equal(t.data, "head zz", 7);
  assert_string_equal(t.data + 10000, "zzzzz");
  fat_text_free(&t);
  folder_remove(&at);
}

static void what_is_no_file_is_refused_and_leaves_the_text(void **state)
{
  (void)state;
  folder at = folder_make();
  char path[600];
  fat_text t = {0};
  fat_error err = {0};
  fat_text_add(&t, "kept");
  folder_write(&at, "five", "12345");
  const struct {
    const char *name, *says;
    fat_status status;
  } cases[] = {
      {"none", "No such file", FAT_E_NOT_FOUND}, {"five/below", "Not a directory", FAT_E_NOT_FOUND},
      {".", "not a regular file", FAT_E_IO},     {"pipe", "not a regular file", FAT_E_IO},
      {"five", "at most 4", FAT_E_IO},
  };
  snprintf(path, sizeof path, "%s/pipe", at.path);
  assert_int_equal(mkfifo(path, 0600), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(path, sizeof path, "%s/%s", at.path, cases[i].name);
    assert_int_equal(fat_text_read_file(&t, path, 4, &err), cases[i].status);
    assert_int_equal(err.status, cases[i].status);
    assert_non_null(strstr(err.text, cases[i].says));
    assert_non_null(strstr(err.text, path));
    assert_string_equal(fat_text_get(&t), "kept");
  }
  fat_text_free(&t);
  folder_remove(&at);
}

static void a_file_that_grows_while_it_is_read_is_refused(void **state)
{
  (void)state;
  /* /proc files say 0 bytes and give more. Pages of alternating rights make this one long: a line for each.
   */
  enum { PAGES = 400, PAGE = 4096, LIMIT = 6000 };
  char *pages = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fat_text t = {0};
  fat_error err = {0};
  assert_true(pages != MAP_FAILED);
  for (int i = 0; i < PAGES; i += 2)
    assert_int_equal(mprotect(pages + i * PAGE, PAGE, PROT_READ), 0);
  fat_text_add(&t, "kept");
  assert_int_equal(fat_text_read_file(&t, "/proc/self/maps", LIMIT, &err), FAT_E_IO);
  assert_non_null(strstr(err.text, "longer than the 6000 bytes"));
  assert_string_equal(fat_text_get(&t), "kept");
  assert_int_equal(t.length, 4);
  assert_int_equal(fat_text_read_file(&t, "/proc/self/maps", 10000000, &err), FAT_OK);
  assert_true(t.length > LIMIT);
  munmap(pages, PAGES * PAGE);
  fat_text_free(&t);
}

static void reading_a_file_survives_every_allocation_failing(void **state)
{
  (void)state;
  folder at = folder_make();
  char path[600];
  folder_write(&at, "file", "0123456789");
  snprintf(path, sizeof path, "%s/file", at.path);
  int failures = 0;
  for (long n = 0;; n++) {
    fat_text t = {0};
    fat_error err = {0};
    starve_after(n, true);
    fat_status status = fat_text_read_file(&t, path, 100, &err);
    starve_end();
    if (status == FAT_OK)
      assert_string_equal(fat_text_get(&t), "0123456789");
    else {
      failures++;
      assert_int_equal(status, FAT_E_NOMEM);
      assert_string_equal(fat_text_get(&t), "");
    }
    fat_text_free(&t);
    if (status == FAT_OK)
      break;
  }
  assert_true(failures > 0);
  folder_remove(&at);
}

static void sha256_gives_the_answers_of_the_standard(void **state)
{
  (void)state;
  char hash[FAT_HASH_SIZE], *million = malloc(1000000);
  assert_non_null(million);
  memset(million, 'a', 1000000);
  fat_text_hash(NULL, 0, hash);
  assert_string_equal(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  fat_text_hash("abc", 3, hash);
  assert_string_equal(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  fat_text_hash(million, 1000000, hash);
  assert_string_equal(hash, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(million);
}

/* Of whole blocks the processor may do the work, of the rest libmd does it: every split, at any address. */
static void sha256_of_any_length(void **state)
{
  (void)state;
  enum { MOST = 3 * 64 + 3 };
  unsigned char bytes[MOST + 16];
  for (int i = 0; i < (int)sizeof bytes; i++)
    bytes[i] = (unsigned char)(37 * i + (i >> 3));
  for (int n = 0; n <= MOST; n++) {
    char hash[FAT_HASH_SIZE], expected[SHA256_DIGEST_STRING_LENGTH];
    const unsigned char *from = bytes + n % 16;
    SHA256Data(from, (size_t)n, expected);
    fat_text_hash(from, (size_t)n, hash);
    assert_string_equal(hash, expected);
  }
}

static void distance_counts_single_letter_changes(void **state)
{
  (void)state;
  const struct {
    const char *a, *b;
    int distance;
  } cases[] = {{"", "", 0},
               {"causal", "causal", 0},
               {"", "abc", 3},
               {"casual", "causal", 1},
               {"t5", "t4", 1},
               {"causa", "causal", 1},
               {"ab", "ba", 1},
               {"abc", "ca", 3},
               {"kitten", "sitting", 3},
               {"fwd", "bwd", 1},
               {"flaw", "lawn", 2},
               {"softcpa", "softcap", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(fat_text_distance(cases[i].a, cases[i].b), cases[i].distance);
    assert_int_equal(fat_text_distance(cases[i].b, cases[i].a), cases[i].distance);
  }
  char a[101], b[101];
  memset(a, 'a', 100);
  memset(b, 'b', 100);
  a[100] = b[100] = 0;
  assert_int_equal(fat_text_distance(a, b), 40);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adding_grows_the_text),
      cmocka_unit_test(a_failed_text_keeps_what_it_held),
      cmocka_unit_test(a_file_is_appended_whole),
      cmocka_unit_test(what_is_no_file_is_refused_and_leaves_the_text),
      cmocka_unit_test(a_file_that_grows_while_it_is_read_is_refused),
      cmocka_unit_test(reading_a_file_survives_every_allocation_failing),
      cmocka_unit_test(sha256_gives_the_answers_of_the_standard),
      cmocka_unit_test(sha256_of_any_length),
      cmocka_unit_test(distance_counts_single_letter_changes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
