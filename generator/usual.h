/* usual.h -- what a call is given where nothing is known of it: a kernel's default config. */
#ifndef FAT_USUAL_H
#define FAT_USUAL_H

#include "space.h"

/* The default config of `kernel`, or, where that is NULL, of the kernel preferred among those that may be
 * picked unasked and have a config for the problem. `maps`: it may take tensor maps. *unasked: NULL would
 * give the same kernel if it might take maps. FAT_E_UNSUPPORTED with the first reason where no default has a
 * recipe that is valid for the problem's sizes. */
fat_status fat_usual_find(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                          bool maps, fat_point *point, int *unasked, fat_error *err);

/* Whether another config may stand in a default's place: that is not firm, and the other is of its kernel and
 * serves the problem. */
bool fat_usual_yields(fat_script *script, const fat_config *usual, const char *to, const fat_problem *p,
                      const fat_gpu *gpu, fat_config *config);

#endif
