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

/* Strides are the caller's, and may be any number: what overflows wraps, as addresses do. */
static int64_t times(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Puts a dimension among the others by its stride; a negative one is walked from its other end. */
static void add(region *r, int64_t count, int64_t stride)
{
  if (count <= 1)
    return;
  if (stride < 0) {
    r->at += (fat_cuda_address)times(count - 1, stride);
    stride = times(stride, -1);
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
    if (r->d[i + 1].stride == times(r->d[i].stride, r->d[i].count)) {
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
      fat_cuda_address at =
          r->at + (fat_cuda_address)times(i, y.stride) + (fat_cuda_address)times(j, x.stride);
      int result = fill_one(fat_driver_table(driver), r, at, word, stream);
      FAT_TRY(fat_driver_check(driver, "filling the outputs of a call with a zero length", result, err));
    }
  return FAT_OK;
}

/* What there is of an output. Gradients of a bias that all batches, heads or rows share are there where none
 * of these is. */
static fat_extent extent_of(const fat_problem *p, int t, const fat_view *view)
{
  fat_extent extent = fat_tensors_extent(p, t);
  for (int i = 0; t == FAT_DBIASES && i < 3; i++)
    extent.size[i] = view->stride[i] == 0 ? 1 : extent.size[i];
  return extent;
}

/* One output; `word`: 0, or the bits of a float. */
static fat_status write_tensor(const fat_driver *driver, const fat_problem *p, int t, const fat_view *view,
                               unsigned word, void *stream, fat_error *err)
{
  const fat_extent extent = extent_of(p, t, view);
  const int64_t element = fat_dtypes[fat_tensors_dtype(p, t)].bytes;
  const bool a_row = fat_tensors[t].width == FAT_WIDE_1;
  region r = {.at = (fat_cuda_address)(uintptr_t)view->data, .run = extent.size[3] * element};
  for (int i = 2; i >= 0; i--)
    add(&r, extent.size[i], times(a_row && i == 2 ? 1 : view->stride[i], element));
  return fill(driver, &r, word, stream, err);
}

static bool is_written(const fat_problem *p, const fat_call *call, int t)
{
  return fat_tensors_is_out(fat_tensors_role(p, t)) && call->tensor[t].data;
}

fat_status fat_empty_write(const fat_driver *driver, const fat_problem *p, const fat_call *call, void *stream,
                           fat_error *err)
{
  const unsigned plus_inf = 0x7f800000, minus_inf = 0xff800000;
  const unsigned unseen = fat_problem_has(p, FAT_PARTIAL) ? minus_inf : plus_inf;
  const bool has_rows = p->b > 0 && p->q > 0, is_sunk = fat_problem_has(p, FAT_SINK);
  if (has_rows && is_sunk && is_written(p, call, FAT_LSE))
    return fat_status_fail(
        err, FAT_E_UNSUPPORTED,
        "the LSE of rows that see no key is their sink, which a call without keys does not "
        "copy: leave LSE NULL");
  if (has_rows && is_written(p, call, FAT_DSINKS) && fat_problem_has(p, FAT_DLSE))
    return fat_status_fail(
        err, FAT_E_UNSUPPORTED,
        "the gradient of a sink is that of LSE where rows see no key, which a call without "
        "keys does not add up");
  for (int t = 0; t < FAT_TENSORS; t++) {
    const fat_extent extent = extent_of(p, t, &call->tensor[t]);
    const bool rows = extent.size[0] > 0 && extent.size[1] > 0 && extent.size[2] > 0;
    if (rows && is_written(p, call, t))
      FAT_TRY(write_tensor(driver, p, t, &call->tensor[t], fat_tensors[t].is_lse ? unseen : 0, stream, err));
  }
  return FAT_OK;
}
