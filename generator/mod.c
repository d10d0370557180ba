/* mod.c -- parses an expression by recursive descent, bounded in depth, into nodes with types. */
#include "mod.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER MOD OP */
const fat_mod_row fat_mod_rows[FAT_MOD_OPS] = {
    {"", 0, 0},       {"s", 0, 0},     {"b", 0, 0},   {"h", 0, 0},   {"i", 0, 0},   {"j", 0, 0},
    {"q", 0, 0},      {"k", 0, 0},     {"or", 2, 1},  {"and", 2, 2}, {"not", 1, 3}, {"<", 2, 4},
    {"<=", 2, 4},     {">", 2, 4},     {">=", 2, 4},  {"==", 2, 4},  {"!=", 2, 4},  {"+", 2, 5},
    {"-", 2, 5},      {"*", 2, 6},     {"/", 2, 6},   {"//", 2, 6},  {"%", 2, 6},   {"-", 1, FAT_MOD_UNARY},
    {"abs", 1, 0},    {"min", 2, 0},   {"max", 2, 0}, {"exp", 1, 0}, {"log", 1, 0}, {"tanh", 1, 0},
    {"select", 3, 0}, {"table", 2, 0}, {"", 1, 0},
};

enum { COMPARES = 4, NO_NODE = -1 };

typedef struct parser {
  const char *text, *at; /* `at`: the word that is next */
  size_t length;         /* of that; 0: the end */
  int depth;
  fat_mod *mod;
  fat_error *err;
  bool failed;
} parser;

__attribute__((format(printf, 3, 4))) static int fail(parser *x, const char *at, const char *format, ...)
{
  char reason[256];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  if (!x->failed)
    fat_status_fail(x->err, FAT_E_INPUT, "%s '%.200s': column %d: %s",
                    x->mod->which == FAT_MOD ? "score mod" : "mask mod", x->text, (int)(at - x->text) + 1,
                    reason);
  x->failed = true;
  return NO_NODE;
}

/* -- words */

static bool is_name(char c)
{
  return fat_text_is_letter(c) || fat_text_is_digit(c) || c == '_';
}

/* How long a number is: digits, a point, an exponent. */
static size_t number_length(const char *s)
{
  size_t n = strspn(s, "0123456789.");
  if (s[n] == 'e' || s[n] == 'E') {
    const size_t sign = s[n + 1] == '-' || s[n + 1] == '+';
    const size_t digits = strspn(s + n + 1 + sign, "0123456789");
    n += digits ? 1 + sign + digits : 0;
  }
  return n;
}

static void next(parser *x)
{
  const char *s = x->at + x->length;
  s += strspn(s, " \t\r\n");
  x->at = s;
  x->length = 0;
  if (fat_text_is_digit(*s) || (*s == '.' && fat_text_is_digit(s[1])))
    x->length = number_length(s);
  else if (is_name(*s))
    while (is_name(s[x->length]))
      x->length++;
  else if (*s && ((strchr("<>=!", *s) && s[1] == '=') || (*s == '/' && s[1] == '/')))
    x->length = 2;
  else if (*s) { /* a whole letter: messages name it */
    const size_t bytes = fat_text_character(s, strlen(s));
    x->length = bytes ? bytes : 1;
  }
}

static bool is(const parser *x, const char *word)
{
  return strlen(word) == x->length && memcmp(word, x->at, x->length) == 0;
}

static bool take(parser *x, const char *word)
{
  if (!is(x, word))
    return false;
  next(x);
  return true;
}

static void expect(parser *x, const char *word)
{
  if (!take(x, word))
    fail(x, x->at, "'%s' is expected, not '%.*s'", word, x->length ? (int)x->length : 7,
         x->length ? x->at : "the end");
}

/* -- nodes */

