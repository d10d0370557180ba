/* open.c -- opens templates, GPU, database and NVRTC for a command.
 *
 * In: options, then environment variables, then defaults. Out: handles the caller closes. A missing driver is
 * no error here: everything but timing works without one, as long as a GPU is named. */
#include "open.h"

#include "compile.h"
#include "device.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 16 };

static const char *given(const char *option, const char *variable)
{
  const char *value = option ? option : getenv(variable);
  return value && *value ? value : NULL;
}

const char *fat_open_templates(const fat_options *options)
{
  return given(options->templates, "FATUNE_TEMPLATES");
}

const char *fat_open_dump(const fat_options *options)
{
  return given(options->dump, "FATUNE_DUMP");
}

/* What the database knows of the expressions that typed problems name by a hash. Whatever is wrong with it is
 * told by who needs it. */
static void know_mods(const fat_options *options)
{
  fat_text path = {0};
  fat_db *db = NULL;
  bool named = false;
  for (int i = 0; i < options->arg_count; i++)
    named = named || strstr(options->args[i], "-mod") || strstr(options->args[i], "-mask");
  if (named && fat_db_path(options->db, &path, NULL) == FAT_OK &&
      fat_db_open(fat_text_get(&path), fat_db_system_path(), FAT_DB_READ, &db, NULL) == FAT_OK)
    fat_db_mods(db, NULL);
  fat_db_close(db);
  fat_text_free(&path);
}

fat_status fat_open_script(const fat_options *options, fat_script **script, fat_error *err)
{
  know_mods(options);
  return fat_script_open(fat_open_templates(options), script, err);
}

/* The devices at hand, and what the driver says of itself; none without a driver. */
static fat_status look_around(fat_asked_gpu *asked, fat_device *devices, int *count, fat_error *err)
{
  fat_driver *driver;
  *count = 0;
  FAT_TRY(fat_driver_open(&driver, err));
  fat_status status = fat_device_list(driver, devices, DEVICES, count, err);
  if (status == FAT_OK) {
    asked->cuda = fat_driver_cuda(driver);
    const char *text = fat_driver_text(driver);
    snprintf(asked->driver, sizeof asked->driver, "%s%s", *text ? "" : "CUDA ",
             *text ? text : fat_driver_cuda_text(driver));
  }
  fat_driver_close(driver);
  return status;
}

/* The row of the table that a device's facts agree with, else the device as it reports itself. */
static fat_gpu known(const fat_gpu *device)
{
  const fat_gpu *row = fat_gpu_match(device);
  return row ? *row : *device;
}

/* --gpu beside --device N: the device must be that GPU. */
static fat_status check_named(const char *name, const fat_asked_gpu *asked, fat_error *err)
{
  const fat_gpu *row;
  FAT_TRY(fat_gpu_find(name, &row, err));
  return strcmp(row->name, asked->gpu.name) == 0
             ? FAT_OK
             : fat_status_fail(err, FAT_E_INPUT, "--device %d is a %s, not the %s of --gpu", asked->ordinal,
                               asked->gpu.name, row->name);
}

static void list_equal(const fat_options *options, const fat_device *devices, int count, fat_asked_gpu *asked)
{
  char facts[FAT_GPU_FACTS], other[FAT_GPU_FACTS];
  fat_gpu_facts(&asked->gpu, facts);
  asked->ordinals[asked->count++] = asked->ordinal;
  for (int i = 0; i < count && options->device == FAT_DEVICE_ALL; i++) {
    const fat_gpu gpu = known(&devices[i].gpu);
    if (devices[i].ordinal != asked->ordinal && strcmp(fat_gpu_facts(&gpu, other), facts) == 0 &&
        asked->count < FAT_LABS)
      asked->ordinals[asked->count++] = devices[i].ordinal;
  }
}

