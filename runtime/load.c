/* load.c -- loads a kernel from the database, else from libfatune-jit, and keeps what was compiled.
 *
 * In: a config, or a request to the compiler. Out: recipe and functions. A cubin that is not there or does
 * not load is made again from its source where that is allowed. */
#include "load.h"
#include "grow.h"
#include "mod.h"
#include "cuda_error.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fat_loaded_free(fat_loaded *loaded)
{
  if (!loaded->shared)
    free(loaded->recipe);
  loaded->recipe = NULL;
}

static fat_status load(const fat_loader *l, const fat_recipe *recipe, const void *cubin, const char *hash,
                       fat_entries *entries, fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(l->problem, l->sms);
  fat_module *module;
  FAT_TRY(fat_modules_get(&l->handle->modules, l->handle->driver, cubin, hash, &module, err));
  return fat_launch_find(recipe, &sizes, module, entries, err);
}

/* Whether this driver and these sizes allow it. */
static fat_status check(fat_loader *l, const fat_recipe *recipe, fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(l->problem, l->sms);
  l->invalid = false;
  FAT_TRY(fat_launch_allows(l->handle->driver, recipe, err));
  fat_status status = fat_recipe_check(recipe, &sizes, err);
  l->invalid = status == FAT_E_UNSUPPORTED;
  return status;
}

static void name(fat_loaded *to, const fat_problem *p, const char *config, const char *source_hash,
                 const char *from)
{
  fat_config parsed;
  snprintf(to->config, sizeof to->config, "%s", config);
  snprintf(to->source_hash, sizeof to->source_hash, "%s", source_hash);
  snprintf(to->from, sizeof to->from, "%s", from);
  to->alignment = FAT_LAUNCH_ALIGN;
  if (fat_config_parse(config, &parsed, NULL) == FAT_OK)
    to->alignment = fat_width_alignment(&parsed, fat_dtypes[p->dtype].bytes);
}

/* Room for one more compiled kernel. */
static fat_status make_room(fat_loader *l, fat_error *err)
{
  fat_made *more = fat_grow(l->made, l->made_count, sizeof *more);
  if (!more)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a compiled kernel");
  l->made = more;
  return FAT_OK;
}

/* Takes over an answer, and the content it was rebuilt from, to be stored when all is loaded. */
static void hold_made(fat_loader *l, const fatune_jit_request *r, fat_code *rebuilt, const char *config,
                      fatune_jit_answer *answer)
{
  fat_made *made = &l->made[l->made_count++];
  *made = (fat_made){.problem = *l->problem,
                     .usual = !r->config,
                     .mapless = r->mapless && !r->kernel && answer->picked == 0,
                     .answer = *answer};
  *answer = (fatune_jit_answer){0};
  snprintf(made->config, sizeof made->config, "%s", config);
  if (r->narrow)
    snprintf(made->twin_of, sizeof made->twin_of, "%s", r->config);
  if (r->narrow && l->of[0]) /* where twins are looked for */
    fat_problem_parse(l->of, &made->problem, NULL);
  if (rebuilt) {
    memcpy(made->answer.source_hash, rebuilt->source_hash, sizeof made->answer.source_hash);
    made->answer.source = rebuilt->source;
    made->answer.recipe = rebuilt->recipe;
    rebuilt->source = rebuilt->recipe = NULL;
  }
}

/* Whether more than what is asked for now may be compiled beside it. */
static bool foresee(fat_loader *l)
{
  if (!l->foresee || l->look || !l->db)
    return false;
  l->foresee(l->foresees, &l->ahead);
  l->foresee = NULL;
  return true;
}

/* Asks libfatune-jit and loads its answer. `rebuilt`: a stored source with its recipe, which to->recipe is
 * read from, or NULL. */
static fat_status compile(fat_loader *l, fatune_jit_request *r, fat_code *rebuilt, fat_loaded *to,
                          fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fatune_jit_answer answer;
  fat_jit *jit = &l->handle->jit;
  l->put_off = l->later;
  if (l->later)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "it is compiled when a call needs it");
  FAT_TRY(make_room(l, err));
  const bool foreseen = foresee(l);
  if (l->db) /* compiling takes seconds, and a tune may want to store */
    fat_db_read_end(l->db);
  r->task = l->look ? FATUNE_JIT_NAME : rebuilt ? FATUNE_JIT_REBUILD : FATUNE_JIT_MAKE;
  const fat_mod *mod = fat_mod_of(l->problem, FAT_MOD), *mask = fat_mod_of(l->problem, FAT_MASK_MOD);
  r->problem = fat_problem_print(l->problem, problem);
  r->mod = mod ? mod->text : NULL;
  r->mask_mod = mask ? mask->text : NULL;
  r->gpu = l->gpu;
  r->cuda = fat_driver_cuda(l->handle->driver);
  r->mapless = !fat_driver_maps(l->handle->driver);
  r->source = rebuilt ? rebuilt->source : NULL;
  if (foreseen)
    fat_ahead_run(&l->ahead, jit, r);
  fat_status status =
      !l->look && fat_ahead_take(&l->ahead, r, &answer) ? FAT_OK : fat_jit_ask(jit, r, &answer, err);
  if (status == FAT_OK && !l->look && !rebuilt)
    status = fat_recipe_make(answer.recipe, &to->recipe, err);
  if (status == FAT_OK && !l->look && !rebuilt)
    status = check(l, to->recipe, err);
  if (status == FAT_OK && !l->look)
    status = load(l, to->recipe, answer.cubin, answer.cubin_hash, &to->entries, err);
  if (status == FAT_OK)
    name(to, l->problem, rebuilt ? r->config : answer.config,
         rebuilt ? rebuilt->source_hash : answer.source_hash,
         rebuilt ? "rebuilt from its source" : "compiled now");
  if (status == FAT_OK && !l->look)
    hold_made(l, r, rebuilt, to->config, &answer);
  fat_jit_free(jit, &answer);
  if (status != FAT_OK)
    fat_loaded_free(to);
  return status;
}

