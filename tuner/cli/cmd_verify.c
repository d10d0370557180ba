/* cmd_verify.c -- `fatune verify`: the winners of a database, checked again on the GPU at hand; kernels that
 * are compiled now, where they are chosen as for a tune; with --as those of another GPU.
 *
 * In: a database, perhaps problems. Out: one line for each kernel: right or not, how near to its bound; with
 * --sanitize what the tools say. Exit code 1 where one is not right. Nothing is stored. */
#include "checked.h"
#include "commands.h"
#include "exit.h"
#include "grow.h"
#include "search/agenda.h"
#include "worker/lab.h"
#include "open.h"
#include "proxy.h"
#include "search/stop.h"
#include "worker/sanitize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double gpu_deadline = 10;   /* seconds: winners are known to be quick */
static const double proxy_deadline = 60; /* the driver compiles the PTX first, and nobody knows the speed */

/* The problems that have measured rows on the device, each once. */
typedef struct problems {
  fat_problem *list;
  int count;
  bool failed;
} problems;

typedef struct checking {
  const fat_options *options;
  fat_asked_gpu asked;
  const fat_gpu *as; /* whose kernels are compiled now; NULL: those that are stored are checked */
  fat_db *db;
  fat_text path, sanitizer, json_text;
  fat_lab lab;
  fat_table table;
  fat_json json;
  fat_checked_counts sum;
  const volatile int *stop; /* what has been checked by then is printed */
} checking;

static bool collect(const fat_trial *t, void *user)
{
  problems *p = user;
  char a[FAT_PROBLEM_TEXT], b[FAT_PROBLEM_TEXT];
  fat_problem_print(&t->problem, a);
  for (int i = 0; i < p->count; i++)
    if (strcmp(a, fat_problem_print(&p->list[i], b)) == 0)
      return true;
  fat_problem *larger = fat_grow(p->list, p->count, sizeof *larger);
  p->failed = !larger;
  if (larger) {
    p->list = larger;
    p->list[p->count++] = t->problem;
  }
  return larger != NULL;
}

static fat_status list_problems(checking *c, problems *p, fat_error *err)
{
  char facts[FAT_GPU_FACTS];
  const fat_db_filter filter = {.gpu = fat_gpu_facts(&c->asked.gpu, facts),
                                .outcome_plus_1 = 1 + FAT_OUT_OK,
                                .origin_plus_1 = 1 + FAT_MEASURED};
  for (int i = 0; i < c->options->arg_count; i++) {
    fat_trial typed = {0};
    FAT_TRY(fat_agenda_problem(&c->options->goal, c->options->args[i], false, &typed.problem, err));
    collect(&typed, p);
  }
  if (c->options->arg_count == 0)
    FAT_TRY(fat_db_trials(c->db, &filter, collect, p, err));
  if (p->count == 0 && !p->failed)
    return fat_status_fail(err, FAT_E_NOT_FOUND,
                           "nothing was tuned on an %s into %s yet: there is nothing to verify (what a call "
                           "gets untuned: verify PROBLEM --top 1)",
                           c->asked.gpu.name, fat_text_get(&c->path));
  return p->failed ? fat_status_fail(err, FAT_E_NOMEM, "out of memory for the list of problems") : FAT_OK;
}

static fat_status sanitize(checking *c, const fat_problem *p, const fat_entrant *entrant, fat_verdict *v,
                           fat_error *err)
{
  const fat_gpu *gpu = c->as ? c->as : &c->asked.gpu;
  const fat_assignment a = {.task = FAT_TASK_CHECK,
                            .problem = *p,
                            .sms = gpu->sms,
                            .l2 = gpu->l2,
                            .seed = 1,
                            .bare = true,
                            .count = 1,
                            .entrant = {*entrant}};
  return fat_sanitize_all(fat_text_get(&c->sanitizer), c->asked.ordinal, &a, c->stop, v, &c->sum.misread,
                          err);
}

