/* mods.c -- the expressions that this process knows, by hash: a list that only grows, so that readers need no
 * lock. */
#include "mod.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const fat_feature fat_mod_features[FAT_MOD_FEATURES] = {FAT_MASK_MOD, FAT_MOD};

static _Atomic(fat_mod *) known;

fat_status fat_mod_name(fat_mod *mod, fat_error *err)
{
  fat_text text = {0};
  char hash[FAT_HASH_SIZE];
  fat_mod_print(mod, &text);
  fat_status status = fat_text_status(&text, err);
  if (status == FAT_OK && text.length > FAT_MOD_TEXT)
    status =
        fat_status_fail(err, FAT_E_INPUT, "written out an expression has more than %d letters", FAT_MOD_TEXT);
  if (status != FAT_OK) {
    fat_text_free(&text);
    return status;
  }
  mod->text = text.data;
  fat_text_hash(text.data, text.length, hash);
  hash[16] = 0;
  mod->hash = strtoull(hash, NULL, 16);
  return FAT_OK;
}

void fat_mod_free(fat_mod *mod)
{
  if (mod)
    free(mod->text);
  free(mod);
}

static const fat_mod *find(fat_feature which, uint64_t hash)
{
  const fat_mod *m = atomic_load(&known);
  while (m && (m->which != which || m->hash != hash))
    m = m->next;
  return m;
}

fat_status fat_mod_know(const char *text, fat_feature which, const fat_mod **mod, fat_error *err)
{
  fat_mod *m;
  FAT_TRY(fat_mod_parse(text, which, &m, err));
  *mod = find(which, m->hash);
  if (*mod) {
    const bool same = strcmp((*mod)->text, m->text) == 0;
    fat_mod_free(m);
    return same ? FAT_OK
                : fat_status_fail(err, FAT_E_INPUT,
                                  "two expressions have one hash: write one of them differently");
  }
  m->next = atomic_load(&known); /* two threads may add the same: either will do */
  while (!atomic_compare_exchange_weak(&known, &m->next, m))
    ;
  *mod = m;
  return FAT_OK;
}

fat_status fat_mod_add(const char *text, fat_feature which, fat_problem *p, fat_error *err)
{
  const fat_mod *m;
  FAT_TRY(fat_mod_know(text, which, &m, err));
  if (fat_problem_has(p, which) && p->arg[which][0] != m->hash)
    return fat_status_fail(
        err, FAT_E_INPUT, "the problem names %s%016" PRIx64 ", and the text given is %s%016" PRIx64,
        fat_problem_feature_name(which), p->arg[which][0], fat_problem_feature_name(which), m->hash);
  p->features |= 1u << which;
  p->arg[which][0] = m->hash;
  return fat_problem_check(p, err);
}

const fat_mod *fat_mod_of(const fat_problem *p, fat_feature which)
{
  return fat_problem_has(p, which) ? find(which, p->arg[which][0]) : NULL;
}

bool fat_mod_used(const fat_problem *p)
{
  return fat_mod_of(p, FAT_MOD) || fat_mod_of(p, FAT_MASK_MOD);
}

fat_feature fat_mod_table(const fat_problem *p, int table, bool *whole, bool *wide)
{
  for (int n = 0; n < FAT_MOD_FEATURES; n++) { /* the first brings it */
    const fat_mod *m = fat_mod_of(p, fat_mod_features[n]);
    if (!m || !(m->tables >> table & 1))
      continue;
    *whole = m->whole_tables >> table & 1;
    *wide = m->wide_tables >> table & 1;
    return fat_mod_features[n];
  }
  return FAT_FEATURE_COUNT;
}

fat_status fat_mod_check(const fat_problem *p, fat_error *err)
{
  const fat_feature *both = fat_mod_features;
  const fat_mod *m[FAT_MOD_FEATURES] = {fat_mod_of(p, both[0]), fat_mod_of(p, both[1])};
  for (int n = 0; n < FAT_MOD_FEATURES; n++)
    if (fat_problem_has(p, both[n]) && !m[n])
      return fat_status_fail(err, FAT_E_INPUT,
                             "%s%016" PRIx64
                             " is not known here: give its text too, or tune it into this database",
                             fat_problem_feature_name(both[n]), p->arg[both[n]][0]);
  if (!m[0] || !m[1])
    return FAT_OK;
  const uint8_t shared = m[0]->tables & m[1]->tables;
  if (((m[0]->whole_tables ^ m[1]->whole_tables) | (m[0]->wide_tables ^ m[1]->wide_tables)) & shared)
    return fat_status_fail(
        err, FAT_E_INPUT,
        "the mask and the score mod disagree on a table: its numbers are whole in one alone, or it "
        "has two indices in one alone");
  return FAT_OK;
}
