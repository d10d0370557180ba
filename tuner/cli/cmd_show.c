/* cmd_show.c -- `fatune show [best|trials|history|failures|runs|rejections|gpus]`: what is stored, and which
 * GPUs can be named.
 *
 * In: a view of the database as tab-separated text, or the GPU table. Out: an aligned table of its most
 * telling columns, or all columns as JSON. The same views can be read with any SQLite viewer. */
#include "commands.h"
#include "exit.h"
#include "gpu.h"
#include "json.h"
#include "open.h"
#include "rows.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns a person sees, by their names in the view, with how long each stays on a narrow terminal;
 * `prose` is the one whose sentences are cut there. */
typedef struct shown {
  const char *view, *prose;
  fat_column columns[16];
} shown;

enum { TRIALS = 1 };
static const shown tables[] = {
    {"best",
     NULL,
     {{"gpu", false, 15, true},
      {"problem", false, 12, true},
      {"kernel", false, 10, false},
      {"config", false, 11, false},
      {"origin", false, 13, false},
      {"ms", true, 14, false},
      {"tflops", true, 8, false},
      {"limit_by", false, 7, false},
      {"registers", true, 3, false},
      {"spills", true, 2, false},
      {"shared", true, 1, false},
      {"blocks_per_sm", true, 4, false},
      {"mean", true, 6, false},
      {"date", false, 0, false},
      {"kinds", false, -1, false}}},
    {"trials",
     NULL,
     {{"id", true, 3, false},
      {"gpu", false, 14, true},
      {"problem", false, 11, true},
      {"config", false, 12, false},
      {"origin", false, 9, false},
      {"outcome", false, 10, false},
      {"ms", true, 13, false},
      {"limit_by", false, 6, false},
      {"registers", true, 5, false},
      {"spills", true, 4, false},
      {"shared", true, 2, false},
      {"blocks_per_sm", true, 8, false},
      {"mean", true, 6, false},
      {"date", false, 1, false},
      {"kinds", false, 0, false}}},
    {"failures",
     "detail",
     {{"id", true, 2, false},
      {"gpu", false, 9, true},
      {"problem", false, 7, true},
      {"config", false, 8, false},
      {"outcome", false, 6, false},
      {"detail", false, 10, false},
      {"date", false, 1, false}}},
    {"runs",
     "command",
     {{"id", true, 8, false}, /* each database numbers its own */
      {"database", false, 6, false},
      {"begun", false, 7, false},
      {"ended", false, 2, false},
      {"status", false, 6, false},
      {"trials", true, 5, false},
      {"failures", true, 4, false},
      {"nvrtc", false, 1, false},
      {"command", false, 3, false}}},
    {"rejections",
     "reason",
     {{"run", true, 3, false},
      {"database", false, 3, false},
      {"gpu", false, 2, false},
      {"problem", false, 5, true},
      {"kernel", false, 6, false},
      {"count", true, 7, false},
      {"reason", false, 8, false}}},
};

/* {"normal":1.2345678,"wide":2} as people read it: normal 1.235, wide 2. */
static void add_kinds(fat_table *t, const char *json)
{
  fat_text kinds = {0};
  char name[32];
  double ms;
  int n = 0;
  for (; sscanf(json, "%*[{,]\"%31[a-z0-9]\":%lf%n", name, &ms, &n) == 2; json += n)
    fat_text_format(&kinds, "%s%s %.4g", kinds.length ? ", " : "", name, ms);
  t->failed = t->failed || kinds.failed;
  fat_table_add(t, fat_text_get(&kinds));
  fat_text_free(&kinds);
}

/* A number as people read it: view columns carry all digits. */
static void add_cell(fat_table *t, const fat_column *column, const char *text)
{
  char *end;
  if (strcmp(column->title, "kinds") == 0) {
    add_kinds(t, text);
    return;
  }
  double value = strtod(text, &end);
  if (column->right && *text && !*end && strpbrk(text, ".e"))
    fat_table_addf(t, "%.4g", value);
  else
    fat_table_add(t, text);
}

