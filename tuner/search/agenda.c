/* agenda.c -- from a goal to the problems of a tune.
 *
 * In: a goal, the GPU, the templates. Out: items in the order in which they were asked for. Every problem is
 * checked, and at least one kernel serves it. */
#include "anchor.h"
#include "grow.h"
#include "insert.h"
#include "agenda.h"

#include <stdlib.h>
#include <string.h>

/* What the listing of problems works with, and what it fills in. */
typedef struct listing {
  const fat_goal *goal;
  const fat_gpu *gpu;
  fat_script *script;
  fat_agenda *agenda;
} listing;

static const int64_t default_dims[] = {64, 128};

/* ORDER DTYPE: the first architecture that has the arithmetic, and how to say so. */
static const struct {
  int since;
  const char *why;
} dtype_facts[FAT_DTYPE_COUNT] = {
    {75, "f16 came to these GPUs with Turing (sm_75)"},
    {80, "bf16 arithmetic came with Ampere's tensor cores (sm_80), Turing's know f16 only"},
    {75, "f32 is everywhere"},
    {80, "TF32 arithmetic came with Ampere's tensor cores (sm_80)"},
    {80, "f32x3 is made of TF32 products, which came with Ampere's tensor cores (sm_80)"},
};

fat_status fat_agenda_kernels(const fat_goal *goal, fat_script *script,
                              char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL], int *count, fat_error *err)
{
  char all[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  const char *known[FAT_SPACE_KERNELS];
  int n;
  FAT_TRY(fat_space_kernels(script, all, &n, err));
  for (int i = 0; i < n; i++)
    known[i] = all[i];
  *count = goal->kernel_count ? goal->kernel_count : n;
  for (int i = 0; i < *count; i++) {
    const char *name = goal->kernel_count ? goal->kernels[i] : all[i];
    uint32_t mask;
    FAT_TRY(fat_list_names("--kernel", name, known, n, &mask, err));
    strcpy(names[i], name);
  }
  return FAT_OK;
}

fat_status fat_agenda_dtype(const char *argument, fat_dtype dtype, const fat_gpu *gpu, fat_error *err)
{
  const fat_arch *arch = fat_gpu_arch(gpu->sm);
  if (!arch)
    return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s: fatune knows no architecture sm_%d", gpu->name,
                           gpu->sm);
  if (arch->dtypes >> dtype & 1u)
    return FAT_OK;
  if (err == NULL) /* nobody asks why */
    return FAT_E_INPUT;
  fat_text allowed = {0};
  for (int i = 0; i < FAT_DTYPE_COUNT; i++)
    if (arch->dtypes >> i & 1u)
      fat_text_format(&allowed, "%s%s", allowed.length ? ", " : "", fat_dtypes[i].name);
  fat_status status = fat_text_status(&allowed, err);
  if (status == FAT_OK)
    status = fat_status_fail(err, FAT_E_INPUT, "%s: the %s (sm_%d) cannot compute in %s: %s; it has %s",
                             argument, gpu->name, gpu->sm, fat_dtypes[dtype].name, dtype_facts[dtype].why,
                             fat_text_get(&allowed));
  fat_text_free(&allowed);
  return status;
}

/* Fills in the kernels that serve the problem, preferred ones first. Where none does, kernel_count is 0 and
 * *why has the first reason. */
static fat_status serve(const listing *l, fat_item *item, fat_error *why, fat_error *err)
{
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int count;
  FAT_TRY(fat_agenda_kernels(l->goal, l->script, names, &count, err));
  item->kernel_count = 0;
  for (int i = 0; i < count; i++) {
    fat_item_kernel one = {0};
    fat_error inner = {0};
    fat_status status = fat_space_applies(l->script, names[i], &item->problem, l->gpu, &one.picked, &inner);
    if (status == FAT_E_UNSUPPORTED) {
      if (why->status == FAT_OK)
        *why = inner;
      continue;
    }
    if (status != FAT_OK)
      return fat_status_fail(err, status, "%s", inner.text);
    memcpy(one.name, names[i], sizeof one.name);
    int place = item->kernel_count;
    while (place > 0 && item->kernels[place - 1].picked < one.picked)
      place--;
    if (fat_insert_room(item->kernels, sizeof item->kernels[0], &item->kernel_count, FAT_SPACE_KERNELS,
                        place))
      item->kernels[place] = one;
  }
  return FAT_OK;
}

/* Without kernels that a call gets only when it names them. */
static void leave_baselines(fat_item *item)
{
  int picked = 0;
  while (picked < item->kernel_count && item->kernels[picked].picked)
    picked++;
  item->kernel_count = picked;
}

