/* ahead.c -- asks libfatune-jit for several kernels at once.
 *
 * In: configs and their stored sources. Out: answers, which wait until they are asked for. Threads live for
 * as long as this takes, with all signals blocked; each takes the next item, this thread among them, so that
 * it also works where none can be started. */
#include "ahead.h"
#include "grow.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8 }; /* a compiler takes some 100 MB */

struct fat_ahead_item {
  char config[FAT_CONFIG_TEXT]; /* "": the problem's default */
  char problem[FAT_PROBLEM_TEXT];
  char *source; /* NULL: of today's templates */
  bool answered;
  fatune_jit_answer answer;
};

static bool is_noted(const fat_ahead *ahead, const fat_ahead_item *x)
{
  for (int i = 0; i < ahead->count; i++) {
    const fat_ahead_item *y = &ahead->item[i];
    if (strcmp(x->config, y->config) == 0 && !x->source == !y->source &&
        (!x->source || strcmp(x->source, y->source) == 0))
      return true;
  }
  return false;
}

/* Whether it must be compiled; *source is what is stored of it. */
static bool lacks(fat_db *db, const fat_code_filter *filter, char **source)
{
  fat_code code;
  fat_code_filter of = *filter;
  fat_status status = fat_db_code(db, &of, &code, NULL);
  if (status == FAT_E_NOT_FOUND) {
    of.source_hash = NULL; /* as a row measured with other templates is loaded */
    status = fat_db_code(db, &of, &code, NULL);
  }
  if (status != FAT_OK)
    return status == FAT_E_NOT_FOUND;
  const bool lacking = !code.cubin && code.recipe && code.source;
  *source = lacking ? code.source : NULL;
  code.source = lacking ? NULL : code.source;
  fat_db_code_free(&code);
  return lacking;
}

static bool append(fat_ahead *ahead, const fat_ahead_item *x)
{
  fat_ahead_item *more = fat_grow(ahead->item, ahead->count, sizeof *more);
  if (!more)
    return false;
  ahead->item = more;
  ahead->item[ahead->count++] = *x;
  return true;
}

void fat_ahead_note(fat_ahead *ahead, fat_db *db, const fat_code_filter *filter)
{
  fat_ahead_item x = {0};
  snprintf(x.config, sizeof x.config, "%s", filter->config);
  fat_problem_print(filter->problem, x.problem);
  if (!lacks(db, filter, &x.source) || is_noted(ahead, &x) || !append(ahead, &x))
    free(x.source);
}

void fat_ahead_note_default(fat_ahead *ahead, const fat_problem *problem)
{
  fat_ahead_item x = {0};
  fat_problem_print(problem, x.problem);
  append(ahead, &x);
}

typedef struct work {
  fat_ahead *ahead;
  const fat_jit *jit;
  const fatune_jit_request *like;
  atomic_int next;
} work;

static void *compile_items(void *user)
{
  work *w = user;
  for (int i = atomic_fetch_add(&w->next, 1); i < w->ahead->count; i = atomic_fetch_add(&w->next, 1)) {
    fat_ahead_item *x = &w->ahead->item[i];
    fatune_jit_request r = *w->like;
    r.task = x->source ? FATUNE_JIT_REBUILD : FATUNE_JIT_MAKE;
    r.config = *x->config ? x->config : NULL;
    r.problem = x->problem;
    r.source = x->source;
    r.kernel = r.rather = NULL;
    r.narrow = 0;
    x->answered = w->jit->fatune_jit_answer_request(&r, &x->answer) == FAT_OK;
  }
  return NULL;
}

void fat_ahead_run(fat_ahead *ahead, fat_jit *jit, const fatune_jit_request *like)
{
  pthread_t thread[THREADS - 1];
  sigset_t all, before;
  int threads = 0;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  work w = {ahead, jit, like, 0};
  if (ahead->count < 2 || fat_jit_open(jit, NULL) != FAT_OK)
    return;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (threads < THREADS - 1 && threads + 1 < cores && threads + 1 < ahead->count &&
         pthread_create(&thread[threads], NULL, compile_items, &w) == 0)
    threads++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  compile_items(&w);
  for (int i = 0; i < threads; i++)
    pthread_join(thread[i], NULL);
}

static bool is_asked(const fatune_jit_request *request, const fat_ahead_item *x)
{
  if (!*x->config)
    return !request->config && !request->kernel && !request->rather &&
           strcmp(request->problem, x->problem) == 0;
  return request->config && strcmp(request->config, x->config) == 0 && !request->narrow &&
         !request->source == !x->source && (!x->source || strcmp(x->source, request->source) == 0);
}

bool fat_ahead_take(fat_ahead *ahead, const fatune_jit_request *request, fatune_jit_answer *answer)
{
  for (int i = 0; i < ahead->count; i++) {
    fat_ahead_item *x = &ahead->item[i];
    if (!is_asked(request, x) || !x->answered)
      continue;
    *answer = x->answer;
    x->answer = (fatune_jit_answer){0};
    x->answered = false;
    return true;
  }
  return false;
}

void fat_ahead_free(fat_ahead *ahead, const fat_jit *jit)
{
  for (int i = 0; i < ahead->count; i++) {
    fat_jit_free(jit, &ahead->item[i].answer);
    free(ahead->item[i].source);
  }
  free(ahead->item);
  *ahead = (fat_ahead){0};
}
