/* cuda.c -- a libcuda for tests, with scripted devices and results.
 *
 * FAKE_CUDA_DEVICES: names of rows below, separated by commas ("T4,H200"; default "T4", "" for none).
 * FAKE_CUDA_VERSION: what cuDriverGetVersion says (default 13000). FAKE_CUDA_FAIL: "cuInit=34" makes that
 * function return that code; several are separated by commas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Facts as the driver of the real card reports them. */
static const struct device {
  const char *key, *name;
  size_t memory;
  int major, minor, sms, shared_block, shared_sm, l2, bus, clock, memory_clock;
} rows[] = {
    {"T4", "Tesla T4", 15655829504u, 7, 5, 40, 65536, 65536, 4194304, 256, 1590000, 5001000},
    {"A100", "NVIDIA A100-SXM4-40GB", 42297786368u, 8, 0, 108, 166912, 167936, 41943040, 5120, 1410000,
     1215000},
    {"H200", "NVIDIA H200", 150121545728u, 9, 0, 132, 232448, 233472, 62914560, 6144, 1980000, 3201000},
    {"RTX4090", "NVIDIA GeForce RTX 4090", 25386352640u, 8, 9, 128, 101376, 102400, 75497472, 384, 2520000,
     10501000},
};

static int scripted(const char *function)
{
  const char *plan = getenv("FAKE_CUDA_FAIL");
  const char *at = plan ? strstr(plan, function) : NULL;
  return at && at[strlen(function)] == '=' ? atoi(at + strlen(function) + 1) : 0;
}

static const struct device *nth(int ordinal)
{
  const char *list = getenv("FAKE_CUDA_DEVICES");
  for (list = list ? list : "T4"; *list; list += strcspn(list, ","), list += *list == ',')
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
      if (strlen(rows[i].key) == strcspn(list, ",") && strncmp(list, rows[i].key, strlen(rows[i].key)) == 0)
        if (ordinal-- == 0)
          return &rows[i];
  return NULL;
}

int cuInit(unsigned int flags)
{
  (void)flags;
  return scripted("cuInit");
}

int cuDriverGetVersion(int *version)
{
  const char *given = getenv("FAKE_CUDA_VERSION");
  *version = given ? atoi(given) : 13000;
  return scripted("cuDriverGetVersion");
}

int cuDeviceGetCount(int *count)
{
  for (*count = 0; nth(*count);)
    ++*count;
  return scripted("cuDeviceGetCount");
}

int cuDeviceGet(int *device, int ordinal)
{
  *device = 70 + ordinal; /* a handle is not an ordinal */
  return nth(ordinal) ? scripted("cuDeviceGet") : 101;
}

int cuDeviceGetName(char *name, int room, int device)
{
  snprintf(name, (size_t)room, "%s", nth(device - 70)->name);
  return scripted("cuDeviceGetName");
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
  *bytes = nth(device - 70)->memory;
  return scripted("cuDeviceTotalMem_v2");
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
  const struct device *d = nth(device - 70);
  const struct {
    int attribute, value;
  } known[] = {{13, d->clock}, {16, d->sms},   {36, d->memory_clock}, {37, d->bus},         {38, d->l2},
               {75, d->major}, {76, d->minor}, {81, d->shared_sm},    {97, d->shared_block}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (known[i].attribute == attribute) {
      *value = known[i].value;
      return scripted("cuDeviceGetAttribute");
    }
  return 1;
}

int cuGetErrorName(int result, const char **name)
{
  *name = result == 999 ? "CUDA_ERROR_UNKNOWN" : NULL; /* a stub knows no names */
  return *name ? 0 : 1;
}

int cuGetErrorString(int result, const char **text)
{
  *text = result == 999 ? "unknown error" : NULL;
  return *text ? 0 : 1;
}
