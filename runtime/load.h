/* load.h -- the code of a config, ready to run: as it is stored, made again from its source, or compiled now.
 */
#ifndef FAT_LOAD_H
#define FAT_LOAD_H

#include "ahead.h"
#include "handle.h"
#include "kept.h"
#include "launch.h"

/* One kernel, ready to run. */
typedef struct fat_loaded {
  char config[FAT_CONFIG_TEXT], source_hash[FAT_HASH_SIZE];
  char instead[FAT_HASH_SIZE]; /* the source hash of a row whose own code is not stored; "": none */
  char from[32];               /* "stored", "rebuilt from its source", "compiled now" */
  unsigned alignment;          /* bytes that addresses and strides must be a multiple of */
  fat_recipe *recipe;          /* NULL: only looked for */
  bool shared;                 /* the recipe is another's */
  fat_entries entries;
} fat_loaded;
void fat_loaded_free(fat_loaded *loaded);

/* What one plan loads its kernels with. */
typedef struct fat_loader {
  fatune *handle; /* locked for making */
  const fat_problem *problem;
  const fat_gpu *gpu;        /* what the database and the compiler are asked for */
  int sms;                   /* of the device at hand */
  bool may_compile;          /* a default, a twin */
  bool may_rebuild;          /* what is stored without a cubin that loads */
  bool look;                 /* only say what would be: nothing is loaded or compiled */
  bool later;                /* what must be compiled is put off */
  bool put_off;              /* something was: the status is FAT_E_NOT_FOUND then */
  fat_db *db;                /* NULL: none */
  fat_text *why;             /* takes what is worth saying, a line each */
  char of[FAT_PROBLEM_TEXT]; /* the problem whose row was taken; "": none was */
  fat_made *made;            /* what was compiled */
  int made_count;
  fat_ahead ahead; /* what was compiled before it is asked for */
  /* Called once, before something is compiled: notes what will be asked for, too. NULL: nothing is known to
   * be. */
  void (*foresee)(void *user, fat_ahead *ahead);
  void *foresees;
  const fat_loaded *known; /* what the plan has loaded already */
  int known_count;
  bool invalid; /* set with FAT_E_UNSUPPORTED: true if the config is not valid for the sizes, false if the
                   driver lacks something */
} fat_loader;

/* The stored code of a config: loaded as it is, or rebuilt where that is allowed. FAT_E_NOT_FOUND: neither.
 * FAT_E_UNSUPPORTED: it would load, but does not serve. */
fat_status fat_load_stored(fat_loader *l, const fat_code_filter *filter, fat_loaded *to, fat_error *err);

/* What libfatune-jit answers; the request says which kernel or config, the rest is filled in here. */
fat_status fat_load_compiled(fat_loader *l, fatune_jit_request *request, fat_loaded *to, fat_error *err);

/* Stores what was compiled, so that the next process needs no compiler. What stands in the way is said and is
 * no error. Once, in the end. */
void fat_load_keep(fat_loader *l);

#endif
