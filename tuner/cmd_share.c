/* cmd_share.c -- `fatune export`, `import`, `merge`: results between databases.
 *
 * In and out: JSON lines of parameters and results, or another database file. Binaries never travel by these:
 * a cubin is code; what comes in is compiled again before it runs. */
#include "commands.h"
#include "exit.h"
#include "json.h"
#include "open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { IMPORT_MOST = 1 << 28, CHUNK = 1 << 16 }; /* bytes */

static fat_status write_file(const char *path, const fat_text *text, fat_error *err)
{
  FILE *f = fopen(path, "wb");
  bool written = f && fwrite(fat_text_get(text), 1, text->length, f) == text->length;
  if (f && fclose(f) != 0)
    written = false;
  if (written)
    return FAT_OK;
  return fat_status_fail(err, FAT_E_IO, "%s cannot be written: %s", path, strerror(errno));
}

static int export_rows(const fat_options *options, const char *command_line)
{
  fat_db *db = NULL;
  fat_text path = {0}, out = {0};
  fat_error err = {0};
  int code = FAT_EXIT_FINE;
  (void)command_line;
  fat_status status = fat_open_db(options, FAT_DB_READ, &db, &path, &err);
  if (status == FAT_OK)
    status = fat_db_export(db, &out, &err);
  if (status == FAT_OK && options->arg_count)
    status = write_file(options->args[0], &out, &err);
  else if (status == FAT_OK)
    code = fat_exit_print(fat_text_get(&out));
  if (status != FAT_OK)
    code = fat_exit_fail(&err);
  fat_db_close(db);
  fat_text_free(&path);
  fat_text_free(&out);
  return code;
}

static fat_status read_stdin(fat_text *text, fat_error *err)
{
  static char chunk[CHUNK];
  size_t n;
  while ((n = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
    fat_text_add_bytes(text, chunk, n);
    if (text->length > IMPORT_MOST)
      return fat_status_fail(err, FAT_E_INPUT, "stdin: more than %d MiB", IMPORT_MOST >> 20);
  }
  if (ferror(stdin))
    return fat_status_fail(err, FAT_E_IO, "stdin cannot be read: %s", strerror(errno));
  return fat_text_status(text, err);
}

static int print_counts(const fat_options *options, const fat_import *counts)
{
  fat_text out = {0};
  if (options->json) {
    fat_json j = {.out = &out};
    fat_json_open(&j, NULL, '{');
    fat_json_int(&j, "added", counts->added);
    fat_json_int(&j, "kept", counts->kept);
    fat_json_int(&j, "refused", counts->refused);
    fat_json_string(&j, "first_refusal", counts->refused ? counts->first_refusal : NULL);
    fat_json_close(&j, '}');
  } else {
    fat_text_format(&out, "%ld rows added, %ld known already, %ld refused%s%s\n", counts->added, counts->kept,
                    counts->refused, counts->refused ? "; the first: " : "",
                    counts->refused ? counts->first_refusal : "");
  }
  fat_error err = {0};
  int code = fat_text_status(&out, &err) == FAT_OK ? fat_exit_print(fat_text_get(&out)) : fat_exit_fail(&err);
  fat_text_free(&out);
  return code == FAT_EXIT_FINE && counts->refused > 0 ? FAT_EXIT_USAGE : code;
}

static int import_rows(const fat_options *options, const char *command_line)
{
  fat_db *db = NULL;
  fat_text path = {0}, text = {0};
  fat_import counts = {0};
  fat_error err = {0};
  bool from_stdin = options->arg_count == 0 || strcmp(options->args[0], "-") == 0;
  (void)command_line;
  fat_status status =
      from_stdin ? read_stdin(&text, &err) : fat_text_read_file(&text, options->args[0], IMPORT_MOST, &err);
  if (status == FAT_E_NOT_FOUND)
    status = err.status = FAT_E_INPUT;
  if (status == FAT_OK)
    status = fat_open_db(options, FAT_DB_WRITE, &db, &path, &err);
  if (status == FAT_OK)
    status = fat_db_import(db, fat_text_get(&text), text.length, &counts, &err);
  int code = status == FAT_OK ? print_counts(options, &counts) : fat_exit_fail(&err);
  fat_db_close(db);
  fat_text_free(&path);
  fat_text_free(&text);
  return code;
}

static int merge_file(const fat_options *options, const char *command_line)
{
  fat_db *db = NULL;
  fat_text path = {0};
  fat_import counts = {0};
  fat_error err = {0};
  (void)command_line;
  fat_status status = fat_open_db(options, FAT_DB_WRITE, &db, &path, &err);
  if (status == FAT_OK)
    status = fat_db_merge(db, options->args[0], &counts, &err);
  if (status == FAT_E_NOT_FOUND)
    err.status = FAT_E_INPUT;
  int code = status == FAT_OK ? print_counts(options, &counts) : fat_exit_fail(&err);
  fat_db_close(db);
  fat_text_free(&path);
  return code;
}

const fat_command fat_cmd_export = {
    .name = "export",
    .args = "[FILE]",
    .about = "write all results as JSON lines",
    .more =
        "Without FILE to stdout. Parameters and results only: no source and no binaries.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(DB) | FAT_USE(QUIET),
    .most = 1,
    .run = export_rows,
};

const fat_command fat_cmd_import = {
    .name = "import",
    .args = "[FILE]",
    .about = "read results that export wrote",
    .more = "Without FILE, or with '-', from stdin. Every value is checked; lines that are refused are "
            "counted, the "
            "first is shown, and the exit code is 2.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(DB) | FAT_USE(JSON) | FAT_USE(QUIET),
    .most = 1,
    .run = import_rows,
};

const fat_command fat_cmd_merge = {
    .name = "merge",
    .args = "FILE",
    .about = "take over the results of another database",
    .more =
        "FILE is another tuning database, opened read-only and checked like an import; its binaries are left "
        "there.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(DB) | FAT_USE(JSON) | FAT_USE(QUIET),
    .least = 1,
    .most = 1,
    .run = merge_file,
};