static int add(parser *x, fat_mod_node n, const char *at)
{
  fat_mod *m = x->mod;
  if (x->failed)
    return NO_NODE;
  for (int i = 0; i < fat_mod_rows[n.op].of && n.of[i] >= 0; i++) {
    const fat_mod_node *of = &m->node[n.of[i]];
    n.depth = of->depth + (n.op != FAT_MOD_FLOAT) > n.depth ? (uint8_t)(of->depth + (n.op != FAT_MOD_FLOAT))
                                                            : n.depth;
    n.varies = n.varies || (of->varies && n.type == FAT_MOD_NUMBER);
  }
  if (n.depth > FAT_MOD_DEPTH)
    return fail(x, at, "operations lie within each other more than %d deep", FAT_MOD_DEPTH);
  for (int i = 0; i < m->count; i++)
    if (memcmp(&m->node[i], &n, sizeof n) == 0)
      return i;
  if (m->count == FAT_MOD_NODES)
    return fail(x, at, "there are more than %d operations", FAT_MOD_NODES);
  m->node[m->count] = n;
  return m->count++;
}

/* All bytes are set, those between members too: equal nodes are found by them. */
static fat_mod_node node(fat_mod_op op, fat_mod_type type, int a, int b, int c)
{
  fat_mod_node n;
  memset(&n, 0, sizeof n);
  n.op = (uint8_t)op;
  n.type = (uint8_t)type;
  n.of[0] = (int16_t)a;
  n.of[1] = (int16_t)b;
  n.of[2] = (int16_t)c;
  return n;
}

static fat_mod_type type_of(const parser *x, int n)
{
  return n < 0 ? FAT_MOD_NUMBER : (fat_mod_type)x->mod->node[n].type;
}

static int as_number(parser *x, int n, const char *at)
{
  if (n < 0 || type_of(x, n) == FAT_MOD_NUMBER)
    return n;
  return add(x, node(FAT_MOD_FLOAT, FAT_MOD_NUMBER, n, NO_NODE, NO_NODE), at);
}

/* What an operation takes and gives; -1: as its operands are. */
static bool fits(parser *x, fat_mod_op op, int *of, int count, const char *at, fat_mod_type *type)
{
  const bool logic = op == FAT_MOD_OR || op == FAT_MOD_AND || op == FAT_MOD_NOT;
  const bool real = op == FAT_MOD_OVER || op == FAT_MOD_EXP || op == FAT_MOD_LOG || op == FAT_MOD_TANH;
  const bool whole = op == FAT_MOD_FLOOR || op == FAT_MOD_REST;
  fat_mod_type most = logic ? FAT_MOD_BOOL : FAT_MOD_WHOLE;
  if (x->failed)
    return false;
  for (int i = op == FAT_MOD_SELECT; i < count; i++) {
    if (logic != (type_of(x, of[i]) == FAT_MOD_BOOL))
      fail(x, at,
           logic ? "'%s' takes bools: compare numbers first"
                 : "'%s' takes numbers, not bools: use select(bool, x, y)",
           op == FAT_MOD_LOOKUP ? "[]" : fat_mod_rows[op].name);
    most = type_of(x, of[i]) > most ? type_of(x, of[i]) : most;
  }
  if (op == FAT_MOD_SELECT && type_of(x, of[0]) != FAT_MOD_BOOL)
    fail(x, at, "select begins with a bool: select(bool, x, y)");
  if ((whole || op == FAT_MOD_LOOKUP) && most != FAT_MOD_WHOLE)
    fail(x, at, "'%s' takes whole numbers", whole ? fat_mod_rows[op].name : "[]");
  most = real ? FAT_MOD_NUMBER : most;
  for (int i = op == FAT_MOD_SELECT; i < count && most == FAT_MOD_NUMBER; i++)
    of[i] = as_number(x, of[i], at);
  *type = fat_mod_rows[op].binds == COMPARES ? FAT_MOD_BOOL : most;
  return !x->failed;
}

static int operation(parser *x, fat_mod_op op, int a, int b, int c, const char *at)
{
  int of[3] = {a, b, c};
  fat_mod_type type;
  if (!fits(x, op, of, fat_mod_rows[op].of, at, &type))
    return NO_NODE;
  return add(x, node(op, type, of[0], of[1], of[2]), at);
}

/* -- the grammar */

static int expression(parser *x, int binds);

static int literal(parser *x, double value, bool whole, const char *at)
{
  fat_mod_node n = node(FAT_MOD_LITERAL, whole ? FAT_MOD_WHOLE : FAT_MOD_NUMBER, NO_NODE, NO_NODE, NO_NODE);
  if (whole)
    n.whole = (int32_t)value;
  else
    n.number = (float)value;
  return add(x, n, at);
}

