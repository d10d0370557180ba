/* cmd_tune.c -- `fatune [tune]`: from what was typed to the printed table.
 *
 * In: options. Out: rows in the database, progress on stderr, a table (or JSON) on stdout, and one sentence
 * on what was and was not measured. Everything is opened here, in the order in which it can be wrong. */
#include "commands.h"
#include "exit.h"
#include "open.h"
#include "results.h"
#include "table.h"
#include "search/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double gpu_deadline = 2; /* seconds that any trial may take on the GPU; slow ones get more */

/* What the command opens, closed together. */
typedef struct opened {
  const fat_options *options;
  fat_asked_gpu asked;
  fat_agenda agenda;
  fat_text key, path;
  fat_lab labs[FAT_LABS]; /* of the GPUs at hand; the session has those that are not left out */
  fat_binary clock;
  fat_sources sources;
  fat_session session;
} opened;

/* Keeps the families of --shard, and says which part that is: many processes may have been told the same. */
static void take_part(opened *o)
{
  const fat_shard *part = &o->options->shard;
  if (part->count > 1)
    fat_agenda_shard(&o->agenda, part->index, part->count);
  if (part->count == 0 || o->options->quiet)
    return;
  fprintf(stderr, "fatune: part %d of %d%s%s%s%s\n", part->index, part->count, part->by ? " (" : "",
          part->by ? part->by : "", part->by ? ")" : "",
          o->agenda.count == 0 ? ": there are fewer families than parts, none falls to it" : "");
}

/* What no call launches is not timed: its time would be that of nothing. */
static fat_status refuse_nothing(const fat_agenda *agenda, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  for (int i = 0; i < agenda->count; i++) {
    const char *why = fat_problem_nothing(&agenda->list[i].problem);
    if (why)
      return fat_status_fail(err, FAT_E_INPUT, "%s: %s", fat_problem_print(&agenda->list[i].problem, problem),
                             why);
  }
  return FAT_OK;
}

static fat_status open_all(opened *o, fat_error *err)
{
  const fat_options *options = o->options;
  const fat_gpu *gpu = &o->asked.gpu;
  fat_session *s = &o->session;
  *s = (fat_session){.goal = &options->goal,
                     .agenda = &o->agenda,
                     .gpu = gpu,
                     .templates = fat_open_templates(options),
                     .dump = fat_open_dump(options),
                     .command = options->command_line,
                     .quiet = options->quiet,
                     .json_progress = options->json_progress};
  const fat_goal *goal = s->goal;
  if (goal->problem_count > 0 &&
      (goal->ops || goal->dtypes || goal->dims.count || goal->causal || goal->seqlens.count))
    return fat_status_fail(
        err, FAT_E_INPUT,
        "--ops, --dtypes, --dims, --causal and --seqlens choose families: a problem that is "
        "typed, like %s, says all of it",
        goal->problems[0]);
  FAT_TRY(fat_open_script(options, &s->script, err));
  FAT_TRY(fat_open_gpu(options, &o->asked, err));
  FAT_TRY(fat_agenda_list(s->goal, gpu, s->script, &o->agenda, err));
  FAT_TRY(refuse_nothing(&o->agenda, err));
  if (o->asked.at_hand && s->goal->problem_count == 0 && s->goal->seqlens.count == 0)
    FAT_TRY(fat_agenda_grid(s->goal, gpu, s->script, &o->agenda, err));
  FAT_TRY(fat_agenda_check(s->goal, gpu, s->script, &o->agenda, err));
  take_part(o);
  FAT_TRY(fat_open_compiler(options, &o->asked, &s->nvrtc, err));
  FAT_TRY(fat_compile_key(s->nvrtc, &o->key, err));
  FAT_TRY(fat_open_db(options, FAT_DB_WRITE, &s->db, &o->path, err));
  FAT_TRY(fat_db_lock_tuning(s->db, gpu, err));
  o->sources = (fat_sources){.script = s->script, .gpu = gpu};
  s->tools = (fat_tools){.templates = fat_script_templates_hash(s->script),
                         .sources = &o->sources,
                         .compile_key = fat_text_get(&o->key),
                         .model = FAT_MODEL_VERSION,
                         .driver = o->asked.at_hand ? o->asked.driver : NULL};
  if (!o->asked.at_hand)
    return FAT_OK;
  for (; s->labs < o->asked.count; s->labs++) {
    s->lab[s->labs] = &o->labs[s->labs];
    FAT_TRY(fat_lab_open(o->asked.ordinals[s->labs], &o->clock,
                         options->deadline > 0 ? options->deadline : gpu_deadline, s->lab[s->labs], err));
  }
  fat_lab_make_clock(s->nvrtc, gpu, &o->clock); /* while the workers open their GPUs */
  return FAT_OK;
}

static void close_all(opened *o)
{
  for (int i = 0; i < o->session.labs; i++)
    fat_lab_close(o->session.lab[i]);
  fat_binary_free(&o->clock);
  fat_db_close(o->session.db);
  fat_text_free(&o->path);
  fat_text_free(&o->key);
  fat_nvrtc_close(o->session.nvrtc);
  fat_agenda_free(&o->agenda);
  fat_sources_free(&o->sources);
  fat_script_close(o->session.script);
}

