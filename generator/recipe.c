/* recipe.c -- the recipe: lines to steps and back.
 *
 * Reading takes one step a line and names line and column of what is wrong. Printing gives the canonical
 * text, which reads back to the same struct. Its numbers are recipe_values.c's. */
#include "recipe.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER ARG; a map has its tensor's name behind */
static const char *const arg_names[FAT_ARG_COUNT] = {"call", "ws", "int", "map"};

/* Where reading stands. */
typedef struct cursor {
  const char *line; /* first byte of the present line, for the column */
  const char *at;
  int number; /* of the line, from 1 */
  fat_error *err;
} cursor;

/* Fails here; `why` begins with "expected". */
static fat_status fail(const cursor *c, const char *why)
{
  int shown = (int)strcspn(c->at, "\n");
  return fat_status_fail(c->err, FAT_E_INPUT, "recipe line %d, column %d: %s %s%.*s%s", c->number,
                         (int)(c->at - c->line) + 1, why, shown > 0 ? "before '" : "at the end of the line",
                         shown < 24 ? shown : 24, c->at, shown > 0 ? "'" : "");
}

static size_t word_length(const cursor *c)
{
  size_t n = 0;
  while (fat_text_is_letter(c->at[n]) || fat_text_is_digit(c->at[n]) || c->at[n] == '_')
    n++;
  return n;
}

static void skip_blanks(cursor *c)
{
  while (*c->at == ' ' || *c->at == '\t')
    c->at++;
}

static bool ends_word(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == 0;
}

/* Whether this word stands here; moves behind it and the blanks after it if so. */
static bool take_word(cursor *c, const char *word)
{
  size_t n = strlen(word);
  if (word_length(c) != n || memcmp(c->at, word, n) != 0)
    return false;
  c->at += n;
  skip_blanks(c);
  return true;
}

/* An expression that ends at `end`, or with end 0 at a blank or the end of the line; moves behind both. */
static fat_status parse_value(cursor *c, fat_expr *e, char end)
{
  fat_error why = {0};
  if (fat_expr_parse(&c->at, e, &why) != FAT_OK)
    return fail(c, why.text);
  if (end != 0 ? *c->at != end : !ends_word(*c->at))
    return fail(c, end != 0 ? "expected an operator or ')'" : "expected an operator or a blank");
  c->at += end != 0;
  skip_blanks(c);
  return FAT_OK;
}

static bool is_name(const char *name, const char *word, size_t n)
{
  return strlen(name) == n && memcmp(name, word, n) == 0;
}

/* Finds which argument a word of n letters names; FAT_ARG_COUNT: none. Tensors of one number a row have no
 * rows to make a box of. */
static fat_arg_kind find_arg(const char *word, size_t n, fat_tensor *tensor)
{
  const size_t stem = strlen(arg_names[FAT_ARG_MAP]);
  *tensor = FAT_Q;
  for (int kind = 0; kind < FAT_ARG_MAP; kind++)
    if (is_name(arg_names[kind], word, n))
      return (fat_arg_kind)kind;
  for (int t = 0; t < FAT_TENSORS && n > stem && is_name(arg_names[FAT_ARG_MAP], word, stem); t++)
    if (fat_tensors[t].width != FAT_WIDE_1 && is_name(fat_tensors[t].name, word + stem, n - stem)) {
      *tensor = (fat_tensor)t;
      return FAT_ARG_MAP;
    }
  return FAT_ARG_COUNT;
}

static fat_status parse_reduced(cursor *c, uint32_t *reduced)
{
  const size_t n = word_length(c);
  int t = 0;
  while (t < FAT_TENSORS && !is_name(fat_tensors[t].name, c->at, n))
    t++;
  if (t == FAT_TENSORS)
    return fail(c, "expected a tensor's name");
  *reduced |= UINT32_C(1) << t;
  c->at += n;
  skip_blanks(c);
  return FAT_OK;
}

static fat_status parse_arg(cursor *c, fat_step *step)
{
  if (step->args == FAT_RECIPE_ARGS)
    return fail(c, "expected no more arguments");
  const size_t n = word_length(c);
  const char behind = c->at[n];
  const fat_arg_kind kind = find_arg(c->at, n, &step->arg[step->args].tensor);
  if (kind == FAT_ARG_COUNT || (kind == FAT_ARG_CALL ? !ends_word(behind) : behind != '('))
    return fail(c, "expected an argument: call, ws(BYTES), int(VALUE) or map and a tensor's name, as in "
                   "mapQ(ROWS),");
  step->arg[step->args].kind = kind;
  c->at += n;
  if (kind == FAT_ARG_CALL)
    skip_blanks(c);
  else {
    c->at++;
    FAT_TRY(parse_value(c, &step->arg[step->args].value, ')'));
    if (!ends_word(*c->at) && c->at[-1] == ')')
      return fail(c, "expected a blank");
  }
  step->args++;
  return FAT_OK;
}

/* NAME grid E block E shared E [cluster E] [heads E] [overlap] args A... */
static fat_status parse_launch(cursor *c, fat_step *step)
{
  const struct {
    const char *name, *expected;
    fat_expr *value;
  } parts[] = {{"grid", "expected 'grid'", &step->grid},
               {"block", "expected 'block'", &step->block},
               {"shared", "expected 'shared'", &step->shared}};
  size_t n = word_length(c);
  if (n == 0 || n >= sizeof step->entry || fat_text_is_digit(*c->at))
    return fail(c, "expected the name of an entry, at most 63 letters, digits and '_',");
  memcpy(step->entry, c->at, n);
  c->at += n;
  skip_blanks(c);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!take_word(c, parts[i].name))
      return fail(c, parts[i].expected);
    FAT_TRY(parse_value(c, parts[i].value, 0));
  }
  if (take_word(c, "cluster"))
    FAT_TRY(parse_value(c, &step->cluster, 0));
  if (take_word(c, "heads"))
    FAT_TRY(parse_value(c, &step->heads, 0));
  step->overlap = take_word(c, "overlap");
  if (!take_word(c, "args"))
    return fail(c, step->overlap         ? "expected 'args'"
                   : step->heads.count   ? "expected 'overlap' or 'args'"
                   : step->cluster.count ? "expected 'heads', 'overlap' or 'args'"
                                         : "expected 'cluster', 'heads', 'overlap' or 'args'");
  while (*c->at != '\n' && *c->at != 0)
    FAT_TRY(parse_arg(c, step));
  return FAT_OK;
}

