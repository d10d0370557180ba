/* expr.c -- the arithmetic of a recipe: read by recursive descent, printed, evaluated on a small stack.
 *
 *   expr = term {('+' | '-') term}     term = operand {'*' operand}
 *   operand = number | name of a size | (ceildiv | min | max) '(' expr ',' expr ')' | '(' expr ')'
 *
 * Operations stand in postfix order as they were read: a number or name pushes, an operator takes two and
 * pushes one. Evaluation trusts no number: each operation is checked for overflow. */
#include "expr.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { DEPTH = 24 /* of parentheses and calls within each other, so that no text can exhaust the stack */ };

typedef enum operation { NUMBER, SIZE, ADD, SUB, MUL, CEILDIV, MIN, MAX, OPERATIONS } operation;

/* ORDER OPERATION. Level: how strongly an infix operator binds; 0 for what is none. */
static const struct {
  const char *name;
  int level;
} operations[OPERATIONS] = {
    {"", 0}, {"", 0}, {"+", 1}, {"-", 1}, {"*", 2}, {"ceildiv", 0}, {"min", 0}, {"max", 0},
};
enum { LEVELS = 2 };

static const struct {
  const char *name;
  size_t offset;
} names[] = {
    {"b", offsetof(fat_sizes, b)},         {"h", offsetof(fat_sizes, h)},
    {"hk", offsetof(fat_sizes, hk)},       {"q", offsetof(fat_sizes, q)},
    {"k", offsetof(fat_sizes, k)},         {"SMs", offsetof(fat_sizes, sms)},
    {"tq", offsetof(fat_sizes, tq)},       {"tk", offsetof(fat_sizes, tk)},
    {"L", offsetof(fat_sizes, left)},      {"R", offsetof(fat_sizes, right)},
    {"chunk", offsetof(fat_sizes, chunk)}, {"split", offsetof(fat_sizes, split)},
};
enum { NAMES = sizeof names / sizeof *names };

typedef struct reader {
  const char *at;
  int depth;
  fat_expr *e;
  fat_error *err;
} reader;

static fat_status fail(const reader *r, const char *expected)
{
  return fat_status_fail(r->err, FAT_E_INPUT, "expected %s", expected);
}

static fat_status push(reader *r, operation op, int64_t value)
{
  fat_expr *e = r->e;
  if (e->count == FAT_EXPR_CODE)
    return fat_status_fail(r->err, FAT_E_INPUT,
                           "expected an expression of at most %d numbers, names and operators",
                           FAT_EXPR_CODE);
  e->op[e->count] = (unsigned char)op;
  e->value[e->count++] = value;
  return FAT_OK;
}

static fat_status take(reader *r, char letter, const char *expected)
{
  if (*r->at != letter)
    return fail(r, expected);
  r->at++;
  return FAT_OK;
}

/* Whether this word stands here; moves behind it if so. */
static bool take_word(reader *r, const char *word)
{
  size_t n = strlen(word);
  if (strncmp(r->at, word, n) != 0 || fat_text_is_letter(r->at[n]) || r->at[n] == '_' ||
      fat_text_is_digit(r->at[n]))
    return false;
  r->at += n;
  return true;
}

static fat_status read_number(reader *r)
{
  const char *s = r->at;
  int64_t n = 0;
  if (*s == '0' && fat_text_is_digit(s[1]))
    return fail(r, "a number without leading zeros");
  for (; fat_text_is_digit(*s); s++) {
    if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s - '0', &n))
      return fail(r, "a number of at most 9223372036854775807");
  }
  r->at = s;
  return push(r, NUMBER, n);
}

static fat_status read_level(reader *r, int level);

static fat_status read_operand(reader *r)
{
  if (fat_text_is_digit(*r->at))
    return read_number(r);
  for (int i = 0; i < NAMES; i++)
    if (take_word(r, names[i].name))
      return push(r, SIZE, i);
  for (int op = CEILDIV; op < OPERATIONS; op++) {
    if (!take_word(r, operations[op].name))
      continue;
    FAT_TRY(take(r, '(', "'('"));
    FAT_TRY(read_level(r, 1));
    FAT_TRY(take(r, ',', "an operator or ','"));
    FAT_TRY(read_level(r, 1));
    FAT_TRY(take(r, ')', "an operator or ')'"));
    return push(r, (operation)op, 0);
  }
  FAT_TRY(take(r, '(', "a whole number, one of " FAT_EXPR_NAMES ", ceildiv(, min(, max( or '('"));
  FAT_TRY(read_level(r, 1));
  return take(r, ')', "an operator or ')'");
}

/* The infix operator of this level that stands here; NUMBER if there is none. */
static operation infix(const reader *r, int level)
{
  for (int op = ADD; op <= MUL; op++)
    if (operations[op].level == level && *r->at == operations[op].name[0])
      return (operation)op;
  return NUMBER;
}

