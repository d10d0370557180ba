/* bites.h -- spoiled kernels in the emulator: what the tests of bites share.
 *
 * Nearly all of the time would go into compiling a text for each way to spoil a kernel. So a text may hold
 * many: variant n of it (emu_variant) is spoiled in the n-th way, variant 0 in none. */
#ifndef BITES_H
#define BITES_H

#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Where a byte of the rendered text comes from, by its #line marks. */
static inline emu_finding place_of(const char *text, const char *at)
{
  emu_finding place = {.line = 1};
  for (const char *line = text; line <= at;) {
    const char *end = line + strcspn(line, "\n");
    if (sscanf(line, "#line %d \"%95[^\"]\"", &place.line, place.file) != 2) {
      if (at <= end)
        break;
      place.line++;
    }
    line = end + 1;
  }
  return place;
}

/* The rendered text of a template line (its first rendering); "" if there is none. */
static const char *line_text(const char *text, const char *file, int number, char *buffer, size_t room)
{
  char in[96] = "";
  int at = 1;
  buffer[0] = 0;
  for (const char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    if (sscanf(line, "#line %d \"%95[^\"]\"", &at, in) != 2) {
      if (at == number && !strcmp(in, file)) {
        snprintf(buffer, room, "%.*s", (int)length, line);
        return buffer;
      }
      at++;
    }
    line += length + (line[length] == '\n');
  }
  return buffer;
}

typedef struct victim {
  emu_case c;
  fat_config config;
  fat_source source;
  fat_truth truth;
} victim;

static victim victim_of(const char *kernel, const char *line)
{
  victim v;
  char kernels[FAT_CONFIG_TEXT];
  fat_error err = {0};
  if (emu_case_parse(line, &v.c, kernels, &err) != FAT_OK)
    fail_msg("%s", err.text);
  v.config = emu_check_config(kernel, &v.c);
  v.truth = emu_check_truth(&v.c);
  if (emu_kernel_render(emu_check_script(), &v.c.problem, v.c.gpu, &v.config, &v.source, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return v;
}

static void victim_free(victim *v)
{
  fat_source_free(&v->source);
  fat_truth_free(&v->truth);
}

static emu_kernel load_spoiled(const victim *v, const char *text, const char *recipe)
{
  emu_kernel kernel;
  fat_error err = {0};
  if (emu_kernel_load(text, recipe, &v->config, &kernel, &err) != FAT_OK)
    fail_msg("%s: %s", emu_check_title(&v->c, &v->config), err.text);
  return kernel;
}

/* Runs one variant of what a text holds, to its end or to the first `events` of what becomes findings (0: far
 * more than one reads); true if the result is wrong. */
static bool run_until(int events, const victim *v, const emu_kernel *kernel, int variant, emu_report *report,
                      char *why, size_t room)
{
  emu_result r;
  fat_error err = {0};
  const emu_options options = {.accesses = 200000000, .variant = variant, .events = events};
  why[0] = 0;
  if (emu_attention_run(emu_check_machine(), kernel, &v->c, &v->truth, &options, &r, &err) != FAT_OK)
    fail_msg("%s: %s", emu_check_title(&v->c, &v->config), err.text);
  bool wrong = !emu_attention_right(&v->c, &v->truth, &r, why, room);
  *report = r.report;
  emu_result_free(&r);
  return wrong;
}

static bool run_variant(const victim *v, const emu_kernel *kernel, int variant, emu_report *report, char *why,
                        size_t room)
{
  return run_until(0, v, kernel, variant, report, why, room);
}

/* Runs a spoiled text; true if the result is wrong. */
__attribute__((unused)) static bool run_spoiled(const victim *v, const char *text, const char *recipe,
                                                emu_report *report, char *why, size_t room)
{
  emu_kernel kernel = load_spoiled(v, text, recipe);
  bool wrong = run_variant(v, &kernel, 0, report, why, room);
  emu_kernel_free(&kernel);
  return wrong;
}

/* What is found in a spoiled variant is not in the kernel itself. */
static void is_sound(const victim *v, bool wrong, const emu_report *report, const char *why)
{
  if (wrong || report->findings)
    fail_msg("%s: %s", emu_check_title(&v->c, &v->config), report->findings ? report->finding[0].text : why);
}

/* A line on which memory is read or written. */
__attribute__((unused)) static bool has_access(const char *line)
{
  static const char *const marks[] = {"vec *)", "row(",   "from[",    "to[",         ".data[",   "quad *)",
                                      "u32 *)", "row[",   "ldmatrix", "copy_async(", "get4(",    "put4(",
                                      "get16(", "put16(", "sums[",    "own[",        "float2 *)"};
  for (unsigned i = 0; i < sizeof marks / sizeof *marks; i++)
    if (strstr(line, marks[i]))
      return true;
  return false;
}

#endif
