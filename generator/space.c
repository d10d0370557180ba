/* space.c -- asks the engine for a kernel's space and reads its lines into structs. */
#include "space.h"
#include "grow.h"
#include "mod.h"
#include "recipe.h"
#include "sees.h"
#include "tensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Expressions, and whether a backward keeps the derivatives of scores: an expression's weights do not tell
 * them. */
static void put_mods(const fat_problem *p, fat_text *out)
{
  const fat_mod *score = fat_mod_of(p, FAT_MOD);
  const bool slopes = score && p->op == FAT_BWD && (!fat_mod_adds(score) || fat_problem_has(p, FAT_SOFTCAP));
  const bool evenly = score && fat_mod_adds_evenly(score);
  fat_text_format(out, "p.keeps_slope=%d\np.adds_evenly=%d\np.course=", slopes, evenly);
  if (evenly)
    fat_mod_emit_course(score, out);
  fat_text_add(out, "\np.known=");
  const int known = evenly ? fat_mod_emit_known(score, out) : 0;
  fat_text_format(out, "\np.known_count=%d\n", known);
  for (int n = 0; n < FAT_MOD_FEATURES; n++) {
    const fat_mod *mod = fat_mod_of(p, fat_mod_features[n]);
    if (!mod)
      continue;
    fat_text_format(out, "p.%s=", fat_problem_feature_name(mod->which));
    fat_mod_emit(mod, slopes && mod == score, out);
    fat_text_add(out, "\n");
  }
}

/* Problem and GPU as the lines that space.lua reads: "p.d=64". There p.dv is what a block makes: all columns
 * of V, or those of a slice. */
static void put_facts(const fat_problem *p, const fat_gpu *gpu, const fat_arch *arch, fat_text *out)
{
  const int slices = fat_problem_slices(p);
  const fat_sizes sizes = fat_recipe_sizes(p, gpu->sms);
  char text[FAT_PROBLEM_TEXT];
  fat_text_format(out, "p.text=%s\np.op=%s\np.dtype=%s\n", fat_problem_print(p, text), fat_ops[p->op],
                  fat_dtypes[p->dtype].name);
  fat_text_format(
      out, "p.b=%lld\np.h=%lld\np.hk=%lld\np.q=%lld\np.k=%lld\np.d=%d\np.dv=%d\np.slices=%d\np.feature_list=",
      (long long)p->b, (long long)p->h, (long long)p->hk, (long long)p->q, (long long)p->k, p->d,
      p->dv / slices, slices);
  for (int f = 0; f < FAT_FEATURE_COUNT; f++)
    if (fat_problem_has(p, f))
      fat_text_format(out, "%s ", fat_problem_feature_form(f));
  fat_text_format(out, "\np.tq=%lld\np.tk=%lld", (long long)sizes.tq, (long long)sizes.tk);
  fat_text_format(out, "\np.uneven=%d\n", fat_sees_uneven(p));
  put_mods(p, out);
  fat_tensors_facts(p, out);
  fat_text_format(out, "g.name=%s\ng.sm=%d\ng.sms=%d\ng.shared_block=%d\ng.shared_sm=%d\n", gpu->name,
                  gpu->sm, gpu->sms, gpu->shared_block, gpu->shared_sm);
  fat_text_format(out, "g.shared_reserved=%d\ng.regs_sm=%d\ng.threads_sm=%d\n", arch->shared_reserved,
                  arch->regs_sm, arch->threads_sm);
  fat_text_add(out, "g.dtypes=");
  for (int d = 0, some = 0; d < FAT_DTYPE_COUNT; d++)
    if (arch->dtypes >> d & 1u)
      fat_text_format(out, "%s%s", some++ ? " " : "", fat_dtypes[d].name);
  fat_text_add(out, "\n");
}

fat_status fat_space_facts(const fat_problem *p, const fat_gpu *gpu, fat_text *facts, fat_error *err)
{
  const fat_arch *arch = fat_gpu_arch(gpu->sm);
  if (arch == NULL)
    return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s: fatune knows no architecture sm_%d", gpu->name,
                           gpu->sm);
  FAT_TRY(fat_mod_check(p, err));
  put_facts(p, gpu, arch, facts);
  return fat_text_status(facts, err);
}

