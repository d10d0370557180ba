/* attempt.c -- all that happens to one config: render, compile, inspect, predict; verify and time where the
 * GPU is at hand; store.
 *
 * In: a problem, a GPU and a point of a kernel's space. Out: an outcome with its figures, stored as a trial.
 * Each stage is one call of the file that owns it. A failure of this one config (it does not compile, takes
 * too long, spills, does not fit) is its outcome; one that would hit every config (no memory, a broken
 * template, a broken NVRTC) becomes attempt->status and ends the tune. */
#include "attempt.h"

#include "dump.h"
#include "occupancy.h"
#include "recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A config whose threads spill more bytes than this (stores and loads) is marked. Fewer are mostly moved
 * outside of the loop over tiles: of 518 tensor-core configs of d 64, 96 and 128 timed on an H200
 * (2026-11-21) the fastest stored 88, 196 and 108 bytes and loaded about as many; of the 17 that stored more
 * than 256 the best reached 0.79, 0.83 and 0.84 of the fastest one's speed, half of them less than 0.73. */
static const int heavy_spills = 512;
static const double compile_deadline = 60; /* seconds: slower code is an outcome, "timeout" */

/* Whether a compile failed through the config's own fault. */
static bool is_outcome(fat_status status, fat_outcome *outcome)
{
  *outcome = status == FAT_E_TIMEOUT ? FAT_OUT_TIMEOUT : FAT_OUT_COMPILE_FAILED;
  return status == FAT_E_TIMEOUT || status == FAT_E_COMPILE;
}

static const fat_entry *entry_of(const fat_binary *binary, const char *name)
{
  for (int i = 0; i < binary->entries; i++)
    if (strcmp(binary->entry[i].name, name) == 0)
      return &binary->entry[i];
  return NULL;
}

static int larger(int a, int b)
{
  return a > b ? a : b;
}

/* One launch: the compiler's figures of its entry and the recipe's numbers for this problem. */
static fat_status inspect_launch(fat_attempt *attempt, const fat_recipe *recipe, int step,
                                 fat_resident *resident, fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(attempt->problem, attempt->gpu->sms);
  const fat_entry *entry = entry_of(&attempt->binary, recipe->step[step].entry);
  fat_step_values values;
  const char *binding;
  if (!entry)
    return fat_status_fail(err, FAT_E_TEMPLATE, "kernel %s: its recipe launches '%s', which the source lacks",
                           attempt->point->config.kernel, recipe->step[step].entry);
  FAT_TRY(fat_recipe_step(recipe, step, &sizes, &values, err));
  fat_footprint f = {(int)values.block, entry->registers, (int)values.shared + entry->shared};
  resident->spills = entry->spills;
  resident->blocks = fat_occupancy_blocks(fat_gpu_arch(attempt->gpu->sm), &f, &binding);
  if (resident->blocks == 0) {
    attempt->outcome = FAT_OUT_UNFIT;
    snprintf(attempt->detail, sizeof attempt->detail,
             "no block of %s fits an SM: %d threads, %d registers, %d bytes of "
             "shared memory; %s bind",
             entry->name, f.threads, f.registers, f.shared, binding);
  }
  attempt->figures.registers = larger(attempt->figures.registers, entry->registers);
  attempt->figures.stack = larger(attempt->figures.stack, entry->stack);
  attempt->figures.spills = larger(attempt->figures.spills, entry->spills);
  if (entry->serial)
    attempt->serial = entry->name;
  attempt->figures.shared = larger(attempt->figures.shared, f.shared);
  if (attempt->figures.blocks_per_sm < 0 || resident->blocks < attempt->figures.blocks_per_sm)
    attempt->figures.blocks_per_sm = resident->blocks;
  return FAT_OK;
}

/* Of a config that works, too: it is slow for no reason that its numbers show. */
static void note_serial(fat_attempt *attempt)
{
  if (attempt->serial && !attempt->detail[0])
    snprintf(attempt->detail, sizeof attempt->detail, "ptxas has the products of %s wait for each other",
             attempt->serial);
}