/* Operands of the next level, joined from left to right by operators of this one. */
static fat_status read_level(reader *r, int level)
{
  if (level > LEVELS)
    return read_operand(r);
  if (level == 1 && r->depth++ == DEPTH) /* recursion comes around at level 1 alone */
    return fail(r, "fewer parentheses within each other");
  FAT_TRY(read_level(r, level + 1));
  for (operation op = infix(r, level); op != NUMBER; op = infix(r, level)) {
    r->at++;
    FAT_TRY(read_level(r, level + 1));
    FAT_TRY(push(r, op, 0));
  }
  r->depth -= level == 1;
  return FAT_OK;
}

fat_status fat_expr_parse(const char **at, fat_expr *e, fat_error *err)
{
  reader r = {.at = *at, .e = e, .err = err};
  memset(e, 0, sizeof *e);
  fat_status status = read_level(&r, 1);
  *at = r.at;
  if (status != FAT_OK)
    memset(e, 0, sizeof *e);
  return status;
}

/* Where the operations begin that make up the operand which ends at `last`. */
static int begin(const fat_expr *e, int last)
{
  int i = last;
  for (int missing = 1; i > 0; i--) {
    missing += e->op[i] >= ADD ? 1 : -1;
    if (missing == 0)
      break;
  }
  return i;
}

/* Prints the operand that ends at `last`, in parentheses if it binds less than `level`. A right operand is
 * asked for one level more, since operators of one level are read from the left. */
static void print(const fat_expr *e, int last, int level, fat_text *out)
{
  if (last < 0)
    return;
  int op = e->op[last];
  if (op == NUMBER) {
    fat_text_format(out, "%" PRId64, e->value[last]);
    return;
  }
  if (op == SIZE || op >= OPERATIONS) {
    fat_text_add(out, op == SIZE ? names[e->value[last]].name : "?");
    return;
  }
  int right = last - 1, left = begin(e, right) - 1, own = operations[op].level;
  bool call = own == 0, parentheses = !call && own < level;
  fat_text_add(out, call ? operations[op].name : "");
  fat_text_add(out, call || parentheses ? "(" : "");
  print(e, left, own, out);
  fat_text_add(out, call ? "," : operations[op].name);
  print(e, right, call ? 0 : own + 1, out);
  fat_text_add(out, call || parentheses ? ")" : "");
}

void fat_expr_print(const fat_expr *e, fat_text *out)
{
  print(e, e->count - 1, 0, out);
}

static fat_status apply(operation op, int64_t a, int64_t b, int64_t *value, fat_error *err)
{
  bool overflow = false;
  switch (op) {
  case ADD:
    overflow = __builtin_add_overflow(a, b, value);
    break;
  case SUB:
    overflow = __builtin_sub_overflow(a, b, value);
    break;
  case MUL:
    overflow = __builtin_mul_overflow(a, b, value);
    break;
  case CEILDIV:
    if (b <= 0)
      return fat_status_fail(err, FAT_E_INPUT,
                             "ceildiv(%" PRId64 ",%" PRId64 "): the divisor must be positive", a, b);
    *value = a / b + (a % b > 0); /* division goes to zero: already up where a is negative */
    break;
  case MIN:
    *value = a < b ? a : b;
    break;
  case MAX:
    *value = a > b ? a : b;
    break;
  default:
    return fat_status_fail(err, FAT_E_INPUT, "operation %d is unknown", (int)op);
  }
  if (overflow)
    return fat_status_fail(err, FAT_E_INPUT, "%" PRId64 " %s %" PRId64 " is beyond 64 bits", a,
                           operations[op].name, b);
  return FAT_OK;
}

fat_status fat_expr_eval(const fat_expr *e, const fat_sizes *sizes, int64_t *value, fat_error *err)
{
  int64_t stack[FAT_EXPR_CODE];
  int top = 0;
  if (e->count == 1 && e->op[0] == NUMBER) { /* most are, and calls wait for them */
    *value = e->value[0];
    return FAT_OK;
  }
  for (int i = 0; i < e->count; i++) {
    operation op = (operation)e->op[i];
    if (op == NUMBER)
      stack[top++] = e->value[i];
    else if (op == SIZE)
      memcpy(&stack[top++], (const char *)sizes + names[e->value[i]].offset, sizeof *stack);
    else {
      if (top < 2)
        return fat_status_fail(err, FAT_E_INPUT, "the expression is not complete");
      top--;
      FAT_TRY(apply(op, stack[top - 1], stack[top], &stack[top - 1], err));
    }
  }
  if (top != 1)
    return fat_status_fail(err, FAT_E_INPUT, "the expression is not complete");
  *value = stack[0];
  return FAT_OK;
}
