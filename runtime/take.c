/* take.c -- the steps of a choice: a stored row, a default compiled before, one compiled now, the twin.
 *
 * In: a problem, a device, a policy, what the pick says. Out: loaded kernels, and lines that say why these. A
 * stored row that cannot serve (no cubin, a damaged one, one for another driver, one that is not valid for
 * the sizes) is left out and the next one taken. Only want of memory and a failing GPU are errors. */
#include "choosing.h"
#include "cuda_error.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static fatune *handle_of(const fat_choosing *c)
{
  return c->ask.handle;
}

/* Of a row that came without code, as an export has it: its config, as today's templates write it. The code
 * is kept where it belongs. */
static fat_status compile_row(fat_choosing *c, const fat_code_filter *row, fat_loaded *to, fat_error *err)
{
  fatune_jit_request r = {.config = row->config};
  const int made = c->loader.made_count;
  FAT_TRY(fat_load_compiled(&c->loader, &r, to, err));
  if (c->loader.made_count > made)
    c->loader.made[made].problem = *row->problem;
  return FAT_OK;
}

/* The code of a row of `row->problem`. A package's row comes without, and may have been measured with other
 * templates than those that its code is of by now. */
static fat_status load_row(fat_choosing *c, const fat_code_filter *row, fat_loaded *to, fat_error *err)
{
  fat_code_filter filter = *row;
  fat_status status = fat_load_stored(&c->loader, &filter, to, err);
  if (status != FAT_E_NOT_FOUND || c->loader.put_off)
    return status;
  filter.source_hash = NULL;
  status = fat_load_stored(&c->loader, &filter, to, err);
  if (status == FAT_E_NOT_FOUND && !c->loader.put_off && c->loader.may_rebuild)
    status = compile_row(c, row, to, err);
  return status;
}

static fat_status take_row(fat_choosing *c, const fat_candidate *row, fat_error *err)
{
  const fat_code_filter filter = {.problem = &row->shape,
                                  .sm = c->out->gpu.sm,
                                  .facts = row->facts,
                                  .config = row->config,
                                  .source_hash = row->source_hash};
  fat_status status = load_row(c, &filter, &c->out->main, err);
  const char *got = c->out->main.source_hash; /* "": the kernel has only been named */
  if (status != FAT_OK || !*got || strcmp(got, row->source_hash) == 0 ||
      strcmp(c->out->main.instead, row->source_hash) == 0) /* told of another shape */
    return status;
  memcpy(c->out->main.instead, row->source_hash, sizeof c->out->main.instead);
  fat_text_format(c->why, "source: the row was measured%s\n",
                  row->lent ? row->lender : " with other templates");
  return FAT_OK;
}

static bool is_allowed(const fat_choosing *c, fat_pick_step step)
{
  return step == FAT_PICK_EXACT || (step < FAT_PICK_DEFAULT && c->ask.policy != FATUNE_FAIL);
}

static void tell(fat_choosing *c, const fat_pick *pick)
{
  const fat_candidate *row[FAT_PICK_LISTED];
  for (int i = 0; i <= (int)pick->step && i < FAT_PICK_DEFAULT && !c->brief; i++)
    fat_text_format(c->why, "%s: %s\n", fat_pick_step_name((fat_pick_step)i),
                    i == FAT_PICK_EXACT && c->hidden && pick->step != FAT_PICK_EXACT
                        ? "what was measured of this problem on this device is left out"
                        : pick->why[i]);
  const int rows = c->brief ? 0 : fat_pick_list_weighed(pick, row);
  for (int i = 0; i < rows; i++) {
    fat_text_add(c->why, "expected: ");
    fat_candidate_tell(row[i], c->why);
  }
}

static void settle(fat_choosing *c, fat_pick_step step, const fat_candidate *row)
{
  c->out->step = step;
  c->out->row = *row;
  memcpy(c->loader.of, row->problem, sizeof c->loader.of);
}

/* It is no answer. Where this driver lacks something, no other row of its kernel is; where it is not valid
 * for these sizes, others may be, of other tiles. */
