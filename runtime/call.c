/* call.c -- checks and translates the tensors of one call.
 *
 * In: a family's form, a problem and fatune_tensors. Out: the fat_call of generator/tensors.h. Runs in every
 * fatune_run: no loops over data, no memory, nothing but comparisons. A stride of a dimension of one element
 * means nothing and is not looked at. */
#include "call.h"

#include <math.h>
#include <string.h>

/* ORDER TENSOR: where its pointer stands. The one place that knows a tensor's member by name. */
static const uint16_t places[] = {
    offsetof(fatune_tensors, Q),      offsetof(fatune_tensors, K),      offsetof(fatune_tensors, V),
    offsetof(fatune_tensors, O),      offsetof(fatune_tensors, LSE),    offsetof(fatune_tensors, dO),
    offsetof(fatune_tensors, dQ),     offsetof(fatune_tensors, dK),     offsetof(fatune_tensors, dV),
    offsetof(fatune_tensors, sink),   offsetof(fatune_tensors, slopes), offsetof(fatune_tensors, dsink),
    offsetof(fatune_tensors, used_q), offsetof(fatune_tensors, used_k), offsetof(fatune_tensors, lpad),
    offsetof(fatune_tensors, dLSE),   offsetof(fatune_tensors, prefix), offsetof(fatune_tensors, cu_q),
    offsetof(fatune_tensors, cu_k),   offsetof(fatune_tensors, lo),     offsetof(fatune_tensors, hi),
    offsetof(fatune_tensors, rng),    offsetof(fatune_tensors, attend), offsetof(fatune_tensors, bias),
    offsetof(fatune_tensors, dbias),  offsetof(fatune_tensors, table0), offsetof(fatune_tensors, table1),
    offsetof(fatune_tensors, table2), offsetof(fatune_tensors, table3), offsetof(fatune_tensors, blocks),
};
_Static_assert(sizeof places / sizeof *places == FAT_TENSORS, "every tensor has a place");
/* ORDER SCALAR */
static const uint16_t scalar_places[] = {offsetof(fatune_tensors, softcap),
                                         offsetof(fatune_tensors, dropout)};
_Static_assert(sizeof scalar_places / sizeof *scalar_places == FAT_SCALARS, "every scalar has a place");

void fat_call_form_of(const fat_problem *p, fat_call_form *form)
{
  form->of = form->others = 0;
  for (int s = 0; s < FAT_SCALARS; s++)
    form->scalar[s] = fat_problem_has(p, fat_scalars[s].feature);
  for (int t = 0; t < FAT_TENSORS; t++) {
    *(fat_tensors_role(p, t) == FAT_ROLE_NONE ? &form->others : &form->of) |= 1u << t;
    form->tensor[t].place = places[t];
    form->tensor[t].role = (uint8_t)fat_tensors_role(p, t);
    form->tensor[t].element = (uint8_t)fat_dtypes[fat_tensors_dtype(p, t)].bytes;
    form->tensor[t].side = (uint8_t)fat_tensors[t].side;
    form->tensor[t].a_row = fat_tensors[t].width == FAT_WIDE_1 || fat_tensors[t].side == FAT_OF_CALL ||
                            fat_tensors[t].side == FAT_OF_TABLE || fat_tensors[t].width == FAT_WIDE_K ||
                            fat_tensors[t].width == FAT_WIDE_BLOCKS;
  }
}

/* The scalars: in their range where the family has them, else 0. */
static fat_status take_scalars(const fat_call_form *form, const fatune_tensors *tensors, fat_call *call,
                               fat_error *err)
{
  for (int s = 0; s < FAT_SCALARS; s++) {
    const fat_scalar_row *row = &fat_scalars[s];
    const float least = form->scalar[s] ? row->least : 0, most = form->scalar[s] ? row->most : 0;
    memcpy(&call->scalar[s], (const char *)tensors + scalar_places[s], sizeof call->scalar[s]);
    if (!(call->scalar[s] >= least && call->scalar[s] <= most))
      return fat_status_fail(err, FAT_E_INPUT, "%s is %g: this family allows %g to %g", row->name,
                             (double)call->scalar[s], (double)least, (double)most);
  }
  return FAT_OK;
}

static const fatune_tensor *tensor_at(const fatune_tensors *tensors, size_t place)
{
  const fatune_tensor *t;
  memcpy(&t, (const char *)tensors + place, sizeof t);
  return t;
}

/* A tensor that is not there; `work`: whether the call has any rows of it. */
static fat_status check_absent(int t, fat_role role, const fatune_tensor *given, bool work, fat_error *err)
{
  if (role == FAT_ROLE_WANTED || role == FAT_ROLE_ASIDE || (given && !work))
    return FAT_OK;
  if (!given)
    return fat_status_fail(err, FAT_E_INPUT, "tensor %s is NULL", fat_tensors[t].name);
  return fat_status_fail(err, FAT_E_INPUT, "tensor %s has no data: its address is NULL", fat_tensors[t].name);
}

