/* rendered.c -- a config is rendered once more: its hash is compared, its recipe says how large a workspace
 * is and which sizes it is not valid for. What cannot be rendered any more is not known, and no error. */
#include "rendered.h"

#include "recipe.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

fat_rendered fat_rendered_today(fat_script *script, const fat_problem *p, const fat_gpu *gpu,
                                const char *config, const char *hash)
{
  fat_rendered today = {.workspace = -1};
  fat_config c;
  fat_source source;
  fat_recipe *recipe;
  if (fat_config_parse(config, &c, &today.unwritten) != FAT_OK ||
      fat_source_render(script, p, gpu, &c, FAT_LINES_TEMPLATE, &source, &today.unwritten) != FAT_OK)
    return today;
  if (hash)
    today.source = strcmp(source.hash, hash) == 0 ? "same" : "changed";
  if (fat_recipe_make(fat_text_get(&source.recipe), &recipe, NULL) == FAT_OK) {
    const fat_sizes sizes = fat_recipe_sizes(p, gpu->sms);
    fat_recipe_check(recipe, &sizes, &today.invalid);
    if (fat_recipe_workspace(recipe, &sizes, &today.workspace, NULL) != FAT_OK)
      today.workspace = -1;
    free(recipe);
  }
  fat_source_free(&source);
  return today;
}
