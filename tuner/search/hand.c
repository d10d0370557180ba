/* hand.c -- one pool thread's script, and a job given to it. */
#include "hand.h"

#include <stdlib.h>

typedef struct hand {
  const fat_order *order;
  fat_script *script; /* NULL: it could not be opened, for the reason in `error` */
  fat_error error;
} hand;

static void *begin(void *shared)
{
  hand *h = calloc(1, sizeof *h);
  if (!h)
    return NULL;
  h->order = shared;
  if (fat_script_open(h->order->templates, &h->script, &h->error) != FAT_OK)
    h->script = NULL;
  return h;
}

static void work(void *job, void *state)
{
  fat_job *j = job;
  hand *h = state;
  if (!h)
    j->status = fat_status_fail(&j->error, FAT_E_NOMEM, "out of memory for a thread that compiles");
  else if (!h->script)
    j->status = fat_status_fail(&j->error, h->error.status, "%s", h->error.text);
  else
    fat_trial_make(j, &h->order->bench, h->script);
}

static void end(void *state)
{
  hand *h = state;
  if (h)
    fat_script_close(h->script);
  free(h);
}

fat_status fat_hand_pool(const fat_order *order, int threads, fat_pool **pool, fat_error *err)
{
  return fat_pool_open(threads, begin, work, end, (void *)order, pool, err);
}
