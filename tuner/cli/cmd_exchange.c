/* cmd_exchange.c -- `fatune export`, `import`, `merge`: results between databases.
 *
 * In and out: JSON lines of parameters and results, or another database file. Binaries come in from one's own
 * files alone, by `merge`: a cubin is code, and what others measured is compiled here before it runs. The
 * database of a package is made here: its rows from text (`export --winners`), its code by this program
 * (`import --cubins`). */
#include "search/package.h"
#include "commands.h"
#include "exit.h"
#include "json.h"
#include "open.h"
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IMPORT_MOST = 1 << 28, CHUNK = 1 << 16 }; /* bytes */

/* Rows, not the lines that say what rows share. */
static long count_rows(const fat_text *text)
{
  static const char shared[] = "{\"fatune\":1,\"shared\":";
  long rows = 0;
  for (const char *line = fat_text_get(text), *end; (end = strchr(line, '\n')); line = end + 1)
    rows += strncmp(line, shared, strlen(shared)) != 0;
  return rows;
}

static fat_status export_winners(const fat_options *options, fat_db *db, fat_text *out, fat_error *err)
{
  char facts[FAT_GPU_FACTS];
  const fat_gpu *gpu = NULL;
  if (options->gpu)
    FAT_TRY(fat_gpu_find(options->gpu, &gpu, err));
  FAT_TRY(fat_db_export_winners(db, gpu ? fat_gpu_facts(gpu, facts) : NULL, out, err));
  if (out->length == 0)
    return fat_status_fail(err, FAT_E_INPUT, "nothing was measured%s%s: there is no winner to export",
                           gpu ? " on the " : "", gpu ? gpu->name : "");
  return FAT_OK;
}

/* All rows; of a damaged file those that can be read, and *lost says how many others there are, or -1: it is
 * not damaged. */
static fat_status export_all(fat_db *db, fat_text *out, long *lost, fat_error *err)
{
  *lost = -1;
  const fat_status status = fat_db_export(db, out, err);
  if (status != FAT_E_CORRUPT)
    return status;
  fat_text_clear(out);
  return fat_db_export_readable(db, out, lost, err);
}

static int export_rows(const fat_options *options)
{
  fat_db *db = NULL;
  fat_text path = {0}, out = {0};
  fat_error err = {0};
  int code = FAT_EXIT_FINE;
  long lost = -1;
  fat_status status =
      options->gpu && !options->winners
          ? fat_status_fail(&err, FAT_E_INPUT, "--gpu goes with --winners: without it all rows are written")
          : fat_open_db(options, FAT_DB_READ, &db, &path, &err);
  if (status == FAT_OK)
    status = options->winners ? export_winners(options, db, &out, &err) : export_all(db, &out, &lost, &err);
  const char *name = options->arg_count ? options->args[0] : "-";
  if (status == FAT_OK && strcmp(name, "-") != 0) {
    status = fat_output_write(name, fat_text_get(&path), options->force, &out, &err);
    if (status == FAT_OK && !options->quiet)
      fprintf(stderr, "fatune: wrote %ld rows to %s\n", count_rows(&out), name);
  } else if (status == FAT_OK)
    code = fat_exit_print(fat_text_get(&out));
  if (status == FAT_OK && lost >= 0) {
    fprintf(stderr,
            "fatune: database %s is damaged: of its rows %ld could be read, %ld could not; `fatune import` "
            "brings "
            "those that were written into a new one\n",
            fat_text_get(&path), count_rows(&out), lost);
    code = FAT_EXIT_ENVIRONMENT;
  }
  if (status != FAT_OK)
    code = fat_exit_fail(&err);
  fat_db_close(db);
  fat_text_free(&path);
  fat_text_free(&out);
  return code;
}

static fat_status read_stream(FILE *from, const char *name, fat_text *text, fat_error *err)
{
  static char chunk[CHUNK];
  size_t n;
  while ((n = fread(chunk, 1, sizeof chunk, from)) > 0) {
    fat_text_add_bytes(text, chunk, n);
    if (text->length > IMPORT_MOST)
      return fat_status_fail(err, FAT_E_INPUT, "%s: more than %d MiB", name, IMPORT_MOST >> 20);
  }
  if (ferror(from))
    return fat_status_fail(err, FAT_E_IO, "%s cannot be read: %s", name, strerror(errno));
  return fat_text_status(text, err);
}

/* A file, a pipe (as <(COMMAND) makes one), or "-". */
static fat_status read_input(const char *name, fat_text *text, fat_error *err)
{
  struct stat s;
  if (strcmp(name, "-") == 0)
    return read_stream(stdin, "stdin", text, err);
  if (stat(name, &s) != 0 || !S_ISFIFO(s.st_mode))
    return fat_text_read_file(text, name, IMPORT_MOST, err);
  FILE *pipe = fopen(name, "r");
  if (!pipe)
    return fat_status_fail(err, FAT_E_INPUT, "%s cannot be read: %s", name, strerror(errno));
  const fat_status status = read_stream(pipe, name, text, err);
  fclose(pipe);
  return status;
}

