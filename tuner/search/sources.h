/* sources.h -- which source today's templates give a config: it decides whether a stored trial still counts.
 */
#ifndef FAT_SOURCES_H
#define FAT_SOURCES_H

#include "config.h"
#include "gpu.h"
#include "problem.h"
#include "script.h"
#include <stdbool.h>

/* Hashes of what was rendered so far, each once: it depends on family, config and architecture alone. Begins
 * as {script, gpu}. */
typedef struct fat_sources {
  fat_script *script;
  const fat_gpu *gpu;
  struct fat_source_hash *list;
  int count;
} fat_sources;

/* *agree: the config's source of today has this hash. One that today's templates do not have agrees with
 * none. */
fat_status fat_sources_agree(fat_sources *sources, const fat_problem *p, const fat_config *config,
                             const char *hash, bool *agree, fat_error *err);
void fat_sources_free(fat_sources *sources);

#endif
