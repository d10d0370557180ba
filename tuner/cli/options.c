/* options.c -- the table of options and its walk by argp.
 *
 * In: argv of one command. Out: fat_options with every value checked as far as that needs no GPU, template or
 * file. A new option is a row here, a name in the enum, and its use. */
#include "options.h"

#include <argp.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>

enum { FIRST_KEY = 0x100, JOBS_MOST = 256, TOP_MOST = 100000, SEQLEN_MOST = 1 << 24, DIM_UNIT = 8 };

typedef fat_status (*reader)(fat_options *o, const char *text, fat_error *err);

static fat_status read_ops(fat_options *o, const char *text, fat_error *err)
{
  return fat_list_names("--ops", text, fat_ops, FAT_OP_COUNT, &o->goal.ops, err);
}

static fat_status read_dtypes(fat_options *o, const char *text, fat_error *err)
{
  const char *names[FAT_DTYPE_COUNT];
  for (int i = 0; i < FAT_DTYPE_COUNT; i++)
    names[i] = fat_dtypes[i].name;
  return fat_list_names("--dtypes", text, names, FAT_DTYPE_COUNT, &o->goal.dtypes, err);
}

static fat_status read_dims(fat_options *o, const char *text, fat_error *err)
{
  const fat_range dims = {DIM_UNIT, FAT_PROBLEM_D_MAX, DIM_UNIT};
  return fat_list_numbers("--dims", text, dims, &o->goal.dims, err);
}

static fat_status read_causal(fat_options *o, const char *text, fat_error *err)
{
  static const char *const answers[] = {"no", "yes"};
  return fat_list_names("--causal", text, answers, 2, &o->goal.causal, err);
}

static fat_status read_seqlens(fat_options *o, const char *text, fat_error *err)
{
  return fat_list_numbers("--seqlens", text, (fat_range){1, SEQLEN_MOST, 1}, &o->goal.seqlens, err);
}

/* Names are only split here: which kernels there are is the templates' to say. */
static fat_status read_kernel(fat_options *o, const char *text, fat_error *err)
{
  for (const char *rest = text;;) {
    size_t n = strcspn(rest, ",");
    if (n == 0 || n >= FAT_CONFIG_KERNEL)
      return fat_status_fail(err, FAT_E_INPUT,
                             "--kernel '%s': allowed are names of kernels, like fwd,standard", text);
    int i = 0;
    while (i < o->goal.kernel_count &&
           (strlen(o->goal.kernels[i]) != n || memcmp(o->goal.kernels[i], rest, n) != 0))
      i++;
    if (i == FAT_SPACE_KERNELS)
      return fat_status_fail(err, FAT_E_INPUT, "--kernel '%s': more than %d names", text, FAT_SPACE_KERNELS);
    memcpy(o->goal.kernels[i], rest, n);
    o->goal.kernels[i][n] = 0;
    if (i == o->goal.kernel_count)
      o->goal.kernel_count++;
    if (!rest[n])
      return FAT_OK;
    rest += n + 1;
  }
}

/* One name out of `known`. */
static fat_status read_choice(const char *argument, const char *text, const char *const *known, int count,
                              int *choice, fat_error *err)
{
  uint32_t mask;
  FAT_TRY(fat_list_names(argument, text, known, count, &mask, err));
  for (int i = 0; i < count; i++)
    if (mask == 1u << i) {
      *choice = i;
      return FAT_OK;
    }
  return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed is one name, not a list", argument, text);
}

static fat_status read_lines(fat_options *o, const char *text, fat_error *err)
{
  static const char *const names[] = {"template", "generated"};
  int choice = 0;
  FAT_TRY(read_choice("--lines", text, names, 2, &choice, err));
  o->lines = choice == 0 ? FAT_LINES_TEMPLATE : FAT_LINES_GENERATED;
  return FAT_OK;
}

