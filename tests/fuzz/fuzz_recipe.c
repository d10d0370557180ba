/* fuzz_recipe.c -- libFuzzer: any bytes as the text of a recipe.
 *
 * What is refused must say why. What is read must print to a text that reads back to the same struct and
 * prints the same again, and evaluates to numbers within their ranges or to an error, whatever the sizes.
 * Corpus: tests/fuzz/corpus/recipe. */
#include "recipe.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with a message of the fuzzer's own: the input is then kept as a crash. */
static void require(int holds)
{
  if (!holds)
    abort();
}

static void try_sizes(const fat_recipe *r, const fat_sizes *sizes)
{
  int64_t workspace = -1;
  fat_error err = {0};
  if (fat_recipe_workspace(r, sizes, &workspace, &err) != FAT_OK)
    require(err.status == FAT_E_INPUT && err.text[0] != 0);
  else
    require(workspace >= 0);
  if (fat_recipe_valid(r, sizes, &err) != FAT_OK)
    require(r->valids > 0 && err.status == FAT_E_UNSUPPORTED && err.text[0] != 0);
  for (int i = 0; i < r->steps; i++) {
    fat_step_values v;
    if (fat_recipe_step(r, i, sizes, &v, &err) != FAT_OK) {
      require(err.status == FAT_E_INPUT && err.text[0] != 0);
      continue;
    }
    require(v.offset >= 0 && v.bytes >= 0 && v.offset + v.bytes <= workspace);
    require(v.grid >= 0 && v.grid <= INT32_MAX && v.block >= 0 && v.block <= 1024);
    require(v.shared >= 0 && v.shared <= 1 << 20);
    require(v.cluster >= 0 && v.cluster <= 8 && (v.cluster == 0 || v.grid % v.cluster == 0));
    require(v.heads >= 0 && v.heads <= 256);
    for (int a = 0; a < r->step[i].args; a++) {
      fat_arg_kind kind = r->step[i].arg[a].kind;
      require(kind != FAT_ARG_WS || (v.arg[a] >= 0 && v.arg[a] <= workspace));
      require(kind != FAT_ARG_MAP || (v.arg[a] >= 1 && v.arg[a] <= 256));
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static fat_recipe r, again; /* large */
  static const fat_sizes sizes[] = {{2, 16, 4, 4096, 4097, 132, 2 * 4096, 2 * 4097, 1023, 0, 256, 64},
                                    {0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0},
                                    {INT32_MAX, INT32_MAX, 1, INT32_MAX, INT32_MAX, 1000, INT64_MAX,
                                     INT64_MAX, INT32_MAX, INT32_MAX, 1, INT32_MAX},
                                    {INT64_MAX, INT64_MIN, -1, INT64_MIN, INT64_MAX, INT64_MIN, -1, INT64_MIN,
                                     INT64_MIN, -1, INT64_MAX, INT64_MIN}};
  fat_text once = {0}, twice = {0};
  fat_error err = {0};
  char *text = malloc(size + 1); /* of its exact size, so that a read behind the end is seen */
  require(text != NULL);
  memcpy(text, data, size);
  text[size] = 0;
  if (fat_recipe_parse(text, &r, &err) != FAT_OK)
    require(err.status == FAT_E_INPUT && err.text[0] != 0);
  else {
    fat_recipe_print(&r, &once);
    require(fat_recipe_parse(fat_text_get(&once), &again, NULL) == FAT_OK);
    require(memcmp(&r, &again, sizeof r) == 0);
    fat_recipe_print(&again, &twice);
    require(strcmp(fat_text_get(&once), fat_text_get(&twice)) == 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      try_sizes(&r, &sizes[i]);
  }
  fat_text_free(&once);
  fat_text_free(&twice);
  free(text);
  return 0;
}