static void leave_out(fat_choosing *c, const fat_candidate *row, const fat_error *why)
{
  const bool unfit = why->status == FAT_E_UNSUPPORTED;
  if (why->status == FAT_E_NOT_FOUND && row->origin == FAT_MEASURED && !c->unbuilt[0])
    snprintf(c->unbuilt, sizeof c->unbuilt, "%s for %s", row->config, row->problem);
  c->alone = c->alone || (row->lent && !unfit);
  fat_text_format(c->why, "left out: %s of %s: %s\n", row->config, row->problem, why->text);
  if (unfit)
    c->unable = *why;
  if (unfit && !c->loader.invalid && c->unfit_count < FAT_CHOOSING_UNFIT)
    memcpy(c->unfit[c->unfit_count++], row->kernel, FAT_CONFIG_KERNEL);
  else
    memcpy(c->refused[c->refused_count++], row->source_hash, FAT_HASH_SIZE);
}

fat_pick_question fat_take_question(const fat_choosing *c)
{
  const char *driver = fat_driver_text(handle_of(c)->driver); /* "": the system does not tell */
  return (fat_pick_question){.problem = c->ask.problem,
                             .gpu = &c->out->gpu,
                             .kernel = c->ask.kernel,
                             .exact = c->ask.policy == FATUNE_FAIL,
                             .near = c->loader.may_compile && !c->far_too,
                             .alone = c->alone || !c->loader.may_rebuild,
                             .driver = *driver ? driver : NULL,
                             .now = (int64_t)time(NULL),
                             .refused = c->refused,
                             .refused_count = c->refused_count,
                             .unfit = c->unfit,
                             .unfit_count = c->unfit_count,
                             .hidden = c->hidden};
}

fat_status fat_take_stored(fat_choosing *c, fat_pick *pick, bool *found, fat_error *err)
{
  *found = false;
  while (c->refused_count < FAT_CHOOSING_REFUSED) {
    fat_error why = {0};
    const fat_pick_question q = fat_take_question(c);
    fat_status status = fat_pick_answer(c->loader.db, &q, &c->rows, pick, &why);
    if (status == FAT_OK && !is_allowed(c, pick->step))
      break;
    const fat_candidate *row = status == FAT_OK ? &pick->row[pick->step] : NULL;
    c->loader.put_off = false;
    if (row)
      status = take_row(c, row, &why);
    if (status == FAT_OK || c->loader.put_off) {
      settle(c, pick->step, row);
      *found = status == FAT_OK;
      break;
    }
    if (fat_cuda_error_is_fatal(status))
      return fat_status_fail(err, status, "%s", why.text);
    if (status == FAT_E_BUSY || !row) { /* the database itself */
      fat_choosing_leave_db(c, why.text);
      continue;
    }
    c->hidden = c->hidden || pick->step == FAT_PICK_EXACT;
    leave_out(c, row, &why);
  }
  tell(c, pick);
  return FAT_OK;
}

/* Whether a shape is so unlike the asked one, in its rows of Q, of one head or of all, or in sharing heads,
 * that its default may be another. To ask costs 10 ms: too much for each of many lengths. */
static bool is_apart(const fat_choosing *c, const char *problem)
{
  const fat_problem *p = c->ask.problem;
  fat_problem of;
  if (fat_problem_parse(problem, &of, NULL) != FAT_OK)
    return true;
  double rows = fat_candidate_rows(p), rows_of = fat_candidate_rows(&of);
  return p->q > 4 * of.q || of.q > 4 * p->q || rows > 2 * rows_of || rows_of > 2 * rows ||
         (p->h > p->hk) != (of.h > of.hk);
}

/* The config that would be compiled for this very shape; "" where nothing can be: then any default will do.
 */
static void name_default(fat_choosing *c, char config[FAT_CONFIG_TEXT])
{
  fatune_jit_request r = {.kernel = c->ask.kernel};
  fat_loaded named = {0};
  fat_error why = {0};
  const bool look = c->loader.look;
  *config = 0;
  if (!c->loader.may_compile)
    return;
  c->loader.look = true;
  if (fat_load_compiled(&c->loader, &r, &named, &why) == FAT_OK)
    snprintf(config, FAT_CONFIG_TEXT, "%s", named.config);
  c->loader.look = look;
}

