/* test_nvrtc.c -- which libnvrtc is found and which one is used, with libraries of our own in made-up
 * folders.
 *
 * The fakes claim minor version 900, so that beside a real one of the same major they are the newest. */
#include "locate.h"
#include "nvrtc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROOM = 64 };
static char root[] = "/tmp/fatune-nvrtc-XXXXXX";
static char folder[128]; /* a fresh one for each test */
static const char *const variables[] = {"FATUNE_NVRTC", "CUDA_HOME",     "CUDA_PATH",      "VIRTUAL_ENV",
                                        "CONDA_PREFIX", "XDG_DATA_HOME", "LD_LIBRARY_PATH"};

static int make_root(void **state)
{
  (void)state;
  return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
  (void)state;
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return system(command);
}

static int clean(void **state)
{
  (void)state;
  static int number;
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
    unsetenv(variables[i]);
  setenv("HOME", root, 1);
  /* A name full of glob's own characters. */
  snprintf(folder, sizeof folder, "%s/%d a[b]{c,d}*", root, number++);
  return mkdir(folder, 0700);
}

/* Puts a fake (or with NULL an empty file) at folder/path and returns the full path. Its companion tells the
 * version, as in every real installation. */
static const char *place(const char *fake, const char *path)
{
  static char full[8][512];
  static int turn;
  char *name = full[turn++ % 8], command[2400];
  snprintf(name, 512, "%s/%s", folder, path);
  if (fake)
    snprintf(command, sizeof command,
             "mkdir -p \"$(dirname '%s')\" && cp '%s/fake_nvrtc_%s.so' '%s' && "
             ": > \"$(dirname '%s')/libnvrtc-builtins.so.%s.900\"",
             name, FAKES, fake, name, name, fake);
  else
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\" && : > '%s'", name, name);
  assert_int_equal(system(command), 0);
  return name;
}

static void opens(int cuda, const char *version, const char *path)
{
  fat_nvrtc *nvrtc;
  fat_error err = {0};
  fat_status status = fat_nvrtc_open(cuda, &nvrtc, &err);
  if (status != FAT_OK)
    fail_msg("%s", err.text);
  assert_string_equal(fat_nvrtc_version(nvrtc), version);
  assert_string_equal(fat_nvrtc_path(nvrtc), path);
  fat_nvrtc_close(nvrtc);
}

static void refuses(int cuda, const char *const *words)
{
  fat_nvrtc *nvrtc = (fat_nvrtc *)&words;
  fat_error err = {0};
  assert_int_equal(fat_nvrtc_open(cuda, &nvrtc, &err), FAT_E_NVRTC);
  assert_null(nvrtc);
  for (; *words; words++)
    if (!strstr(err.text, *words))
      fail_msg("'%s' does not say '%s'", err.text, *words);
}
#define REFUSES(cuda, ...) refuses(cuda, (const char *const[]){__VA_ARGS__, NULL})

static void absent(void **state)
{
  (void)state;
  setenv("FATUNE_NVRTC", folder, 1);
  REFUSES(0, "FATUNE_NVRTC", folder, "none is there");
  setenv("FATUNE_NVRTC", "/nowhere/at/all", 1);
  REFUSES(0, "/nowhere/at/all", "unset it");
  setenv("FATUNE_NVRTC", "/etc/passwd", 1); /* a file, but no library */
  REFUSES(0, "/etc/passwd");
}

static void given_file_or_folder(void **state)
{
  (void)state;
  const char *file = place("13", "odd name.so");
  setenv("FATUNE_NVRTC", file, 1);
  opens(0, "13.900", file);
  opens(13, "13.900", file);
  REFUSES(12, "CUDA 13", "at most CUDA 12");
  REFUSES(11, "the driver is of CUDA 11", "install a driver of CUDA 12");
  const char *inside = place("12", "kit/lib64/libnvrtc.so.12");
  char kit[256];
  snprintf(kit, sizeof kit, "%s/kit", folder);
  setenv("FATUNE_NVRTC", kit, 1);
  opens(0, "12.900", inside);
}