/* Read here since the library's functions ask the locale what a point is. */
static int number(parser *x)
{
  const char *at = x->at, *s = at, *end = at + x->length;
  double value = 0;
  int exponent = 0, points = 0, power = 0;
  for (; s < end && *s != 'e' && *s != 'E'; s++) {
    points += *s == '.';
    exponent -= points && *s != '.' && exponent > -400;
    value = *s == '.' ? value : value * 10 + (*s - '0');
  }
  const bool whole = points == 0 && s == end, down = s < end && s[1] == '-';
  for (s += s < end; s < end; s++)
    power = fat_text_is_digit(*s) && power < 1000 ? power * 10 + (*s - '0') : power;
  for (exponent += down ? -power : power; exponent < 0 && value > 0; exponent++)
    value /= 10;
  for (; exponent > 0 && value > 0 && value < 1e300; exponent--)
    value *= 10;
  next(x);
  if (points > 1)
    return fail(x, at, "a number has one point at most");
  if (whole && value > INT32_MAX)
    return fail(x, at, "whole numbers go up to %d", INT32_MAX);
  if (!isfinite((float)value))
    return fail(x, at, "numbers go up to 3.4e38");
  return literal(x, value, whole, at);
}

/* tableN, itableN: [x] or [y, x]. */
static int lookup(parser *x, int table, bool whole, const char *at)
{
  const uint8_t bit = (uint8_t)(1u << table);
  fat_mod *m = x->mod;
  expect(x, "[");
  int first = expression(x, 1), second = NO_NODE;
  const bool wide = take(x, ",");
  if (wide)
    second = expression(x, 1);
  expect(x, "]");
  if (m->tables & bit && ((m->whole_tables & bit) != 0) != whole)
    return fail(x, at, "table %d is of numbers (table%d) and of whole numbers (itable%d)", table, table,
                table);
  if (m->tables & bit && ((m->wide_tables & bit) != 0) != wide)
    return fail(x, at, "table %d has one index and two", table);
  m->tables |= bit;
  m->whole_tables |= whole ? bit : 0;
  m->wide_tables |= wide ? bit : 0;
  int of[3] = {first, second, NO_NODE};
  fat_mod_type type;
  if (!fits(x, FAT_MOD_LOOKUP, of, wide ? 2 : 1, at, &type))
    return NO_NODE;
  fat_mod_node n = node(FAT_MOD_LOOKUP, whole ? FAT_MOD_WHOLE : FAT_MOD_NUMBER, first, second, NO_NODE);
  n.table = (uint8_t)table;
  return add(x, n, at);
}

static int call(parser *x, fat_mod_op op, const char *at)
{
  int of[3] = {NO_NODE, NO_NODE, NO_NODE};
  expect(x, "(");
  for (int i = 0; i < fat_mod_rows[op].of && !x->failed; i++) {
    if (i > 0)
      expect(x, ",");
    of[i] = expression(x, 1);
  }
  expect(x, ")");
  return operation(x, op, of[0], of[1], of[2], at);
}

/* A name: of what a pair has, of a function, of a table. */
static int name(parser *x)
{
  const char *at = x->at;
  const size_t length = x->length;
  const bool whole = length == 7 && *at == 'i';
  for (int op = FAT_MOD_S; op <= FAT_MOD_K; op++)
    if (take(x, fat_mod_rows[op].name)) {
      if (op == FAT_MOD_S && x->mod->which == FAT_MASK_MOD)
        return fail(x, at, "a mask has no s: whether a row sees a key is no matter of their score");
      fat_mod_node n =
          node((fat_mod_op)op, op == FAT_MOD_S ? FAT_MOD_NUMBER : FAT_MOD_WHOLE, NO_NODE, NO_NODE, NO_NODE);
      n.varies = op == FAT_MOD_S;
      return add(x, n, at);
    }
  for (int op = FAT_MOD_ABS; op <= FAT_MOD_SELECT; op++)
    if (take(x, fat_mod_rows[op].name))
      return call(x, (fat_mod_op)op, at);
  if (take(x, "inf"))
    return literal(x, (double)INFINITY, false, at);
  if (length == 6u + whole && memcmp(at + whole, "table", 5) == 0 && at[5 + whole] >= '0' &&
      at[5 + whole] < '0' + FAT_MOD_TABLES) {
    next(x);
    return lookup(x, at[5 + whole] - '0', whole, at);
  }
  return fail(x, at,
              "'%.*s' is no name: s b h i j q k, inf, abs min max exp log tanh select, table0 to table3, "
              "itable0 to itable3",
              (int)length, at);
}

