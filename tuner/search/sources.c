/* sources.c -- renders configs to know the hash of their source, and remembers it.
 *
 * In: the configs of stored trials that other templates made. Out: whether their code would be the same
 * today. A changed comment, or a change in another kernel's template, leaves results standing. */
#include "sources.h"
#include "grow.h"

#include "source.h"

#include <stdlib.h>
#include <string.h>

typedef struct fat_source_hash {
  char key[FAT_HASH_SIZE], hash[FAT_HASH_SIZE]; /* of family and config; of the source, "": there is none */
} fat_source_hash;

static fat_status render(const fat_sources *s, const fat_problem *p, const fat_config *config,
                         char hash[FAT_HASH_SIZE], fat_error *err)
{
  fat_source source;
  fat_error why = {0};
  fat_status status = fat_source_render(s->script, p, s->gpu, config, FAT_LINES_TEMPLATE, &source, &why);
  hash[0] = 0;
  if (status == FAT_OK)
    memcpy(hash, source.hash, sizeof source.hash);
  if (status == FAT_E_NOMEM)
    return fat_status_fail(err, status, "%s", why.text);
  fat_source_free(&source);
  return FAT_OK;
}

static fat_status add(fat_sources *s, const char *key, const fat_problem *p, const fat_config *config,
                      fat_error *err)
{
  fat_source_hash *larger = fat_grow(s->list, s->count, sizeof *larger);
  if (!larger)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for hashes of sources");
  s->list = larger;
  fat_source_hash *last = &s->list[s->count];
  memcpy(last->key, key, sizeof last->key);
  FAT_TRY(render(s, p, config, last->hash, err));
  s->count++;
  return FAT_OK;
}

fat_status fat_sources_agree(fat_sources *sources, const fat_problem *p, const fat_config *config,
                             const char *hash, bool *agree, fat_error *err)
{
  char family[FAT_PROBLEM_TEXT], text[FAT_CONFIG_TEXT], both[FAT_PROBLEM_TEXT + FAT_CONFIG_TEXT],
      key[FAT_HASH_SIZE];
  strcpy(both, fat_problem_family(p, family));
  strcat(both, fat_config_print(config, text));
  fat_text_hash(both, strlen(both), key);
  int at = 0;
  while (at < sources->count && strcmp(sources->list[at].key, key) != 0)
    at++;
  if (at == sources->count)
    FAT_TRY(add(sources, key, p, config, err));
  *agree = hash[0] && strcmp(sources->list[at].hash, hash) == 0;
  return FAT_OK;
}

void fat_sources_free(fat_sources *sources)
{
  free(sources->list);
  *sources = (fat_sources){0};
}
