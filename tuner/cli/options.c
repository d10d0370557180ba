/* options.c -- the table of options and its walk by argp.
 *
 * In: argv of one command. Out: fat_options with every value checked as far as that needs no GPU, template or
 * file. A new option is a row of options.def, and its use. */
#include "options.h"
#include "bench_rows.h"

#include "db.h"
#include "shard.h"

#include <argp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_KEY = 0x100 };

typedef struct row row;
struct row {
  const char *name, *value, *doc;
  fat_status (*read)(const row *r, void *place, const char *text, fat_error *err);
  size_t place; /* in fat_options */
  int64_t least, most;
};

static fat_status read_ops(const row *r, void *place, const char *text, fat_error *err)
{
  return fat_list_names(r->name, text, fat_ops, FAT_OP_COUNT, place, err);
}

static fat_status read_dtypes(const row *r, void *place, const char *text, fat_error *err)
{
  const char *names[FAT_DTYPE_COUNT];
  for (int i = 0; i < FAT_DTYPE_COUNT; i++)
    names[i] = fat_dtypes[i].name;
  return fat_list_names(r->name, text, names, FAT_DTYPE_COUNT, place, err);
}

static fat_status read_causal(const row *r, void *place, const char *text, fat_error *err)
{
  static const char *const answers[] = {"no", "yes"};
  return fat_list_names(r->name, text, answers, 2, place, err);
}

static fat_status read_impls(const row *r, void *place, const char *text, fat_error *err)
{
  return fat_list_names(r->name, text, fat_impl_names, FAT_IMPLS, place, err);
}

/* A flag, or a list where one follows its '='. */
static fat_status read_is_causal(const row *r, void *place, const char *text, fat_error *err)
{
  return read_causal(r, place, text ? text : "yes", err);
}

static fat_status read_numbers(const row *r, void *place, const char *text, fat_error *err)
{
  return fat_list_numbers(r->name, text, (fat_range){r->least, r->most, r->least}, place, err);
}

static fat_status read_number(const row *r, void *place, const char *text, fat_error *err)
{
  int64_t n;
  FAT_TRY(fat_list_number(r->name, text, r->least, r->most, &n, err));
  *(int *)place = (int)n;
  return FAT_OK;
}

static fat_status read_seconds(const row *r, void *place, const char *text, fat_error *err)
{
  return fat_list_seconds(r->name, text, place, err);
}

static fat_status read_path(const row *r, void *place, const char *text, fat_error *err)
{
  if (!*text)
    return fat_status_fail(err, FAT_E_INPUT, "%s is empty: allowed is %s", r->name,
                           strcmp(r->value, "FILE") == 0 || strcmp(r->value, "DIR") == 0 ? "a path"
                                                                                         : "a word");
  *(const char **)place = text;
  return FAT_OK;
}

/* An expression, or a file that holds one; from here on this process knows it. */
static fat_status read_mod(const row *r, void *place, const char *text, fat_error *err)
{
  fat_text file = {0};
  fat_error why = {0};
  fat_status status = FAT_OK;
  if (*text == '@')
    status = fat_text_read_file(&file, text + 1, FAT_MOD_TEXT, &why);
  if (status == FAT_OK && *text == '@' && strlen(fat_text_get(&file)) != file.length)
    status = fat_status_fail(&why, FAT_E_INPUT, "%s has a byte that is 0 behind %zu others: it is no text",
                             text + 1, strlen(fat_text_get(&file)));
  if (status == FAT_OK)
    status = fat_mod_know(*text == '@' ? fat_text_get(&file) : text, (fat_feature)r->least, place, &why);
  fat_text_free(&file);
  return status == FAT_OK ? FAT_OK : fat_status_fail(err, FAT_E_INPUT, "%s: %s", r->name, why.text);
}

/* Names are only split here: which kernels there are is the templates' to say. */
static fat_status read_kernel(const row *r, void *place, const char *text, fat_error *err)
{
  fat_goal *goal = place;
  for (const char *rest = text;;) {
    size_t n = strcspn(rest, ",");
    if (n == 0 || n >= FAT_CONFIG_KERNEL)
      return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed are names of kernels, like fwd,standard",
                             r->name, text);
    int i = 0;
    while (i < goal->kernel_count &&
           (strlen(goal->kernels[i]) != n || memcmp(goal->kernels[i], rest, n) != 0))
      i++;
    if (i == FAT_SPACE_KERNELS)
      return fat_status_fail(err, FAT_E_INPUT, "%s '%s': more than %d names", r->name, text,
                             FAT_SPACE_KERNELS);
    memcpy(goal->kernels[i], rest, n);
    goal->kernels[i][n] = 0;
    if (i == goal->kernel_count)
      goal->kernel_count++;
    if (!rest[n])
      return FAT_OK;
    rest += n + 1;
  }
}