static void too_old_or_broken(void **state)
{
  (void)state;
  const char *file = place("11", "libnvrtc.so.11.2");
  setenv("FATUNE_NVRTC", file, 1);
  REFUSES(0, file, "CUDA 11", "12 or newer");
  file = place("11", "renamed.so"); /* its name does not tell: only loading does */
  setenv("FATUNE_NVRTC", file, 1);
  REFUSES(0, "CUDA 11", "12 or newer");
  file = place("broken", "libnvrtc.so.12");
  setenv("FATUNE_NVRTC", file, 1);
  REFUSES(0, file, "no function nvrtcGetCUBIN");
  file = place(NULL, "libnvrtc.so.13");
  setenv("FATUNE_NVRTC", file, 1);
  REFUSES(0, file, "cannot be loaded");
}

static void newest_that_is_allowed(void **state)
{
  (void)state;
  place("11", "lib/libnvrtc.so.11.2");
  const char *twelve = place("12", "lib/libnvrtc.so.12");
  const char *thirteen = place("13", "lib64/libnvrtc.so.13");
  place(NULL,
        "nvidia/cu14/lib/libnvrtc.so.14"); /* claims to be newer, cannot be loaded: the next one is used */
  setenv("FATUNE_NVRTC", folder, 1);
  opens(0, "13.900", thirteen);
  opens(12, "12.900", twelve);
  opens(99, "13.900", thirteen);
  fat_nvrtc_found found[ROOM];
  int count;
  assert_int_equal(fat_nvrtc_list(12, found, ROOM, &count, NULL), FAT_OK);
  assert_int_equal(count, 4);
  assert_string_equal(found[0].path, twelve);
  assert_string_equal(found[0].problem, "");
  assert_int_equal(found[0].minor, 900);
  for (int i = 1; i < 4; i++)
    assert_true(found[i].problem[0] != 0);
  assert_int_equal(fat_nvrtc_list(0, found, 2, &count, NULL), FAT_OK);
  assert_int_equal(count, 2);
  assert_string_equal(found[0].path, thirteen);
  assert_string_equal(found[1].path, twelve);
}

/* Versions are told by the names of the files, links are followed, no file comes twice. */
static void reads_names(void **state)
{
  (void)state;
  place("13", "lib/libnvrtc.so.13.0.88");
  const char *twelve = place("12", "lib64/libnvrtc.so.12");
  char link[512];
  snprintf(link, sizeof link, "%s/lib/libnvrtc.so.13", folder);
  assert_int_equal(symlink("libnvrtc.so.13.0.88", link), 0);
  snprintf(link, sizeof link, "%s/lib/libnvrtc.so", folder);
  assert_int_equal(symlink("libnvrtc.so.13", link), 0);
  setenv("FATUNE_NVRTC", folder, 1);
  fat_nvrtc_found found[ROOM];
  int count;
  assert_int_equal(fat_locate_nvrtc(found, ROOM, &count, NULL), FAT_OK);
  assert_int_equal(count, 2);
  for (int i = 0; i < count; i++) {
    int is_twelve = strcmp(found[i].path, twelve) == 0;
    assert_int_equal(found[i].major, is_twelve ? 12 : 13);
    assert_int_equal(found[i].minor, is_twelve ? 900 : 0);
    assert_string_equal(found[i].where, "FATUNE_NVRTC");
  }
  place(NULL, "lib64/libnvrtc-builtins.so.12.9"); /* now which minor it is cannot be told */
  assert_int_equal(fat_locate_nvrtc(found, ROOM, &count, NULL), FAT_OK);
  for (int i = 0; i < count; i++)
    assert_int_equal(found[i].minor, 0); /* of 13.0.88 the name tells, of 12 nothing does any more */
}

