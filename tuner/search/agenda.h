/* agenda.h -- the problems of a tune: families times anchors, each with the kernels that serve it. */
#ifndef FAT_AGENDA_H
#define FAT_AGENDA_H

#include "gpu.h"
#include "goal.h"
#include "problem.h"
#include "script.h"
#include "space.h"

typedef struct fat_item_kernel {
  char name[FAT_CONFIG_KERNEL];
  int picked; /* 0: it may not win unasked; else the highest is preferred (fat_space_applies) */
} fat_item_kernel;

typedef struct fat_item {
  fat_problem problem;
  fat_item_kernel kernels[FAT_SPACE_KERNELS]; /* the preferred ones first */
  int kernel_count;                           /* at least 1 */
  int main_plus_1; /* of an anchor of a grid: 1 + the place of the family's main anchor in the list; else 0 */
} fat_item;

typedef struct fat_agenda {
  fat_item *list;
  int count;
} fat_agenda;

/* Names of the kernels a command works with: those of --kernel, checked, or all of the templates. */
fat_status fat_agenda_kernels(const fat_goal *goal, fat_script *script,
                              char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL], int *count, fat_error *err);

/* FAT_E_INPUT with the reason where the GPU's arithmetic has no such type (bf16 on a T4). */
fat_status fat_agenda_dtype(const char *argument, fat_dtype dtype, const fat_gpu *gpu, fat_error *err);

/* A typed problem, or a family, with the expressions of the goal. */
fat_status fat_agenda_problem(const fat_goal *goal, const char *text, bool family, fat_problem *p,
                              fat_error *err);

/* The problems of a tune: those typed in full, else ops x dtypes x dims x causal x lengths. A family's anchor
 * has B*N = 16k tokens and H*d = 2048; B is halved until the tensors and the score matrix of the standard
 * algorithm, the baseline, fit the GPU's memory. FAT_E_INPUT, FAT_E_UNSUPPORTED. */
fat_status fat_agenda_list(const fat_goal *goal, const fat_gpu *gpu, fat_script *script, fat_agenda *agenda,
                           fat_error *err);
void fat_agenda_free(fat_agenda *agenda);

/* Appends the other anchors of each family (generator/anchor.h); the problems in the list are the main
 * anchors. Only kernels that may win unasked are tried there, since calls are given the winners. */
fat_status fat_agenda_grid(const fat_goal *goal, const fat_gpu *gpu, fat_script *script, fat_agenda *agenda,
                           fat_error *err);

/* Whether a kernel is one of the item's. */
bool fat_agenda_has(const fat_item *item, const char *kernel);

/* FAT_E_INPUT where a config that the goal names suits none of the problems, with the first reason. */
fat_status fat_agenda_check(const fat_goal *goal, const fat_gpu *gpu, fat_script *script,
                            const fat_agenda *agenda, fat_error *err);

/* Keeps the index-th (from 1) of `count` parts: whole families, each with the anchors of its grid. */
void fat_agenda_shard(fat_agenda *agenda, int index, int count);

#endif
