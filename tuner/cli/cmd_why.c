/* cmd_why.c -- `fatune why PROBLEM|FAMILY`: which stored kernel a call would get, and why that one. Of a
 * family: the shapes whose winners or defaults its calls get, and the answer for its main anchor.
 *
 * In: a problem, a GPU, the database. Out: the steps of the pick (runtime/pick), each with the row it found
 * or why it found none. The chosen row is rendered again, to say whether its source is still the same. */
#include "anchor.h"
#include "search/agenda.h"
#include "commands.h"
#include "compile.h"
#include "exit.h"
#include "json.h"
#include "open.h"
#include "search/fitting.h"
#include "rather.h"
#include "search/rendered.h"
#include "usual.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct answer {
  const fat_options *options;
  fat_problem problem; /* of a family its main anchor */
  bool is_family;
  fat_asked_gpu asked;
  fat_script *script;
  fat_db *db;                 /* NULL: there is none */
  fat_text path, key, shapes; /* shapes: lines, of a family */
  fat_pick_rows rows, plain_rows;
  fat_pick pick;
  char fallback[FAT_CONFIG_TEXT]; /* what is given where nothing is stored, "" if not asked */
  fat_rendered today;             /* of what is chosen */
  const char *empty;              /* why no kernel is needed, or NULL */
  fat_trial timed;                /* the chosen row's mean and kinds alone */
} answer;

/* Which kernel would serve, by its default config; FAT_E_UNSUPPORTED where none does. */
static fat_status find_default(answer *a, fat_error *err)
{
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  fat_point point;
  int count, unasked;
  FAT_TRY(fat_agenda_kernels(&a->options->goal, a->script, names, &count, err));
  FAT_TRY(fat_usual_find(a->script, a->options->goal.kernel_count ? names[0] : NULL, &a->problem,
                         &a->asked.gpu, true, &point, &unasked, err));
  fat_config_print(&point.config, a->fallback);
  return FAT_OK;
}

/* The key of today's compiler; without NVRTC there is still an answer. */
static const char *compile_key(answer *a)
{
  fat_nvrtc *nvrtc;
  if (fat_open_nvrtc(a->options, &a->asked, &nvrtc, NULL) != FAT_OK)
    return NULL;
  const char *key = fat_compile_key(nvrtc, &a->key, NULL) == FAT_OK ? fat_text_get(&a->key) : NULL;
  fat_nvrtc_close(nvrtc);
  return key;
}

static fat_status read_problem(answer *a, fat_error *err)
{
  const char *text = a->options->args[0];
  a->is_family = fat_problem_is_family(text);
  return fat_agenda_problem(&a->options->goal, text, a->is_family, &a->problem, err);
}

static bool list_shape(const fat_trial *t, void *user)
{
  char there[FAT_GPU_FACTS], here[FAT_GPU_FACTS], problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
  answer *a = user;
  fat_gpu_facts(&a->asked.gpu, here);
  if (t->origin == FAT_MEASURED && strcmp(fat_gpu_facts(&t->gpu, there), here) == 0)
    fat_text_format(&a->shapes, "%s %s\n", fat_problem_print(&t->problem, problem),
                    fat_config_print(&t->config, config));
  return true;
}

