/* nvrtc.c -- loading a libnvrtc: which of those found, its functions, what it can compile for.
 *
 * In: the candidates of locate.c and the highest CUDA major allowed. Out: an open library behind a table of
 * functions, or one sentence about what stood in the way. The names of the files only order the candidates;
 * what counts is what the loaded library says of itself. Once loaded it stays mapped until the process ends:
 * it does not give back all it took, and its threads' own destructors may outlive a close. */
#include "nvrtc.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 64, TARGETS = 64 };

struct fat_nvrtc {
  void *library;
  fat_nvrtc_calls calls;
  char path[1024];
  char version[32];
  int major, minor;
  int sms[TARGETS]; /* compute capabilities it compiles for */
  int sm_count;
};

#define FIELD(field, symbol, parameters)          {#symbol, offsetof(fat_nvrtc_calls, field), true},
#define OPTIONAL_FIELD(field, symbol, parameters) {#symbol, offsetof(fat_nvrtc_calls, field), false},
static const struct {
  const char *symbol;
  size_t offset;
  bool needed;
} symbols[] = {FAT_NVRTC_CALLS(FIELD) FAT_NVRTC_OPTIONAL(OPTIONAL_FIELD){
    "nvrtcGetErrorString", offsetof(fat_nvrtc_calls, error_text), true}};

/* A failure of one candidate is no error: the next one may do. Says why, and returns false. */
static bool unfit(fat_nvrtc_found *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool unfit(fat_nvrtc_found *f, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(f->problem, sizeof f->problem, format, args);
  va_end(args);
  return false;
}

static bool read_symbols(fat_nvrtc *n, fat_nvrtc_found *f)
{
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *address = dlsym(n->library, symbols[i].symbol);
    if (!address && symbols[i].needed)
      return unfit(f, "it has no function %s", symbols[i].symbol);
    memcpy((char *)&n->calls + symbols[i].offset, &address, sizeof address);
  }
  return true;
}

static bool read_version(fat_nvrtc *n, fat_nvrtc_found *f)
{
  int result = n->calls.version(&n->major, &n->minor);
  if (result != FAT_NVRTC_SUCCESS)
    return unfit(f, "nvrtcVersion fails with code %d", result);
  f->major = n->major;
  f->minor = n->minor;
  snprintf(n->version, sizeof n->version, "%d.%d", n->major, n->minor);
  return true;
}

static bool read_targets(fat_nvrtc *n, fat_nvrtc_found *f)
{
  int result = n->calls.count_targets(&n->sm_count);
  if (result != FAT_NVRTC_SUCCESS || n->sm_count < 1 || n->sm_count > TARGETS)
    return unfit(f, "it does not say which architectures it compiles for");
  result = n->calls.targets(n->sms);
  return result == FAT_NVRTC_SUCCESS || unfit(f, "nvrtcGetSupportedArchs fails with code %d", result);
}

/* Major 0: the names of the files do not tell. */
static bool allowed(fat_nvrtc_found *f, int cuda)
{
  if (f->major > 0 && f->major < FAT_NVRTC_OLDEST)
    return unfit(f, "it is of CUDA %d; %d or newer is needed", f->major, FAT_NVRTC_OLDEST);
  if (cuda > 0 && f->major > cuda)
    return unfit(f, "it is of CUDA %d; at most CUDA %d is asked for or supported by the driver", f->major,
                 cuda);
  return true;
}

/* NVRTC opens its companion by bare name at the first compile, found by the run path of whoever calls dlopen.
 * A sanitizer that stands in between loses that path; once the companion is loaded, the name is enough. */
static void load_companion(const fat_nvrtc *n)
{
  char path[sizeof n->path + 64];
  const char *slash = strrchr(n->path, '/');
  snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%s", (int)(slash ? slash - n->path : 0), n->path,
           n->version);
  dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); /* absent: NVRTC looks for itself */
}

/* Loads one candidate into `n` and writes its true version, or its problem, into `f`. */
static bool load(fat_nvrtc *n, fat_nvrtc_found *f, int cuda)
{
  memset(n, 0, sizeof *n);
  if (!allowed(f, cuda))
    return false;
  n->library = dlopen(f->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!n->library)
    return unfit(f, "it cannot be loaded: %.200s", dlerror());
  if (!read_symbols(n, f) || !read_version(n, f) || !allowed(f, cuda) || !read_targets(n, f)) {
    dlclose(n->library);
    return false;
  }
  memcpy(n->path, f->path, sizeof n->path);
  return true;
}