/* By how much it takes longer than it did: 0.1 is 10 %. */
static double slower_by(const fat_trial *then, const fat_verdict *now)
{
  return then && now->outcome == FAT_OUT_OK && then->ms > 0 ? now->timing.median / then->ms - 1 : NAN;
}

/* What is known so far, at once: a long check may be read, or cut short. */
static void flush(checking *c)
{
  if (fat_text_status(&c->json_text, NULL) != FAT_OK)
    return;
  fputs(fat_text_get(&c->json_text), stdout);
  fflush(stdout);
  fat_text_clear(&c->json_text);
}

/* `then`: how it was stored; NULL: it was not. */
static void add_row(checking *c, const fat_problem *p, const char *config, const fat_verdict *v,
                    const fat_trial *then)
{
  fat_checked row = {.config = config,
                     .made = c->as != NULL,
                     .as = c->options->as ? c->as->name : NULL,
                     .timed = c->options->time,
                     .driver = c->asked.driver,
                     .verdict = v,
                     .then = then,
                     .slower = c->options->time ? slower_by(then, v) : NAN};
  fat_problem_print(p, row.problem);
  const bool right = v->outcome == FAT_OUT_OK;
  c->sum.checked++;
  c->sum.bad += !right;
  c->sum.slower += row.slower > FAT_CHECKED_NOTICEABLE;
  if (c->options->json) {
    fat_checked_json(&row, &c->json);
    flush(c);
    return;
  }
  fat_checked_cells(&row, &c->table);
  if (!c->options->quiet)
    fprintf(stderr, "fatune: %s %s: %s\n", row.problem, config, right ? "right" : v->detail);
}

/* One stored row: the winner, or the best of a kernel. One that is not stored is left out. */
static fat_status check(checking *c, const fat_problem *p, const char *kernel, fat_error *err)
{
  char config[FAT_CONFIG_TEXT];
  fat_best best;
  fat_verdict v = {.outcome = FAT_OUT_COMPILE_FAILED};
  fat_status status = fat_db_best(c->db, p, &c->asked.gpu, kernel, true, &best, err);
  if (status == FAT_E_NOT_FOUND) { /* with a binary; perhaps without */
    status = fat_db_best(c->db, p, &c->asked.gpu, kernel, false, &best, err);
    if (status == FAT_E_NOT_FOUND && c->options->arg_count == 0)
      return FAT_OK;
  }
  FAT_TRY(status);
  if (!best.cubin || !best.recipe) {
    c->sum.bare += best.trial.origin == FAT_MEASURED;
    fat_db_best_free(&best);
    return FAT_OK;
  }
  const fat_entrant entrant = {fat_config_print(&best.trial.config, config), best.recipe, best.cubin_hash,
                               best.cubin, best.cubin_size};
  const fat_experiment e = {c->options->time ? FAT_TASK_MEASURE : FAT_TASK_CHECK,
                            p,
                            &c->asked.gpu,
                            &entrant,
                            1,
                            .expected_ms = best.trial.ms};
  status = fat_lab_run(&c->lab, &e, c->stop, &v, err);
  if (status == FAT_OK && v.outcome == FAT_OUT_OK && c->options->sanitize)
    status = sanitize(c, p, &entrant, &v, err);
  if (status == FAT_OK)
    add_row(c, p, config, &v, &best.trial);
  fat_db_best_free(&best);
  return status;
}

/* A kernel that was compiled now; see proxy.h. Its time on this GPU is taken, too. */
static fat_status check_made(const fat_problem *p, const fat_entrant *entrant, const char *failed, void *user,
                             fat_error *err)
{
  checking *c = user;
  fat_verdict v = {.outcome = FAT_OUT_COMPILE_FAILED, .timing = {.median = NAN}};
  const fat_experiment e = {FAT_TASK_MEASURE, p, c->as, entrant, 1, .expected_ms = NAN};
  if (failed)
    snprintf(v.detail, sizeof v.detail, "%s", failed);
  else
    FAT_TRY(fat_lab_run(&c->lab, &e, c->stop, &v, err));
  if (v.outcome == FAT_OUT_OK && c->options->sanitize)
    FAT_TRY(sanitize(c, p, entrant, &v, err));
  add_row(c, p, entrant->config, &v, NULL);
  return FAT_OK;
}

