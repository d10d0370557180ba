/* mod_emit.c -- an expression as CUDA, with its derivative by s.
 *
 * The derivative is made forwards, beside each value: as many lines as there are operations, whatever the
 * text is.
 *
 * A thread's pairs lie at distances from its first one that compilers know. So what grows evenly with them,
 * like j - i and a table's number times that, is kept as two parts: b of the first pair, made once, and e of
 * the distance, a constant or a multiple of one. No whole number is made, and turned into a float, for each
 * pair. */
#include "mod_write.h"

#include <math.h>
#include <string.h>

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

/* -- what grows evenly with a thread's pairs */

/* A sum that wraps around is not that of its parts. Rows, keys and lengths count as fewer than 2^24. */
#define NAME_MOST 16777216.f
#define NO_WRAP   1073741824.f

static bool sums(const fat_mod_node *n)
{
  return n->op == FAT_MOD_ADD || n->op == FAT_MOD_SUB || n->op == FAT_MOD_MINUS;
}

static float most_of(const fat_mod_node *n, const fat_mod_course *a, const fat_mod_course *b)
{
  if (n->type != FAT_MOD_WHOLE)
    return 0;
  if (n->op == FAT_MOD_LITERAL)
    return fabsf((float)n->whole);
  if (n->op >= FAT_MOD_BATCH && n->op <= FAT_MOD_K)
    return NAME_MOST;
  return sums(n) ? a->most + b->most : INFINITY;
}

static bool over_literal(const fat_mod *m, const fat_mod_node *n)
{
  if (n->op != FAT_MOD_OVER)
    return false;
  const fat_mod_node *by = &m->node[n->of[1]];
  return by->op == FAT_MOD_LITERAL || (by->op == FAT_MOD_FLOAT && m->node[by->of[0]].op == FAT_MOD_LITERAL);
}

/* Operands' courses are known: they stand before. */
static fat_mod_course course_of(const fat_mod *m, int i, const fat_mod_course *all)
{
  static const fat_mod_course none = {FAT_MOD_FIXED, 0, 0, 0};
  const fat_mod_node *n = &m->node[i];
  const fat_mod_course *of[3];
  uint8_t furthest = FAT_MOD_FIXED;
  for (int k = 0; k < 3; k++) {
    of[k] = n->of[k] >= 0 ? &all[n->of[k]] : &none;
    furthest = of[k]->goes > furthest ? of[k]->goes : furthest;
  }
  const fat_mod_course *a = of[0], *b = of[1];
  fat_mod_course x = {furthest, n->op == FAT_MOD_I, n->op == FAT_MOD_J, most_of(n, a, b)};
  const bool scales = over_literal(m, n) || (n->op == FAT_MOD_MUL && n->type == FAT_MOD_NUMBER &&
                                             (a->goes == FAT_MOD_FIXED || b->goes == FAT_MOD_FIXED));
  if (n->op == FAT_MOD_I || n->op == FAT_MOD_J)
    x.goes = FAT_MOD_EVEN;
  else if (n->op == FAT_MOD_S || (furthest == FAT_MOD_EVEN && !sums(n) && !scales && n->op != FAT_MOD_FLOAT))
    x.goes = FAT_MOD_FREE;
  if (x.most > NO_WRAP && x.goes == FAT_MOD_EVEN)
    x.goes = FAT_MOD_FREE;
  if (sums(n)) {
    const int first = n->op == FAT_MOD_MINUS ? -1 : 1, second = n->op == FAT_MOD_ADD ? 1 : -1;
    x.by_row = (int8_t)(first * a->by_row + second * b->by_row);
    x.by_key = (int8_t)(first * a->by_key + second * b->by_key);
  }
  return x;
}

void fat_mod_write_begin(fat_mod_writer *w, const fat_mod *mod, fat_text *out)
{
  *w = (fat_mod_writer){.mod = mod, .out = out};
  for (int i = 0; i < mod->count; i++)
    w->course[i] = course_of(mod, i, w->course);
}