static fat_status append(fat_agenda *agenda, const fat_item *item, fat_error *err)
{
  fat_item *larger = fat_grow(agenda->list, agenda->count, sizeof *larger);
  if (!larger)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the list of problems");
  agenda->list = larger;
  agenda->list[agenda->count++] = *item;
  return FAT_OK;
}

/* Appends a problem with its kernels. One that no kernel serves is left out, with the reason in *why. */
static fat_status consider(const listing *l, const fat_problem *problem, fat_error *why, fat_error *err)
{
  fat_item item = {.problem = *problem};
  fat_error reason = {0};
  FAT_TRY(fat_problem_check(problem, err));
  FAT_TRY(serve(l, &item, &reason, err));
  if (l->goal->effort == FAT_KNOWN && l->goal->kernel_count == 0)
    leave_baselines(&item);
  if (item.kernel_count > 0)
    return append(l->agenda, &item, err);
  if (why->status == FAT_OK)
    *why = reason;
  return FAT_OK;
}

/* Adds the expressions of the goal. */
static fat_status add_mods(const fat_goal *goal, fat_problem *p, fat_error *err)
{
  if (goal->mod)
    FAT_TRY(fat_mod_add(goal->mod->text, FAT_MOD, p, err));
  return goal->mask_mod ? fat_mod_add(goal->mask_mod->text, FAT_MASK_MOD, p, err) : FAT_OK;
}

fat_status fat_agenda_problem(const fat_goal *goal, const char *text, bool family, fat_problem *p,
                              fat_error *err)
{
  const fat_status status = family ? fat_problem_parse_family(text, p, err) : fat_problem_parse(text, p, err);
  if (status != FAT_OK && !family && fat_problem_parse_family(text, p, NULL) == FAT_OK)
    return fat_status_fail(
        err, FAT_E_INPUT,
        "'%s' is a family: a problem has its sizes too, like fwd-f16-b4-h16-q4096-k4096-d128 "
        "of fwd-f16-d128",
        text);
  return status == FAT_OK ? add_mods(goal, p, err) : status;
}

static bool is_listed(const fat_agenda *agenda, const fat_problem *p)
{
  char text[FAT_PROBLEM_TEXT], other[FAT_PROBLEM_TEXT];
  fat_problem_print(p, text);
  for (int i = 0; i < agenda->count; i++)
    if (strcmp(fat_problem_print(&agenda->list[i].problem, other), text) == 0)
      return true;
  return false;
}

/* One that is typed twice counts once, however it is written. */
static fat_status list_typed(const listing *l, fat_error *err)
{
  for (int i = 0; i < l->goal->problem_count; i++) {
    fat_problem p;
    fat_error why = {0};
    int before = l->agenda->count;
    FAT_TRY(fat_agenda_problem(l->goal, l->goal->problems[i], false, &p, err));
    FAT_TRY(fat_agenda_dtype(l->goal->problems[i], p.dtype, l->gpu, err));
    if (is_listed(l->agenda, &p))
      continue;
    FAT_TRY(consider(l, &p, &why, err));
    if (l->agenda->count == before)
      return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s: %s", l->goal->problems[i], why.text);
  }
  return FAT_OK;
}

/* All lengths and masks of one op, dtype and d. */
static fat_status list_dim(const listing *l, const fat_problem *family, fat_error *why, fat_error *err)
{
  static const fat_numbers one_length = {1, {FAT_ANCHOR_LENGTH}};
  const fat_numbers *lengths = l->goal->seqlens.count ? &l->goal->seqlens : &one_length;
  uint32_t masks = l->goal->causal ? l->goal->causal : 3;
  for (int causal = 0; causal < 2; causal++)
    for (int i = 0; i < lengths->count; i++) {
      if (!(masks >> causal & 1u))
        continue;
      fat_problem p = *family;
      p.q = p.k = lengths->value[i];
      p.features = causal ? 1u << FAT_CAUSAL : 0;
      fat_anchor_shape(&p, l->gpu);
      FAT_TRY(add_mods(l->goal, &p, err));
      FAT_TRY(consider(l, &p, why, err));
    }
  return FAT_OK;
}

static fat_status list_dtype(const listing *l, fat_op op, fat_dtype dtype, fat_error *why, fat_error *err)
{
  int dims = l->goal->dims.count ? l->goal->dims.count : (int)(sizeof default_dims / sizeof default_dims[0]);
  for (int i = 0; i < dims; i++) {
    int32_t d = (int32_t)(l->goal->dims.count ? l->goal->dims.value[i] : default_dims[i]);
    fat_problem family = {.op = op, .dtype = dtype, .d = d, .dv = d};
    FAT_TRY(list_dim(l, &family, why, err));
  }
  return FAT_OK;
}

