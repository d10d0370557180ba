/* row.c -- a trial as a row: the one place where stored or imported values become a fat_trial.
 *
 * In: a statement whose columns stand in ORDER ROW, from our file, a foreign one or a JSON line. Out: a row
 * in which every value was checked (texts through their own readers, numbers against ranges), or
 * FAT_E_CORRUPT with the first thing wrong. The same check guards what is stored. */
#include "private.h"
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const outcomes[FAT_OUTCOME_COUNT] =
    {/* ORDER OUTCOME */
     "ok", "wrong", "spills", "compile-failed", "launch-failed", "fault", "timeout", "oom", "unfit", "slow"};
static const char *const origins[FAT_ORIGIN_COUNT] = {"measured", "predicted"}; /* ORDER ORIGIN */

const char *fat_db_outcome_name(fat_outcome o)
{
  return (unsigned)o < FAT_OUTCOME_COUNT ? outcomes[o] : "unknown";
}

const char *fat_db_origin_name(fat_origin o)
{
  return (unsigned)o < FAT_ORIGIN_COUNT ? origins[o] : "unknown";
}

fat_trial fat_db_untimed(void)
{
  return (fat_trial){.outcome = FAT_OUT_OK,
                     .origin = FAT_PREDICTED,
                     .ms = NAN,
                     .p20 = NAN,
                     .p80 = NAN,
                     .clock_mhz = NAN,
                     .error_max = NAN,
                     .error_allowed = NAN,
                     .compile_seconds = NAN,
                     .limit = "",
                     .detail = "",
                     .log = ""};
}