static void counts_json(const fat_import *counts, const fat_package_counts *code, fat_text *out)
{
  fat_json j = {.out = out};
  fat_json_open(&j, NULL, '{');
  fat_json_int(&j, "added", counts->added);
  fat_json_int(&j, "with_code", counts->with_code);
  fat_json_int(&j, "kept", counts->kept);
  fat_json_int(&j, "refused", counts->refused);
  fat_json_string(&j, "first_refusal", counts->refused ? counts->first_refusal : NULL);
  if (code) {
    fat_json_int(&j, "rows", code->rows);
    fat_json_int(&j, "compiled", code->compiled);
    fat_json_int(&j, "copied", code->copied);
    fat_json_int(&j, "changed", code->changed);
    fat_json_int(&j, "lost", code->lost);
    fat_json_string(&j, "first_lost", code->lost ? code->first_lost : NULL);
  }
  fat_json_close(&j, '}');
}

static void counts_text(const fat_import *counts, const fat_package_counts *code, fat_text *out)
{
  fat_text_format(out, "%ld rows added", counts->added);
  if (counts->with_code)
    fat_text_format(out, " (%ld with their binaries)", counts->with_code);
  fat_text_format(out, ", %ld known already, %ld refused%s%s\n", counts->kept, counts->refused,
                  counts->refused ? "; the first: " : "", counts->refused ? counts->first_refusal : "");
  if (!code)
    return;
  fat_text_format(out, "%d rows measured: %d cubins compiled, %d of the last build\n", code->rows,
                  code->compiled, code->copied);
  if (code->changed)
    fat_text_format(out, "%d rows were measured with other templates: a new tune on that GPU is due\n",
                    code->changed);
  if (code->lost)
    fat_text_format(out, "%d rows have no code by these templates; the first: %s\n", code->lost,
                    code->first_lost);
}

/* `code` NULL: none was asked for. */
static int print_counts(const fat_options *options, const fat_import *counts, const fat_package_counts *code)
{
  fat_text out = {0};
  if (options->json)
    counts_json(counts, code, &out);
  else
    counts_text(counts, code, &out);
  fat_error err = {0};
  int exit_code =
      fat_text_status(&out, &err) == FAT_OK ? fat_exit_print(fat_text_get(&out)) : fat_exit_fail(&err);
  fat_text_free(&out);
  return exit_code == FAT_EXIT_FINE && counts->refused > 0 ? FAT_EXIT_USAGE : exit_code;
}

/* Before a database is made for what is not there. */
static fat_status check_inputs(const fat_options *options, fat_error *err)
{
  struct stat s;
  for (int i = 0; i < options->arg_count; i++) {
    const char *name = options->args[i];
    if (strcmp(name, "-") == 0)
      continue;
    if (access(name, R_OK) != 0 || stat(name, &s) != 0)
      return fat_status_fail(err, FAT_E_INPUT, "%s cannot be read: %s", name, strerror(errno));
    if (!S_ISREG(s.st_mode) && !S_ISFIFO(s.st_mode))
      return fat_status_fail(err, FAT_E_INPUT, "%s is neither a file nor a pipe", name);
  }
  return FAT_OK;
}

/* All files, one after the other; a refusal names its file. */
static fat_status import_files(const fat_options *options, fat_db *db, fat_import *counts, fat_error *err)
{
  fat_status status = FAT_OK;
  for (int i = 0; i < (options->arg_count ? options->arg_count : 1) && status == FAT_OK; i++) {
    const char *name = options->arg_count ? options->args[i] : "-";
    fat_text text = {0};
    fat_import one = {0};
    status = read_input(name, &text, err);
    if (status == FAT_E_NOT_FOUND)
      status = err->status = FAT_E_INPUT;
    if (status == FAT_OK && strncmp(fat_text_get(&text), "SQLite format 3", 15) == 0)
      status = fat_status_fail(err, FAT_E_INPUT, "%s is a database: `fatune merge` takes its rows", name);
    if (status == FAT_OK)
      status = options->packaged ? fat_db_import_shipped(db, fat_text_get(&text), text.length, &one, err)
                                 : fat_db_import(db, fat_text_get(&text), text.length, &one, err);
    counts->added += one.added;
    counts->kept += one.kept;
    if (one.refused && !counts->refused)
      snprintf(counts->first_refusal, sizeof counts->first_refusal, "%.80s%s%.160s",
               options->arg_count > 1 ? name : "", options->arg_count > 1 ? ": " : "", one.first_refusal);
    counts->refused += one.refused;
    fat_text_free(&text);
  }
  return status;
}