static fat_status list_families(const listing *l, fat_error *err)
{
  fat_error why = {0};
  uint32_t ops = l->goal->ops ? l->goal->ops : 1u << FAT_FWD;
  for (int op = 0; op < FAT_OP_COUNT; op++)
    for (int dtype = 0; dtype < FAT_DTYPE_COUNT; dtype++) {
      char argument[32] = "--dtypes ";
      fat_error none = {0};
      bool given = l->goal->dtypes >> dtype & 1u;
      int before = l->agenda->count;
      if (!(ops >> op & 1u) || (l->goal->dtypes && !given))
        continue;
      strcat(argument, fat_dtypes[dtype].name);
      if (fat_agenda_dtype(argument, (fat_dtype)dtype, l->gpu, given ? err : NULL) != FAT_OK) {
        if (given)
          return err ? err->status : FAT_E_INPUT;
        continue;
      }
      FAT_TRY(list_dtype(l, (fat_op)op, (fat_dtype)dtype, &none, err));
      if (given && l->agenda->count == before && none.status)
        return fat_status_fail(err, ops == 1u << FAT_FWD ? FAT_E_INPUT : FAT_E_UNSUPPORTED, "%s: %s",
                               argument, none.text);
      if (why.status == FAT_OK)
        why = none;
    }
  if (l->agenda->count == 0)
    return fat_status_fail(err, FAT_E_UNSUPPORTED, "no kernel of these templates serves what was asked: %s",
                           why.text);
  return FAT_OK;
}

fat_status fat_agenda_list(const fat_goal *goal, const fat_gpu *gpu, fat_script *script, fat_agenda *agenda,
                           fat_error *err)
{
  *agenda = (fat_agenda){0};
  const listing l = {goal, gpu, script, agenda};
  fat_status status = goal->problem_count ? list_typed(&l, err) : list_families(&l, err);
  if (status != FAT_OK)
    fat_agenda_free(agenda);
  return status;
}

fat_status fat_agenda_grid(const fat_goal *goal, const fat_gpu *gpu, fat_script *script, fat_agenda *agenda,
                           fat_error *err)
{
  const listing l = {goal, gpu, script, agenda};
  int mains = agenda->count;
  for (int i = 0; i < mains; i++) {
    fat_problem p;
    for (int n = 0; fat_anchor_other(&agenda->list[i].problem, n, gpu, &p); n++) {
      fat_error why = {0};
      int before = agenda->count;
      FAT_TRY(consider(&l, &p, &why, err));
      if (agenda->count == before)
        continue;
      fat_item *item = &agenda->list[before];
      leave_baselines(item);
      item->main_plus_1 = 1 + i;
      agenda->count -= item->kernel_count == 0;
    }
  }
  return FAT_OK;
}

bool fat_agenda_has(const fat_item *item, const char *kernel)
{
  for (int i = 0; i < item->kernel_count; i++)
    if (strcmp(item->kernels[i].name, kernel) == 0)
      return true;
  return false;
}

fat_status fat_agenda_check(const fat_goal *goal, const fat_gpu *gpu, fat_script *script,
                            const fat_agenda *agenda, fat_error *err)
{
  for (int i = 0; i < goal->only.count; i++) {
    fat_error first = {0}, why = {0};
    fat_config config;
    fat_point point;
    bool suits = false;
    FAT_TRY(fat_config_parse(goal->only.config[i], &config, err));
    for (int a = 0; a < agenda->count && !suits; a++) {
      const fat_item *item = &agenda->list[a];
      if (!fat_agenda_has(item, config.kernel))
        continue;
      suits = fat_space_point(script, &config, &item->problem, gpu, &point, &why) == FAT_OK;
      first = first.status == FAT_OK ? why : first;
    }
    if (!suits)
      return fat_status_fail(err, FAT_E_INPUT, "--config: %s%s", first.status ? first.text : config.kernel,
                             first.status ? "" : " is tried for none of the problems");
  }
  return FAT_OK;
}

void fat_agenda_shard(fat_agenda *agenda, int index, int count)
{
  int kept = 0;
  for (int i = 0; i < agenda->count; i++) {
    fat_item item = agenda->list[i];
    const int main = item.main_plus_1 > 0 ? item.main_plus_1 - 1 : i;
    if (main % count != index - 1)
      continue;
    if (item.main_plus_1 > 0)
      item.main_plus_1 = 1 + main / count;
    agenda->list[kept++] = item;
  }
  agenda->count = kept;
}

void fat_agenda_free(fat_agenda *agenda)
{
  free(agenda->list);
  *agenda = (fat_agenda){0};
}
