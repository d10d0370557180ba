/* fuzz_problem.c -- libFuzzer: any bytes as the text of a problem, of a family and of a config.
 *
 * What is refused must say why. What is read must print to a text that reads back to the same struct and
 * prints the same again. Corpus: tests/fuzz/corpus/problem. */
#include "config.h"
#include "problem.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with a message of the fuzzer's own: the input is then kept as a crash. */
static void require(int holds)
{
  if (!holds)
    abort();
}

static int same(const fat_problem *a, const fat_problem *b)
{
  return a->op == b->op && a->dtype == b->dtype && a->b == b->b && a->h == b->h && a->hk == b->hk &&
         a->q == b->q && a->k == b->k && a->d == b->d && a->dv == b->dv && a->features == b->features &&
         memcmp(a->arg, b->arg, sizeof a->arg) == 0;
}

static void try_problem(const char *text, fat_status (*parse)(const char *, fat_problem *, fat_error *),
                        const char *(*print)(const fat_problem *, char *))
{
  fat_problem p, again;
  fat_error err = {0};
  char once[FAT_PROBLEM_TEXT], twice[FAT_PROBLEM_TEXT];
  if (parse(text, &p, &err) != FAT_OK) {
    require(err.status == FAT_E_INPUT && err.text[0] != 0);
    return;
  }
  require(fat_problem_check(&p, NULL) == FAT_OK);
  print(&p, once);
  require(parse(once, &again, NULL) == FAT_OK && same(&p, &again));
  require(strcmp(once, print(&again, twice)) == 0);
  require(strlen(once) <= strlen(text) + strlen("-causal")); /* w7.0 is written causal-w7.0 */
  require(fat_problem_flops(&p) >= 0);
}

static void try_config(const char *text)
{
  fat_config c, again;
  fat_error err = {0};
  char once[FAT_CONFIG_TEXT];
  if (fat_config_parse(text, &c, &err) != FAT_OK) {
    require(err.status == FAT_E_INPUT && err.text[0] != 0);
    return;
  }
  require(strcmp(fat_config_print(&c, once), text) == 0);
  require(fat_config_parse(once, &again, NULL) == FAT_OK && memcmp(&c, &again, sizeof c) == 0);
  for (int i = 0; i < c.count; i++) {
    int32_t value;
    require(fat_config_get(&c, c.values[i].name, &value) == FAT_OK && value == c.values[i].value);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1); /* of its exact size, so that a read behind the end is seen */
  require(text != NULL);
  memcpy(text, data, size);
  text[size] = 0;
  try_problem(text, fat_problem_parse, fat_problem_print);
  try_problem(text, fat_problem_parse_family, fat_problem_family);
  try_config(text);
  free(text);
  return 0;
}
