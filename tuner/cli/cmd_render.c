/* cmd_render.c -- `fatune render PROBLEM`: the CUDA text of one kernel, on stdout, without any GPU.
 *
 * In: a problem, a GPU, maybe a kernel or a config; without one, what is stored decides as it does for a
 * call. Out: the text exactly as tune compiles it (with
 * --lines generated: without its #line marks), which nvcc takes as it stands. */
#include "search/agenda.h"
#include "commands.h"
#include "exit.h"
#include "open.h"
#include "search/fitting.h"
#include "rather.h"
#include "source.h"
#include "usual.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The config of the stored row that a call would get; where there is none, what it is given instead of the
 * default in `config`. What cannot be opened is none: a default is always there. */
static fat_status find_stored(const fat_options *o, fat_script *script, const fat_problem *p,
                              const fat_asked_gpu *asked, char config[FAT_CONFIG_TEXT], fat_error *err)
{
  fat_db *db = NULL;
  fat_text path = {0};
  fat_pick_rows rows = {0}, plain_rows = {0};
  fat_pick pick;
  const fat_pick_question question = {.problem = p,
                                      .gpu = &asked->gpu,
                                      .kernel = o->goal.kernel_count ? o->goal.kernels[0] : NULL,
                                      .near = true,
                                      .driver = asked->at_hand ? asked->driver : NULL,
                                      .templates = fat_script_templates_hash(script),
                                      .now = (int64_t)time(NULL)};
  fat_error why = {0};
  fat_status status = fat_open_db_if_any(o, &db, &path, &why);
  if (status != FAT_OK && o->db)
    fat_status_fail(err, status, "%s", why.text);
  else if (db)
    status = fat_fitting_answer(db, script, &question, &rows, &pick, err);
  else {
    if (status != FAT_OK)
      fprintf(stderr, "fatune: note: this is the default, since %s\n", why.text);
    status = FAT_E_NOT_FOUND;
  }
  if (status == FAT_OK && pick.row[pick.step].found)
    snprintf(config, FAT_CONFIG_TEXT, "%s", pick.row[pick.step].config);
  else if (status == FAT_OK)
    status = fat_rather_find(&(fat_rather){o, asked, script, db, &question, &plain_rows}, &pick, config, err);
  fat_pick_rows_free(&rows);
  fat_pick_rows_free(&plain_rows);
  fat_db_close(db);
  fat_text_free(&path);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* The default config of --kernel, else that which a call is given where nothing is measured. */
static fat_status choose_default(const fat_options *o, fat_script *script, const fat_problem *p,
                                 const fat_gpu *gpu, fat_config *config, fat_error *err)
{
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  fat_point point;
  int count, unasked;
  if (o->goal.kernel_count > 1)
    return fat_status_fail(err, FAT_E_INPUT, "--kernel: render takes one name, not %d", o->goal.kernel_count);
  FAT_TRY(fat_agenda_kernels(&o->goal, script, names, &count, err));
  FAT_TRY(
      fat_usual_find(script, o->goal.kernel_count ? names[0] : NULL, p, gpu, true, &point, &unasked, err));
  *config = point.config;
  return FAT_OK;
}

static fat_status render_given(const fat_options *o, fat_script *script, const fat_problem *p,
                               const fat_gpu *gpu, fat_source *source, fat_error *err)
{
  fat_config config;
  FAT_TRY(fat_config_parse(o->config, &config, err));
  if (o->goal.kernel_count && strcmp(o->goal.kernels[0], config.kernel) != 0)
    return fat_status_fail(err, FAT_E_INPUT, "--config %s is not one of --kernel %s", o->config,
                           o->goal.kernels[0]);
  return fat_source_render(script, p, gpu, &config, o->lines, source, err);
}

/* What a call would get: the stored row, where today's templates still have its config, else the default or
 * what stands in its place. */
static fat_status render_picked(const fat_options *o, fat_script *script, const fat_problem *p,
                                const fat_asked_gpu *asked, fat_source *source, fat_error *err)
{
  char given[FAT_CONFIG_TEXT] = "";
  fat_config usual, config;
  fat_error unserved = {0};
  const fat_status status = choose_default(o, script, p, &asked->gpu, &usual, &unserved);
  if (status == FAT_OK)
    fat_config_print(&usual, given);
  FAT_TRY(find_stored(o, script, p, asked, given, err));
  if (*given && fat_config_parse(given, &config, NULL) == FAT_OK &&
      fat_source_render(script, p, &asked->gpu, &config, o->lines, source, NULL) == FAT_OK)
    return FAT_OK;
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s", unserved.text);
  return fat_source_render(script, p, &asked->gpu, &usual, o->lines, source, err);
}

static fat_status render_text(const fat_options *o, fat_source *source, fat_error *err)
{
  fat_script *script = NULL;
  fat_problem problem;
  fat_asked_gpu asked;
  FAT_TRY(fat_agenda_problem(&o->goal, o->args[0], false, &problem, err));
  FAT_TRY(fat_open_gpu(o, &asked, err));
  FAT_TRY(fat_agenda_dtype(o->args[0], problem.dtype, &asked.gpu, err));
  FAT_TRY(fat_open_script(o, &script, err));
  fat_status status = o->config ? render_given(o, script, &problem, &asked.gpu, source, err)
                                : render_picked(o, script, &problem, &asked, source, err);
  fat_script_close(script);
  return status;
}

static int render(const fat_options *options)
{
  fat_source source = {0};
  fat_error err = {0};
  fat_status status = render_text(options, &source, &err);
  int code = status == FAT_OK ? fat_exit_print(fat_text_get(&source.text)) : fat_exit_fail(&err);
  fat_source_free(&source);
  return code;
}

const fat_command fat_cmd_render = {
    .name = "render",
    .args = "PROBLEM",
    .about = "print the CUDA text of one kernel",
    .more =
        "It is the kernel that a call would get here: the tuned one where there is one, else the default "
        "or, where a feature's family has no rows, what won without the feature and spills nothing with it; "
        "--kernel and --config name another. PROBLEM is like fwd-f32-b1-h1-q64-k64-d64 or "
        "fwd-f32-b2-h16k4-q4096-k4096-d128-causal. The first "
        "lines of the text say how nvcc compiles it.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(GPU) | FAT_USE(MOD) | FAT_USE(MASK_MOD) | FAT_USE(ONE_KERNEL) | FAT_USE(CONFIG) |
            FAT_USE(LINES) | FAT_USE(DB) | FAT_USE(TEMPLATES),
    .least = 1,
    .most = 1,
    .run = render,
};