static int index_of(const char *const *names, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

void fat_db_row_select(fat_text *sql, const char *schema)
{
  fat_text_format(
      sql,
      "SELECT t.id, t.run, p.text, d.facts, d.name, d.sm, d.sms, d.shared_block, d.shared_sm, d.l2, d.bus, "
      "d.clock,"
      " d.memory_clock, d.dram, d.memory, t.config, t.eligible, t.source, t.templates, k.compile_key, "
      "k.driver,"
      " t.outcome, t.origin, t.ms, t.p20, t.p80, t.clock_mhz, t.error_max, t.error_allowed, t.limit_by,"
      " t.registers, t.stack, t.spills, t.shared, t.blocks_per_sm, t.compile_seconds, t.samples, t.detail, "
      "t.log,"
      " t.date, coalesce(r.nvrtc, ''), coalesce(r.version, ''), t.recipe, t.binary"
      " FROM %1$s.trial t JOIN %1$s.problem p ON p.id = t.problem JOIN %1$s.device d ON d.id = t.device"
      " JOIN %1$s.toolchain k ON k.id = t.toolchain LEFT JOIN %1$s.run r ON r.id = t.run",
      schema);
}

/* -- one value */

typedef struct reader {
  sqlite3_stmt *stmt;
  fat_error *err;
  fat_status status; /* of the first value that is wrong */
} reader;

static const char *const column_names[FAT_ROW_COUNT] =
    {/* ORDER ROW */
     "id",           "run",          "problem",   "device",    "gpu",           "sm",
     "sms",          "shared_block", "shared_sm", "l2",        "bus",           "clock",
     "memory_clock", "dram",         "memory",    "config",    "eligible",      "source",
     "templates",    "compile_key",  "driver",    "outcome",   "origin",        "ms",
     "p20",          "p80",          "clock_mhz", "error_max", "error_allowed", "limit_by",
     "registers",    "stack",        "spills",    "shared",    "blocks_per_sm", "compile_seconds",
     "samples",      "detail",       "log",       "date",      "nvrtc",         "version",
     "recipe",       "binary"};

static void wrong(reader *r, fat_db_column column, const char *why)
{
  if (r->status == FAT_OK)
    r->status = fat_status_fail(r->err, FAT_E_CORRUPT, "%s %s", column_names[column], why);
}

/* A text of at most `most` bytes without control characters other than line ends and tabs; "" for NULL. */
static const char *text_of(reader *r, fat_db_column column, size_t most)
{
  int type = sqlite3_column_type(r->stmt, column);
  if (type == SQLITE_NULL)
    return "";
  const char *text = type == SQLITE_TEXT ? (const char *)sqlite3_column_text(r->stmt, column) : NULL;
  if (!text) {
    if (type == SQLITE_TEXT)
      r->status = fat_status_fail(r->err, FAT_E_NOMEM, "out of memory for a row");
    else
      wrong(r, column, "is no text");
    return "";
  }
  if (strlen(text) == (size_t)sqlite3_column_bytes(r->stmt, column) && fat_db_is_text(text, most))
    return text;
  wrong(r, column, "is too long or has bytes that are no text");
  return "";
}

/* Ranges are fat_db_trial_check's; here only what an int holds. */
static int64_t integer_of(reader *r, fat_db_column column)
{
  if (sqlite3_column_type(r->stmt, column) != SQLITE_INTEGER)
    wrong(r, column, "is no whole number");
  return sqlite3_column_int64(r->stmt, column);
}

static int int_of(reader *r, fat_db_column column)
{
  int64_t value = integer_of(r, column);
  if (value < INT_MIN || value > INT_MAX)
    wrong(r, column, "is out of range");
  return (int)value;
}

/* NAN for NULL. */
static double real_of(reader *r, fat_db_column column)
{
  int type = sqlite3_column_type(r->stmt, column);
  if (type == SQLITE_NULL)
    return NAN;
  if (type != SQLITE_FLOAT && type != SQLITE_INTEGER)
    wrong(r, column, "is no number");
  return sqlite3_column_double(r->stmt, column);
}

static int name_of(reader *r, fat_db_column column, const char *const *names, int count)
{
  int index = index_of(names, count, text_of(r, column, 32));
  if (index < 0)
    wrong(r, column, "is unknown");
  return index < 0 ? 0 : index;
}

/* -- a row */

static void read_gpu(reader *r, fat_gpu *gpu)
{
  const char *name = text_of(r, FAT_ROW_GPU, sizeof gpu->name - 1);
  memcpy(gpu->name, name, strlen(name) + 1);
  gpu->sm = int_of(r, FAT_ROW_SM);
  gpu->sms = int_of(r, FAT_ROW_SMS);
  gpu->shared_block = int_of(r, FAT_ROW_SHARED_BLOCK);
  gpu->shared_sm = int_of(r, FAT_ROW_SHARED_SM);
  gpu->l2 = integer_of(r, FAT_ROW_L2);
  gpu->bus = int_of(r, FAT_ROW_BUS);
  gpu->clock = int_of(r, FAT_ROW_CLOCK);
  gpu->memory_clock = int_of(r, FAT_ROW_MEMORY_CLOCK);
  gpu->dram = real_of(r, FAT_ROW_DRAM);
  gpu->memory = real_of(r, FAT_ROW_MEMORY);
  /* An imported row has no text of facts; where there is one it must say the same. */
  char facts[FAT_GPU_FACTS];
  const char *stored = text_of(r, FAT_ROW_FACTS, FAT_GPU_FACTS);
  if (*stored && strcmp(stored, fat_gpu_facts(gpu, facts)) != 0)
    wrong(r, FAT_ROW_FACTS, "does not agree with the device's numbers");
}

static void read_result(reader *r, fat_trial *t)
{
  t->outcome = (fat_outcome)name_of(r, FAT_ROW_OUTCOME, outcomes, FAT_OUTCOME_COUNT);
  t->origin = (fat_origin)name_of(r, FAT_ROW_ORIGIN, origins, FAT_ORIGIN_COUNT);
  t->ms = real_of(r, FAT_ROW_MS);
  t->p20 = real_of(r, FAT_ROW_P20);
  t->p80 = real_of(r, FAT_ROW_P80);
  t->clock_mhz = real_of(r, FAT_ROW_CLOCK_MHZ);
  t->error_max = real_of(r, FAT_ROW_ERROR_MAX);
  t->error_allowed = real_of(r, FAT_ROW_ERROR_ALLOWED);
  t->limit = text_of(r, FAT_ROW_LIMIT, FAT_DB_WORD);
  t->registers = int_of(r, FAT_ROW_REGISTERS);
  t->stack = int_of(r, FAT_ROW_STACK);
  t->spills = int_of(r, FAT_ROW_SPILLS);
  t->shared = int_of(r, FAT_ROW_SHARED);
  t->blocks_per_sm = int_of(r, FAT_ROW_BLOCKS);
  t->compile_seconds = real_of(r, FAT_ROW_COMPILE_SECONDS);
  t->sample_count = int_of(r, FAT_ROW_SAMPLES);
  t->detail = text_of(r, FAT_ROW_DETAIL, FAT_DB_LOG);
  t->log = text_of(r, FAT_ROW_LOG, FAT_DB_LOG);
}

/* 2025-11-21T03:07:00Z, or with a fraction of the second. */
static bool is_date(const char *date)
{
  const char *form = "dddd-dd-ddTdd:dd:dd";
  for (; *form; form++, date++)
    if (*form == 'd' ? *date < '0' || *date > '9' : *date != *form)
      return false;
  if (*date == '.')
    for (date++; *date >= '0' && *date <= '9'; date++)
      ;
  return strcmp(date, "Z") == 0;
}

fat_status fat_db_row_read(sqlite3_stmt *stmt, fat_db_row *row, fat_error *err)
{
  reader r = {stmt, err, FAT_OK};
  fat_trial *t = &row->trial;
  memset(t, 0, sizeof *t);
  t->id = integer_of(&r, FAT_ROW_ID);
  t->run = sqlite3_column_int64(stmt, FAT_ROW_RUN); /* NULL is 0 */
  read_gpu(&r, &t->gpu);
  t->eligible = int_of(&r, FAT_ROW_ELIGIBLE);
  t->source_hash = text_of(&r, FAT_ROW_SOURCE, FAT_DB_WORD);
  t->templates = text_of(&r, FAT_ROW_TEMPLATES, FAT_DB_WORD);
  t->compile_key = text_of(&r, FAT_ROW_COMPILE_KEY, FAT_DB_LOG);
  t->driver = text_of(&r, FAT_ROW_DRIVER, FAT_DB_WORD);
  read_result(&r, t);
  t->date = text_of(&r, FAT_ROW_DATE, FAT_DB_WORD);
  row->nvrtc = text_of(&r, FAT_ROW_NVRTC, FAT_DB_WORD);
  row->version = text_of(&r, FAT_ROW_VERSION, FAT_DB_WORD);
  row->recipe = text_of(&r, FAT_ROW_RECIPE, FAT_DB_WORD);
  row->binary = text_of(&r, FAT_ROW_BINARY, FAT_DB_WORD);
  const char *problem = text_of(&r, FAT_ROW_PROBLEM, FAT_PROBLEM_TEXT);
  const char *config = text_of(&r, FAT_ROW_CONFIG, FAT_CONFIG_TEXT);
  if (!is_date(t->date))
    wrong(&r, FAT_ROW_DATE, "is no UTC date as 2025-11-21T03:07:00Z");
  if (r.status != FAT_OK)
    return r.status;
  fat_error why;
  if (fat_problem_parse(problem, &t->problem, &why) != FAT_OK ||
      fat_config_parse(config, &t->config, &why) != FAT_OK || fat_db_trial_check(t, &why) != FAT_OK)
    return fat_status_fail(err, FAT_E_CORRUPT, "%s", why.text);
  return FAT_OK;
}

fat_status fat_db_row_samples(sqlite3_stmt *stmt, fat_db_row *row, fat_error *err)
{
  fat_trial *t = &row->trial;
  fat_status status = FAT_OK;
  int count = 0, rc;
  if (t->sample_count > row->room) {
    double *times = realloc(row->times, (size_t)t->sample_count * sizeof *times);
    row->times = times ? times : row->times;
    double *clocks = times ? realloc(row->clocks, (size_t)t->sample_count * sizeof *clocks) : NULL;
    row->clocks = clocks ? clocks : row->clocks;
    if (!clocks) {
      fat_db_release(stmt);
      return fat_status_fail(err, FAT_E_NOMEM, "out of memory for %d samples", t->sample_count);
    }
    row->room = t->sample_count;
  }
  while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && status == FAT_OK) {
    double ms = sqlite3_column_double(stmt, 0);
    int type = sqlite3_column_type(stmt, 0), clock = sqlite3_column_type(stmt, 1);
    bool known = clock == SQLITE_FLOAT || clock == SQLITE_INTEGER;
    if (count >= t->sample_count || (type != SQLITE_FLOAT && type != SQLITE_INTEGER) ||
        !(ms >= 0 && ms <= FAT_DB_MS)) {
      status = fat_status_fail(err, FAT_E_CORRUPT, "samples do not agree with their number or range");
      break;
    }
    row->times[count] = ms;
    row->clocks[count++] = known ? sqlite3_column_double(stmt, 1) : NAN;
  }
  if (status == FAT_OK && rc != SQLITE_DONE)
    status = fat_status_fail(
        err, (rc & 0xff) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM ? FAT_E_NOMEM : FAT_E_CORRUPT,
        "samples cannot be read");
  if (status == FAT_OK && count != t->sample_count)
    status = fat_status_fail(err, FAT_E_CORRUPT, "samples do not agree with their number");
  fat_db_release(stmt);
  t->samples = row->times;
  t->clocks = row->clocks;
  return status;
}

