/* recipe_values.c -- the numbers of a recipe's launches, and for which sizes there are any.
 *
 * In: a recipe, sizes. Out: numbers, each checked for the range of what it is used as before anything is
 * launched with it. Runs in calls: nothing is allocated. */
#include "recipe.h"
#include "map.h"
#include <inttypes.h>

enum { BLOCK_MOST = 1024, SHARED_MOST = 1 << 20, BOX_MOST = 256, CLUSTER_MOST = 8 };

/* Evaluates one value of a step and checks its range. `what` names it in an error. */
static fat_status bounded(const fat_expr *e, const fat_sizes *sizes, const char *what, int64_t least,
                          int64_t most, int64_t *value, fat_error *err)
{
  fat_error why; /* this runs in every call: its text is left as it is */
  if (fat_expr_eval(e, sizes, value, &why) != FAT_OK)
    return fat_status_fail(err, FAT_E_INPUT, "recipe: %s: %s", what, why.text);
  if (*value < least || *value > most)
    return fat_status_fail(err, FAT_E_INPUT, "recipe: %s is %" PRId64 ": allowed are %" PRId64 " to %" PRId64,
                           what, *value, least, most);
  return FAT_OK;
}

static fat_status box_height(const fat_expr *e, fat_tensor tensor, int64_t heads, const fat_sizes *sizes,
                             int64_t *value, fat_error *err)
{
  FAT_TRY(bounded(e, sizes, "the height of a tensor map's box", 1, BOX_MOST, value, err));
  const fat_map_box box = fat_map_box_of(tensor, *value, heads);
  if (box.heads > 0 && box.rows % box.heads != 0)
    return fat_status_fail(err, FAT_E_INPUT,
                           "recipe: %" PRId64 " rows of a box are no multiple of %" PRId64 " heads", box.rows,
                           box.heads);
  return FAT_OK;
}

const char *fat_recipe_mapped(const fat_recipe *r)
{
  for (int i = 0; i < r->steps; i++)
    for (int a = 0; a < r->step[i].args; a++)
      if (r->step[i].arg[a].kind == FAT_ARG_MAP)
        return r->step[i].entry;
  return NULL;
}

const char *fat_recipe_clustered(const fat_recipe *r)
{
  for (int i = 0; i < r->steps; i++)
    if (r->step[i].cluster.count > 0)
      return r->step[i].entry;
  return NULL;
}

fat_sizes fat_recipe_sizes(const fat_problem *p, int64_t sms)
{
  fat_sizes s = {.b = p->b, .h = p->h, .hk = p->hk, .q = p->q, .k = p->k, .sms = sms};
  s.tq = fat_problem_has(p, FAT_VARLEN) ? fat_draw_total(p, 0) : p->b * p->q;
  s.tk = fat_problem_has(p, FAT_VARLEN) ? fat_draw_total(p, 1) : p->b * p->k;
  s.left = s.right = FAT_PROBLEM_ALL;
  if (fat_problem_has(p, FAT_WINDOW)) {
    s.left = (int64_t)p->arg[FAT_WINDOW][0];
    s.right = (int64_t)p->arg[FAT_WINDOW][1];
  }
  if (fat_problem_has(p, FAT_CAUSAL))
    s.right = 0;
  s.chunk = fat_problem_has(p, FAT_CHUNK) ? (int64_t)p->arg[FAT_CHUNK][0] : 0;
  s.split = fat_problem_has(p, FAT_SPLIT) ? (int64_t)p->arg[FAT_SPLIT][0] : 0;
  return s;
}

fat_status fat_recipe_valid(const fat_recipe *r, const fat_sizes *sizes, fat_error *err)
{
  for (int i = 0; i < r->valids; i++) {
    fat_error why;
    int64_t value;
    if (fat_expr_eval(&r->valid[i], sizes, &value, &why) != FAT_OK)
      return fat_status_fail(err, FAT_E_UNSUPPORTED, "the config is not valid for these sizes: %s", why.text);
    if (value > 0)
      continue;
    char room[FAT_EXPR_CODE * FAT_EXPR_TEXT] = "";
    fat_text text = {.data = room,
                     .room = sizeof room}; /* which never grows: a call passes such configs by */
    fat_expr_print(&r->valid[i], &text);
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "the config is not valid for these sizes: %s is %" PRId64 ", it must be above 0",
                           room, value);
  }
  return FAT_OK;
}

