/* rather.c -- what won for the plain family stands in the default's place, as the library has it
 * (runtime/take.c, jit.c): where it is of the default's kernel, serves the call, and spills nothing.
 *
 * Without NVRTC nobody can say whether it spills; nor could a call be given what is not stored. */
#include "rather.h"

#include "compile.h"
#include "source.h"
#include "usual.h"

#include <stdio.h>
#include <string.h>

static const double deadline = 60; /* seconds of a compile */

/* Whether it compiles here, without spills. */
static bool is_lean(const fat_rather *asked, const fat_config *config)
{
  const fat_pick_question *q = asked->question;
  fat_nvrtc *nvrtc = NULL;
  fat_source source = {0};
  fat_binary binary = {0};
  bool lean = fat_open_nvrtc(asked->options, asked->gpu, &nvrtc, NULL) == FAT_OK &&
              fat_source_render(asked->script, q->problem, q->gpu, config, FAT_LINES_TEMPLATE, &source,
                                NULL) == FAT_OK &&
              fat_compile(nvrtc, fat_text_get(&source.text), config->kernel, fat_gpu_arch(q->gpu->sm)->target,
                          deadline, NULL, &binary, NULL) == FAT_OK;
  for (int i = 0; lean && i < binary.entries; i++)
    lean = binary.entry[i].spills == 0;
  fat_binary_free(&binary);
  fat_source_free(&source);
  fat_nvrtc_close(nvrtc);
  return lean;
}

fat_status fat_rather_find(const fat_rather *asked, fat_pick *pick, char config[FAT_CONFIG_TEXT],
                           fat_error *err)
{
  const fat_pick_question *q = asked->question;
  fat_problem plain;
  fat_config usual, other;
  char won[FAT_CONFIG_TEXT], text[FAT_PROBLEM_TEXT];
  if (pick->step != FAT_PICK_DEFAULT)
    return FAT_OK;
  FAT_TRY(fat_pick_plain(asked->db, q, &plain, won, err));
  if (!*won || fat_config_parse(config, &usual, NULL) != FAT_OK ||
      !fat_usual_yields(asked->script, &usual, won, q->problem, q->gpu, &other) ||
      (strcmp(won, config) != 0 && !is_lean(asked, &other)))
    return FAT_OK;
  fat_config_print(&other, config);
  snprintf(pick->why[FAT_PICK_DEFAULT], sizeof pick->why[FAT_PICK_DEFAULT],
           "nothing stored serves it: what won for %s", fat_problem_print(&plain, text));
  return FAT_OK;
}
