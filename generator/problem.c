/* problem.c -- the problem: canonical text to struct and back, its ranges, its count of operations.
 *
 * The grammar is two tables: one row per size (b h q k d) here and one per feature (feature.c), each in
 * the order of the text. Reading takes the words between '-' against these rows, printing walks the same
 * rows. */
#include "problem.h"
#include "feature.h"
#include "sees.h"
#include "text.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fat_ops[FAT_OP_COUNT] = {"fwd", "bwd"}; /* ORDER OP */

/* ORDER DTYPE */
const fat_dtype_info fat_dtypes[FAT_ELEMENTS] = {
    {"f16", 2, "f16"},   {"bf16", 2, "bf16"}, {"f32", 4, "f32"},   {"tf32", 4, "f32"},
    {"f32x3", 4, "f32"}, {"i32", 4, "i32"},   {"byte", 1, "byte"},
};

enum { SIZE_B, SIZE_H, SIZE_Q, SIZE_K, SIZE_D, SIZE_COUNT };

static const struct size_row {
  char letter, second; /* second: of an optional second number ("h16k4"); 0 if there is none */
  bool family;         /* decides the code, so it stands in a family text too */
  const char *what;
} sizes[SIZE_COUNT] = {
    {'b', 0, false, "'b' and the batch, as in b2"},
    {'h', 'k', false, "'h' and the heads, as in h16, or h16k4 with 4 KV heads"},
    {'q', 0, false, "'q' and the rows of Q, as in q4096"},
    {'k', 0, false, "'k' and the rows of K and V, as in k4096"},
    {'d', 'v', true, "'d' and the head dimension, as in d128, or d192v128 with another one for V"},
};

/* Reads one size word into value[0] and, where the second letter stands, value[1]. */
static fat_status size_word(const fat_words *w, const struct size_row *row, uint64_t value[2])
{
  if (*w->word != row->letter)
    return fat_words_fail(w, *w->word == 0 ? "where %s is expected" : "is not expected here: expected %s",
                          row->what);
  const char *at = w->word + 1;
  FAT_TRY(fat_words_number(w, &at, row->what, &value[0]));
  value[1] = value[0];
  if (row->second != 0 && *at == row->second) {
    at++;
    FAT_TRY(fat_words_number(w, &at, row->what, &value[1]));
  }
  if (at != w->end)
    return fat_words_fail(w, "has '%c' behind its number: expected %s", *at, row->what);
  return FAT_OK;
}

static fat_status op_and_dtype(fat_words *w, fat_problem *p)
{
  char list[64] = "";
  int op = 0, dtype = 0;
  while (op < FAT_OP_COUNT && strcmp(w->copy, fat_ops[op]) != 0)
    op++;
  for (int i = 0; i < FAT_OP_COUNT; i++)
    fat_words_list(list, sizeof list, fat_ops[i]);
  if (op == FAT_OP_COUNT)
    return fat_words_fail(w, *w->word == 0 ? "where an op is expected: %s" : "is no op: %s", list);
  fat_words_next(w);
  while (dtype < FAT_DTYPE_COUNT && strcmp(w->copy, fat_dtypes[dtype].name) != 0)
    dtype++;
  list[0] = 0;
  for (int i = 0; i < FAT_DTYPE_COUNT; i++)
    fat_words_list(list, sizeof list, fat_dtypes[i].name);
  if (dtype == FAT_DTYPE_COUNT)
    return fat_words_fail(w, *w->word == 0 ? "where a dtype is expected: %s" : "is no dtype: %s", list);
  p->op = (fat_op)op;
  p->dtype = (fat_dtype)dtype;
  return FAT_OK;
}

