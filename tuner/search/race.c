/* race.c -- who is in the last round, the round, and who wins.
 *
 * In: measured rows. Out: rows with the times of the race, and the winner. Near ties are decided by a fixed
 * rule and not by noise, so that the same GPU is given the same kernel again tomorrow. */
#include "race.h"

#include "leader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const double near_best = 1.05, tie = 1.01; /* times the best */

static bool works(const fat_row *row, const char *kernel)
{
  bool asked = kernel ? strcmp(row->kernel, kernel) == 0 : row->eligible != 0;
  return asked && row->same_templates && row->origin == FAT_MEASURED && row->outcome == FAT_OUT_OK &&
         isfinite(row->ms) && row->ms > 0;
}

/* What rows are compared by: by their clocks where not all were timed in one race. A GPU at its power limit
 * has up to an eighth fewer clocks in a millisecond than a moment before, whoever's turn it is. */
typedef enum measure_of { BY_MS, BY_CLOCKS } measure_of;

static double cost(const fat_row *row, measure_of by)
{
  return by == BY_CLOCKS ? row->ms * row->timing.clock : row->ms;
}

static measure_of told_by(const fat_rows *rows, const char *kernel)
{
  for (int i = 0; i < rows->count; i++)
    if (works(&rows->list[i], kernel) && !(rows->list[i].timing.clock > 0))
      return BY_MS;
  return BY_CLOCKS;
}

/* Of all, or of those timed in the race of one of them. */
static const fat_row *fastest(const fat_rows *rows, const char *kernel, measure_of by, const fat_row *beside)
{
  const fat_row *best = NULL;
  for (int i = 0; i < rows->count; i++) {
    const fat_row *row = &rows->list[i];
    if (!works(row, kernel) || (beside && !fat_rows_raced(row, beside)))
      continue;
    if (!best || cost(row, by) < cost(best, by) || (cost(row, by) == cost(best, by) && row->id < best->id))
      best = row;
  }
  return best;
}

/* The newest of the user's that was in a race; 0: none. Ids grow with time. */
static int64_t last_raced(const fat_rows *rows, const char *kernel)
{
  int64_t last = 0;
  for (int i = 0; i < rows->count; i++)
    if (works(&rows->list[i], kernel) && fat_rows_is_finalist(&rows->list[i]) && rows->list[i].id > last)
      last = rows->list[i].id;
  return last;
}

/* Keeps the fastest, sorted; the last place is kept free for the default. */
static void insert(const fat_row *finalists[FAT_RACE_MOST], int *count, const fat_row *row, measure_of by)
{
  int at = *count;
  while (at > 0 && cost(finalists[at - 1], by) > cost(row, by))
    at--;
  if (at >= FAT_RACE_MOST - 1)
    return;
  int end = *count < FAT_RACE_MOST - 1 ? (*count)++ : FAT_RACE_MOST - 2;
  memmove(&finalists[at + 1], &finalists[at], (size_t)(end - at) * sizeof *finalists);
  finalists[at] = row;
}

int fat_race_finalists(const fat_rows *rows, const char *kernel, const char *default_config,
                       const fat_row *finalists[FAT_RACE_MOST])
{
  const measure_of by = told_by(rows, kernel);
  const fat_row *best = fastest(rows, kernel, by, NULL), *standard = NULL;
  int count = 0;
  if (!best)
    return 0;
  for (int i = 0; i < rows->count; i++) {
    const fat_row *row = &rows->list[i];
    if (!works(row, kernel))
      continue;
    if (cost(row, by) <= near_best * cost(best, by))
      insert(finalists, &count, row, by);
    if (strcmp(row->config, default_config) == 0)
      standard = row;
  }
  bool entered = !standard;
  for (int i = 0; i < count; i++)
    entered = entered || finalists[i] == standard;
  if (!entered)
    finalists[count++] = standard;
  bool held = fat_rows_is_finalist(best) && (!standard || fat_rows_is_finalist(standard));
  const int64_t last = last_raced(rows, kernel);
  for (int i = 0; i < count; i++)
    held = held && (fat_rows_is_finalist(finalists[i]) || finalists[i]->id <= last);
  return count < 2 || held ? 0 : count;
}

/* The entrants, with their code. */
typedef struct field {
  const fat_row *row[FAT_RACE_MOST];
  fat_code code[FAT_RACE_MOST];
  fat_entrant entrant[FAT_RACE_MOST];
  int count;
} field;

/* FAT_E_NOT_FOUND also where what is stored of it cannot be launched. */
static fat_status read_code(const fat_order *order, const fat_problem *p, const fat_row *row, fat_code *code,
                            fat_error *err)
{
  char facts[FAT_GPU_FACTS];
  const fat_code_filter filter = {.problem = p,
                                  .sm = order->gpu->sm,
                                  .facts = fat_gpu_facts(order->gpu, facts),
                                  .config = row->config,
                                  .source_hash = row->source_hash};
  FAT_TRY(fat_db_code(order->db, &filter, code, err));
  if (code->cubin && code->recipe)
    return FAT_OK;
  fat_db_code_free(code);
  return FAT_E_NOT_FOUND;
}

