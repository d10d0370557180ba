/* call.c -- checks and translates the tensors of one call.
 *
 * In: a problem and fatune_tensors. Out: the `call` of templates/lib/args.h. Runs in every fatune_run: no
 * loops over data, no memory, nothing but comparisons. A stride of a dimension of one element means nothing
 * and is not looked at. */
#include "call.h"

#include <math.h>

typedef struct shape {
  int64_t b, h, n;
} shape;

static fat_status check_tensor(const char *name, const fatune_tensor *t, shape s, fat_error *err)
{
  if (!t)
    return fat_status_fail(err, FAT_E_INPUT, "tensor %s is NULL", name);
  if (!t->data && s.b > 0 && s.n > 0)
    return fat_status_fail(err, FAT_E_INPUT, "tensor %s has no data: its address is NULL", name);
  return FAT_OK;
}

/* The bits of the address and of the strides that are walked; `rows`: whether rows have a stride at all. */
static uint64_t bits_of(const fatune_tensor *t, shape s, uint64_t element, bool rows)
{
  uint64_t bits = (uint64_t)(uintptr_t)t->data;
  bits |= s.b > 1 ? (uint64_t)t->stride[0] * element : 0;
  bits |= s.h > 1 ? (uint64_t)t->stride[1] * element : 0;
  bits |= rows && s.n > 1 ? (uint64_t)t->stride[2] * element : 0;
  return bits;
}

static tensor translate(const fatune_tensor *t)
{
  return (tensor){t->data, t->stride[0], t->stride[1], t->stride[2]};
}

fat_status fat_call_fill(const fat_problem *p, const fatune_tensors *t, call *args, uint64_t *bits,
                         fat_error *err)
{
  const shape rows = {p->b, p->h, p->q}, keys = {p->b, p->hk, p->k};
  const uint64_t element = (uint64_t)fat_dtypes[p->dtype].bytes;
  FAT_TRY(check_tensor("Q", t->Q, rows, err));
  FAT_TRY(check_tensor("K", t->K, keys, err));
  FAT_TRY(check_tensor("V", t->V, keys, err));
  FAT_TRY(check_tensor("O", t->O, rows, err));
  if (!isfinite(t->scale))
    return fat_status_fail(err, FAT_E_INPUT, "scale is %g: a finite number is needed, usually 1/sqrt(d)",
                           (double)t->scale);
  if (t->reserved != 0)
    return fat_status_fail(err, FAT_E_INPUT, "the reserved field of fatune_tensors is %u: it must be 0",
                           (unsigned)t->reserved);
  *args = (call){.Q = translate(t->Q),
                 .K = translate(t->K),
                 .V = translate(t->V),
                 .O = translate(t->O),
                 .b = (i32)p->b,
                 .h = (i32)p->h,
                 .hk = (i32)p->hk,
                 .q = (i32)p->q,
                 .k = (i32)p->k,
                 .scale = t->scale};
  *bits = bits_of(t->Q, rows, element, true) | bits_of(t->K, keys, element, true) |
          bits_of(t->V, keys, element, true) | bits_of(t->O, rows, element, true);
  uint64_t odd = *bits & (element - 1);
  if (t->LSE && t->LSE->data) {
    args->LSE = (lse_tensor){t->LSE->data, t->LSE->stride[0], t->LSE->stride[1]};
    odd |= bits_of(t->LSE, rows, sizeof(float), false) & (sizeof(float) - 1);
  }
  if (odd)
    return fat_status_fail(err, FAT_E_ALIGNMENT,
                           "a tensor lies at an address that is no multiple of its elements' size (%d bytes "
                           "for Q, K, V and O, 4 for LSE)",
                           (int)element);
  return FAT_OK;
}

fat_status fat_call_struct(const char *name, const void *data, size_t size, size_t least, size_t known,
                           fat_error *err)
{
  if (size < least)
    return fat_status_fail(err, FAT_E_INPUT, "%s.size is %zu: set it to sizeof(%s), at least %zu", name, size,
                           name, least);
  for (size_t i = known; i < size; i++)
    if (((const unsigned char *)data)[i] != 0)
      return fat_status_fail(err, FAT_E_UNSUPPORTED,
                             "%s uses fields that this libfatune (" FATUNE_VERSION ") does not know: install "
                             "a newer one",
                             name);
  return FAT_OK;
}