static fat_status lay_out(const shown *view, const fat_rows *rows, const fat_rows *winners, fat_text *out,
                          fat_error *err)
{
  const char *trial[FAT_ROWS_KEY];
  fat_table t = {.columns = view->columns, .prose = view->prose};
  while (t.column_count < (int)(sizeof view->columns / sizeof view->columns[0]) &&
         view->columns[t.column_count].title)
    t.column_count++;
  for (int r = 0; r < rows->count; r++) {
    for (int c = 0; c < t.column_count; c++) {
      const int at = fat_rows_column(rows, view->columns[c].title);
      add_cell(&t, &view->columns[c], at >= 0 ? rows->row[r][at] : "");
    }
    if (fat_rows_trial(rows, r, trial) && fat_rows_have(winners, trial))
      fat_table_mark(&t);
  }
  fat_status status = fat_table_print(&t, fat_table_look(), out, err);
  fat_table_free(&t);
  return status;
}

/* To a person: what is not shown, and what to type next. */
static void say_next(const fat_options *o, const shown *view, const fat_rows *rows, fat_text *out)
{
  const bool glance = fat_table_look().glance && !o->json && !o->csv;
  if (rows->count == 0 && !glance && !o->quiet)
    fputs("fatune: nothing is stored that is asked for: `fatune show runs` says what was tuned\n", stderr);
  if (!glance)
    return;
  if (rows->shipped)
    fat_text_format(out, "%d rows of the package are left out: --all shows them, as any filter does\n",
                    rows->shipped);
  if (rows->count == 0)
    fat_text_add(out, "nothing is stored that is asked for: `fatune show runs` says what was tuned\n");
  else if (strcmp(view->view, "best") == 0)
    fat_text_add(out,
                 "next: `fatune why PROBLEM` says why a call gets its kernel, `fatune show trials --problem "
                 "PROBLEM --sort ms` what it won against\n");
}

static fat_status show_view(const fat_options *o, const shown *view, fat_text *out, fat_error *err)
{
  fat_db *db = NULL;
  fat_text path = {0};
  fat_rows rows = {0}, winners = {0};
  const bool table = !o->json && !o->csv;
  fat_status status = fat_open_db(o, FAT_DB_READ, &db, &path, err);
  if (status == FAT_OK)
    status = fat_rows_read(db, view->view, o, table && fat_table_look().glance, &rows, err);
  if (status == FAT_OK && table && fat_table_look().glance && strcmp(view->view, "trials") == 0)
    status = fat_rows_read(db, "best", &(fat_options){0}, false, &winners, err);
  const fat_gpu *gpu;
  if (status == FAT_OK && o->gpu && rows.count == 0)
    status = fat_gpu_find(o->gpu, &gpu, err); /* a slip of the name: no rows bear it */
  if (status == FAT_OK && o->json)
    fat_rows_json(&rows, out);
  else if (status == FAT_OK && o->csv)
    fat_rows_csv(&rows, out);
  else if (status == FAT_OK)
    status = lay_out(view, &rows, &winners, out, err);
  if (status == FAT_OK)
    say_next(o, view, &rows, out);
  if (status == FAT_OK)
    status = fat_text_status(out, err);
  fat_rows_free(&rows);
  fat_rows_free(&winners);
  fat_db_close(db);
  fat_text_free(&path);
  return status;
}

static void gpus_json(const fat_gpu *list, int count, fat_text *out)
{
  char facts[FAT_GPU_FACTS];
  fat_json j = {.out = out};
  fat_json_open(&j, NULL, '[');
  for (int i = 0; i < count; i++) {
    fat_json_open(&j, NULL, '{');
    fat_json_string(&j, "gpu", list[i].name);
    fat_json_int(&j, "sm", list[i].sm);
    fat_json_int(&j, "sms", list[i].sms);
    fat_json_int(&j, "shared_block", list[i].shared_block);
    fat_json_int(&j, "shared_sm", list[i].shared_sm);
    fat_json_int(&j, "l2", list[i].l2);
    fat_json_int(&j, "bus", list[i].bus);
    fat_json_int(&j, "clock", list[i].clock);
    fat_json_double(&j, "dram", list[i].dram);
    fat_json_double(&j, "memory", list[i].memory);
    fat_json_string(&j, "device", fat_gpu_facts(&list[i], facts));
    fat_json_close(&j, '}');
  }
  fat_json_close(&j, ']');
}

