/* tensors.c -- the rows, and the struct that a kernel takes.
 *
 * In: a problem. Out: extents, roles, offsets, bytes. Packing runs in every fatune_run: a few copies, no
 * memory, nothing that can fail. */
#include "tensors.h"
#include "mod.h"
#include "text.h"
#include <float.h>
#include <string.h>

#define OP   FAT_FEATURE_COUNT /* the op itself brings it */
#define OWN  FAT_ELEMENT_OWN
#define F32  FAT_ELEMENT_F32
#define I32  FAT_ELEMENT_I32
#define BYTE FAT_ELEMENT_BYTE
/* Brought by an expression that reads it, which says of what it is: fat_mod_table. */
#define TABLE(name)                                                                                          \
  {                                                                                                          \
    name, {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_MOD, FAT_OF_TABLE, FAT_WIDE_TABLE, F32, false                      \
  }

/* ORDER TENSOR; roles in ORDER OP */
const fat_tensor_row fat_tensors[FAT_TENSORS] = {
    /* name   fwd             bwd          brought by  side      width        element          lse */
    {"Q", {FAT_ROLE_IN, FAT_ROLE_IN}, OP, FAT_OF_Q, FAT_WIDE_D, OWN, false},
    {"K", {FAT_ROLE_IN, FAT_ROLE_IN}, OP, FAT_OF_K, FAT_WIDE_D, OWN, false},
    {"V", {FAT_ROLE_IN, FAT_ROLE_IN}, OP, FAT_OF_K, FAT_WIDE_DV, OWN, false},
    {"O", {FAT_ROLE_OUT, FAT_ROLE_IN}, OP, FAT_OF_Q, FAT_WIDE_DV, OWN, false},
    {"LSE", {FAT_ROLE_WANTED, FAT_ROLE_IN}, OP, FAT_OF_Q, FAT_WIDE_1, F32, true},
    {"dO", {FAT_ROLE_NONE, FAT_ROLE_IN}, OP, FAT_OF_Q, FAT_WIDE_DV, OWN, false},
    {"dQ", {FAT_ROLE_NONE, FAT_ROLE_OUT}, OP, FAT_OF_Q, FAT_WIDE_D, OWN, false},
    {"dK", {FAT_ROLE_NONE, FAT_ROLE_OUT}, OP, FAT_OF_K, FAT_WIDE_D, OWN, false},
    {"dV", {FAT_ROLE_NONE, FAT_ROLE_OUT}, OP, FAT_OF_K, FAT_WIDE_DV, OWN, false},
    {"sink", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_SINK, FAT_OF_HEADS, FAT_WIDE_1, F32, false},
    {"slopes", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_ALIBI, FAT_OF_ALL_HEADS, FAT_WIDE_1, F32, false},
    {"dsink", {FAT_ROLE_NONE, FAT_ROLE_OUT}, FAT_DSINK, FAT_OF_HEADS, FAT_WIDE_1, F32, false},
    {"used_q", {FAT_ROLE_ASIDE, FAT_ROLE_ASIDE}, FAT_USED, FAT_OF_BATCHES, FAT_WIDE_1, I32, false},
    {"used_k", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_USED, FAT_OF_BATCHES, FAT_WIDE_1, I32, false},
    {"lpad", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_LEFTPAD, FAT_OF_BATCHES, FAT_WIDE_1, I32, false},
    {"dLSE", {FAT_ROLE_NONE, FAT_ROLE_IN}, FAT_DLSE, FAT_OF_Q, FAT_WIDE_1, F32, false},
    {"prefix", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_PREFIX, FAT_OF_BATCHES, FAT_WIDE_1, I32, false},
    {"cu_q", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_VARLEN, FAT_OF_ENDS, FAT_WIDE_1, I32, false},
    {"cu_k", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_VARLEN, FAT_OF_ENDS, FAT_WIDE_1, I32, false},
    {"lo", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_INTERVAL, FAT_OF_Q, FAT_WIDE_1, I32, false},
    {"hi", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_INTERVAL, FAT_OF_Q, FAT_WIDE_1, I32, false},
    /* seed and offset, two words each: bits, which no arithmetic touches */
    {"rng", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_DROP, FAT_OF_CALL, FAT_WIDE_4, F32, false},
    {"attend", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_MASK, FAT_OF_Q, FAT_WIDE_K, BYTE, false},
    {"bias", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_BIAS, FAT_OF_Q, FAT_WIDE_K, OWN, false},
    {"dbias", {FAT_ROLE_NONE, FAT_ROLE_OUT}, FAT_DBIAS, FAT_OF_Q, FAT_WIDE_K, F32, false},
    TABLE("table0"),
    TABLE("table1"),
    TABLE("table2"),
    TABLE("table3"),
    {"blocks", {FAT_ROLE_IN, FAT_ROLE_IN}, FAT_BLOCKSPARSE, FAT_OF_BLOCKS, FAT_WIDE_BLOCKS, BYTE, false},
};

/* ORDER SCALAR */
const fat_scalar_row fat_scalars[FAT_SCALARS] = {
    /* name    feature      least    most  usual; kernels multiply a cap by log2(e), and divide by it */
    {"softcap", FAT_SOFTCAP, 1e-30f, 1e38f, 4},
    {"dropout", FAT_DROP, 0, 1 - FLT_EPSILON / 2, 0.25f},
};

void fat_tensors_usual(float scalar[FAT_SCALARS])
{
  for (int s = 0; s < FAT_SCALARS; s++)
    scalar[s] = fat_scalars[s].usual;
}

enum { SIZES = 5, WORD = 4, VIEW = 8 };

/* What brings a tensor to a problem; of tables the expression that reads it. */
static fat_feature brought_by(const fat_problem *p, int t)
{
  bool whole, wide;
  return fat_tensors[t].side == FAT_OF_TABLE ? fat_mod_table(p, t - FAT_TABLE, &whole, &wide)
                                             : fat_tensors[t].feature;
}

fat_role fat_tensors_role(const fat_problem *p, int t)
{
  const fat_feature f = brought_by(p, t);
  const bool of_op = f == OP && fat_tensors[t].side != FAT_OF_TABLE;
  return of_op || (f != OP && fat_problem_has(p, f)) ? fat_tensors[t].role[p->op] : FAT_ROLE_NONE;
}

/* A table where nobody says: with two indices a row for each head, and as many columns as there are rows or
 * keys. */
static void size_table(const fat_problem *p, int t, fat_extent *e)
{
  bool whole, wide = false;
  fat_mod_table(p, t - FAT_TABLE, &whole, &wide);
  const int64_t most = p->q > p->k ? p->q : p->k;
  *e = (fat_extent){{1, 1, wide ? p->h : 1, most > 0 ? most : 1}};
}

fat_extent fat_tensors_extent(const fat_problem *p, int t)
{
  const fat_tensor_row *row = &fat_tensors[t];
  const int64_t widths[] = {[FAT_WIDE_D] = p->d,
                            [FAT_WIDE_DV] = p->dv,
                            [FAT_WIDE_1] = 1,
                            [FAT_WIDE_4] = 4,
                            [FAT_WIDE_K] = p->k,
                            [FAT_WIDE_TABLE] = 0,
                            [FAT_WIDE_BLOCKS] = fat_draw_blocks(p, 1)};
  const int64_t width = widths[row->width];
  const bool ragged = fat_problem_has(p, FAT_VARLEN);
  const int64_t b = ragged ? 1 : p->b, q = ragged ? fat_draw_total(p, 0) : p->q;
  const int64_t k = ragged ? fat_draw_total(p, 1) : p->k;
  const fat_extent extents[] = {[FAT_OF_Q] = {{b, p->h, q, width}},
                                [FAT_OF_K] = {{b, p->hk, k, width}},
                                [FAT_OF_HEADS] = {{1, p->h, 1, width}},
                                [FAT_OF_ALL_HEADS] = {{p->b, p->h, 1, width}},
                                [FAT_OF_BATCHES] = {{p->b, 1, 1, width}},
                                [FAT_OF_ENDS] = {{p->b + 1, 1, 1, width}},
                                [FAT_OF_CALL] = {{1, 1, 1, width}},
                                [FAT_OF_TABLE] = {{0}},
                                [FAT_OF_BLOCKS] = {{p->b, p->h, fat_draw_blocks(p, 0), width}}};
  fat_extent e = extents[row->side];
  if (row->side == FAT_OF_TABLE)
    size_table(p, t, &e);
  return e;
}

int64_t fat_tensors_elements(const fat_problem *p, int t)
{
  const fat_extent e = fat_tensors_extent(p, t);
  return e.size[0] * e.size[1] * e.size[2] * e.size[3];
}

int fat_tensors_of(fat_feature f, int which)
{
  int t = 0;
  while (fat_tensors[t].feature != f)
    t++;
  return t + which; /* they stand side by side */
}

int64_t fat_tensors_drawn(const fat_problem *p, int t, fat_element at)
{
  const fat_feature f = fat_tensors[t].feature;
  if (fat_tensors[t].side == FAT_OF_TABLE) { /* eight runs of one number each: documents */
    const fat_extent e = fat_tensors_extent(p, t);
    return (at.b * e.size[2] + at.i) % e.size[3] * 8 / e.size[3];
  }
  return fat_draw_number(p, f, t - fat_tensors_of(f, 0), at);
}

fat_dtype fat_tensors_dtype(const fat_problem *p, int t)
{
  bool whole = false, wide;
  if (fat_tensors[t].side == FAT_OF_TABLE && fat_mod_table(p, t - FAT_TABLE, &whole, &wide) != OP && whole)
    return FAT_I32;
  if (t == FAT_BIASES && fat_problem_has(p, FAT_BIAS32))
    return FAT_F32;
  const fat_dtype types[] = {[OWN] = p->dtype, [F32] = FAT_F32, [I32] = FAT_I32, [BYTE] = FAT_BYTE};
  return types[fat_tensors[t].element];
}

/* -- the struct */

/* Bytes of a tensor in it: an address and strides, of rows too where they have one. */
static int view_bytes(int t)
{
  return fat_tensors[t].width == FAT_WIDE_1 ? 3 * VIEW : 4 * VIEW;
}

static int up(int at, int to)
{
  return (at + to - 1) / to * to;
}

/* The tensors that one feature brings, or the op. */
static int place_tensors(const fat_problem *p, fat_feature of, int at, fat_call_layout *l)
{
  for (int t = 0; t < FAT_TENSORS; t++) {
    if (brought_by(p, t) != of || fat_tensors_role(p, t) == FAT_ROLE_NONE)
      continue;
    l->tensors |= 1u << t;
    l->tensor[t] = at = up(at, VIEW);
    at += view_bytes(t);
  }
  return at;
}

/* Numbers of a feature in it: those of the text; of ragged batches, the rows of Q and of K of all. */
static int numbers_of(fat_feature f)
{
  return f == FAT_VARLEN ? 2 : fat_problem_feature_numbers(f);
}

void fat_tensors_layout(const fat_problem *p, fat_call_layout *layout)
{
  fat_call_layout *l = layout;
  l->tensors = l->numbers = 0;
  for (int t = 0; t < FAT_TENSORS; t++)
    l->tensor[t] = -1;
  l->sizes = place_tensors(p, OP, 0, l);
  int at = l->sizes + (SIZES + 1) * WORD;
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    const bool has = fat_problem_has(p, (fat_feature)f);
    const int numbers = has ? numbers_of((fat_feature)f) : 0;
    l->numbers |= numbers > 0 ? 1u << f : 0;
    l->number[f] = numbers > 0 ? at : -1;
    at += numbers * WORD;
    for (int s = 0; s < FAT_SCALARS; s++)
      if (fat_scalars[s].feature == (fat_feature)f) {
        l->scalar[s] = has ? at : -1;
        at += has ? WORD : 0;
      }
    if (has)
      at = place_tensors(p, (fat_feature)f, at, l);
  }
  l->bytes = up(at, VIEW);
}

