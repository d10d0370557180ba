/* cmd_report.c -- `fatune report -o FILE`: the database as one page that any browser opens, without a
 * network.
 *
 * In: trials, runs and rejections. Out: report.html with them in it as JSON. What is drawn is decided there,
 * by the reader: here every trial is one short array, and what many share (GPU, problem, words) stands once,
 * so that 100,000 trials are some ten megabytes. */
#include "commands.h"
#include "embed.h"
#include "exit.h"
#include "grow.h"
#include "open.h"
#include "output.h"
#include "rows.h"
#include "space.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts that stand once, each known by its place. */
typedef struct names {
  char **list;
  int count, last;
  bool failed;
} names;

typedef struct page {
  const fat_options *options;
  fat_db *db;
  fat_script *script; /* NULL: templates that cannot be opened say nothing of limits */
  fat_rows best;
  names gpus, problems, words;
  fat_text gpu_facts, problem_facts, trials;
  long count;
} page;

static int place_of(names *n, const char *text, bool *fresh)
{
  *fresh = false;
  if (n->last < n->count && strcmp(n->list[n->last], text) == 0)
    return n->last;
  for (n->last = 0; n->last < n->count; n->last++)
    if (strcmp(n->list[n->last], text) == 0)
      return n->last;
  char **larger = fat_grow(n->list, n->count, sizeof *larger);
  n->list = larger ? larger : n->list;
  char *copy = larger ? strdup(text) : NULL;
  n->failed = n->failed || !copy;
  if (copy)
    n->list[n->count++] = copy;
  *fresh = copy != NULL;
  return n->last;
}

static void names_free(names *n)
{
  for (int i = 0; i < n->count; i++)
    free(n->list[i]);
  free(n->list);
}

/* A string of JSON; '<' would let a text end the script that holds it. */
static void add_string(fat_text *out, const char *text)
{
  fat_text_add(out, "\"");
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c < ' ' || *c == '"' || *c == '\\' || *c == '<' || *c == 127)
      fat_text_format(out, "\\u%04x", *c);
    else
      fat_text_add_bytes(out, c, 1);
  fat_text_add(out, "\"");
}

static void add_number(fat_text *out, double value)
{
  if (isfinite(value))
    fat_text_format(out, ",%.6g", value);
  else
    fat_text_add(out, ",0");
}

static void add_gpu(page *p, const fat_gpu *gpu, const char *facts)
{
  const fat_arch *arch = fat_gpu_arch(gpu->sm);
  const double clocks = gpu->clock * 1e6 * gpu->sms;
  fat_text_add(&p->gpu_facts, p->gpu_facts.length ? ",\n{\"name\":" : "\n{\"name\":");
  add_string(&p->gpu_facts, gpu->name);
  fat_text_add(&p->gpu_facts, ",\"facts\":");
  add_string(&p->gpu_facts, facts);
  fat_text_format(&p->gpu_facts,
                  ",\"sms\":%d,\"clock\":%d,\"dram\":%g,\"tensor\":%g,\"fma\":%g,\"ex2\":%g,\"shared\":%g}",
                  gpu->sms, gpu->clock, gpu->dram * 1e9, arch ? arch->tensor * clocks : 0,
                  arch ? 2.0 * arch->fma * clocks : 0, arch ? arch->ex2 * clocks : 0,
                  arch ? arch->shared_bytes * clocks : 0);
}

static void add_problem(page *p, const fat_problem *problem, const char *text)
{
  char family[FAT_PROBLEM_TEXT];
  fat_text_add(&p->problem_facts, p->problem_facts.length ? ",\n[" : "\n[");
  add_string(&p->problem_facts, text);
  fat_text_add(&p->problem_facts, ",");
  add_string(&p->problem_facts, fat_problem_family(problem, family));
  add_number(&p->problem_facts, fat_problem_flops(problem));
  fat_text_add(&p->problem_facts, "]");
}

/* Milliseconds that each unit needs for a winner's work, by its template's count: tensor, fma, ex2, shared,
 * dram; and its bytes of device memory. */
