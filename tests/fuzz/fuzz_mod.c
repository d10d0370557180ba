/* fuzz_mod.c -- libFuzzer: any bytes as the text of an expression.
 *
 * What is refused must say why. What is read must print to a text that reads back to the same, and be written
 * as CUDA in a length that is bounded by its operations. Corpus: tests/fuzz/corpus/mod. */
#include "mod.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
  if (!holds)
    abort();
}

static void try_mod(const char *text, fat_feature which)
{
  fat_mod *m, *again = NULL;
  fat_error err = {0};
  fat_text code = {0};
  if (fat_mod_parse(text, which, &m, &err) != FAT_OK) {
    require(m == NULL && err.status == FAT_E_INPUT && err.text[0] != 0);
    return;
  }
  require(m->count > 0 && m->count <= FAT_MOD_NODES && m->root >= 0 && m->root < m->count);
  require(strlen(m->text) <= FAT_MOD_TEXT && fat_mod_parse(m->text, which, &again, NULL) == FAT_OK);
  require(again->hash == m->hash && strcmp(again->text, m->text) == 0);
  for (int slopes = 0; slopes < 2; slopes++) {
    fat_text_clear(&code);
    fat_mod_emit(m, slopes && which == FAT_MOD, &code);
    require(code.length > 0 && code.length <= 200 * (size_t)(m->count + 1) &&
            !strpbrk(fat_text_get(&code), "\n\"\\#"));
  }
  const bool adds = fat_mod_adds(m);
  if (fat_mod_adds_evenly(m)) {
    require(adds);
    fat_text_clear(&code);
    fat_mod_emit_course(m, &code);
    require(code.length > 0 && code.length <= 200 * (size_t)(m->count + 1));
    fat_text_clear(&code);
    require(fat_mod_emit_known(m, &code) < m->count && code.length <= 200 * (size_t)(m->count + 1));
  }
  fat_text_free(&code);
  fat_mod_free(m);
  fat_mod_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1); /* of its exact size, so that a read behind the end is seen */
  require(text != NULL);
  memcpy(text, data, size);
  text[size] = 0;
  try_mod(text, FAT_MOD);
  try_mod(text, FAT_MASK_MOD);
  free(text);
  return 0;
}
