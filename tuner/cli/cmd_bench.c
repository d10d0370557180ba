/* cmd_bench.c -- `fatune bench`: the algorithms side by side at settings of one's choice, as the course's
 * benchmark script has it.
 *
 * In: lists of parameters, whose every combination is a row. Out: a table, and with -o a JSON file (one row:
 * the course's object) and the chart beside it. Nothing is searched or stored. */
#include "bench_chart.h"
#include "bench_run.h"
#include "bench_torch.h"
#include "commands.h"
#include "exit.h"
#include "output.h"
#include "search/agenda.h"
#include "search/stop.h"
#include "search/terminal.h"
#include "table.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct sweep {
  const fat_options *options;
  fat_asked_gpu asked;
  fat_bench_row *rows;
  int count, failed;
  int measured; /* or failed by themselves */
  int signal;   /* that asked to stop; 0: none did */
  /* FILE of -o, the chart beside it and the database, which neither may be. No name: nothing is written. */
  fat_text file, svg, png, database;
} sweep;

/* Those that were typed, else one. */
static fat_numbers given(const fat_numbers *typed, int64_t usual)
{
  return typed->count ? *typed : (fat_numbers){.count = 1, .value = {usual}};
}

static int bits(uint32_t mask)
{
  return __builtin_popcount(mask);
}

/* Every combination, implementations side by side. */
static fat_status list_rows(sweep *s, fat_error *err)
{
  const fat_options *o = s->options;
  const fat_numbers batches = given(&o->batch_sizes, 4), lengths = given(&o->seq_lens, 4096),
                    heads = given(&o->num_heads, 32), dims = given(&o->emb_dims, 2048);
  const uint32_t impls = o->impls ? o->impls : 1u << FAT_IMPL_BEST, causal = o->causal ? o->causal : 1u,
                 dtypes = o->goal.dtypes ? o->goal.dtypes : 1u << FAT_F16;
  const size_t all = (size_t)batches.count * (size_t)lengths.count * (size_t)heads.count *
                     (size_t)dims.count * (size_t)(bits(impls) * bits(causal) * bits(dtypes));
  s->rows = calloc(all, sizeof *s->rows);
  if (!s->rows)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for %zu rows", all);
  for (int d = 0; d < FAT_DTYPE_COUNT; d++)
    for (int c = 0; c < 2; c++)
      for (int e = 0; e < dims.count; e++)
        for (int h = 0; h < heads.count; h++)
          for (int b = 0; b < batches.count; b++)
            for (int n = 0; n < lengths.count; n++)
              for (int i = 0; i < FAT_IMPLS; i++)
                if (dtypes >> d & causal >> c & impls >> i & 1u)
                  s->rows[s->count++] = (fat_bench_row){.batch_size = batches.value[b],
                                                        .seq_len = lengths.value[n],
                                                        .num_heads = heads.value[h],
                                                        .emb_dim = dims.value[e],
                                                        .causal = c,
                                                        .dtype = (fat_dtype)d,
                                                        .impl = (fat_impl)i};
  return FAT_OK;
}

static fat_status check_rows(const sweep *s, fat_error *err)
{
  fat_problem p;
  for (int i = 0; i < s->count; i++) {
    FAT_TRY(fat_bench_problem(&s->rows[i], FAT_FWD, &p, err));
    FAT_TRY(fat_agenda_dtype("--dtypes", p.dtype, &s->asked.gpu, err));
  }
  return FAT_OK;
}

static void say(const sweep *s, int i)
{
  const fat_bench_row *r = &s->rows[i];
  const bool live = fat_terminal_width(STDERR_FILENO) > 0;
  if (!s->options->quiet)
    fprintf(stderr, "%sfatune: %d of %d: %s, batch_size %lld, seq_len %lld, num_heads %lld, emb_dim %lld%s%s",
            live ? "\r\033[K" : "", i + 1, s->count, fat_impl_names[r->impl], (long long)r->batch_size,
            (long long)r->seq_len, (long long)r->num_heads, (long long)r->emb_dim,
            r->causal ? ", causal" : "", live && i + 1 < s->count ? "" : "\n");
}