/* As in JSON. No name and no fact has a comma. */
static void gpus_csv(const fat_gpu *list, int count, fat_text *out)
{
  char facts[FAT_GPU_FACTS];
  fat_text_add(out, "gpu,sm,sms,shared_block,shared_sm,l2,bus,clock,dram,memory,device\n");
  for (const fat_gpu *g = list; g < list + count; g++)
    fat_text_format(out, "%s,%d,%d,%d,%d,%lld,%d,%d,%g,%g,%s\n", g->name, g->sm, g->sms, g->shared_block,
                    g->shared_sm, (long long)g->l2, g->bus, g->clock, g->dram, g->memory,
                    fat_gpu_facts(g, facts));
}

static fat_status show_gpus(const fat_options *o, fat_text *out, fat_error *err)
{
  static const fat_column columns[] = {
      {"gpu", false, 9, false},      {"sm", true, 8, false},         {"SMs", true, 7, false},
      {"KB/block", true, 4, false},  {"L2 MB", true, 3, false},      {"MHz", true, 6, false},
      {"DRAM GB/s", true, 5, false}, {"memory GiB", true, 2, false}, {"bus", true, 1, false},
  };
  int count;
  const fat_gpu *list = fat_gpu_list(&count);
  if (fat_rows_filtered(o))
    return fat_status_fail(
        err, FAT_E_INPUT,
        "show gpus: the whole table is printed, without filters: --csv is for sort and grep");
  if (o->json || o->csv) {
    (o->json ? gpus_json : gpus_csv)(list, count, out);
    return fat_text_status(out, err);
  }
  fat_table t = {.columns = columns, .column_count = (int)(sizeof columns / sizeof columns[0])};
  for (int i = 0; i < count; i++) {
    fat_table_add(&t, list[i].name);
    fat_table_addf(&t, "%d", list[i].sm);
    fat_table_addf(&t, "%d", list[i].sms);
    fat_table_addf(&t, "%d", list[i].shared_block / 1024);
    fat_table_addf(&t, "%.3g", (double)list[i].l2 / (1024 * 1024));
    fat_table_addf(&t, "%d", list[i].clock);
    fat_table_addf(&t, "%.0f", list[i].dram);
    fat_table_addf(&t, "%.3g", list[i].memory);
    fat_table_addf(&t, "%d", list[i].bus);
  }
  fat_status status = fat_table_print(&t, fat_table_look(), out, err);
  fat_table_free(&t);
  return status;
}

static int show(const fat_options *options)
{
  const char *what = options->arg_count ? options->args[0] : "best";
  fat_text out = {0};
  fat_error err = {0};
  fat_status status = FAT_OK;
  const shown *view = NULL;
  shown history = tables[TRIALS]; /* looks the same */
  history.view = "history";
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    if (strcmp(what, tables[i].view) == 0)
      view = &tables[i];
  if (strcmp(what, history.view) == 0)
    view = &history;
  if (view)
    status = show_view(options, view, &out, &err);
  else if (strcmp(what, "gpus") == 0)
    status = show_gpus(options, &out, &err);
  else
    status = fat_status_fail(&err, FAT_E_INPUT,
                             "show '%s': allowed are best, trials, history, failures, runs, rejections, gpus",
                             what);
  int code = status == FAT_OK ? fat_exit_print(fat_text_get(&out)) : fat_exit_fail(&err);
  fat_text_free(&out);
  return code;
}

const fat_command fat_cmd_show = {
    .name = "show",
    .args = "[best|trials|history|failures|runs|rejections|gpus]",
    .about = "print what is stored, or the GPUs that can be named",
    .more =
        "best: the winner of each problem and device (the default). trials: every config tried. history: "
        "these, and what earlier runs found of the same. failures: those that do not work, and why. runs: "
        "the commands that made them. rejections: how many configs each run left out, and by which rule. "
        "gpus: names for --gpu. A finalist's kinds are its times on each kind of data, mean is what they "
        "come to: normal data weighs half.\n\n"
        "On a terminal what all rows share stands above them, and a package's rows are left out where there "
        "are "
        "own ones; a pipe gets every row, with --csv or --json every column.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(OF_GPU) | FAT_USE(PROBLEM) | FAT_USE(OF_KERNEL) | FAT_USE(ORIGIN) | FAT_USE(SORT) |
            FAT_USE(TOP) | FAT_USE(ALL) | FAT_USE(CSV) | FAT_USE(DB) | FAT_USE(JSON) | FAT_USE(QUIET),
    .most = 1,
    .run = show,
};