/* Usable ones first, then newest first. */
static int compare(const fat_nvrtc_found *a, const fat_nvrtc_found *b)
{
  int bad = (a->problem[0] != 0) - (b->problem[0] != 0);
  if (bad || a->major != b->major)
    return bad ? bad : b->major - a->major;
  return b->minor - a->minor;
}

/* A stable sort of a short list: equals keep the order in which they were found. */
static void sort(fat_nvrtc_found *found, int count)
{
  for (int i = 1; i < count; i++) {
    fat_nvrtc_found moved = found[i];
    int j = i;
    for (; j > 0 && compare(&found[j - 1], &moved) > 0; j--)
      found[j] = found[j - 1];
    found[j] = moved;
  }
}

static fat_status locate(fat_nvrtc_found **found, int *count, fat_error *err)
{
  *found = calloc(CANDIDATES, sizeof **found);
  if (!*found)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory while looking for libnvrtc");
  fat_status status = fat_locate_nvrtc(*found, CANDIDATES, count, err);
  if (status != FAT_OK) {
    free(*found);
    *found = NULL;
    return status;
  }
  sort(*found, *count);
  return FAT_OK;
}

fat_status fat_nvrtc_list(int cuda, fat_nvrtc_found *found, int room, int *count, fat_error *err)
{
  fat_nvrtc_found *all;
  int total;
  *count = 0;
  FAT_TRY(locate(&all, &total, err));
  for (int i = 0; i < total; i++) {
    fat_nvrtc probe;
    if (load(&probe, &all[i], cuda))
      dlclose(probe.library);
  }
  sort(all, total);
  *count = total < room ? total : room;
  memcpy(found, all, (size_t)*count * sizeof *found);
  free(all);
  return FAT_OK;
}

static fat_status refuse(int cuda, const fat_nvrtc_found *found, int count, fat_error *err)
{
  const char *given = secure_getenv("FATUNE_NVRTC");
  const char *wheel = cuda == 12 ? "nvidia-cuda-nvrtc-cu12" : "nvidia-cuda-nvrtc";
  char what[1024 + 300] = "there is none";
  if (count > 0)
    snprintf(what, sizeof what, "%s cannot be used: %s", found[0].path, found[0].problem);
  if (cuda > 0 && cuda < FAT_NVRTC_OLDEST)
    return fat_status_fail(
        err, FAT_E_NVRTC,
        "the driver is of CUDA %d, and no libnvrtc that fatune can use is as old: install a "
        "driver of CUDA %d or newer (525 or later)",
        cuda, FAT_NVRTC_OLDEST);
  if (given && given[0])
    return fat_status_fail(
        err, FAT_E_NVRTC,
        "FATUNE_NVRTC is '%.300s', where a libnvrtc.so is needed: %s; name another file or "
        "folder, or unset it",
        given, count ? what : "none is there");
  return fat_status_fail(
      err, FAT_E_NVRTC,
      "no usable libnvrtc in the CUDA toolkit (CUDA_HOME, /usr/local/cuda), Python's wheels, "
      "the linker's cache or fatune's own folder: %s; get one with `pip install --target "
      "~/.local/share/fatune/nvrtc %s`, or name one with FATUNE_NVRTC",
      what, wheel);
}

fat_status fat_nvrtc_open(int cuda, fat_nvrtc **nvrtc, fat_error *err)
{
  fat_nvrtc_found *found = NULL;
  int count = 0, opened = 0;
  fat_status status = FAT_OK;
  *nvrtc = NULL;
  fat_nvrtc *n = calloc(1, sizeof *n);
  if (!n)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory while opening libnvrtc");
  status = locate(&found, &count, err);
  if (status != FAT_OK)
    goto done;
  for (int i = 0; i < count && !opened; i++)
    opened = load(n, &found[i], cuda);
  if (opened) {
    load_companion(n);
    *nvrtc = n;
  } else
    status = refuse(cuda, found, count, err);
done:
  free(found);
  if (!opened)
    free(n);
  return status;
}

void fat_nvrtc_close(fat_nvrtc *nvrtc)
{
  if (nvrtc)
    dlclose(nvrtc->library);
  free(nvrtc);
}

const char *fat_nvrtc_version(const fat_nvrtc *nvrtc)
{
  return nvrtc->version;
}

const char *fat_nvrtc_path(const fat_nvrtc *nvrtc)
{
  return nvrtc->path;
}

bool fat_nvrtc_targets(const fat_nvrtc *nvrtc, int sm)
{
  for (int i = 0; i < nvrtc->sm_count; i++)
    if (nvrtc->sms[i] == sm)
      return true;
  return false;
}

const fat_nvrtc_calls *fat_nvrtc_table(const fat_nvrtc *nvrtc)
{
  return &nvrtc->calls;
}
