/* words.c -- goes over the words of a problem text and tells mistakes by their place. */
#include "words.h"
#include "text.h"
#include "problem.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fat_status fat_words_fail(const fat_words *w, const char *format, ...)
{
  char reason[512];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  const char *quote = *w->word == 0 ? "" : "'";
  return fat_status_fail(w->err, FAT_E_INPUT, "problem '%.200s': %s%s%s at column %d %s", w->text, quote,
                         *w->word == 0 ? "the text ends" : w->copy, quote, (int)(w->word - w->text) + 1,
                         reason);
}

/* Makes the word that begins at `word` the present one. */
static void take(fat_words *w, const char *word)
{
  w->word = word;
  w->end = word + strcspn(word, "-");
  snprintf(w->copy, sizeof w->copy, "%.*s", (int)(w->end - word), word);
}

void fat_words_begin(fat_words *w, const char *text, fat_error *err)
{
  *w = (fat_words){.text = text, .err = err};
  take(w, text);
}

void fat_words_next(fat_words *w)
{
  take(w, *w->end == '-' ? w->end + 1 : w->end);
}

fat_status fat_words_number(const fat_words *w, const char **at, const char *what, uint64_t *value)
{
  const char *s = *at;
  if (s == w->end && *s == '-' && fat_text_is_digit(s[1]))
    return fat_words_fail(w, "has a negative number: negative lengths are not allowed, expected %s", what);
  if (!fat_text_is_digit(*s))
    return fat_words_fail(w, "is not complete or has a wrong letter: expected %s", what);
  if (*s == '0' && fat_text_is_digit(s[1]))
    return fat_words_fail(w, "has a number with leading zeros: write it without them");
  uint64_t n = 0;
  for (; fat_text_is_digit(*s); s++) {
    n = n * 10 + (uint64_t)(*s - '0');
    if (n > (uint64_t)FAT_PROBLEM_SIZE_MAX)
      return fat_words_fail(w, "has a number that is too large: at most %" PRId64 " is allowed",
                            FAT_PROBLEM_SIZE_MAX);
  }
  *at = s;
  *value = n;
  return FAT_OK;
}

fat_status fat_words_hash(const fat_words *w, const char **at, const char *what, uint64_t *value)
{
  size_t n = strspn(*at, "0123456789abcdef");
  if (n != 16 || *at + n != w->end)
    return fat_words_fail(w, "is not complete or has a wrong letter: expected %s", what);
  *value = strtoull(*at, NULL, 16);
  *at += n;
  return FAT_OK;
}

void fat_words_list(char *list, size_t room, const char *name)
{
  size_t used = strlen(list);
  snprintf(list + used, room - used, "%s%s", used > 0 ? ", " : "", name);
}
