/* problem.c -- the problem: canonical text to struct and back, its ranges, its count of operations.
 *
 * The grammar is two tables: one row per size (b h q k d) and one per feature, each in the order of the
 * text. Reading takes the words between '-' against these rows, printing walks the same rows. */
#include "problem.h"
#include "sees.h"
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

/* What the numbers behind a feature's name are. */
typedef enum numbers { NONE, ONE, TWO, BLOCK, HASH } numbers;

static const struct feature_row {
  const char *name;
  numbers numbers;
  char separator; /* between two numbers */
  uint64_t least; /* of each number */
  const char *form;
} features[FAT_FEATURE_COUNT] = {
    /* ORDER FEATURE */
    {"causal", NONE, 0, 0, "causal"},
    {"causaltl", NONE, 0, 0, "causaltl"},
    {"w", TWO, '.', 0, "wL.R, as in w1024.0 or, with x for all, wx.64"},
    {"chunk", ONE, 0, 1, "chunkN, as in chunk8192"},
    {"varlen", NONE, 0, 0, "varlen"},
    {"paged", ONE, 0, 1, "pagedN, as in paged16"},
    {"used", NONE, 0, 0, "used"},
    {"prefix", NONE, 0, 0, "prefix"},
    {"iv", NONE, 0, 0, "iv"},
    {"lpad", NONE, 0, 0, "lpad"},
    {"bs", BLOCK, 'x', 1, "bsRxC, as in bs128x128"},
    {"mask", NONE, 0, 0, "mask"},
    {"mask", HASH, 0, 0, "mask and 16 hexadecimal digits in lower case"},
    {"bias", NONE, 0, 0, "bias"},
    {"alibi", NONE, 0, 0, "alibi"},
    {"softcap", NONE, 0, 0, "softcap"},
    {"sink", NONE, 0, 0, "sink"},
    {"mod", HASH, 0, 0, "mod and 16 hexadecimal digits in lower case"},
    {"drop", NONE, 0, 0, "drop"},
    {"dbias", NONE, 0, 0, "dbias"},
    {"dsink", NONE, 0, 0, "dsink"},
    {"dlse", NONE, 0, 0, "dlse"},
    {"det", NONE, 0, 0, "det"},
    {"split", ONE, 0, 1, "splitN, as in split8"},
    {"partial", NONE, 0, 0, "partial"},
    {"append", NONE, 0, 0, "append"},
    {"rope", NONE, 0, 0, "rope"},
    {"ropei", NONE, 0, 0, "ropei"},
};

/* Pairs that exclude each other, and features that mean nothing without another. */
static const struct rule {
  fat_feature one, other;
  bool excludes;
} rules[] = {
    {FAT_CAUSAL, FAT_CAUSAL_TL, true}, {FAT_ROPE, FAT_ROPE_I, true},  {FAT_DBIAS, FAT_BIAS, false},
    {FAT_DSINK, FAT_SINK, false},      {FAT_ROPE, FAT_APPEND, false}, {FAT_ROPE_I, FAT_APPEND, false},
};

/* Words of backward texts alone. */
static const fat_feature backward_alone[] = {FAT_DBIAS, FAT_DSINK, FAT_DLSE, FAT_DET};

static int count_of(numbers n)
{
  return n == NONE ? 0 : n == TWO || n == BLOCK ? 2 : 1;
}

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

/* One number of a feature; those of a window may be x. */
static fat_status feature_number(const cursor *c, int f, const char **at, uint64_t *value)
{
  if (features[f].numbers == HASH)
    return hash(c, at, features[f].form, value);
  if (f == FAT_WINDOW && **at == 'x') {
    ++*at;
    *value = (uint64_t)FAT_PROBLEM_ALL;
    return FAT_OK;
  }
  return number(c, at, features[f].form, value);
}

/* The feature whose name the word has: the whole word, or with numbers any that goes on with no letter. */
static int find_feature(const cursor *c)
{
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    size_t n = strlen(features[f].name);
    if (strncmp(c->copy, features[f].name, n) != 0)
      continue;
    char behind = c->copy[n];
    bool letter = (behind >= 'a' && behind <= 'z') || (behind >= 'A' && behind <= 'Z');
    bool all = f == FAT_WINDOW && behind == 'x' && (c->copy[n + 1] == '.' || c->copy[n + 1] == 0);
    if (behind == 0 || features[f].numbers == HASH || (features[f].numbers != NONE && !letter) || all)
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

/* Whether the numbers of a feature stand in a family text too. */
static bool in_family(const struct feature_row *row)
{
  return row->numbers == HASH || row->numbers == BLOCK;
}

static fat_status feature_word(const cursor *c, bool family, fat_problem *p, int *last)
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
  for (int i = 0; i < count_of(row->numbers); i++) {
    p->arg[f][i] = row->least ? row->least : 1;
    if (family && !in_family(row))
      continue;
    if (i > 0 && *at++ != row->separator)
      return fail(c, "is not complete or has a wrong letter: expected %s", row->form);
    FAT_TRY(feature_number(c, f, &at, &p->arg[f][i]));
  }
  if (at != c->end)
    return fail(c, "has '%c' behind it: expected %s", *at, row->form);
  p->features |= 1u << f;
  *last = f;
  return FAT_OK;
}

