/* package.c -- makes the code of rows that were imported without it.
 *
 * In: measured rows of the user's file. Out: the cubins of those that a call may get unasked, with source and
 * recipe, for the GPUs that are named. A row without code is written again where it is first called, a twin
 * too: so no source is in a wheel (those of the twins alone were 2.4 MB of it). This thread renders, a pool
 * compiles. Each source is compiled once, and not at all where the system's file has a cubin of the same
 * source by the same compiler: so a package's database can be built again on top of the last one. */
#include "package.h"

#include "compile.h"
#include "grow.h"
#include "pool.h"
#include "source.h"
#include "space.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double deadline = 120; /* seconds of one compile */

/* A stored row and the code that is made for it. */
typedef struct coded {
  int64_t id;
  fat_problem problem;
  fat_gpu gpu;
  fat_config config;
  char hash[FAT_HASH_SIZE], compile_key[256], twin_of[FAT_CONFIG_TEXT];
  bool wanted;            /* a cubin, too */
  fat_source source;      /* empty: these templates do not have the config */
  struct coded *original; /* an earlier one of the same source, or NULL */
  fat_nvrtc *nvrtc;
  fat_binary binary;
  fat_status status;
  fat_error error;
} coded;

typedef struct making {
  fat_db *db;
  fat_script *script;
  fat_nvrtc *nvrtc;
  const char *cubins; /* for which GPUs */
  fat_text key;       /* of the compiler */
  coded *list;
  int count;
  bool full; /* no memory for another */
  fat_package_counts *counts;
} making;

static bool collect(const fat_trial *t, void *user)
{
  making *m = user;
  if (t->id <= 0) /* of the database below */
    return true;
  coded *larger = fat_grow(m->list, m->count, sizeof *larger);
  m->full = !larger;
  if (!larger)
    return false;
  m->list = larger;
  coded *p = &m->list[m->count++];
  *p = (coded){.id = t->id, .problem = t->problem, .gpu = t->gpu, .config = t->config, .nvrtc = m->nvrtc};
  p->wanted = t->eligible && fat_width_get(&t->config) == 1;
  snprintf(p->hash, sizeof p->hash, "%s", t->source_hash);
  snprintf(p->compile_key, sizeof p->compile_key, "%s", t->compile_key);
  snprintf(p->twin_of, sizeof p->twin_of, "%s", t->twin_of);
  m->counts->rows++;
  return true;
}

/* Whether a list "H200,RTX 4090" has the name; "all" has every one. */
static bool is_listed(const char *list, const char *name)
{
  size_t n = strlen(name);
  if (strcmp(list, "all") == 0)
    return true;
  for (const char *word = list;; word++) {
    size_t length = strcspn(word, ",");
    if (length == n && strncasecmp(word, name, n) == 0)
      return true;
    word += length;
    if (!*word)
      return false;
  }
}

/* Every GPU that was named has a row. */
static fat_status check_names(const making *m, fat_error *err)
{
  for (const char *word = m->cubins; strcmp(m->cubins, "all") != 0; word++) {
    int length = (int)strcspn(word, ","), i = 0;
    while (i < m->count &&
           (strncasecmp(m->list[i].gpu.name, word, (size_t)length) != 0 || m->list[i].gpu.name[length] != 0))
      i++;
    if (i == m->count)
      return fat_status_fail(err, FAT_E_INPUT, "--cubins '%.*s': no row was measured on a GPU of that name",
                             length, word);
    word += length;
    if (!*word)
      break;
  }
  return FAT_OK;
}

static fat_status read_rows(making *m, fat_error *err)
{
  const fat_db_filter filter = {.outcome_plus_1 = 1 + FAT_OUT_OK, .origin_plus_1 = 1 + FAT_MEASURED};
  FAT_TRY(fat_db_trials(m->db, &filter, collect, m, err));
  if (m->full)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for rows");
  if (m->cubins)
    FAT_TRY(check_names(m, err));
  for (int i = 0; i < m->count; i++) {
    fat_best best;
    fat_status status = fat_db_best(m->db, &m->list[i].problem, &m->list[i].gpu, NULL, false, &best, err);
    if (status == FAT_OK) {
      m->list[i].wanted = m->list[i].wanted || best.trial.id == m->list[i].id;
      fat_db_best_free(&best);
    } else if (status != FAT_E_NOT_FOUND)
      return status;
    m->list[i].wanted = m->list[i].wanted && m->cubins && is_listed(m->cubins, m->list[i].gpu.name);
  }
  return FAT_OK;
}

