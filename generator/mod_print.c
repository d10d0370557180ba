/* mod_print.c -- an expression as canonical text, and as CUDA with its derivative by s.
 *
 * The derivative is made forwards, beside each value: as many lines as there are operations, whatever the
 * text is. */
#include "mod.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* With nine digits, which name a float, and a point. */
static void print_number(float x, fat_text *out)
{
  char text[32];
  if (isinf(x)) {
    fat_text_add(out, x < 0 ? "-inf" : "inf");
    return;
  }
  snprintf(text, sizeof text, "%.9g", (double)x);
  for (char *s = text; *s; s++)
    *s = *s == ',' ? '.' : *s;
  fat_text_format(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_literal(const fat_mod_node *n, fat_text *out)
{
  if (n->type == FAT_MOD_WHOLE)
    fat_text_format(out, "%d", (int)n->whole);
  else
    print_number(n->number, out);
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

/* -- CUDA */

/* ORDER MOD OP: the value, of $a $b $c; the derivative, of those and of theirs, $A $B $C, where the operands
 * that have none have "0.f", and of the value, $v. */
static const struct {
  const char *value, *slope;
} forms[FAT_MOD_OPS] = {
    {0},
    {"s", "1.f"},
    {"x.b", 0},
    {"x.h", 0},
    {"x.i", 0},
    {"x.j", 0},
    {"x.q", 0},
    {"x.k", 0},
    {"$a || $b", 0},
    {"$a && $b", 0},
    {"!$a", 0},
    {"$a < $b", 0},
    {"$a <= $b", 0},
    {"$a > $b", 0},
    {"$a >= $b", 0},
    {"$a == $b", 0},
    {"$a != $b", 0},
    {"$a + $b", "$A + $B"},
    {"$a - $b", "$A - $B"},
    {"$a * $b", "$A * $b + $a * $B"},
    {"$a / $b", "($A - $v * $B) / $b"},
    {"floor_over($a, $b)", 0},
    {"floor_rest($a, $b)", 0},
    {"-$a", "-$A"},
    {"magnitude($a)", "($a < 0.f ? -$A : $A)"},
    {"lesser($a, $b)", "($a <= $b ? $A : $B)"},
    {"greater($a, $b)", "($a >= $b ? $A : $B)"},
    {"exp_of($a)", "$v * $A"},
    {"log_of($a)", "$A / $a"},
    {"tanh_of($a)", "(1.f - $v * $v) * $A"},
    {"$a ? $b : $c", "($a ? $B : $C)"},
    {0},
    {"float($a)", 0},
};

/* Whole numbers are added, subtracted and multiplied without a sign: they wrap around. */
static bool wraps(const fat_mod_node *n)
{
  return n->type == FAT_MOD_WHOLE && n->op >= FAT_MOD_ADD && n->op <= FAT_MOD_MINUS &&
         n->op != FAT_MOD_FLOOR && n->op != FAT_MOD_REST;
}

static void emit_form(const fat_mod *m, int i, const char *form, fat_text *out)
{
  const fat_mod_node *n = &m->node[i];
  for (; *form; form++) {
    if (*form != '$') {
      fat_text_add_bytes(out, form, 1);
      continue;
    }
    const char what = *++form;
    const bool slope = what >= 'A' && what <= 'C';
    const int of = what == 'v' ? i : n->of[what - (slope ? 'A' : 'a')];
    if (slope && !m->node[of].varies)
      fat_text_add(out, "0.f");
    else
      fat_text_format(out, wraps(n) && what != 'v' ? "u32(%c%d)" : "%c%d", slope ? 'd' : 'v', of);
  }
}

static void emit_value(const fat_mod *m, int i, fat_text *out)
{
  static const char *const types[] = {"bool", "i32", "float"};
  const fat_mod_node *n = &m->node[i];
  fat_text_format(out, "const %s v%d = ", types[n->type], i);
  if (n->op == FAT_MOD_LITERAL && n->type == FAT_MOD_WHOLE) {
    fat_text_format(out, "%d", (int)n->whole);
  } else if (n->op == FAT_MOD_LITERAL && isinf(n->number)) {
    fat_text_add(out, n->number < 0 ? "minus_inf()" : "-minus_inf()");
  } else if (n->op == FAT_MOD_LITERAL) {
    print_number(n->number, out);
    fat_text_add(out, "f");
  } else if (n->op == FAT_MOD_LOOKUP) {
    fat_text_format(out, "((const %s *)a.table%d.data)[", types[n->type], n->table);
    emit_form(m, i, n->of[1] < 0 ? "entry_of($a" : "entry_of($a, $b", out);
    fat_text_format(out, ", a.table%d)]", n->table);
  } else if (n->op == FAT_MOD_OVER && m->node[n->of[1]].op == FAT_MOD_LITERAL) {
    emit_form(m, i, "$a * (1.f / $b)", out); /* a constant: no division is left */
  } else {
    fat_text_add(out, wraps(n) ? "i32(" : "");
    emit_form(m, i, forms[n->op].value, out);
    fat_text_add(out, wraps(n) ? ")" : "");
  }
  fat_text_add(out, ";\t");
}

void fat_mod_emit(const fat_mod *mod, bool slopes, fat_text *out)
{
  bool used[FAT_MOD_NODES] = {false};
  used[mod->root] = true;
  for (int i = mod->count - 1; i >= 0; i--) /* operands stand before */
    for (int n = 0; used[i] && n < 3; n++)
      if (mod->node[i].of[n] >= 0)
        used[mod->node[i].of[n]] = true;
  for (int i = 0; i < mod->count; i++) {
    if (!used[i])
      continue;
    emit_value(mod, i, out);
    if (!slopes || !mod->node[i].varies)
      continue;
    fat_text_format(out, "const float d%d = ", i);
    emit_form(mod, i, forms[mod->node[i].op].slope, out);
    fat_text_add(out, ";\t");
  }
  if (!slopes)
    fat_text_format(out, "return v%d;\t", mod->root);
  else
    fat_text_format(out, mod->node[mod->root].varies ? "return {v%d, d%d};\t" : "return {v%d, 0.f};\t",
                    mod->root, mod->root);
}

/* From the root down by sums, of which s is a summand on one side alone. */
bool fat_mod_adds(const fat_mod *mod)
{
  const fat_mod_node *n = &mod->node[mod->root];
  while (n->op != FAT_MOD_S) {
    const fat_mod_node *a = n->of[0] >= 0 ? &mod->node[n->of[0]] : NULL,
                       *b = n->of[1] >= 0 ? &mod->node[n->of[1]] : NULL;
    if (n->op == FAT_MOD_ADD && a->varies != b->varies)
      n = a->varies ? a : b;
    else if (n->op == FAT_MOD_SUB && a->varies && !b->varies)
      n = a;
    else
      return false;
  }
  return true;
}