static void add_limits(page *p, const fat_trial *t)
{
  fat_point point;
  double sum[5] = {0}, bytes = 0;
  const fat_arch *arch = fat_gpu_arch(t->gpu.sm);
  if (!p->script || !arch ||
      fat_space_point(p->script, &t->config, &t->problem, &t->gpu, &point, NULL) != FAT_OK) {
    fat_text_add(&p->trials, ",0");
    return;
  }
  const double clocks = t->gpu.clock * 1e3 * t->gpu.sms;
  for (int i = 0; i < point.launches; i++) {
    const fat_work *w = &point.work[i];
    sum[0] += w->blocks * w->tensor / arch->tensor / clocks;
    sum[1] += w->blocks * w->fma / arch->fma / clocks;
    sum[2] += w->blocks * w->ex2 / arch->ex2 / clocks;
    sum[3] += w->blocks * w->shared_bytes / arch->shared_bytes / clocks;
    sum[4] += w->dram / (t->gpu.dram * 1e6);
    bytes += w->dram;
  }
  fat_text_format(&p->trials, ",[%.5g", sum[0]);
  for (int i = 1; i < 5; i++)
    add_number(&p->trials, sum[i]);
  add_number(&p->trials, bytes);
  fat_text_add(&p->trials, "]");
}

static void add_kinds(page *p, const fat_trial *t)
{
  bool fresh;
  fat_text_add(&p->trials, t->kind_count ? ",{" : ",0");
  for (int i = 0; i < t->kind_count; i++)
    fat_text_format(&p->trials, "%s\"%d\":%.5g", i ? "," : "", place_of(&p->words, t->kinds[i].name, &fresh),
                    t->kinds[i].ms);
  fat_text_add(&p->trials, t->kind_count ? "}" : "");
}

/* ORDER TRIAL: as report.html reads it. */
static bool add_trial(const fat_trial *t, void *user)
{
  page *p = user;
  char facts[FAT_GPU_FACTS], problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
  bool fresh;
  fat_problem_print(&t->problem, problem);
  fat_config_print(&t->config, config);
  if (!fat_rows_asks_for(&p->options->goal, t->config.kernel, config))
    return true;
  if (p->options->problem && !strstr(problem, p->options->problem))
    return true;
  if (p->options->gpu && strcmp(t->gpu.name, p->options->gpu) != 0)
    return true;
  const int gpu = place_of(&p->gpus, fat_gpu_facts(&t->gpu, facts), &fresh);
  if (fresh)
    add_gpu(p, &t->gpu, facts);
  const int which = place_of(&p->problems, problem, &fresh);
  if (fresh)
    add_problem(p, &t->problem, problem);
  const bool wins =
      fat_rows_have(&p->best, (const char *[]){config, problem, facts, t->source_hash, t->date});
  fat_text_format(&p->trials, "%s[%d,%d,", p->count++ ? ",\n" : "\n", gpu, which);
  add_string(&p->trials, config);
  fat_text_format(&p->trials, ",%d,%d", t->origin == FAT_MEASURED,
                  place_of(&p->words, fat_db_outcome_name(t->outcome), &fresh));
  add_number(&p->trials, t->ms);
  add_number(&p->trials, t->forecast);
  fat_text_format(&p->trials, ",%d,%d,%d,%d,%d,%d,", t->registers, t->spills, t->shared, t->blocks_per_sm,
                  place_of(&p->words, t->limit ? t->limit : "", &fresh), wins);
  add_string(&p->trials, t->date);
  fat_text_format(&p->trials, ",%d,%d", place_of(&p->words, t->driver, &fresh),
                  place_of(&p->words, t->compile_key, &fresh));
  fat_text_add(&p->trials, ",");
  add_string(&p->trials, t->outcome == FAT_OUT_OK ? "" : t->detail);
  add_kinds(p, t);
  if (wins)
    add_limits(p, t);
  fat_text_add(&p->trials, "]");
  return !p->trials.failed && !p->words.failed && !p->problems.failed && !p->gpus.failed;
}

/* A view as SQLite's JSON, each '<' escaped: "</script>" in a text would end the script that holds it. */
static fat_status add_view(page *p, const char *view, fat_text *out, fat_error *err)
{
  fat_text json = {0};
  fat_status status = fat_db_view(p->db, view, true, &json, err);
  for (const char *c = fat_text_get(&json); status == FAT_OK && *c; c++)
    fat_text_format(out, *c == '<' ? "\\u003c" : "%c", *c);
  fat_text_free(&json);
  return status;
}