static fat_status check_scale(const fatune_tensors *t, fat_error *err)
{
  if (!isfinite(t->scale))
    return fat_status_fail(err, FAT_E_INPUT, "scale is %g: a finite number is needed, usually 1/sqrt(d)",
                           (double)t->scale);
  if (t->reserved != 0)
    return fat_status_fail(err, FAT_E_INPUT, "the reserved field of fatune_tensors is %u: it must be 0",
                           (unsigned)t->reserved);
  return FAT_OK;
}

/* The bits of the address and of the strides that are walked. */
static uint64_t bits_of(const fatune_tensor *t, const int64_t size[3], uint64_t element, bool a_row)
{
  uint64_t bits = (uint64_t)(uintptr_t)t->data;
  bits |= size[0] > 1 ? (uint64_t)t->stride[0] * element : 0;
  bits |= size[1] > 1 ? (uint64_t)t->stride[1] * element : 0;
  bits |= !a_row && size[2] > 1 ? (uint64_t)t->stride[2] * element : 0;
  return bits;
}

/* Sums of shared elements are atomic, in any order: not where equal bits are asked for. */
static fat_status check_sums(const fat_problem *p, const fat_call *call, fat_error *err)
{
  if (!fat_problem_has(p, FAT_DBIAS) || !fat_problem_has(p, FAT_DET))
    return FAT_OK;
  const int64_t *stride = call->tensor[FAT_DBIASES].stride;
  const bool shared =
      (p->b > 1 && stride[0] == 0) || (p->h > 1 && stride[1] == 0) || (p->q > 1 && stride[2] == 0);
  if (!shared)
    return FAT_OK;
  return fat_status_fail(
      err, FAT_E_INPUT,
      "dbias has a stride of 0: what it sums has not equal bits every time, as det asks for");
}

/* Its strides are its size: what a kernel looks up lies within. */
static fat_status check_table(int t, const fatune_tensor *given, fat_error *err)
{
  const int64_t all = given->stride[0], row = given->stride[2];
  if (row >= 1 && row <= all && all <= INT32_MAX)
    return FAT_OK;
  return fat_status_fail(
      err, FAT_E_INPUT,
      "%s has %lld elements in rows of %lld (stride[0], stride[2]): allowed are rows of 1 to "
      "all, at most 2^31 - 1",
      fat_tensors[t].name, (long long)all, (long long)row);
}

fat_status fat_call_fill(const fat_call_form *form, const fat_problem *p, const fatune_tensors *tensors,
                         fat_call *call, uint64_t *bits, fat_error *err)
{
  const bool ragged = fat_problem_has(p, FAT_VARLEN);
  const int64_t b = ragged ? 1 : p->b, q = ragged ? fat_draw_total(p, 0) : p->q;
  const int64_t k = ragged ? fat_draw_total(p, 1) : p->k;
  const int64_t sizes[][3] = {
      {b, p->h, q},    {b, p->hk, k}, {1, p->h, 1},
      {p->b, p->h, 1}, {p->b, 1, 1},  {p->b + 1, 1, 1},
      {1, 1, 1},       {1, 1, 1},     {p->b, p->h, fat_draw_blocks(p, 0)}}; /* ORDER SIDE */
  uint64_t all = 0;
  int odd = -1;
  for (uint32_t left = form->others; left; left &= left - 1) {
    const int t = __builtin_ctz(left);
    call->tensor[t] = (fat_view){0};
    if (tensor_at(tensors, form->tensor[t].place))
      return fat_status_fail(err, FAT_E_INPUT, "tensor %s is none of this operation: leave it NULL",
                             fat_tensors[t].name);
  }
  for (uint32_t left = form->of; left; left &= left - 1) {
    const int t = __builtin_ctz(left);
    const fatune_tensor *given = tensor_at(tensors, form->tensor[t].place);
    const int64_t *size = sizes[form->tensor[t].side];
    const uint64_t element = form->tensor[t].element;
    if (!given || !given->data) {
      call->tensor[t] = (fat_view){0};
      FAT_TRY(check_absent(t, (fat_role)form->tensor[t].role, given, size[0] > 0 && size[2] > 0, err));
      continue;
    }
    if (form->tensor[t].side == FAT_OF_TABLE)
      FAT_TRY(check_table(t, given, err));
    const uint64_t own = bits_of(given, size, element, form->tensor[t].a_row);
    call->tensor[t] = (fat_view){given->data, {given->stride[0], given->stride[1], given->stride[2]}};
    all |= form->tensor[t].a_row ? 0 : own;
    if ((own & (element - 1)) != 0 && odd < 0)
      odd = t;
  }
  FAT_TRY(check_scale(tensors, err));
  call->scale = tensors->scale;
  FAT_TRY(take_scalars(form, tensors, call, err));
  FAT_TRY(check_sums(p, call, err));
  *bits = all;
  if (odd >= 0)
    return fat_status_fail(err, FAT_E_ALIGNMENT,
                           "tensor %s lies at an address that is no multiple of its elements' size, %d bytes",
                           fat_tensors[odd].name, form->tensor[odd].element);
  return FAT_OK;
}

/* A window's side as a problem has it. */
static uint64_t side(int64_t given)
{
  return given == -1 || given > FAT_PROBLEM_ALL ? (uint64_t)FAT_PROBLEM_ALL : (uint64_t)given;
}

