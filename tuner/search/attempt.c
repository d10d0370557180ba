/* attempt.c -- the tuner on one page: a config is rendered, compiled, inspected, predicted; where the GPU is
 * at hand verified and timed; stored.
 *
 * In: a problem, a GPU and a point of a kernel's space. Out: an outcome with its figures, and its row. Each
 * stage is one call of the file that owns it. What a stage says against this one config (its source does not
 * compile, takes too long, spills, does not fit) becomes the outcome; what would hit every config (no memory,
 * a broken template, NVRTC failing) becomes job->status and ends the tune. */
#include "attempt.h"

#include "dump.h"
#include "occupancy.h"
#include "recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes of spill stores and loads of a thread above which a config is marked. Fewer are mostly moved before
 * or after the loop over tiles: of 518 tensor-core configs of d 64, 96 and 128 timed on an H200 (2026-11-21)
 * the fastest stored 88, 196 and 108 bytes and loaded about as many; of the 17 that stored more than 256 the
 * best came to 0.79, 0.83 and 0.84 of the fastest, half of them to less than 0.73. */
static const int heavy_spills = 512;

/* Which failures of a compile are this config's own. */
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
static fat_status inspect_launch(fat_job *job, const fat_recipe *recipe, int step, fat_resident *resident,
                                 fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(job->problem, job->gpu->sms);
  const fat_entry *entry = entry_of(&job->binary, recipe->step[step].entry);
  fat_step_values values;
  const char *binding;
  if (!entry)
    return fat_status_fail(err, FAT_E_TEMPLATE, "kernel %s: its recipe launches '%s', which the source lacks",
                           job->point->config.kernel, recipe->step[step].entry);
  FAT_TRY(fat_recipe_step(recipe, step, &sizes, &values, err));
  fat_footprint f = {(int)values.block, entry->registers, (int)values.shared + entry->shared};
  resident->spills = entry->spills;
  resident->blocks = fat_occupancy_blocks(fat_gpu_arch(job->gpu->sm), &f, &binding);
  if (resident->blocks == 0) {
    job->outcome = FAT_OUT_UNFIT;
    snprintf(job->detail, sizeof job->detail,
             "no block of %s fits an SM: %d threads, %d registers, %d bytes of "
             "shared memory; %s bind",
             entry->name, f.threads, f.registers, f.shared, binding);
  }
  job->figures.registers = larger(job->figures.registers, entry->registers);
  job->figures.stack = larger(job->figures.stack, entry->stack);
  job->figures.spills = larger(job->figures.spills, entry->spills);
  job->figures.shared = larger(job->figures.shared, f.shared);
  if (job->figures.blocks_per_sm < 0 || resident->blocks < job->figures.blocks_per_sm)
    job->figures.blocks_per_sm = resident->blocks;
  return FAT_OK;
}

static fat_status inspect(fat_job *job, fat_resident resident[FAT_SPACE_LAUNCHES], fat_error *err)
{
  const fat_sizes sizes = fat_recipe_sizes(job->problem, job->gpu->sms);
  fat_recipe recipe;
  int64_t workspace;
  int launches = 0;
  fat_error why;
  FAT_TRY(fat_recipe_parse(fat_text_get(&job->source.recipe), &recipe, err));
  if (fat_recipe_check(&recipe, &sizes, &why) != FAT_OK) {
    job->outcome = FAT_OUT_UNFIT;
    snprintf(job->detail, sizeof job->detail, "%s", why.text);
    return FAT_OK;
  }
  FAT_TRY(fat_recipe_workspace(&recipe, &sizes, &workspace, err));
  job->figures.blocks_per_sm = -1;
  for (int i = 0; i < recipe.steps; i++)
    if (recipe.step[i].kind == FAT_STEP_LAUNCH && launches < job->point->launches)
      FAT_TRY(inspect_launch(job, &recipe, i, &resident[launches++], err));
  if (launches != job->point->launches)
    return fat_status_fail(err, FAT_E_TEMPLATE, "kernel %s: %d launches in its work, %d in its recipe",
                           job->point->config.kernel, job->point->launches, launches);
  double memory = job->gpu->memory * 1024 * 1024 * 1024;
  if (job->outcome == FAT_OUT_OK && memory > 0 && (double)workspace > memory) {
    job->outcome = FAT_OUT_UNFIT;
    snprintf(job->detail, sizeof job->detail, "its workspace of %.1f GiB exceeds the %.1f GiB of the %s",
             (double)workspace / (1024.0 * 1024 * 1024), job->gpu->memory, job->gpu->name);
  }
  if (job->outcome == FAT_OUT_OK && job->figures.spills > heavy_spills)
    job->outcome = FAT_OUT_SPILLS;
  return FAT_OK;
}

/* The earlier row's figures stand: its source is this one, made before some other template changed. */
static bool reuse(fat_job *job, const fat_tools *tools)
{
  const fat_row *row = job->earlier;
  fat_origin wanted = tools->driver ? FAT_MEASURED : FAT_PREDICTED;
  if (!row || row->origin != wanted || strcmp(row->source_hash, job->source.hash) != 0 ||
      row->outcome == FAT_OUT_OOM)
    return false;
  job->outcome = row->outcome;
  job->forecast.ms = row->ms;
  for (int i = 0; i < FAT_LIMIT_COUNT; i++)
    if (strcmp(fat_model_limit_name((fat_limit)i), row->limit) == 0)
      job->forecast.limit = (fat_limit)i;
  job->figures = row->figures;
  job->timing = row->timing;
  snprintf(job->detail, sizeof job->detail, "%s", row->detail);
  return true;
}

