/* mod_print.c -- an expression as canonical text. */
#include "mod.h"

#include <math.h>
#include <string.h>

void fat_mod_print_number(float x, fat_text *out)
{
  char text[FAT_TEXT_NUMBER];
  if (isinf(x)) {
    fat_text_add(out, x < 0 ? "-inf" : "inf");
    return;
  }
  fat_text_number((double)x, 9, text);
  fat_text_format(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_literal(const fat_mod_node *n, fat_text *out)
{
  if (n->type == FAT_MOD_WHOLE)
    fat_text_format(out, "%d", (int)n->whole);
  else
    fat_mod_print_number(n->number, out);
}

static int binds(const fat_mod *m, int i)
{
  const fat_mod_node *n = &m->node[i];
  if (n->op == FAT_MOD_FLOAT)
    return binds(m, n->of[0]);
  if (n->op == FAT_MOD_LITERAL && (n->type == FAT_MOD_WHOLE ? n->whole < 0 : signbit(n->number)))
    return FAT_MOD_UNARY;
  return fat_mod_rows[n->op].binds ? fat_mod_rows[n->op].binds : FAT_MOD_UNARY + 1;
}

static void print(const fat_mod *m, int i, int least, fat_text *out);

static void print_list(const fat_mod *m, const fat_mod_node *n, const char *open, const char *close,
                       fat_text *out)
{
  fat_text_add(out, open);
  for (int i = 0; i < 3 && n->of[i] >= 0; i++) {
    fat_text_add(out, i > 0 ? ", " : "");
    print(m, n->of[i], 0, out);
  }
  fat_text_add(out, close);
}

/* As deep as nodes lie within each other, FAT_MOD_DEPTH and a conversion for each. */
static void print(const fat_mod *m, int i, int least, fat_text *out)
{
  const fat_mod_node *n = &m->node[i];
  const fat_mod_row *row = &fat_mod_rows[n->op];
  if (out->length > FAT_MOD_TEXT) /* too long already */
    return;
  if (n->op == FAT_MOD_FLOAT) {
    print(m, n->of[0], least, out);
    return;
  }
  fat_text_add(out, binds(m, i) < least ? "(" : "");
  if (n->op == FAT_MOD_LITERAL) {
    print_literal(n, out);
  } else if (n->op == FAT_MOD_LOOKUP) {
    fat_text_format(out, "%stable%d", n->type == FAT_MOD_WHOLE ? "i" : "", n->table);
    print_list(m, n, "[", "]", out);
  } else if (row->binds && row->of == 2) {
    print(m, n->of[0], row->binds + (row->binds == fat_mod_rows[FAT_MOD_LT].binds), out);
    fat_text_format(out, " %s ", row->name);
    print(m, n->of[1], row->binds + 1, out);
  } else {
    fat_text_format(out, "%s%s", row->name, n->op == FAT_MOD_NOT ? " " : "");
    if (row->binds)
      print(m, n->of[0], row->binds, out);
    else if (row->of > 0)
      print_list(m, n, "(", ")", out);
  }
  fat_text_add(out, binds(m, i) < least ? ")" : "");
}

void fat_mod_print(const fat_mod *mod, fat_text *out)
{
  print(mod, mod->root, 0, out);
}