/* Which of them are points of a space is the templates' to say. */
static fat_status read_configs(const row *r, void *place, const char *text, fat_error *err)
{
  for (const char *rest = text;;) {
    const int n = (int)strcspn(rest, ",");
    char one[FAT_CONFIG_TEXT], printed[FAT_CONFIG_TEXT];
    fat_config config;
    fat_error why = {0};
    snprintf(one, sizeof one, "%.*s", n, rest);
    if (fat_config_parse(one, &config, &why) != FAT_OK)
      return fat_status_fail(err, FAT_E_INPUT, "%s: %s", r->name, why.text);
    if (!fat_known_add(place, fat_config_print(&config, printed)))
      return fat_status_fail(err, FAT_E_INPUT, "%s: more than %d configs", r->name, FAT_KNOWN_ROOM);
    if (!rest[n])
      return FAT_OK;
    rest += n + 1;
  }
}

/* One name out of `known`, as its place there, counted from the row's `least`. */
static fat_status read_choice(const row *r, int *choice, const char *text, const char *const *known,
                              int count, fat_error *err)
{
  uint32_t mask;
  FAT_TRY(fat_list_names(r->name, text, known, count, &mask, err));
  for (int i = 0; i < count; i++)
    if (mask == 1u << i) {
      *choice = i + (int)r->least;
      return FAT_OK;
    }
  return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed is one name, not a list", r->name, text);
}

static fat_status read_lines(const row *r, void *place, const char *text, fat_error *err)
{
  static const char *const names[] = {"template", "generated"}; /* ORDER LINES */
  return read_choice(r, place, text, names, 2, err);
}

static fat_status read_origin(const row *r, void *place, const char *text, fat_error *err)
{
  const char *names[FAT_ORIGIN_COUNT];
  for (int i = 0; i < FAT_ORIGIN_COUNT; i++)
    names[i] = fat_db_origin_name((fat_origin)i);
  return read_choice(r, place, text, names, FAT_ORIGIN_COUNT, err);
}

static fat_status read_effort(const row *r, void *place, const char *text, fat_error *err)
{
  static const char *const names[FAT_EFFORT_COUNT] = {"quick", "full", "exhaustive",
                                                      "known"}; /* ORDER EFFORT */
  return read_choice(r, place, text, names, FAT_EFFORT_COUNT, err);
}

static fat_status read_progress(const row *r, void *place, const char *text, fat_error *err)
{
  static const char *const names[] = {"text", "json"};
  return read_choice(r, place, text, names, 2, err);
}

/* Without a seed it is always the same one: the same command goes on where it stopped. */
static fat_status read_order(const row *r, void *place, const char *text, fat_error *err)
{
  static const char word[] = "random";
  const size_t n = strlen(word);
  const bool random = strncmp(text, word, n) == 0 && (text[n] == 0 || text[n] == ':');
  int64_t seed = random;
  if (random ? text[n] && fat_list_number(r->name, text + n + 1, r->least, r->most, &seed, NULL) != FAT_OK
             : strcmp(text, "promising") != 0)
    return fat_status_fail(err, FAT_E_INPUT,
                           "%s '%s': allowed are promising, random and random:SEED with a whole number "
                           "from 1",
                           r->name, text);
  *(uint64_t *)place = (uint64_t)seed;
  return FAT_OK;
}

static fat_status read_device(const row *r, void *place, const char *text, fat_error *err)
{
  int64_t n;
  if (strcmp(text, "all") == 0)
    *(int *)place = FAT_DEVICE_ALL;
  else if (fat_list_number(r->name, text, r->least, r->most, &n, NULL) == FAT_OK)
    *(int *)place = 1 + (int)n;
  else
    return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed are all and numbers from 0 to %d", r->name,
                           text, (int)r->most);
  return FAT_OK;
}

static fat_status read_shard(const row *r, void *place, const char *text, fat_error *err)
{
  fat_shard *shard = place;
  if (strcmp(text, "auto") == 0)
    return fat_shard_here(shard, err);
  char first[24];
  const char *slash = strchr(text, '/');
  int64_t index = 0, count = 0;
  snprintf(first, sizeof first, "%.*s", slash ? (int)(slash - text) : 0, text);
  if (!slash || fat_list_number(r->name, first, r->least, r->most, &index, NULL) != FAT_OK ||
      fat_list_number(r->name, slash + 1, r->least, r->most, &count, NULL) != FAT_OK || index > count)
    return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed are auto and I/N, like 1/8 to 8/8", r->name,
                           text);
  *shard = (fat_shard){.index = (int)index, .count = (int)count};
  return FAT_OK;
}