static void put(unsigned char *to, int64_t number)
{
  const int32_t word = (int32_t)number;
  memcpy(to, &word, sizeof word);
}

void fat_tensors_pack(const fat_call_layout *layout, const fat_problem *p, const fat_call *call,
                      unsigned char bytes[FAT_CALL_BYTES])
{
  const fat_call_layout *l = layout;
  const int64_t sizes[SIZES] = {p->b, p->h, p->hk, p->q, p->k};
  memset(bytes + l->bytes - VIEW, 0, VIEW); /* what may lie behind the last word */
  for (uint32_t left = l->tensors; left; left &= left - 1) {
    const int t = __builtin_ctz(left);
    const fat_view *view = &call->tensor[t];
    memcpy(bytes + l->tensor[t], view, 3 * VIEW);
    if (fat_tensors[t].width != FAT_WIDE_1)
      memcpy(bytes + l->tensor[t] + 3 * VIEW, &view->stride[2], VIEW);
  }
  for (int i = 0; i < SIZES; i++)
    put(bytes + l->sizes + i * WORD, sizes[i]);
  memcpy(bytes + l->sizes + SIZES * WORD, &call->scale, sizeof call->scale);
  for (uint32_t left = l->numbers; left; left &= left - 1) {
    const int f = __builtin_ctz(left);
    for (int i = 0; i < numbers_of((fat_feature)f); i++)
      put(bytes + l->number[f] + i * WORD, f == FAT_VARLEN ? fat_draw_total(p, i) : (int64_t)p->arg[f][i]);
  }
  for (int s = 0; s < FAT_SCALARS; s++)
    if (l->scalar[s] >= 0)
      memcpy(bytes + l->scalar[s], &call->scalar[s], sizeof call->scalar[s]);
}

