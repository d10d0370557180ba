/* text.h -- a growing piece of text, always ended by a zero byte.
 *
 * Adding never fails in the middle: when memory runs out the text is marked `failed`, later additions do
 * nothing, and the one check is made at the end with fat_text_status. Start with `fat_text t = {0}`. */
#ifndef FAT_TEXT_H
#define FAT_TEXT_H

#include "status.h"
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct fat_text {
  char *data;    /* NULL while nothing was added */
  size_t length; /* bytes before the closing zero */
  size_t room;
  bool failed; /* out of memory somewhere on the way */
} fat_text;

void fat_text_add(fat_text *t, const char *s);
void fat_text_add_bytes(fat_text *t, const void *bytes, size_t n);
void fat_text_format(fat_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text so far; "" while nothing was added. Valid until the next addition. */
const char *fat_text_get(const fat_text *t);

/* FAT_E_NOMEM if any addition failed, else FAT_OK. */
fat_status fat_text_status(const fat_text *t, fat_error *err);

void fat_text_clear(fat_text *t); /* empty again, keeps its memory */
void fat_text_free(fat_text *t);  /* back to {0} */

/* Reads a whole file (regular, at most `limit` bytes) and appends it; on failure the text is as before.
 * FAT_E_NOT_FOUND where there is no file, FAT_E_IO where it is no regular file, too long or unreadable. */
fat_status fat_text_read_file(fat_text *t, const char *path, size_t limit, fat_error *err);

/* SHA-256 of bytes as 64 lower-case hex digits and a zero. */
#define FAT_HASH_SIZE 65
void fat_text_hash(const void *bytes, size_t n, char hash[FAT_HASH_SIZE]);

/* Of ASCII, whatever the locale. */
static inline bool fat_text_is_digit(char c)
{
  return c >= '0' && c <= '9';
}
static inline bool fat_text_is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Switches this thread to the C locale and returns the previous one, for uselocale to restore. Lua follows
 * the locale, and refuses "0.5" where the decimal separator has two bytes. */
locale_t fat_text_enter_plain(void);

/* Writes x with so many digits, as %g does in the C locale; returns buffer. The second is strtod in that
 * locale. */
enum { FAT_TEXT_NUMBER = 48 };
const char *fat_text_number(double x, int digits, char buffer[FAT_TEXT_NUMBER]);
double fat_text_read_number(const char *text, char **end);

/* Bytes of the UTF-8 character at `text`, of `n` that are there; 0: it is none, as a surrogate or a longer
 * form than its shortest, which readers of JSON refuse. */
size_t fat_text_character(const char *text, size_t n);

/* How many letters must be added, dropped, replaced or swapped with their neighbour to turn one word into
 * the other; for "did you mean". Letters beyond the 40th are not looked at. */
int fat_text_distance(const char *a, const char *b);

#endif
