/* rather.c -- what won for the plain family stands in the default's place, as the library has it
 * (runtime/take.c, jit.c): where it is of the default's kernel, serves the call, and spills nothing.
 *
 * Without NVRTC nobody can say whether it spills; nor could a call be given what is not stored. */
#include "rather.h"

#include "compile.h"
#include "feature.h"
#include "source.h"
#include "space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double deadline = 60; /* seconds of a compile */

static bool serves(const fat_rather *asked, const char *text, const char *instead, fat_config *config)
{
  const fat_pick_question *q = asked->question;
  fat_config usual;
  fat_point point;
  return fat_config_parse(text, config, NULL) == FAT_OK &&
         fat_config_parse(instead, &usual, NULL) == FAT_OK && strcmp(config->kernel, usual.kernel) == 0 &&
         fat_space_point(asked->script, config, q->problem, q->gpu, &point, NULL) == FAT_OK;
}

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

/* What won where the problem is `family`, if that serves what is asked. */
static fat_status find_won(const fat_rather *asked, const fat_problem *family, fat_pick *pick,
                           char config[FAT_CONFIG_TEXT], bool *found, fat_error *err)
{
  fat_config won;
  fat_pick_question question = *asked->question;
  fat_pick_rows rows = {0};
  question.problem = family;
  const fat_status status = fat_pick_answer(asked->db, &question, &rows, pick, err);
  const char *text = pick->row[pick->step].config;
  *found = status == FAT_OK && pick->step <= FAT_PICK_NEAREST && serves(asked, text, config, &won) &&
           (strcmp(text, config) == 0 || is_lean(asked, &won));
  if (*found)
    fat_config_print(&won, config);
  fat_pick_rows_free(&rows);
  return status;
}

fat_status fat_rather_find(const fat_rather *asked, fat_pick *pick, char config[FAT_CONFIG_TEXT],
                           fat_error *err)
{
  fat_problem family;
  char text[FAT_PROBLEM_TEXT];
  bool found;
  if (!asked->db || pick->step != FAT_PICK_DEFAULT || !fat_feature_plain(asked->question->problem, &family))
    return FAT_OK;
  fat_pick *plain = calloc(1, sizeof *plain);
  if (!plain)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the steps of a pick");
  const fat_status status = find_won(asked, &family, plain, config, &found, err);
  if (found)
    snprintf(pick->why[FAT_PICK_DEFAULT], sizeof pick->why[FAT_PICK_DEFAULT],
             "nothing stored serves it: what won for %s", fat_problem_print(&family, text));
  free(plain);
  return status;
}