/* Calls an engine function on (kernel, facts[, config]). */
static fat_status ask(fat_script *script, const char *function, const char *kernel, const fat_problem *p,
                      const fat_gpu *gpu, const char *config, fat_text *answer, fat_error *err)
{
  fat_text facts = {0};
  fat_status status = fat_space_facts(p, gpu, &facts, err);
  if (status == FAT_OK) {
    const char *args[] = {kernel, fat_text_get(&facts), config};
    status = fat_script_call(script, function, config != NULL ? 3 : 2, args, answer, err);
  }
  fat_text_free(&facts);
  return status;
}

fat_status fat_space_kernels(fat_script *script, char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL], int *count,
                             fat_error *err)
{
  fat_text list = {0};
  *count = 0;
  fat_status status = fat_script_call(script, "kernels", 0, NULL, &list, err);
  char *rest = NULL;
  if (status == FAT_OK && list.length > 0)
    for (char *name = strtok_r(list.data, "\n", &rest); name != NULL && status == FAT_OK;
         name = strtok_r(NULL, "\n", &rest)) {
      if (*count == FAT_SPACE_KERNELS || strlen(name) >= FAT_CONFIG_KERNEL)
        status = fat_status_fail(err, FAT_E_TEMPLATE,
                                 "kernel '%s': more than %d kernels, or a name above %d letters", name,
                                 FAT_SPACE_KERNELS, FAT_CONFIG_KERNEL - 1);
      else
        strcpy(names[(*count)++], name);
    }
  fat_text_free(&list);
  return status;
}

fat_status fat_space_applies(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                             int *picked, fat_error *err)
{
  fat_text answer = {0};
  fat_status status = ask(script, "applies", kernel, p, gpu, NULL, &answer, err);
  if (status == FAT_OK)
    *picked = atoi(fat_text_get(&answer));
  if (status == FAT_OK && *picked < 0)
    status = fat_status_fail(err, FAT_E_UNSUPPORTED, "%s", fat_text_get(&answer) + strlen("-1 "));
  fat_text_free(&answer);
  return status;
}

fat_status fat_space_twin(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                          char twin[FAT_CONFIG_KERNEL], fat_error *err)
{
  fat_text answer = {0};
  fat_status status = ask(script, "twin", kernel, p, gpu, NULL, &answer, err);
  if (status == FAT_OK && strlen(fat_text_get(&answer)) >= FAT_CONFIG_KERNEL)
    status = fat_status_fail(err, FAT_E_TEMPLATE, "the twin of kernel %s has a name above %d letters", kernel,
                             FAT_CONFIG_KERNEL - 1);
  if (status == FAT_OK)
    strcpy(twin, fat_text_get(&answer));
  fat_text_free(&answer);
  return status;
}

bool fat_space_firm(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu)
{
  fat_text answer = {0};
  const bool firm = ask(script, "firm", kernel, p, gpu, NULL, &answer, NULL) == FAT_OK && answer.length > 0;
  fat_text_free(&answer);
  return firm;
}

/* -- reading lines */

/* The next line of *at, cut off; NULL at the end. */
static char *next_line(char **at)
{
  char *line = *at;
  if (line == NULL || *line == '\0')
    return NULL;
  char *end = strchr(line, '\n');
  *at = end != NULL ? end + 1 : line + strlen(line);
  if (end != NULL)
    *end = '\0';
  return line;
}

/* Numbers of one launch, in the order of struct fat_work. ORDER WORK */
static bool read_work(char *line, fat_work *w)
{
  double *const fields[] = {&w->blocks, &w->threads, &w->shared,       &w->registers, &w->fma,
                            &w->tensor, &w->ex2,     &w->shared_bytes, &w->issue,     &w->visits,
                            &w->steps,  &w->uneven,  &w->spills,       &w->dram,      &w->l2};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    char *end;
    *fields[i] = fat_text_read_number(line, &end);
    if (end == line)
      return false;
    line = end;
  }
  return true;
}

/* A point: its line "config\tlaunches" (after the "P\t") and the lines of its launches. */
static fat_status read_point(char *line, char **at, fat_point *point, fat_error *err)
{
  memset(point, 0, sizeof *point);
  char *tab = strchr(line, '\t');
  if (tab == NULL)
    return fat_status_fail(err, FAT_E_TEMPLATE, "the engine's line '%s' has no launches", line);
  *tab = '\0';
  FAT_TRY(fat_config_parse(line, &point->config, err));
  point->launches = atoi(tab + 1);
  if (point->launches < 1 || point->launches > FAT_SPACE_LAUNCHES)
    return fat_status_fail(err, FAT_E_TEMPLATE, "%s: %d launches; 1 to %d are possible", point->config.kernel,
                           point->launches, FAT_SPACE_LAUNCHES);
  for (int i = 0; i < point->launches; i++) {
    char *numbers = next_line(at);
    if (numbers == NULL || !read_work(numbers, &point->work[i]))
      return fat_status_fail(err, FAT_E_TEMPLATE, "%s: the work of launch %d is not all numbers",
                             point->config.kernel, i);
  }
  return FAT_OK;
}