static fat_status inspect(fat_attempt *attempt, fat_resident resident[FAT_SPACE_LAUNCHES], fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(attempt->problem, attempt->gpu->sms);
  fat_recipe recipe;
  int64_t workspace;
  int launches = 0;
  fat_error why;
  FAT_TRY(fat_recipe_parse(fat_text_get(&attempt->source.recipe), &recipe, err));
  if (fat_recipe_check(&recipe, &sizes, &why) != FAT_OK) {
    attempt->outcome = FAT_OUT_UNFIT;
    snprintf(attempt->detail, sizeof attempt->detail, "%s", why.text);
    return FAT_OK;
  }
  FAT_TRY(fat_recipe_workspace(&recipe, &sizes, &workspace, err));
  attempt->figures.blocks_per_sm = -1;
  for (int i = 0; i < recipe.steps; i++)
    if (recipe.step[i].kind == FAT_STEP_LAUNCH && launches < attempt->point->launches)
      FAT_TRY(inspect_launch(attempt, &recipe, i, &resident[launches++], err));
  if (launches != attempt->point->launches)
    return fat_status_fail(err, FAT_E_TEMPLATE, "kernel %s: %d launches in its work, %d in its recipe",
                           attempt->point->config.kernel, attempt->point->launches, launches);
  double memory = attempt->gpu->memory * 1024 * 1024 * 1024;
  if (attempt->outcome == FAT_OUT_OK && memory > 0 && (double)workspace > memory) {
    attempt->outcome = FAT_OUT_UNFIT;
    snprintf(attempt->detail, sizeof attempt->detail,
             "its workspace of %.1f GiB exceeds the %.1f GiB of the %s",
             (double)workspace / (1024.0 * 1024 * 1024), attempt->gpu->memory, attempt->gpu->name);
  }
  if (attempt->outcome == FAT_OUT_OK && attempt->figures.spills > heavy_spills) {
    attempt->outcome = FAT_OUT_SPILLS;
    snprintf(attempt->detail, sizeof attempt->detail, "its threads spill %d bytes each",
             attempt->figures.spills);
  }
  note_serial(attempt);
  return FAT_OK;
}

void fat_attempt_make(fat_attempt *attempt, const fat_session *session, fat_script *script)
{
  const fat_config *config = &attempt->point->config;
  const char *target = fat_gpu_arch(attempt->gpu->sm)->target;
  fat_resident resident[FAT_SPACE_LAUNCHES] = {0};
  fat_error *err = &attempt->error;

  fat_config_print(config, attempt->config);
  attempt->outcome = FAT_OUT_OK;
  attempt->serial = NULL;
  attempt->figures = (fat_figures){.error_max = NAN, .error_allowed = NAN};
  attempt->forecast.ms = NAN;
  attempt->timing = (fat_timing){.median = NAN, .p20 = NAN, .p80 = NAN, .clock = NAN};
  attempt->status = fat_source_render(script, attempt->problem, attempt->gpu, config, FAT_LINES_TEMPLATE,
                                      &attempt->source, err);
  if (attempt->status != FAT_OK)
    return;

  fat_status compiled = fat_compile(session->nvrtc, fat_text_get(&attempt->source.text), config->kernel,
                                    target, compile_deadline, session->stop, &attempt->binary, err);
  if (compiled == FAT_E_TIMEOUT) { /* stored, it is final: the process may have been stopped meanwhile */
    fat_binary_free(&attempt->binary);
    compiled = fat_compile(session->nvrtc, fat_text_get(&attempt->source.text), config->kernel, target,
                           compile_deadline, session->stop, &attempt->binary, err);
  }
  if (compiled == FAT_OK) {
    attempt->status = inspect(attempt, resident, err);
    if (attempt->status == FAT_OK && attempt->outcome != FAT_OUT_UNFIT)
      attempt->forecast =
          fat_model_predict(attempt->gpu, attempt->point->work, resident, attempt->point->launches);
  } else if (is_outcome(compiled, &attempt->outcome)) {
    snprintf(attempt->detail, sizeof attempt->detail, "%s", err->text);
  } else {
    attempt->status = compiled;
  }
  if (attempt->status == FAT_OK && session->dump)
    attempt->status = fat_dump_write(session->dump, attempt->problem, attempt->gpu, config, &attempt->source,
                                     &attempt->binary, err);
}

bool fat_attempt_runs(const fat_attempt *attempt)
{
  bool made = attempt->outcome == FAT_OUT_OK || attempt->outcome == FAT_OUT_SPILLS;
  return attempt->status == FAT_OK && made && attempt->binary.cubin && attempt->timing.count == 0;
}

fat_entrant fat_attempt_entrant(const fat_attempt *attempt)
{
  return (fat_entrant){.config = attempt->config,
                       .recipe = fat_text_get(&attempt->source.recipe),
                       .cubin_hash = attempt->binary.hash,
                       .cubin = attempt->binary.cubin,
                       .cubin_size = attempt->binary.size};
}

