/* device.c -- the scripted devices: what they are called, and what they report.
 *
 * FAKE_CUDA_DEVICES names rows ("T4,H200"; default "T4", "" for none); CUDA_VISIBLE_DEVICES picks among them
 * as the real driver lets it (numbers, in their order, up to the first that is none). FAKE_CUDA_VERSION: what
 * cuDriverGetVersion says (13000). FAKE_CUDA_MEMORY: bytes of every device. FAKE_CUDA_MODE: compute mode. */
#include "fake.h"
#include <stdlib.h>
#include <string.h>

/* Facts as the driver of the real card reports them; of the slice what follows from them. */
static const fake_row rows[] = {
    {"T4", "Tesla T4", 15655829504u, 7, 5, 40, 65536, 65536, 4194304, 256, 1590000, 5001000},
    {"A10", "NVIDIA A10", 23696375808u, 8, 6, 72, 101376, 102400, 6291456, 384, 1695000, 6251000},
    {"A100", "NVIDIA A100-SXM4-40GB", 42297786368u, 8, 0, 108, 166912, 167936, 41943040, 5120, 1410000,
     1215000},
    {"H200", "NVIDIA H200", 150121545728u, 9, 0, 132, 232448, 233472, 62914560, 6016, 1980000, 3201000},
    {"H200-MIG", "NVIDIA H200 MIG 1g.18gb", 17179869184u, 9, 0, 16, 232448, 233472, 7864320, 768, 1980000,
     3201000},
    {"RTX4090", "NVIDIA GeForce RTX 4090", 25386352640u, 8, 9, 128, 101376, 102400, 75497472, 384, 2520000,
     10501000},
    /* Of no table, with a name in another encoding. */
    {"ODD", "NVIDIA Pr\xe9s\x1b[31me 1", 15655829504u, 7, 5, 38, 65536, 65536, 4194304, 256, 1500000,
     5001000},
};

/* The i-th device of the machine, seen or not. */
static const fake_row *installed(long i)
{
  const char *list = getenv("FAKE_CUDA_DEVICES");
  for (list = list ? list : "T4"; *list; list += strcspn(list, ","), list += *list == ',')
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
      if (strlen(rows[r].key) == strcspn(list, ",") && !strncmp(list, rows[r].key, strlen(rows[r].key)))
        if (i-- == 0)
          return &rows[r];
  return NULL;
}

const fake_row *fake_device_row(int ordinal)
{
  const char *seen = getenv("CUDA_VISIBLE_DEVICES");
  if (ordinal < 0 || ordinal >= FAKE_DEVICES)
    return NULL;
  if (!seen)
    return installed(ordinal);
  for (;; seen++, ordinal--) {
    char *end;
    long i = strtol(seen, &end, 10);
    if (end == seen || (*end && *end != ',') || i < 0 || !installed(i))
      return NULL;
    if (ordinal == 0)
      return installed(i);
    if (!*end)
      return NULL;
    seen = end;
  }
}

int fake_device_ordinal(int device)
{
  int ordinal = device - FAKE_FIRST_DEVICE;
  return fake_device_row(ordinal) ? ordinal : -1;
}

size_t fake_device_memory(int ordinal)
{
  const char *given = getenv("FAKE_CUDA_MEMORY");
  const fake_row *row = fake_device_row(ordinal);
  return given ? (size_t)strtoull(given, NULL, 10) : row ? row->memory : 0;
}

int cuDriverGetVersion(int *version)
{
  FAKE_ENTER_AT(cuDriverGetVersion, true);
  const char *given = getenv("FAKE_CUDA_VERSION");
  *version = given ? atoi(given) : 13000;
  return 0;
}

int cuDeviceGetCount(int *count)
{
  FAKE_ENTER(cuDeviceGetCount);
  for (*count = 0; fake_device_row(*count);)
    ++*count;
  return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
  FAKE_ENTER(cuDeviceGet);
  *device = FAKE_FIRST_DEVICE + ordinal;
  return fake_device_row(ordinal) ? 0 : 101;
}

/* Leaves the calling function where `device` is none. */
#define ROW(row, device)                                                                                     \
  const fake_row *row = fake_device_row((device)-FAKE_FIRST_DEVICE);                                         \
  if (!row)                                                                                                  \
  return 101

int cuDeviceGetName(char *name, int room, int device)
{
  FAKE_ENTER(cuDeviceGetName);
  ROW(row, device);
  snprintf(name, (size_t)room, "%s", row->name);
  return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
  FAKE_ENTER(cuDeviceTotalMem_v2);
  ROW(row, device);
  *bytes = fake_device_memory(device - FAKE_FIRST_DEVICE);
  return row ? 0 : 101;
}

/* Attributes that are the same for all of them. */
static int common(int attribute)
{
  static const int known[][2] = {
      {1, 1024},  {2, 1024},  {3, 1024}, {4, 64},          {5, 2147483647}, {6, 65535}, {7, 65535},
      {8, 49152}, {9, 65536}, {10, 32},  {11, 2147483647}, {12, 65536},     {14, 512},  {15, 1},
      {17, 0},    {18, 0},    {19, 1},   {31, 1},          {32, 1},         {34, 0},    {35, 0},
      {40, 3},    {41, 1},    {50, 0},   {78, 1},          {79, 1},         {80, 1},    {82, 65536},
      {83, 1},    {89, 1},    {95, 1},   {96, 0},          {115, 1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i][0] == attribute)
      return known[i][1];
  return -1;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
  FAKE_ENTER(cuDeviceGetAttribute);
  ROW(d, device);
  const char *mode = getenv("FAKE_CUDA_MODE");
  int threads = d->major == 7 ? 1024 : d->minor && d->major == 8 ? 1536 : 2048;
  int blocks = d->major == 7 || d->minor == 6 ? 16 : d->minor == 9 ? 24 : 32;
  const int known[][2] = {{13, d->clock},
                          {16, d->sms},
                          {20, mode ? atoi(mode) : 0},
                          {33, device - FAKE_FIRST_DEVICE + 1}, /* its bus in the machine */
                          {36, d->memory_clock},
                          {37, d->bus},
                          {38, d->l2},
                          {39, threads},
                          {75, d->major},
                          {76, d->minor},
                          {81, d->shared_sm},
                          {97, d->shared_block},
                          {106, blocks},
                          {111, d->major == 7 ? 0 : 1024},
                          {120, d->major >= 9}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i][0] == attribute) {
      *value = known[i][1];
      return 0;
    }
  *value = common(attribute);
  return *value < 0 ? 1 : 0;
}

int cuDeviceGetUuid_v2(fake_uuid *uuid, int device)
{
  FAKE_ENTER(cuDeviceGetUuid_v2);
  ROW(row, device);
  memset(uuid, 0, sizeof *uuid);
  snprintf(uuid->bytes, sizeof uuid->bytes, "%.12s", row->key);
  uuid->bytes[15] = (char)(device - FAKE_FIRST_DEVICE + 1);
  return 0;
}

int cuDeviceGetUuid(fake_uuid *uuid, int device)
{
  return cuDeviceGetUuid_v2(uuid, device);
}

int cuDeviceGetPCIBusId(char *id, int room, int device)
{
  FAKE_ENTER(cuDeviceGetPCIBusId);
  ROW(row, device);
  snprintf(id, (size_t)room, "0000:%02X:00.0", device - FAKE_FIRST_DEVICE + 1);
  return row ? 0 : 101;
}
