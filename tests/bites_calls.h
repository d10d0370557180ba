/* bites_calls.h -- calls taken out of kernels, one after another: what test_bites_mma and test_bites_ws
 * share.
 *
 * A call counts as missed once the text without it is found out in any config: what one schedule waits for,
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

enum { CALLS = 200 };
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

/* Takes every call of a name out of one config's text that no config has missed before; `again`: of a line
 * that is rendered more than once not the first call alone. `missed` runs the text without a call. */
static void take_out(const victim *v, const char *name, bool again,
                     bool (*missed)(const victim *v, const char *text, const bites_call *of))
{
  char *text = strdup(fat_text_get(&v->source.text));
  emu_finding before[CALLS];
  int count = 0;
  assert_non_null(text);
  for (char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
    const size_t length = statement(text, at, name);
    emu_finding place = place_of(text, at);
    if (!length || strstr(place.file, "templates/arch/"))
      continue;
    int rendering = 0;
    for (int i = 0; i < count; i++)
      rendering += before[i].line == place.line && !strcmp(before[i].file, place.file);
    assert_true(count < CALLS);
    before[count++] = place;
    if (rendering && !again)
      continue;
    bites_call *c = call_at(name, &place, rendering);
    if (c->found)
      continue;
    char kept[256];
    assert_true(length < sizeof kept);
    memcpy(kept, at, length);
    memset(at, ' ', length);
    c->found = missed(v, text, c);
    memcpy(at, kept, length);
  }
  free(text);
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