void fat_attempt_judge(fat_attempt *attempt, const fat_verdict *verdict)
{
  attempt->outcome = verdict->outcome;
  attempt->timing = verdict->timing;
  if (verdict->error_allowed > 0) {
    attempt->figures.error_max = verdict->error_max;
    attempt->figures.error_allowed = verdict->error_allowed;
  }
  snprintf(attempt->detail, sizeof attempt->detail, "%s", verdict->detail);
  note_serial(attempt);
}

double fat_attempt_ms(const fat_attempt *attempt)
{
  if (attempt->outcome != FAT_OUT_OK)
    return NAN;
  return attempt->timing.count > 0 ? attempt->timing.median : attempt->forecast.ms;
}

static fat_artifact artifact_of(const fat_attempt *attempt)
{
  return (fat_artifact){.source = fat_text_get(&attempt->source.text),
                        .recipe = fat_text_get(&attempt->source.recipe),
                        .cubin = attempt->binary.cubin,
                        .cubin_size = attempt->binary.size,
                        .cubin_hash = attempt->binary.hash,
                        .target = fat_gpu_arch(attempt->gpu->sm)->target};
}

fat_status fat_attempt_store(const fat_attempt *attempt, const fat_session *session, bool whole,
                             fat_error *err)
{
  const fat_tools *tools = &session->tools;
  bool failed = attempt->outcome == FAT_OUT_COMPILE_FAILED || attempt->outcome == FAT_OUT_TIMEOUT;
  bool forecast = isfinite(attempt->forecast.ms) && attempt->forecast.ms > 0,
       measured = tools->driver != NULL;
  fat_trial trial = {.run = session->run,
                     .problem = *attempt->problem,
                     .gpu = *attempt->gpu,
                     .config = attempt->point->config,
                     .eligible = attempt->eligible,
                     .source_hash = attempt->source.hash,
                     .templates = tools->templates,
                     .compile_key = tools->compile_key,
                     .driver = measured ? tools->driver : "",
                     .made_by = measured ? "" : tools->model,
                     .outcome = attempt->outcome,
                     .origin = measured ? FAT_MEASURED : FAT_PREDICTED,
                     .ms = measured   ? attempt->timing.median
                           : forecast ? attempt->forecast.ms
                                      : NAN,
                     .mean = NAN,
                     .forecast = forecast ? attempt->forecast.ms : NAN,
                     .limit = forecast ? fat_model_limit_name(attempt->forecast.limit) : "",
                     .compile_seconds = attempt->binary.seconds,
                     .twin_of = attempt->twin_of,
                     .detail = attempt->detail,
                     .log = failed ? fat_text_get(&attempt->binary.log) : ""};
  fat_artifact artifact = artifact_of(attempt);
  fat_records_fill(&trial, &attempt->figures, &attempt->timing);
  return fat_db_put(session->db, &trial, whole && attempt->binary.cubin ? &artifact : NULL, err);
}

fat_status fat_attempt_attach(const fat_attempt *attempt, fat_db *db, int64_t id, fat_error *err)
{
  fat_artifact artifact = artifact_of(attempt);
  return fat_db_put_artifact(db, id, &artifact, err);
}

fat_status fat_attempt_remake(const fat_session *session, const fat_problem *p, const fat_record *record,
                              fat_error *err)
{
  fat_config config;
  fat_point point;
  fat_error why = {0};
  FAT_TRY(fat_config_parse(record->config, &config, err));
  fat_status status = fat_space_point(session->script, &config, p, session->gpu, &point, &why);
  if (status == FAT_E_INPUT || status == FAT_E_UNSUPPORTED)
    return FAT_OK; /* the templates have changed and no longer have this config */
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s", why.text);
  fat_attempt attempt = {.problem = p, .gpu = session->gpu, .point = &point};
  fat_attempt_make(&attempt, session, session->script);
  status = attempt.status;
  if (status != FAT_OK)
    fat_status_fail(err, status, "%s", attempt.error.text);
  else if (attempt.binary.cubin && strcmp(attempt.source.hash, record->source_hash) == 0) {
    int64_t id;
    status = fat_records_own(session->db, record, p, session->gpu, &session->tools, &id, err);
    if (status == FAT_OK)
      status = fat_attempt_attach(&attempt, session->db, id, err);
  }
  fat_attempt_free(&attempt);
  return status;
}

void fat_attempt_free(fat_attempt *attempt)
{
  fat_source_free(&attempt->source);
  fat_binary_free(&attempt->binary);
}
