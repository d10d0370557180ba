/* compile.c -- one CUDA text to one cubin (or PTX), through NVRTC, within a deadline.
 *
 * In: a self-contained source and a target. Out: the cubin with its hash, the whole log, and what ptxas says
 * of each entry. The same source, target, options and environment (fat_compile_key) give the same cubin.
 * Several threads may compile with one library at a time. */
#include "compile.h"

#include "clock.h"
#include "cubin.h"
#include "ptxas.h"
#include "source.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS = 32 };

static const char *const variables[] = FAT_NVRTC_VARIABLES;

typedef struct watch {
  double start, deadline; /* seconds; a deadline of 0 is none */
  const volatile int *cancel;
} watch;

static bool cancelled(const watch *w)
{
  return w->cancel && __atomic_load_n(w->cancel, __ATOMIC_RELAXED);
}

static bool late(const watch *w)
{
  return w->deadline > 0 && fat_clock_now() - w->start >= w->deadline;
}

/* NVRTC asks from its own threads whether to stop; once true it stays so, as both answers only ever rise. */
static int stop(void *payload, void *reserved)
{
  (void)reserved;
  const watch *w = payload;
  return cancelled(w) || late(w);
}

static fat_status interrupted(const watch *w, const char *name, const char *target, fat_error *err)
{
  if (cancelled(w))
    return fat_status_fail(err, FAT_E_CANCELLED, "compiling %s for %s was cancelled", name, target);
  return fat_status_fail(err, FAT_E_TIMEOUT, "compiling %s for %s took longer than %g s", name, target,
                         w->deadline);
}

static fat_status read_log(const fat_nvrtc_calls *nvrtc, void *program, fat_text *log, fat_error *err)
{
  size_t size = 0;
  if (nvrtc->log_size(program, &size) != FAT_NVRTC_SUCCESS || size <= 1)
    return FAT_OK; /* nothing was said */
  char *text = malloc(size);
  if (!text)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a compiler log of %zu bytes", size);
  if (nvrtc->log(program, text) == FAT_NVRTC_SUCCESS)
    fat_text_add_bytes(log, text, strnlen(text, size));
  free(text);
  return fat_text_status(log, err);
}

static bool is_virtual(const char *target)
{
  return strncmp(target, "compute_", 8) == 0;
}

static fat_status read_code(const fat_nvrtc_calls *nvrtc, void *program, const char *target,
                            fat_binary *binary, fat_error *err)
{
  size_t size = 0;
  bool ptx = is_virtual(target);
  int result = ptx ? nvrtc->ptx_size(program, &size) : nvrtc->cubin_size(program, &size);
  if (result != FAT_NVRTC_SUCCESS || size == 0)
    return fat_status_fail(err, FAT_E_NVRTC, "NVRTC gives no code for %s: %s", target,
                           nvrtc->error_text(result));
  binary->cubin = malloc(size);
  if (!binary->cubin)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for code of %zu bytes", size);
  result = ptx ? nvrtc->ptx(program, (char *)binary->cubin) : nvrtc->cubin(program, (char *)binary->cubin);
  if (result != FAT_NVRTC_SUCCESS)
    return fat_status_fail(err, FAT_E_NVRTC, "NVRTC does not hand out its code for %s: %s", target,
                           nvrtc->error_text(result));
  binary->size = size;
  fat_text_hash(binary->cubin, size, binary->hash);
  return FAT_OK;
}

/* The entries as the cubin has them. The log adds spills, which no cubin tells; but when many threads compile
 * at once, NVRTC 13.0 may leave a kernel out of its log (seen with 16 threads): then all of its stack counts
 * as spilled, as rendered kernels have no other use for one. */
static void read_entries(fat_binary *binary)
{
  fat_entry own[FAT_COMPILE_ENTRIES];
  int count = fat_cubin_entries(binary->cubin, binary->size, own, FAT_COMPILE_ENTRIES);
  for (int i = 0; i < count; i++) {
    own[i].spills = own[i].stack;
    for (int k = 0; k < binary->entries; k++)
      if (strcmp(binary->entry[k].name, own[i].name) == 0)
        own[i] = binary->entry[k];
  }
  if (count > 0) { /* else the log is all there is */
    memcpy(binary->entry, own, (size_t)count * sizeof own[0]);
    binary->entries = count;
  }
}

/* The sentence for a compile that NVRTC refused. ptxas may refuse without a word (too much static shared
 * memory, CUDA 12 and 13): its figures are all there is to tell then. */
static fat_status refused(const fat_binary *binary, const char *name, const char *target, const char *code,
                          fat_error *err)
{
  char first[800];
  fat_ptxas_error(fat_text_get(&binary->log), first, sizeof first);
  if (first[0])
    return fat_status_fail(err, FAT_E_COMPILE, "%s (for %s)", first, target);
  if (binary->entries > 0)
    return fat_status_fail(
        err, FAT_E_COMPILE,
        "ptxas refuses %s for %s without a reason: %s has %d registers and %d bytes of static "
        "shared memory",
        name, target, binary->entry[0].name, binary->entry[0].registers, binary->entry[0].shared);
  return fat_status_fail(err, FAT_E_COMPILE, "NVRTC refuses %s for %s without a reason (%s)", name, target,
                         code);
}