static void say_ending(const fat_session *s, const fat_schedule *schedule)
{
  if (!s->quiet && !s->run && schedule->stored > 0)
    fprintf(stderr,
            "fatune: all %d configs that this command chooses are stored: there is nothing left to do\n",
            schedule->stored);
  if (!s->quiet && (s->signal || s->out_of_budget))
    fprintf(stderr, "fatune: %s; all that ended is stored, the same command goes on from there\n",
            s->signal ? "interrupted" : "the budget is used up");
}

/* One sentence on what was and was not measured, if anything works. */
static void say_measured(const opened *o, const fat_results *results, FILE *to)
{
  const char *gpu = o->asked.gpu.name, *path = fat_text_get(&o->path);
  bool any = false;
  for (int i = 0; i < results->count; i++)
    any = any || results->list[i].works;
  if (!any)
    return;
  if (o->asked.at_hand)
    fprintf(to,
            "Measured on the %s at hand (driver %s): each kernel was verified first. The times and the best "
            "kernels' binaries are in %s.\n",
            gpu, o->asked.driver, path);
  else
    fprintf(
        to,
        "Nothing was measured: no %s is at hand. The times are predictions of a model from kernels compiled "
        "for it; they and the best kernels' binaries are in %s, which can be carried to that GPU.\n",
        gpu, path);
}

/* To a person: what to type next. */
static void say_next(const opened *o, const fat_results *results)
{
  char problem[FAT_PROBLEM_TEXT];
  if (!fat_table_look().glance || results->count == 0)
    return;
  fat_problem_print(&results->list[0].pair->item->problem, problem);
  printf("* is what a call gets. Next: `fatune why %s --gpu '%s'` says why; `fatune show trials --gpu '%s' "
         "--sort ms "
         "--top 20` all that was tried; `fatune report -o report.html --gpu '%s'` draws it.\n",
         problem, o->asked.gpu.name, o->asked.gpu.name, o->asked.gpu.name);
}

/* Why pairs have no working kernel: the first failure of each. */
static void say_failures(const opened *o, const fat_results *results)
{
  char problem[FAT_PROBLEM_TEXT];
  for (int i = 0; i < results->count && !o->options->quiet; i++) {
    const fat_result *r = &results->list[i];
    if (!r->works)
      fprintf(stderr, "fatune: %s for %s: %s\n", r->pair->kernel->name,
              fat_problem_print(&r->pair->item->problem, problem),
              r->record.id ? r->record.detail : r->pair->why.text);
  }
}

