/* device.c -- asks the driver what each GPU is.
 *
 * In: an open driver. Out: fat_gpu rows of reported facts, in the units of gpu.h; peak bandwidth follows from
 * bus width and memory clock (two transfers a clock). Invariant: no context is made, nothing is allocated. */
#include "device.h"

#include <stdio.h>
#include <string.h>

#define FIELD(member) offsetof(fat_gpu, member)

/* An attribute, the field of fat_gpu it fills, and what to divide it by (the driver's clocks are in kHz). */
static const struct {
  int attribute;
  size_t field;
  int divisor;
} attributes[] = {
    {FAT_CUDA_SM_COUNT, FIELD(sms), 1},        {FAT_CUDA_SHARED_BLOCK, FIELD(shared_block), 1},
    {FAT_CUDA_SHARED_SM, FIELD(shared_sm), 1}, {FAT_CUDA_BUS_WIDTH, FIELD(bus), 1},
    {FAT_CUDA_CLOCK, FIELD(clock), 1000},      {FAT_CUDA_MEMORY_CLOCK, FIELD(memory_clock), 1000},
};

static fat_status ask(const fat_driver *driver, int attribute, int device, int *value, fat_error *err)
{
  int result = fat_driver_table(driver)->device_attribute(value, attribute, device);
  return result == FAT_CUDA_SUCCESS
             ? FAT_OK
             : fat_driver_fail(driver, FAT_E_NO_DEVICE, "cuDeviceGetAttribute", result, err);
}

/* The name is a label, printed and stored as text: a byte that is no ASCII character becomes '?'. */
static void shorten(char *name, size_t room, const char *full)
{
  static const char *const prefixes[] = {"NVIDIA ", "Tesla ", "GeForce "};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
    if (strncmp(full, prefixes[i], strlen(prefixes[i])) == 0)
      full += strlen(prefixes[i]);
  snprintf(name, room, "%.*s", (int)room - 1, full);
  for (char *c = name; *c; c++)
    if (*c < ' ' || *c > '~')
      *c = '?';
}

fat_status fat_device_facts(const fat_driver *driver, int device, fat_gpu *gpu, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  char name[256] = "";
  int major, minor, l2;
  size_t bytes = 0;
  memset(gpu, 0, sizeof *gpu);
  int result = cuda->device_name(name, sizeof name, device);
  if (result != FAT_CUDA_SUCCESS)
    return fat_driver_fail(driver, FAT_E_NO_DEVICE, "cuDeviceGetName", result, err);
  result = cuda->device_memory(&bytes, device);
  if (result != FAT_CUDA_SUCCESS)
    return fat_driver_fail(driver, FAT_E_NO_DEVICE, "cuDeviceTotalMem", result, err);
  shorten(gpu->name, sizeof gpu->name, name);
  FAT_TRY(ask(driver, FAT_CUDA_SM_MAJOR, device, &major, err));
  FAT_TRY(ask(driver, FAT_CUDA_SM_MINOR, device, &minor, err));
  FAT_TRY(ask(driver, FAT_CUDA_L2_SIZE, device, &l2, err));
  for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
    int value;
    FAT_TRY(ask(driver, attributes[i].attribute, device, &value, err));
    value /= attributes[i].divisor;
    memcpy((char *)gpu + attributes[i].field, &value, sizeof value);
  }
  gpu->sm = 10 * major + minor;
  gpu->l2 = l2;
  gpu->dram = 2.0 * gpu->memory_clock * gpu->bus / 8 / 1000;
  gpu->memory = (double)bytes / (1 << 30);
  return FAT_OK;
}

fat_status fat_device_list(const fat_driver *driver, fat_device *devices, int room, int *count,
                           fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  int total = 0;
  *count = 0;
  int result = cuda->device_count(&total);
  if (result != FAT_CUDA_SUCCESS)
    return fat_driver_fail(driver, FAT_E_NO_DEVICE, "cuDeviceGetCount", result, err);
  if (total == 0)
    return fat_status_fail(err, FAT_E_NO_DEVICE,
                           "the NVIDIA driver lists no GPU: check CUDA_VISIBLE_DEVICES");
  for (int i = 0; i < total && i < room; i++) {
    int device;
    result = cuda->device(&device, i);
    if (result != FAT_CUDA_SUCCESS)
      return fat_driver_fail(driver, FAT_E_NO_DEVICE, "cuDeviceGet", result, err);
    devices[i].ordinal = i;
    FAT_TRY(fat_device_facts(driver, device, &devices[i].gpu, err));
    *count = i + 1;
  }
  return FAT_OK;
}
