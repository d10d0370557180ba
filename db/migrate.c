/* migrate.c -- from an older version of the schema to this one.
 *
 * A list of steps, each from one version to a later one; the first makes an empty file a new one. All steps
 * of a file run in one transaction, after a copy was made beside it, so a file is always whole: the old one
 * or the new one. */
#include "private.h"
#include "prose.h"
#include "embed.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
/* Views hold nothing: they go first, and come back from their file. */
static const char VIEWS[] =
    "DROP VIEW IF EXISTS best; DROP VIEW IF EXISTS trials; DROP VIEW IF EXISTS failures; DROP VIEW IF EXISTS runs;"
    "DROP VIEW IF EXISTS history; DROP VIEW IF EXISTS rejections; DROP VIEW IF EXISTS tunables;";

/* From 1.0: every table steps aside, the schema is made anew, the rows come back with facts in columns. */
static const char ASIDE[] =
    "DROP INDEX IF EXISTS problem_family; DROP INDEX IF EXISTS trial_winner; DROP INDEX IF EXISTS trial_kernel;"
    "DROP INDEX IF EXISTS trial_run; ALTER TABLE problem RENAME TO problem0; ALTER TABLE device RENAME TO device0;"
    "ALTER TABLE toolchain RENAME TO toolchain0; ALTER TABLE run RENAME TO run0;"
    "ALTER TABLE source RENAME TO source0; ALTER TABLE recipe RENAME TO recipe0;"
    "ALTER TABLE binary RENAME TO binary0; ALTER TABLE trial RENAME TO trial0;"
    "ALTER TABLE sample RENAME TO sample0; ALTER TABLE winner RENAME TO winner0;";
static const char BACK[] =
    "INSERT INTO problem SELECT * FROM problem0; INSERT INTO device SELECT * FROM device0;"
    "INSERT INTO toolchain (id, compile_key, driver, made_by)"
    " SELECT id, compile_key, " FAT_PROSE_DRIVER("driver") ", " FAT_PROSE_MADE_BY("driver") " FROM toolchain0;"
    "INSERT INTO run (id, begun, ended, status, device, command, version, driver, nvrtc, templates, model, host)"
    " SELECT id, begun, ended, coalesce(status, 'stopped'), coalesce((SELECT d.facts FROM trial0 t JOIN device0 d"
    " ON d.id = t.device WHERE t.run = run0.id AND run0.status IS NOT 'imported' LIMIT 1), ''), command, version,"
    " driver, nvrtc, templates, '', host FROM run0;"
    "INSERT INTO source SELECT * FROM source0; INSERT INTO recipe SELECT * FROM recipe0;"
    "INSERT INTO binary SELECT * FROM binary0;"
    "INSERT INTO trial (id, run, problem, device, toolchain, kernel, config, tunables, source, templates, origin,"
    " outcome, eligible, current, latest, twin_of, race, rivals, made_as, ms, forecast, p20, p80, clock_mhz, error_max,"
    " error_allowed, limit_by, registers, stack, spills, shared, blocks_per_sm, compile_seconds, samples, detail, log,"
    " date, recipe, binary)"
    " SELECT id, run, problem, device, toolchain, kernel, config,"
    /* fwd:Br64-Bc32 -> {"Br":64,"Bc":32}: the digits of each value are what is left without its letters. */
    " coalesce((WITH RECURSIVE word(one, rest) AS (SELECT NULL, substr(config, instr(config, ':') + 1) || '-' UNION ALL"
    " SELECT substr(rest, 1, instr(rest, '-') - 1), substr(rest, instr(rest, '-') + 1) FROM word WHERE rest <> '')"
    " SELECT json_group_object(rtrim(one, '0123456789'), CAST(substr(one, length(rtrim(one, '0123456789')) + 1) AS"
    " INTEGER)) FROM word WHERE one IS NOT NULL), '{}'),"
    " source, templates, origin, outcome, eligible, current, 1, " FAT_PROSE_TWIN_OF("detail") ", "
    FAT_PROSE_RACE("detail") ", " FAT_PROSE_RIVALS("detail") ", " FAT_PROSE_MADE_AS("detail") ", ms,"
    " iif(origin = 'predicted', ms, NULL), p20, p80, clock_mhz, error_max, error_allowed, limit_by, registers, stack,"
    " spills, shared, blocks_per_sm, compile_seconds, samples, " FAT_PROSE_DETAIL("detail") ", log, date, recipe,"
    " binary FROM trial0;"
    "INSERT INTO sample (trial, n, ms, clock) SELECT trial, n, ms, clock FROM sample0;"
    " INSERT INTO winner SELECT * FROM winner0;"
    "DROP TABLE winner0; DROP TABLE sample0; DROP TABLE trial0; DROP TABLE binary0; DROP TABLE recipe0;"
    "DROP TABLE source0; DROP TABLE run0; DROP TABLE toolchain0; DROP TABLE device0; DROP TABLE problem0;";