/* `else_do`: what a command says where none is at hand and none is named. */
static fat_status open_gpu(const fat_options *options, const char *else_do, fat_asked_gpu *asked,
                           fat_error *err)
{
  fat_device devices[DEVICES];
  int count;
  *asked = (fat_asked_gpu){0};
  fat_error why = {0};
  fat_status found = look_around(asked, devices, &count, &why);
  if (!options->gpu && found != FAT_OK)
    return fat_status_fail(err, found, "no GPU is at hand: %.500s; %s", why.text, else_do);
  int first = 0;
  while (options->device > 0 && first < count && devices[first].ordinal != options->device - 1)
    first++;
  if (options->device > 0 && first == count)
    return fat_status_fail(err, FAT_E_INPUT, "--device %d: %s", options->device - 1,
                           count == 0 ? "there is no GPU here"
                                      : "there is no such device; `fatune doctor` lists them");
  if (!options->gpu || options->device > 0) {
    asked->gpu = known(&devices[first].gpu);
    asked->ordinal = devices[first].ordinal;
    asked->at_hand = true;
    if (options->gpu)
      FAT_TRY(check_named(options->gpu, asked, err));
  } else {
    const fat_gpu *row;
    FAT_TRY(fat_gpu_find(options->gpu, &row, err));
    asked->gpu = *row;
    for (int i = 0; i < count && !asked->at_hand; i++) {
      const fat_gpu *match = fat_gpu_match(&devices[i].gpu);
      asked->at_hand = match && strcmp(match->name, row->name) == 0;
      if (asked->at_hand) {
        asked->gpu = known(&devices[i].gpu);
        asked->ordinal = devices[i].ordinal;
      }
    }
  }
  if (asked->at_hand)
    list_equal(options, devices, count, asked);
  if (fat_gpu_arch(asked->gpu.sm))
    return FAT_OK;
  return fat_status_fail(err, FAT_E_UNSUPPORTED,
                         "%s has compute capability %d.%d: fatune has no kernels for it", asked->gpu.name,
                         asked->gpu.sm / 10, asked->gpu.sm % 10);
}

fat_status fat_open_gpu(const fat_options *options, fat_asked_gpu *asked, fat_error *err)
{
  return open_gpu(options,
                  "to do without, name one with --gpu, like --gpu T4 (`fatune show gpus` lists them)", asked,
                  err);
}

fat_status fat_open_gpu_itself(const fat_options *options, const char *why, fat_asked_gpu *asked,
                               fat_error *err)
{
  FAT_TRY(open_gpu(options, why, asked, err));
  return asked->at_hand ? FAT_OK
                        : fat_status_fail(err, FAT_E_NO_DEVICE, "no %s is at hand: %s", asked->gpu.name, why);
}

