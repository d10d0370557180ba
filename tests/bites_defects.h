/* bites_defects.h -- tables of defects of kernels.
 *
 * A defect is a piece of the rendered text and what stands there instead. A race or a bound must be found as
 * such, on the line of the template where it happens; others by a wrong result. A piece that the text no
 * longer has fails the test: the table then needs a look. Each find is printed, one line each.
 *
 * Defects of one kernel and case are variants of one text where both pieces are statements, or both are
 * expressions; that nothing is found in variant 0 shows that the brackets around them change nothing. Others
 * have a text each. */
#ifndef BITES_DEFECTS_H
#define BITES_DEFECTS_H

#include "bites.h"
#include <ctype.h>

#define WRONG EMU_KIND_COUNT /* found by the result */

typedef struct defect {
  const char *kernels; /* with commas between */
  const char *piece, *instead;
  const char *line; /* the case */
  emu_kind kind;
  const char *file, *on; /* a finding: its file, and what stands on its line */
} defect;

/* The text with every occurrence of a piece replaced. */
static char *spoiled(const char *text, const char *piece, const char *instead, int *count)
{
  fat_text out = {0};
  *count = 0;
  for (const char *at; (at = strstr(text, piece)) != NULL; text = at + strlen(piece)) {
    fat_text_add_bytes(&out, text, (size_t)(at - text));
    fat_text_add(&out, instead);
    ++*count;
  }
  fat_text_add(&out, text);
  assert_int_equal(fat_text_status(&out, NULL), FAT_OK);
  return out.data;
}

static const emu_finding *match(const emu_report *report, const defect *d, const char *text)
{
  char line[512];
  for (int f = 0; f < report->findings; f++) {
    const emu_finding *found = &report->finding[f];
    if (found->kind == d->kind && !strcmp(found->file, d->file) &&
        strstr(line_text(text, found->file, found->line, line, sizeof line), d->on))
      return found;
  }
  return NULL;
}

/* ---- two pieces in one place ---- */

/* `const quad x = ...`, `acc<16, 8> x = ...`, `if (...`, `for (...`: what is no expression, and as a
 * declaration no statement that may be put in braces. */