/* Whether nothing is stored of a kernel here, or a package's row of it is better than what won. */
static fat_status is_hidden(const fat_session *s, const fat_problem *p, const char *kernel, bool *hidden,
                            fat_error *err)
{
  fat_best known, winner;
  fat_status status = fat_db_best(s->db, p, s->gpu, kernel, false, &known, err);
  *hidden = status == FAT_E_NOT_FOUND;
  if (status != FAT_OK)
    return *hidden ? FAT_OK : status;
  status = known.trial.id < 0 ? fat_db_best(s->db, p, s->gpu, NULL, false, &winner, err) : FAT_E_NOT_FOUND;
  if (status == FAT_OK) {
    *hidden = known.trial.ms < winner.trial.ms;
    fat_db_best_free(&winner);
  }
  fat_db_best_free(&known);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* The first kernel that was not asked for, but that calls may have got before. */
static fat_status find_hidden(const fat_session *s, const fat_item *item, char name[FAT_CONFIG_KERNEL],
                              fat_error *err)
{
  char all[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int count;
  name[0] = 0;
  FAT_TRY(fat_space_kernels(s->script, all, &count, err));
  for (int i = 0; i < count && !name[0]; i++) {
    int picked;
    bool hidden;
    if (fat_agenda_has(item, all[i]) ||
        fat_space_applies(s->script, all[i], &item->problem, s->gpu, &picked, NULL) != FAT_OK || !picked)
      continue;
    FAT_TRY(is_hidden(s, &item->problem, all[i], &hidden, err));
    if (hidden)
      memcpy(name, all[i], sizeof all[i]);
  }
  return FAT_OK;
}

/* Rows of a problem itself come before those of its neighbours, so tuning one kernel alone hides others. */
static fat_status say_hidden(const fat_session *s, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], hidden[FAT_CONFIG_KERNEL];
  for (int i = 0; i < s->agenda->count; i++) {
    const fat_item *item = &s->agenda->list[i];
    FAT_TRY(find_hidden(s, item, hidden, err));
    if (!item->kernels[0].picked || !hidden[0])
      continue;
    fprintf(stderr,
            "fatune: %s was not tried for %s, whose calls now get what was; without --kernel all are tried\n",
            hidden, fat_problem_print(&item->problem, problem));
    break;
  }
  return FAT_OK;
}

static fat_status report(const opened *o, const fat_schedule *schedule, int *code, fat_error *err)
{
  const fat_options *options = o->options;
  fat_results results;
  fat_text text = {0};
  FAT_TRY(fat_results_read(schedule, &results, err));
  const bool nothing = results.waiting > 0 && results.waiting == schedule->pair_count;
  fat_status status = options->json ? fat_results_json(&results, &o->asked.gpu, &text, err)
                                    : fat_results_table(&results, fat_table_look(), &text, err);
  if (status == FAT_OK) {
    *code = nothing && !options->json ? FAT_EXIT_FINE : fat_exit_print(fat_text_get(&text));
    if (!options->json && !nothing) {
      say_measured(o, &results, stdout);
      say_next(o, &results);
    } else if (!options->quiet && !nothing)
      say_measured(o, &results, stderr);
    say_failures(o, &results);
    if (results.waiting && (!options->quiet || nothing))
      fprintf(stderr, "fatune: %d of %d problems and kernels were not reached yet\n", results.waiting,
              schedule->pair_count);
    if (*code == FAT_EXIT_FINE && (results.missing > 0 || nothing))
      *code = FAT_EXIT_NO_KERNEL;
  }
  if (status == FAT_OK && o->session.labs > 0 && options->goal.kernel_count > 0 && !options->quiet &&
      !nothing)
    status = say_hidden(&o->session, err);
  fat_results_free(&results);
  fat_text_free(&text);
  return status;
}

static int tune(const fat_options *options)
{
  opened o = {.options = options};
  fat_schedule schedule = {0};
  fat_error err = {0};
  int code = FAT_EXIT_FINE;
  fat_status status = open_all(&o, &err);
  if (status == FAT_OK) {
    status = fat_tune_run(&o.session, &schedule, &err);
    if (status == FAT_OK || status == FAT_E_DEVICE_LOST) {
      say_ending(&o.session, &schedule);
      fat_status reported = report(&o, &schedule, &code, status == FAT_OK ? &err : NULL);
      status = status == FAT_OK ? reported : status;
    }
  }
  if (status != FAT_OK)
    code = fat_exit_fail(&err);
  else if (o.session.signal)
    code = FAT_EXIT_SIGNAL + o.session.signal;
  fat_schedule_free(&schedule);
  close_all(&o);
  return code;
}

const fat_command fat_cmd_tune = {
    .name = "tune",
    .args = "[PROBLEM...]",
    .about = "choose, compile, verify, time and store kernels for a GPU",
    .more =
        "Without PROBLEMs (like fwd-f32-b4-h32-q4096-k4096-d64-causal) the families are ops x dtypes x "
        "dims x causal, each at B*N = 16k tokens and H*d = 2048, with B halved until all fits the GPU's "
        "memory.\n\n"
        "Where the GPU is at hand, and neither PROBLEMs nor --seqlens are given, each family is measured "
        "at a grid of anchors: q = k = 4096 is searched; short and long sequences, few heads, and few "
        "rows of Q try the best of that and a few of their own. A call is given the winner that "
        "promises the least time at its sizes (`fatune why`).\n\n"
        "Lists are like 64,128 or 512:16384 (doubling) or 64:256:64 (in steps).\n\n"
        "Where that GPU is at hand each config is verified against a reference in double and timed, in a "
        "worker process that is killed when a kernel hangs or faults; the best of each problem are "
        "timed again in turns. Where it is not, times are predicted by a model, and say so.\n\n"
        "--effort quick tries at most 64 configs of a problem, full some hundreds, exhaustive all, "
        "and known none but the default and what won for the family before, on any GPU: after a new driver "
        "or new templates, or for a GPU like one that was tuned. "
        "--config names configs that are tried alone, beside the defaults: what is near is raced. "
        "--order random takes them by lot instead of the most promising first, the same ones for the same "
        "SEED.\n\n"
        "Each trial is stored as it ends. Ctrl-C keeps all and prints the best so far, when the trial that "
        "runs "
        "has ended; a second one does not wait for that. The same command again goes on from there. Progress "
        "goes to stderr, results to stdout.\n\n" FAT_EXIT_HELP " Stopped by SIGINT or SIGTERM: 130 or 143.",
    .uses = FAT_USE(GPU) | FAT_USE(MOD) | FAT_USE(MASK_MOD) | FAT_USE(OPS) | FAT_USE(DTYPES) | FAT_USE(DIMS) |
            FAT_USE(CAUSAL) | FAT_USE(SEQLENS) | FAT_USE(KERNEL) | FAT_USE(CONFIGS) | FAT_USE(EFFORT) |
            FAT_USE(ORDER) | FAT_USE(BUDGET) | FAT_USE(DEADLINE) | FAT_USE(JOBS) | FAT_USE(CUDA) |
            FAT_USE(DB) | FAT_USE(TEMPLATES) | FAT_USE(DUMP) | FAT_USE(DEVICE) | FAT_USE(SHARD) |
            FAT_USE(PROGRESS) | FAT_USE(JSON) | FAT_USE(QUIET),
    .most = FAT_OPTIONS_ARGS,
    .run = tune,
};