static fat_status parse_line(cursor *c, fat_recipe *r)
{
  const bool head = r->steps == 0, first = head && r->workspace.count == 0 && r->valids == 0 && !r->reduced;
  if (first && take_word(c, "workspace"))
    return parse_value(c, &r->workspace, 0);
  if (head && take_word(c, "valid"))
    return r->valids == FAT_RECIPE_VALIDS ? fail(c, "expected no more 'valid' lines")
                                          : parse_value(c, &r->valid[r->valids++], 0);
  if (head && take_word(c, "reduces"))
    return parse_reduced(c, &r->reduced);
  if (r->steps == FAT_RECIPE_STEPS)
    return fail(c, "expected no more steps");
  fat_step *step = &r->step[r->steps];
  if (take_word(c, "launch")) {
    step->kind = FAT_STEP_LAUNCH;
    FAT_TRY(parse_launch(c, step));
  } else if (take_word(c, "clear")) {
    step->kind = FAT_STEP_CLEAR;
    FAT_TRY(parse_value(c, &step->offset, 0));
    FAT_TRY(parse_value(c, &step->bytes, 0));
  } else
    return fail(c, first  ? "expected 'workspace', 'valid', 'reduces', 'clear' or 'launch'"
                   : head ? "expected 'valid', 'reduces', 'clear' or 'launch'"
                          : "expected 'clear' or 'launch'");
  r->steps++;
  return FAT_OK;
}

static fat_status parse(cursor *c, fat_recipe *r)
{
  for (; *c->at != 0; c->number++) {
    c->line = c->at;
    skip_blanks(c);
    if (*c->at != '\n' && *c->at != 0) /* empty lines mean nothing */
      FAT_TRY(parse_line(c, r));
    if (*c->at != '\n' && *c->at != 0)
      return fail(c, "expected the end of the line");
    c->at += *c->at == '\n';
  }
  for (int i = 0; i < r->steps; i++)
    if (r->step[i].kind == FAT_STEP_LAUNCH)
      return FAT_OK;
  return fat_status_fail(c->err, FAT_E_INPUT, "the recipe launches nothing: expected a 'launch' line");
}

fat_status fat_recipe_parse(const char *text, fat_recipe *r, fat_error *err)
{
  cursor c = {.line = text, .at = text, .number = 1, .err = err};
  memset(r, 0, sizeof *r);
  fat_status status = parse(&c, r);
  if (status != FAT_OK)
    memset(r, 0, sizeof *r); /* half a recipe is none */
  return status;
}

fat_status fat_recipe_make(const char *text, fat_recipe **r, fat_error *err)
{
  fat_recipe *made = malloc(sizeof *made);
  *r = NULL;
  if (!made)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a recipe");
  fat_status status = fat_recipe_parse(text, made, err);
  if (status != FAT_OK) {
    free(made);
    return status;
  }
  fat_recipe *less = realloc(made, offsetof(fat_recipe, step) + (size_t)made->steps * sizeof made->step[0]);
  *r = less ? less : made;
  return FAT_OK;
}

static void print_value(const char *before, const fat_expr *e, const char *after, fat_text *out)
{
  fat_text_add(out, before);
  fat_expr_print(e, out);
  fat_text_add(out, after);
}

static void print_launch(const fat_step *step, fat_text *out)
{
  fat_text_format(out, "launch %s", step->entry);
  print_value(" grid ", &step->grid, "", out);
  print_value(" block ", &step->block, "", out);
  print_value(" shared ", &step->shared, "", out);
  if (step->cluster.count > 0)
    print_value(" cluster ", &step->cluster, "", out);
  if (step->heads.count > 0)
    print_value(" heads ", &step->heads, "", out);
  fat_text_add(out, step->overlap ? " overlap args" : " args");
  for (int a = 0; a < step->args; a++) {
    const fat_arg_kind kind = step->arg[a].kind;
    fat_text_format(out, " %s%s", arg_names[kind],
                    kind == FAT_ARG_MAP ? fat_tensors[step->arg[a].tensor].name : "");
    if (kind != FAT_ARG_CALL)
      print_value("(", &step->arg[a].value, ")", out);
  }
  fat_text_add(out, "\n");
}

void fat_recipe_print(const fat_recipe *r, fat_text *out)
{
  if (r->workspace.count > 0)
    print_value("workspace ", &r->workspace, "\n", out);
  for (int i = 0; i < r->valids; i++)
    print_value("valid ", &r->valid[i], "\n", out);
  for (int t = 0; t < FAT_TENSORS; t++)
    if (r->reduced >> t & 1)
      fat_text_format(out, "reduces %s\n", fat_tensors[t].name);
  for (int i = 0; i < r->steps; i++) {
    const fat_step *step = &r->step[i];
    if (step->kind == FAT_STEP_CLEAR) {
      print_value("clear ", &step->offset, " ", out);
      print_value("", &step->bytes, "\n", out);
    } else
      print_launch(step, out);
  }
}