static void lose(making *m, coded *p, const char *why)
{
  char problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
  fat_source_free(&p->source);
  p->source = (fat_source){0};
  if (m->counts->lost++ == 0)
    snprintf(m->counts->first_lost, sizeof m->counts->first_lost, "%.80s for %.80s: %.80s",
             fat_config_print(&p->config, config), fat_problem_print(&p->problem, problem), why);
}

/* Completes a config that is older than some tunable of its kernel, with the default's value. The default is
 * that of heads that share nothing: others have tunables of their own, which would change the config. */
static fat_status complete(making *m, const coded *p, fat_config *config, fat_error *err)
{
  fat_point fallback;
  fat_problem alone = p->problem;
  alone.hk = alone.h;
  FAT_TRY(fat_space_default(m->script, p->config.kernel, &alone, &p->gpu, &fallback, err));
  *config = fallback.config;
  int known = 0;
  for (int i = 0; i < config->count; i++) {
    int32_t value;
    if (fat_config_get(&p->config, config->values[i].name, &value) != FAT_OK)
      continue;
    config->values[i].value = value;
    known++;
  }
  if (known < p->config.count)
    return fat_status_fail(err, FAT_E_UNSUPPORTED, "it has a tunable that the kernel lost");
  return FAT_OK;
}

/* A row that these templates cannot render is no error: it is counted as lost. */
static fat_status render(making *m, coded *p, fat_error *err)
{
  fat_point point;
  fat_error why = {0}, more = {0};
  fat_config config = p->config;
  fat_status status = fat_space_point(m->script, &config, &p->problem, &p->gpu, &point, &why);
  if (status == FAT_E_INPUT && complete(m, p, &config, &more) == FAT_OK)
    status = fat_space_point(m->script, &config, &p->problem, &p->gpu, &point, &why);
  if (status == FAT_OK)
    status =
        fat_source_render(m->script, &p->problem, &p->gpu, &config, FAT_LINES_TEMPLATE, &p->source, &why);
  if (status == FAT_E_NOMEM)
    return fat_status_fail(err, status, "%s", why.text);
  if (status != FAT_OK) {
    lose(m, p, why.text);
    return FAT_OK;
  }
  m->counts->changed += strcmp(p->source.hash, p->hash) != 0;
  for (coded *q = m->list; q < p && !p->original; q++)
    if (q->wanted && q->source.text.length && q->gpu.sm == p->gpu.sm &&
        strcmp(q->source.hash, p->source.hash) == 0)
      p->original = q;
  return FAT_OK;
}

/* -- cubins */

static void compile(void *job, void *shared)
{
  coded *p = job;
  (void)shared;
  p->status = fat_compile(p->nvrtc, fat_text_get(&p->source.text), p->config.kernel,
                          fat_gpu_arch(p->gpu.sm)->target, deadline, NULL, &p->binary, &p->error);
}

/* Takes over the cubin of the last build if its source and compiler are the same. */
static fat_status copy_binary(making *m, coded *p, bool *found, fat_error *err)
{
  char config[FAT_CONFIG_TEXT];
  fat_code code;
  const fat_code_filter filter = {.problem = &p->problem,
                                  .sm = p->gpu.sm,
                                  .config = fat_config_print(&p->config, config),
                                  .source_hash = p->source.hash,
                                  .compile_key = fat_text_get(&m->key)};
  *found = false;
  fat_status status = fat_db_code(m->db, &filter, &code, err);
  if (status == FAT_E_NOT_FOUND)
    return FAT_OK;
  FAT_TRY(status);
  if (code.cubin) {
    p->binary.cubin = code.cubin;
    p->binary.size = code.cubin_size;
    memcpy(p->binary.hash, code.cubin_hash, sizeof p->binary.hash);
    code.cubin = NULL;
    *found = true;
  }
  fat_db_code_free(&code);
  return FAT_OK;
}

