/* choose.c -- the choice of a plan: asks the pick, loads what it names, asks again where that does not load.
 *
 * In: a problem, a device, a policy. Out: a loaded kernel and its twin, and lines that say why this one. A
 * stored row that cannot serve (no cubin, a damaged one, one for another driver) is left out and the next one
 * taken; so is a database that cannot be read. Only want of memory and a failing GPU are errors. */
#include "choose.h"
#include "cuda_error.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REFUSED = 16 /* rows that are tried before giving up on what is stored */, UNFIT = 4 };

typedef struct choosing {
  const fat_ask *ask;
  fat_choice *out;
  fat_loader loader;
  char refused[REFUSED][FAT_HASH_SIZE];
  int refused_count;
  char unfit[UNFIT][FAT_CONFIG_KERNEL]; /* kernels that need what this driver lacks */
  int unfit_count;
  fat_error unable; /* FAT_E_UNSUPPORTED: what it lacks for one of them */
} choosing;

static fatune *handle_of(const choosing *c)
{
  return c->ask->handle;
}

/* -- the database */

static fat_status open_db(choosing *c, fat_error *err)
{
  const fatune *h = handle_of(c);
  fat_error why = {0};
  if (!h->database && !h->system) {
    fat_text_format(&c->out->why, "database: %s\n", h->note[0] ? h->note : "none");
    return FAT_OK;
  }
  fat_status status = fat_db_open(h->database, h->system, FAT_DB_READ, &c->loader.db, &why);
  if (status != FAT_OK && status != FAT_E_NOMEM) {
    fat_text_format(&c->out->why, "database: %s\n", why.text);
    if (h->database && h->system && status != FAT_E_NOT_FOUND)
      status = fat_db_open(NULL, h->system, FAT_DB_READ, &c->loader.db, &why);
  }
  return status == FAT_E_NOMEM ? fat_status_fail(err, status, "%s", why.text) : FAT_OK;
}

/* Says what the database has to tell, and goes on without it. */
static void leave_db(choosing *c, const char *reason)
{
  if (c->loader.db && fat_db_note(c->loader.db)[0])
    fat_text_format(&c->out->why, "database: %s\n", fat_db_note(c->loader.db));
  if (*reason)
    fat_text_format(&c->out->why, "database: %s\n", reason);
  fat_db_close(c->loader.db);
  c->loader.db = NULL;
}

/* -- the steps */

static fat_status take_row(choosing *c, const fat_candidate *row, fat_error *err)
{
  fat_problem stored;
  FAT_TRY(fat_problem_parse(row->problem, &stored, err));
  fat_code_filter filter = {.problem = &stored,
                            .sm = c->out->gpu.sm,
                            .facts = row->facts,
                            .config = row->config,
                            .source_hash = row->source_hash};
  fat_status status = fat_load_stored(&c->loader, &filter, &c->out->main, err);
  if (status != FAT_E_NOT_FOUND)
    return status;
  /* A package's row may have been measured with other templates than those its code is of. */
  filter.source_hash = NULL;
  FAT_TRY(fat_load_stored(&c->loader, &filter, &c->out->main, err));
  fat_text_add(&c->out->why, "source: the row was measured with other templates\n");
  return FAT_OK;
}

static bool is_allowed(const choosing *c, fat_pick_step step)
{
  return step == FAT_PICK_EXACT || (step < FAT_PICK_DEFAULT && c->ask->policy != FATUNE_FAIL);
}

static void tell(choosing *c, const fat_pick *pick)
{
  for (int i = 0; i <= (int)pick->step && i < FAT_PICK_DEFAULT; i++)
    fat_text_format(&c->out->why, "%s: %s\n", fat_pick_step_name((fat_pick_step)i), pick->why[i]);
}

static void settle(choosing *c, fat_pick_step step, const fat_candidate *row)
{
  c->out->step = step;
  c->out->row = *row;
  memcpy(c->loader.of, row->problem, sizeof c->loader.of);
}

/* It is no answer, and where this driver lacks something, no other row of its kernel is. */
static void leave_out(choosing *c, const fat_candidate *row, const fat_error *why)
{
  fat_text_format(&c->out->why, "left out: %s of %s: %s\n", row->config, row->problem, why->text);
  if (why->status == FAT_E_UNSUPPORTED)
    c->unable = *why;
  if (why->status == FAT_E_UNSUPPORTED && c->unfit_count < UNFIT)
    memcpy(c->unfit[c->unfit_count++], row->kernel, FAT_CONFIG_KERNEL);
  else
    memcpy(c->refused[c->refused_count++], row->source_hash, FAT_HASH_SIZE);
}