/* -- lines */

bool fat_mod_write_splits(const fat_mod_writer *w, int i)
{
  return w->course[i].goes == FAT_MOD_EVEN;
}

/* Whose size, as a number, node i is, where that goes evenly: float(abs(i - j)). */
static int distance_of(const fat_mod_writer *w, int i)
{
  const fat_mod_node *n = &w->mod->node[i];
  if (n->op != FAT_MOD_FLOAT || w->mod->node[n->of[0]].op != FAT_MOD_ABS)
    return -1;
  const int of = w->mod->node[n->of[0]].of[0];
  return fat_mod_write_splits(w, of) ? of : -1;
}

/* Of operands that are split the `part` asked for. */
static void emit_form(const fat_mod_writer *w, int i, const char *form, char part)
{
  const fat_mod_node *n = &w->mod->node[i];
  for (; *form; form++) {
    if (*form != '$') {
      fat_text_add_bytes(w->out, form, 1);
      continue;
    }
    const char what = *++form;
    const bool slope = what >= 'A' && what <= 'C';
    const int of = what == 'v' ? i : n->of[what - (slope ? 'A' : 'a')];
    const char letter = slope ? 'd' : fat_mod_write_splits(w, of) ? part : 'v';
    if (slope && !w->mod->node[of].varies)
      fat_text_add(w->out, "0.f");
    else
      fat_text_format(w->out, wraps(n) && what != 'v' ? "u32(%c%d)" : "%c%d", letter, of);
  }
}

/* A literal's reciprocal is a constant: no division is left. */
static const char *value_form(const fat_mod_writer *w, int i)
{
  const fat_mod_node *n = &w->mod->node[i];
  return over_literal(w->mod, n) ? "$a * (1.f / $b)" : forms[n->op].value;
}

/* The part that grows: of a sum's operands those that do. */
static const char *growing_form(const fat_mod_writer *w, int i)
{
  const fat_mod_node *n = &w->mod->node[i];
  const bool first = fat_mod_write_splits(w, n->of[0]),
             second = n->of[1] >= 0 && fat_mod_write_splits(w, n->of[1]);
  if (!sums(n) || n->op == FAT_MOD_MINUS || (first && second))
    return value_form(w, i);
  return first ? "$a" : n->op == FAT_MOD_ADD ? "$b" : "-$b";
}

/* Of the whole number `of`, which goes evenly, as parts of node i. */
static void emit_converted(const fat_mod_writer *w, int i, int of)
{
  const fat_mod_course *a = &w->course[of];
  fat_text_format(w->out, "const float b%d = float(b%d), e%d = float(%d * x.rows_on + %d * x.keys_on);\t", i,
                  of, i, a->by_row, a->by_key);
}

/* Of a whole number the first pair's alone: the other part is known. */
static void emit_parts(const fat_mod_writer *w, int i)
{
  const fat_mod_node *n = &w->mod->node[i];
  if (n->op == FAT_MOD_FLOAT) {
    emit_converted(w, i, n->of[0]);
    return;
  }
  const bool whole = n->type == FAT_MOD_WHOLE;
  fat_text_format(w->out, whole ? "const i32 b%d = i32(" : "const float b%d = (", i);
  emit_form(w, i,
            n->op == FAT_MOD_I   ? "x.first_i"
            : n->op == FAT_MOD_J ? "x.first_j"
                                 : value_form(w, i),
            'b');
  fat_text_add(w->out, ")");
  if (!whole) {
    fat_text_format(w->out, ", e%d = ", i);
    emit_form(w, i, growing_form(w, i), 'e');
  }
  fat_text_add(w->out, ";\t");
}

