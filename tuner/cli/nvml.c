/* nvml.c -- opens libnvidia-ml, asks, and closes it.
 *
 * In: the library of the driver. Out: facts of each GPU. Each question may be refused (an older GPU, no
 * rights, a slice of one): then that fact is unknown. The declarations are our own. */
#include "nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, TOO_SMALL = 7, SM_CLOCK = 1, MEMORY_CLOCK = 2, ASKED_PROCESSES = 64 };

typedef struct memory {
  unsigned long long total, free, used;
} memory;
typedef struct process { /* of the calls with _v2 and _v3 */
  unsigned pid;
  unsigned long long bytes; /* all bits set: unknown */
  unsigned instance, compute_instance;
} process;

/* Name of the field, symbol, result, parameters. */
#define NEEDED(X)                                                                                            \
  X(init, nvmlInit_v2, int, (void))                                                                          \
  X(shutdown, nvmlShutdown, int, (void))                                                                     \
  X(error, nvmlErrorString, const char *, (int))                                                             \
  X(count, nvmlDeviceGetCount_v2, int, (unsigned *))                                                         \
  X(handle, nvmlDeviceGetHandleByIndex_v2, int, (unsigned, void **))
#define OPTIONAL(X)                                                                                          \
  X(name, nvmlDeviceGetName, int, (void *, char *, unsigned))                                                \
  X(mig, nvmlDeviceGetMigMode, int, (void *, unsigned *, unsigned *))                                        \
  X(mode, nvmlDeviceGetComputeMode, int, (void *, int *))                                                    \
  X(persistent, nvmlDeviceGetPersistenceMode, int, (void *, int *))                                          \
  X(clock, nvmlDeviceGetClockInfo, int, (void *, int, unsigned *))                                           \
  X(clock_most, nvmlDeviceGetMaxClockInfo, int, (void *, int, unsigned *))                                   \
  X(slow, nvmlDeviceGetCurrentClocksThrottleReasons, int, (void *, unsigned long long *))                    \
  X(memory, nvmlDeviceGetMemoryInfo, int, (void *, memory *))                                                \
  X(processes, nvmlDeviceGetComputeRunningProcesses_v3, int, (void *, unsigned *, process *))                \
  X(processes_before, nvmlDeviceGetComputeRunningProcesses_v2, int, (void *, unsigned *, process *))

#define POINTER(field, symbol, result, parameters) result(*field) parameters;
typedef struct calls {
  NEEDED(POINTER) OPTIONAL(POINTER)
} calls;

static bool find(void *library, const char *symbol, void *field)
{
  void *address = dlsym(library, symbol);
  memcpy(field, &address, sizeof address);
  return address != NULL;
}

static fat_status load(calls *c, fat_error *err)
{
  const char *named = getenv("FATUNE_LIBNVML"), *path = named && *named ? named : "libnvidia-ml.so.1";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); /* it keeps threads of its own */
  const char *missing = NULL;
  if (!library)
    return fat_status_fail(err, FAT_E_NO_DRIVER, "%.300s", dlerror());
#define FIND(field, symbol, result, parameters)                                                              \
  if (!find(library, #symbol, &c->field))                                                                    \
    missing = #symbol;
#define TRY_TO_FIND(field, symbol, result, parameters) find(library, #symbol, &c->field);
  NEEDED(FIND)
  OPTIONAL(TRY_TO_FIND)
  return missing ? fat_status_fail(err, FAT_E_NO_DRIVER, "%.300s has no function %s", path, missing) : FAT_OK;
}

/* A process that ended meanwhile, or of another container, has no name here. */
static void read_name(fat_nvml_process *p)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/comm", p->pid);
  FILE *f = fopen(path, "r");
  if (f && fgets(p->name, sizeof p->name, f))
    p->name[strcspn(p->name, "\n")] = 0;
  if (f)
    fclose(f);
}

