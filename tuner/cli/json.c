/* json.c -- the JSON writer of json.h.
 *
 * In: values in the order of the text. Out: well-formed JSON, as long as opens and closes match. Bytes
 * that are no UTF-8 are written as U+FFFD, so a hostile name cannot break a reader. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_DEPTH = 2 }; /* from this depth on values share a line */

static void quote(fat_text *out, const char *value)
{
  fat_text_add(out, "\"");
  for (const char *s = value; *s;) {
    const size_t n = fat_text_character(s, strnlen(s, 4));
    if (*s == '"' || *s == '\\')
      fat_text_format(out, "\\%c", *s);
    else if (*s == '\n')
      fat_text_add(out, "\\n");
    else if (*s == '\t')
      fat_text_add(out, "\\t");
    else if ((unsigned char)*s < 0x20 || *s == 0x7f)
      fat_text_format(out, "\\u%04x", (unsigned)*s);
    else if (n == 0)
      fat_text_add(out, "\\ufffd");
    else
      fat_text_add_bytes(out, s, n);
    s += n ? n : 1;
  }
  fat_text_add(out, "\"");
}

/* The comma, the line or blank, and the key before a value. */
static void separate(fat_json *j, const char *key)
{
  if (j->begun >> j->depth & 1u)
    fat_text_add(j->out, ",");
  if (j->depth > 0 && j->depth < ROW_DEPTH)
    fat_text_format(j->out, "\n%*s", 2 * j->depth, "");
  else if (j->begun >> j->depth & 1u)
    fat_text_add(j->out, " ");
  j->begun |= 1u << j->depth;
  if (key) {
    quote(j->out, key);
    fat_text_add(j->out, ": ");
  }
}

void fat_json_open(fat_json *j, const char *key, char bracket)
{
  separate(j, key);
  fat_text_format(j->out, "%c", bracket);
  j->depth++;
  j->begun &= ~(1u << j->depth);
}

void fat_json_close(fat_json *j, char bracket)
{
  bool filled = j->begun >> j->depth & 1u;
  j->depth--;
  if (filled && j->depth + 1 < ROW_DEPTH)
    fat_text_format(j->out, "\n%*s", 2 * j->depth, "");
  fat_text_format(j->out, "%c", bracket);
  if (j->depth == 0)
    fat_text_add(j->out, "\n");
}

void fat_json_string(fat_json *j, const char *key, const char *value)
{
  separate(j, key);
  if (value)
    quote(j->out, value);
  else
    fat_text_add(j->out, "null");
}

void fat_json_int(fat_json *j, const char *key, int64_t value)
{
  separate(j, key);
  fat_text_format(j->out, "%lld", (long long)value);
}

void fat_json_double(fat_json *j, const char *key, double value)
{
  char digits[40];
  separate(j, key);
  if (!isfinite(value)) {
    fat_text_add(j->out, "null");
    return;
  }
  for (int precision = 6; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (strtod(digits, NULL) == value)
      break;
  }
  fat_text_add(j->out, digits);
}

void fat_json_bool(fat_json *j, const char *key, bool value)
{
  separate(j, key);
  fat_text_add(j->out, value ? "true" : "false");
}
