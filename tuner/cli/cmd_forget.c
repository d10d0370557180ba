/* cmd_forget.c -- `fatune forget`, `fatune compact`: less in the database.
 *
 * In: what the trials have in common; nothing is forgotten without a word that says which. Out: how many are
 * gone, how many bytes were given back. */
#include "commands.h"
#include "exit.h"
#include "gpu.h"
#include "json.h"
#include "open.h"

#include <unistd.h>

static int print_numbers(const fat_options *o, const char *const names[2], const int64_t values[2],
                         const char *form)
{
  fat_text out = {0};
  fat_json j = {.out = &out};
  if (o->json) {
    fat_json_open(&j, NULL, '{');
    for (int i = 0; i < 2 && names[i]; i++)
      fat_json_int(&j, names[i], values[i]);
    fat_json_close(&j, '}');
  } else
    fat_text_format(&out, form, (long long)values[0], (long long)values[1]);
  int code = fat_exit_print(fat_text_get(&out));
  fat_text_free(&out);
  return code;
}

/* One that is there: neither command makes a database. */
static fat_status open_existing(const fat_options *o, fat_db **db, fat_error *err)
{
  fat_text path = {0};
  fat_status status = fat_open_db(o, FAT_DB_READ, db, &path, err);
  fat_db_close(*db);
  *db = NULL;
  if (status == FAT_OK && access(fat_text_get(&path), F_OK) != 0) /* a package's alone was opened */
    status = fat_status_fail(err, FAT_E_NOT_FOUND, "there is no tuning database %s of your own yet",
                             fat_text_get(&path));
  fat_text_clear(&path);
  if (status == FAT_OK)
    status = fat_open_db(o, FAT_DB_WRITE, db, &path, err);
  fat_text_free(&path);
  return status;
}

static fat_status forget_rows(const fat_options *o, long *count, fat_error *err)
{
  fat_db *db = NULL;
  const fat_gpu *gpu = NULL;
  fat_db_forgotten what = {.gpu = o->gpu,
                           .kernel = o->goal.kernel_count ? o->goal.kernels[0] : NULL,
                           .problem = o->problem,
                           .source = o->source,
                           .older_days = o->older};
  if (!what.gpu && !what.kernel && !what.problem && !what.source && !what.older_days)
    return fat_status_fail(
        err, FAT_E_INPUT,
        "forget needs a word that says which: --gpu, --kernel, --problem, --source or --older");
  if (o->goal.kernel_count > 1)
    return fat_status_fail(err, FAT_E_INPUT, "--kernel: forget takes one name, not %d", o->goal.kernel_count);
  if (o->gpu && fat_gpu_find(o->gpu, &gpu, NULL) == FAT_OK)
    what.gpu = gpu->name;
  fat_status status = open_existing(o, &db, err);
  if (status == FAT_OK)
    status = fat_db_forget(db, &what, count, err);
  if (status == FAT_OK && *count == 0 && o->gpu)
    status = fat_gpu_find(o->gpu, &gpu, err); /* a slip of the name: no rows bear it */
  fat_db_close(db);
  return status;
}

static int forget(const fat_options *o)
{
  static const char *const names[2] = {"forgotten", NULL};
  long count = 0;
  fat_error err = {0};
  if (forget_rows(o, &count, &err) != FAT_OK)
    return fat_exit_fail(&err);
  return print_numbers(o, names, (const int64_t[2]){count, 0},
                       count ? "%lld trials are forgotten; `fatune compact` gives their room back\n"
                             : "%lld trials are forgotten: none agrees with all that was named\n");
}

static int compact(const fat_options *o)
{
  static const char *const names[2] = {"before", "after"};
  fat_db *db = NULL;
  fat_error err = {0};
  int64_t sizes[2] = {0};
  fat_status status = open_existing(o, &db, &err);
  if (status == FAT_OK)
    status = fat_db_compact(db, &sizes[0], &sizes[1], &err);
  int code = status == FAT_OK ? print_numbers(o, names, sizes, "%lld bytes before, %lld after\n")
                              : fat_exit_fail(&err);
  fat_db_close(db);
  return code;
}

const fat_command fat_cmd_forget = {
    .name = "forget",
    .about = "drop trials from the database",
    .more = "Those that agree in all that is named, of every run: a GPU that is gone, a kernel, a source, "
            "what is older "
            "than so many days. Winners are chosen anew among what is left.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(OF_GPU) | FAT_USE(OF_KERNEL) | FAT_USE(PROBLEM) | FAT_USE(SOURCE) | FAT_USE(OLDER) |
            FAT_USE(DB) | FAT_USE(JSON) | FAT_USE(QUIET),
    .run = forget,
};

const fat_command fat_cmd_compact = {
    .name = "compact",
    .about = "make the database's file as small as its content",
    .more = "Drops sources, recipes and binaries that no trial refers to, and gives the room back. A tune "
            "that runs "
            "meanwhile waits.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(DB) | FAT_USE(JSON) | FAT_USE(QUIET),
    .run = compact,
};