static fat_status check_all(checking *c, fat_error *err)
{
  problems p = {0};
  const fat_proxy proxy = {c->options, c->as, &c->asked, c->db, c->stop, check_made, c};
  if (c->as)
    return fat_proxy_each(&proxy, err);
  fat_status status = list_problems(c, &p, err);
  for (int i = 0; i < p.count && status == FAT_OK; i++) {
    if (c->options->goal.kernel_count == 0)
      status = check(c, &p.list[i], NULL, err);
    for (int k = 0; k < c->options->goal.kernel_count && status == FAT_OK; k++)
      status = check(c, &p.list[i], c->options->goal.kernels[k], err);
  }
  free(p.list);
  if (status == FAT_OK && c->sum.checked == 0)
    return fat_status_fail(
        err, FAT_E_NOT_FOUND, "there is nothing to verify: %s",
        c->sum.bare ? "what is stored came without binaries, by an import or in a package, and was "
                      "verified where it was measured"
                    : "no such kernel was tuned");
  return status;
}

/* Whether kernels are chosen as for a tune, so that they are compiled now. */
static bool chooses(const fat_options *o)
{
  return o->as || o->goal.ops || o->goal.dtypes || o->goal.dims.count || o->goal.causal ||
         o->goal.seqlens.count || o->config || o->top;
}

static fat_status choose(checking *c, fat_error *err)
{
  const fat_options *o = c->options;
  char target[FAT_PROXY_TARGET];
  if (o->device == FAT_DEVICE_ALL)
    return fat_status_fail(err, FAT_E_INPUT, "--device all: verify works on one GPU, which a number names");
  if (!chooses(o))
    return FAT_OK;
  if (o->time)
    return fat_status_fail(err, FAT_E_INPUT,
                           "--time compares winners with what was measured, not kernels that are compiled "
                           "now (--as, --config, --top, --ops, --dtypes, --dims, --causal, --seqlens)");
  c->as = &c->asked.gpu;
  if (!o->as)
    return FAT_OK;
  FAT_TRY(fat_gpu_find(o->as, &c->as, err));
  return fat_proxy_target(c->as, &c->asked.gpu, target, err);
}

/* The database; for kernels that are compiled now there need not be one, and configs that --config or --top
 * chooses need nothing of it. Where no problem is typed, without what a package ships: that was verified
 * where it was measured, and has no binaries here. */
static fat_status open_db(checking *c, fat_error *err)
{
  const bool own = c->options->arg_count == 0;
  if (c->as && (c->options->config || c->options->top))
    return FAT_OK;
  if (c->as)
    return fat_open_db_if_any(c->options, &c->db, &c->path, err);
  return (own ? fat_open_own_db : fat_open_db)(c->options, FAT_DB_READ, &c->db, &c->path, err);
}

static fat_status open_all(checking *c, fat_error *err)
{
  FAT_TRY(fat_open_gpu_itself(c->options, "kernels are verified on the GPU itself", &c->asked, err));
  FAT_TRY(choose(c, err));
  if (c->options->sanitize)
    FAT_TRY(fat_sanitize_find(&c->sanitizer, err));
  FAT_TRY(open_db(c, err));
  double least = c->as ? proxy_deadline : gpu_deadline;
  if (c->options->deadline > 0)
    least = c->options->deadline;
  return fat_lab_open(c->asked.ordinal, NULL, least, &c->lab, err);
}

static int print(checking *c, fat_error *err)
{
  fat_text text = {0};
  fat_status status = FAT_OK;
  if (c->options->json) {
    fat_json_close(&c->json, ']');
    status = fat_text_status(&c->json_text, err);
  } else {
    status = fat_table_print(&c->table, fat_table_look(), &text, err);
    fat_checked_sum(&c->sum, c->asked.gpu.name, c->options->as ? c->as->name : NULL,
                    c->options->time ? c->asked.driver : NULL, &text);
  }
  int code = status == FAT_OK ? fat_exit_print(fat_text_get(c->options->json ? &c->json_text : &text))
                              : fat_exit_fail(err);
  fat_text_free(&text);
  return code == FAT_EXIT_FINE && c->sum.bad + c->sum.slower > 0 ? FAT_EXIT_NO_KERNEL : code;
}