static fat_status parse(const char *text, bool family, fat_problem *out, fat_error *err)
{
  fat_words w;
  fat_problem p = {0};
  uint64_t size[SIZE_COUNT][2] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}};
  int last = -1;
  fat_words_begin(&w, text, err);
  FAT_TRY(op_and_dtype(&w, &p));
  for (int i = 0; i < SIZE_COUNT; i++) {
    if (family && !sizes[i].family)
      continue;
    fat_words_next(&w);
    FAT_TRY(size_word(&w, &sizes[i], size[i]));
  }
  while (*w.end != 0) { /* a '-' with nothing behind it is an empty word, not the end */
    fat_words_next(&w);
    FAT_TRY(fat_feature_read(&w, family, &p, &last));
  }
  fat_feature_settle(&p, family);
  p.b = (int64_t)size[SIZE_B][0];
  p.h = (int64_t)size[SIZE_H][0];
  p.hk = (int64_t)size[SIZE_H][1];
  p.q = (int64_t)size[SIZE_Q][0];
  p.k = (int64_t)size[SIZE_K][0];
  p.d = (int32_t)size[SIZE_D][0];
  p.dv = (int32_t)size[SIZE_D][1];
  fat_error why = {0};
  if (fat_problem_check(&p, &why) != FAT_OK)
    return fat_status_fail(err, FAT_E_INPUT, "problem '%.200s': %s", text, why.text);
  *out = p;
  return FAT_OK;
}

fat_status fat_problem_parse(const char *text, fat_problem *p, fat_error *err)
{
  return parse(text, false, p, err);
}

fat_status fat_problem_parse_family(const char *text, fat_problem *p, fat_error *err)
{
  return parse(text, true, p, err);
}

bool fat_problem_is_family(const char *text)
{
  const char *second = strchr(text, '-'), *third = second ? strchr(second + 1, '-') : NULL;
  return third && third[1] == 'd';
}

fat_status fat_problem_check(const fat_problem *p, fat_error *err)
{
  const int64_t most = FAT_PROBLEM_SIZE_MAX, d_most = FAT_PROBLEM_D_MAX;
  const struct {
    const char *name;
    int64_t value, least, most, step, further; /* further: multiples of FAT_PROBLEM_DV_STEP, up to this */
  } ranges[] = {
      {"b", p->b, 0, most, 1, 0},
      {"h", p->h, 1, most, 1, 0},
      {"KV heads", p->hk, 1, most, 1, 0},
      {"q", p->q, 0, most, 1, 0},
      {"k", p->k, 0, most, 1, 0},
      {"d", p->d, 8, d_most, 8, 0},
      {"dv", p->dv, 8, d_most, 8, FAT_PROBLEM_DV_MAX},
      {"op", p->op, 0, FAT_OP_COUNT - 1, 1, 0},
      {"dtype", p->dtype, 0, FAT_DTYPE_COUNT - 1, 1, 0},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    int64_t value = ranges[i].value;
    bool usual = value >= ranges[i].least && value <= ranges[i].most && value % ranges[i].step == 0;
    bool beyond = value > ranges[i].most && value <= ranges[i].further && value % FAT_PROBLEM_DV_STEP == 0;
    if (!usual && !beyond)
      return fat_status_fail(err, FAT_E_INPUT,
                             "%s is %" PRId64 ": allowed are %s%" PRId64 " to %" PRId64 "%s", ranges[i].name,
                             value, ranges[i].step == 8 ? "multiples of 8 from " : "", ranges[i].least,
                             ranges[i].most, ranges[i].further ? ", 384 and 512" : "");
  }
  if (p->h % p->hk != 0)
    return fat_status_fail(err, FAT_E_INPUT,
                           "%" PRId64 " heads and %" PRId64 " KV heads: the KV heads must divide the heads",
                           p->h, p->hk);
  return fat_feature_check(p, err);
}

/* Appends to a canonical text; what does not fit is cut off, which no checked problem comes near. */
__attribute__((format(printf, 3, 4))) static void add(char *buffer, size_t *used, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  int n = vsnprintf(buffer + *used, FAT_PROBLEM_TEXT - *used, format, args);
  va_end(args);
  if (n > 0)
    *used = *used + (size_t)n < FAT_PROBLEM_TEXT ? *used + (size_t)n : FAT_PROBLEM_TEXT - 1;
}

