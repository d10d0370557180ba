/* choose.h -- from a problem or a family to kernels that are loaded: the pick, what the policy allows, and
 * the twin. */
#ifndef FAT_CHOOSE_H
#define FAT_CHOOSE_H

#include "family.h"
#include "pick.h"

typedef struct fat_ask {
  fatune *handle;             /* locked for making */
  const fat_problem *problem; /* or a family: its sizes mean nothing */
  const fat_gpu *device;      /* as the driver reports it */
  const char *kernel;         /* NULL: any */
  fatune_policy policy;
  bool aligned;            /* no twin is wanted */
  bool look;               /* only say what would be chosen: nothing is loaded, compiled or launched */
  bool later;              /* of a family's rows without a binary only those that `call` needs are compiled */
  const fat_problem *call; /* NULL: none */
  const fat_family *before; /* what was built for the same request before; NULL: nothing was */
} fat_ask;

typedef struct fat_choice {
  fat_gpu gpu; /* what was asked for in the database: the GPU table's row of the device, or the device */
  fat_pick_step step;
  fat_candidate row; /* found: the stored row behind the choice */
  fat_loaded main, twin;
  bool has_twin;
  fat_text why; /* lines: each step and what it found, rows that were left out, why there is no twin */
} fat_choice;

/* FAT_E_NOT_FOUND: nothing is stored that the policy lets us take, and it does not let us compile.
 * FAT_E_UNSUPPORTED: compiling was allowed, but no kernel does this. choice->why is filled in any case and to
 * be freed by fat_choice_free. */
fat_status fat_choose(const fat_ask *ask, fat_choice *choice, fat_error *err);
void fat_choice_free(fat_choice *choice);

/* The same for every shape that is stored for a family: measured on this device, else on its architecture,
 * else predicted. Where nothing is stored, for the family's main anchor. FATUNE_FAIL: FAT_E_NOT_FOUND where
 * that anchor was not measured here. `family` gets the kernels and is to be freed in any case; of `choice`
 * gpu and why are filled. */
fat_status fat_choose_family(const fat_ask *ask, fat_choice *choice, fat_family *family, fat_error *err);

#endif