static int verify(const fat_options *options)
{
  fat_column columns[] = {
      {"problem", false, 9, true}, {"config", false, 8, false}, {"verdict", false, 7, false},
      {"error", true, 1, false},   {"allowed", true, 0, false}, {"stored ms", true, 4, false},
      {"ms", true, 5, false},      {"change", true, 6, false},  {"stored driver", false, 3, false}};
  if (chooses(options))
    columns[5].title = options->as ? "proxy ms" : "ms";
  const int shown = options->time ? 9 : chooses(options) ? 6 : 5;
  checking c = {.options = options, .table = {.columns = columns, .column_count = shown}};
  fat_error err = {0};
  c.json.out = &c.json_text;
  if (options->json)
    fat_json_open(&c.json, NULL, '[');
  fat_stop stops;
  c.stop = fat_stop_begin(&stops, options->quiet);
  fat_status status = open_all(&c, &err);
  if (status == FAT_OK)
    status = check_all(&c, &err);
  const int signal = status == FAT_E_CANCELLED ? fat_stop_signal() : 0;
  fat_stop_end(&stops);
  int code = status == FAT_OK || c.sum.checked > 0 ? print(&c, &(fat_error){0}) : FAT_EXIT_FINE;
  if (signal) {
    fprintf(stderr, "fatune: interrupted: not all kernels were checked\n");
    code = FAT_EXIT_SIGNAL + signal;
  } else if (status != FAT_OK)
    code = fat_exit_fail(&err);
  fat_lab_close(&c.lab);
  fat_db_close(c.db);
  fat_table_free(&c.table);
  fat_text_free(&c.path);
  fat_text_free(&c.sanitizer);
  fat_text_free(&c.json_text);
  return code;
}

const fat_command fat_cmd_verify = {
    .name = "verify",
    .args = "[PROBLEM...]",
    .about = "check the stored winners again, or kernels that are compiled now, on the GPU at hand",
    .more =
        "Runs each winner (or with --kernel the best of those kernels) on small shapes around every tile "
        "edge and at its own shape, against a reference in double: random, large and adversarial inputs, "
        "poison around the tensors, repeated runs. The exit code is 1 where one is not right. Stores "
        "nothing.\n\n"
        "With --time each winner is timed again, and the exit code is 1 where one takes 5 % longer than when "
        "it was tuned: for cron, after a driver or a clock has changed.\n\n"
        "Where kernels are chosen as for a tune they are compiled now, tuned or not: --config checks that "
        "config of the problems typed, --top 5 the first five that a tune would try of each kernel, --dims "
        "64 what the database knows as best for the problems that a tune of it would have, else the "
        "defaults.\n\n"
        "With --as T4 the kernels are those that a T4 would be given (of the problems typed or chosen as "
        "for tune: what the database knows as best, else the defaults), as PTX that the driver of a newer "
        "GPU compiles for itself: a check of all but the T4's machine code. Times are those of the GPU at "
        "hand.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(GPU) | FAT_USE(MOD) | FAT_USE(MASK_MOD) | FAT_USE(OPS) | FAT_USE(DTYPES) | FAT_USE(DIMS) |
            FAT_USE(CAUSAL) | FAT_USE(SEQLENS) | FAT_USE(KERNEL) | FAT_USE(CONFIG) | FAT_USE(SANITIZE) |
            FAT_USE(TIME) | FAT_USE(DEVICE) | FAT_USE(AS) | FAT_USE(TRY) | FAT_USE(DEADLINE) | FAT_USE(CUDA) |
            FAT_USE(DB) | FAT_USE(TEMPLATES) | FAT_USE(JSON) | FAT_USE(QUIET),
    .most = FAT_OPTIONS_ARGS,
    .run = verify,
};