/* Once for a command, however often it waits. */
static void say_wait(const char *path)
{
  fat_db_on_wait(NULL);
  fprintf(stderr, "%sfatune: waiting for database %s, which another process has locked\n",
          isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", path); /* over a line of progress */
}

static void say_note(const fat_options *options, const char *note)
{
  if (!options->quiet && *note)
    fprintf(stderr, "fatune: note: %s\n", note);
}

/* `why`: what the database said, where there is neither a user's nor a system's. */
static fat_status open_db(const fat_options *options, fat_db_mode mode, const char *system, fat_db **db,
                          fat_text *path, fat_error *why, fat_error *err)
{
  fat_status status = fat_db_path(options->db, path, err);
  const bool nowhere = status != FAT_OK && mode == FAT_DB_READ && !options->db; /* no HOME */
  if (status != FAT_OK && !nowhere)
    return status;
  /* Without --db there need not be one yet; a name that was typed and is not there is a slip. */
  if (mode == FAT_DB_READ && options->db && access(options->db, F_OK) != 0 && errno == ENOENT)
    return fat_status_fail(err, FAT_E_INPUT, "--db %s: there is no such file", options->db);
  if (!options->quiet)
    fat_db_on_wait(say_wait);
  /* Of two that store without a pause on a slow disk one starves, for longer than a call may wait. */
  const int rounds = mode == FAT_DB_WRITE ? 12 : 1;
  const fat_error homeless = *err;
  status = FAT_E_BUSY;
  for (int i = 0; i < rounds && status == FAT_E_BUSY; i++)
    status = fat_db_open(nowhere ? NULL : fat_text_get(path), system, mode, db, why);
  const char *left_out = fat_db_left_out(why) ? why->text : "", *before = *left_out ? "; " : "";
  if (status == FAT_E_NOT_FOUND && nowhere)
    return fat_status_fail(err, homeless.status, "%s%s%s", homeless.text, before, left_out);
  if (status == FAT_E_NOT_FOUND)
    return fat_status_fail(err, status,
                           "there is no tuning database %s yet: a tune makes it (fatune --gpu T4)%s%s",
                           fat_text_get(path), before, left_out);
  /* A path that cannot be had is a wrong argument, like one that may not be written. */
  if (status != FAT_OK)
    return fat_status_fail(err, status == FAT_E_IO ? FAT_E_READONLY : status, "%s", why->text);
  if (nowhere)
    *err = (fat_error){0}; /* the package answers */
  if (mode == FAT_DB_WRITE)
    fat_db_wait(*db, 60);
  say_note(options, fat_db_note(*db));
  return FAT_OK;
}

fat_status fat_open_db(const fat_options *options, fat_db_mode mode, fat_db **db, fat_text *path,
                       fat_error *err)
{
  return open_db(options, mode, fat_db_system_path(), db, path, &(fat_error){0}, err);
}

fat_status fat_open_own_db(const fat_options *options, fat_db_mode mode, fat_db **db, fat_text *path,
                           fat_error *err)
{
  return open_db(options, mode, NULL, db, path, &(fat_error){0}, err);
}

fat_status fat_open_db_if_any(const fat_options *options, fat_db **db, fat_text *path, fat_error *err)
{
  fat_error why = {0}, missing = {0};
  const fat_status status = open_db(options, FAT_DB_READ, fat_db_system_path(), db, path, &why, &missing);
  if (status == FAT_OK)
    return FAT_OK;
  if (status != FAT_E_NOT_FOUND || options->db)
    return fat_status_fail(err, status, "%s", missing.text);
  if (fat_db_left_out(&why))
    say_note(options, why.text);
  return FAT_OK;
}

fat_status fat_open_nvrtc(const fat_options *options, const fat_asked_gpu *asked, fat_nvrtc **nvrtc,
                          fat_error *err)
{
  FAT_TRY(fat_nvrtc_open(options->cuda ? options->cuda : asked->cuda, nvrtc, err));
  if (fat_nvrtc_targets(*nvrtc, asked->gpu.sm))
    return FAT_OK;
  fat_status status =
      fat_status_fail(err, FAT_E_NVRTC,
                      "NVRTC %s (%s) cannot compile for sm_%d, which the %s needs; "
                      "another CUDA major may: --cuda 12 or --cuda 13",
                      fat_nvrtc_version(*nvrtc), fat_nvrtc_path(*nvrtc), asked->gpu.sm, asked->gpu.name);
  fat_nvrtc_close(*nvrtc);
  *nvrtc = NULL;
  return status;
}

/* NVRTC takes SIGINT and SIGTERM for itself while it compiles for the first time: a Ctrl-C then ends the
 * process without a word, as if the GPU were lost. So the first text is one that it refuses, within 40 ms,
 * and meanwhile signals wait. */
static void compile_first(fat_nvrtc *nvrtc, int sm)
{
  char target[16];
  fat_binary none;
  fat_error refused;
  sigset_t wait, before;
  sigemptyset(&wait);
  sigaddset(&wait, SIGINT);
  sigaddset(&wait, SIGTERM);
  snprintf(target, sizeof target, "sm_%d", sm);
  pthread_sigmask(SIG_BLOCK, &wait, &before);
  fat_compile(nvrtc, "}", "first.cu", target, 0, NULL, &none, &refused);
  fat_binary_free(&none);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

fat_status fat_open_compiler(const fat_options *options, const fat_asked_gpu *asked, fat_nvrtc **nvrtc,
                             fat_error *err)
{
  FAT_TRY(fat_open_nvrtc(options, asked, nvrtc, err));
  compile_first(*nvrtc, asked->gpu.sm);
  return FAT_OK;
}
