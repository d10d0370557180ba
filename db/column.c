/* column.c -- the columns of a row: their list, their names in SQL and JSON, what their values may be. */
#include "private.h"
#include "mod.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

const char *const fat_db_outcomes[FAT_OUTCOME_COUNT] =
    {/* ORDER OUTCOME */
     "ok", "wrong", "spills", "compile-failed", "launch-failed", "fault", "timeout", "oom", "unfit", "slow"};
const char *const fat_db_origins[FAT_ORIGIN_COUNT] = {"measured", "predicted"}; /* ORDER ORIGIN */

const char *fat_db_outcome_name(fat_outcome o)
{
  return (unsigned)o < FAT_OUTCOME_COUNT ? fat_db_outcomes[o] : "unknown";
}

const char *fat_db_origin_name(fat_origin o)
{
  return (unsigned)o < FAT_ORIGIN_COUNT ? fat_db_origins[o] : "unknown";
}

fat_trial fat_db_untimed(void)
{
  return (fat_trial){.outcome = FAT_OUT_OK,
                     .origin = FAT_PREDICTED,
                     .ms = NAN,
                     .mean = NAN,
                     .p20 = NAN,
                     .p80 = NAN,
                     .clock_mhz = NAN,
                     .error_max = NAN,
                     .error_allowed = NAN,
                     .compile_seconds = NAN,
                     .forecast = NAN};
}

/* -- the list of columns */

#define SQL_N(name) "t." #name
#define SQL_T(name) "t." #name
#define SQL_H(name) "t." #name
#define SQL_D(name) "d." #name
#define SQL_K(name) "k." #name
#define SQL_P(name) "p.text"
/* Asked for what is read, not joined: a join would be done for every trial that a pick steps over. */
#define SQL_E(name)                                                                                          \
  "coalesce((SELECT m.text FROM %1$s.mod m WHERE (m.hash LIKE 'mask%%') = ('" #name                          \
  "' = 'mask_mod') AND instr(p.family, '-' || m.hash)), '')"
#define SQL_R(name)  "coalesce(r." #name ", '')"
#define PATH_N(name) #name
#define PATH_T(name) #name
#define PATH_H(name) #name
#define PATH_D(name) "gpu." #name
#define PATH_K(name) #name
#define PATH_P(name) #name
#define PATH_E(name) #name
#define PATH_R(name) #name

const fat_db_field fat_db_fields[FAT_ROW_COUNT] = {
#define COLUMN(table, name, value, member, low, high, shipped)                                               \
  {#table[0],                                                                                                \
   #name,                                                                                                    \
   PATH_##table(name),                                                                                       \
   SQL_##table(name),                                                                                        \
   FAT_VALUE_##value,                                                                                        \
   offsetof(fat_db_row, member),                                                                             \
   (double)(low),                                                                                            \
   (double)(high),                                                                                           \
   FAT_SHIPPED_##shipped},
#include "columns.def"
#undef COLUMN
};
_Static_assert(offsetof(fat_db_row, trial) == 0, "a trial is read and bound by the offsets of its row");

bool fat_db_travels(const fat_db_field *f)
{
  return f->value != FAT_VALUE_ID && f->value != FAT_VALUE_FACTS && f->value != FAT_VALUE_LOG &&
         f->table != 'H';
}

void fat_db_row_select(fat_text *sql, const char *schema)
{
  for (int i = 0; i < FAT_ROW_COUNT; i++) {
    fat_text_add(sql, i ? ", " : "SELECT ");
    fat_text_format(sql, fat_db_fields[i].sql, schema);
  }
  fat_text_format(
      sql,
      " FROM %1$s.trial t JOIN %1$s.problem p ON p.id = t.problem JOIN %1$s.device d ON d.id = t.device"
      " JOIN %1$s.toolchain k ON k.id = t.toolchain LEFT JOIN %1$s.run r ON r.id = t.run",
      schema);
}

/* -- what a trial must be */

/* A number within the range of its column; NAN, for unknown, where the column allows it. */
static fat_status check_number(const fat_db_field *f, double value, fat_error *err)
{
  if (f->value == FAT_VALUE_REAL ? value < f->low || value > f->high : !(value >= f->low && value <= f->high))
    return fat_status_fail(err, FAT_E_INPUT, "%s of a trial is %.10g: allowed are %.10g to %.10g", f->path,
                           value, f->low, f->high);
  return FAT_OK;
}

static fat_status check_word(const fat_db_field *f, const char *word, fat_error *err)
{
  for (const char *p = word; p && *p; p++)
    if ((unsigned char)*p < ' ' || (unsigned char)*p > '~' || p - word >= (ptrdiff_t)f->high)
      return fat_status_fail(err, FAT_E_INPUT,
                             "'%.40s' in a trial is no plain text of at most %.0f characters", word, f->high);
  return FAT_OK;
}

static fat_status check_value(const fat_db_field *f, const fat_trial *t, fat_error *err)
{
  const void *from = (const char *)t + f->member;
  switch (f->value) {
  case FAT_VALUE_WHOLE:
  case FAT_VALUE_SAMPLES:
    return check_number(f, *(const int *)from, err);
  case FAT_VALUE_LONG:
    return check_number(f, (double)*(const int64_t *)from, err);
  case FAT_VALUE_REAL:
  case FAT_VALUE_KNOWN:
    return check_number(f, *(const double *)from, err);
  case FAT_VALUE_NAME:
    return check_word(f, from, err);
  case FAT_VALUE_WORD:
  case FAT_VALUE_DATE:
    return check_word(f, *(const char *const *)from, err);
  default:
    return FAT_OK;
  }
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
  for (int i = 0; i < FAT_ROW_COUNT; i++)
    if (fat_db_fields[i].member < sizeof *t)
      FAT_TRY(check_value(&fat_db_fields[i], t, err));
  for (int i = 0; t->samples && i < t->sample_count; i++)
    if (!(t->samples[i] >= 0 && t->samples[i] <= FAT_DB_MS))
      return fat_status_fail(err, FAT_E_INPUT, "sample %d of a trial is %g ms: allowed are 0 to %g", i,
                             t->samples[i], FAT_DB_MS);
  for (int i = 0; i < t->kind_count; i++)
    if (t->kind_count > FAT_KIND_TIMES || !t->kinds[i].name[0] ||
        !(t->kinds[i].ms > 0 && t->kinds[i].ms <= FAT_DB_MS))
      return fat_status_fail(err, FAT_E_INPUT, "kind %d of a trial takes %g ms: allowed are 0 to %g", i,
                             t->kinds[i].ms, FAT_DB_MS);
  if (t->compile_key && !fat_db_is_text(t->compile_key, FAT_DB_LOG))
    return fat_status_fail(err, FAT_E_INPUT,
                           "the compile key of a trial is too long or no text: see the variables"
                           " NVRTC_* of the environment");
  if (t->outcome == FAT_OUT_OK && t->origin == FAT_MEASURED && !(t->ms > 0))
    return fat_status_fail(err, FAT_E_INPUT, "a measured trial with outcome ok has no time: ms is %g", t->ms);
  if (t->outcome == FAT_OUT_OK && t->error_max > t->error_allowed)
    return fat_status_fail(err, FAT_E_INPUT, "a trial with outcome ok is off by %g: allowed are %g",
                           t->error_max, t->error_allowed);
  if (t->mean <= 0)
    return fat_status_fail(err, FAT_E_INPUT, "the mean of a trial's kinds of data is %g", t->mean);
  return FAT_OK;
}
