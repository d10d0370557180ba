/* crew.h -- the pool of a tune: threads that each have a script of their own. */
#ifndef FAT_CREW_H
#define FAT_CREW_H

#include "pool.h"
#include "session.h"

enum { FAT_CREW_MOST = 256 }; /* threads */

/* What each thread has of its own: the `state` that the pool's work is given; NULL: out of memory. */
typedef struct fat_hand {
  const fat_session *session;
  fat_script *script; /* NULL: it could not be opened, for the reason in `error` */
  fat_error error;
} fat_hand;

/* As many threads as the goal asks for or the machine has cores, but no more than there are `jobs`. */
int fat_crew_size(const fat_session *session, int jobs);
fat_status fat_crew_open(fat_session *session, int threads, fat_pool_work work, fat_pool **pool,
                         fat_error *err);

#endif