/* What was stored without its binary, because it did not look like one of the best then, is compiled again.
 */
static fat_status gather(const fat_order *order, const fat_problem *p, const fat_row *const *rows, int count,
                         field *f, fat_error *err)
{
  for (int i = 0; i < count; i++) {
    fat_code *code = &f->code[f->count];
    fat_status status = read_code(order, p, rows[i], code, err);
    if (status == FAT_E_NOT_FOUND) {
      status = fat_keep_again(p, order, rows[i], err);
      if (status != FAT_E_CANCELLED) /* or there is no race anyway */
        FAT_TRY(status);
      status = read_code(order, p, rows[i], code, err);
    }
    if (status == FAT_E_NOT_FOUND)
      continue;
    FAT_TRY(status);
    f->row[f->count] = rows[i];
    f->entrant[f->count++] = (fat_entrant){.config = rows[i]->config,
                                           .recipe = code->recipe,
                                           .cubin_hash = code->cubin_hash,
                                           .cubin = code->cubin,
                                           .cubin_size = code->cubin_size};
  }
  return FAT_OK;
}

/* The row again, with these times and how the race went. */
static fat_status store(const fat_order *order, const fat_problem *p, const fat_row *row, int64_t run,
                        const fat_timing *timing, const char *how, fat_error *err)
{
  fat_row copy = *row;
  fat_trial trial;
  copy.timing = *timing;
  snprintf(copy.detail, sizeof copy.detail, "%s%s", fat_rows_finalist, how);
  FAT_TRY(fat_rows_trial(&copy, p, order->gpu, &order->bench.tools, &trial, err));
  trial.run = run;
  return fat_db_put(order->db, &trial, NULL, err);
}

