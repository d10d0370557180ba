/* fuzz_import.c -- libFuzzer: any bytes as JSON lines to import.
 *
 * Whatever comes in: what is refused says why, what is taken leaves a sound database, and the export of what
 * was taken is taken again without a change. Corpus: tests/fuzz/corpus/import. */
#include "../../db/private.h"
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

static char folder[64];
static fat_db *db;

static void remove_files(void)
{
  char path[128];
  fat_db_close(db);
  snprintf(path, sizeof path, "%s/t.db", folder);
  unlink(path);
  rmdir(folder);
}

/* One file for all inputs, emptied after each; it need not survive a power cut. */
static void open_once(void)
{
  char path[128];
  if (db)
    return;
  snprintf(folder, sizeof folder, "%s",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/fatune-fuzz-XXXXXX" : "/tmp/fatune-fuzz-XXXXXX");
  require(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/t.db", folder);
  require(fat_db_open(path, NULL, FAT_DB_WRITE, &db, NULL) == FAT_OK);
  require(fat_db_run_sql(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", NULL) == FAT_OK);
  atexit(remove_files);
}

static void empty(void)
{
  require(fat_db_run_sql(db,
                         "DELETE FROM winner; DELETE FROM sample; DELETE FROM trial; DELETE FROM run;"
                         "DELETE FROM toolchain; DELETE FROM device; DELETE FROM problem",
                         NULL) == FAT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fat_import counts, again;
  fat_text out = {0}, findings = {0};
  fat_error err = {0};
  open_once();
  char *text = malloc(size ? size : 1); /* of its exact size, so that a read behind the end is seen */
  require(text != NULL);
  memcpy(text, data, size);
  require(fat_db_import(db, text, size, &counts, &err) == FAT_OK);
  require(counts.refused == 0 || counts.first_refusal[0]);
  require(fat_db_export(db, &out, &err) == FAT_OK);
  require(counts.added > 0 || out.length == 0);
  require(fat_db_import(db, fat_text_get(&out), out.length, &again, &err) == FAT_OK);
  require(again.refused == 0 && again.added == 0 && again.kept <= counts.added);
  require(fat_db_check(db, &findings, &err) == FAT_OK);
  require(findings.length == 0);
  fat_text_clear(&out);
  require(fat_db_view(db, "best", true, &out, &err) == FAT_OK);
  require(fat_db_view(db, "failures", false, &out, &err) == FAT_OK);
  empty();
  fat_text_free(&out);
  fat_text_free(&findings);
  free(text);
  return 0;
}
