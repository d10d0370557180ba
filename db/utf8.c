/* utf8.c -- what may be stored as text, and what is left of other bytes.
 *
 * In: bytes of whoever wrote a file or a log. Out: whether they are UTF-8 without control bytes; a copy that
 * is. */
#include "private.h"
#include <stdlib.h>
#include <string.h>

/* As fat_text_character; 0 for a control byte too. */
static size_t character(const char *text, size_t n)
{
  const unsigned char c = (unsigned char)*text;
  return (c < ' ' && c != '\n' && c != '\t') || c == 127 ? 0 : fat_text_character(text, n);
}

bool fat_db_is_text(const char *text, size_t most)
{
  size_t n = strnlen(text, most + 1), bytes = 1;
  for (size_t i = 0; i < n && bytes; i += bytes)
    bytes = character(text + i, n - i);
  return bytes && n <= most;
}

char *fat_db_clean(const char *text, size_t most)
{
  size_t n = strnlen(text ? text : "", most);
  char *copy = malloc(n + 1);
  if (!copy)
    return NULL;
  for (size_t i = 0; i < n;) {
    size_t bytes = character(text + i, n - i);
    memcpy(copy + i, bytes ? text + i : "?", bytes ? bytes : 1);
    i += bytes ? bytes : 1;
  }
  copy[n] = 0;
  return copy;
}
