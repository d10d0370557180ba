/* kept.c -- finds what the pick does not weigh, and stores what was compiled on demand.
 *
 * In: a config, or a problem. Out: configs in the order to try; whether their code is there, loading them
 * tells. In: a compiled kernel. Out: a row with its code, or the code beside the row of the same source. */
#include "kept.h"

#include "candidate.h"
#include "insert.h"
#include "width.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Code of another version is not taken for today's default. */
static const char maker[] = "libfatune " FATUNE_VERSION;

typedef struct search {
  fat_kept *kept;
  const fat_config *config;
  char text[FAT_CONFIG_TEXT]; /* of the config */
  int sm;
} search;

/* Sorted by rank; of equals the earlier stays before. One config stands once. */
static void insert(fat_kept *kept, const fat_trial *t, double rank)
{
  char config[FAT_CONFIG_TEXT], problem[FAT_PROBLEM_TEXT];
  int at = kept->count;
  fat_config_print(&t->config, config);
  for (int i = 0; i < kept->count; i++)
    if (strcmp(kept->row[i].config, config) == 0 && strcmp(kept->row[i].source_hash, t->source_hash) == 0)
      return;
  while (at > 0 && kept->row[at - 1].rank > rank)
    at--;
  if (!fat_insert_room(kept->row, sizeof kept->row[0], &kept->count, FAT_KEPT_MOST, at))
    return;
  snprintf(kept->row[at].config, sizeof kept->row[at].config, "%s", config);
  snprintf(kept->row[at].source_hash, sizeof kept->row[at].source_hash, "%s", t->source_hash);
  snprintf(kept->row[at].problem, sizeof kept->row[at].problem, "%s",
           fat_problem_print(&t->problem, problem));
  kept->row[at].rank = rank;
}

/* How a row with W = 1 ranks as the twin; less than -1: not at all. Another kernel's stands in where it was
 * made for that, else where calls may be given it; of such the fastest. */
static double rank_twin(const search *s, const fat_trial *t)
{
  if (strcmp(t->twin_of, s->text) == 0)
    return -1;
  if (strcmp(t->config.kernel, s->config->kernel) == 0)
    return fat_width_distance(s->config, &t->config);
  bool made = strncmp(t->twin_of, s->text, strlen(s->config->kernel) + 1 /* with the colon */) == 0;
  if (!made && !t->eligible)
    return -2;
  return (made ? 0 : 2) + (isfinite(t->ms) ? t->ms / (1 + t->ms) : 1);
}

static bool take_twin(const fat_trial *t, void *user)
{
  const search *s = user;
  if (t->gpu.sm != s->sm || fat_width_get(&t->config) != 1)
    return true;
  double rank = rank_twin(s, t);
  if (rank >= -1)
    insert(s->kept, t, rank);
  return true;
}

