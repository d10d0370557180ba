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

static fat_status load(const fat_loader *l, const fat_recipe *recipe, const void *cubin, size_t size,
                       const char *hash, fat_launch *launch, fat_error *err)
{
  fat_module *module;
  FAT_TRY(fat_modules_get(&l->handle->modules, l->handle->driver, cubin, size, hash, &module, err));
  return fat_launch_prepare(recipe, l->problem, l->sms, module, launch, err);
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

/* Asks libfatune-jit and loads its answer. `rebuilt`: a stored source with its recipe, which `recipe` is read
 * from, or both NULL. */
static fat_status compile(fat_loader *l, fatune_jit_request *r, fat_code *rebuilt, const fat_recipe *recipe,
                          fat_loaded *to, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fatune_jit_answer answer;
  fat_recipe *made = NULL;
  fat_jit *jit = &l->handle->jit;
  r->task = l->look ? FATUNE_JIT_NAME : rebuilt ? FATUNE_JIT_REBUILD : FATUNE_JIT_MAKE;
  r->problem = fat_problem_print(l->problem, problem);
  r->gpu = l->gpu;
  r->cuda = fat_driver_cuda(l->handle->driver);
  r->mapless = !fat_driver_maps(l->handle->driver);
  r->source = rebuilt ? rebuilt->source : NULL;
  fat_status status = fat_jit_ask(jit, r, &answer, err);
  if (status == FAT_OK && !l->look && !rebuilt)
    status = fat_recipe_make(answer.recipe, &made, err);
  if (status == FAT_OK && !l->look)
    status =
        load(l, made ? made : recipe, answer.cubin, answer.cubin_size, answer.cubin_hash, &to->launch, err);
  if (status == FAT_OK)
    name(to, l->problem, rebuilt ? r->config : answer.config,
         rebuilt ? "rebuilt from its source" : "compiled now");
  if (status == FAT_OK && !l->look)
    hold_made(l, r, rebuilt, to->config, &answer);
  free(made);
  fat_jit_free(jit, &answer);
  return status;
}

/* Loads what is stored, or makes it again; `recipe` is its recipe, NULL where it has none. */
static fat_status take(fat_loader *l, const fat_code_filter *filter, fat_code *code, const fat_recipe *recipe,
                       fat_loaded *to, fat_error *err)
{
  fat_status status = FAT_OK;
  if (!code->cubin || !recipe)
    status = fat_status_fail(err, FAT_E_NOT_FOUND, "its cubin is not stored, or damaged");
  else if (!l->look)
    status = load(l, recipe, code->cubin, code->cubin_size, code->cubin_hash, &to->launch, err);
  if (status == FAT_OK)
    name(to, l->problem, filter->config, "stored");
  else if (!fat_cuda_error_is_fatal(status) && l->may_compile && code->source && recipe) {
    fatune_jit_request r = {.config = filter->config};
    fat_text_format(l->why, "rebuild: %s: %s\n", filter->config, err->text);
    status = compile(l, &r, code, recipe, to, err);
    if (status == FAT_OK && !l->look) /* where it belongs */
      l->made[l->made_count - 1].problem = *filter->problem;
  }
  return status;
}

fat_status fat_load_stored(fat_loader *l, const fat_code_filter *filter, fat_loaded *to, fat_error *err)
{
  fat_code code;
  fat_recipe *recipe = NULL;
  FAT_TRY(fat_db_code(l->db, filter, &code, err));
  fat_status status = code.recipe ? fat_recipe_make(code.recipe, &recipe, err) : FAT_OK;
  if (status == FAT_OK && recipe) /* what this driver cannot run at all is not made again either */
    status = fat_launch_allows(l->handle->driver, recipe, err);
  if (status == FAT_OK)
    status = take(l, filter, &code, recipe, to, err);
  free(recipe);
  fat_db_code_free(&code);
  return status;
}

fat_status fat_load_compiled(fat_loader *l, fatune_jit_request *request, fat_loaded *to, fat_error *err)
{
  return compile(l, request, NULL, NULL, to, err);
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