fat_status fat_take_kept(fat_choosing *c, bool *found, fat_error *err)
{
  char config[FAT_CONFIG_TEXT];
  bool asked = false;
  if (!c->loader.db || c->ask.policy == FATUNE_FAIL)
    return FAT_OK;
  fat_status status = FAT_E_NOT_FOUND;
  fat_kept *kept = calloc(1, sizeof *kept);
  bool maps = fat_driver_maps(handle_of(c)->driver);
  if (!kept || fat_kept_defaults(c->loader.db, c->ask.problem, &c->out->gpu, c->ask.kernel, maps, kept,
                                 NULL) == FAT_E_NOMEM) {
    free(kept);
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for rows");
  }
  for (int i = 0; i < kept->count && status != FAT_OK && !fat_cuda_error_is_fatal(status); i++) {
    const bool apart = is_apart(c, kept->row[i].problem);
    if (apart && !asked) {
      name_default(c, config);
      asked = true;
    }
    if (apart && *config && strcmp(kept->row[i].config, config) != 0)
      continue;
    const fat_code_filter filter = {.problem = c->ask.problem,
                                    .sm = c->out->gpu.sm,
                                    .config = kept->row[i].config,
                                    .source_hash = kept->row[i].source_hash};
    status = fat_load_stored(&c->loader, &filter, &c->out->main, err);
    *found = status == FAT_OK;
    if (!*found)
      continue;
    memcpy(c->loader.of, kept->row[i].problem, sizeof c->loader.of);
    fat_text_format(c->why, "default: %s, compiled for %s before\n", kept->row[i].config, c->loader.of);
  }
  c->out->step = *found ? FAT_PICK_DEFAULT : c->out->step;
  free(kept);
  return fat_cuda_error_is_fatal(status) ? status : FAT_OK;
}

/* Why a policy under which nothing is compiled has no answer, and what helps. */
static fat_status refuse(const fat_choosing *c, const fat_pick *pick, const char *problem, fat_error *err)
{
  const bool only_exact = c->ask.policy == FATUNE_FAIL;
  const char *device = c->out->gpu.name, *take_out = "take FATUNE_DISABLE_JIT=1 out of the environment";
  if (c->unbuilt[0])
    return fat_status_fail(
        err, FAT_E_NOT_FOUND,
        "%s on %s: measured, but stored without a binary: %s; %s%s%s, or take a package that "
        "brings binaries",
        problem, device, c->unbuilt, c->jit_off ? take_out : "", c->jit_off && only_exact ? " and " : "",
        only_exact ? "let FATUNE_FALLBACK compile it once" : "");
  return fat_status_fail(err, FAT_E_NOT_FOUND, "%s on %s: %s%s; tune it with the program fatune, or %s",
                         problem, device,
                         only_exact && pick->step < FAT_PICK_DEFAULT ? "not measured itself, only: "
                                                                     : "nothing stored serves it: ",
                         pick->step < FAT_PICK_DEFAULT ? pick->why[pick->step] : pick->why[FAT_PICK_NEAREST],
                         only_exact   ? "let FATUNE_FALLBACK take what is near"
                         : c->jit_off ? take_out
                                      : "let FATUNE_COMPILE compile the default");
}

/* What the policy says where nothing stored may be taken. */
static fat_status take_default(fat_choosing *c, const fat_pick *pick, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fat_error why = {0};
  fat_problem_print(c->ask.problem, problem);
  if (!c->loader.may_compile && c->unable.status != FAT_OK)
    return fat_status_fail(err, c->unable.status, "%s on %s: %s", problem, c->out->gpu.name, c->unable.text);
  if (!c->loader.may_compile)
    return refuse(c, pick, problem, err);
  fat_problem plain;
  fat_candidate rather = {0};
  const fat_pick_question q = fat_take_question(c);
  fat_pick_plain(c->loader.db, &q, &c->plain_rows, &plain, &rather, &why); /* none where it fails, too */
  fatune_jit_request r = {.kernel = c->ask.kernel, .rather = rather.found ? rather.config : NULL};
  fat_status status = fat_load_compiled(&c->loader, &r, &c->out->main, &why);
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s on %s: %s", problem, c->out->gpu.name, why.text);
  const bool won = rather.found && strcmp(c->out->main.config, rather.config) == 0;
  c->out->step = FAT_PICK_DEFAULT;
  fat_text_format(c->why, "default: %s, %s%s%scompiled because %s\n", c->out->main.config,
                  won ? "which won for " : "", won ? fat_problem_print(&plain, problem) : "", won ? ", " : "",
                  pick->far ? "what is stored lies too far off" : "nothing stored serves it");
  return FAT_OK;
}

