/* fuzz_rows.c -- libFuzzer: a database of ours with some of its bytes changed.
 *
 * The input is a list of changes, four bytes each: three of an offset into the file, one new value; a last
 * odd part cuts the file short. Opening, listing, picking, viewing, checking and merging such a file never
 * crash, and a binary that is handed out is the one that was stored. Corpus: tests/fuzz/corpus/rows. */
#include "../../db/private.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with a message of the fuzzer's own: the input is then kept as a crash. */
static void require(int holds)
{
  if (!holds)
    abort();
}

static const char CUBIN[] = "\177ELF a binary";
static char folder[64], path[128], other[128];
static fat_text whole; /* the file as it was */
static fat_trial asked;
static fat_db *into; /* a sound database to merge into */

static void remove_files(void)
{
  fat_db_close(into);
  fat_text_free(&whole);
  unlink(path);
  unlink(other);
  rmdir(folder);
}

static void make_trial(const char *problem, const char *config, fat_trial *t)
{
  const fat_gpu *gpu;
  memset(t, 0, sizeof *t);
  require(fat_problem_parse(problem, &t->problem, NULL) == FAT_OK);
  require(fat_config_parse(config, &t->config, NULL) == FAT_OK);
  require(fat_gpu_find("T4", &gpu, NULL) == FAT_OK);
  t->gpu = *gpu;
  t->eligible = 1;
  t->source_hash = "0123456789abcdef";
  t->ms = 1.5;
  t->mean = t->p20 = t->p80 = t->clock_mhz = t->error_max = t->error_allowed = NAN;
}

/* The file that is changed: a run, a failure, a measured and a predicted row, content of every kind. */
static void make_once(void)
{
  static const double times[] = {1.4, 1.5, 1.6};
  fat_db *db = NULL;
  fat_run run = {.command = "fuzz", .version = "0.1.0"};
  fat_artifact a = {.source = "source",
                    .recipe = "launch k grid b block 128 shared 0 args call",
                    .target = "sm_75",
                    .cubin = (const unsigned char *)CUBIN,
                    .cubin_size = sizeof CUBIN};
  if (into)
    return;
  snprintf(folder, sizeof folder, "%s",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/fatune-fuzz-XXXXXX" : "/tmp/fatune-fuzz-XXXXXX");
  require(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/t.db", folder);
  snprintf(other, sizeof other, "%s/o.db", folder);
  require(fat_db_open(path, NULL, FAT_DB_WRITE, &db, NULL) == FAT_OK);
  make_trial("fwd-f32-b1-h4k2-q64-k128-d64-causal", "fa1:Br16-Bc16", &asked);
  require(fat_db_run_begin(db, &run, &asked.run, NULL) == FAT_OK);
  asked.outcome = FAT_OUT_COMPILE_FAILED, asked.log = "log", asked.detail = "detail";
  require(fat_db_put(db, &asked, NULL, NULL) == FAT_OK);
  make_trial("fwd-f32-b1-h4k2-q64-k128-d64-causal", "fwd:Br16-Bc16", &asked);
  asked.origin = FAT_PREDICTED;
  require(fat_db_put(db, &asked, NULL, NULL) == FAT_OK);
  asked.origin = FAT_MEASURED, asked.samples = times, asked.sample_count = 3;
  require(fat_db_put(db, &asked, &a, NULL) == FAT_OK);
  fat_db_close(db);
  require(fat_text_read_file(&whole, path, 1 << 24, NULL) == FAT_OK);
  require(fat_db_open(other, NULL, FAT_DB_WRITE, &into, NULL) == FAT_OK);
  require(fat_db_run_sql(into, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", NULL) == FAT_OK);
  atexit(remove_files);
}

static void write_changed(const uint8_t *data, size_t size)
{
  size_t length = whole.length;
  char *bytes = malloc(length);
  require(bytes != NULL);
  memcpy(bytes, whole.data, length);
  for (; size >= 4; data += 4, size -= 4)
    bytes[(data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % length] = (char)data[3];
  if (size > 0)
    length = length * data[0] / 256;
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  require(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
  close(fd);
  free(bytes);
}

static bool see(const fat_trial *t, void *user)
{
  char text[FAT_CONFIG_TEXT + FAT_PROBLEM_TEXT];
  require(fat_config_print(&t->config, text) == text && fat_problem_print(&t->problem, text) == text);
  for (int i = 0; i < t->sample_count; i++)
    require(t->samples[i] >= 0);
  ++*(int *)user;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fat_db *db = NULL;
  fat_error err = {0};
  fat_best best;
  fat_import counts;
  fat_text text = {0};
  int rows = 0;
  make_once();
  write_changed(data, size);
  if (fat_db_open(path, NULL, FAT_DB_READ, &db, &err) == FAT_OK) {
    const fat_db_filter whole = {.samples = true};
    fat_db_trials(db, &whole, see, &rows, &err);
    fat_db_winners(db, &asked.problem, see, &rows, &err);
    fat_status status = fat_db_best(db, &asked.problem, &asked.gpu, NULL, true, &best, &err);
    require(status == FAT_OK || status == FAT_E_NOT_FOUND);
    if (status == FAT_OK && best.cubin)
      require(best.cubin_size == sizeof CUBIN && memcmp(best.cubin, CUBIN, sizeof CUBIN) == 0);
    fat_db_best_free(&best);
    fat_db_view(db, "best", true, &text, &err);
    fat_db_view(db, "trials", false, &text, &err);
    fat_db_view(db, "runs", true, &text, &err);
    fat_db_export(db, &text, &err);
    fat_db_check(db, &text, &err);
    fat_db_close(db);
  } else
    require(err.text[0] != 0);
  if (fat_db_merge(into, path, &counts, &err) == FAT_OK) {
    fat_text_clear(&text);
    require(fat_db_check(into, &text, &err) == FAT_OK && text.length == 0);
  }
  require(fat_db_run_sql(into, "DELETE FROM winner; DELETE FROM sample; DELETE FROM trial", NULL) == FAT_OK);
  fat_text_free(&text);
  return 0;
}
