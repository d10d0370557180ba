/* problem.c -- the problem: canonical text to struct and back, its ranges, its count of operations.
 *
 * The grammar is two tables: one row per size (b h q k d) and one per feature, each in the order of the
 * text. Reading takes the words between '-' against these rows, printing walks the same rows. */
#include "problem.h"
#include "text.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fat_ops[FAT_OP_COUNT] = {"fwd", "bwd"}; /* ORDER OP */

/* ORDER DTYPE */
const fat_dtype_info fat_dtypes[FAT_DTYPE_COUNT] = {
    {"f16", 2, "f16"}, {"bf16", 2, "bf16"}, {"f32", 4, "f32"}, {"tf32", 4, "f32"}, {"f32x3", 4, "f32"},
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

static const struct feature_row {
  const char *name;
  int numbers;    /* 0, 1 or 2 behind the name; a hash is one number of 16 hexadecimal digits */
  char separator; /* between two numbers */
  bool hash;
  uint64_t least; /* of each number */
  const char *form;
} features[FAT_FEATURE_COUNT] = {
    /* ORDER FEATURE */
    {"causal", 0, 0, false, 0, "causal"},
    {"causaltl", 0, 0, false, 0, "causaltl"},
    {"w", 2, '.', false, 0, "wL.R, as in w1024.0"},
    {"chunk", 1, 0, false, 1, "chunkN, as in chunk8192"},
    {"varlen", 0, 0, false, 0, "varlen"},
    {"paged", 1, 0, false, 1, "pagedN, as in paged16"},
    {"bs", 2, 'x', false, 1, "bsRxC, as in bs128x128"},
    {"bias", 0, 0, false, 0, "bias"},
    {"alibi", 0, 0, false, 0, "alibi"},
    {"softcap", 0, 0, false, 0, "softcap"},
    {"sink", 0, 0, false, 0, "sink"},
    {"mod", 1, 0, true, 0, "mod and 16 hexadecimal digits in lower case"},
    {"drop", 0, 0, false, 0, "drop"},
    {"det", 0, 0, false, 0, "det"},
    {"split", 1, 0, false, 1, "splitN, as in split8"},
    {"partial", 0, 0, false, 0, "partial"},
};

/* Where reading stands: a word runs from `word` to `end`, which is '-' or the closing zero. */
typedef struct cursor {
  const char *text, *word, *end;
  char copy[64]; /* the word as a string of its own, cut where it is longer than any word of the grammar */
  fat_error *err;
} cursor;

/* Fails at the present word: problem 'TEXT': 'WORD' at column N ... */
__attribute__((format(printf, 2, 3))) static fat_status fail(const cursor *c, const char *format, ...)
{
  char reason[512];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  const char *quote = *c->word == 0 ? "" : "'";
  return fat_status_fail(c->err, FAT_E_INPUT, "problem '%.200s': %s%s%s at column %d %s", c->text, quote,
                         *c->word == 0 ? "the text ends" : c->copy, quote, (int)(c->word - c->text) + 1,
                         reason);
}

/* Makes the word that begins at `word` the present one. */
static void take(cursor *c, const char *word)
{
  c->word = word;
  c->end = word + strcspn(word, "-");
  snprintf(c->copy, sizeof c->copy, "%.*s", (int)(c->end - word), word);
}

/* Goes to the next word; at the end of the text the word is empty. */
static void next(cursor *c)
{
  take(c, *c->end == '-' ? c->end + 1 : c->end);
}

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

/* Reads a whole number at *at, which it moves behind it. `what` says what should stand there. */
static fat_status number(const cursor *c, const char **at, const char *what, uint64_t *value)
{
  const char *s = *at;
  if (s == c->end && *s == '-' && is_digit(s[1]))
    return fail(c, "has a negative number: negative lengths are not allowed, expected %s", what);
  if (!is_digit(*s))
    return fail(c, "is not complete or has a wrong letter: expected %s", what);
  if (*s == '0' && is_digit(s[1]))
    return fail(c, "has a number with leading zeros: write it without them");
  uint64_t n = 0;
  for (; is_digit(*s); s++) {
    n = n * 10 + (uint64_t)(*s - '0');
    if (n > (uint64_t)FAT_PROBLEM_SIZE_MAX)
      return fail(c, "has a number that is too large: at most %" PRId64 " is allowed", FAT_PROBLEM_SIZE_MAX);
  }
  *at = s;
  *value = n;
  return FAT_OK;
}

/* Exactly 16 lower-case hexadecimal digits up to the end of the word. */
static fat_status hash(const cursor *c, const char **at, const char *what, uint64_t *value)
{
  size_t n = strspn(*at, "0123456789abcdef");
  if (n != 16 || *at + n != c->end)
    return fail(c, "is not complete or has a wrong letter: expected %s", what);
  *value = strtoull(*at, NULL, 16);
  *at += n;
  return FAT_OK;
}

/* Reads one size word into value[0] and, where the second letter stands, value[1]. */
static fat_status size_word(const cursor *c, const struct size_row *row, uint64_t value[2])
{
  if (*c->word != row->letter)
    return fail(c, *c->word == 0 ? "where %s is expected" : "is not expected here: expected %s", row->what);
  const char *at = c->word + 1;
  FAT_TRY(number(c, &at, row->what, &value[0]));
  value[1] = value[0];
  if (row->second != 0 && *at == row->second) {
    at++;
    FAT_TRY(number(c, &at, row->what, &value[1]));
  }
  if (at != c->end)
    return fail(c, "has '%c' behind its number: expected %s", *at, row->what);
  return FAT_OK;
}

/* The feature whose name the word has: the whole word, or with numbers any that goes on with no letter. */
static int find_feature(const cursor *c)
{
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    size_t n = strlen(features[f].name);
    if (strncmp(c->copy, features[f].name, n) != 0)
      continue;
    bool letter = (c->copy[n] >= 'a' && c->copy[n] <= 'z') || (c->copy[n] >= 'A' && c->copy[n] <= 'Z');
    if (c->copy[n] == 0 || features[f].hash || (features[f].numbers > 0 && !letter))
      return f;
  }
  return -1;
}

