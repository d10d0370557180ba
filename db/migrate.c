/* migrate.c -- from an older version of the schema to this one.
 *
 * A list of steps, each an SQL text from one version to the next; the first makes an empty file the first
 * released version. All steps of a file run in one transaction, after a copy of it was made beside it, so a
 * file is always whole: the old one or the new one. A change of the schema adds a step here, never edits one.
 */
#include "private.h"
#include "embed.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const fat_db_migration fat_db_migrations[] = {
    {0, 1000, "db/schema.sql", NULL},
};
const int fat_db_migration_count = sizeof fat_db_migrations / sizeof *fat_db_migrations;

/* Makes an empty file `<db>.v<version>.bak`, or with a number where that stands already. */
static fat_status make_backup(const fat_db *db, int version, char path[FAT_DB_PATH + 32], fat_error *err)
{
  for (int i = 1; i < 100; i++) {
    char number[16] = "";
    if (i > 1)
      snprintf(number, sizeof number, ".%d", i);
    snprintf(path, FAT_DB_PATH + 32, "%s.v%d%s.bak", db->path, version, number);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
      close(fd);
      return FAT_OK;
    }
    if (errno != EEXIST)
      break;
  }
  return fat_status_fail(err, FAT_E_READONLY, "the copy %s cannot be made before changing the database: %s",
                         path, strerror(errno));
}

/* Copies the file through a second connection: the first one holds the write lock, so nothing changes under
 * the copy, and a connection that writes cannot be copied from. */
static fat_status copy(fat_db *db, int version, fat_error *err)
{
  char path[FAT_DB_PATH + 32];
  sqlite3 *from = NULL, *to = NULL;
  FAT_TRY(make_backup(db, version, path, err));
  fat_status status = FAT_OK;
  int rc = sqlite3_open_v2(db->path, &from, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);
  if (rc != SQLITE_OK) {
    status = fat_db_fail(db, to ? to : from, "making a copy before changing it", err);
    goto done;
  }
  sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
  if (backup) {
    sqlite3_backup_step(backup, -1);
    rc = sqlite3_backup_finish(backup);
  }
  if (!backup || rc != SQLITE_OK)
    status = fat_db_fail(db, to, "making a copy before changing it", err);
done:
  sqlite3_close(to);
  sqlite3_close(from);
  if (status == FAT_OK)
    fat_db_remark(db, "the database was brought from version %d.%d to a newer one; the old one is %s",
                  version / 1000, version % 1000, path);
  else
    unlink(path);
  return status;
}

static fat_status step(fat_db *db, const fat_db_migration *m, fat_error *err)
{
  const char *text = m->text;
  if (m->file) {
    const fat_embed *file = fat_embed_find(m->file);
    if (!file)
      return fat_status_fail(err, FAT_E_DB, "%s is missing from the program", m->file);
    text = file->text;
  }
  char version[64];
  snprintf(version, sizeof version, "PRAGMA main.user_version = %d", m->to);
  FAT_TRY(fat_db_run_sql(db, text, err));
  return fat_db_run_sql(db, version, err);
}

static fat_status steps_to(fat_db *db, const fat_db_migration *steps, int count, int version, int target,
                           fat_error *err)
{
  while (version != target) {
    const fat_db_migration *next = NULL;
    for (int i = 0; i < count; i++)
      if (steps[i].from == version)
        next = &steps[i];
    if (!next)
      return fat_status_fail(err, FAT_E_DB,
                             "database %s has version %d.%d: there is no way from there to %d.%d", db->path,
                             version / 1000, version % 1000, target / 1000, target % 1000);
    FAT_TRY(step(db, next, err));
    version = next->to;
  }
  return FAT_OK;
}

fat_status fat_db_migrate(fat_db *db, const fat_db_migration *steps, int count, int target, fat_error *err)
{
  int64_t version = 0, broken = 0;
  /* A step may rebuild a table that others refer to; what must hold is checked before the commit. */
  sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);
  fat_status status = fat_db_begin(db, err);
  if (status == FAT_OK)
    status = fat_db_number(db, db->sql, "PRAGMA main.user_version", &version, err);
  if (status == FAT_OK && version != target && version > 0 && !db->memory)
    status = copy(db, (int)version, err);
  if (status == FAT_OK)
    status = steps_to(db, steps, count, (int)version, target, err);
  if (status == FAT_OK)
    status = fat_db_number(db, db->sql, "SELECT count(*) FROM pragma_foreign_key_check", &broken, err);
  if (status == FAT_OK && broken)
    status =
        fat_status_fail(err, FAT_E_CORRUPT,
                        "database %s: %lld rows name rows that are not there; it was left at version %d.%d",
                        db->path, (long long)broken, (int)version / 1000, (int)version % 1000);
  if (status == FAT_OK)
    status = fat_db_commit(db, err);
  fat_db_rollback(db);
  sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
  return status;
}
