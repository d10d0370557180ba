/* ptxas.c -- reads the log of a compile, line by line.
 *
 * In: the text of NVRTC and of `ptxas -v` (of CUDA 12.0 to 13.x; recorded in tests/test_ptxas.c). Out:
 * figures of each entry, and the first error. What a line says is found by its phrases ("46 registers"),
 * never by its columns, and lines that say nothing known are passed over: the wording grows with each
 * release. */
#include "ptxas.h"
#include "text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

/* Copies the line at `text` (cut to LINE) and returns where the next one begins, NULL at the end. */
static const char *next_line(const char *text, char line[LINE])
{
  size_t length = strcspn(text, "\n");
  size_t kept = length < LINE ? length : LINE - 1;
  memcpy(line, text, kept);
  line[kept] = 0;
  return text[length] ? text + length + 1 : NULL;
}

/* The whole number that stands directly before `phrase`, or -1. */
static int number_before(const char *line, const char *phrase)
{
  const char *end = strstr(line, phrase);
  const char *digits = end;
  while (digits && digits > line && fat_text_is_digit(digits[-1]))
    digits--;
  if (!end || digits == end)
    return -1;
  long value = strtol(digits, NULL, 10);
  return value > INT_MAX ? INT_MAX : (int)value;
}

static void set(int *figure, int value)
{
  if (value >= 0)
    *figure = value;
}

/* The name after `phrase`, up to a quote, blank or end; false if the line has no such phrase. */
static int name_after(const char *line, const char *phrase, char name[FAT_ENTRY_NAME])
{
  const char *found = strstr(line, phrase);
  name[0] = 0;
  return found && sscanf(found + strlen(phrase), "%63[^' ]", name) == 1;
}

static fat_entry *find(fat_entry *entries, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (strcmp(entries[i].name, name) == 0)
      return &entries[i];
  return NULL;
}

/* Spills of a function that is no entry slow every entry that may call it. */
static void add_spills(fat_entry *entries, int count, fat_entry *current, const char *line)
{
  int stores = number_before(line, " bytes spill stores");
  int loads = number_before(line, " bytes spill loads");
  int spills = (stores > 0 ? stores : 0) + (loads > 0 ? loads : 0);
  for (int i = 0; i < count; i++)
    if (!current || current == &entries[i])
      entries[i].spills += spills;
}

/* Of which entries ptxas says that it had to put their warpgroup products one behind the other. It does so
 * before it gives any figures. */
static void find_serial(const char *log, fat_entry *entries, int count)
{
  char line[LINE], name[FAT_ENTRY_NAME];
  while (log) {
    log = next_line(log, line);
    if (!strstr(line, "wgmma.mma_async instructions are serialized") ||
        !name_after(line, "in the function '", name))
      continue;
    fat_entry *entry = find(entries, count, name);
    if (entry)
      entry->serial = 1;
  }
}

int fat_ptxas_entries(const char *log, fat_entry *entries, int room)
{
  const char *const all = log;
  char line[LINE], name[FAT_ENTRY_NAME];
  fat_entry *current = NULL; /* whose figures the next lines give */
  int count = 0;
  while (log) {
    log = next_line(log, line);
    if (name_after(line, "Compiling entry function '", name)) {
      current = find(entries, count, name);
      if (!current && count < room) {
        current = &entries[count++];
        memset(current, 0, sizeof *current);
        memcpy(current->name, name, sizeof name);
      }
    } else if (name_after(line, "Function properties for ", name)) {
      current = find(entries, count, name);
    } else if (strstr(line, " bytes stack frame")) {
      add_spills(entries, count, current, line);
      if (current)
        set(&current->stack, number_before(line, " bytes stack frame"));
    } else if (strstr(line, "Used ") && current) {
      set(&current->registers, number_before(line, " registers"));
      set(&current->stack, number_before(line, " bytes cumulative stack size"));
      set(&current->shared, number_before(line, " bytes smem"));
    }
  }
  find_serial(all, entries, count);
  return count;
}

/* How errors of the front end, of ptxas and of NVRTC itself are marked; a warning never is. */
static const char *const marks[] = {"): error",    "): catastrophic error", "; error   :", "ptxas error",
                                    "ptxas fatal", "nvrtc: error",          "nvrtc-",      "libnvvm"};

static int has_mark(const char *line)
{
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
    if (strstr(line, marks[i]))
      return 1;
  return 0;
}

/* The front end quotes the source below its message, indented; a long quotation would hide the message. */
static int quotes(const char *line)
{
  return line[0] == ' ' && line[strspn(line, " ")] != '^' && strlen(line) <= 160;
}

void fat_ptxas_error(const char *log, char *text, size_t room)
{
  char line[LINE];
  text[0] = 0;
  while (log && !text[0]) {
    log = next_line(log, line);
    if (has_mark(line))
      snprintf(text, room, "%s", line);
  }
  if (!text[0] || !log)
    return;
  next_line(log, line);
  size_t used = strlen(text);
  if (quotes(line))
    snprintf(text + used, room - used, ": `%s`", line + strspn(line, " "));
}