fat_status fat_recipe_check(const fat_recipe *r, const fat_sizes *sizes, fat_error *err)
{
  fat_error why;
  fat_step_values values;
  int64_t workspace;
  FAT_TRY(fat_recipe_valid(r, sizes, err));
  fat_status status = fat_recipe_workspace(r, sizes, &workspace, &why);
  for (int i = 0; i < r->steps && status == FAT_OK; i++)
    status = fat_recipe_step(r, i, sizes, &values, &why);
  if (status != FAT_OK)
    return fat_status_fail(err, FAT_E_UNSUPPORTED, "the config cannot be launched for these sizes: %s",
                           why.text);
  return FAT_OK;
}

fat_status fat_recipe_workspace(const fat_recipe *r, const fat_sizes *sizes, int64_t *bytes, fat_error *err)
{
  *bytes = 0;
  return r->workspace.count > 0 ? bounded(&r->workspace, sizes, "workspace", 0, INT64_MAX, bytes, err)
                                : FAT_OK;
}

fat_status fat_recipe_step(const fat_recipe *r, int step, const fat_sizes *sizes, fat_step_values *values,
                           fat_error *err)
{
  if (step < 0 || step >= r->steps)
    return fat_status_fail(err, FAT_E_INPUT, "recipe: step %d of %d does not exist", step, r->steps);
  const fat_step *s = &r->step[step];
  int64_t workspace;
  *values = (fat_step_values){0};
  FAT_TRY(fat_recipe_workspace(r, sizes, &workspace, err));
  if (s->kind == FAT_STEP_CLEAR) {
    FAT_TRY(bounded(&s->offset, sizes, "the offset of a clear", 0, workspace, &values->offset, err));
    return bounded(&s->bytes, sizes, "the bytes of a clear", 0, workspace - values->offset, &values->bytes,
                   err);
  }
  /* A problem with a zero length has nothing to launch: an empty grid is no error then. */
  int64_t least = sizes->b > 0 && sizes->h > 0 && sizes->q > 0 && sizes->k > 0;
  FAT_TRY(bounded(&s->grid, sizes, "grid", least, INT32_MAX, &values->grid, err));
  FAT_TRY(bounded(&s->block, sizes, "block", least, BLOCK_MOST, &values->block, err));
  FAT_TRY(bounded(&s->shared, sizes, "shared", 0, SHARED_MOST, &values->shared, err));
  if (s->cluster.count > 0) {
    FAT_TRY(bounded(&s->cluster, sizes, "cluster", 1, CLUSTER_MOST, &values->cluster, err));
    if (values->grid % values->cluster != 0)
      return fat_status_fail(
          err, FAT_E_INPUT, "recipe: a grid of %" PRId64 " blocks is no multiple of its clusters of %" PRId64,
          values->grid, values->cluster);
  }
  if (s->heads.count > 0)
    FAT_TRY(bounded(&s->heads, sizes, "heads of a box", 1, BOX_MOST, &values->heads, err));
  for (int a = 0; a < s->args; a++) {
    const fat_expr *value = &s->arg[a].value;
    if (s->arg[a].kind == FAT_ARG_WS)
      FAT_TRY(bounded(value, sizes, "a workspace argument", 0, workspace, &values->arg[a], err));
    else if (s->arg[a].kind == FAT_ARG_INT)
      FAT_TRY(bounded(value, sizes, "an int argument", INT32_MIN, INT32_MAX, &values->arg[a], err));
    else if (s->arg[a].kind == FAT_ARG_MAP)
      FAT_TRY(box_height(&s->arg[a].value, s->arg[a].tensor, values->heads, sizes, &values->arg[a], err));
  }
  return FAT_OK;
}