static bool is_declaration(const char *x)
{
  const size_t word = strspn(x, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  const char *next = x + word;
  if (word == 0 || (word == 6 && strncmp(x, "return", word) == 0))
    return false;
  if (*next == '<' && strchr(next, '>'))
    next = strchr(next, '>') + 1;
  next += strspn(next, " ");
  return isalpha((unsigned char)*next) || *next == '_';
}

/* Nothing at all, or what a semicolon ends. */
static bool is_statement(const char *x)
{
  const size_t length = strlen(x), blank = strspn(x, " ");
  int depth = 0;
  for (const char *c = x; *c; c++)
    depth += (*c == '(' || *c == '{') - (*c == ')' || *c == '}');
  if (depth != 0 || strchr(x, '\n') || is_declaration(x))
    return false;
  return length == 0 || (x[length - 1] == ';' && (isalpha((unsigned char)x[blank]) || x[blank] == ';'));
}

/* `=`, but not of `==`, `<=`, `>=`, `!=`. */
static bool is_assignment(const char *x, const char *c)
{
  return *c == '=' && c[1] != '=' && !(c > x && strchr("=<>!", c[-1]));
}

/* What may stand in brackets by itself; what begins or ends with an operator counts as a part of more. */
static bool is_expression(const char *x)
{
  const size_t length = strlen(x);
  int depth = 0, questions = 0;
  if (length == 0 || is_declaration(x) || !strncmp(x, "if ", 3) || !strncmp(x, "return ", 7))
    return false;
  if (!strchr("(_", x[0]) && !isalnum((unsigned char)x[0]))
    return false;
  if (!strchr(")]_", x[length - 1]) && !isalnum((unsigned char)x[length - 1]))
    return false;
  for (const char *c = x; *c; c++) {
    if (strchr(";{}\n", *c) || is_assignment(x, c) || (*c == ',' && depth == 0))
      return false;
    depth += (*c == '(') - (*c == ')');
    if (depth < 0)
      return false;
    questions += (*c == '?') - (*c == ':' && c[1] != ':' && !(c > x && c[-1] == ':'));
  }
  return depth == 0 && questions == 0;
}

/* What chooses between the pieces of a defect as variant `n` runs or another; "" where they cannot both be
 * there. */
static char *switched(const defect *d, int n)
{
  fat_text both = {0};
  fat_text_add(&both, "");
  if (is_statement(d->piece) && is_statement(d->instead))
    fat_text_format(&both, "if (emu_variant() == %d) {%s} else {%s}", n, d->instead, d->piece);
  else if (is_expression(d->piece) && is_expression(d->instead))
    fat_text_format(&both, "(emu_variant() == %d ? (%s) : (%s))", n, d->instead, d->piece);
  assert_int_equal(fat_text_status(&both, NULL), FAT_OK);
  return both.data;
}

/* ---- a table ---- */

/* A defect in one kernel. */
typedef struct bite {
  const defect *defect;
  char kernel[64];
  bool done;
} bite;

enum { BITES = 200 };
static bite bites[BITES];
static int bite_count;

static void add_bites(const defect *d)
{
  char kernels[64], *rest = kernels, *kernel;
  snprintf(kernels, sizeof kernels, "%s", d->kernels);
  while ((kernel = strtok_r(rest, ",", &rest))) {
    assert_true(bite_count < BITES);
    bite *b = &bites[bite_count++];
    *b = (bite){.defect = d};
    snprintf(b->kernel, sizeof b->kernel, "%s", kernel);
  }
}

/* A text and the bites that are its variants; one that is spoiled as a whole has none but variant 0. */
typedef struct bite_text {
  char *text;
  int variants;
  bite *of[BITES + 1]; /* by variant */
} bite_text;

/* Puts a bite into the text as one more variant; false if it cannot be. */
static bool add_variant(bite_text *t, bite *b)
{
  int count;
  char *both = switched(b->defect, t->variants + 1);
  char *text = *both ? spoiled(t->text, b->defect->piece, both, &count) : NULL;
  const bool added = text && count > 0;
  free(both);
  if (!added) {
    free(text);
    return false;
  }
  free(t->text);
  t->text = text;
  t->of[++t->variants] = b;
  return true;
}

/* The text of a bite, and of all others that have the same kernel and case and may be variants of it. */
static bite_text text_of_bites(const victim *v, bite *first)
{
  int count;
  const char *plain = fat_text_get(&v->source.text);
  bite_text t = {.text = strdup(plain)};
  assert_non_null(t.text);
  for (bite *b = first; b < bites + bite_count; b++) {
    if (b->done || strcmp(b->kernel, first->kernel) != 0 || strcmp(b->defect->line, first->defect->line) != 0)
      continue;
    if (!strstr(plain, b->defect->piece))
      fail_msg("%s has no '%s': the table of defects needs a look", b->kernel, b->defect->piece);
    if (!add_variant(&t, b) && b == first)
      break;
  }
  if (t.variants == 0) {
    free(t.text);
    t.text = spoiled(plain, first->defect->piece, first->defect->instead, &count);
    t.of[0] = first;
  }
  return t;
}

static void judge(bite *b, const char *text, const emu_report *report, bool wrong, const char *why)
{
  const defect *d = b->defect;
  const emu_finding *found = d->kind == WRONG ? NULL : match(report, d, text);
  if (d->kind == WRONG ? !wrong : !found)
    fail_msg("%s with '%s' for '%s': want %s%s%s, result %s, %d findings, first: %s", b->kernel, d->instead,
             d->piece, d->kind == WRONG ? "a wrong result" : emu_kind_name(d->kind), d->file ? " in " : "",
             d->file ? d->file : "", wrong ? "wrong" : "right", report->findings,
             report->findings ? report->finding[0].text : "-");
  print_message("%s with '%s': %s\n", b->kernel, d->instead, found ? found->text : why);
  b->done = true;
}

static void bites_are_found(bite *first)
{
  char why[512];
  emu_report report;
  victim v = victim_of(first->kernel, first->defect->line);
  bite_text t = text_of_bites(&v, first);
  emu_kernel kernel = load_spoiled(&v, t.text, fat_text_get(&v.source.recipe));
  for (int i = 0; i <= t.variants; i++) {
    const bool wrong = run_variant(&v, &kernel, i, &report, why, sizeof why);
    if (t.of[i])
      judge(t.of[i], t.text, &report, wrong, why);
    else
      is_sound(&v, wrong, &report, why);
  }
  emu_kernel_free(&kernel);
  free(t.text);
  victim_free(&v);
}

static void defects_are_found(const defect *defects, int count)
{
  for (int i = 0; i < count; i++)
    add_bites(&defects[i]);
  for (int i = 0; i < bite_count; i++)
    if (!bites[i].done)
      bites_are_found(&bites[i]);
}

#endif
