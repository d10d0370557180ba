/* cmd_tune.c -- `fatune [tune]`: from what was typed to the printed table.
 *
 * In: options. Out: rows in the database, progress on stderr, a table (or JSON) on stdout, and one sentence
 * on what was and was not measured. Everything is opened here, in the order in which it can be wrong. */
#include "commands.h"
#include "exit.h"
#include "worker/lab.h"
#include "open.h"
#include "results.h"
#include "table.h"
#include "search/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double compile_deadline = 60; /* seconds: slower code is a trial's outcome, "timeout" */
static const double gpu_deadline = 2; /* seconds that any trial may take on the GPU; slow ones get more */

/* What the command opens, closed together. */
typedef struct shop {
  const fat_options *options;
  fat_target target;
  fat_script *script;
  fat_asks asks;
  fat_nvrtc *nvrtc;
  fat_text key, path;
  fat_db *db;
  fat_bench bench;
  fat_measure measure; /* worker NULL: no such GPU is at hand */
} shop;

static fat_status open_shop(shop *s, fat_error *err)
{
  FAT_TRY(fat_open_script(s->options, &s->script, err));
  FAT_TRY(fat_open_gpu(s->options, &s->target, err));
  FAT_TRY(fat_anchors_list(s->options, &s->target.gpu, s->script, &s->asks, err));
  if (s->target.at_hand && s->options->arg_count == 0 && s->options->seqlens.count == 0)
    FAT_TRY(fat_anchors_grid(s->options, &s->target.gpu, s->script, &s->asks, err));
  FAT_TRY(fat_open_nvrtc(s->options, &s->target, &s->nvrtc, err));
  FAT_TRY(fat_compile_key(s->nvrtc, &s->key, err));
  FAT_TRY(fat_open_db(s->options, FAT_DB_WRITE, &s->db, &s->path, err));
  FAT_TRY(fat_db_lock_tuning(s->db, &s->target.gpu, err));
  s->bench = (fat_bench){.nvrtc = s->nvrtc,
                         .tools = {.templates = fat_script_templates_hash(s->script),
                                   .compile_key = fat_text_get(&s->key),
                                   .model = FAT_MODEL_VERSION,
                                   .driver = s->target.at_hand ? s->target.driver : NULL},
                         .dump = fat_open_dump(s->options),
                         .deadline = compile_deadline};
  double least = s->options->deadline > 0 ? s->options->deadline : gpu_deadline;
  return s->target.at_hand
             ? fat_measure_open(s->target.ordinal, &s->bench, &s->target.gpu, least, &s->measure, err)
             : FAT_OK;
}

static void close_shop(shop *s)
{
  fat_measure_close(&s->measure);
  fat_db_close(s->db);
  fat_text_free(&s->path);
  fat_text_free(&s->key);
  fat_nvrtc_close(s->nvrtc);
  fat_anchors_free(&s->asks);
  fat_script_close(s->script);
}

static void say_ending(const shop *s, const fat_outturn *out)
{
  if (s->options->quiet)
    return;
  if (out->signal || out->out_of_budget)
    fprintf(stderr, "fatune: %s; all that ended is stored, the same command goes on from there\n",
            out->signal ? "interrupted" : "the budget is used up");
}

/* One sentence on what was and was not measured. */
static void say_measured(const shop *s, FILE *to)
{
  const char *gpu = s->target.gpu.name, *path = fat_text_get(&s->path);
  if (s->target.at_hand)
    fprintf(to,
            "Measured on the %s at hand (driver %s): each kernel was verified first. The times and the best "
            "kernels' binaries are in %s.\n",
            gpu, s->target.driver, path);
  else
    fprintf(
        to,
        "Nothing was measured: no %s is at hand. The times are predictions of a model from kernels compiled "
        "for it; they and the best kernels' binaries are in %s, which can be carried to that GPU.\n",
        gpu, path);
}