/* A machine without NVRTC makes a package's database without cubins. */
static fat_status make_code(const fat_options *options, fat_db *db, fat_package_counts *counts,
                            fat_error *err)
{
  fat_script *script = NULL;
  fat_nvrtc *nvrtc = NULL;
  fat_error why = {0};
  FAT_TRY(fat_open_script(options, &script, err));
  if (options->cubins && fat_nvrtc_open(options->cuda, &nvrtc, &why) != FAT_OK && !options->quiet)
    fprintf(stderr, "fatune: no cubins are made: %s\n", why.text);
  fat_status status =
      fat_package_make(db, script, nvrtc, options->cubins, options->goal.threads, counts, err);
  fat_nvrtc_close(nvrtc);
  fat_script_close(script);
  return status;
}

static int import_rows(const fat_options *options)
{
  fat_db *db = NULL;
  fat_text path = {0};
  fat_import counts = {0};
  fat_package_counts code;
  fat_error err = {0};
  fat_status status = check_inputs(options, &err);
  if (status == FAT_OK)
    status = fat_open_db(options, FAT_DB_WRITE, &db, &path, &err);
  if (status == FAT_OK)
    status = import_files(options, db, &counts, &err);
  if (status == FAT_OK && options->sources && counts.refused == 0)
    status = make_code(options, db, &code, &err);
  int exit_code = status == FAT_OK
                      ? print_counts(options, &counts, options->sources && counts.refused == 0 ? &code : NULL)
                      : fat_exit_fail(&err);
  fat_db_close(db);
  fat_text_free(&path);
  return exit_code;
}

/* One after the other, each whole or not at all: what came in stays where a later file cannot be read, and a
 * second call finds it known. */
static int merge_files(const fat_options *options)
{
  fat_db *db = NULL;
  fat_text path = {0};
  fat_import counts = {0};
  fat_error err = {0};
  fat_status status = options->arg_count == 1 ? check_inputs(options, &err) : FAT_OK;
  if (status == FAT_OK)
    status = fat_open_db(options, FAT_DB_WRITE, &db, &path, &err);
  int failed = 0, code = FAT_EXIT_FINE;
  for (int i = 0; i < options->arg_count && status == FAT_OK; i++) {
    fat_import one;
    fat_error why = {0};
    fat_status merged = fat_db_merge(db, options->args[i], &one, &why);
    if (merged != FAT_OK) {
      why.status = merged == FAT_E_NOT_FOUND ? FAT_E_INPUT : merged;
      code = fat_exit_fail(&why);
      failed++;
      continue;
    }
    counts.added += one.added;
    counts.with_code += one.with_code;
    counts.kept += one.kept;
    if (one.refused && !counts.refused)
      snprintf(counts.first_refusal, sizeof counts.first_refusal, "%.90s: %.150s", options->args[i],
               one.first_refusal);
    counts.refused += one.refused;
  }
  if (status != FAT_OK)
    code = fat_exit_fail(&err);
  else if (failed < options->arg_count) {
    const int printed = print_counts(options, &counts, NULL);
    code = code == FAT_EXIT_FINE ? printed : code;
  }
  fat_db_close(db);
  fat_text_free(&path);
  return code;
}

const fat_command fat_cmd_export = {
    .name = "export",
    .args = "[FILE]",
    .about = "write all results as JSON lines",
    .more =
        "Without FILE, or with '-', to stdout. Parameters and results only: no source and no binaries. A "
        "FILE that is there is written over with --force alone, and the database itself never. With "
        "--winners only what was measured and is worth shipping, in the form of db/tuned: the winner of "
        "each problem, the best of each kernel, their twins; with --gpu of that GPU alone.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(WINNERS) | FAT_USE(FORCE) | FAT_USE(OF_GPU) | FAT_USE(DB) | FAT_USE(QUIET),
    .most = 1,
    .run = export_rows,
};

const fat_command fat_cmd_import = {
    .name = "import",
    .args = "[FILE...]",
    .about = "read results that export wrote",
    .more =
        "Without FILE, or with '-', from stdin. Every value is checked; lines that are refused are "
        "counted, the first is shown, and the exit code is 2. With --packaged, for a "
        "database of such rows alone, dates ahead of this clock are taken, too; with --sources the rows "
        "are also compared with what the templates write of them now; with --cubins the winners of the GPUs "
        "named get their cubins, where there is an NVRTC.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(PACKAGED) | FAT_USE(SOURCES) | FAT_USE(CUBINS) | FAT_USE(JOBS) | FAT_USE(CUDA) |
            FAT_USE(DB) | FAT_USE(TEMPLATES) | FAT_USE(JSON) | FAT_USE(QUIET),
    .most = FAT_OPTIONS_ARGS,
    .run = import_rows,
};

const fat_command fat_cmd_merge = {
    .name = "merge",
    .args = "FILE...",
    .about = "take over the results of other databases",
    .more =
        "Each FILE is another tuning database, opened read-only and checked like an import. Binaries come "
        "along "
        "from files of your own that nobody else may write; of others the rows alone, whose kernels are "
        "compiled when first called. A file that cannot be read is told and passed over, and the exit code "
        "says so; the same command again takes what is new.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(DB) | FAT_USE(JSON) | FAT_USE(QUIET),
    .least = 1,
    .most = FAT_OPTIONS_ARGS,
    .run = merge_files,
};