/* From NVRTC's result to ours; on success the log and the cubin are read. */
static fat_status conclude(const fat_nvrtc_calls *nvrtc, void *program, int result, const watch *w,
                           const char *name, const char *target, fat_binary *binary, fat_error *err)
{
  FAT_TRY(read_log(nvrtc, program, &binary->log, err));
  const char *log = fat_text_get(&binary->log);
  binary->entries = fat_ptxas_entries(log, binary->entry, FAT_COMPILE_ENTRIES);
  /* A library without the callback (CUDA 12 before its last releases) cannot be stopped: its compile runs to
   * its end, and a result that comes late counts as none. */
  if (result == FAT_NVRTC_CANCELLED || (result == FAT_NVRTC_SUCCESS && (cancelled(w) || late(w))))
    return interrupted(w, name, target, err);
  if (result == FAT_NVRTC_SUCCESS) {
    FAT_TRY(read_code(nvrtc, program, target, binary, err));
    read_entries(binary);
    return FAT_OK;
  }
  const char *code = nvrtc->error_text(result);
  if (result == FAT_NVRTC_COMPILATION)
    return refused(binary, name, target, code, err);
  if (result == FAT_NVRTC_OUT_OF_MEMORY)
    return fat_status_fail(err, FAT_E_NOMEM, "NVRTC ran out of memory compiling %s for %s", name, target);
  return fat_status_fail(err, FAT_E_NVRTC, "NVRTC fails on %s for %s with %s: %.*s", name, target, code,
                         (int)strcspn(log, "\n"), log);
}

static fat_status check_target(const fat_nvrtc *nvrtc, const char *target, fat_error *err)
{
  int sm = 0;
  if (sscanf(target, is_virtual(target) ? "compute_%d" : "sm_%d", &sm) != 1)
    return fat_status_fail(err, FAT_E_INPUT,
                           "target '%s' is none: it reads like sm_75, sm_90a, or compute_75 for PTX", target);
  if (!fat_nvrtc_targets(nvrtc, sm))
    return fat_status_fail(
        err, FAT_E_NVRTC,
        "NVRTC %s (%s) cannot compile for %s: another version is needed (fatune doctor lists "
        "those at hand)",
        fat_nvrtc_version(nvrtc), fat_nvrtc_path(nvrtc), target);
  return FAT_OK;
}

fat_status fat_compile(fat_nvrtc *nvrtc, const char *source, const char *name, const char *target,
                       double deadline, const volatile int *cancel, fat_binary *binary, fat_error *err)
{
  const fat_nvrtc_calls *calls = fat_nvrtc_table(nvrtc);
  const char *options[OPTIONS + 2];
  char arch[64];
  void *program = NULL;
  watch w = {fat_clock_now(), deadline, cancel};
  memset(binary, 0, sizeof *binary);
  FAT_TRY(check_target(nvrtc, target, err));
  if (cancelled(&w))
    return interrupted(&w, name, target, err);
  int count = 0;
  for (; count < fat_source_option_count && count < OPTIONS; count++)
    options[count] = fat_source_options[count];
  snprintf(arch, sizeof arch, "--gpu-architecture=%s", target);
  options[count++] = arch;
  options[count++] = "--ptxas-options=-v";

  int result = calls->create(&program, source, name, 0, NULL, NULL);
  if (result != FAT_NVRTC_SUCCESS) {
    fat_status status = result == FAT_NVRTC_OUT_OF_MEMORY ? FAT_E_NOMEM : FAT_E_NVRTC;
    return fat_status_fail(err, status, "NVRTC does not take %s: %s", name, calls->error_text(result));
  }
  if (calls->watch)
    calls->watch(program, stop, &w); /* one that refuses is as good as one that lacks it */
  result = calls->compile(program, count, options);
  binary->seconds = fat_clock_now() - w.start;
  fat_status status = conclude(calls, program, result, &w, name, target, binary, err);
  calls->destroy(&program);
  return status;
}

void fat_binary_free(fat_binary *binary)
{
  free(binary->cubin);
  fat_text_free(&binary->log);
  memset(binary, 0, sizeof *binary);
}

fat_status fat_compile_key(const fat_nvrtc *nvrtc, fat_text *key, fat_error *err)
{
  fat_text_format(key, "nvrtc %s", fat_nvrtc_version(nvrtc));
  for (int i = 0; i < fat_source_option_count; i++)
    fat_text_format(key, " %s", fat_source_options[i]);
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
    const char *value = getenv(variables[i]);
    if (value && value[0])
      fat_text_format(key, " %s=%s", variables[i], value);
  }
  return fat_text_status(key, err);
}