static fat_status read_cuda(const row *r, void *place, const char *text, fat_error *err)
{
  if (read_number(r, place, text, NULL) != FAT_OK)
    return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed are 12 and 13", r->name, text);
  return FAT_OK;
}

static const row rows[FAT_OPTION_COUNT] = {
#define OPTION(id, name, value, doc, read, member, least, most)                                              \
  {"--" name, value, doc, read, offsetof(fat_options, member), least, most},
#include "options.def"
#undef OPTION
};

_Static_assert(FAT_OPTION_COUNT <= 64, "fat_command.uses has a bit for each");

fat_option_help fat_options_help(int option)
{
  return (fat_option_help){rows[option].name, rows[option].value, rows[option].doc};
}

/* What argp carries along. */
typedef struct walk {
  const fat_command *command;
  fat_options *options;
  fat_error error;
} walk;

static error_t on_option(int key, char *text, struct argp_state *state)
{
  walk *w = state->input;
  fat_options *o = w->options;
  key = key == 'o' ? FIRST_KEY + FAT_OPT_OUTPUT : key;
  if (key >= FIRST_KEY && key < FIRST_KEY + FAT_OPTION_COUNT) {
    const row *r = &rows[key - FIRST_KEY];
    void *place = (char *)o + r->place;
    if (r->read)
      return r->read(r, place, text, &w->error) == FAT_OK ? 0 : EINVAL;
    if (r->value)
      *(const char **)place = text;
    else
      *(bool *)place = true;
    return 0;
  }
  if (key == 'h')
    argp_state_help(state, stdout, ARGP_HELP_STD_HELP); /* ends the program */
  if (key == ARGP_KEY_ARG && !*text) {
    fat_status_fail(&w->error, FAT_E_INPUT, "an argument is empty: fatune %s takes %s", w->command->name,
                    w->command->args ? w->command->args : "options only");
    return EINVAL;
  }
  if (key == ARGP_KEY_ARG) {
    if (o->arg_count == w->command->most || o->arg_count == FAT_OPTIONS_ARGS) {
      fat_status_fail(&w->error, FAT_E_INPUT, "'%s' is one argument too many: fatune %s takes %s", text,
                      w->command->name, w->command->args ? w->command->args : "options only");
      return EINVAL;
    }
    o->args[o->arg_count++] = text;
    return 0;
  }
  if (key == ARGP_KEY_END && o->arg_count < w->command->least) {
    fat_status_fail(&w->error, FAT_E_INPUT, "fatune %s needs %s; see fatune %s --help", w->command->name,
                    w->command->args, w->command->name);
    return EINVAL;
  }
  return ARGP_ERR_UNKNOWN;
}

fat_status fat_options_read(const fat_command *command, int argc, char **argv, fat_options *options,
                            fat_error *err)
{
  struct argp_option known[FAT_OPTION_COUNT + 2] = {{.key = 'h', .flags = OPTION_HIDDEN}};
  int count = 1;
  for (int i = 0; i < FAT_OPTION_COUNT; i++)
    if (command->uses >> i & 1u)
      known[count++] = (struct argp_option){.name = rows[i].name + strlen("--"),
                                            .key = i == FAT_OPT_OUTPUT ? 'o' : FIRST_KEY + i,
                                            .arg = rows[i].value,
                                            .flags = rows[i].read == read_is_causal ? OPTION_ARG_OPTIONAL : 0,
                                            .doc = rows[i].doc,
                                            .group = i + 1};
  fat_text doc = {0};
  fat_text_format(&doc, "%s\v%s", command->about, command->more);
  fat_status status = fat_text_status(&doc, err);
  if (status != FAT_OK)
    goto done;

  *options = (fat_options){0};
  walk w = {.command = command, .options = options};
  struct argp parser = {known, on_option, command->args, fat_text_get(&doc), NULL, NULL, NULL};
  if (argp_parse(&parser, argc, argv, 0, NULL, &w) != 0)
    status = w.error.status ? fat_status_fail(err, w.error.status, "%s", w.error.text)
                            : fat_status_fail(err, FAT_E_NOMEM, "out of memory");
  options->sources = options->sources || options->cubins;
  options->packaged = options->packaged || options->sources;
  options->goal.problems = options->args;
  options->goal.problem_count = options->arg_count;
done:
  fat_text_free(&doc);
  return status;
}