static fat_status read_effort(fat_options *o, const char *text, fat_error *err)
{
  static const char *const names[FAT_EFFORT_COUNT] = {"quick", "full", "exhaustive"}; /* ORDER EFFORT */
  int choice = 0;
  FAT_TRY(read_choice("--effort", text, names, FAT_EFFORT_COUNT, &choice, err));
  o->goal.effort = (fat_effort)choice;
  return FAT_OK;
}

/* Without a seed it is always the same one: the same command goes on where it stopped. */
static fat_status read_order(fat_options *o, const char *text, fat_error *err)
{
  static const char word[] = "random";
  int64_t seed = 1;
  if (strcmp(text, "promising") == 0) {
    o->goal.shuffle = 0;
    return FAT_OK;
  }
  size_t n = strlen(word);
  bool random = strncmp(text, word, n) == 0 && (text[n] == 0 || text[n] == ':');
  if (!random || (text[n] && fat_list_number("--order", text + n + 1, 1, INT64_MAX, &seed, NULL) != FAT_OK))
    return fat_status_fail(err, FAT_E_INPUT,
                           "--order '%s': allowed are promising, random and random:SEED with a whole number "
                           "from 1",
                           text);
  o->goal.shuffle = (uint64_t)seed;
  return FAT_OK;
}

static fat_status read_budget(fat_options *o, const char *text, fat_error *err)
{
  return fat_list_seconds("--budget", text, &o->goal.budget, err);
}

static fat_status read_deadline(fat_options *o, const char *text, fat_error *err)
{
  return fat_list_seconds("--deadline", text, &o->deadline, err);
}

static fat_status read_jobs(fat_options *o, const char *text, fat_error *err)
{
  int64_t n;
  FAT_TRY(fat_list_number("--jobs", text, 1, JOBS_MOST, &n, err));
  o->goal.threads = (int)n;
  return FAT_OK;
}

static fat_status read_cuda(fat_options *o, const char *text, fat_error *err)
{
  int64_t n;
  if (fat_list_number("--cuda", text, 12, 13, &n, NULL) != FAT_OK)
    return fat_status_fail(err, FAT_E_INPUT, "--cuda '%s': allowed are 12 and 13", text);
  o->cuda = (int)n;
  return FAT_OK;
}

static fat_status read_path(const char *argument, const char *text, const char **path, fat_error *err)
{
  if (!*text)
    return fat_status_fail(err, FAT_E_INPUT, "%s is empty: allowed is a path", argument);
  *path = text;
  return FAT_OK;
}

static fat_status read_db(fat_options *o, const char *text, fat_error *err)
{
  return read_path("--db", text, &o->db, err);
}

static fat_status read_templates(fat_options *o, const char *text, fat_error *err)
{
  return read_path("--templates", text, &o->templates, err);
}

static fat_status read_dump(fat_options *o, const char *text, fat_error *err)
{
  return read_path("--dump", text, &o->dump, err);
}

static fat_status read_cubins(fat_options *o, const char *text, fat_error *err)
{
  (void)err;
  o->sources = true;
  o->cubins = text;
  return FAT_OK;
}

static fat_status read_top(fat_options *o, const char *text, fat_error *err)
{
  int64_t n;
  FAT_TRY(fat_list_number("--top", text, 1, TOP_MOST, &n, err));
  o->top = (int)n;
  return FAT_OK;
}

