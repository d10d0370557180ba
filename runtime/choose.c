/* choose.c -- the choice of a plan: asks the pick, loads what it names, asks again where that does not load.
 *
 * In: a problem, a device, a policy. Out: a loaded kernel and its twin, and lines that say why this one. A
 * stored row that cannot serve (no cubin, a damaged one, one for another driver) is left out and the next one
 * taken; so is a database that cannot be read. Only want of memory and a failing GPU are errors. */
#include "choose.h"
#include "cuda_error.h"
#include "kept.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REFUSED = 16 /* rows that are tried before giving up on what is stored */ };

typedef struct choosing {
  const fat_ask *ask;
  fat_choice *out;
  fat_db *db; /* NULL: none */
  char refused[REFUSED][FAT_HASH_SIZE];
  int refused_count;
  fat_error unable; /* FAT_E_UNSUPPORTED: what this machine lacks for one of them */
  bool may_compile;
  char of[FAT_PROBLEM_TEXT]; /* the problem whose row was taken; "": none was */
  fat_made made[2];          /* the main kernel and the twin, where they were compiled */
  int made_count;
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
  fat_status status = fat_db_open(h->database, h->system, FAT_DB_READ, &c->db, &why);
  if (status != FAT_OK && status != FAT_E_NOMEM) {
    fat_text_format(&c->out->why, "database: %s\n", why.text);
    if (h->database && h->system && status != FAT_E_NOT_FOUND)
      status = fat_db_open(NULL, h->system, FAT_DB_READ, &c->db, &why);
  }
  return status == FAT_E_NOMEM ? fat_status_fail(err, status, "%s", why.text) : FAT_OK;
}

/* Says what the database has to tell, and goes on without it. */
static void leave_db(choosing *c, const char *reason)
{
  if (c->db && fat_db_note(c->db)[0])
    fat_text_format(&c->out->why, "database: %s\n", fat_db_note(c->db));
  if (*reason)
    fat_text_format(&c->out->why, "database: %s\n", reason);
  fat_db_close(c->db);
  c->db = NULL;
}

/* -- loading */

static fat_status load(const choosing *c, const char *recipe_text, const void *cubin, size_t size,
                       const char *hash, fat_launch *launch, fat_error *err)
{
  fat_module *module;
  fat_recipe *recipe = malloc(sizeof *recipe);
  if (!recipe)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a recipe");
  fat_status status = fat_recipe_parse(recipe_text, recipe, err);
  if (status == FAT_OK)
    status = fat_modules_get(&handle_of(c)->modules, handle_of(c)->driver, cubin, size, hash, &module, err);
  if (status == FAT_OK)
    status = fat_launch_prepare(recipe, c->ask->problem, c->ask->device->sms, module, launch, err);
  free(recipe);
  return status;
}

static void name(fat_loaded *to, const fat_problem *p, const char *config, const char *from)
{
  fat_config parsed;
  snprintf(to->config, sizeof to->config, "%s", config);
  snprintf(to->from, sizeof to->from, "%s", from);
  to->alignment = FAT_LAUNCH_ALIGN;
  if (fat_config_parse(config, &parsed, NULL) == FAT_OK)
    to->alignment = fat_width_alignment(&parsed, fat_dtypes[p->dtype].bytes);
}

/* Takes over an answer, and the content it was rebuilt from, to be stored when all is loaded. */
static void hold_made(choosing *c, const fatune_jit_request *r, fat_code *rebuilt, const char *config,
                      fatune_jit_answer *answer)
{
  fat_made *made = &c->made[c->made_count++];
  *made = (fat_made){.problem = *c->ask->problem, .usual = !r->config, .answer = *answer};
  *answer = (fatune_jit_answer){0};
  snprintf(made->config, sizeof made->config, "%s", config);
  if (r->narrow)
    snprintf(made->twin_of, sizeof made->twin_of, "%s", r->config);
  if (r->narrow && c->of[0]) /* where twins are looked for */
    fat_problem_parse(c->of, &made->problem, NULL);
  if (rebuilt) {
    memcpy(made->answer.source_hash, rebuilt->source_hash, sizeof made->answer.source_hash);
    made->answer.source = rebuilt->source;
    made->answer.recipe = rebuilt->recipe;
    rebuilt->source = rebuilt->recipe = NULL;
  }
}