/* Each place of the search: a fake put there is found there. */
static void every_place(void **state)
{
  (void)state;
  static const struct {
    const char *variable, *below, *path, *where;
  } places[] = {
      {"CUDA_HOME", "", "lib64/libnvrtc.so.13", "toolkit"},
      {"CUDA_PATH", "", "targets/x86_64-linux/lib/libnvrtc.so.13", "toolkit"},
      {"VIRTUAL_ENV", "", "lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "wheel"},
      {"CONDA_PREFIX", "", "lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "wheel"},
      {"CONDA_PREFIX", "", "lib/libnvrtc.so.13", "wheel"},
      {"HOME", "", ".local/lib/python3.9/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "wheel"},
      {"HOME", "", ".local/share/fatune/nvrtc/nvidia/cu13/lib/libnvrtc.so.13", "fetched"},
      {"XDG_DATA_HOME", "", "fatune/nvrtc/nvidia/cu13/lib/libnvrtc.so.13", "fetched"},
      {"LD_LIBRARY_PATH", "/x", "x/libnvrtc.so.13", NULL}, /* read by the linker at start: not found now */
  };
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    clean(NULL);
    int thirteen = strstr(places[i].path, ".so.13") != NULL;
    const char *path = place(thirteen ? "13" : "12", places[i].path);
    char value[256];
    snprintf(value, sizeof value, "%s%s", folder, places[i].below);
    setenv(places[i].variable, value, 1);
    fat_nvrtc_found found[ROOM];
    int count, at = -1;
    assert_int_equal(fat_nvrtc_list(0, found, ROOM, &count, NULL), FAT_OK);
    for (int k = 0; k < count; k++)
      at = strcmp(found[k].path, path) == 0 ? k : at;
    assert_int_equal(at >= 0, places[i].where != NULL);
    if (at >= 0) {
      assert_string_equal(found[at].where, places[i].where);
      opens(thirteen ? 13 : 12, thirteen ? "13.900" : "12.900", path);
    }
  }
}

/* A python3 on PATH stands for its prefix, through links too (a virtual environment's is one). */
static void pythons_on_path(void **state)
{
  (void)state;
  const char *base = place("13", "base/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
  const char *python = place(NULL, "base/bin/python3.11");
  assert_int_equal(chmod(python, 0700), 0);
  char bin[256], link[300], path[4096];
  const char *before = getenv("PATH");
  snprintf(bin, sizeof bin, "%s/venv", folder);
  mkdir(bin, 0700);
  snprintf(bin, sizeof bin, "%s/venv/bin", folder);
  mkdir(bin, 0700);
  snprintf(link, sizeof link, "%s/python3", bin);
  assert_int_equal(symlink(python, link), 0);
  snprintf(path, sizeof path, "/nowhere::%s:%s", bin, before);
  char *kept = strdup(before);
  setenv("PATH", path, 1);
  opens(0, "13.900", base);
  setenv("PATH", kept, 1);
  free(kept);
}

static void knows_targets(void **state)
{
  (void)state;
  fat_nvrtc *nvrtc;
  setenv("FATUNE_NVRTC", place("12", "libnvrtc.so.12"), 1);
  assert_int_equal(fat_nvrtc_open(0, &nvrtc, NULL), FAT_OK);
  assert_true(fat_nvrtc_targets(nvrtc, 75));
  assert_true(fat_nvrtc_targets(nvrtc, 90));
  assert_false(fat_nvrtc_targets(nvrtc, 120));
  assert_null(fat_nvrtc_table(nvrtc)->watch); /* optional, and this one is older */
  assert_non_null(fat_nvrtc_table(nvrtc)->cubin);
  fat_nvrtc_close(nvrtc);
  fat_nvrtc_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, clean)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(absent),      TEST(given_file_or_folder), TEST(too_old_or_broken), TEST(newest_that_is_allowed),
      TEST(reads_names), TEST(every_place),          TEST(pythons_on_path),   TEST(knows_targets),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
