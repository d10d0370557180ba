/* words.h -- the words of a problem text, one after the other, and the numbers in them.
 *
 * A text is words with '-' between. What is wrong is told at the word that stands next: problem 'TEXT':
 * 'WORD' at column N ... Used by problem.c, which reads sizes, and feature.c, which reads what follows. */
#ifndef FAT_WORDS_H
#define FAT_WORDS_H

#include "status.h"
#include <stddef.h>
#include <stdint.h>

/* Where reading stands: a word runs from `word` to `end`, which is '-' or the closing zero. */
typedef struct fat_words {
  const char *text, *word, *end;
  char copy[64]; /* the word as a string of its own, cut where it is longer than any word of the grammar */
  fat_error *err;
} fat_words;

/* Stands at the first word of a text. */
void fat_words_begin(fat_words *w, const char *text, fat_error *err);
/* Goes to the next word; at the end of the text the word is empty. */
void fat_words_next(fat_words *w);

/* FAT_E_INPUT at the present word, with the reason. */
fat_status fat_words_fail(const fat_words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads a whole number up to FAT_PROBLEM_SIZE_MAX at *at, which it moves behind it. `what` says what should
 * stand there. */
fat_status fat_words_number(const fat_words *w, const char **at, const char *what, uint64_t *value);
/* Exactly 16 lower-case hexadecimal digits up to the end of the word. */
fat_status fat_words_hash(const fat_words *w, const char **at, const char *what, uint64_t *value);

/* Appends to the names that an error offers. */
void fat_words_list(char *list, size_t room, const char *name);

#endif