void fat_trial_make(fat_job *job, const fat_bench *bench, fat_script *script)
{
  const fat_config *config = &job->point->config;
  const char *target = fat_gpu_arch(job->gpu->sm)->target;
  fat_resident resident[FAT_SPACE_LAUNCHES] = {0};
  fat_error *err = &job->error;

  job->outcome = FAT_OUT_OK;
  job->figures = (fat_figures){.error_max = NAN, .error_allowed = NAN};
  job->forecast.ms = NAN;
  job->timing = (fat_timing){.median = NAN, .p20 = NAN, .p80 = NAN, .clock = NAN};
  job->status =
      fat_source_render(script, job->problem, job->gpu, config, FAT_LINES_TEMPLATE, &job->source, err);
  if (job->status != FAT_OK || reuse(job, &bench->tools))
    return;

  fat_status compiled = fat_compile(bench->nvrtc, fat_text_get(&job->source.text), config->kernel, target,
                                    bench->deadline, bench->cancel, &job->binary, err);
  if (compiled == FAT_OK) {
    job->status = inspect(job, resident, err);
    if (job->status == FAT_OK && job->outcome != FAT_OUT_UNFIT)
      job->forecast = fat_model_predict(job->gpu, job->point->work, resident, job->point->launches);
  } else if (is_outcome(compiled, &job->outcome)) {
    snprintf(job->detail, sizeof job->detail, "%s", err->text);
  } else {
    job->status = compiled;
  }
  if (job->status == FAT_OK && bench->dump)
    job->status = fat_dump_write(bench->dump, job, err);
}

bool fat_trial_runs(const fat_job *job)
{
  bool made = job->outcome == FAT_OUT_OK || job->outcome == FAT_OUT_SPILLS;
  return job->status == FAT_OK && made && job->binary.cubin && job->timing.count == 0;
}

void fat_trial_assign(const fat_job *job, fat_assignment *a)
{
  a->problem = *job->problem;
  a->sms = job->gpu->sms;
  a->l2 = job->gpu->l2;
  a->count = 1;
  a->entrant[0] = (fat_entrant){.recipe = fat_text_get(&job->source.recipe),
                                .cubin_hash = job->binary.hash,
                                .cubin = job->binary.cubin,
                                .cubin_size = job->binary.size};
}

void fat_trial_judge(fat_job *job, const fat_verdict *verdict)
{
  job->outcome = verdict->outcome;
  job->timing = verdict->timing;
  if (verdict->error_allowed > 0) {
    job->figures.error_max = verdict->error_max;
    job->figures.error_allowed = verdict->error_allowed;
  }
  snprintf(job->detail, sizeof job->detail, "%s", verdict->detail);
}

double fat_trial_ms(const fat_job *job)
{
  if (job->outcome != FAT_OUT_OK)
    return NAN;
  return job->timing.count > 0 ? job->timing.median : job->forecast.ms;
}

static fat_artifact artifact_of(const fat_job *job)
{
  return (fat_artifact){.source = fat_text_get(&job->source.text),
                        .recipe = fat_text_get(&job->source.recipe),
                        .cubin = job->binary.cubin,
                        .cubin_size = job->binary.size,
                        .cubin_hash = job->binary.hash,
                        .target = fat_gpu_arch(job->gpu->sm)->target};
}

fat_status fat_trial_store(const fat_job *job, const fat_bench *bench, fat_db *db, int64_t run, bool whole,
                           fat_error *err)
{
  bool failed = job->outcome == FAT_OUT_COMPILE_FAILED || job->outcome == FAT_OUT_TIMEOUT;
  bool forecast = isfinite(job->forecast.ms) && job->forecast.ms > 0, measured = bench->tools.driver != NULL;
  fat_trial trial = {.run = run,
                     .problem = *job->problem,
                     .gpu = *job->gpu,
                     .config = job->point->config,
                     .eligible = job->eligible,
                     .source_hash = job->source.hash,
                     .templates = bench->tools.templates,
                     .compile_key = bench->tools.compile_key,
                     .driver = measured ? bench->tools.driver : bench->tools.model,
                     .outcome = job->outcome,
                     .origin = measured ? FAT_MEASURED : FAT_PREDICTED,
                     .ms = measured   ? job->timing.median
                           : forecast ? job->forecast.ms
                                      : NAN,
                     .limit = forecast ? fat_model_limit_name(job->forecast.limit) : "",
                     .compile_seconds = job->binary.seconds,
                     .detail = job->detail,
                     .log = failed ? fat_text_get(&job->binary.log) : ""};
  fat_artifact artifact = artifact_of(job);
  fat_rows_fill(&trial, &job->figures, &job->timing);
  return fat_db_put(db, &trial, whole && job->binary.cubin ? &artifact : NULL, err);
}

fat_status fat_trial_attach(const fat_job *job, fat_db *db, int64_t id, fat_error *err)
{
  fat_artifact artifact = artifact_of(job);
  return fat_db_put_artifact(db, id, &artifact, err);
}

void fat_trial_free(fat_job *job)
{
  fat_source_free(&job->source);
  fat_binary_free(&job->binary);
}