static void emit_value(const fat_mod_writer *w, int i)
{
  static const char *const types[] = {"bool", "i32", "float"};
  const fat_mod_node *n = &w->mod->node[i];
  if (distance_of(w, i) >= 0) {
    emit_converted(w, i, distance_of(w, i));
    fat_text_format(w->out, "const float v%d = magnitude(b%d + e%d);\t", i, i, i);
    return;
  }
  if (fat_mod_write_splits(w, i) && n->type == FAT_MOD_NUMBER) {
    fat_text_format(w->out, "const float v%d = b%d + e%d;\t", i, i, i);
    return;
  }
  fat_text_format(w->out, "const %s v%d = ", types[n->type], i);
  if (n->op == FAT_MOD_LITERAL && n->type == FAT_MOD_WHOLE) {
    fat_text_format(w->out, "%d", (int)n->whole);
  } else if (n->op == FAT_MOD_LITERAL && isinf(n->number)) {
    fat_text_add(w->out, n->number < 0 ? "minus_inf()" : "-minus_inf()");
  } else if (n->op == FAT_MOD_LITERAL) {
    fat_mod_print_number(n->number, w->out);
    fat_text_add(w->out, "f");
  } else if (w->known[i]) {
    fat_text_format(w->out, "known.at[%d]", w->known[i] - 1);
  } else if (n->op == FAT_MOD_LOOKUP) {
    fat_text_format(w->out, "((const %s *)a.table%d.data)[", types[n->type], n->table);
    emit_form(w, i, n->of[1] < 0 ? "entry_of($a" : "entry_of($a, $b", 'v');
    fat_text_format(w->out, ", a.table%d)]", n->table);
  } else {
    fat_text_add(w->out, wraps(n) ? "i32(" : "");
    emit_form(w, i, value_form(w, i), 'v');
    fat_text_add(w->out, wraps(n) ? ")" : "");
  }
  fat_text_add(w->out, ";\t");
}

/* Which more nodes are needed as values, and which by their parts, for those that are: from the last one
 * down. */
void fat_mod_write_mark(fat_mod_writer *w)
{
  const fat_mod_node *node = w->mod->node;
  for (int i = w->mod->count - 1; i >= 0; i--) {
    const bool whole = node[i].type == FAT_MOD_WHOLE, even = fat_mod_write_splits(w, i);
    if (even && !whole && w->said[i])
      w->parted[i] = true; /* of which it is made */
    const int inner = distance_of(w, i);
    if (inner >= 0 && w->said[i])
      w->parted[inner] = true;
    for (int n = 0; inner < 0 && !w->known[i] && n < 3 && node[i].of[n] >= 0; n++) {
      const int of = node[i].of[n];
      w->parted[of] |= w->parted[i] && fat_mod_write_splits(w, of);
      w->said[of] |= (w->parted[i] && !fat_mod_write_splits(w, of)) || (w->said[i] && (whole || !even));
    }
  }
}

void fat_mod_write_nodes(const fat_mod_writer *w, bool slopes)
{
  const fat_mod *mod = w->mod;
  for (int i = 0; i < mod->count; i++) {
    if (w->parted[i])
      emit_parts(w, i);
    if (w->said[i])
      emit_value(w, i);
    if (!slopes || !w->said[i] || !mod->node[i].varies)
      continue;
    fat_text_format(w->out, "const float d%d = ", i);
    emit_form(w, i, forms[mod->node[i].op].slope, 'v');
    fat_text_add(w->out, ";\t");
  }
}

void fat_mod_emit(const fat_mod *mod, bool slopes, fat_text *out)
{
  fat_mod_writer w;
  fat_mod_write_begin(&w, mod, out);
  w.said[mod->root] = true;
  fat_mod_write_mark(&w);
  fat_mod_write_nodes(&w, slopes);
  if (!slopes)
    fat_text_format(out, "return v%d;\t", mod->root);
  else
    fat_text_format(out, mod->node[mod->root].varies ? "return {v%d, d%d};\t" : "return {v%d, 0.f};\t",
                    mod->root, mod->root);
}