fat_status fat_take_default(fat_choosing *c, const fat_pick *pick, fat_error *err)
{
  const fat_pick_twin *twin = &pick->twin;
  fat_error why = {0}, unread = {0};
  fat_status status = take_default(c, pick, &why);
  if (status == FAT_OK)
    return FAT_OK;
  if (!fat_cuda_error_is_fatal(status) && twin->row.found && is_allowed(c, twin->step)) {
    fat_status other = take_row(c, &twin->row, &unread);
    if (other == FAT_OK) {
      settle(c, twin->step, &twin->row);
      fat_text_format(c->why, "default: %s\n%s: %s for %s, which takes any tensors, slowly\n", why.text,
                      fat_pick_step_name(twin->step), twin->row.config, twin->row.problem);
      return FAT_OK;
    }
    if (fat_cuda_error_is_fatal(other))
      return fat_status_fail(err, other, "%s", unread.text);
  }
  return fat_status_fail(err, status, "%s", why.text);
}

/* The main config with W = 1, else another twin that is stored. */
static fat_status take_stored_twin(fat_choosing *c, const fat_config *config, fat_error *err)
{
  fat_choice *out = c->out;
  char text[FAT_CONFIG_TEXT], problem[FAT_PROBLEM_TEXT];
  fat_config same = *config;
  fat_width_narrow(&same);
  fat_code_filter filter = {
      .problem = c->ask.problem, .sm = out->gpu.sm, .config = fat_config_print(&same, text)};
  if (!c->loader.db)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "there is no database");
  fat_status status = fat_width_get(config) > 0
                          ? fat_load_stored(&c->loader, &filter, &out->twin, err)
                          : fat_status_fail(err, FAT_E_NOT_FOUND, "kernel %s has none", config->kernel);
  if (status == FAT_OK || fat_cuda_error_is_fatal(status))
    return status;
  fat_kept *kept = malloc(sizeof *kept);
  if (!kept)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for twins");
  const char *of = c->loader.of[0] ? c->loader.of : fat_problem_print(c->ask.problem, problem);
  fat_status read = fat_kept_twins(c->loader.db, of, out->gpu.sm, config, kept, NULL);
  if (read == FAT_E_NOMEM)
    status = fat_status_fail(err, read, "out of memory for twins");
  for (int i = 0; i < kept->count && status != FAT_OK && !fat_cuda_error_is_fatal(status); i++) {
    fat_problem of_row;
    fat_error why = {0};
    if (fat_problem_parse(kept->row[i].problem, &of_row, NULL) != FAT_OK)
      continue;
    filter.problem = &of_row;
    filter.config = kept->row[i].config;
    filter.source_hash = kept->row[i].source_hash;
    status = load_row(c, &filter, &out->twin, &why);
    if (fat_cuda_error_is_fatal(status))
      fat_status_fail(err, status, "%s", why.text);
  }
  free(kept);
  return status;
}

fat_status fat_take_twin(fat_choosing *c, fat_error *err)
{
  fat_choice *out = c->out;
  fat_config config;
  fat_error why = {0};
  if (c->ask.aligned || c->ask.look)
    return FAT_OK;
  if (fat_config_parse(out->main.config, &config, NULL) != FAT_OK || fat_width_get(&config) == 1)
    return FAT_OK; /* the kernel itself takes any tensors */
  fat_status status = take_stored_twin(c, &config, &why);
  if (status != FAT_OK && !fat_cuda_error_is_fatal(status) && c->loader.may_compile) {
    fatune_jit_request r = {.config = out->main.config, .narrow = 1};
    status = fat_load_compiled(&c->loader, &r, &out->twin, &why);
  }
  out->has_twin = status == FAT_OK;
  if (fat_cuda_error_is_fatal(status))
    return fat_status_fail(err, status, "%s", why.text);
  if (status != FAT_OK)
    fat_text_format(c->why, "twin: none for tensors that are not %u-byte aligned: %s\n", out->main.alignment,
                    why.text);
  return FAT_OK;
}
