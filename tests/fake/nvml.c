/* nvml.c -- a libnvidia-ml for tests: FATUNE_LIBNVML=<build>/tests/fake_nvml.so.
 *
 * FAKE_NVML lists the GPUs, separated by ';', each as `key=value` separated by ','. Keys: name, mig (now and
 * next: 10 is on, then off), mode, persistent, sm, sm_most, mem, mem_most, slow, bytes, used, and any number
 * of process=PID:BYTES (BYTES -1: not told). A question whose key is not there is answered with 3, not
 * supported. FAKE_NVML_INIT is what nvmlInit_v2 returns. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, BAD_ARGUMENT = 2, UNSUPPORTED = 3, SMALL = 7, GPUS = 8 };

typedef struct gpu_memory {
  unsigned long long total, free, used;
} gpu_memory;
typedef struct gpu_process {
  unsigned pid;
  unsigned long long bytes;
  unsigned instance, compute_instance;
} gpu_process;

static char rows[GPUS][4096];
static unsigned row_count;
static bool begun;

int nvmlInit_v2(void)
{
  const char *code = getenv("FAKE_NVML_INIT"), *text = getenv("FAKE_NVML");
  if (code && atoi(code))
    return atoi(code);
  row_count = 0;
  while (text && *text && row_count < GPUS) {
    size_t n = strcspn(text, ";");
    snprintf(rows[row_count++], sizeof rows[0], ",%.*s,", (int)n, text);
    text += n + (text[n] == ';');
  }
  begun = true;
  return SUCCESS;
}

int nvmlShutdown(void)
{
  begun = false;
  return SUCCESS;
}

const char *nvmlErrorString(int code)
{
  return code == 9 ? "Driver Not Loaded" : "Some Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
  *count = row_count;
  return begun ? SUCCESS : 1;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **gpu)
{
  *gpu = i < row_count ? rows[i] : NULL;
  return *gpu ? SUCCESS : BAD_ARGUMENT;
}

/* What stands behind `key=`; NULL where it is not there. */
static const char *value(const void *gpu, const char *key)
{
  char start[32];
  snprintf(start, sizeof start, ",%s=", key);
  const char *at = begun ? strstr(gpu, start) : NULL;
  return at ? at + strlen(start) : NULL;
}

static int number(const void *gpu, const char *key, long long *n)
{
  const char *text = value(gpu, key);
  if (text)
    *n = strtoll(text, NULL, 0);
  return text ? SUCCESS : UNSUPPORTED;
}

static int whole(const void *gpu, const char *key, unsigned *n)
{
  long long wide;
  int result = number(gpu, key, &wide);
  if (result == SUCCESS)
    *n = (unsigned)wide;
  return result;
}

int nvmlDeviceGetName(void *gpu, char *name, unsigned room)
{
  const char *text = value(gpu, "name");
  if (text)
    snprintf(name, room, "%.*s", (int)strcspn(text, ","), text);
  return text ? SUCCESS : UNSUPPORTED;
}

int nvmlDeviceGetMigMode(void *gpu, unsigned *now, unsigned *next)
{
  const char *text = value(gpu, "mig");
  if (text) {
    *now = text[0] == '1';
    *next = text[1] == '1';
  }
  return text ? SUCCESS : UNSUPPORTED;
}

int nvmlDeviceGetComputeMode(void *gpu, unsigned *mode)
{
  return whole(gpu, "mode", mode);
}

int nvmlDeviceGetPersistenceMode(void *gpu, unsigned *mode)
{
  return whole(gpu, "persistent", mode);
}

int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz)
{
  return whole(gpu, which == 1 ? "sm" : which == 2 ? "mem" : "none", mhz);
}

int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *mhz)
{
  return whole(gpu, which == 1 ? "sm_most" : which == 2 ? "mem_most" : "none", mhz);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons)
{
  return number(gpu, "slow", (long long *)reasons);
}

int nvmlDeviceGetMemoryInfo(void *gpu, gpu_memory *m)
{
  long long total, used;
  if (number(gpu, "bytes", &total) || number(gpu, "used", &used))
    return UNSUPPORTED;
  *m = (gpu_memory){(unsigned long long)total, (unsigned long long)(total - used), (unsigned long long)used};
  return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, gpu_process *list)
{
  unsigned room = *count, n = 0;
  for (const char *at = value(gpu, "process"); at; at = value(at - 1, "process")) {
    char *colon;
    unsigned pid = (unsigned)strtoul(at, &colon, 0);
    if (n < room)
      list[n] = (gpu_process){pid, (unsigned long long)strtoll(colon + (*colon == ':'), NULL, 0), 0, 0};
    n++;
  }
  *count = n;
  return n > room ? SMALL : SUCCESS;
}