static fat_status find_shapes(answer *a, fat_error *err)
{
  if (!a->is_family || !a->db)
    return FAT_OK;
  const fat_status status = fat_db_winners(a->db, &a->problem, list_shape, a, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

static bool take_kinds(const fat_trial *t, void *user)
{
  answer *a = user;
  char config[FAT_CONFIG_TEXT];
  const fat_candidate *row = &a->pick.row[a->pick.step];
  fat_config_print(&t->config, config);
  if (strcmp(config, row->config) != 0 || strcmp(t->source_hash, row->source_hash) != 0 ||
      strcmp(t->date, row->date) != 0)
    return true;
  a->timed.mean = t->mean;
  a->timed.kind_count = t->kind_count;
  memcpy(a->timed.kinds, t->kinds, sizeof t->kinds);
  return false;
}

/* What the chosen row took on each kind of data: the pick asks for no more than its time. */
static fat_status find_kinds(answer *a, fat_error *err)
{
  const fat_candidate *row = &a->pick.row[a->pick.step];
  const fat_db_filter filter = {
      .problem = row->problem, .gpu = row->facts, .kernel = row->kernel, .samples = true};
  if (!a->db || !row->found || row->origin != FAT_MEASURED)
    return FAT_OK;
  fat_status status = fat_db_trials(a->db, &filter, take_kinds, a, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

static fat_status find_answer(answer *a, fat_error *err)
{
  fat_error unserved = {0};
  FAT_TRY(read_problem(a, err));
  if (a->options->goal.kernel_count > 1)
    return fat_status_fail(err, FAT_E_INPUT, "--kernel: why takes one name, not %d",
                           a->options->goal.kernel_count);
  FAT_TRY(fat_open_gpu(a->options, &a->asked, err));
  FAT_TRY(fat_agenda_dtype(a->options->args[0], a->problem.dtype, &a->asked.gpu, err));
  if (a->is_family)
    a->problem = fat_anchor_main(&a->problem, &a->asked.gpu);
  FAT_TRY(fat_open_script(a->options, &a->script, err));
  fat_status status = find_default(a, &unserved);
  if (status != FAT_OK && status != FAT_E_UNSUPPORTED)
    return fat_status_fail(err, status, "%s", unserved.text);
  a->empty = status == FAT_OK ? fat_problem_nothing(&a->problem) : NULL;
  if (a->empty)
    return FAT_OK;
  status = fat_open_db_if_any(a->options, &a->db, &a->path, err);
  if (status != FAT_OK && status != FAT_E_NOT_FOUND)
    return status;
  fat_pick_question question = {.problem = &a->problem,
                                .gpu = &a->asked.gpu,
                                .kernel = a->options->goal.kernel_count ? a->options->goal.kernels[0] : NULL,
                                .near = true,
                                .unserved = unserved.status ? unserved.text : NULL,
                                .driver = a->asked.at_hand ? a->asked.driver : NULL,
                                .compile_key = compile_key(a),
                                .templates = fat_script_templates_hash(a->script),
                                .now = (int64_t)time(NULL)};
  FAT_TRY(fat_fitting_answer(a->db, a->script, &question, &a->rows, &a->pick, err));
  const fat_rather rather = {a->options, &a->asked, a->script, a->db, &question, &a->plain_rows};
  FAT_TRY(fat_rather_find(&rather, &a->pick, a->fallback, err));
  FAT_TRY(find_shapes(a, err));
  if (a->is_family && !question.kernel)
    FAT_TRY(fat_rather_shapes(&rather, &a->pick, a->fallback, &a->shapes, err));
  const fat_candidate *row = &a->pick.row[a->pick.step];
  a->today = fat_rendered_today(a->script, &a->problem, &a->asked.gpu, row->found ? row->config : a->fallback,
                                row->found ? row->source_hash : NULL);
  return find_kinds(a, err);
}

static void print_kinds(const answer *a, fat_text *out)
{
  if (a->timed.kind_count == 0)
    return;
  fat_text_format(out, "   %-11s %.4g ms over all kinds of data:", "mean", a->timed.mean);
  for (int i = 0; i < a->timed.kind_count; i++)
    fat_text_format(out, "%s %s %.4g", i ? "," : "", a->timed.kinds[i].name, a->timed.kinds[i].ms);
  fat_text_add(out, "\n");
}

/* What the rows of the step promised. */
static void print_weighed(const answer *a, fat_text *out)
{
  const fat_candidate *row[FAT_PICK_LISTED];
  for (int i = 0, rows = fat_pick_list_weighed(&a->pick, row); i < rows; i++) {
    fat_text_add(out, "     expected    ");
    fat_candidate_tell(row[i], out);
  }
}

static void print_text(const answer *a, fat_text *out)
{
  char problem[FAT_PROBLEM_TEXT];
  if (a->is_family)
    fat_text_format(out, "%s on %s: each call gets the kernel of the shape that promises most\n%s",
                    a->options->args[0], a->asked.gpu.name, fat_text_get(&a->shapes));
  fat_text_format(out, "%s on %s\n", fat_problem_print(&a->problem, problem), a->asked.gpu.name);
  if (a->empty)
    fat_text_format(out, "-> %-11s %s\n", "none", a->empty);
  for (int step = 0; !a->empty && step < FAT_PICK_STEPS; step++) {
    if (!a->pick.why[step][0])
      continue;
    const bool chosen = step == (int)a->pick.step;
    fat_text_format(out, "%s %-11s %s", chosen ? "->" : "  ", fat_pick_step_name((fat_pick_step)step),
                    a->pick.why[step]);
    if (chosen && step == FAT_PICK_DEFAULT)
      fat_text_format(out, ", %s", a->fallback);
    if (chosen && a->today.source)
      fat_text_add(out, strcmp(a->today.source, "same") == 0 ? "; today's templates give the same source"
                                                             : "; today's templates give another source");
    fat_text_add(out, "\n");
    if (chosen) {
      print_kinds(a, out);
      if (a->today.workspace >= 0)
        fat_text_format(out, "   %-11s %" PRId64 " bytes beside the tensors\n", "workspace",
                        a->today.workspace);
      print_weighed(a, out);
    }
  }
}

static void print_row(fat_json *j, const fat_candidate *row, const fat_trial *timed)
{
  fat_json_string(j, "problem", row->problem);
  fat_json_string(j, "gpu", row->gpu);
  fat_json_string(j, "device", row->facts);
  fat_json_string(j, "config", row->config);
  fat_json_string(j, "origin", fat_db_origin_name(row->origin));
  fat_json_double(j, "ms", row->ms);
  fat_json_double(j, "mean", timed->mean > 0 ? timed->mean : NAN);
  fat_json_open(j, "kinds", '{');
  for (int i = 0; i < timed->kind_count; i++)
    fat_json_double(j, timed->kinds[i].name, timed->kinds[i].ms);
  fat_json_close(j, '}');
  fat_json_double(j, "distance", row->distance);
  fat_json_double(j, "expected_ms", row->expected);
  fat_json_double(j, "age_days", row->age_days);
  fat_json_string(j, "differences", row->differences);
}

static void print_weighed_json(const answer *a, fat_json *j)
{
  const fat_candidate *row[FAT_PICK_LISTED];
  const int rows = fat_pick_list_weighed(&a->pick, row);
  fat_json_open(j, "weighed", '[');
  for (int i = 0; i < rows; i++) {
    fat_json_open(j, NULL, '{');
    fat_json_string(j, "problem", row[i]->problem);
    fat_json_string(j, "config", row[i]->config);
    fat_json_string(j, "gpu", row[i]->gpu);
    fat_json_double(j, "expected_ms", row[i]->expected);
    fat_json_double(j, "distance", row[i]->distance);
    fat_json_close(j, '}');
  }
  fat_json_close(j, ']');
}

static void print_shapes(const answer *a, fat_json *j)
{
  fat_json_string(j, "family", a->options->args[0]);
  fat_json_open(j, "shapes", '[');
  for (const char *line = fat_text_get(&a->shapes); *line; line += strcspn(line, "\n") + 1) {
    char problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
    const int n = (int)strcspn(line, " "), m = (int)strcspn(line + n + 1, "\n");
    snprintf(problem, sizeof problem, "%.*s", n, line);
    snprintf(config, sizeof config, "%.*s", m, line + n + 1);
    fat_json_open(j, NULL, '{');
    fat_json_string(j, "problem", problem);
    fat_json_string(j, "config", config);
    fat_json_close(j, '}');
  }
  fat_json_close(j, ']');
}

static void print_json(const answer *a, fat_text *out)
{
  char problem[FAT_PROBLEM_TEXT];
  fat_json j = {.out = out};
  fat_json_open(&j, NULL, '{');
  if (a->is_family)
    print_shapes(a, &j);
  fat_json_string(&j, "asked", fat_problem_print(&a->problem, problem));
  fat_json_string(&j, "asked_gpu", a->asked.gpu.name);
  fat_json_string(&j, "step", a->empty ? "none" : fat_pick_step_name(a->pick.step));
  fat_json_string(&j, "why", a->empty ? a->empty : a->pick.why[a->pick.step]);
  fat_json_string(&j, "source", a->today.source);
  if (a->empty || a->today.workspace >= 0)
    fat_json_int(&j, "workspace", a->today.workspace);
  if (!a->empty && a->pick.step == FAT_PICK_DEFAULT)
    fat_json_string(&j, "config", a->fallback);
  if (a->pick.row[a->pick.step].found)
    print_row(&j, &a->pick.row[a->pick.step], &a->timed);
  fat_json_open(&j, "steps", '[');
  for (int step = 0; !a->empty && step <= (int)a->pick.step; step++) {
    if (!a->pick.why[step][0])
      continue;
    fat_json_open(&j, NULL, '{');
    fat_json_string(&j, "step", fat_pick_step_name((fat_pick_step)step));
    fat_json_string(&j, "why", a->pick.why[step]);
    fat_json_close(&j, '}');
  }
  fat_json_close(&j, ']');
  print_weighed_json(a, &j);
  fat_json_close(&j, '}');
}

static int why(const fat_options *options)
{
  answer a = {.options = options};
  fat_text out = {0};
  fat_error err = {0};
  fat_status status = find_answer(&a, &err);
  if (status == FAT_OK) {
    if (options->json)
      print_json(&a, &out);
    else
      print_text(&a, &out);
    status = fat_text_status(&out, &err);
  }
  int code = status == FAT_OK ? fat_exit_print(fat_text_get(&out)) : fat_exit_fail(&err);
  if (code == FAT_EXIT_FINE && !a.empty && a.pick.step == FAT_PICK_UNSUPPORTED)
    code = FAT_EXIT_NO_KERNEL;
  fat_text_free(&out);
  fat_pick_rows_free(&a.rows);
  fat_pick_rows_free(&a.plain_rows);
  fat_text_free(&a.path);
  fat_text_free(&a.shapes);
  fat_text_free(&a.key);
  fat_db_close(a.db);
  fat_script_close(a.script);
  return code;
}

const fat_command fat_cmd_why = {
    .name = "why",
    .args = "PROBLEM|FAMILY",
    .about = "say which stored kernel a call would get, and why",
    .more =
        "The order is: exact (measured for this problem and device), nearest (for another shape), arch "
        "(on another GPU of the architecture), predicted, default, unsupported. Of several rows of a step "
        "that one is taken which promises the least time here, by how its tiles fill the SMs; a row "
        "counts for less the farther off it lies, and nearest yields to arch where that promises less time. "
        "Where "
        "b, q or k is 0 the answer is none: a call launches "
        "nothing.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(GPU) | FAT_USE(MOD) | FAT_USE(MASK_MOD) | FAT_USE(ONE_KERNEL) | FAT_USE(CUDA) |
            FAT_USE(DB) | FAT_USE(TEMPLATES) | FAT_USE(JSON) | FAT_USE(QUIET),
    .least = 1,
    .most = 1,
    .run = why,
};
