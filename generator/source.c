/* source.c -- one rendered kernel: the engine's code, hashed, with the hash in its entry names, under a
 * header comment that says what it is and how to rebuild it. */
#include "source.h"
#include "mod.h"
#include "recipe.h"
#include "space.h"
#include <stdlib.h>
#include <string.h>

const char *const fat_source_options[] = {"--std=c++17"};
const int fat_source_option_count = sizeof fat_source_options / sizeof fat_source_options[0];

/* What engine.lua writes where 16 digits of the hash belong. */
static const char placeholder[] = "_0000000000000000";
enum { HASH_DIGITS = 16 };

static bool is_mark(const char *line)
{
  return strncmp(line, "#line ", 6) == 0;
}

/* Bytes of a line before its comment and the blanks ahead of that. Strings may hold two slashes. */
static size_t code_length(const char *line, size_t length)
{
  bool quoted = false;
  size_t end = 0;
  for (size_t i = 0; i < length && (quoted || strncmp(line + i, "//", 2) != 0); i++) {
    if (line[i] == '"')
      quoted = !quoted;
    else if (quoted && line[i] == '\\')
      i++;
    if (line[i] != ' ')
      end = i + 1;
  }
  return end;
}

/* Copies code without its #line marks and, unless `comments`, without comments and blank lines: what is left
 * then means what the code means. */
static void add_unmarked(fat_text *out, const char *code, bool comments)
{
  while (*code != '\0') {
    size_t whole = strcspn(code, "\n"), length = comments ? whole : code_length(code, whole);
    if (!is_mark(code) && (comments || length > 0)) {
      fat_text_add_bytes(out, code, length);
      fat_text_add(out, "\n");
    }
    code += whole + (code[whole] == '\n');
  }
}

/* Puts the hash into every entry name, in place: the placeholder has its length. */
static void name_entries(char *text, const char *hash)
{
  for (char *at = text; (at = strstr(at, placeholder)) != NULL; at += sizeof placeholder - 1)
    memcpy(at + 1, hash, HASH_DIGITS);
}

/* The recipe in canonical form, checked by the parser that will read it at launch. */
static fat_status canonical_recipe(const char *text, fat_text *out, fat_error *err)
{
  fat_recipe *recipe;
  FAT_TRY(fat_recipe_make(text, &recipe, err));
  fat_recipe_print(recipe, out);
  free(recipe);
  return fat_text_status(out, err);
}

static void add_header(fat_source *s, const fat_problem *p, const fat_arch *arch, const fat_config *config,
                       const char *templates)
{
  char family[FAT_PROBLEM_TEXT], text[FAT_CONFIG_TEXT];
  fat_text *out = &s->text;
  fat_text_add(out, "// Attention kernel written by fatune " FATUNE_VERSION ".\n");
  fat_text_format(out, "//   family     %s\n", fat_problem_family(p, family));
  for (int n = 0; n < FAT_MOD_FEATURES; n++) {
    const fat_mod *mod = fat_mod_of(p, fat_mod_features[n]);
    if (mod)
      fat_text_format(out, "//   %-10s %s\n", fat_problem_feature_name(mod->which), mod->text);
  }
  fat_text_format(out, "//   config     %s\n", fat_config_print(config, text));
  fat_text_format(out, "//   source     %s\n//   templates  %s\n", s->hash, templates);
  fat_text_format(out, "//   target     %s\n//   options   ", arch->target);
  for (int i = 0; i < fat_source_option_count; i++)
    fat_text_format(out, " %s", fat_source_options[i]);
  fat_text_format(out, "\n//   rebuild    nvcc -cubin -arch=%s", arch->target);
  for (int i = 0; i < fat_source_option_count; i++)
    fat_text_format(out, " %s", fat_source_options[i]);
  fat_text_add(out, " -o kernel.cubin kernel.cu\n");
  for (const char *line = fat_text_get(&s->recipe); *line != '\0';) {
    size_t length = strcspn(line, "\n");
    fat_text_format(out, "//   recipe     %.*s\n", (int)length, line);
    line += length + (line[length] == '\n');
  }
  fat_text_add(out, "\n");
}

/* Splits the engine's answer, hashes the code and fills the source. `answer` is changed. */
static fat_status fill(char *answer, const fat_problem *p, const fat_arch *arch, const fat_config *config,
                       const char *templates, fat_lines lines, fat_source *s, fat_error *err)
{
  char *code = strchr(answer, '\f');
  if (code == NULL)
    return fat_status_fail(err, FAT_E_TEMPLATE, "kernel %s: the engine gave a recipe but no code",
                           config->kernel);
  *code++ = '\0';
  fat_text bare = {0};
  add_unmarked(&bare, code, false);
  fat_status status = fat_text_status(&bare, err);
  if (status == FAT_OK) {
    fat_text_hash(fat_text_get(&bare), bare.length, s->hash);
    name_entries(answer, s->hash);
    name_entries(code, s->hash);
    status = canonical_recipe(answer, &s->recipe, err);
  }
  if (status == FAT_OK) {
    add_header(s, p, arch, config, templates);
    if (lines == FAT_LINES_TEMPLATE)
      fat_text_add(&s->text, code);
    else
      add_unmarked(&s->text, code, true);
    status = fat_text_status(&s->text, err);
  }
  fat_text_free(&bare);
  return status;
}

fat_status fat_source_render(fat_script *script, const fat_problem *p, const fat_gpu *gpu,
                             const fat_config *config, fat_lines lines, fat_source *source, fat_error *err)
{
  memset(source, 0, sizeof *source);
  const fat_arch *arch = fat_gpu_arch(gpu->sm);
  fat_text facts = {0}, answer = {0};
  fat_status status = fat_space_facts(p, gpu, &facts, err);
  if (status == FAT_OK) {
    char text[FAT_CONFIG_TEXT];
    const char *args[] = {config->kernel, fat_text_get(&facts), fat_config_print(config, text)};
    status = fat_script_call(script, "render", 3, args, &answer, err);
  }
  if (status == FAT_OK)
    status = fill(answer.data, p, arch, config, fat_script_templates_hash(script), lines, source, err);
  fat_text_free(&facts);
  fat_text_free(&answer);
  if (status != FAT_OK)
    fat_source_free(source);
  return status;
}

void fat_source_free(fat_source *source)
{
  fat_text_free(&source->text);
  fat_text_free(&source->recipe);
  memset(source, 0, sizeof *source);
}