/* Gives each source to the pool once. */
static fat_status feed(making *m, fat_pool *pool, fat_error *err)
{
  for (coded *p = m->list; p < m->list + m->count; p++) {
    bool found = false;
    if (!p->wanted || p->original || !p->source.text.length || !fat_nvrtc_targets(m->nvrtc, p->gpu.sm))
      continue;
    FAT_TRY(copy_binary(m, p, &found, err));
    m->counts->copied += found;
    if (!found)
      FAT_TRY(fat_pool_put(pool, p, err));
  }
  return FAT_OK;
}

static fat_status compile_all(making *m, int jobs, fat_error *err)
{
  fat_pool *pool;
  FAT_TRY(fat_pool_open(jobs ? jobs : fat_pool_cores(), NULL, compile, NULL, NULL, &pool, err));
  fat_status status = feed(m, pool, err);
  while (fat_pool_pending(pool) > 0) {
    coded *p = fat_pool_take(pool, 1);
    if (!p)
      continue;
    m->counts->compiled += p->status == FAT_OK;
    if (p->status == FAT_E_COMPILE || p->status == FAT_E_TIMEOUT)
      lose(m, p, p->error.text);
    else if (p->status != FAT_OK && status == FAT_OK)
      status = fat_status_fail(err, p->status, "%s", p->error.text);
  }
  fat_pool_close(pool);
  return status;
}

/* -- storing */

/* Code that is not what was measured goes into a row of its own that claims no time. Its config is that of
 * the measured row, since a pick looks it up by that; the source itself names the config it was rendered
 * from. */
static fat_status put_beside(const making *m, const coded *p, const fat_artifact *artifact, fat_error *err)
{
  fat_trial t = fat_db_untimed();
  t.problem = p->problem;
  t.gpu = p->gpu;
  t.config = p->config;
  t.source_hash = p->source.hash;
  t.templates = fat_script_templates_hash(m->script);
  t.compile_key = fat_text_get(&m->key);
  t.made_by = "package " FATUNE_VERSION;
  t.twin_of = p->twin_of;
  t.detail = "code of a config that was measured with other templates or another NVRTC";
  return fat_db_put(m->db, &t, artifact, err);
}

static fat_status store(const making *m, const coded *p, fat_error *err)
{
  const fat_binary *binary = p->original ? &p->original->binary : &p->binary;
  if (!p->wanted || !binary->cubin)
    return FAT_OK;
  const fat_artifact artifact = {.source = fat_text_get(&p->source.text),
                                 .recipe = fat_text_get(&p->source.recipe),
                                 .cubin = binary->cubin,
                                 .cubin_size = binary->size,
                                 .cubin_hash = binary->hash,
                                 .target = fat_gpu_arch(p->gpu.sm)->target};
  if (strcmp(p->source.hash, p->hash) == 0 && strcmp(p->compile_key, fat_text_get(&m->key)) == 0)
    return fat_db_put_artifact(m->db, p->id, &artifact, err);
  return put_beside(m, p, &artifact, err);
}

static void release(making *m)
{
  for (int i = 0; i < m->count; i++) {
    fat_source_free(&m->list[i].source);
    fat_binary_free(&m->list[i].binary);
  }
  free(m->list);
  fat_text_free(&m->key);
}

fat_status fat_package_make(fat_db *db, fat_script *script, fat_nvrtc *nvrtc, const char *cubins, int jobs,
                            fat_package_counts *counts, fat_error *err)
{
  making m = {.db = db, .script = script, .nvrtc = nvrtc, .cubins = cubins, .counts = counts};
  *counts = (fat_package_counts){0};
  fat_status status = read_rows(&m, err);
  for (int i = 0; i < m.count && status == FAT_OK; i++)
    status = render(&m, &m.list[i], err);
  if (status == FAT_OK && nvrtc)
    status = fat_compile_key(nvrtc, &m.key, err);
  if (status == FAT_OK && nvrtc)
    status = compile_all(&m, jobs, err);
  for (int i = 0; i < m.count && status == FAT_OK; i++)
    if (m.list[i].source.text.length)
      status = store(&m, &m.list[i], err);
  release(&m);
  return status;
}