/* From 1.1: a trial has a mean and kinds. */
static const char KINDS[] =
    "ALTER TABLE trial ADD COLUMN mean REAL; DROP INDEX IF EXISTS trial_winner;"
    "CREATE INDEX trial_winner ON trial(problem, device, origin, ms, mean)"
    " WHERE eligible = 1 AND current = 1 AND outcome = 'ok' AND ms > 0;"
    "CREATE TABLE kind (trial INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE, n INTEGER NOT NULL,"
    " name TEXT NOT NULL, ms REAL NOT NULL, PRIMARY KEY (trial, n)) STRICT, WITHOUT ROWID;";
/* From 1.3: expressions. */
static const char MODS[] =
    "CREATE TABLE IF NOT EXISTS mod (hash TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL) STRICT;";
/* clang-format on */

const fat_db_migration fat_db_migrations[] = {
    {0, 1004, {"db/schema.sql", "db/views.sql"}},
    {1000, 1004, {VIEWS, ASIDE, "db/schema.sql", BACK, "db/views.sql"}},
    {1001, 1004, {VIEWS, KINDS, MODS, "db/views.sql"}},
    {1002, 1004, {VIEWS, MODS, "db/views.sql"}},
    {1003, 1004, {MODS}},
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
  if (!fat_db_copy(to, from))
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

/* Of a file that is not new, what a step names and does not find was damaged. */
static fat_status run_part(fat_db *db, const char *part, int from, fat_error *err)
{
  fat_error why = {0};
  const fat_embed *file = strncmp(part, "db/", 3) == 0 ? fat_embed_find(part) : NULL;
  if (!file && strncmp(part, "db/", 3) == 0)
    return fat_status_fail(err, FAT_E_DB, "%s is missing from the program", part);
  const fat_status status = fat_db_run_sql(db, file ? file->text : part, &why);
  if (status == FAT_OK)
    return FAT_OK;
  if (status != FAT_E_DB || from == 0)
    return fat_status_fail(err, status, "%s", why.text);
  return fat_status_fail(
      err, FAT_E_CORRUPT,
      "%s: the file is damaged; it was left at version %d.%d: move it away to begin a new one", why.text,
      from / 1000, from % 1000);
}

static fat_status step(fat_db *db, const fat_db_migration *m, fat_error *err)
{
  char version[64];
  for (int i = 0; i < FAT_DB_PARTS && m->parts[i]; i++)
    FAT_TRY(run_part(db, m->parts[i], m->from, err));
  snprintf(version, sizeof version, "PRAGMA main.user_version = %d", m->to);
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
    status = fat_db_number(db, "main", "PRAGMA %s.user_version", &version, err);
  if (status == FAT_OK && version != target && version > 0 && !db->memory)
    status = copy(db, (int)version, err);
  if (status == FAT_OK)
    status = steps_to(db, steps, count, (int)version, target, err);
  if (status == FAT_OK)
    status = fat_db_number(db, "main", "SELECT count(*) FROM pragma_foreign_key_check", &broken, err);
  if (status == FAT_OK && broken)
    status =
        fat_status_fail(err, FAT_E_CORRUPT,
                        "database %s: %lld rows name rows that are not there; it was left at version %d.%d",
                        db->path, (long long)broken, (int)version / 1000, (int)version % 1000);
  status = fat_db_end(db, status, err);
  sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
  return status;
}
