/* feature.c -- the grammar of features: a row for each, in the order of the text, and rules between them. */
#include "feature.h"
#include "text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const fat_feature_row fat_features[FAT_FEATURE_COUNT] = {
    /* ORDER FEATURE */
    {"causal", FAT_NUMBERS_NONE, 0, 0, "causal"},
    {"causaltl", FAT_NUMBERS_NONE, 0, 0, "causaltl"},
    {"w", FAT_NUMBERS_TWO, '.', 0, "wL.R, as in w1024.0 or, with x for all, wx.64"},
    {"chunk", FAT_NUMBERS_ONE, 0, 1, "chunkN, as in chunk8192"},
    {"varlen", FAT_NUMBERS_NONE, 0, 0, "varlen"},
    {"paged", FAT_NUMBERS_ONE, 0, 1, "pagedN, as in paged16"},
    {"used", FAT_NUMBERS_NONE, 0, 0, "used"},
    {"prefix", FAT_NUMBERS_NONE, 0, 0, "prefix"},
    {"iv", FAT_NUMBERS_NONE, 0, 0, "iv"},
    {"lpad", FAT_NUMBERS_NONE, 0, 0, "lpad"},
    {"bs", FAT_NUMBERS_TWO, 'x', 1, "bsRxC, as in bs128x128"},
    {"mask", FAT_NUMBERS_NONE, 0, 0, "mask"},
    {"mask", FAT_NUMBERS_HASH, 0, 0, "mask and 16 hexadecimal digits in lower case"},
    {"bias", FAT_NUMBERS_NONE, 0, 0, "bias"},
    {"bias32", FAT_NUMBERS_NONE, 0, 0, "bias32"},
    {"alibi", FAT_NUMBERS_NONE, 0, 0, "alibi"},
    {"softcap", FAT_NUMBERS_NONE, 0, 0, "softcap"},
    {"sink", FAT_NUMBERS_NONE, 0, 0, "sink"},
    {"mod", FAT_NUMBERS_HASH, 0, 0, "mod and 16 hexadecimal digits in lower case"},
    {"drop", FAT_NUMBERS_NONE, 0, 0, "drop"},
    {"dbias", FAT_NUMBERS_NONE, 0, 0, "dbias"},
    {"dsink", FAT_NUMBERS_NONE, 0, 0, "dsink"},
    {"dlse", FAT_NUMBERS_NONE, 0, 0, "dlse"},
    {"det", FAT_NUMBERS_NONE, 0, 0, "det"},
    {"split", FAT_NUMBERS_ONE, 0, 64, "splitN, as in split1024: a multiple of 64"},
    {"partial", FAT_NUMBERS_NONE, 0, 0, "partial"},
    {"append", FAT_NUMBERS_NONE, 0, 0, "append"},
    {"rope", FAT_NUMBERS_NONE, 0, 0, "rope"},
    {"ropei", FAT_NUMBERS_NONE, 0, 0, "ropei"},
};

/* Pairs that exclude each other, and features that mean nothing without another. */
static const struct rule {
  fat_feature one, other;
  bool excludes;
} rules[] = {
    {FAT_CAUSAL, FAT_CAUSAL_TL, true},
    {FAT_PAGED, FAT_LEFTPAD, true},
    {FAT_ROPE, FAT_ROPE_I, true},
    {FAT_BIAS32, FAT_BIAS, false},
    {FAT_DBIAS, FAT_BIAS, false},
    {FAT_DSINK, FAT_SINK, false},
    {FAT_DROP, FAT_SPLIT, true},
    {FAT_ROPE, FAT_APPEND, false},
    {FAT_ROPE_I, FAT_APPEND, false},
    /* dS as dbias needs it is not there once the cap's derivative is in it */
    {FAT_DBIAS, FAT_SOFTCAP, true},
    /* nor are batches' own lengths known where a shared dbias is cleared */
    {FAT_DBIAS, FAT_VARLEN, true},
    {FAT_DBIAS, FAT_USED, true},
    {FAT_DBIAS, FAT_LEFTPAD, true},
};

/* Words of texts of one op alone; others exclude it. */
static const struct {
  fat_feature feature;
  fat_op op;
} alone[] = {{FAT_CHUNK, FAT_FWD},
             {FAT_DBIAS, FAT_BWD},
             {FAT_DSINK, FAT_BWD},
             {FAT_DLSE, FAT_BWD},
             {FAT_DET, FAT_BWD}};