static const char *print(const fat_problem *p, bool family, char buffer[FAT_PROBLEM_TEXT])
{
  const int64_t size[SIZE_COUNT][2] = {
      {p->b, p->b}, {p->h, p->hk}, {p->q, p->q}, {p->k, p->k}, {p->d, p->dv}};
  size_t used = 0;
  add(buffer, &used, "%s-%s", (unsigned)p->op < FAT_OP_COUNT ? fat_ops[p->op] : "?",
      (unsigned)p->dtype < FAT_DTYPE_COUNT ? fat_dtypes[p->dtype].name : "?");
  for (int i = 0; i < SIZE_COUNT; i++) {
    if (family && !sizes[i].family)
      continue;
    add(buffer, &used, "-%c%" PRId64, sizes[i].letter, size[i][0]);
    if (size[i][1] != size[i][0])
      add(buffer, &used, "%c%" PRId64, sizes[i].second, size[i][1]);
  }
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    if (!fat_problem_has(p, (fat_feature)f))
      continue;
    const int n = fat_feature_print(p, (fat_feature)f, family, buffer + used, FAT_PROBLEM_TEXT - used);
    used = used + (size_t)n < FAT_PROBLEM_TEXT ? used + (size_t)n : FAT_PROBLEM_TEXT - 1;
  }
  return buffer;
}

const char *fat_problem_print(const fat_problem *p, char buffer[FAT_PROBLEM_TEXT])
{
  return print(p, false, buffer);
}

const char *fat_problem_family(const fat_problem *p, char buffer[FAT_PROBLEM_TEXT])
{
  return print(p, true, buffer);
}

const char *fat_problem_feature_name(fat_feature f)
{
  return (unsigned)f < FAT_FEATURE_COUNT ? fat_features[f].name : "?";
}

const char *fat_problem_feature_form(fat_feature f)
{
  static const char *const hashes[] = {"maskHASH", "modHASH"};
  return f == FAT_MASK_MOD ? hashes[0] : f == FAT_MOD ? hashes[1] : fat_problem_feature_name(f);
}

int fat_problem_feature_numbers(fat_feature f)
{
  return fat_feature_in_family(f) ? 0 : fat_feature_numbers(f);
}

double fat_problem_flops(const fat_problem *p)
{
  double forward = 2.0 * (double)p->b * (double)p->h * fat_sees_pairs(p) * (double)(p->d + p->dv);
  return forward * (p->op == FAT_BWD ? 2.5 : 1);
}

const char *fat_problem_nothing(const fat_problem *p)
{
  return p->b == 0   ? "b is 0: there is nothing to compute, no kernel is needed"
         : p->q == 0 ? "q is 0: there is nothing to compute, no kernel is needed"
         : p->k == 0 ? "k is 0: a call fills O and LSE, no kernel is needed"
                     : NULL;
}

bool fat_problem_other_half(const fat_problem *p, fat_problem *other)
{
  *other = *p;
  other->dtype = p->dtype == FAT_F16 ? FAT_BF16 : FAT_F16;
  return p->dtype == FAT_F16 || p->dtype == FAT_BF16;
}

int fat_problem_kin(const fat_problem *p, fat_problem kin[FAT_PROBLEM_KIN])
{
  static const int32_t usual[] = {64, 96, 128, 192, 256};
  enum { USUAL = sizeof usual / sizeof *usual };
  int at = 0, count = 1;
  while (at < USUAL && usual[at] < p->d)
    at++;
  const bool lends = at < USUAL && usual[at] != p->d && p->d == p->dv;
  kin[0] = *p;
  count += fat_problem_other_half(p, &kin[count]);
  for (int i = 0, own = count; lends && i < own; i++) {
    kin[count] = kin[i];
    kin[count].d = kin[count].dv = usual[at];
    count++;
  }
  return count;
}