static void read_processes(const calls *c, void *gpu, fat_nvml_gpu *g)
{
  process list[ASKED_PROCESSES];
  unsigned count = ASKED_PROCESSES;
  int (*ask)(void *, unsigned *, process *) = c->processes ? c->processes : c->processes_before;
  g->processes = FAT_NVML_UNKNOWN;
  int result = ask ? ask(gpu, &count, list) : -1;
  if (result == TOO_SMALL) /* count is how many there are; none were written */
    g->processes = (int)count;
  if (result != SUCCESS)
    return;
  g->processes = 0;
  for (unsigned i = 0; i < count && i < ASKED_PROCESSES; i++) {
    if (list[i].pid == (unsigned)getpid())
      continue;
    if (g->processes < FAT_NVML_PROCESSES) {
      fat_nvml_process *p = &g->process[g->processes];
      *p = (fat_nvml_process){.pid = (int)list[i].pid, .bytes = (int64_t)list[i].bytes};
      read_name(p);
    }
    g->processes++;
  }
}

static int ask_clock(int (*ask)(void *, int, unsigned *), void *gpu, int which)
{
  unsigned mhz;
  return ask && ask(gpu, which, &mhz) == SUCCESS ? (int)mhz : FAT_NVML_UNKNOWN;
}

static int ask_int(int (*ask)(void *, int *), void *gpu)
{
  int value;
  return ask && ask(gpu, &value) == SUCCESS ? value : FAT_NVML_UNKNOWN;
}

static void read_gpu(const calls *c, void *gpu, fat_nvml_gpu *g)
{
  unsigned now, next;
  unsigned long long slow;
  memory m;
  *g = (fat_nvml_gpu){.mig = FAT_NVML_UNKNOWN,
                      .mig_next = FAT_NVML_UNKNOWN,
                      .slow = FAT_NVML_UNKNOWN,
                      .bytes = FAT_NVML_UNKNOWN,
                      .used = FAT_NVML_UNKNOWN};
  if (!c->name || c->name(gpu, g->name, sizeof g->name) != SUCCESS)
    snprintf(g->name, sizeof g->name, "of unknown name");
  if (c->mig && c->mig(gpu, &now, &next) == SUCCESS) {
    g->mig = (int)now;
    g->mig_next = (int)next;
  }
  g->mode = ask_int(c->mode, gpu);
  g->persistent = ask_int(c->persistent, gpu);
  g->sm_mhz = ask_clock(c->clock, gpu, SM_CLOCK);
  g->sm_most = ask_clock(c->clock_most, gpu, SM_CLOCK);
  g->memory_mhz = ask_clock(c->clock, gpu, MEMORY_CLOCK);
  g->memory_most = ask_clock(c->clock_most, gpu, MEMORY_CLOCK);
  if (c->slow && c->slow(gpu, &slow) == SUCCESS)
    g->slow = (int64_t)slow;
  if (c->memory && c->memory(gpu, &m) == SUCCESS) {
    g->bytes = (int64_t)m.total;
    g->used = (int64_t)m.used;
  }
  read_processes(c, gpu, g);
}

fat_status fat_nvml_list(fat_nvml_gpu *gpus, int room, int *count, fat_error *err)
{
  calls c = {0};
  unsigned all = 0;
  *count = 0;
  FAT_TRY(load(&c, err));
  int result = c.init();
  if (result != SUCCESS)
    return fat_status_fail(err, FAT_E_NO_DRIVER, "nvmlInit_v2: %s (%d)", c.error(result), result);
  result = c.count(&all);
  for (unsigned i = 0; i < all && *count < room; i++) {
    void *gpu;
    if (c.handle(i, &gpu) == SUCCESS) /* one that this process may not use is left out */
      read_gpu(&c, gpu, &gpus[(*count)++]);
  }
  c.shutdown();
  return result == SUCCESS ? FAT_OK
                           : fat_status_fail(err, FAT_E_NO_DRIVER, "nvmlDeviceGetCount_v2: %s (%d)",
                                             c.error(result), result);
}
