/* ahead.h -- kernels of a family that are stored without a cubin, or its defaults, compiled side by side
 * before they are loaded one by one: a family of 20 takes as long as a few of them where there are cores. */
#ifndef FAT_AHEAD_H
#define FAT_AHEAD_H

#include "db.h"
#include "jit.h"

typedef struct fat_ahead_item fat_ahead_item;

/* Begin with {0}. */
typedef struct fat_ahead {
  fat_ahead_item *item;
  int count;
} fat_ahead;

/* Notes what `filter` names where no cubin of it is stored: its source, else the config itself as today's
 * templates write it for the filter's problem. Once for each config and source. Without memory nothing is
 * noted. */
void fat_ahead_note(fat_ahead *ahead, fat_db *db, const fat_code_filter *filter);

/* Notes the default of a problem, to be asked for without a kernel or another config for its place. */
void fat_ahead_note_default(fat_ahead *ahead, const fat_problem *problem);

/* Compiles what is noted; `like` says for what GPU and CUDA. What fails is left for the one who needs it. */
void fat_ahead_run(fat_ahead *ahead, fat_jit *jit, const fatune_jit_request *like);

/* The answer to this request, which the caller then owns; false where it was not asked ahead. */
bool fat_ahead_take(fat_ahead *ahead, const fatune_jit_request *request, fatune_jit_answer *answer);

void fat_ahead_free(fat_ahead *ahead, const fat_jit *jit);

#endif