/* Asks libfatune-jit and loads its answer. `rebuilt`: a stored source with its recipe, or NULL. */
static fat_status compile(choosing *c, fatune_jit_request *r, fat_code *rebuilt, fat_loaded *to,
                          fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fatune_jit_answer answer;
  fat_jit *jit = &handle_of(c)->jit;
  r->task = c->ask->look ? FATUNE_JIT_NAME : rebuilt ? FATUNE_JIT_REBUILD : FATUNE_JIT_MAKE;
  r->problem = fat_problem_print(c->ask->problem, problem);
  r->gpu = &c->out->gpu;
  r->cuda = fat_driver_cuda(handle_of(c)->driver);
  r->source = rebuilt ? rebuilt->source : NULL;
  fat_status status = fat_jit_ask(jit, r, &answer, err);
  if (status == FAT_OK && !c->ask->look)
    status = load(c, rebuilt ? rebuilt->recipe : answer.recipe, answer.cubin, answer.cubin_size,
                  answer.cubin_hash, &to->launch, err);
  if (status == FAT_OK)
    name(to, c->ask->problem, rebuilt ? r->config : answer.config,
         rebuilt ? "rebuilt from its source" : "compiled now");
  if (status == FAT_OK && !c->ask->look)
    hold_made(c, r, rebuilt, to->config, &answer);
  fat_jit_free(jit, &answer);
  return status;
}

/* The stored code of a config: loaded as it is, or rebuilt where that is allowed. */
static fat_status load_stored(choosing *c, const fat_code_filter *filter, fat_loaded *to, fat_error *err)
{
  fat_code code;
  FAT_TRY(fat_db_code(c->db, filter, &code, err));
  fat_status status = FAT_E_NOT_FOUND;
  if (code.cubin && code.recipe)
    status = c->ask->look
                 ? FAT_OK
                 : load(c, code.recipe, code.cubin, code.cubin_size, code.cubin_hash, &to->launch, err);
  else
    fat_status_fail(err, status, "its cubin is not stored, or damaged");
  if (status == FAT_OK)
    name(to, c->ask->problem, filter->config, "stored");
  else if (!fat_cuda_error_is_fatal(status) && c->may_compile && code.source && code.recipe) {
    fatune_jit_request r = {.config = filter->config};
    fat_text_format(&c->out->why, "rebuild: %s: %s\n", filter->config, err->text);
    status = compile(c, &r, &code, to, err);
    if (status == FAT_OK && !c->ask->look) /* where it belongs */
      c->made[c->made_count - 1].problem = *filter->problem;
  }
  fat_db_code_free(&code);
  return status;
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
  fat_status status = load_stored(c, &filter, &c->out->main, err);
  if (status != FAT_E_NOT_FOUND)
    return status;
  /* A package's row may have been measured with other templates than those its code is of. */
  filter.source_hash = NULL;
  FAT_TRY(load_stored(c, &filter, &c->out->main, err));
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
                         .refused = c->refused};
  *found = false;
  while (c->refused_count < REFUSED) {
    fat_error why = {0};
    q.refused_count = c->refused_count;
    fat_status status = fat_pick_answer(c->db, &q, pick, &why);
    if (status == FAT_OK && !is_allowed(c, pick->step))
      break;
    const fat_candidate *row = status == FAT_OK ? &pick->row[pick->step] : NULL;
    if (row)
      status = take_row(c, row, &why);
    if (status == FAT_OK) {
      c->out->step = pick->step;
      c->out->row = *row;
      memcpy(c->of, row->problem, sizeof c->of);
      *found = true;
      break;
    }
    if (fat_cuda_error_is_fatal(status))
      return fat_status_fail(err, status, "%s", why.text);
    if (status == FAT_E_BUSY || !row) { /* the database itself */
      leave_db(c, why.text);
      continue;
    }
    fat_text_format(&c->out->why, "left out: %s of %s: %s\n", row->config, row->problem, why.text);
    c->unable = status == FAT_E_UNSUPPORTED ? why : c->unable;
    memcpy(c->refused[c->refused_count++], row->source_hash, FAT_HASH_SIZE);
  }
  tell(c, pick);
  return FAT_OK;
}