/* One text for each mask: a window that ends at the diagonal is causal, one that reaches everything on the
 * left adds nothing to that, and one that reaches everything is none. */
static void settle_window(fat_problem *p, bool family)
{
  uint64_t *window = p->arg[FAT_WINDOW];
  if (!fat_problem_has(p, FAT_WINDOW))
    return;
  if (fat_problem_has(p, FAT_CAUSAL) || (window[1] == 0 && !family)) {
    p->features |= 1u << FAT_CAUSAL;
    window[1] = 0;
  }
  const bool all_left = window[0] == (uint64_t)FAT_PROBLEM_ALL;
  const bool all_right = window[1] == (uint64_t)FAT_PROBLEM_ALL || fat_problem_has(p, FAT_CAUSAL);
  if (all_left && all_right) {
    p->features &= ~(1u << FAT_WINDOW);
    window[0] = window[1] = 0;
  }
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
    FAT_TRY(feature_word(&c, family, &p, &last));
  }
  settle_window(&p, family);
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

static fat_status check_rules(const fat_problem *p, fat_error *err)
{
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const struct rule *r = &rules[i];
    if (!fat_problem_has(p, r->one) || fat_problem_has(p, r->other) != r->excludes)
      continue;
    if (r->excludes)
      return fat_status_fail(err, FAT_E_INPUT, "%s and %s exclude each other: give one of them",
                             fat_problem_feature_form(r->one), fat_problem_feature_form(r->other));
    return fat_status_fail(err, FAT_E_INPUT, "%s means nothing without %s: give both",
                           fat_problem_feature_form(r->one), fat_problem_feature_form(r->other));
  }
  for (size_t i = 0; i < sizeof backward_alone / sizeof *backward_alone && p->op == FAT_FWD; i++)
    if (fat_problem_has(p, backward_alone[i]))
      return fat_status_fail(err, FAT_E_INPUT, "%s is a word of backward problems alone: leave it out",
                             fat_problem_feature_form(backward_alone[i]));
  return FAT_OK;
}

static fat_status check_features(const fat_problem *p, fat_error *err)
{
  if (p->features >> FAT_FEATURE_COUNT != 0)
    return fat_status_fail(err, FAT_E_INPUT, "features is 0x%x: only the %d lowest bits have a meaning",
                           p->features, FAT_FEATURE_COUNT);
  for (int f = 0; f < FAT_FEATURE_COUNT; f++)
    for (int i = 0; i < count_of(features[f].numbers) && fat_problem_has(p, (fat_feature)f); i++) {
      uint64_t most = features[f].numbers == HASH ? UINT64_MAX : (uint64_t)FAT_PROBLEM_SIZE_MAX;
      if (p->arg[f][i] < features[f].least || p->arg[f][i] > most)
        return fat_status_fail(err, FAT_E_INPUT, "%s has %" PRIu64 ": allowed are %" PRIu64 " to %" PRIu64,
                               features[f].name, p->arg[f][i], features[f].least, most);
    }
  return check_rules(p, err);
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
    for (int i = 0; i < count_of(features[f].numbers) && (!family || in_family(&features[f])); i++) {
      if (i > 0)
        add(buffer, &used, "%c", features[f].separator);
      if (f == FAT_WINDOW && p->arg[f][i] == (uint64_t)FAT_PROBLEM_ALL)
        add(buffer, &used, "x");
      else
        add(buffer, &used, features[f].numbers == HASH ? "%016" PRIx64 : "%" PRIu64, p->arg[f][i]);
    }
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

const char *fat_problem_feature_form(fat_feature f)
{
  static const char *const hashes[] = {"maskHASH", "modHASH"};
  return f == FAT_MASK_MOD ? hashes[0] : f == FAT_MOD ? hashes[1] : fat_problem_feature_name(f);
}

int fat_problem_feature_numbers(fat_feature f)
{
  return in_family(&features[f]) ? 0 : count_of(features[f].numbers);
}

double fat_problem_flops(const fat_problem *p)
{
  double forward = 2.0 * (double)p->b * (double)p->h * fat_sees_pairs(p) * (double)(p->d + p->dv);
  return forward * (p->op == FAT_BWD ? 2.5 : 1);
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