/* What is measured before a signal or an error is told. */
static fat_status measure(sweep *s, fat_error *err)
{
  fat_bench *bench = NULL;
  fat_stop stops;
  const volatile int *stop = fat_stop_begin(&stops, s->options->quiet);
  fat_status status = fat_bench_open(s->options, &s->asked, &bench, err);
  for (int i = 0; i < s->count && status == FAT_OK && !*stop; i++) {
    say(s, i);
    if (s->rows[i].impl == FAT_IMPL_PYTORCH)
      fat_bench_pytorch(&s->rows[i]);
    else
      status = fat_bench_measure(bench, &s->rows[i], err);
    s->failed += s->rows[i].failed[0] != 0;
    s->measured += status == FAT_OK;
  }
  s->signal = fat_stop_signal();
  fat_stop_end(&stops);
  for (int i = s->measured; i < s->count; i++)
    snprintf(s->rows[i].failed, sizeof s->rows[i].failed, "not measured: %s",
             status == FAT_OK ? "the bench was interrupted" : "the bench ended before");
  fat_bench_close(bench);
  return status;
}

/* -- what comes out */

static fat_status print_table(const sweep *s, fat_text *out, fat_error *err)
{
  static const fat_column columns[] = {
      {"impl", false, 9, false},       {"batch_size", true, 4, true},   {"seq_len", true, 8, false},
      {"num_heads", true, 3, true},    {"emb_dim", true, 3, true},      {"causal", false, 5, true},
      {"dtype", false, 2, true},       {"fwd ms", true, 7, false},      {"bwd ms", true, 7, false},
      {"fwd TFLOP/s", true, 6, false}, {"bwd TFLOP/s", true, 6, false}, {"MiB", true, 5, false}};
  fat_table t = {.columns = columns, .column_count = sizeof columns / sizeof *columns};
  for (int i = 0; i < s->count; i++) {
    const fat_bench_row *r = &s->rows[i];
    const int64_t numbers[] = {r->batch_size, r->seq_len, r->num_heads, r->emb_dim};
    fat_table_add(&t, fat_impl_names[r->impl]);
    for (int n = 0; n < 4; n++)
      fat_table_addf(&t, "%lld", (long long)numbers[n]);
    fat_table_add(&t, r->causal ? "yes" : "no");
    fat_table_add(&t, fat_dtypes[r->dtype].name);
    const double figures[] = {r->seconds[FAT_FWD] * 1e3, r->seconds[FAT_BWD] * 1e3, fat_bench_tflops(r, 0),
                              fat_bench_tflops(r, 1), r->mb};
    for (int n = 0; n < 5; n++)
      r->failed[0] ? fat_table_add(&t, NULL) : fat_table_addf(&t, "%.4g", figures[n]);
  }
  fat_status status = fat_table_print(&t, fat_table_look(), out, err);
  fat_table_free(&t);
  return status;
}

/* A picture of points beside that of lines, where librsvg's tool is. */
static void convert(const char *svg, const char *png)
{
  char tool[] = "rsvg-convert", flag[] = "-o";
  char *const arguments[] = {tool, flag, (char *)(uintptr_t)png, (char *)(uintptr_t)svg, NULL};
  pid_t pid;
  if (posix_spawnp(&pid, tool, NULL, NULL, arguments, environ) == 0)
    waitpid(pid, NULL, 0);
}

/* Names what is to be written, FILE.json and, of more than one row, FILE.svg beside it, and finds before
 * anything is timed what cannot be. */
static fat_status name_files(sweep *s, fat_error *err)
{
  const char *path = s->options->output, *dot = path ? strrchr(path, '.') : NULL;
  if (!path || strcmp(path, "-") == 0)
    return FAT_OK;
  const int stem = dot && !strchr(dot, '/') ? (int)(dot - path) : (int)strlen(path);
  fat_text_add(&s->file, path);
  fat_text_format(&s->svg, "%.*s.svg", stem, path);
  fat_text_format(&s->png, "%.*s.png", stem, path);
  FAT_TRY(fat_db_path(s->options->db, &s->database, err));
  if (strcmp(path, fat_text_get(&s->svg)) == 0 || strcmp(path, fat_text_get(&s->png)) == 0)
    return fat_status_fail(err, FAT_E_INPUT,
                           "-o %s: FILE gets JSON, and the chart is beside it: name FILE.json", path);
  FAT_TRY(fat_output_check(path, fat_text_get(&s->database), s->options->force, err));
  if (s->count == 1)
    return FAT_OK;
  FAT_TRY(fat_output_check(fat_text_get(&s->svg), fat_text_get(&s->database), s->options->force, err));
  return fat_output_check(fat_text_get(&s->png), fat_text_get(&s->database), s->options->force, err);
}

