/* proxy.c -- renders and compiles kernels, of the GPU at hand or of another for its driver.
 *
 * In: options, both GPUs. Out: each kernel as an entrant whose binary is machine code, or PTX. */
#include "proxy.h"

#include "search/agenda.h"
#include "compile.h"
#include "search/shortlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double compile_deadline = 120; /* seconds */

/* What all kernels have in common. */
typedef struct making {
  const fat_proxy *proxy;
  fat_script *script;
  fat_nvrtc *nvrtc;
  char target[FAT_PROXY_TARGET];
} making;

fat_status fat_proxy_target(const fat_gpu *as, const fat_gpu *hand, char target[FAT_PROXY_TARGET],
                            fat_error *err)
{
  const char *name = fat_gpu_arch(as->sm)->target; /* "sm_75", "sm_90a" */
  bool alone = name[strlen(name) - 1] == 'a';
  snprintf(target, FAT_PROXY_TARGET, "compute_%s", name + strlen("sm_"));
  if (as->sm > hand->sm)
    return fat_status_fail(err, FAT_E_INPUT, "--as %s: the %s at hand is older (sm_%d) than its PTX (sm_%d)",
                           as->name, hand->name, hand->sm, as->sm);
  if (alone && as->sm != hand->sm)
    return fat_status_fail(err, FAT_E_INPUT,
                           "--as %s: PTX of %s runs on that architecture alone, not on sm_%d", as->name,
                           target, hand->sm);
  return FAT_OK;
}

/* One config: rendered, compiled, handed over. */
static fat_status make(const making *m, const fat_problem *p, const fat_config *config, fat_error *err)
{
  char text[FAT_CONFIG_TEXT];
  fat_source source;
  fat_binary binary;
  fat_error why = {0};
  FAT_TRY(fat_source_render(m->script, p, m->proxy->as, config, FAT_LINES_TEMPLATE, &source, err));
  fat_status status = fat_compile(m->nvrtc, fat_text_get(&source.text), config->kernel, m->target,
                                  compile_deadline, m->proxy->stop, &binary, &why);
  const fat_entrant entrant = {.config = fat_config_print(config, text),
                               .recipe = fat_text_get(&source.recipe),
                               .cubin_hash = binary.hash,
                               .cubin = binary.cubin,
                               .cubin_size = binary.size};
  if (status == FAT_OK || status == FAT_E_COMPILE || status == FAT_E_TIMEOUT)
    status = m->proxy->take(p, &entrant, status == FAT_OK ? NULL : why.text, m->proxy->user, err);
  else
    fat_status_fail(err, status, "%s", why.text);
  fat_binary_free(&binary);
  fat_source_free(&source);
  return status;
}

/* The best that is stored, where it still is a config of this kernel. */
static bool is_stored(const making *m, const fat_problem *p, const char *kernel, fat_config *config)
{
  fat_best best;
  fat_point point;
  if (!m->proxy->db || fat_db_best(m->proxy->db, p, m->proxy->as, kernel, false, &best, NULL) != FAT_OK)
    return false;
  *config = best.trial.config;
  fat_db_best_free(&best);
  return fat_space_point(m->script, config, p, m->proxy->as, &point, NULL) == FAT_OK;
}

/* The configs that a tune would try first, at most `most`. */
static fat_status make_first(const making *m, const fat_problem *p, const char *kernel, int most,
                             fat_error *err)
{
  const fat_shortlist_rule rule = {.most = most};
  fat_shortlist list;
  fat_status status = fat_shortlist_make(m->script, kernel, p, m->proxy->as, rule, &list, err);
  for (int i = 0; i < list.count && status == FAT_OK; i++)
    status = make(m, p, &list.space.points[list.chosen[i]].config, err);
  fat_shortlist_free(&list);
  return status;
}

/* Whether --config or --kernel ask for it, or a call may be given it unasked. */
static bool is_asked(const fat_options *o, const fat_item_kernel *kernel)
{
  const size_t length = strlen(kernel->name);
  if (o->config)
    return strncmp(o->config, kernel->name, length) == 0 && o->config[length] == ':';
  return kernel->picked || o->goal.kernel_count > 0;
}

static fat_status make_pair(const making *m, const fat_problem *p, const fat_item_kernel *kernel,
                            fat_error *err)
{
  const fat_options *o = m->proxy->options;
  fat_config config;
  if (o->config) {
    fat_point point;
    FAT_TRY(fat_config_parse(o->config, &config, err));
    FAT_TRY(fat_space_point(m->script, &config, p, m->proxy->as, &point, err));
    return make(m, p, &config, err);
  }
  if (o->top == 0 && is_stored(m, p, kernel->name, &config))
    return make(m, p, &config, err);
  return make_first(m, p, kernel->name, o->top > 0 ? o->top : 1, err);
}

/* A kernel without a config for one problem may have some for the next: that is said, and an error only of
 * the last where none has any. */
static fat_status make_all(const making *m, fat_error *err)
{
  fat_agenda agenda;
  FAT_TRY(fat_agenda_list(&m->proxy->options->goal, m->proxy->as, m->script, &agenda, err));
  fat_status status = FAT_OK;
  char text[FAT_PROBLEM_TEXT];
  fat_error why = {0};
  int made = 0;
  for (int i = 0; i < agenda.count; i++)
    for (int k = 0; k < agenda.list[i].kernel_count && status == FAT_OK; k++) {
      if (!is_asked(m->proxy->options, &agenda.list[i].kernels[k]))
        continue;
      status = make_pair(m, &agenda.list[i].problem, &agenda.list[i].kernels[k], &why);
      made += status == FAT_OK;
      if (status != FAT_E_UNSUPPORTED)
        continue;
      if (!m->proxy->options->quiet)
        fprintf(stderr, "fatune: %s is left out: %s\n", fat_problem_print(&agenda.list[i].problem, text),
                why.text);
      status = FAT_OK;
    }
  fat_agenda_free(&agenda);
  if (status == FAT_OK && made == 0 && !why.text[0])
    return fat_status_fail(err, FAT_E_INPUT, "--config and --kernel choose no kernel of these problems");
  if (status == FAT_OK && made == 0)
    status = FAT_E_UNSUPPORTED;
  return status == FAT_OK ? FAT_OK : fat_status_fail(err, status, "%s", why.text);
}

fat_status fat_proxy_each(const fat_proxy *proxy, fat_error *err)
{
  making m = {.proxy = proxy};
  fat_asked_gpu as = *proxy->hand; /* its driver, the other's architecture */
  as.gpu = *proxy->as;
  if (proxy->as == &proxy->hand->gpu)
    snprintf(m.target, sizeof m.target, "%s", fat_gpu_arch(proxy->as->sm)->target);
  else
    FAT_TRY(fat_proxy_target(proxy->as, &proxy->hand->gpu, m.target, err));
  fat_status status = fat_open_script(proxy->options, &m.script, err);
  if (status == FAT_OK)
    status = fat_open_compiler(proxy->options, &as, &m.nvrtc, err);
  if (status == FAT_OK)
    status = make_all(&m, err);
  fat_nvrtc_close(m.nvrtc);
  fat_script_close(m.script);
  return status;
}
