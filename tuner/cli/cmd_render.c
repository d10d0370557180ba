/* cmd_render.c -- `fatune render PROBLEM`: the CUDA text of one kernel, on stdout, without any GPU.
 *
 * In: a problem, a GPU, maybe a kernel or a config. Out: the text exactly as tune compiles it (with
 * --lines generated: without its #line marks), which nvcc takes as it stands. */
#include "search/agenda.h"
#include "commands.h"
#include "exit.h"
#include "open.h"
#include "source.h"
#include "usual.h"

#include <string.h>

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

static fat_status choose_config(const fat_options *o, fat_script *script, const fat_problem *p,
                                const fat_gpu *gpu, fat_config *config, fat_error *err)
{
  if (o->config) {
    FAT_TRY(fat_config_parse(o->config, config, err));
    if (o->goal.kernel_count && strcmp(o->goal.kernels[0], config->kernel) != 0)
      return fat_status_fail(err, FAT_E_INPUT, "--config %s is not one of --kernel %s", o->config,
                             o->goal.kernels[0]);
    return FAT_OK;
  }
  return choose_default(o, script, p, gpu, config, err);
}

static fat_status render_text(const fat_options *o, fat_source *source, fat_error *err)
{
  fat_script *script = NULL;
  fat_problem problem;
  fat_asked_gpu asked;
  fat_config config;
  FAT_TRY(fat_problem_parse(o->args[0], &problem, err));
  FAT_TRY(fat_open_gpu(o, &asked, err));
  FAT_TRY(fat_agenda_dtype(o->args[0], problem.dtype, &asked.gpu, err));
  FAT_TRY(fat_open_script(o, &script, err));
  fat_status status = choose_config(o, script, &problem, &asked.gpu, &config, err);
  if (status == FAT_OK)
    status = fat_source_render(script, &problem, &asked.gpu, &config, o->lines, source, err);
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
        "PROBLEM is like fwd-f32-b1-h1-q64-k64-d64 or fwd-f32-b2-h16k4-q4096-k4096-d128-causal. The first "
        "lines of the text say how nvcc compiles it.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(GPU) | FAT_USE(KERNEL) | FAT_USE(CONFIG) | FAT_USE(LINES) | FAT_USE(TEMPLATES),
    .least = 1,
    .most = 1,
    .run = render,
};