/* -- what templates are told */

/* " Q:q:d:in LSE:q:1:wanted used_k:b:1i:in": name, side, width (1i: of whole numbers), role. */
static void add_tensors(const fat_problem *p, fat_feature of, fat_text *out)
{
  static const char *const widths[] = {
      [FAT_WIDE_D] = "d", [FAT_WIDE_DV] = "dv",   [FAT_WIDE_1] = "1",     [FAT_WIDE_4] = "4",
      [FAT_WIDE_K] = "k", [FAT_WIDE_TABLE] = "t", [FAT_WIDE_BLOCKS] = "k"};
  static const char *const roles[] = {[FAT_ROLE_NONE] = "",
                                      [FAT_ROLE_IN] = "in",
                                      [FAT_ROLE_ASIDE] = "in",
                                      [FAT_ROLE_OUT] = "out",
                                      [FAT_ROLE_WANTED] = "wanted"};
  static const char *const sides[] = {
      [FAT_OF_Q] = "q",         [FAT_OF_K] = "k",       [FAT_OF_HEADS] = "h",
      [FAT_OF_ALL_HEADS] = "a", [FAT_OF_BATCHES] = "b", [FAT_OF_ENDS] = "b",
      [FAT_OF_CALL] = "c",      [FAT_OF_TABLE] = "t",   [FAT_OF_BLOCKS] = "q"};
  for (int t = 0; t < FAT_TENSORS; t++)
    if (brought_by(p, t) == of && fat_tensors_role(p, t) != FAT_ROLE_NONE)
      fat_text_format(out, " %s:%s:%s%s:%s", fat_tensors[t].name, sides[fat_tensors[t].side],
                      widths[fat_tensors[t].width], fat_tensors[t].element == I32 ? "i" : "",
                      roles[fat_tensors_role(p, t)]);
}

/* A word for each member of the struct: a tensor, `|` for the sizes, `w/2` for a feature's numbers,
 * `float/softcap` for a scalar. */
void fat_tensors_facts(const fat_problem *p, fat_text *out)
{
  fat_call_layout layout;
  fat_tensors_layout(p, &layout);
  fat_text_add(out, "p.call=");
  add_tensors(p, OP, out);
  fat_text_add(out, " |");
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    if (layout.number[f] >= 0)
      fat_text_format(out, " %s/%d", fat_problem_feature_name((fat_feature)f), numbers_of((fat_feature)f));
    for (int s = 0; s < FAT_SCALARS; s++)
      if (layout.scalar[s] >= 0 && fat_scalars[s].feature == (fat_feature)f)
        fat_text_format(out, " float/%s", fat_scalars[s].name);
    if (fat_problem_has(p, (fat_feature)f))
      add_tensors(p, (fat_feature)f, out);
  }
  fat_text_format(out, "\np.call_bytes=%d\n", layout.bytes);
}