/* Now, to the millisecond: what a race is known by. */
static void name_race(char name[32])
{
  struct timespec now;
  struct tm utc;
  size_t n = 0;
  clock_gettime(CLOCK_REALTIME, &now);
  if (gmtime_r(&now.tv_sec, &utc))
    n = strftime(name, 32, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(name + n, 32 - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* A race that was broken off is stored as one too, so that no later tune holds it again; but for want of
 * memory, which there may be more of in the next run. */
static fat_status run_field(const fat_order *order, fat_measure *measure, const fat_problem *p, field *f,
                            int64_t run, const volatile int *stop, fat_progress *progress, bool *held,
                            fat_error *err)
{
  static fat_verdict verdicts[FAT_WIRE_ENTRANTS];
  double expected = 0;
  char how[1000], name[32]; /* `how` fits a row's detail */
  name_race(name);
  for (int i = 0; i < f->count; i++)
    expected = fmax(expected, f->row[i]->ms);
  fat_status status = fat_measure_run(measure, FAT_TASK_RACE, p, order->gpu, f->entrant, f->count, expected,
                                      stop, verdicts, err);
  if (status == FAT_E_CANCELLED)
    return FAT_OK;
  FAT_TRY(status);
  fat_outcome outcome = verdicts[0].outcome;
  *held = outcome == FAT_OUT_OK;
  snprintf(how, sizeof how, "%s%d %s%s%s", fat_rows_timed, f->count - 1, f->count == 2 ? "other" : "others",
           fat_rows_since, name);
  if (!*held) {
    snprintf(how, sizeof how, "the last round was broken off (%s: %.900s); the first times stand",
             fat_db_outcome_name(outcome), verdicts[0].detail);
    fat_progress_say(progress, "%s", how);
  }
  for (int i = 0; i < f->count && outcome != FAT_OUT_OOM; i++)
    FAT_TRY(store(order, p, f->row[i], run, *held ? &verdicts[i].timing : &f->row[i]->timing, how, err));
  return FAT_OK;
}

/* The finalists of a line; `rows` hold them and are to be freed. */
static fat_status read_finalists(const fat_order *order, const fat_line *line, fat_rows *rows,
                                 const fat_row *finalists[FAT_RACE_MOST], int *count, fat_error *err)
{
  /* One line races for all that may win unasked: that of the default which a call is given untuned. */
  bool first = line->kernel->picked && line->kernel == line->ask->kernels;
  const char *kernel = first ? NULL : line->kernel->name;
  char standard[FAT_CONFIG_TEXT] = "";
  *rows = (fat_rows){0};
  *count = 0;
  if (line->search.count == 0)
    return FAT_OK;
  fat_config_print(&line->search.space.points[0].config, standard);
  FAT_TRY(fat_rows_read(order->db, &line->ask->problem, order->gpu, &order->bench.tools, rows, err));
  *count = fat_race_finalists(rows, kernel, standard, finalists);
  return FAT_OK;
}

fat_status fat_race_due(const fat_order *order, const fat_line *line, bool *due, fat_error *err)
{
  const fat_row *finalists[FAT_RACE_MOST];
  fat_rows rows;
  int count;
  FAT_TRY(read_finalists(order, line, &rows, finalists, &count, err));
  *due = count > 0;
  fat_rows_free(&rows);
  return FAT_OK;
}

fat_status fat_race_hold(const fat_order *order, fat_measure *measure, const fat_line *line, int64_t run,
                         const volatile int *stop, fat_progress *progress, bool *held, fat_error *err)
{
  const fat_problem *p = &line->ask->problem;
  const fat_row *finalists[FAT_RACE_MOST];
  fat_rows rows;
  int count;
  field f = {.count = 0};
  *held = false;
  FAT_TRY(read_finalists(order, line, &rows, finalists, &count, err));
  fat_status status = count ? gather(order, p, finalists, count, &f, err) : FAT_OK;
  if (status == FAT_OK && f.count > 1)
    status = run_field(order, measure, p, &f, run, stop, progress, held, err);
  for (int i = 0; i < f.count; i++)
    fat_db_code_free(&f.code[i]);
  fat_rows_free(&rows);
  return status;
}

/* How far a median of so many samples may be off: twice its standard error, 1.25 times theirs over the root
 * of their number, if they are normal; the middle 60 % of them are then 1.68 times that wide. */
static double noise(const fat_timing *t)
{
  return 2 * 1.25 / 1.68 * (t->p80 - t->p20) / sqrt(t->count > 0 ? t->count : 1);
}

/* Whether noise may have decided between two that were timed in a race. */
static bool ties(const fat_row *row, const fat_row *best)
{
  if (row == best)
    return true;
  double lead = row->ms - best->ms;
  return fat_rows_raced(row, best) &&
         (row->ms <= tie * best->ms || lead <= hypot(noise(&row->timing), noise(&best->timing)));
}

static bool preferred(const fat_row *a, const fat_row *b, const char *incumbent)
{
  if (strcmp(a->config, b->config) == 0)
    return false;
  if (strcmp(a->config, incumbent) == 0 || strcmp(b->config, incumbent) == 0)
    return strcmp(a->config, incumbent) == 0;
  if (a->figures.shared != b->figures.shared)
    return a->figures.shared < b->figures.shared;
  if (a->figures.registers != b->figures.registers)
    return a->figures.registers < b->figures.registers;
  return strcmp(a->config, b->config) < 0;
}

const fat_row *fat_race_winner(const fat_rows *rows, const char *incumbent)
{
  const fat_row *best = fastest(rows, NULL, told_by(rows, NULL), NULL), *winner;
  if (best && fat_rows_is_timed(best)) /* times of one race say more than clocks; of two, less */
    best = fastest(rows, NULL, BY_MS, best);
  winner = best;
  for (int i = 0; best && i < rows->count; i++) {
    const fat_row *row = &rows->list[i];
    if (works(row, NULL) && ties(row, best) && preferred(row, winner, incumbent))
      winner = row;
  }
  return winner;
}

fat_status fat_race_incumbent(const fat_order *order, const fat_problem *p, char config[FAT_CONFIG_TEXT],
                              fat_error *err)
{
  fat_best best;
  fat_status status = fat_db_best(order->db, p, order->gpu, NULL, false, &best, err);
  config[0] = 0;
  if (status == FAT_E_NOT_FOUND)
    return FAT_OK;
  FAT_TRY(status);
  if (best.trial.origin == FAT_MEASURED)
    fat_config_print(&best.trial.config, config);
  fat_db_best_free(&best);
  return FAT_OK;
}

/* What is put becomes the winner by its time alone where it is the fastest; then there is nothing to prefer.
 */
static fat_status prefer(const fat_order *order, const fat_problem *p, const fat_row *winner, fat_error *err)
{
  int64_t id;
  FAT_TRY(fat_rows_own(order->db, winner, p, order->gpu, &order->bench.tools, 0, &id, err));
  fat_status status = fat_db_prefer(order->db, id, err);
  return status == FAT_E_NOT_FOUND && winner->id < 0 ? FAT_OK : status;
}

fat_status fat_race_crown(const fat_order *order, const fat_problem *p, const char *incumbent, fat_error *err)
{
  char now[FAT_CONFIG_TEXT];
  fat_rows rows;
  fat_status status = FAT_OK;
  FAT_TRY(fat_race_incumbent(order, p, now, err));
  FAT_TRY(fat_rows_read(order->db, p, order->gpu, &order->bench.tools, &rows, err));
  const fat_row *winner = fat_race_winner(&rows, incumbent);
  if (winner && strcmp(winner->config, now) != 0)
    status = prefer(order, p, winner, err);
  fat_rows_free(&rows);
  return status;
}
