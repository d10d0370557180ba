/* rendered.h -- what a config is today: whether its source is still what it was, the memory that its calls
 * need, and whether it is valid for the sizes. */
#ifndef FAT_RENDERED_H
#define FAT_RENDERED_H

#include "gpu.h"
#include "problem.h"
#include "script.h"
#include "status.h"

typedef struct fat_rendered {
  const char *source;  /* beside a hash: "same" or "changed"; NULL: not compared */
  int64_t workspace;   /* bytes that a call of this problem needs beside its tensors; -1: not known */
  fat_error invalid;   /* FAT_E_UNSUPPORTED: it is not valid for this problem's sizes, and why */
  fat_error unwritten; /* why these templates do not write it; FAT_OK: they do */
} fat_rendered;

/* Of a config, as text; `hash`: of the source that it was made from, or NULL. */
fat_rendered fat_rendered_today(fat_script *script, const fat_problem *p, const fat_gpu *gpu,
                                const char *config, const char *hash);

#endif
