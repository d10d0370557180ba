/* crew.c -- opens the pool of a tune.
 *
 * In: a session. Out: threads, each with a script: Lua's states are not shared. */
#include "crew.h"

#include <stdlib.h>

static void *begin_thread(void *shared)
{
  fat_hand *hand = calloc(1, sizeof *hand);
  if (!hand)
    return NULL;
  hand->session = shared;
  if (fat_script_open(hand->session->templates, &hand->script, &hand->error) != FAT_OK)
    hand->script = NULL;
  return hand;
}

static void end_thread(void *state)
{
  fat_hand *hand = state;
  if (hand)
    fat_script_close(hand->script);
  free(hand);
}

int fat_crew_size(const fat_session *session, int jobs)
{
  const int wanted = session->goal->threads;
  int threads = wanted ? wanted : fat_pool_cores();
  threads = threads > jobs ? jobs : threads;
  return threads > FAT_CREW_MOST ? FAT_CREW_MOST : threads;
}

fat_status fat_crew_open(fat_session *session, int threads, fat_pool_work work, fat_pool **pool,
                         fat_error *err)
{
  return fat_pool_open(threads, begin_thread, work, end_thread, session, pool, err);
}