static const struct { /* ORDER OPTION */
  const char *name, *value, *doc;
  reader read;  /* NULL: the text goes into the options as it is; without a value they get a flag */
  size_t place; /* then: its place in fat_options */
} rows[FAT_OPTION_COUNT] = {
    {"gpu", "NAME", "the GPU, like T4 or 'RTX 4090' (`fatune show gpus`); else the one at hand", NULL,
     offsetof(fat_options, gpu)},
    {"ops", "LIST", "fwd, bwd (default: fwd)", read_ops, 0},
    {"dtypes", "LIST", "f16, bf16, f32, tf32, f32x3 (default: all that have kernels for this GPU)",
     read_dtypes, 0},
    {"dims", "LIST", "head dimensions, multiples of 8 up to 256 (default: 64,128)", read_dims, 0},
    {"causal", "LIST", "no, yes (default: no,yes)", read_causal, 0},
    {"seqlens", "LIST", "lengths of q and k, like 512:16384 or 1000,4096 (default: 4096)", read_seqlens, 0},
    {"kernel", "LIST", "kernels of the templates, like fwd,fa1 (default: all)", read_kernel, 0},
    {"config", "TEXT", "the config, like fwd:Br64-Bc32-... (default: the kernel's default)", NULL,
     offsetof(fat_options, config)},
    {"lines", "KIND", "#line marks of the 'template' (default), or none: 'generated'", read_lines, 0},
    {"effort", "HOW", "quick (default), full or exhaustive", read_effort, 0},
    {"order", "HOW", "promising (default), random or random:SEED: which configs first", read_order, 0},
    {"budget", "TIME", "stop feeding new trials after 90s, 10m, 2h", read_budget, 0},
    {"deadline", "TIME", "what a trial may take on the GPU at least before it is killed (default: 2s)",
     read_deadline, 0},
    {"jobs", "N", "compile with N threads (default: all cores)", read_jobs, 0},
    {"sanitize", NULL, "run them under the four tools of compute-sanitizer, too", NULL,
     offsetof(fat_options, sanitize)},
    {"as", "NAME", "check here the kernels of a GPU that is not at hand, like T4, by their PTX", NULL,
     offsetof(fat_options, as)},
    {"top", "N", "with --as: of each kernel the first N configs that a tune would try", read_top, 0},
    {"cuda", "MAJOR", "12 or 13: NVRTC's newest CUDA major (default: as the driver allows)", read_cuda, 0},
    {"db", "FILE", "the tuning database (else FATUNE_DB, else ~/.local/share/fatune/fatune.db)", read_db, 0},
    {"templates", "DIR", "templates to use instead of those inside (else FATUNE_TEMPLATES)", read_templates,
     0},
    {"dump", "DIR", "write each trial's .cu, .cubin and .log there (else FATUNE_DUMP)", read_dump, 0},
    {"winners", NULL, "only what was measured and won, as db/tuned keeps it", NULL,
     offsetof(fat_options, winners)},
    {"sources", NULL, "render the sources of the rows too, as a package's database has them", NULL,
     offsetof(fat_options, sources)},
    {"cubins", "LIST", "the same, and compile the winners of these GPUs, like T4,H200, or of all",
     read_cubins, 0},
    {"force", NULL, "write over FILE where it is there", NULL, offsetof(fat_options, force)},
    {"json", NULL, "print JSON", NULL, offsetof(fat_options, json)},
    {"quiet", NULL, "no progress on stderr", NULL, offsetof(fat_options, quiet)},
};

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
  if (key >= FIRST_KEY && key < FIRST_KEY + FAT_OPTION_COUNT) {
    const int option = key - FIRST_KEY;
    if (rows[option].read)
      return rows[option].read(o, text, &w->error) == FAT_OK ? 0 : EINVAL;
    void *place = (char *)o + rows[option].place;
    if (rows[option].value)
      *(const char **)place = text;
    else
      *(bool *)place = true;
    return 0;
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
  struct argp_option known[FAT_OPTION_COUNT + 1] = {0};
  int count = 0;
  for (int i = 0; i < FAT_OPTION_COUNT; i++)
    if (command->uses >> i & 1u)
      known[count++] = (struct argp_option){.name = rows[i].name,
                                            .key = FIRST_KEY + i,
                                            .arg = rows[i].value,
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
  options->goal.problems = options->args;
  options->goal.problem_count = options->arg_count;
done:
  fat_text_free(&doc);
  return status;
}
