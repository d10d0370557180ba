/* jit.c -- libfatune-jit: a kernel made on demand, while a plan waits for it.
 *
 * In: a problem and a GPU, or a stored source. Out: a cubin with its recipe. Nothing is measured, and nothing
 * is kept between two requests. Any thread may ask; each request has its own Lua. */
#include "../jit_abi.h"
#include "compile.h"
#include "mod.h"
#include "source.h"
#include "twin.h"
#include "usual.h"
#include "width.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT                            __attribute__((visibility("default")))
#define DECLARE(result, name, parameters) EXPORT result name parameters;
FATUNE_JIT_CALLS(DECLARE)

/* Longest compile that a plan waits for, in seconds. */
static const double deadline = 120;

int fatune_jit_abi(void)
{
  return FATUNE_JIT_ABI;
}

/* The twin of a config; itself where it takes any tensors. */
static fat_status narrow(fat_script *script, const fatune_jit_request *r, const fat_problem *p,
                         fat_config *config, fat_error *err)
{
  fat_point twins[FAT_TWIN_MOST];
  int count;
  if (fat_width_get(config) == 1)
    return FAT_OK;
  FAT_TRY(fat_twin_find(script, NULL, config, p, r->gpu, twins, &count, err));
  if (count == 0)
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "kernel %s has no config that moves one element at once, nor has it a stand-in",
                           config->kernel);
  *config = twins[0].config;
  return FAT_OK;
}

/* What is rather taken than the default, where it may be. Whether it is another. */
static bool prefer(fat_script *script, const fatune_jit_request *r, const fat_problem *p, fat_config *config)
{
  char usual[FAT_CONFIG_TEXT];
  fat_config rather;
  const bool stands_in = r->rather && strcmp(r->rather, fat_config_print(config, usual)) != 0 &&
                         fat_usual_yields(script, config, r->rather, p, r->gpu, &rather);
  if (stands_in)
    *config = rather;
  return stands_in;
}

static fat_status find_config(fat_script *script, const fatune_jit_request *r, const fat_problem *p,
                              fat_config *config, int *picked, bool *stands_in, fat_error *err)
{
  fat_point point;
  *stands_in = false;
  if (r->config) {
    FAT_TRY(fat_config_parse(r->config, config, err));
    if (r->task == FATUNE_JIT_NAME && !r->narrow) /* else its render tells whether it is one */
      FAT_TRY(fat_space_point(script, config, p, r->gpu, &point, err));
  } else {
    FAT_TRY(fat_usual_find(script, r->kernel, p, r->gpu, !r->mapless, &point, picked, err));
    *config = point.config;
    *stands_in = prefer(script, r, p, config);
  }
  if (!r->narrow)
    return FAT_OK;
  FAT_TRY(narrow(script, r, p, config, err));
  return fat_space_applies(script, config->kernel, p, r->gpu, picked, err);
}

/* Whether there is an NVRTC that could compile for this GPU. */
static fat_status check_nvrtc(const fatune_jit_request *r, fat_error *err)
{
  fat_nvrtc *nvrtc = NULL;
  FAT_TRY(fat_nvrtc_open(r->cuda, &nvrtc, err));
  fat_status status = FAT_OK;
  if (!fat_nvrtc_targets(nvrtc, r->gpu->sm))
    status = fat_status_fail(err, FAT_E_NVRTC, "NVRTC %s cannot compile for sm_%d", fat_nvrtc_version(nvrtc),
                             r->gpu->sm);
  fat_nvrtc_close(nvrtc);
  return status;
}

static void keep_figures(const fat_binary *binary, fatune_jit_answer *answer)
{
  answer->seconds = binary->seconds;
  for (int i = 0; i < binary->entries; i++) {
    const fat_entry *e = &binary->entry[i];
    answer->registers = e->registers > answer->registers ? e->registers : answer->registers;
    answer->stack = e->stack > answer->stack ? e->stack : answer->stack;
    answer->spills = e->spills > answer->spills ? e->spills : answer->spills;
  }
}

/* The key as a text of its own. */
static fat_status keep_key(const fat_nvrtc *nvrtc, fatune_jit_answer *answer, fat_error *err)
{
  fat_text key = {0};
  fat_status status = fat_compile_key(nvrtc, &key, err);
  if (status == FAT_OK) {
    answer->compile_key = key.data;
    return FAT_OK;
  }
  fat_text_free(&key);
  return status;
}

