/* bites_calls.h -- calls taken out of kernels, one after another: what the tests of bites share.
 *
 * A call counts as missed once the kernel without it is found out in any config: what one schedule waits for,
 * another has waited for already. */
#ifndef BITES_CALLS_H
#define BITES_CALLS_H

#include "bites.h"
#include <ctype.h>

/* A call, by its place in the templates and by how many times its line was rendered before. */
typedef struct bites_call {
  emu_finding place;
  int rendering;
  const char *name;
  bool found;
} bites_call;

enum { CALLS = 300 };
static bites_call calls[CALLS];
static int call_count;

static bites_call *call_at(const char *name, const emu_finding *place, int rendering)
{
  for (int i = 0; i < call_count; i++)
    if (calls[i].place.line == place->line && calls[i].rendering == rendering && calls[i].name == name &&
        !strcmp(calls[i].place.file, place->file))
      return &calls[i];
  assert_true(call_count < CALLS);
  calls[call_count] = (bites_call){.place = *place, .rendering = rendering, .name = name};
  return &calls[call_count++];
}

/* The length of a call that is a statement: its name, a template argument if any, brackets, a semicolon
 * behind them; else 0. */
static size_t statement(const char *text, const char *at, const char *name)
{
  const char *end = at + strlen(name);
  int depth = 0;
  if (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
    return 0;
  if (*end == '<')
    end += strcspn(end, ">\n") + 1;
  if (*end != '(')
    return 0;
  do {
    depth += *end == '(';
    depth -= *end == ')';
  } while (*end++ && depth > 0);
  return *end == ';' ? (size_t)(end - at) : 0;
}

/* Which of the names is called at a place, by a statement of `length`; NULL: none is. */
static const char *name_at(const char *text, const char *at, const char *const *names, int count,
                           size_t *length)
{
  for (int i = 0; i < count; i++)
    if (!strncmp(at, names[i], strlen(names[i])) && (*length = statement(text, at, names[i])) > 0)
      return names[i];
  return NULL;
}

/* One config's text with its variants, each without one call. */
typedef struct bites_text {
  fat_text text;
  int variants;
  bites_call *without[CALLS + 1]; /* by variant */
} bites_text;

/* The calls that no config has missed before; `again`: of a line that is rendered more than once not the
 * first call alone. */
static bites_text text_of_variants(const char *text, const char *const *names, int count, bool again)
{
  bites_text all = {0};
  bites_call before[CALLS];
  int befores = 0;
  size_t length;
  const char *name, *from = text;
  for (const char *at = text; *at; at++) {
    if (!(name = name_at(text, at, names, count, &length)))
      continue;
    emu_finding place = place_of(text, at);
    if (strstr(place.file, "templates/arch/"))
      continue;
    int rendering = 0;
    for (int i = 0; i < befores; i++)
      rendering += before[i].name == name && before[i].place.line == place.line &&
                   !strcmp(before[i].place.file, place.file);
    assert_true(befores < CALLS);
    before[befores++] = (bites_call){.place = place, .name = name};
    bites_call *c = rendering && !again ? NULL : call_at(name, &place, rendering);
    if (!c || c->found)
      continue;
    all.without[++all.variants] = c;
    fat_text_add_bytes(&all.text, from, (size_t)(at - from));
    fat_text_format(&all.text, "(emu_variant() == %d ? (void)0 : (void)%.*s)", all.variants, (int)length, at);
    from = at + length;
    at = from - 1;
  }
  fat_text_add(&all.text, from);
  assert_int_equal(fat_text_status(&all.text, NULL), FAT_OK);
  return all;
}

/* A run without a call. */
typedef struct bites_run {
  const victim *v;
  const char *text;
  const bites_call *without;
  emu_report report;
  bool wrong;
  char why[512]; /* it is */
} bites_run;

/* Whether the kernel without a call is found out in any way: by a finding, or by wrong results. */
static inline bool is_found_out(const bites_run *run)
{
  const bites_call *of = run->without;
  const bool found = run->report.findings > 0;
  if (found || run->wrong)
    print_message("%s without %s of %s:%d: %s\n", emu_check_title(&run->v->c, &run->v->config), of->name,
                  of->place.file, of->place.line, found ? run->report.finding[0].text : run->why);
  return found || run->wrong;
}

/* Runs one config without each call of some names in turn, and first with all of them: what is found without
 * one is not in the text itself. `missed` judges. Where any finding will do the first one ends a run. */
static void take_out(const victim *v, const char *const *names, int count, bool again,
                     bool (*missed)(const bites_run *run))
{
  bites_text all = text_of_variants(fat_text_get(&v->source.text), names, count, again);
  const int events = missed == is_found_out;
  bites_run run = {.v = v, .text = fat_text_get(&all.text)};
  emu_kernel kernel = load_spoiled(v, run.text, fat_text_get(&v->source.recipe));
  for (int i = 0; i <= all.variants; i++) {
    run.wrong = run_until(events, v, &kernel, i, &run.report, run.why, sizeof run.why);
    run.without = all.without[i];
    if (i > 0)
      all.without[i]->found = missed(&run);
    else
      is_sound(v, run.wrong, &run.report, run.why);
  }
  emu_kernel_free(&kernel);
  fat_text_free(&all.text);
}

/* Fails where a call was never missed, or where there were fewer than `least`. */
static void all_were_missed(int least)
{
  int never = 0;
  for (int i = 0; i < call_count; i++)
    if (!calls[i].found) {
      print_message("never missed: %s of %s:%d, rendering %d\n", calls[i].name, calls[i].place.file,
                    calls[i].place.line, calls[i].rendering + 1);
      never++;
    }
  assert_true(call_count >= least);
  assert_int_equal(never, 0);
}

#endif