/* A default that was compiled on demand before. */
static fat_status take_kept(choosing *c, bool *found, fat_error *err)
{
  if (!c->db || c->ask->policy == FATUNE_FAIL)
    return FAT_OK;
  fat_status status = FAT_E_NOT_FOUND;
  fat_kept *kept = calloc(1, sizeof *kept);
  if (!kept ||
      fat_kept_defaults(c->db, c->ask->problem, &c->out->gpu, c->ask->kernel, kept, NULL) == FAT_E_NOMEM) {
    free(kept);
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for rows");
  }
  for (int i = 0; i < kept->count && status != FAT_OK && !fat_cuda_error_is_fatal(status); i++) {
    const fat_code_filter filter = {.problem = c->ask->problem,
                                    .sm = c->out->gpu.sm,
                                    .config = kept->row[i].config,
                                    .source_hash = kept->row[i].source_hash};
    status = load_stored(c, &filter, &c->out->main, err);
    *found = status == FAT_OK;
    if (!*found)
      continue;
    memcpy(c->of, kept->row[i].problem, sizeof c->of);
    fat_text_format(&c->out->why, "default: %s, compiled for %s before\n", kept->row[i].config, c->of);
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
  if (!c->may_compile && c->unable.status != FAT_OK)
    return fat_status_fail(err, c->unable.status, "%s on %s: %s", problem, c->out->gpu.name, c->unable.text);
  if (!c->may_compile)
    return fat_status_fail(
        err, FAT_E_NOT_FOUND, "%s on %s: %s%s; tune it with the program fatune, or let %s", problem,
        c->out->gpu.name,
        c->ask->policy == FATUNE_FAIL && pick->step < FAT_PICK_DEFAULT ? "not measured itself, only: "
                                                                       : "nothing stored serves it: ",
        pick->step < FAT_PICK_DEFAULT ? pick->why[pick->step] : pick->why[FAT_PICK_NEAREST],
        c->ask->policy == FATUNE_FAIL ? "FATUNE_FALLBACK take what is near"
                                      : "FATUNE_COMPILE compile the default");
  fatune_jit_request r = {.kernel = c->ask->kernel};
  fat_status status = compile(c, &r, NULL, &c->out->main, &why);
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s on %s: %s", problem, c->out->gpu.name, why.text);
  c->out->step = FAT_PICK_DEFAULT;
  fat_text_format(&c->out->why, "default: %s, compiled because nothing stored serves it\n",
                  c->out->main.config);
  return FAT_OK;
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
  if (!c->db)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "there is no database");
  fat_status status = fat_width_get(config) > 0
                          ? load_stored(c, &filter, &out->twin, err)
                          : fat_status_fail(err, FAT_E_NOT_FOUND, "kernel %s has none", config->kernel);
  if (status == FAT_OK || fat_cuda_error_is_fatal(status))
    return status;
  fat_kept *kept = malloc(sizeof *kept);
  if (!kept)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for twins");
  const char *of = c->of[0] ? c->of : fat_problem_print(c->ask->problem, problem);
  fat_status read = fat_kept_twins(c->db, of, out->gpu.sm, config, kept, NULL);
  if (read == FAT_E_NOMEM)
    status = fat_status_fail(err, read, "out of memory for twins");
  for (int i = 0; i < kept->count && status != FAT_OK && !fat_cuda_error_is_fatal(status); i++) {
    fat_error why = {0};
    filter.config = kept->row[i].config;
    filter.source_hash = kept->row[i].source_hash;
    status = load_stored(c, &filter, &out->twin, &why);
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
  if (status != FAT_OK && !fat_cuda_error_is_fatal(status) && c->may_compile) {
    fatune_jit_request r = {.config = out->main.config, .narrow = 1};
    status = compile(c, &r, NULL, &out->twin, &why);
  }
  out->has_twin = status == FAT_OK;
  if (fat_cuda_error_is_fatal(status))
    return fat_status_fail(err, status, "%s", why.text);
  if (status != FAT_OK)
    fat_text_format(&out->why, "twin: none for tensors that are not %u-byte aligned: %s\n",
                    out->main.alignment, why.text);
  return FAT_OK;
}

/* So that the next process needs no compiler. What stands in the way is said and is no error. */
static void store_made(choosing *c)
{
  const fatune *h = handle_of(c);
  for (int i = 0; i < c->made_count; i++) {
    fat_made *made = &c->made[i];
    fat_error why = {0};
    if (h->database && fat_kept_put(h->database, &c->out->gpu, made, &why) != FAT_OK)
      fat_text_format(&c->out->why, "kept: %s is not stored: %s\n", made->config, why.text);
    fat_jit_free(&handle_of(c)->jit, &made->answer);
  }
}

fat_status fat_choose(const fat_ask *ask, fat_choice *choice, fat_error *err)
{
  const char *off = getenv("FATUNE_DISABLE_JIT");
  choosing c = {.ask = ask, .out = choice};
  bool found = false;
  memset(choice, 0, sizeof *choice);
  const fat_gpu *row = fat_gpu_match(ask->device);
  choice->gpu = row ? *row : *ask->device;
  c.may_compile = ask->policy == FATUNE_COMPILE && !(off && strcmp(off, "1") == 0);
  fat_pick *pick = calloc(1, sizeof *pick);
  if (!pick)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a pick");
  fat_status status = open_db(&c, err);
  if (status == FAT_OK)
    status = take_stored(&c, pick, &found, err);
  if (status == FAT_OK && !found && pick->step == FAT_PICK_DEFAULT)
    status = take_kept(&c, &found, err);
  if (status == FAT_OK && !found)
    status = take_default(&c, pick, err);
  if (status == FAT_OK)
    status = take_twin(&c, err);
  leave_db(&c, "");
  store_made(&c);
  if (status == FAT_OK)
    status = fat_text_status(&choice->why, err);
  free(pick);
  return status;
}

void fat_choice_free(fat_choice *choice)
{
  fat_text_free(&choice->why);
}