static fat_status compile(const fatune_jit_request *r, const char *source, const char *name,
                          fatune_jit_answer *answer, fat_error *err)
{
  fat_nvrtc *nvrtc = NULL;
  fat_binary binary = {0};
  FAT_TRY(fat_nvrtc_open(r->cuda, &nvrtc, err));
  fat_status status =
      fat_compile(nvrtc, source, name, fat_gpu_arch(r->gpu->sm)->target, deadline, NULL, &binary, err);
  if (status == FAT_OK)
    status = keep_key(nvrtc, answer, err);
  if (status == FAT_OK) {
    keep_figures(&binary, answer);
    answer->cubin = binary.cubin;
    answer->cubin_size = binary.size;
    memcpy(answer->cubin_hash, binary.hash, sizeof answer->cubin_hash);
    binary.cubin = NULL;
  }
  fat_binary_free(&binary);
  fat_nvrtc_close(nvrtc);
  return status;
}

static fat_status make(fat_script *script, const fatune_jit_request *r, const fat_problem *p,
                       const fat_config *config, fatune_jit_answer *answer, fat_error *err)
{
  fat_source source = {0};
  FAT_TRY(fat_source_render(script, p, r->gpu, config, FAT_LINES_TEMPLATE, &source, err));
  fat_status status = compile(r, fat_text_get(&source.text), config->kernel, answer, err);
  if (status == FAT_OK) {
    memcpy(answer->source_hash, source.hash, sizeof answer->source_hash);
    memcpy(answer->templates, fat_script_templates_hash(script), sizeof answer->templates);
    answer->source = source.text.data; /* taken over */
    answer->recipe = source.recipe.data;
    source.text = source.recipe = (fat_text){0};
  }
  fat_source_free(&source);
  return status;
}

static fat_status answer_from_templates(const fatune_jit_request *r, fatune_jit_answer *answer,
                                        fat_error *err)
{
  fat_script *script = NULL;
  fat_problem p;
  fat_config config;
  bool stands_in = false;
  FAT_TRY(fat_problem_parse(r->problem, &p, err));
  if (r->mod)
    FAT_TRY(fat_mod_add(r->mod, FAT_MOD, &p, err));
  if (r->mask_mod)
    FAT_TRY(fat_mod_add(r->mask_mod, FAT_MASK_MOD, &p, err));
  FAT_TRY(fat_script_open(NULL, &script, err));
  fat_status status = find_config(script, r, &p, &config, &answer->picked, &stands_in, err);
  if (status == FAT_OK)
    fat_config_print(&config, answer->config);
  if (status == FAT_OK && r->task == FATUNE_JIT_NAME)
    status = check_nvrtc(r, err);
  if (status == FAT_OK && r->task == FATUNE_JIT_MAKE)
    status = make(script, r, &p, &config, answer, err);
  fat_script_close(script);
  if (status != FAT_OK || !stands_in || answer->spills == 0)
    return status;
  fatune_jit_request usual = *r;
  usual.rather = NULL;
  fatune_jit_free(answer);
  return answer_from_templates(&usual, answer, err);
}

fat_status fatune_jit_answer_request(const fatune_jit_request *request, fatune_jit_answer *answer)
{
  fat_status status;
  memset(answer, 0, sizeof *answer);
  if (!fat_gpu_arch(request->gpu->sm))
    status = fat_status_fail(&answer->error, FAT_E_UNSUPPORTED, "no kernels are written for sm_%d",
                             request->gpu->sm);
  else if (request->task == FATUNE_JIT_REBUILD)
    status = compile(request, request->source, "stored", answer, &answer->error);
  else
    status = answer_from_templates(request, answer, &answer->error);
  if (status != FAT_OK) {
    const fat_error why = answer->error;
    fatune_jit_free(answer);
    answer->error = why;
  }
  return status;
}

void fatune_jit_free(fatune_jit_answer *answer)
{
  free(answer->cubin);
  free(answer->source);
  free(answer->recipe);
  free(answer->compile_key);
  memset(answer, 0, sizeof *answer);
}