/* Appends to the names an error offers. */
static void list_name(char *list, size_t room, const char *name)
{
  size_t used = strlen(list);
  snprintf(list + used, room - used, "%s%s", used > 0 ? ", " : "", name);
}

/* A word that is no feature: says so, with the nearest name where one is near enough to be meant. */
static fat_status unknown_feature(const cursor *c)
{
  char name[sizeof c->copy], list[256] = "";
  int best = -1, least = 3;
  memcpy(name, c->copy, sizeof name);
  name[strcspn(name, "0123456789")] = 0;
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    int distance = fat_text_distance(name, features[f].name);
    if (distance < least && 2 * distance <= (int)strlen(features[f].name)) {
      best = f;
      least = distance;
    }
    list_name(list, sizeof list, features[f].name);
  }
  if (best >= 0)
    return fail(c, "is no feature: did you mean '%s'?", features[best].name);
  return fail(c, *c->word == 0 ? "where a feature is expected: %s" : "is no feature: %s", list);
}

static fat_status feature_word(const cursor *c, fat_problem *p, int *last)
{
  int f = find_feature(c);
  if (f < 0)
    return unknown_feature(c);
  if (fat_problem_has(p, (fat_feature)f))
    return fail(c, "stands twice");
  if (f < *last)
    return fail(c, "must stand before '%s'", features[*last].name);
  const struct feature_row *row = &features[f];
  const char *at = c->word + strlen(row->name);
  for (int i = 0; i < row->numbers; i++) {
    if (i > 0 && *at++ != row->separator)
      return fail(c, "is not complete or has a wrong letter: expected %s", row->form);
    FAT_TRY(row->hash ? hash(c, &at, row->form, &p->arg[f][i]) : number(c, &at, row->form, &p->arg[f][i]));
  }
  if (at != c->end)
    return fail(c, "has '%c' behind it: expected %s", *at, row->form);
  p->features |= 1u << f;
  *last = f;
  return FAT_OK;
}

