/* mod_course.c -- expressions that add to s: whether they do, and by a number that grows evenly along a row.
 *
 * Such a one needs no score to be made of each product: of its first pair's number and what that grows by one
 * exponential makes the weight. What it looks up that is the same for all pairs is looked up once for many
 * tiles. */
#include "mod_write.h"

#include <string.h>

/* From the root down by sums, of which s is a summand on one side alone: the node where s is, `of` the
 * other side. -1 where `at` is no such sum. */
static int behind(const fat_mod *mod, int at, int *of)
{
  const fat_mod_node *n = &mod->node[at];
  if (n->op != FAT_MOD_ADD && n->op != FAT_MOD_SUB)
    return -1;
  const bool first = mod->node[n->of[0]].varies, second = mod->node[n->of[1]].varies;
  if (first == second || (n->op == FAT_MOD_SUB && second))
    return -1;
  *of = n->of[first];
  return n->of[!first];
}

/* With a writer no summand is to be free. */
static bool adds(const fat_mod *mod, const fat_mod_writer *w)
{
  int at = mod->root, of = 0;
  while (mod->node[at].op != FAT_MOD_S) {
    at = behind(mod, at, &of);
    if (at < 0 || (w && w->course[of].goes == FAT_MOD_FREE))
      return false;
  }
  return true;
}

bool fat_mod_adds(const fat_mod *mod)
{
  return adds(mod, NULL);
}

bool fat_mod_adds_evenly(const fat_mod *mod)
{
  fat_mod_writer w;
  fat_mod_write_begin(&w, mod, NULL);
  return adds(mod, &w);
}

/* Asks for what is added to s, and what that needs. */
static void ask(fat_mod_writer *w)
{
  for (int at = w->mod->root, of = 0; w->mod->node[at].op != FAT_MOD_S;) {
    at = behind(w->mod, at, &of);
    *(fat_mod_write_splits(w, of) ? &w->parted[of] : &w->said[of]) = true;
  }
  fat_mod_write_mark(w);
}

/* Numbers the lookups that are asked for and are the same for all pairs. Returns how many. */
static int give(fat_mod_writer *w)
{
  int count = 0;
  for (int i = 0; i < w->mod->count; i++)
    if (w->said[i] && w->mod->node[i].op == FAT_MOD_LOOKUP && w->mod->node[i].type == FAT_MOD_NUMBER &&
        w->course[i].goes == FAT_MOD_FIXED)
      w->known[i] = (int16_t)++count;
  return count;
}

/* The sum of all summands' values of the first pair, or of what they grow by. */
static void write_sum(const fat_mod_writer *w, bool growing)
{
  const fat_mod *mod = w->mod;
  fat_text_add(w->out, "0.f");
  for (int at = mod->root, of = 0; mod->node[at].op != FAT_MOD_S;) {
    const char *sign = mod->node[at].op == FAT_MOD_ADD ? "+" : "-";
    at = behind(mod, at, &of);
    const bool split = fat_mod_write_splits(w, of);
    if (!growing || split)
      fat_text_format(w->out, " %s %c%d", sign, !split ? 'v' : growing ? 'e' : 'b', of);
  }
}

void fat_mod_emit_course(const fat_mod *mod, fat_text *out)
{
  fat_mod_writer all, w;
  fat_mod_write_begin(&all, mod, out);
  ask(&all);
  give(&all);
  fat_mod_write_begin(&w, mod, out);
  memcpy(w.known, all.known, sizeof w.known);
  ask(&w); /* but nothing for what is known */
  fat_mod_write_nodes(&w, false);
  fat_text_add(out, "return {");
  write_sum(&w, false);
  fat_text_add(out, ", ");
  write_sum(&w, true);
  fat_text_add(out, "};\t");
}

int fat_mod_emit_known(const fat_mod *mod, fat_text *out)
{
  fat_mod_writer all, w;
  fat_mod_write_begin(&all, mod, out);
  ask(&all);
  const int count = give(&all);
  fat_mod_write_begin(&w, mod, out);
  for (int i = 0; i < mod->count; i++)
    w.said[i] = all.known[i] > 0;
  fat_mod_write_mark(&w);
  fat_mod_write_nodes(&w, false);
  fat_text_add(out, "return {{");
  for (int i = 0; i < mod->count; i++)
    if (all.known[i] > 0)
      fat_text_format(out, all.known[i] > 1 ? ", v%d" : "v%d", i);
  fat_text_add(out, "}};\t");
  return count;
}