/* Numbers of features; those of features that the family lacks say nothing. */
static fat_status take_numbers(const fatune_sizes *s, fat_problem *p, fat_error *err)
{
  const bool window = fat_problem_has(p, FAT_WINDOW), causal = fat_problem_has(p, FAT_CAUSAL);
  const bool chunk = fat_problem_has(p, FAT_CHUNK), ragged = fat_problem_has(p, FAT_VARLEN);
  const bool split = fat_problem_has(p, FAT_SPLIT), blocks = fat_problem_has(p, FAT_BLOCKSPARSE);
  const struct {
    const char *name;
    int64_t value, least, most;
  } ranges[] = {
      {"window_left", s->window_left, -1, window ? INT64_MAX : 0},
      {"window_right", s->window_right, -1, window && !causal ? INT64_MAX : 0},
      {"chunk", s->chunk, chunk, chunk ? FAT_PROBLEM_SIZE_MAX : 0},
      {"split", s->split, split ? 64 : 0, split ? FAT_PROBLEM_SIZE_MAX : 0},
      {"block_q", s->block_q, blocks, blocks ? FAT_PROBLEM_SIZE_MAX : 0},
      {"block_k", s->block_k, blocks, blocks ? FAT_PROBLEM_SIZE_MAX : 0},
      {"total_q", s->total_q, 0, ragged ? FAT_PROBLEM_SIZE_MAX : 0},
      {"total_k", s->total_k, 0, ragged ? FAT_PROBLEM_SIZE_MAX : 0},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
      return fat_status_fail(err, FAT_E_INPUT, "fatune_sizes.%s is %lld: this family allows %lld to %lld",
                             ranges[i].name, (long long)ranges[i].value, (long long)ranges[i].least,
                             (long long)ranges[i].most);
  if (window) {
    p->arg[FAT_WINDOW][0] = side(s->window_left);
    p->arg[FAT_WINDOW][1] = causal ? 0 : side(s->window_right);
  }
  if (ragged) { /* as draw.h says */
    p->arg[FAT_VARLEN][0] = (uint64_t)s->total_q + 1;
    p->arg[FAT_VARLEN][1] = (uint64_t)s->total_k + 1;
  }
  if (blocks) {
    p->arg[FAT_BLOCKSPARSE][0] = (uint64_t)s->block_q;
    p->arg[FAT_BLOCKSPARSE][1] = (uint64_t)s->block_k;
  }
  if (chunk)
    p->arg[FAT_CHUNK][0] = (uint64_t)s->chunk;
  if (split && s->split % 64 != 0)
    return fat_status_fail(err, FAT_E_INPUT, "fatune_sizes.split is %lld: allowed are multiples of 64",
                           (long long)s->split);
  if (split)
    p->arg[FAT_SPLIT][0] = (uint64_t)s->split;
  return FAT_OK;
}

fat_status fat_call_sizes(const fatune_sizes *sizes, const fat_problem *family, fat_problem *p,
                          fat_error *err)
{
  const fatune_sizes *s = sizes;
  const int64_t hk = s->hk ? s->hk : s->h;
  const struct {
    const char *name;
    int64_t value, least;
  } lengths[] = {{"b", s->b, 0}, {"h", s->h, 1}, {"hk", hk, 1}, {"q", s->q, 0}, {"k", s->k, 0}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    if (lengths[i].value < lengths[i].least || lengths[i].value > FAT_PROBLEM_SIZE_MAX)
      return fat_status_fail(err, FAT_E_INPUT, "fatune_sizes.%s is %lld: allowed are %lld to %lld",
                             lengths[i].name, (long long)lengths[i].value, (long long)lengths[i].least,
                             (long long)FAT_PROBLEM_SIZE_MAX);
  if (s->h % hk != 0)
    return fat_status_fail(
        err, FAT_E_INPUT, "fatune_sizes has %lld heads and %lld KV heads: the KV heads must divide the heads",
        (long long)s->h, (long long)hk);
  *p = *family;
  p->b = s->b;
  p->h = s->h;
  p->hk = hk;
  p->q = s->q;
  p->k = s->k;
  return take_numbers(s, p, err);
}

fat_status fat_call_struct(const char *name, const void *from, size_t least, size_t known, void *to,
                           fat_error *err)
{
  size_t size;
  memcpy(&size, from, sizeof size);
  if (size < least || size > FAT_CALL_STRUCT)
    return fat_status_fail(err, FAT_E_INPUT,
                           "%s.size is %zu: set it to sizeof(%s), which is %zu to this libfatune", name, size,
                           name, known);
  for (size_t i = known; i < size; i++)
    if (((const unsigned char *)from)[i] != 0)
      return fat_status_fail(err, FAT_E_UNSUPPORTED,
                             "%s uses fields that this libfatune (" FATUNE_VERSION ") does not know: install "
                             "a newer one",
                             name);
  const size_t both = size < known ? size : known;
  memcpy(to, from, both);
  if (both < known)
    memset((char *)to + both, 0, known - both);
  return FAT_OK;
}
