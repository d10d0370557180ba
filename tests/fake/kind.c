/* kind.c -- which kind of data a launch is given, as its scores say: what a scripted time may depend on.
 *
 * Known by what the kinds are, not by the code that makes them: by what K's last column counts and Q's
 * weighs, or by how far scores lie apart. Both the first head and the last are looked at. */
#include "fake.h"
#include "oracle/half.h"
#include "../unpack.h"
#include <math.h>
#include <string.h>

enum { ROWS = 8, KEYS = 64 };

/* One row of Q or K as numbers; false where it does not lie in device memory. */
static bool read_row(const fat_problem *p, const fat_view *view, int64_t b, int64_t h, int64_t n, float *row)
{
  const int bytes = fat_dtypes[p->dtype].bytes;
  const char *at =
      (const char *)view->data + (b * view->stride[0] + h * view->stride[1] + n * view->stride[2]) * bytes;
  char *data;
  size_t room;
  if (!view->data || !fake_memory_around((uintptr_t)at, &data, &room) ||
      (size_t)(at - data) + (size_t)(p->d * bytes) > room)
    return false;
  fat_half_load(p->dtype, row, at, p->d);
  return true;
}

static const char *slope_name(double slope)
{
  static const struct {
    const char *name;
    double slope;
  } slopes[] = {{"rise100", 0.01},  {"rise16", 0.0625},  {"rise4", 0.25},
                {"fall100", -0.01}, {"fall16", -0.0625}, {"fall4", -0.25}};
  for (size_t i = 0; i < sizeof slopes / sizeof *slopes; i++)
    if (fabs(slope / slopes[i].slope - 1) < 0.01)
      return slopes[i].name;
  return "unknown";
}

/* Of one head of K, whose last column is `last`, and the numbers of Q that weigh it. */
static const char *added_name(const float *last, int64_t keys, double weight)
{
  bool counts = true;
  int tens = 0, twelves = 0, zeros = 0;
  for (int64_t j = 0; j < keys; j++) {
    const double nats = weight * (double)last[j];
    counts = counts && last[j] == (float)j;
    tens += fabs(nats - 10) < 0.05;
    twelves += fabs(nats - 12) < 0.06;
    zeros += last[j] == 0;
  }
  if (counts && keys > 1)
    return slope_name(weight);
  if (tens > 0 && tens + zeros == keys)
    return "sink";
  return twelves + zeros == keys ? "peaks" : NULL;
}

static const char *kind_of_head(const fat_problem *p, const fat_call *call, int64_t b, bool is_last)
{
  static _Thread_local float q[ROWS][FAT_PROBLEM_DV_MAX], k[KEYS][FAT_PROBLEM_DV_MAX];
  const int64_t rows = p->q < ROWS ? p->q : ROWS, keys = p->k < KEYS ? p->k : KEYS;
  const int64_t hq = is_last ? p->h - 1 : 0, hk = is_last ? p->hk - 1 : 0;
  float last[KEYS];
  double squares = 0;
  for (int64_t i = 0; i < rows; i++)
    if (!read_row(p, &call->tensor[FAT_Q], b, hq, i, q[i]))
      return NULL;
  for (int64_t j = 0; j < keys; j++) {
    if (!read_row(p, &call->tensor[FAT_K], b, hk, j, k[j]))
      return NULL;
    last[j] = k[j][p->d - 1];
  }
  const char *added = added_name(last, keys, (double)call->scale * (double)q[rows - 1][p->d - 1]);
  if (added)
    return added;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < keys; j++) {
      double score = 0;
      for (int64_t x = 0; x < p->d; x++)
        score += (double)call->scale * (double)q[i][x] * (double)k[j][x];
      squares += score * score;
    }
  return squares > 9 * (double)(rows * keys) ? "wide" : "normal";
}

const char *fake_kind_of(const fake_work *w)
{
  const fake_function *f = w->function;
  const char *family = f->params > 0 && f->size[0] >= FAKE_CALL_LEAST ? fake_source_family(f->name) : NULL;
  fat_problem p;
  fat_call_layout layout;
  fat_call call;
  unsigned char bytes[FAT_CALL_BYTES];
  if (!family || fat_problem_parse_family(family, &p, NULL) != FAT_OK)
    return NULL;
  fat_tensors_layout(&p, &layout);
  if (f->size[0] != layout.bytes)
    return NULL;
  memcpy(bytes, w->params + f->offset[0], (size_t)layout.bytes);
  unpack(&layout, bytes, &p, &call);
  if (p.b < 1 || p.q < 1 || p.k < 1)
    return NULL;
  const char *first = kind_of_head(&p, &call, 0, false), *last = kind_of_head(&p, &call, p.b - 1, true);
  return first && last && strcmp(first, last) == 0 ? first : "mixed";
}
