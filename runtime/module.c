/* module.c -- loads cubins, finds their entries, and keeps each loaded once per context.
 *
 * In: bytes with the hash they must have. Out: functions that a launch can use as they are. Invariant: bytes
 * whose hash is not the expected one never reach the driver. */
#include "module.h"
#include "grow.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
  char *name;
  void *function;
  int64_t shared; /* the most dynamic shared memory it has leave for */
} entry;

struct fat_module {
  const fat_driver *driver;
  fat_context context;
  void *handle; /* CUmodule */
  char hash[FAT_HASH_SIZE];
  entry *entries;
  int count;
};

static fat_status check_hash(const void *cubin, size_t size, const char *hash, fat_error *err)
{
  char found[FAT_HASH_SIZE];
  fat_text_hash(cubin, size, found);
  if (strcmp(found, hash) == 0)
    return FAT_OK;
  return fat_status_fail(err, FAT_E_CORRUPT,
                         "cubin of %zu bytes is damaged: its hash is %.16s, expected %.16s; it is not loaded",
                         size, found, hash);
}

/* A capture of another thread's stream in global mode must not be broken by the loading: this thread says
 * that it knows what it does. */
static int load(const fat_cuda_calls *cuda, void **handle, const void *cubin)
{
  int mode = FAT_CUDA_CAPTURE_RELAXED;
  bool relaxed = cuda->capture_mode && cuda->capture_mode(&mode) == FAT_CUDA_SUCCESS;
  int result = cuda->module_load(handle, cubin);
  if (relaxed)
    cuda->capture_mode(&mode);
  return result;
}

static fat_status make(const fat_driver *driver, const void *cubin, const char hash[FAT_HASH_SIZE],
                       fat_module **module, fat_error *err)
{
  fat_module *m = calloc(1, sizeof *m);
  if (!m)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a module");
  m->driver = driver;
  memcpy(m->hash, hash, sizeof m->hash);
  fat_status status = fat_context_current(driver, &m->context, err);
  if (status == FAT_OK)
    status =
        fat_driver_check(driver, "cuModuleLoadData", load(fat_driver_table(driver), &m->handle, cubin), err);
  if (status != FAT_OK)
    free(m);
  else
    *module = m;
  return status;
}

fat_status fat_module_load(const fat_driver *driver, const void *cubin, size_t size,
                           const char hash[FAT_HASH_SIZE], fat_module **module, fat_error *err)
{
  *module = NULL;
  FAT_TRY(check_hash(cubin, size, hash, err));
  return make(driver, cubin, hash, module, err);
}

void fat_module_free(fat_module *module)
{
  fat_context now;
  if (!module)
    return;
  if (fat_context_current(module->driver, &now, NULL) == FAT_OK && fat_context_same(&now, &module->context))
    fat_driver_table(module->driver)->module_unload(module->handle);
  for (int i = 0; i < module->count; i++)
    free(module->entries[i].name);
  free(module->entries);
  free(module);
}

const fat_driver *fat_module_driver(const fat_module *module)
{
  return module->driver;
}

static entry *find(const fat_module *m, const char *name)
{
  for (int i = 0; i < m->count; i++)
    if (strcmp(m->entries[i].name, name) == 0)
      return &m->entries[i];
  return NULL;
}

static fat_status add(fat_module *m, const char *name, entry **added, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(m->driver);
  void *function;
  FAT_TRY(fat_driver_check(m->driver, "cuModuleGetFunction",
                           cuda->module_function(&function, m->handle, name), err));
  if (cuda->function_load)
    FAT_TRY(fat_driver_check(m->driver, "cuFuncLoad", cuda->function_load(function), err));
  entry *more = fat_grow(m->entries, m->count, sizeof *more);
  if (more)
    m->entries = more;
  char *copy = more ? strdup(name) : NULL;
  if (!copy)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for an entry of a module");
  *added = &m->entries[m->count++];
  **added = (entry){.name = copy, .function = function, .shared = -1};
  return FAT_OK;
}

/* Setting the attribute also loads the function on drivers that have no call for that. */
static fat_status allow(const fat_module *m, entry *e, int64_t shared, fat_error *err)
{
  enum { INVALID_VALUE = 1 };
  int result =
      fat_driver_table(m->driver)->function_set(e->function, FAT_CUDA_FUNCTION_DYNAMIC_SHARED, (int)shared);
  if (result == INVALID_VALUE)
    return fat_status_fail(err, FAT_E_LAUNCH, "%s needs %lld bytes of shared memory: this GPU has less",
                           e->name, (long long)shared);
  FAT_TRY(fat_driver_check(m->driver, "cuFuncSetAttribute", result, err));
  e->shared = shared;
  return FAT_OK;
}

fat_status fat_module_entry(fat_module *module, const char *name, int64_t shared, void **function,
                            fat_error *err)
{
  entry *e = find(module, name);
  if (!e)
    FAT_TRY(add(module, name, &e, err));
  if (shared > e->shared)
    FAT_TRY(allow(module, e, shared, err));
  *function = e->function;
  return FAT_OK;
}

fat_status fat_modules_get(fat_modules *modules, const fat_driver *driver, const void *cubin,
                           const char hash[FAT_HASH_SIZE], fat_module **module, fat_error *err)
{
  fat_context now;
  FAT_TRY(fat_context_current(driver, &now, err));
  for (int i = 0; i < modules->count; i++) {
    *module = modules->list[i];
    if (fat_context_same(&(*module)->context, &now) && strcmp((*module)->hash, hash) == 0)
      return FAT_OK;
  }
  fat_module **more = fat_grow(modules->list, modules->count, sizeof *more);
  if (!more)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a list of modules");
  modules->list = more;
  *module = NULL;
  FAT_TRY(make(driver, cubin, hash, module, err));
  modules->list[modules->count++] = *module;
  return FAT_OK;
}

void fat_modules_free(fat_modules *modules)
{
  for (int i = 0; i < modules->count; i++)
    fat_module_free(modules->list[i]);
  free(modules->list);
  *modules = (fat_modules){0};
}
