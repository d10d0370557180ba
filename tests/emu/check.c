/* check.c -- runs kernels on the emulator inside a cmocka test. */
#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static fat_script *script;
static emu *machine;
const char *const emu_kernel_names[EMU_KERNELS] = {"standard", "fa1", "fwd"};

fat_script *emu_check_script(void)
{
  return script;
}

emu *emu_check_machine(void)
{
  return machine;
}

void emu_check_far(void)
{
  emu_reset(machine);
  if (emu_room(machine) < UINT64_C(64) << 30) {
    print_message("skipped: this machine has too few addresses for tensors of 20 GB\n");
    skip();
  }
}

bool emu_check_full(void)
{
  const char *full = getenv("FATUNE_FULL");
  return full && *full && strcmp(full, "0") != 0;
}

/* Kernels, each compiled once. */
typedef struct made {
  char key[FAT_PROBLEM_TEXT + FAT_CONFIG_TEXT + 16];
  emu_kernel kernel;
} made;
static made *all_made;
static int made_count;

static const emu_kernel *kernel_for(const emu_case *c, const fat_config *config)
{
  char key[sizeof all_made->key], family[FAT_PROBLEM_TEXT], text[FAT_CONFIG_TEXT];
  snprintf(key, sizeof key, "%s %s sm_%d", fat_problem_family(&c->problem, family),
           fat_config_print(config, text), c->gpu->sm);
  for (int i = 0; i < made_count; i++)
    if (!strcmp(all_made[i].key, key))
      return &all_made[i].kernel;
  all_made = realloc(all_made, (size_t)(made_count + 1) * sizeof *all_made);
  assert_non_null(all_made);
  made *m = &all_made[made_count];
  strcpy(m->key, key);
  fat_source source;
  fat_error err = {0};
  if (emu_kernel_render(script, &c->problem, c->gpu, config, &source, &err) != FAT_OK ||
      emu_kernel_load(fat_text_get(&source.text), fat_text_get(&source.recipe), config, &m->kernel, &err) !=
          FAT_OK)
    fail_msg("%s: %s", key, err.text);
  made_count++; /* only now: what failed is no kernel for the tests that follow */
  fat_source_free(&source);
  return &m->kernel;
}

fat_space emu_check_space(const char *name, const emu_case *c)
{
  fat_space space = {0};
  fat_error err = {0};
  if (fat_space_list(script, name, &c->problem, c->gpu, &space, &err) != FAT_OK)
    fail_msg("%s: %s", name, err.text);
  return space;
}

/* "fwd" or "fwd:Br16-...": the config that it stands for. */
fat_config emu_check_config(const char *word, const emu_case *c)
{
  fat_config config;
  fat_error err = {0};
  if (strchr(word, ':')) {
    if (fat_config_parse(word, &config, &err) != FAT_OK)
      fail_msg("%s", err.text);
    return config;
  }
  fat_point first;
  if (fat_space_default(script, word, &c->problem, c->gpu, &first, &err) != FAT_OK)
    fail_msg("%s: %s", word, err.text);
  return first.config;
}

const char *emu_check_title(const emu_case *c, const fat_config *config)
{
  static char text[FAT_PROBLEM_TEXT + FAT_CONFIG_TEXT + 100];
  char problem[FAT_PROBLEM_TEXT], name[FAT_CONFIG_TEXT];
  snprintf(text, sizeof text, "%s %s gpu=%s scale=%g lay=%s data=%s%s",
           fat_problem_print(&c->problem, problem), fat_config_print(config, name), c->gpu->name,
           (double)c->scale, emu_lay_names[c->lay], fat_data_names[c->data], c->no_lse ? " nolse" : "");
  return text;
}

fat_truth emu_check_truth(const emu_case *c)
{
  fat_truth t;
  fat_error err = {0};
  if (emu_truth_make(c, &t, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return t;
}

/* Runs, and wants no finding. */
emu_result emu_check_run(const emu_case *c, const fat_truth *t, const fat_config *config, emu_order order,
                         uint64_t seed)
{
  emu_result r;
  fat_error err = {0};
  const emu_options options = {.order = order,
                               .landing = (emu_landing)((seed + seed / 3) % 3),
                               .seed = seed,
                               .resident = 2 + (int)(seed % 3)};
  if (emu_attention_run(machine, kernel_for(c, config), c, t, &options, &r, &err) != FAT_OK)
    fail_msg("%s: %s", emu_check_title(c, config), err.text);
  if (r.report.findings)
    fail_msg("%s: %s", emu_check_title(c, config), r.report.finding[0].text);
  return r;
}

void emu_check_solves(const emu_case *c, const fat_truth *t, const fat_config *config, emu_order order,
                      uint64_t seed)
{
  char why[512];
  emu_result r = emu_check_run(c, t, config, order, seed);
  if (!emu_attention_right(c, t, &r, why, sizeof why))
    fail_msg("%s: %s", emu_check_title(c, config), why);
  emu_result_free(&r);
}

emu_case emu_check_case(const char *problem)
{
  emu_case c;
  fat_problem p;
  assert_int_equal(fat_problem_parse(problem, &p, NULL), FAT_OK);
  emu_case_plain(&c, &p);
  return c;
}

emu_case emu_check_hopper_case(const char *problem)
{
  emu_case c = emu_check_case(problem);
  assert_int_equal(fat_gpu_find("H200", &c.gpu, NULL), FAT_OK);
  return c;
}

int emu_check_open(void **state)
{
  (void)state;
  return fat_script_open(NULL, &script, NULL) != FAT_OK || emu_open(&machine, NULL) != FAT_OK;
}

int emu_check_close(void **state)
{
  (void)state;
  for (int i = 0; i < made_count; i++)
    emu_kernel_free(&all_made[i].kernel);
  free(all_made);
  emu_close(machine);
  fat_script_close(script);
  return 0;
}
