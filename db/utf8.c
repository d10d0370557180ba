/* utf8.c -- what may be stored as text, and what is left of other bytes.
 *
 * In: bytes of whoever wrote a file or a log. Out: whether they are UTF-8 without control bytes; a copy that
 * is. */
#include "private.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of the character at `text`, of `n` that are left; 0 if it is none: a control byte, broken UTF-8. */
static size_t character(const unsigned char *text, size_t n)
{
  unsigned char c = text[0];
  if (c < 0x80)
    return (c >= ' ' && c != 127) || c == '\n' || c == '\t';
  size_t bytes = c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (bytes > n)
    return 0;
  for (size_t i = 1; i < bytes; i++)
    if ((text[i] & 0xC0) != 0x80)
      return 0;
  return bytes;
}

bool fat_db_is_text(const char *text, size_t most)
{
  size_t n = strnlen(text, most + 1), bytes = 1;
  for (size_t i = 0; i < n && bytes; i += bytes)
    bytes = character((const unsigned char *)text + i, n - i);
  return bytes && n <= most;
}

char *fat_db_clean(const char *text, size_t most)
{
  size_t n = strnlen(text ? text : "", most);
  char *copy = malloc(n + 1);
  if (!copy)
    return NULL;
  for (size_t i = 0; i < n;) {
    size_t bytes = character((const unsigned char *)text + i, n - i);
    memcpy(copy + i, bytes ? text + i : "?", bytes ? bytes : 1);
    i += bytes ? bytes : 1;
  }
  copy[n] = 0;
  return copy;
}
