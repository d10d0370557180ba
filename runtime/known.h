/* known.h -- the plans that a handle knows, so that whoever asks again gets the same. */
#ifndef FAT_KNOWN_H
#define FAT_KNOWN_H

#include "plan.h"

/* A hash of what tells a plan from others. */
uint64_t fat_known_key(const fatune_plan *plan);

/* The known plan for what `draft` asks, with one more reference; NULL if there is none. */
fatune_plan *fat_known_find(fatune *handle, const fatune_plan *draft);

/* The plan for the same request, whatever it has built, likewise; NULL if there is none. */
fatune_plan *fat_known_before(fatune *handle, const fatune_plan *draft);

/* Makes a plan known. */
void fat_known_put(fatune *handle, fatune_plan *plan);

#endif
