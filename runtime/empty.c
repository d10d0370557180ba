/* empty.c -- fills strided tensors by the driver's own calls, so that no kernel is launched for nothing.
 *
 * In: a tensor as up to three nested strides over runs of bytes. Out: as few fills as its layout allows: what
 * lies densely becomes one run, what repeats at one stride becomes one two-dimensional fill. */
#include "empty.h"

typedef struct dimension {
  int64_t count, stride; /* stride in bytes */
} dimension;

typedef struct region {
  fat_cuda_address at;
  int64_t run; /* bytes that lie side by side */
  dimension d[3];
  int dims; /* those with more than one element, the smallest stride first */
} region;

/* Puts a dimension among the others by its stride; a negative one is walked from its other end. */
static void add(region *r, int64_t count, int64_t stride)
{
  if (count <= 1)
    return;
  if (stride < 0) {
    r->at += (fat_cuda_address)((count - 1) * stride);
    stride = -stride;
  }
  int at = r->dims++;
  for (; at > 0 && r->d[at - 1].stride > stride; at--)
    r->d[at] = r->d[at - 1];
  r->d[at] = (dimension){count, stride};
}

/* Takes the dimension at `at` out. */
static void drop(region *r, int at)
{
  r->dims--;
  for (int i = at; i < r->dims; i++)
    r->d[i] = r->d[i + 1];
}

/* Dimensions that continue the run become part of it; one that continues the one before it, part of that. */
static void merge(region *r)
{
  while (r->dims > 0 && r->d[0].stride == r->run) {
    r->run *= r->d[0].count;
    drop(r, 0);
  }
  for (int i = 0; i + 1 < r->dims;)
    if (r->d[i + 1].stride == r->d[i].stride * r->d[i].count) {
      r->d[i].count *= r->d[i + 1].count;
      drop(r, i + 1);
    } else
      i++;
}

/* `word`: 0, or the bits of a float. */
static int fill_one(const fat_cuda_calls *cuda, const region *r, fat_cuda_address at, unsigned word,
                    void *stream)
{
  int64_t height = r->dims > 0 ? r->d[0].count : 1, pitch = r->dims > 0 ? r->d[0].stride : r->run;
  if (height == 1)
    return word ? cuda->fill32_async(at, word, (size_t)r->run / 4, stream)
                : cuda->fill8_async(at, 0, (size_t)r->run, stream);
  return word ? cuda->fill2d32_async(at, (size_t)pitch, word, (size_t)r->run / 4, (size_t)height, stream)
              : cuda->fill2d8_async(at, (size_t)pitch, 0, (size_t)r->run, (size_t)height, stream);
}

static fat_status fill(const fat_driver *driver, region *r, unsigned word, void *stream, fat_error *err)
{
  merge(r);
  const dimension once = {1, 0}, x = r->dims > 1 ? r->d[1] : once, y = r->dims > 2 ? r->d[2] : once;
  for (int64_t i = 0; i < y.count; i++)
    for (int64_t j = 0; j < x.count; j++) {
      fat_cuda_address at = r->at + (fat_cuda_address)(i * y.stride + j * x.stride);
      int result = fill_one(fat_driver_table(driver), r, at, word, stream);
      FAT_TRY(fat_driver_check(driver, "filling O and LSE of a call without keys", result, err));
    }
  return FAT_OK;
}

fat_status fat_empty_write(const fat_driver *driver, const fat_problem *p, const call *args, void *stream,
                           fat_error *err)
{
  const unsigned plus_inf = 0x7f800000, minus_inf = 0xff800000;
  const int64_t element = fat_dtypes[p->dtype].bytes;
  region O = {.at = (fat_cuda_address)(uintptr_t)args->O.data, .run = p->dv * element};
  add(&O, p->q, args->O.n * element);
  add(&O, p->h, args->O.h * element);
  add(&O, p->b, args->O.b * element);
  FAT_TRY(fill(driver, &O, 0, stream, err));
  if (!args->LSE.data)
    return FAT_OK;
  region LSE = {.at = (fat_cuda_address)(uintptr_t)args->LSE.data, .run = p->q * 4};
  add(&LSE, p->h, args->LSE.h * 4);
  add(&LSE, p->b, args->LSE.b * 4);
  return fill(driver, &LSE, fat_problem_has(p, FAT_PARTIAL) ? minus_inf : plus_inf, stream, err);
}
