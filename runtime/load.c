/* load.c -- loads a kernel from the database, else from libfatune-jit, and keeps what was compiled.
 *
 * In: a config, or a request to the compiler. Out: a launch with frozen numbers. A cubin that is not there or
 * does not load is made again from its source where compiling is allowed. */
#include "load.h"
#include "cuda_error.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fat_status load(const fat_loader *l, const char *recipe_text, const void *cubin, size_t size,
                       const char *hash, fat_launch *launch, fat_error *err)
{
  fat_module *module;
  fat_recipe *recipe = malloc(sizeof *recipe);
  if (!recipe)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a recipe");
  fat_status status = fat_recipe_parse(recipe_text, recipe, err);
  if (status == FAT_OK)
    status = fat_modules_get(&l->handle->modules, l->handle->driver, cubin, size, hash, &module, err);
  if (status == FAT_OK)
    status = fat_launch_prepare(recipe, l->problem, l->sms, module, launch, err);
  free(recipe);
  return status;
}

/* Whether what a stored recipe launches can run with this driver at all. */
static fat_status check(const fat_loader *l, const char *recipe_text, fat_error *err)
{
  fat_recipe *recipe = malloc(sizeof *recipe);
  if (!recipe)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a recipe");
  fat_status status = fat_recipe_parse(recipe_text, recipe, err);
  if (status == FAT_OK)
    status = fat_launch_allows(l->handle->driver, recipe, err);
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

/* Asks libfatune-jit and loads its answer. `rebuilt`: a stored source with its recipe, or NULL. */
static fat_status compile(fat_loader *l, fatune_jit_request *r, fat_code *rebuilt, fat_loaded *to,
                          fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fatune_jit_answer answer;
  fat_jit *jit = &l->handle->jit;
  r->task = l->look ? FATUNE_JIT_NAME : rebuilt ? FATUNE_JIT_REBUILD : FATUNE_JIT_MAKE;
  r->problem = fat_problem_print(l->problem, problem);
  r->gpu = l->gpu;
  r->cuda = fat_driver_cuda(l->handle->driver);
  r->mapless = !fat_driver_maps(l->handle->driver);
  r->source = rebuilt ? rebuilt->source : NULL;
  fat_status status = fat_jit_ask(jit, r, &answer, err);
  if (status == FAT_OK && !l->look)
    status = load(l, rebuilt ? rebuilt->recipe : answer.recipe, answer.cubin, answer.cubin_size,
                  answer.cubin_hash, &to->launch, err);
  if (status == FAT_OK)
    name(to, l->problem, rebuilt ? r->config : answer.config,
         rebuilt ? "rebuilt from its source" : "compiled now");
  if (status == FAT_OK && !l->look)
    hold_made(l, r, rebuilt, to->config, &answer);
  fat_jit_free(jit, &answer);
  return status;
}

fat_status fat_load_stored(fat_loader *l, const fat_code_filter *filter, fat_loaded *to, fat_error *err)
{
  fat_code code;
  FAT_TRY(fat_db_code(l->db, filter, &code, err));
  fat_status status = code.recipe ? check(l, code.recipe, err) : FAT_OK;
  if (status != FAT_OK) {
    fat_db_code_free(&code);
    return status;
  }
  if (code.cubin && code.recipe)
    status = l->look ? FAT_OK
                     : load(l, code.recipe, code.cubin, code.cubin_size, code.cubin_hash, &to->launch, err);
  else
    status = fat_status_fail(err, FAT_E_NOT_FOUND, "its cubin is not stored, or damaged");
  if (status == FAT_OK)
    name(to, l->problem, filter->config, "stored");
  else if (!fat_cuda_error_is_fatal(status) && l->may_compile && code.source && code.recipe) {
    fatune_jit_request r = {.config = filter->config};
    fat_text_format(l->why, "rebuild: %s: %s\n", filter->config, err->text);
    status = compile(l, &r, &code, to, err);
    if (status == FAT_OK && !l->look) /* where it belongs */
      l->made[l->made_count - 1].problem = *filter->problem;
  }
  fat_db_code_free(&code);
  return status;
}

fat_status fat_load_compiled(fat_loader *l, fatune_jit_request *request, fat_loaded *to, fat_error *err)
{
  return compile(l, request, NULL, to, err);
}

void fat_load_keep(fat_loader *l)
{
  for (int i = 0; i < l->made_count; i++) {
    fat_made *made = &l->made[i];
    fat_error why = {0};
    if (l->handle->database && fat_kept_put(l->handle->database, l->gpu, made, &why) != FAT_OK)
      fat_text_format(l->why, "kept: %s is not stored: %s\n", made->config, why.text);
    fat_jit_free(&l->handle->jit, &made->answer);
  }
}
