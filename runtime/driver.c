/* driver.c -- opens libcuda and starts it.
 *
 * In: the system's library, or another one for tests. Out: its functions, its version and the CUDA version
 * it supports. Once open the library stays mapped until the process ends: it keeps threads of its own. */
#include "driver.h"
#include "cuda_error.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fat_driver {
  void *library;
  fat_cuda_calls calls;
  char text[64];
  char cuda[32];
  int version; /* as cuDriverGetVersion: 1000 * major + 10 * minor */
};

#define FIELD(field, symbol, parameters) {#symbol, offsetof(fat_cuda_calls, field)},
static const struct symbol {
  const char *symbol;
  size_t offset;
} symbols[] = {FAT_CUDA_CALLS(FIELD)}, optional[] = {FAT_CUDA_OPTIONAL(FIELD)};

static void *find(fat_driver *d, const struct symbol *s)
{
  void *address = dlsym(d->library, s->symbol);
  memcpy((char *)&d->calls + s->offset, &address, sizeof address);
  return address;
}

static fat_status load(fat_driver *d, const char *name, fat_error *err)
{
  d->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!d->library)
    return fat_status_fail(
        err, FAT_E_NO_DRIVER,
        "no NVIDIA driver here (%.300s): install it; a container is started with --gpus all", dlerror());
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
    if (!find(d, &symbols[i]))
      return fat_status_fail(err, FAT_E_NO_DRIVER,
                             "%.300s has no function %s: a newer NVIDIA driver is needed", name,
                             symbols[i].symbol);
  for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++)
    find(d, &optional[i]);
  return FAT_OK;
}

/* The driver's version is in the name of the file behind libcuda.so.1 ("libcuda.so.580.159.03"), and in a
 * file of the kernel module where the container shows it. libcuda itself has no call for it. */
static void read_text(fat_driver *d)
{
  static const char stem[] = "libcuda.so.";
  char real[PATH_MAX];
  Dl_info info;
  void *init;
  memcpy(&init, &d->calls.init, sizeof init);
  if (dladdr(init, &info) && info.dli_fname && realpath(info.dli_fname, real)) {
    const char *slash = strrchr(real, '/');
    const char *version =
        slash && strncmp(slash + 1, stem, strlen(stem)) == 0 ? slash + 1 + strlen(stem) : "";
    if (strchr(version, '.'))
      snprintf(d->text, sizeof d->text, "%.63s", version);
  }
  int file = d->text[0] ? -1 : open("/sys/module/nvidia/version", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    ssize_t length = read(file, d->text, sizeof d->text - 1);
    close(file);
    d->text[length > 0 ? length : 0] = 0;
    d->text[strcspn(d->text, "\n")] = 0;
  }
}

static fat_status start(fat_driver *d, fat_error *err)
{
  int result = d->calls.init(0);
  if (result == FAT_CUDA_NO_DEVICE)
    return fat_status_fail(err, FAT_E_NO_DEVICE,
                           "the NVIDIA driver sees no GPU: check `nvidia-smi` and CUDA_VISIBLE_DEVICES");
  if (result == FAT_CUDA_STUB)
    return fat_status_fail(
        err, FAT_E_NO_DRIVER,
        "the libcuda found is the CUDA toolkit's stub for linking, not a driver: install the "
        "NVIDIA driver or take the stubs folder out of LD_LIBRARY_PATH");
  if (result != FAT_CUDA_SUCCESS)
    return fat_driver_fail(d, FAT_E_NO_DRIVER, "cuInit", result, err);
  result = d->calls.driver_version(&d->version);
  if (result != FAT_CUDA_SUCCESS)
    return fat_driver_fail(d, FAT_E_NO_DRIVER, "cuDriverGetVersion", result, err);
  snprintf(d->cuda, sizeof d->cuda, "%d.%d", d->version / 1000, d->version % 1000 / 10);
  read_text(d);
  return FAT_OK;
}

fat_status fat_driver_open(fat_driver **driver, fat_error *err)
{
  const char *given = secure_getenv("FATUNE_LIBCUDA");
  *driver = NULL;
  fat_driver *d = calloc(1, sizeof *d);
  if (!d)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory while opening the driver");
  fat_status status = load(d, given && given[0] ? given : "libcuda.so.1", err);
  if (status == FAT_OK)
    status = start(d, err);
  if (status != FAT_OK)
    fat_driver_close(d);
  else
    *driver = d;
  return status;
}

void fat_driver_close(fat_driver *driver)
{
  if (driver && driver->library)
    dlclose(driver->library);
  free(driver);
}

const char *fat_driver_text(const fat_driver *driver)
{
  return driver->text;
}

int fat_driver_cuda(const fat_driver *driver)
{
  return driver->version / 1000;
}

const char *fat_driver_cuda_text(const fat_driver *driver)
{
  return driver->cuda;
}

bool fat_driver_overlaps(const fat_driver *driver)
{
  return driver->calls.launch_with && driver->version >= 12030;
}

const fat_cuda_calls *fat_driver_table(const fat_driver *driver)
{
  return &driver->calls;
}

bool fat_driver_maps(const fat_driver *driver)
{
  return driver->calls.map_tiled;
}

/* What to do about codes whose own words do not say it. */
static const char *remedy(const char *call, int result)
{
  static const struct {
    int result;
    const char *text;
  } known[] = {
      {46, "; the GPU's compute mode lets no further process in: `fatune doctor` says which it is"},
      {802, "; a daemon of the driver does not run: with NVLink switches that is nvidia-fabricmanager"},
      {803, "; the driver's library and its kernel module differ, as after an update: restart the machine"},
      {804, "; libcuda is of a compatibility package that is not for this GPU: see LD_LIBRARY_PATH"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].result == result)
      return known[i].text;
  return strcmp(call, "cuInit") == 0 ? "; if `nvidia-smi` fails too, the driver's installation is at fault"
                                     : "";
}

fat_status fat_driver_fail(const fat_driver *driver, fat_status status, const char *call, int result,
                           fat_error *err)
{
  const char *name = NULL, *text = NULL; /* both stay NULL for codes the driver does not know */
  driver->calls.error_name(result, &name);
  driver->calls.error_string(result, &text);
  if (!name && fat_cuda_error_name(result)[0])
    name = fat_cuda_error_name(result);
  return fat_status_fail(err, status, "%s fails with %s (%d): %s%s", call, name ? name : "an unknown code",
                         result, text ? text : "the driver has no words for it", remedy(call, result));
}

fat_status fat_driver_check(const fat_driver *driver, const char *call, int result, fat_error *err)
{
  fat_status status = fat_cuda_error_status(result);
  return status == FAT_OK ? FAT_OK : fat_driver_fail(driver, status, call, result, err);
}