fat_status fat_kept_twins(fat_db *db, const char *problem, int sm, const fat_config *config, fat_kept *kept,
                          fat_error *err)
{
  search s = {.kept = kept, .config = config, .sm = sm};
  const fat_db_filter filter = {.problem = problem,
                                .kernel = fat_width_get(config) > 0 ? config->kernel : NULL,
                                .value = FAT_WIDTH_NARROW, /* of hundreds that were tried for the problem */
                                .outcome_plus_1 = 1 + FAT_OUT_OK};
  kept->count = 0;
  fat_config_print(config, s.text);
  fat_status status = fat_db_trials(db, &filter, take_twin, &s, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* -- compiled on demand */

typedef struct wanted {
  fat_kept *kept;
  const fat_problem *problem;
  const fat_gpu *gpu;
  const char *kernel;
  bool maps;
} wanted;

static bool take_default(const fat_trial *t, void *user)
{
  const wanted *w = user;
  bool fits = (strcmp(t->made_as, FAT_MADE_DEFAULT) == 0 && (w->kernel || t->eligible)) ||
              (strcmp(t->made_as, FAT_MADE_DEFAULT_NO_MAPS) == 0 && (w->kernel || !w->maps));
  if (fits && t->gpu.sm == w->gpu->sm && strcmp(t->made_by, maker) == 0)
    insert(w->kept, t, fat_candidate_distance(w->problem, &t->problem));
  return true;
}

fat_status fat_kept_defaults(fat_db *db, const fat_problem *p, const fat_gpu *gpu, const char *kernel,
                             bool maps, fat_kept *kept, fat_error *err)
{
  char family[FAT_PROBLEM_TEXT];
  wanted w = {kept, p, gpu, kernel, maps};
  const fat_db_filter filter = {.family = fat_problem_family(p, family),
                                .kernel = kernel,
                                .outcome_plus_1 = 1 + FAT_OUT_OK,
                                .origin_plus_1 = 1 + FAT_PREDICTED};
  kept->count = 0;
  fat_status status = fat_db_trials(db, &filter, take_default, &w, err);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

typedef struct owner {
  const fat_trial *trial;
  bool rebuilt; /* its cubin does not serve: another compiler's may take its place */
  int64_t id;   /* 0: none */
} owner;

/* A row that this very code belongs to. */
static bool take_owner(const fat_trial *t, void *user)
{
  char a[FAT_CONFIG_TEXT], b[FAT_CONFIG_TEXT];
  owner *o = user;
  if (strcmp(t->source_hash, o->trial->source_hash) == 0 && t->gpu.sm == o->trial->gpu.sm &&
      (o->rebuilt || strcmp(t->compile_key, o->trial->compile_key) == 0) &&
      strcmp(fat_config_print(&t->config, a), fat_config_print(&o->trial->config, b)) == 0)
    o->id = t->id;
  return o->id == 0;
}

static fat_status put(fat_db *db, fat_trial *trial, bool rebuilt, const fat_artifact *artifact,
                      fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], facts[FAT_GPU_FACTS];
  owner o = {.trial = trial, .rebuilt = rebuilt};
  const fat_db_filter filter = {.problem = fat_problem_print(&trial->problem, problem),
                                .gpu = rebuilt ? NULL : fat_gpu_facts(&trial->gpu, facts),
                                .kernel = trial->config.kernel,
                                .outcome_plus_1 = 1 + FAT_OUT_OK};
  fat_status status = fat_db_trials(db, &filter, take_owner, &o, err);
  if (status != FAT_OK && status != FAT_E_NOT_FOUND)
    return status;
  return o.id ? fat_db_put_artifact(db, o.id, artifact, err) : fat_db_put(db, trial, artifact, err);
}

/* A limit of a file's size comes as a signal, which ends a program that does not expect it. While this thread
 * holds it back a write beyond the limit fails, as on a full disk. */
typedef struct hush {
  sigset_t limit, before;
  bool pending; /* before, for somebody else */
} hush;

static void begin_hush(hush *h)
{
  sigset_t pending;
  sigemptyset(&h->limit);
  sigaddset(&h->limit, SIGXFSZ);
  h->pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
  pthread_sigmask(SIG_BLOCK, &h->limit, &h->before);
}

static void end_hush(const hush *h)
{
  const struct timespec now = {0, 0};
  while (!h->pending && sigtimedwait(&h->limit, NULL, &now) < 0 && errno == EINTR)
    continue;
  pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

/* `named`: a config's text. */
static fat_status put_into(const char *path, const char *named, fat_trial *trial, bool rebuilt,
                           const fat_artifact *artifact, fat_error *err)
{
  fat_db *db = NULL;
  hush h;
  FAT_TRY(fat_config_parse(named, &trial->config, err));
  begin_hush(&h);
  fat_status status = fat_db_open(path, NULL, FAT_DB_WRITE, &db, err);
  if (status == FAT_OK)
    status = put(db, trial, rebuilt, artifact, err);
  fat_db_close(db);
  end_hush(&h);
  return status;
}

fat_status fat_kept_put(const char *path, const fat_gpu *gpu, const fat_made *made, fat_error *err)
{
  const fatune_jit_answer *a = &made->answer;
  fat_trial trial = fat_db_untimed();
  const fat_artifact artifact = {.source = a->source,
                                 .recipe = a->recipe,
                                 .cubin = a->cubin,
                                 .cubin_size = a->cubin_size,
                                 .cubin_hash = a->cubin_hash,
                                 .target = fat_gpu_arch(gpu->sm)->target};
  trial.problem = made->problem;
  trial.gpu = *gpu;
  trial.eligible = (made->usual || made->twin_of[0]) && a->picked > 0;
  trial.source_hash = a->source_hash;
  trial.templates = a->templates;
  trial.compile_key = a->compile_key;
  trial.made_by = maker;
  trial.registers = a->registers;
  trial.stack = a->stack;
  trial.spills = a->spills;
  trial.compile_seconds = a->seconds;
  trial.twin_of = made->twin_of;
  trial.made_as = made->twin_of[0] ? FAT_MADE_TWIN
                  : !made->usual   ? FAT_MADE_REBUILT
                  : made->mapless  ? FAT_MADE_DEFAULT_NO_MAPS
                                   : FAT_MADE_DEFAULT;
  return put_into(path, made->config, &trial, !made->usual && !made->twin_of[0], &artifact, err);
}