static int primary(parser *x)
{
  const char *at = x->at;
  if (x->length == 0)
    return fail(x, at, "the text ends where a value is expected");
  if (take(x, "(")) {
    const int n = expression(x, 1);
    expect(x, ")");
    return n;
  }
  if (fat_text_is_digit(*at) || *at == '.')
    return number(x);
  if (is_name(*at))
    return name(x);
  return fail(x, at, "'%.*s' stands where a value is expected", (int)x->length, at);
}

static int unary(parser *x)
{
  const char *at = x->at;
  const bool denies = is(x, "not");
  if (!denies && !is(x, "-"))
    return primary(x);
  next(x);
  const int n = expression(x, denies ? 3 : FAT_MOD_UNARY);
  if (n >= 0 && !denies && x->mod->node[n].op == FAT_MOD_LITERAL)
    return type_of(x, n) == FAT_MOD_WHOLE ? literal(x, -(double)x->mod->node[n].whole, true, at)
                                          : literal(x, -(double)x->mod->node[n].number, false, at);
  return operation(x, denies ? FAT_MOD_NOT : FAT_MOD_MINUS, n, NO_NODE, NO_NODE, at);
}

/* The operator that is next, if it binds so closely. */
static int operator_at(const parser *x, int binds)
{
  for (int op = FAT_MOD_OR; op < FAT_MOD_MINUS; op++)
    if (op != FAT_MOD_NOT && fat_mod_rows[op].binds >= binds && is(x, fat_mod_rows[op].name))
      return op;
  return NO_NODE;
}

static int expression(parser *x, int binds)
{
  if (++x->depth > FAT_MOD_DEPTH * 2)
    return fail(x, x->at, "operations lie within each other more than %d deep", FAT_MOD_DEPTH);
  int left = unary(x), last = 0;
  for (int op; !x->failed && (op = operator_at(x, binds)) >= 0;) {
    const char *at = x->at;
    const int row = fat_mod_rows[op].binds;
    if (row == COMPARES && last == COMPARES)
      return fail(x, at, "comparisons do not chain: join two by 'and'");
    next(x);
    left = operation(x, (fat_mod_op)op, left, expression(x, row + 1), NO_NODE, at);
    last = row;
  }
  x->depth--;
  return left;
}

/* -- whole texts */

fat_status fat_mod_parse(const char *text, fat_feature which, fat_mod **mod, fat_error *err)
{
  *mod = NULL;
  if (strlen(text) > FAT_MOD_TEXT)
    return fat_status_fail(err, FAT_E_INPUT, "an expression has %zu letters: at most %d are allowed",
                           strlen(text), FAT_MOD_TEXT);
  fat_mod *m = calloc(1, sizeof *m + FAT_MOD_NODES * sizeof *m->node);
  if (m == NULL)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory");
  m->which = which;
  parser x = {.text = text, .at = text, .mod = m, .err = err};
  next(&x);
  int root = expression(&x, 1);
  if (!x.failed && x.length > 0)
    fail(&x, x.at, "'%.*s' is left over", (int)x.length, x.at);
  if (!x.failed && (which == FAT_MASK_MOD) != (type_of(&x, root) == FAT_MOD_BOOL))
    fail(&x, text,
         which == FAT_MOD ? "this is a bool, which no score becomes: give it as a mask"
                          : "this is a number, and a mask is a bool: compare it, or give it as a score mod");
  if (!x.failed && which == FAT_MOD)
    root = as_number(&x, root, text);
  m->root = root;
  const fat_status status = x.failed ? FAT_E_INPUT : fat_mod_name(m, err);
  if (status == FAT_OK)
    *mod = m;
  else
    fat_mod_free(m);
  return status;
}