/* The source of what is stored, which was not read with its cubin. */
static bool read_source(const fat_loader *l, const fat_code_filter *filter, fat_code *code)
{
  fat_code whole;
  if (!code->source && fat_db_code(l->db, filter, &whole, NULL) == FAT_OK) {
    code->source = strcmp(whole.source_hash, code->source_hash) == 0 ? whole.source : NULL;
    whole.source = code->source ? NULL : whole.source;
    fat_db_code_free(&whole);
  }
  return code->source;
}

/* Loads what is stored, or makes it again; to->recipe is its recipe, NULL where it has none. */
static fat_status take(fat_loader *l, const fat_code_filter *filter, fat_code *code, fat_loaded *to,
                       fat_error *err)
{
  fat_status status = FAT_OK;
  if (!code->cubin || !to->recipe)
    status = fat_status_fail(err, FAT_E_NOT_FOUND, "its cubin is not stored, or damaged");
  else if (!l->look)
    status = load(l, to->recipe, code->cubin, code->cubin_hash, &to->entries, err);
  if (status == FAT_OK)
    name(to, l->problem, filter->config, code->source_hash, "stored");
  else if (!fat_cuda_error_is_fatal(status) && l->may_rebuild && to->recipe &&
           (l->later || read_source(l, filter, code))) {
    fatune_jit_request r = {.config = filter->config};
    fat_error why = *err;
    if (!l->later)
      fat_text_format(l->why, "rebuild: %s: %s\n", filter->config, why.text);
    status = compile(l, &r, code, to, err);
    if (status == FAT_OK && !l->look) /* where it belongs */
      l->made[l->made_count - 1].problem = *filter->problem;
  }
  return status;
}

/* What the plan has loaded already, for another shape. */
static bool find_known(const fat_loader *l, const fat_code_filter *filter, fat_loaded *to)
{
  for (int i = 0; i < l->known_count; i++) {
    const fat_loaded *k = &l->known[i];
    if (strcmp(k->config, filter->config) != 0 ||
        (filter->source_hash && strcmp(k->source_hash, filter->source_hash) != 0 &&
         strcmp(k->instead, filter->source_hash) != 0))
      continue;
    *to = *k;
    to->shared = true;
    return true;
  }
  return false;
}

fat_status fat_load_stored(fat_loader *l, const fat_code_filter *filter, fat_loaded *to, fat_error *err)
{
  fat_code code;
  fat_error unread; /* where the caller wants no sentence */
  err = err ? err : &unread;
  *to = (fat_loaded){0};
  l->invalid = false;
  if (find_known(l, filter, to))
    return check(l, to->recipe, err);
  fat_code_filter launched = *filter;
  launched.sourceless = true;
  FAT_TRY(fat_db_code(l->db, &launched, &code, err));
  fat_status status = code.recipe ? fat_recipe_make(code.recipe, &to->recipe, err) : FAT_OK;
  if (status == FAT_OK && to->recipe) /* what cannot run at all is not made again either */
    status = check(l, to->recipe, err);
  if (status == FAT_OK)
    status = take(l, filter, &code, to, err);
  if (status != FAT_OK || l->look)
    fat_loaded_free(to);
  fat_db_code_free(&code);
  return status;
}

fat_status fat_load_compiled(fat_loader *l, fatune_jit_request *request, fat_loaded *to, fat_error *err)
{
  *to = (fat_loaded){0};
  return compile(l, request, NULL, to, err);
}

void fat_load_keep(fat_loader *l)
{
  fat_error why = {0}; /* where another process holds the database, one wait of seconds is enough */
  for (int i = 0; i < l->made_count; i++) {
    fat_made *made = &l->made[i];
    if (why.status != FAT_E_BUSY)
      why.status = l->handle->database ? fat_kept_put(l->handle->database, l->gpu, made, &why) : FAT_OK;
    if (why.status != FAT_OK)
      fat_text_format(l->why, "kept: %s is not stored: %s\n", made->config, why.text);
    fat_jit_free(&l->handle->jit, &made->answer);
  }
  fat_ahead_free(&l->ahead, &l->handle->jit);
  free(l->made);
  l->made = NULL;
  l->made_count = 0;
}
