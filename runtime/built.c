/* built.c -- what of a family's plan is built: what was before, and what the call at hand needs.
 *
 * In: shapes, some of which wait for their kernels, and a call. Out: the same with the call's kernel, so that
 * it is given what it would be given if all were built. A kernel that turns out not to compile or to load
 * leaves its shape to the next row, as where all is built at once. */
#include "shapes.h"

#include <string.h>

fat_status fat_built_begin(fat_choosing *c, fat_family *family, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  FAT_TRY(fat_family_begin(family, c->ask.before, err));
  c->loader.known = family->code;
  c->loader.known_count = family->codes;
  for (int i = 0; i < family->shapes; i++)
    fat_text_format(&family->text, "variant %s %s %s\n",
                    fat_problem_print(&family->shape[i].problem, problem),
                    fat_pick_step_name(FAT_PICK_DEFAULT), family->code[family->shape[i].main].config);
  return FAT_OK;
}

/* Chooses a shape again that is not built; one that cannot be built goes. */
static fat_status choose_again(fat_choosing *c, fat_shapes *s, int i, bool later, fat_pick *pick,
                               fat_family *family, int *taken, fat_error *err)
{
  const fat_shape *shape = family->shape;
  bool one = false;
  while (shape->main >= 0 || !fat_candidate_same(&shape->problem, &s->list[i].row))
    shape++;
  fat_family_remove(family, shape);
  s->list[i].unbuilt = false;
  if (family->codes + 2 > FAT_FAMILY_CODES) {
    --*taken;
    return FAT_OK;
  }
  c->brief = true;
  c->loader.later = later;
  fat_status status = fat_choose_shape(c, s, i, pick, family, &one, err);
  c->brief = c->loader.later = false;
  *taken -= !one;
  return status;
}

/* Builds a shape that a call needs. */
static fat_status build_shape(fat_choosing *c, fat_shapes *s, const fat_shape *shape, fat_pick *pick,
                              fat_family *family, int *taken, fat_error *err)
{
  int i = 0;
  while (!s->list[i].unbuilt || !fat_candidate_same(&s->list[i].row, &shape->problem))
    i++;
  return choose_again(c, s, i, false, pick, family, taken, err);
}

static bool has_config(const fat_family *family, const char *config)
{
  for (int i = 0; i < family->codes; i++)
    if (strcmp(family->code[i].config, config) == 0)
      return true;
  return false;
}

/* Shapes that are served by kernels which are there by now: what was compiled for one is another's, too. */
static fat_status share_built(fat_choosing *c, fat_shapes *s, fat_pick *pick, fat_family *family, int *taken,
                              fat_error *err)
{
  for (int i = 0; i < s->count; i++)
    if (s->list[i].unbuilt && has_config(family, s->list[i].config))
      FAT_TRY(choose_again(c, s, i, true, pick, family, taken, err));
  return FAT_OK;
}

fat_status fat_built_for_call(fat_choosing *c, fat_shapes *s, fat_pick *pick, fat_family *family, int *taken,
                              fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  const fat_shape *shape;
  const fat_room room = fat_reach_room(c->ask.device);
  fat_family_need need = FAT_NEEDS_NOTHING;
  while (c->ask.call && (need = fat_family_needs(family, c->ask.call, &room, c->ask.device->sms, &shape)) !=
                            FAT_NEEDS_NOTHING) {
    family->far_unbuilt &= need != FAT_NEEDS_FAR;
    FAT_TRY(need == FAT_NEEDS_FAR ? fat_choose_far(c, s, false, pick, family, err)
                                  : build_shape(c, s, shape, pick, family, taken, err));
  }
  FAT_TRY(share_built(c, s, pick, family, taken, err));
  for (int i = 0; i < s->count; i++)
    if (s->list[i].unbuilt)
      fat_text_format(&family->text, "variant %s %s %s unbuilt\n",
                      fat_problem_print(&s->list[i].problem, problem), fat_pick_step_name(s->list[i].step),
                      s->list[i].config);
  return FAT_OK;
}
