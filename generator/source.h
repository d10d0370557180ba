/* source.h -- problem + gpu + config -> one self-contained CUDA text with its hash and its recipe. */
#ifndef FAT_SOURCE_H
#define FAT_SOURCE_H

#include "config.h"
#include "gpu.h"
#include "problem.h"
#include "script.h"
#include "text.h"

typedef struct fat_source {
  fat_text text;            /* header comment, then the code; its #line marks name template lines */
  fat_text recipe;          /* canonical text, parses with fat_recipe_parse */
  char hash[FAT_HASH_SIZE]; /* SHA-256 of the code: no header, #line marks, comments or blank lines; entry
                               names carry 16 of its digits */
} fat_source;

typedef enum fat_lines {                      /* ORDER LINES */
                         FAT_LINES_TEMPLATE,  /* #line marks: errors and profilers point at the template */
                         FAT_LINES_GENERATED, /* none: they point at the text itself */
} fat_lines;

/* Renders. The text depends only on family, config, arch and templates, never on sizes or time. */
fat_status fat_source_render(fat_script *script, const fat_problem *p, const fat_gpu *gpu,
                             const fat_config *config, fat_lines lines, fat_source *source, fat_error *err);
void fat_source_free(fat_source *source);

/* The options every compile of a rendered source uses, beside the architecture. */
extern const char *const fat_source_options[];
extern const int fat_source_option_count;

#endif
