/* rather.c -- what a call gets where nothing stored serves its family, as the library has it
 * (runtime/choose.c, choose_family.c, take.c, jit.c): the default, in whose place stands what won for the
 * plain family where it is of the default's kernel, serves the call, and spills nothing; and defaults of
 * their own for one row of Q and, where the plain family was measured, for few heads.
 *
 * Without NVRTC nobody can say whether it spills; nor could a call be given what is not stored. */
#include "rather.h"

#include "anchor.h"
#include "compile.h"
#include "source.h"
#include "usual.h"

#include <stdio.h>
#include <stdlib.h>
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
  fat_candidate won;
  char text[FAT_PROBLEM_TEXT];
  if (pick->step != FAT_PICK_DEFAULT)
    return FAT_OK;
  FAT_TRY(fat_pick_plain(asked->db, q, asked->plain_rows, &plain, &won, err));
  if (!won.found || fat_config_parse(config, &usual, NULL) != FAT_OK ||
      !fat_usual_yields(asked->script, &usual, won.config, q->problem, q->gpu, &other) ||
      (strcmp(won.config, config) != 0 && !is_lean(asked, &other)))
    return FAT_OK;
  fat_config_print(&other, config);
  snprintf(pick->why[FAT_PICK_DEFAULT], sizeof pick->why[FAT_PICK_DEFAULT], "%s: what won for %s",
           pick->far ? "what is stored lies too far off" : "nothing stored serves it",
           fat_problem_print(&plain, text));
  return FAT_OK;
}

/* The default of a shape beside the main anchor's, as a line; nothing where it has none. */
static fat_status add_shape(const fat_rather *asked, const fat_problem *shape, fat_text *shapes,
                            fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
  fat_pick_question q = *asked->question;
  fat_rather other = *asked;
  fat_point point;
  int unasked;
  if (fat_usual_find(asked->script, NULL, shape, &asked->gpu->gpu, true, &point, &unasked, NULL) != FAT_OK)
    return FAT_OK;
  fat_pick *pick = calloc(1, sizeof *pick);
  if (!pick)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a pick");
  pick->step = FAT_PICK_DEFAULT;
  fat_config_print(&point.config, config);
  q.problem = shape;
  other.question = &q;
  const fat_status status = fat_rather_find(&other, pick, config, err);
  free(pick);
  fat_text_format(shapes, "%s %s\n", fat_problem_print(shape, problem), config);
  return status;
}

/* Of a family with rows: those shapes that all of them lie far off. `pick` and `rows` are room for answers,
 * which the command's own may not be: its scores are told later. */
static fat_status add_far(const fat_rather *asked, fat_pick *pick, fat_pick_rows *rows, fat_text *shapes,
                          fat_error *err)
{
  fat_problem shape;
  fat_pick_question q = *asked->question;
  q.problem = &shape;
  for (int i = 0; i < FAT_ANCHOR_BESIDES; i++) {
    if (!fat_anchor_default(asked->question->problem, (fat_anchor_beside)i, &asked->gpu->gpu, &shape))
      continue;
    FAT_TRY(fat_pick_answer(asked->db, &q, rows, pick, err));
    if (pick->far)
      FAT_TRY(add_shape(asked, &shape, shapes, err));
  }
  return FAT_OK;
}

fat_status fat_rather_shapes(const fat_rather *asked, const fat_pick *pick, const char *config,
                             fat_text *shapes, fat_error *err)
{
  char main[FAT_PROBLEM_TEXT];
  const fat_gpu *gpu = &asked->gpu->gpu;
  const fat_problem *p = asked->question->problem;
  fat_problem shape, plain;
  fat_candidate won;
  if (pick->step < FAT_PICK_DEFAULT) {
    fat_pick_rows rows = {0};
    fat_pick *answer = calloc(1, sizeof *answer);
    const fat_status status = answer ? add_far(asked, answer, &rows, shapes, err)
                                     : fat_status_fail(err, FAT_E_NOMEM, "out of memory for a pick");
    fat_pick_rows_free(&rows);
    free(answer);
    return status;
  }
  if (pick->step > FAT_PICK_DEFAULT)
    return FAT_OK;
  fat_text_format(shapes, "%s %s\n", fat_problem_print(p, main), config);
  if (fat_anchor_default(p, FAT_ANCHOR_ONE_ROW, gpu, &shape))
    FAT_TRY(add_shape(asked, &shape, shapes, err));
  FAT_TRY(fat_pick_plain(asked->db, asked->question, asked->plain_rows, &plain, &won, err));
  if (!won.found || !fat_anchor_default(p, FAT_ANCHOR_FEW_HEADS, gpu, &shape))
    return FAT_OK;
  return add_shape(asked, &shape, shapes, err);
}
