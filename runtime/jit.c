/* jit.c -- the door to libfatune-jit.
 *
 * In: a request. Out: its answer. The library is found by the environment, by our own place or by the linker,
 * in that order; one that says another FATUNE_JIT_ABI is not used. */
#include "jit.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SONAME "libfatune-jit.so.0"

/* The file of that name beside the library (or program) that this code is in; "" where that is unknown. */
static char beside[PATH_MAX];

/* At loading: a library may have been named from the folder that is current then. */
__attribute__((constructor)) static void find_beside(void)
{
  char path[PATH_MAX];
  Dl_info info;
  void *self;
  fat_status (*function)(fat_jit *, const fatune_jit_request *, fatune_jit_answer *, fat_error *) =
      fat_jit_ask;
  memcpy(&self, &function, sizeof self);
  if (!dladdr(self, &info) || !info.dli_fname || !strchr(info.dli_fname, '/'))
    return;
  snprintf(path, sizeof path, "%.*s", (int)(strrchr(info.dli_fname, '/') - info.dli_fname) + 1,
           info.dli_fname);
  if (!realpath(path, beside) || strlen(beside) + sizeof "/" SONAME > sizeof beside)
    beside[0] = 0;
  else
    strcat(beside, "/" SONAME);
}

static fat_status open_library(fat_jit *jit, fat_error *err)
{
  const char *given = secure_getenv("FATUNE_JIT");
  const int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  if (given && *given)
    jit->library = dlopen(given, how);
  else if (beside[0])
    jit->library = dlopen(beside, how);
  if (!jit->library && !(given && *given))
    jit->library = dlopen(SONAME, how);
  if (jit->library)
    return FAT_OK;
  const char *why = dlerror();
  return fat_status_fail(err, FAT_E_COMPILE,
                         "compiling needs " SONAME ", which cannot be loaded (%.400s): install it beside "
                         "libfatune, or name it with FATUNE_JIT",
                         why ? why : "no reason given");
}

static fat_status find_calls(fat_jit *jit, fat_error *err)
{
#define FIND(result, name, parameters) {#name, offsetof(fat_jit, name)},
  static const struct {
    const char *symbol;
    size_t offset;
  } calls[] = {FATUNE_JIT_CALLS(FIND)};
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    void *address = dlsym(jit->library, calls[i].symbol);
    memcpy((char *)jit + calls[i].offset, &address, sizeof address);
    if (!address)
      return fat_status_fail(err, FAT_E_COMPILE,
                             "the " SONAME " found has no function %s: it is another program's",
                             calls[i].symbol);
  }
  if (jit->fatune_jit_abi() != FATUNE_JIT_ABI)
    return fat_status_fail(err, FAT_E_COMPILE,
                           "the " SONAME " found speaks version %d, this libfatune version %d: install both "
                           "from one release",
                           jit->fatune_jit_abi(), FATUNE_JIT_ABI);
  return FAT_OK;
}

fat_status fat_jit_open(fat_jit *jit, fat_error *err)
{
  if (jit->library)
    return FAT_OK;
  fat_status status = open_library(jit, err);
  if (status == FAT_OK)
    status = find_calls(jit, err);
  if (status != FAT_OK)
    fat_jit_close(jit);
  return status;
}

fat_status fat_jit_ask(fat_jit *jit, const fatune_jit_request *request, fatune_jit_answer *answer,
                       fat_error *err)
{
  memset(answer, 0, sizeof *answer);
  FAT_TRY(fat_jit_open(jit, err));
  fat_status status = jit->fatune_jit_answer_request(request, answer);
  return status == FAT_OK ? FAT_OK : fat_status_fail(err, status, "%s", answer->error.text);
}

void fat_jit_free(const fat_jit *jit, fatune_jit_answer *answer)
{
  if (jit->library)
    jit->fatune_jit_free(answer);
}

void fat_jit_close(fat_jit *jit)
{
  if (jit->library)
    dlclose(jit->library);
  memset(jit, 0, sizeof *jit);
}