static fat_status op_and_dtype(cursor *c, fat_problem *p)
{
  char list[64] = "";
  int op = fat_problem_op(c->copy);
  for (int i = 0; i < FAT_OP_COUNT; i++)
    list_name(list, sizeof list, fat_ops[i]);
  if (op < 0)
    return fail(c, *c->word == 0 ? "where an op is expected: %s" : "is no op: %s", list);
  next(c);
  int dtype = fat_problem_dtype(c->copy);
  list[0] = 0;
  for (int i = 0; i < FAT_DTYPE_COUNT; i++)
    list_name(list, sizeof list, fat_dtypes[i].name);
  if (dtype < 0)
    return fail(c, *c->word == 0 ? "where a dtype is expected: %s" : "is no dtype: %s", list);
  p->op = (fat_op)op;
  p->dtype = (fat_dtype)dtype;
  return FAT_OK;
}

static fat_status parse(const char *text, bool family, fat_problem *out, fat_error *err)
{
  cursor c = {.text = text, .err = err};
  fat_problem p = {0};
  uint64_t size[SIZE_COUNT][2] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}};
  int last = -1;
  take(&c, text);
  FAT_TRY(op_and_dtype(&c, &p));
  for (int i = 0; i < SIZE_COUNT; i++) {
    if (family && !sizes[i].family)
      continue;
    next(&c);
    FAT_TRY(size_word(&c, &sizes[i], size[i]));
  }
  while (*c.end != 0) { /* a '-' with nothing behind it is an empty word, not the end */
    next(&c);
    FAT_TRY(feature_word(&c, &p, &last));
  }
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

static fat_status check_features(const fat_problem *p, fat_error *err)
{
  if (p->features >> FAT_FEATURE_COUNT != 0)
    return fat_status_fail(err, FAT_E_INPUT, "features is 0x%x: only the %d lowest bits have a meaning",
                           p->features, FAT_FEATURE_COUNT);
  if (fat_problem_has(p, FAT_CAUSAL) && fat_problem_has(p, FAT_CAUSAL_TL))
    return fat_status_fail(err, FAT_E_INPUT, "causal and causaltl exclude each other: give one of them");
  for (int f = 0; f < FAT_FEATURE_COUNT; f++)
    for (int i = 0; i < features[f].numbers && fat_problem_has(p, (fat_feature)f); i++) {
      uint64_t most = features[f].hash ? UINT64_MAX : (uint64_t)FAT_PROBLEM_SIZE_MAX;
      if (p->arg[f][i] < features[f].least || p->arg[f][i] > most)
        return fat_status_fail(err, FAT_E_INPUT, "%s has %" PRIu64 ": allowed are %" PRIu64 " to %" PRIu64,
                               features[f].name, p->arg[f][i], features[f].least, most);
    }
  return FAT_OK;
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
  return check_features(p, err);
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
    add(buffer, &used, "-%s", features[f].name);
    if (features[f].numbers > 0)
      add(buffer, &used, features[f].hash ? "%016" PRIx64 : "%" PRIu64, p->arg[f][0]);
    if (features[f].numbers > 1)
      add(buffer, &used, "%c%" PRIu64, features[f].separator, p->arg[f][1]);
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
  return (unsigned)f < FAT_FEATURE_COUNT ? features[f].name : "?";
}

double fat_problem_flops(const fat_problem *p)
{
  double forward = 2.0 * (double)p->b * (double)p->h * (double)p->q * (double)p->k * (double)(p->d + p->dv);
  bool causal = fat_problem_has(p, FAT_CAUSAL) || fat_problem_has(p, FAT_CAUSAL_TL);
  return forward * (causal ? 0.5 : 1) * (p->op == FAT_BWD ? 2.5 : 1);
}

int fat_problem_dtype(const char *name)
{
  for (int i = 0; i < FAT_DTYPE_COUNT; i++)
    if (strcmp(name, fat_dtypes[i].name) == 0)
      return i;
  return -1;
}

int fat_problem_op(const char *name)
{
  for (int i = 0; i < FAT_OP_COUNT; i++)
    if (strcmp(name, fat_ops[i]) == 0)
      return i;
  return -1;
}