static fat_status write_files(const sweep *s, fat_error *err)
{
  const char *database = fat_text_get(&s->database), *svg = fat_text_get(&s->svg);
  const bool force = s->options->force;
  fat_text text = {0}, chart = {0};
  fat_status status = fat_bench_json(s->rows, s->count, &text, err);
  if (status == FAT_OK)
    status = fat_output_write(fat_text_get(&s->file), database, force, &text, err);
  if (status == FAT_OK && s->count > 1 &&
      (status = fat_bench_chart(s->rows, s->count, s->asked.gpu.name, &chart, err)) == FAT_OK &&
      (status = fat_output_write(svg, database, force, &chart, err)) == FAT_OK)
    convert(svg, fat_text_get(&s->png));
  fat_text_free(&text);
  fat_text_free(&chart);
  return status;
}

/* Not what an earlier row of the same implementation said. */
static bool is_news(const sweep *s, int i)
{
  for (int k = 0; k < i; k++)
    if (s->rows[k].impl == s->rows[i].impl && strcmp(s->rows[k].failed, s->rows[i].failed) == 0)
      return false;
  return true;
}

/* The table stands in `out` also where a file could not be written. */
static fat_status tell(const sweep *s, fat_text *out, fat_error *err)
{
  const bool json = s->options->json || (s->options->output && !s->file.length);
  for (int i = 0; i < s->count; i++)
    if (s->rows[i].failed[0] && is_news(s, i))
      fprintf(stderr, "fatune: %s at seq_len %lld: %s\n", fat_impl_names[s->rows[i].impl],
              (long long)s->rows[i].seq_len, s->rows[i].failed);
  FAT_TRY(json ? fat_bench_json(s->rows, s->count, out, err) : print_table(s, out, err));
  return s->file.length ? write_files(s, err) : FAT_OK;
}

static fat_status open_all(sweep *s, fat_error *err)
{
  FAT_TRY(fat_open_gpu_itself(s->options, "a bench needs the GPU itself", &s->asked, err));
  FAT_TRY(list_rows(s, err));
  FAT_TRY(check_rows(s, err));
  return name_files(s, err);
}

static int bench(const fat_options *options)
{
  sweep s = {.options = options};
  fat_error err = {0}, untold = {0};
  fat_text out = {0};
  fat_status status = open_all(&s, &err);
  if (status == FAT_OK)
    status = measure(&s, &err);
  int code = FAT_EXIT_FINE;
  if (s.measured > 0) {
    const fat_status told = tell(&s, &out, &untold);
    code = fat_exit_print(fat_text_get(&out));
    if (told != FAT_OK)
      code = fat_exit_fail(&untold);
  }
  if (status != FAT_OK)
    code = fat_exit_fail(&err);
  else if (s.signal)
    code = FAT_EXIT_SIGNAL + s.signal;
  fat_text_free(&out);
  fat_text_free(&s.file);
  fat_text_free(&s.svg);
  fat_text_free(&s.png);
  fat_text_free(&s.database);
  free(s.rows);
  return code == FAT_EXIT_FINE && s.failed ? FAT_EXIT_NO_KERNEL : code;
}

const fat_command fat_cmd_bench = {
    .name = "bench",
    .about = "time the algorithms side by side, forward and backward",
    .more = "Every combination of the lists is a row: batch 4, length 4096, 32 heads of 2048 columns "
            "together, f16, no mask "
            "unless said otherwise. standard, flash1 and flash2 are the papers' algorithms, best is what a "
            "call gets; "
            "pytorch is scaled_dot_product_attention of the python3 on PATH. Each takes the stored kernel "
            "where a tune has "
            "left one, else its default: tune first, with --kernel fa1,standard too.\n\n"
            "With -o one row is written as {\"forward\": {\"time(s)\", \"FLOPS(TFLOPs/s)\"}, \"backward\", "
            "\"forward_backward\", \"peak_memory_usage(MB)\"}, several as a list, with a chart beside it "
            "(SVG; PNG too where "
            "rsvg-convert is). FILE that is there is written over with --force alone.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(GPU) | FAT_USE(BATCH_SIZE) | FAT_USE(SEQ_LEN) | FAT_USE(NUM_HEADS) | FAT_USE(EMB_DIM) |
            FAT_USE(IMPL) | FAT_USE(IS_CAUSAL) | FAT_USE(BENCH_DTYPES) | FAT_USE(OUTPUT) | FAT_USE(FORCE) |
            FAT_USE(CUDA) | FAT_USE(DB) | FAT_USE(TEMPLATES) | FAT_USE(JSON) | FAT_USE(QUIET),
    .run = bench,
};