static fat_status add_point(fat_space *space, char *line, char **at, fat_error *err)
{
  fat_point *more = fat_grow(space->points, space->count, sizeof *more);
  if (more == NULL)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory");
  space->points = more;
  FAT_TRY(read_point(line, at, &space->points[space->count], err));
  space->count++;
  return FAT_OK;
}

static fat_status add_rejection(fat_space *space, const char *line, fat_error *err)
{
  fat_rejection *more = fat_grow(space->rejections, space->rejection_count, sizeof *more);
  if (more == NULL)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory");
  space->rejections = more;
  fat_rejection *r = &more[space->rejection_count++];
  char *reason;
  r->count = strtol(line, &reason, 10);
  snprintf(r->reason, sizeof r->reason, "%s", *reason == '\t' ? reason + 1 : reason);
  return FAT_OK;
}

static fat_status read_space(char *text, fat_space *space, fat_error *err)
{
  for (char *line; (line = next_line(&text)) != NULL;) {
    if (strncmp(line, "P\t", 2) == 0)
      FAT_TRY(add_point(space, line + 2, &text, err));
    else if (strncmp(line, "R\t", 2) == 0)
      FAT_TRY(add_rejection(space, line + 2, err));
    else if (strncmp(line, "W\t", 2) == 0)
      space->walked = strtol(line + 2, NULL, 10);
  }
  return FAT_OK;
}

fat_status fat_space_list(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                          fat_space *space, fat_error *err)
{
  memset(space, 0, sizeof *space);
  fat_text answer = {0};
  fat_status status = ask(script, "space", kernel, p, gpu, NULL, &answer, err);
  if (status == FAT_OK)
    status = read_space(answer.data, space, err);
  fat_text_free(&answer);
  if (status == FAT_OK && space->count == 0) {
    const fat_rejection *most = NULL;
    for (int i = 0; i < space->rejection_count; i++)
      if (most == NULL || space->rejections[i].count > most->count)
        most = &space->rejections[i];
    status = fat_status_fail(err, FAT_E_UNSUPPORTED,
                             "kernel %s has no config for this problem on %s: most of %ld "
                             "fail this: %s",
                             kernel, gpu->name, space->walked, most != NULL ? most->reason : "-");
  }
  if (status != FAT_OK)
    fat_space_free(space);
  return status;
}

void fat_space_free(fat_space *space)
{
  free(space->points);
  free(space->rejections);
  memset(space, 0, sizeof *space);
}

/* The point in an answer of one. */
static fat_status read_one(fat_text *answer, const char *of, fat_point *point, fat_error *err)
{
  char *at = answer->data, *line = next_line(&at);
  return line != NULL && strncmp(line, "P\t", 2) == 0
             ? read_point(line + 2, &at, point, err)
             : fat_status_fail(err, FAT_E_TEMPLATE, "the engine gave no point for %s", of);
}

fat_status fat_space_point(fat_script *script, const fat_config *config, const fat_problem *p,
                           const fat_gpu *gpu, fat_point *point, fat_error *err)
{
  char text[FAT_CONFIG_TEXT];
  fat_text answer = {0};
  fat_status status =
      ask(script, "point", config->kernel, p, gpu, fat_config_print(config, text), &answer, err);
  if (status == FAT_OK)
    status = read_one(&answer, text, point, err);
  fat_text_free(&answer);
  return status;
}

fat_status fat_space_default(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                             fat_point *point, fat_error *err)
{
  fat_text answer = {0};
  fat_space space;
  fat_status status = ask(script, "default", kernel, p, gpu, NULL, &answer, err);
  bool valid = answer.length > 0;
  if (status == FAT_OK && valid)
    status = read_one(&answer, kernel, point, err);
  fat_text_free(&answer);
  if (status != FAT_OK || valid)
    return status;
  FAT_TRY(fat_space_list(script, kernel, p, gpu, &space, err));
  *point = space.points[0];
  fat_space_free(&space);
  return FAT_OK;
}