/* Words that no kernel serves yet: read, but never suggested. */
static const fat_feature reserved[] = {FAT_PAGED, FAT_PARTIAL, FAT_APPEND, FAT_ROPE, FAT_ROPE_I};

/* What decides which config is the fastest: the first are plain, blocks are visited in vain by tiles that fit
 * none, and biases come by another way (d 128, causal, H200: 0.87 ms by it, 1.53 by the plain winner's). */
static const struct {
  fat_feature feature;
  bool plain;
} deciding[] = {{FAT_CAUSAL, true}, {FAT_DET, true}, {FAT_BLOCKSPARSE, false}, {FAT_BIAS, false}};

bool fat_feature_plain(const fat_problem *p, fat_problem *plain)
{
  uint32_t kept = 0, own = 0;
  for (size_t i = 0; i < sizeof deciding / sizeof *deciding; i++)
    *(deciding[i].plain ? &kept : &own) |= UINT32_C(1) << deciding[i].feature;
  *plain = *p;
  plain->features &= kept;
  memset(plain->arg, 0, sizeof plain->arg);
  return plain->features != p->features && !(p->features & own);
}

bool fat_feature_offered(fat_feature f, fat_op op)
{
  bool offered = true;
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
    offered = offered && reserved[i] != f;
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
    offered = offered && (alone[i].feature != f || alone[i].op == op);
  return offered;
}

int fat_feature_numbers(fat_feature f)
{
  const fat_numbers_of n = fat_features[f].numbers;
  return n == FAT_NUMBERS_NONE ? 0 : n == FAT_NUMBERS_TWO ? 2 : 1;
}

bool fat_feature_in_family(fat_feature f)
{
  return fat_features[f].numbers == FAT_NUMBERS_HASH;
}

/* One number of a feature; those of a window may be x. */
static fat_status feature_number(const fat_words *w, int f, const char **at, uint64_t *value)
{
  if (fat_features[f].numbers == FAT_NUMBERS_HASH)
    return fat_words_hash(w, at, fat_features[f].form, value);
  if (f == FAT_WINDOW && **at == 'x') {
    ++*at;
    *value = (uint64_t)FAT_PROBLEM_ALL;
    return FAT_OK;
  }
  return fat_words_number(w, at, fat_features[f].form, value);
}

/* The feature whose name the word has: the whole word, or with numbers any that goes on with no letter. */
static int find_feature(const fat_words *w)
{
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    size_t n = strlen(fat_features[f].name);
    if (strncmp(w->copy, fat_features[f].name, n) != 0)
      continue;
    char behind = w->copy[n];
    bool all = f == FAT_WINDOW && behind == 'x' && (w->copy[n + 1] == '.' || w->copy[n + 1] == 0);
    if (behind == 0 || fat_features[f].numbers == FAT_NUMBERS_HASH ||
        (fat_features[f].numbers != FAT_NUMBERS_NONE && !fat_text_is_letter(behind)) || all)
      return f;
  }
  return -1;
}

/* A word that is no feature: says so, with the nearest name where one is near enough to be meant, else with
 * those that the op may have. */
static fat_status unknown_feature(const fat_words *w, fat_op op)
{
  char name[sizeof w->copy], list[256] = "";
  int best = -1, least = 3;
  memcpy(name, w->copy, sizeof name);
  name[strcspn(name, "0123456789")] = 0;
  for (int f = 0; f < FAT_FEATURE_COUNT; f++) {
    if (!fat_feature_offered((fat_feature)f, op))
      continue;
    int distance = fat_text_distance(name, fat_features[f].name);
    if (distance < least && 2 * distance <= (int)strlen(fat_features[f].name)) {
      best = f;
      least = distance;
    }
    fat_words_list(list, sizeof list, fat_problem_feature_form((fat_feature)f));
  }
  if (best >= 0)
    return fat_words_fail(w, "is no feature: did you mean '%s'?", fat_features[best].name);
  return *w->word == 0 ? fat_words_fail(w, "where a feature is expected: %s", list)
                       : fat_words_fail(w, "is no feature of %s: %s", fat_ops[op], list);
}