/* Takes the first stored row that loads. *found false: there is none that may be taken. */
static fat_status take_stored(choosing *c, fat_pick *pick, bool *found, fat_error *err)
{
  const char *driver = fat_driver_text(handle_of(c)->driver); /* "": the system does not tell */
  fat_pick_question q = {.problem = c->ask->problem,
                         .gpu = &c->out->gpu,
                         .kernel = c->ask->kernel,
                         .exact = c->ask->policy == FATUNE_FAIL,
                         .driver = *driver ? driver : NULL,
                         .now = (int64_t)time(NULL),
                         .refused = c->refused,
                         .unfit = c->unfit};
  *found = false;
  while (c->refused_count < REFUSED) {
    fat_error why = {0};
    q.refused_count = c->refused_count;
    q.unfit_count = c->unfit_count;
    fat_status status = fat_pick_answer(c->loader.db, &q, pick, &why);
    if (status == FAT_OK && !is_allowed(c, pick->step))
      break;
    const fat_candidate *row = status == FAT_OK ? &pick->row[pick->step] : NULL;
    if (row)
      status = take_row(c, row, &why);
    if (status == FAT_OK) {
      settle(c, pick->step, row);
      *found = true;
      break;
    }
    if (fat_cuda_error_is_fatal(status))
      return fat_status_fail(err, status, "%s", why.text);
    if (status == FAT_E_BUSY || !row) { /* the database itself */
      leave_db(c, why.text);
      continue;
    }
    leave_out(c, row, &why);
  }
  tell(c, pick);
  return FAT_OK;
}

/* Whether a shape is so unlike the asked one, in its rows of Q, of one head or of all, or in sharing heads,
 * that its default may be another. To ask costs 10 ms: too much for each of many lengths. */
static bool is_apart(const choosing *c, const char *problem)
{
  const fat_problem *p = c->ask->problem;
  fat_problem of;
  if (fat_problem_parse(problem, &of, NULL) != FAT_OK)
    return true;
  double rows = fat_candidate_rows(p), rows_of = fat_candidate_rows(&of);
  return p->q > 4 * of.q || of.q > 4 * p->q || rows > 2 * rows_of || rows_of > 2 * rows ||
         (p->h > p->hk) != (of.h > of.hk);
}

/* The config that would be compiled for this very shape; "" where nothing can be: then any default will do.
 */
static void name_default(choosing *c, char config[FAT_CONFIG_TEXT])
{
  fatune_jit_request r = {.kernel = c->ask->kernel};
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

/* A default that was compiled on demand before: for this shape, or for another that has the same default. */
static fat_status take_kept(choosing *c, bool *found, fat_error *err)
{
  char config[FAT_CONFIG_TEXT];
  bool asked = false;
  if (!c->loader.db || c->ask->policy == FATUNE_FAIL)
    return FAT_OK;
  fat_status status = FAT_E_NOT_FOUND;
  fat_kept *kept = calloc(1, sizeof *kept);
  bool maps = fat_driver_maps(handle_of(c)->driver);
  if (!kept || fat_kept_defaults(c->loader.db, c->ask->problem, &c->out->gpu, c->ask->kernel, maps, kept,
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
    const fat_code_filter filter = {.problem = c->ask->problem,
                                    .sm = c->out->gpu.sm,
                                    .config = kept->row[i].config,
                                    .source_hash = kept->row[i].source_hash};
    status = fat_load_stored(&c->loader, &filter, &c->out->main, err);
    *found = status == FAT_OK;
    if (!*found)
      continue;
    memcpy(c->loader.of, kept->row[i].problem, sizeof c->loader.of);
    fat_text_format(&c->out->why, "default: %s, compiled for %s before\n", kept->row[i].config, c->loader.of);
  }
  c->out->step = *found ? FAT_PICK_DEFAULT : c->out->step;
  free(kept);
  return fat_cuda_error_is_fatal(status) ? status : FAT_OK;
}

/* What the policy says where nothing stored may be taken. */
static fat_status take_default(choosing *c, const fat_pick *pick, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fat_error why = {0};
  fat_problem_print(c->ask->problem, problem);
  if (!c->loader.may_compile && c->unable.status != FAT_OK)
    return fat_status_fail(err, c->unable.status, "%s on %s: %s", problem, c->out->gpu.name, c->unable.text);
  if (!c->loader.may_compile)
    return fat_status_fail(
        err, FAT_E_NOT_FOUND, "%s on %s: %s%s; tune it with the program fatune, or let %s", problem,
        c->out->gpu.name,
        c->ask->policy == FATUNE_FAIL && pick->step < FAT_PICK_DEFAULT ? "not measured itself, only: "
                                                                       : "nothing stored serves it: ",
        pick->step < FAT_PICK_DEFAULT ? pick->why[pick->step] : pick->why[FAT_PICK_NEAREST],
        c->ask->policy == FATUNE_FAIL ? "FATUNE_FALLBACK take what is near"
                                      : "FATUNE_COMPILE compile the default");
  fatune_jit_request r = {.kernel = c->ask->kernel};
  fat_status status = fat_load_compiled(&c->loader, &r, &c->out->main, &why);
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s on %s: %s", problem, c->out->gpu.name, why.text);
  c->out->step = FAT_PICK_DEFAULT;
  fat_text_format(&c->out->why, "default: %s, compiled because nothing stored serves it\n",
                  c->out->main.config);
  return FAT_OK;
}

/* Where there is no default either: the kernel's row for tensors that are not aligned. */
static fat_status take_default_or_twin(choosing *c, const fat_pick *pick, fat_error *err)
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
      fat_text_format(&c->out->why, "default: %s\n%s: %s for %s, which takes any tensors, slowly\n", why.text,
                      fat_pick_step_name(twin->step), twin->row.config, twin->row.problem);
      return FAT_OK;
    }
    if (fat_cuda_error_is_fatal(other))
      return fat_status_fail(err, other, "%s", unread.text);
  }
  return fat_status_fail(err, status, "%s", why.text);
}