void fat_db_row_free(fat_db_row *row)
{
  free(row->times);
  free(row->clocks);
  row->times = row->clocks = NULL;
  row->room = 0;
}

/* -- what a trial must be */

#define IN_TRIAL(field) #field, offsetof(fat_trial, field)

static const struct {
  const char *name;
  size_t offset;
  int low, high;
} whole_numbers[] = {
    {IN_TRIAL(eligible), 0, 1},
    {IN_TRIAL(sample_count), 0, FAT_DB_SAMPLES},
    {IN_TRIAL(registers), -1, 1 << 16},
    {IN_TRIAL(stack), -1, 1 << 30},
    {IN_TRIAL(spills), -1, 1 << 30},
    {IN_TRIAL(shared), -1, 1 << 30},
    {IN_TRIAL(blocks_per_sm), -1, 1 << 16},
    {IN_TRIAL(gpu.sm), 10, 999},
    {IN_TRIAL(gpu.sms), 1, 1 << 16},
    {IN_TRIAL(gpu.shared_block), 0, 1 << 30},
    {IN_TRIAL(gpu.shared_sm), 0, 1 << 30},
    {IN_TRIAL(gpu.bus), 0, 1 << 20},
    {IN_TRIAL(gpu.clock), 0, 1 << 20},
    {IN_TRIAL(gpu.memory_clock), 0, 1 << 20},
};