fat_status fat_feature_read(const fat_words *w, bool family, fat_problem *p, int *last)
{
  int f = find_feature(w);
  if (f < 0)
    return unknown_feature(w, p->op);
  if (fat_problem_has(p, (fat_feature)f))
    return fat_words_fail(w, "stands twice");
  if (f < *last)
    return fat_words_fail(w, "must stand before '%s'", fat_features[*last].name);
  const fat_feature_row *row = &fat_features[f];
  const char *at = w->word + strlen(row->name);
  for (int i = 0; i < fat_feature_numbers((fat_feature)f); i++) {
    p->arg[f][i] = row->least ? row->least : 1;
    if (family && !fat_feature_in_family((fat_feature)f))
      continue;
    if (i > 0 && *at++ != row->separator)
      return fat_words_fail(w, "is not complete or has a wrong letter: expected %s", row->form);
    FAT_TRY(feature_number(w, f, &at, &p->arg[f][i]));
  }
  if (at != w->end && family && fat_feature_numbers((fat_feature)f) > 0 &&
      !fat_feature_in_family((fat_feature)f))
    return fat_words_fail(w, "has numbers, which a family leaves out: expected %s", row->name);
  if (at != w->end)
    return fat_words_fail(w, "has '%c' behind it: expected %s", *at, row->form);
  p->features |= 1u << f;
  *last = f;
  return FAT_OK;
}

void fat_feature_settle(fat_problem *p, bool family)
{
  uint64_t *window = p->arg[FAT_WINDOW];
  if (!fat_problem_has(p, FAT_WINDOW) || fat_problem_has(p, FAT_CAUSAL_TL))
    return; /* the diagonal of causaltl is another one than the window's: both stay as they are */
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
  if (fat_problem_has(p, FAT_PREFIX) && !fat_problem_has(p, FAT_CAUSAL) && !fat_problem_has(p, FAT_CAUSAL_TL))
    return fat_status_fail(err, FAT_E_INPUT,
                           "prefix means nothing without causal or causaltl: give one of them");
  if (fat_problem_has(p, FAT_BIAS32) && fat_dtypes[p->dtype].bytes == 4)
    return fat_status_fail(err, FAT_E_INPUT, "biases of %s are of f32 anyhow: leave bias32 out",
                           fat_dtypes[p->dtype].name);
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
    if (fat_problem_has(p, alone[i].feature) && p->op != alone[i].op)
      return fat_status_fail(err, FAT_E_INPUT, "%s and %s exclude each other: %s is a word of %s alone",
                             fat_ops[p->op], fat_problem_feature_form(alone[i].feature),
                             fat_problem_feature_form(alone[i].feature), fat_ops[alone[i].op]);
  return FAT_OK;
}

fat_status fat_feature_check(const fat_problem *p, fat_error *err)
{
  if (p->features >> FAT_FEATURE_COUNT != 0)
    return fat_status_fail(err, FAT_E_INPUT, "features is 0x%x: only the %d lowest bits have a meaning",
                           p->features, FAT_FEATURE_COUNT);
  for (int f = 0; f < FAT_FEATURE_COUNT; f++)
    for (int i = 0; i < fat_feature_numbers((fat_feature)f) && fat_problem_has(p, (fat_feature)f); i++) {
      uint64_t most =
          fat_features[f].numbers == FAT_NUMBERS_HASH ? UINT64_MAX : (uint64_t)FAT_PROBLEM_SIZE_MAX;
      if (p->arg[f][i] < fat_features[f].least || p->arg[f][i] > most)
        return fat_status_fail(err, FAT_E_INPUT, "%s has %" PRIu64 ": allowed are %" PRIu64 " to %" PRIu64,
                               fat_features[f].name, p->arg[f][i], fat_features[f].least, most);
      if (fat_features[f].least > 1 && p->arg[f][i] % fat_features[f].least != 0)
        return fat_status_fail(err, FAT_E_INPUT, "%s has %" PRIu64 ": allowed are multiples of %" PRIu64,
                               fat_features[f].name, p->arg[f][i], fat_features[f].least);
    }
  return check_rules(p, err);
}

int fat_feature_print(const fat_problem *p, fat_feature f, bool family, char *to, size_t room)
{
  const fat_feature_row *row = &fat_features[f];
  const int count = !family || fat_feature_in_family(f) ? fat_feature_numbers(f) : 0;
  char number[2][24] = {"", ""};
  for (int i = 0; i < count; i++)
    if (f == FAT_WINDOW && p->arg[f][i] == (uint64_t)FAT_PROBLEM_ALL)
      strcpy(number[i], "x");
    else
      snprintf(number[i], sizeof number[i], row->numbers == FAT_NUMBERS_HASH ? "%016" PRIx64 : "%" PRIu64,
               p->arg[f][i]);
  const char separator[2] = {count == 2 ? row->separator : 0};
  return snprintf(to, room, "-%s%s%s%s", row->name, number[0], separator, number[1]);
}