/* The main config with W = 1, else another twin that is stored. */
static fat_status take_stored_twin(choosing *c, const fat_config *config, fat_error *err)
{
  fat_choice *out = c->out;
  char text[FAT_CONFIG_TEXT], problem[FAT_PROBLEM_TEXT];
  fat_config same = *config;
  fat_width_narrow(&same);
  fat_code_filter filter = {
      .problem = c->ask->problem, .sm = out->gpu.sm, .config = fat_config_print(&same, text)};
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
  const char *of = c->loader.of[0] ? c->loader.of : fat_problem_print(c->ask->problem, problem);
  fat_status read = fat_kept_twins(c->loader.db, of, out->gpu.sm, config, kept, NULL);
  if (read == FAT_E_NOMEM)
    status = fat_status_fail(err, read, "out of memory for twins");
  for (int i = 0; i < kept->count && status != FAT_OK && !fat_cuda_error_is_fatal(status); i++) {
    fat_error why = {0};
    filter.config = kept->row[i].config;
    filter.source_hash = kept->row[i].source_hash;
    status = fat_load_stored(&c->loader, &filter, &out->twin, &why);
    if (fat_cuda_error_is_fatal(status))
      fat_status_fail(err, status, "%s", why.text);
  }
  free(kept);
  return status;
}

/* What takes tensors that are not aligned. That there is none is no error. */
static fat_status take_twin(choosing *c, fat_error *err)
{
  fat_choice *out = c->out;
  fat_config config;
  fat_error why = {0};
  if (c->ask->aligned || c->ask->look)
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
    fat_text_format(&out->why, "twin: none for tensors that are not %u-byte aligned: %s\n",
                    out->main.alignment, why.text);
  return FAT_OK;
}

fat_status fat_choose(const fat_ask *ask, fat_choice *choice, fat_error *err)
{
  const char *off = getenv("FATUNE_DISABLE_JIT");
  const fat_gpu *row = fat_gpu_match(ask->device);
  bool found = false;
  memset(choice, 0, sizeof *choice);
  choice->gpu = row ? *row : *ask->device;
  choosing c = {.ask = ask,
                .out = choice,
                .loader = {.handle = ask->handle,
                           .problem = ask->problem,
                           .gpu = &choice->gpu,
                           .sms = ask->device->sms,
                           .may_compile = ask->policy == FATUNE_COMPILE && !(off && strcmp(off, "1") == 0),
                           .look = ask->look,
                           .why = &choice->why}};
  fat_pick *pick = calloc(1, sizeof *pick);
  if (!pick)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a pick");
  fat_status status = open_db(&c, err);
  if (status == FAT_OK)
    status = take_stored(&c, pick, &found, err);
  if (status == FAT_OK && !found && pick->step == FAT_PICK_DEFAULT)
    status = take_kept(&c, &found, err);
  if (status == FAT_OK && !found)
    status = take_default_or_twin(&c, pick, err);
  if (status == FAT_OK)
    status = take_twin(&c, err);
  leave_db(&c, "");
  fat_load_keep(&c.loader);
  if (status == FAT_OK)
    status = fat_text_status(&choice->why, err);
  free(pick);
  return status;
}

void fat_choice_free(fat_choice *choice)
{
  fat_text_free(&choice->why);
}