/* The page around the data: what stands in front of the mark, the data, what stands behind it. */
static fat_status assemble(page *p, fat_text *out, fat_error *err)
{
  static const char mark[] = "/*DATA*/";
  const fat_embed *file = fat_embed_find("tuner/cli/report.html");
  const char *at = file ? strstr(file->text, mark) : NULL;
  if (!at)
    return fat_status_fail(err, FAT_E_INPUT, "report.html is not in the program");
  fat_text_add_bytes(out, file->text, (size_t)(at - file->text));
  fat_text_format(out, "{\"version\":\"%s\",\"words\":[", FATUNE_VERSION);
  for (int i = 0; i < p->words.count; i++) {
    fat_text_add(out, i ? "," : "");
    add_string(out, p->words.list[i]);
  }
  fat_text_format(out, "],\n\"gpus\":[%s],\n\"problems\":[%s],\n\"trials\":[", fat_text_get(&p->gpu_facts),
                  fat_text_get(&p->problem_facts));
  fat_text_add_bytes(out, fat_text_get(&p->trials), p->trials.length);
  fat_text_add(out, "],\n\"runs\":");
  FAT_TRY(add_view(p, "runs", out, err));
  fat_text_add(out, ",\"rejections\":");
  FAT_TRY(add_view(p, "rejections", out, err));
  fat_text_add(out, "}");
  fat_text_add(out, at + strlen(mark));
  return fat_text_status(out, err);
}

static fat_status make(page *p, fat_text *path, fat_text *out, fat_error *err)
{
  const fat_db_filter filter = {.origin_plus_1 = p->options->origin_plus_1, .samples = true};
  FAT_TRY(fat_open_db(p->options, FAT_DB_READ, &p->db, path, err));
  FAT_TRY(fat_rows_read(p->db, "best", &(fat_options){0}, false, &p->best, err));
  if (fat_open_script(p->options, &p->script, NULL) != FAT_OK)
    p->script = NULL;
  FAT_TRY(fat_db_trials(p->db, &filter, add_trial, p, err));
  if (p->count == 0)
    return fat_status_fail(err, FAT_E_INPUT,
                           "nothing is stored that is asked for, so there is nothing to draw: `fatune show "
                           "runs` says what was tuned");
  if (p->trials.failed || p->words.failed || p->problems.failed || p->gpus.failed)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the report");
  return assemble(p, out, err);
}

static int report(const fat_options *options)
{
  fat_options own = *options;
  page p = {.options = &own};
  const fat_gpu *gpu;
  fat_text path = {0}, out = {0};
  fat_error err = {0};
  const char *name = options->output ? options->output : "fatune.html";
  if (own.gpu && fat_gpu_find(own.gpu, &gpu, NULL) == FAT_OK)
    own.gpu = gpu->name;
  fat_status status = make(&p, &path, &out, &err);
  const bool to_stdout = strcmp(name, "-") == 0;
  if (status == FAT_OK && !to_stdout)
    status = fat_output_write(name, fat_text_get(&path), options->force, &out, &err);
  int code = FAT_EXIT_FINE;
  if (status != FAT_OK)
    code = fat_exit_fail(&err);
  else if (to_stdout)
    code = fat_exit_print(fat_text_get(&out));
  else if (!options->quiet)
    fprintf(stderr, "fatune: wrote %ld trials to %s: open it in a browser\n", p.count, name);
  names_free(&p.gpus);
  names_free(&p.problems);
  names_free(&p.words);
  fat_rows_free(&p.best);
  fat_script_close(p.script);
  fat_db_close(p.db);
  fat_text_free(&p.gpu_facts);
  fat_text_free(&p.problem_facts);
  fat_text_free(&p.trials);
  fat_text_free(&path);
  fat_text_free(&out);
  return code;
}

const fat_command fat_cmd_report = {
    .name = "report",
    .about = "draw what is stored: one HTML file for any browser",
    .more = "Winners by GPU and family; their time against what tensor cores, exponentials, shared memory "
            "and DRAM allow, "
            "measured and predicted apart; the space by two tunables, and what each tunable does to time; "
            "kinds of data; "
            "the search; failures and rejections by reason; GPU, driver and versions. The file needs no "
            "network and "
            "nothing else.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(OUTPUT) | FAT_USE(FORCE) | FAT_USE(OF_GPU) | FAT_USE(PROBLEM) | FAT_USE(OF_KERNEL) |
            FAT_USE(ORIGIN) | FAT_USE(DB) | FAT_USE(TEMPLATES) | FAT_USE(QUIET),
    .run = report,
};
