/* mods.h -- the value of a user's expression for one pair, and its derivative by the score, in double. */
#ifndef FAT_MODS_H
#define FAT_MODS_H

#include "bound.h"
#include "mod.h"

typedef struct fat_modded {
  double value, slope;
  double
      size; /* of what a float's roundings on the way there may have moved the value by, in units of those */
} fat_modded;

/* Of a score `s` that is itself off by `off` such units. A bool is 0 or 1. */
fat_modded fat_mods_value(const fat_mod *mod, const fat_problem *p, const fat_reference_inputs *in,
                          const fat_scored *at, double s, double off);

#endif