/* Why lines have no working kernel: the first failure of each. */
static void say_failures(const shop *s, const fat_results *results)
{
  char problem[FAT_PROBLEM_TEXT];
  for (int i = 0; i < results->count && !s->options->quiet; i++) {
    const fat_result *r = &results->list[i];
    if (!r->works)
      fprintf(stderr, "fatune: %s for %s: %s\n", r->line->kernel->name,
              fat_problem_print(&r->line->ask->problem, problem),
              r->row.id ? r->row.detail : r->line->why.text);
  }
}

static bool is_asked(const fat_ask *ask, const char *kernel)
{
  for (int i = 0; i < ask->kernel_count; i++)
    if (strcmp(ask->kernels[i].name, kernel) == 0)
      return true;
  return false;
}

/* Whether nothing is known of a kernel here, or what a package knows of it is better than what won. */
static fat_status is_hidden(const shop *s, const fat_problem *p, const char *kernel, bool *hidden,
                            fat_error *err)
{
  fat_best known, winner;
  fat_status status = fat_db_best(s->db, p, &s->target.gpu, kernel, false, &known, err);
  *hidden = status == FAT_E_NOT_FOUND;
  if (status != FAT_OK)
    return *hidden ? FAT_OK : status;
  status =
      known.trial.id < 0 ? fat_db_best(s->db, p, &s->target.gpu, NULL, false, &winner, err) : FAT_E_NOT_FOUND;
  if (status == FAT_OK) {
    *hidden = known.trial.ms < winner.trial.ms;
    fat_db_best_free(&winner);
  }
  fat_db_best_free(&known);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* The first kernel that was not asked for, but that calls might have been given. */
static fat_status find_hidden(const shop *s, const fat_ask *ask, char name[FAT_CONFIG_KERNEL], fat_error *err)
{
  char all[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int count;
  name[0] = 0;
  FAT_TRY(fat_space_kernels(s->script, all, &count, err));
  for (int i = 0; i < count && !name[0]; i++) {
    int picked;
    bool hidden;
    if (is_asked(ask, all[i]) ||
        fat_space_applies(s->script, all[i], &ask->problem, &s->target.gpu, &picked, NULL) != FAT_OK ||
        !picked)
      continue;
    FAT_TRY(is_hidden(s, &ask->problem, all[i], &hidden, err));
    if (hidden)
      memcpy(name, all[i], sizeof all[i]);
  }
  return FAT_OK;
}

/* What is measured at a problem goes before what is known of its neighbours, so one kernel tuned alone hides
 * others. */
static fat_status say_hidden(const shop *s, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], hidden[FAT_CONFIG_KERNEL];
  for (int i = 0; i < s->asks.count; i++) {
    const fat_ask *ask = &s->asks.list[i];
    FAT_TRY(find_hidden(s, ask, hidden, err));
    if (!ask->kernels[0].picked || !hidden[0])
      continue;
    fprintf(stderr,
            "fatune: %s was not tried for %s, whose calls now get what was; without --kernel all are tried\n",
            hidden, fat_problem_print(&ask->problem, problem));
    break;
  }
  return FAT_OK;
}

static fat_status report(const shop *s, const fat_outturn *out, const fat_tools *tools, int *code,
                         fat_error *err)
{
  fat_results results;
  fat_text text = {0};
  FAT_TRY(fat_results_read(s->db, out, &s->target.gpu, tools, s->options->kernel_count > 0, &results, err));
  fat_status status = s->options->json
                          ? fat_results_json(&results, &s->target.gpu, &text, err)
                          : fat_results_table(&results, fat_table_width(STDOUT_FILENO), &text, err);
  if (status == FAT_OK) {
    *code = fat_exit_print(fat_text_get(&text));
    if (!s->options->json)
      say_measured(s, stdout);
    else if (!s->options->quiet)
      say_measured(s, stderr);
    say_failures(s, &results);
    if (results.waiting && !s->options->quiet)
      fprintf(stderr, "fatune: %d of %d problems and kernels were not reached yet\n", results.waiting,
              out->line_count);
    if (*code == FAT_EXIT_FINE && results.missing > 0)
      *code = FAT_EXIT_NO_KERNEL;
  }
  if (status == FAT_OK && s->measure.worker && s->options->kernel_count > 0 && !s->options->quiet)
    status = say_hidden(s, err);
  fat_results_free(&results);
  fat_text_free(&text);
  return status;
}

static int tune(const fat_options *options, const char *command_line)
{
  shop s = {.options = options};
  fat_error err = {0};
  fat_outturn out = {0};
  int code = FAT_EXIT_FINE;
  fat_status status = open_shop(&s, &err);
  if (status != FAT_OK)
    goto done;
  fat_order order = {.options = options,
                     .gpu = &s.target.gpu,
                     .asks = &s.asks,
                     .templates = fat_open_templates(options),
                     .script = s.script,
                     .bench = s.bench,
                     .db = s.db,
                     .command = command_line,
                     .measure = s.measure.worker ? &s.measure : NULL};
  status = fat_tune_run(&order, &out, &err);
  if (status != FAT_OK && status != FAT_E_DEVICE_LOST)
    goto done;
  say_ending(&s, &out);
  fat_status reported = report(&s, &out, &order.bench.tools, &code, status == FAT_OK ? &err : NULL);
  status = status == FAT_OK ? reported : status;
done:
  if (status != FAT_OK)
    code = fat_exit_fail(&err);
  else if (out.signal)
    code = FAT_EXIT_SIGNAL + out.signal;
  fat_tune_free(&out);
  close_shop(&s);
  return code;
}

const fat_command fat_cmd_tune = {
    .name = "tune",
    .args = "[PROBLEM...]",
    .about = "choose, compile, verify, time and store kernels for a GPU",
    .more =
        "Without PROBLEMs (like fwd-f32-b4-h32-q4096-k4096-d64-causal) the families are ops x dtypes x dims "
        "x "
        "causal, each at B*N = 16k tokens and H*d = 2048, with B halved until all fits the GPU's memory.\n\n"
        "Where the GPU is at hand, and neither PROBLEMs nor --seqlens are given, each family is measured at "
        "a grid "
        "of anchors: q = k = 4096 is searched; short and long sequences, few heads, and 1 and 16 rows of Q "
        "try the "
        "best of that and a few of their own. A call is given the winner of the nearest anchor.\n\n"
        "Lists are like 64,128 or 512:16384 (doubling) or 64:256:64 (in steps).\n\n"
        "Where that GPU is at hand each config is verified against a reference in double and timed, in a "
        "worker "
        "process that is killed when a kernel hangs or faults; the nearest of each problem are timed again "
        "in "
        "turns. Where it is not, times are predicted by a model, and say so.\n\n"
        "--effort quick tries at most 64 configs of a problem, full some hundreds, exhaustive all. "
        "--order random takes them by lot instead of the most promising first, the same ones for the same "
        "SEED.\n\n"
        "Each trial is stored as it ends. Ctrl-C keeps all and prints the best so far; the same command "
        "again "
        "goes on from there. Progress goes to stderr, results to stdout.\n\n" FAT_EXIT_HELP
        " Stopped by SIGINT or SIGTERM: 130 or 143.",
    .uses = FAT_USE(GPU) | FAT_USE(OPS) | FAT_USE(DTYPES) | FAT_USE(DIMS) | FAT_USE(CAUSAL) |
            FAT_USE(SEQLENS) | FAT_USE(KERNEL) | FAT_USE(EFFORT) | FAT_USE(ORDER) | FAT_USE(BUDGET) |
            FAT_USE(DEADLINE) | FAT_USE(JOBS) | FAT_USE(CUDA) | FAT_USE(DB) | FAT_USE(TEMPLATES) |
            FAT_USE(DUMP) | FAT_USE(JSON) | FAT_USE(QUIET),
    .most = FAT_OPTIONS_ARGS,
    .run = tune,
};