static const struct { /* 0 to `high`; NAN, for unknown, only in results */
  const char *name;
  size_t offset;
  double high;
  bool known;
} numbers[] = {
    {IN_TRIAL(ms), FAT_DB_MS, false},        {IN_TRIAL(p20), FAT_DB_MS, false},
    {IN_TRIAL(p80), FAT_DB_MS, false},       {IN_TRIAL(clock_mhz), 1e6, false},
    {IN_TRIAL(error_max), INFINITY, false},  {IN_TRIAL(error_allowed), INFINITY, false},
    {IN_TRIAL(compile_seconds), 1e7, false}, {IN_TRIAL(gpu.dram), 1e9, true},
    {IN_TRIAL(gpu.memory), 1e9, true},
};

static fat_status check_numbers(const fat_trial *t, fat_error *err)
{
  for (size_t i = 0; i < sizeof whole_numbers / sizeof *whole_numbers; i++) {
    int value = *(const int *)((const char *)t + whole_numbers[i].offset);
    if (value < whole_numbers[i].low || value > whole_numbers[i].high)
      return fat_status_fail(err, FAT_E_INPUT, "%s of a trial is %d: allowed are %d to %d",
                             whole_numbers[i].name, value, whole_numbers[i].low, whole_numbers[i].high);
  }
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    double value = *(const double *)((const char *)t + numbers[i].offset);
    if (value < 0 || value > numbers[i].high || (numbers[i].known && isnan(value)))
      return fat_status_fail(err, FAT_E_INPUT, "%s of a trial is %g: allowed are 0 to %g", numbers[i].name,
                             value, numbers[i].high);
  }
  if (t->gpu.l2 < 0 || t->gpu.l2 > INT64_C(1) << 40)
    return fat_status_fail(err, FAT_E_INPUT, "gpu.l2 of a trial is %lld bytes", (long long)t->gpu.l2);
  for (int i = 0; t->samples && i < t->sample_count; i++)
    if (!(t->samples[i] >= 0 && t->samples[i] <= FAT_DB_MS))
      return fat_status_fail(err, FAT_E_INPUT, "sample %d of a trial is %g ms: allowed are 0 to %g", i,
                             t->samples[i], FAT_DB_MS);
  return FAT_OK;
}

static fat_status check_words(const fat_trial *t, fat_error *err)
{
  const char *words[] = {t->source_hash, t->templates, t->driver, t->limit, t->gpu.name, t->date};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (const char *p = words[i]; p && *p; p++)
      if ((unsigned char)*p < ' ' || (unsigned char)*p > '~' || p - words[i] >= FAT_DB_WORD)
        return fat_status_fail(err, FAT_E_INPUT,
                               "'%.40s' in a trial is no plain text of at most %d characters", words[i],
                               FAT_DB_WORD);
  return FAT_OK;
}

fat_status fat_db_trial_check(const fat_trial *t, fat_error *err)
{
  char text[FAT_CONFIG_TEXT];
  fat_config config;
  FAT_TRY(fat_problem_check(&t->problem, err));
  FAT_TRY(fat_config_parse(fat_config_print(&t->config, text), &config, err));
  if ((unsigned)t->outcome >= FAT_OUTCOME_COUNT || (unsigned)t->origin >= FAT_ORIGIN_COUNT)
    return fat_status_fail(err, FAT_E_INPUT, "a trial's outcome %d or origin %d is unknown", (int)t->outcome,
                           (int)t->origin);
  FAT_TRY(check_numbers(t, err));
  FAT_TRY(check_words(t, err));
  if (t->compile_key && !fat_db_is_text(t->compile_key, FAT_DB_LOG))
    return fat_status_fail(err, FAT_E_INPUT,
                           "the compile key of a trial is too long or no text: see the variables"
                           " NVRTC_* of the environment");
  if (t->outcome == FAT_OUT_OK && t->origin == FAT_MEASURED && !(t->ms > 0))
    return fat_status_fail(err, FAT_E_INPUT, "a measured trial with outcome ok has no time: ms is %g", t->ms);
  return FAT_OK;
}
