/* space.h -- problem + gpu + template -> the valid configs of one kernel, default first.
 *
 * The product of all tunables is walked in the order of the table in templates/<kernel>.lua; what a
 * constraint rejects is counted under that constraint's reason. Each valid config carries the template's own
 * arithmetic: shared memory, a register estimate, and the work of each launch, which the model turns into
 * time. */
#ifndef FAT_SPACE_H
#define FAT_SPACE_H

#include "config.h"
#include "gpu.h"
#include "problem.h"
#include "script.h"
#include "text.h"

enum { FAT_SPACE_LAUNCHES = 8, FAT_SPACE_KERNELS = 16 };

/* The work of one launch, as X.lua counts it. Per-block figures are averages over the grid. ORDER WORK */
typedef struct fat_work {
  double blocks;       /* blocks of the grid */
  double threads;      /* threads of a block */
  double shared;       /* dynamic shared memory of a block, bytes */
  double registers;    /* estimated registers of a thread (the compiler's figure replaces it) */
  double fma;          /* per block: fp32 fused multiply-adds */
  double tensor;       /* per block: tensor-core operations (FLOP) */
  double ex2;          /* per block: exponentials */
  double shared_bytes; /* per block: shared memory traffic, bytes, bank conflicts counted in */
  double issue;        /* per block: instructions issued beside fma, ex2 and shared accesses, in lanes */
  double visits;       /* per block: tiles of K and V that it works on */
  double steps;        /* per block: rounds between barriers, each exposing a latency */
  double uneven; /* what the block with most work has above the mean, as a part of it; 0: all the same, or
                    sorted so that it does not matter */
  double spills; /* estimated bytes of a thread, stores and loads (the compiler's figure replaces it) */
  double dram;   /* whole launch: bytes that must cross device memory */
  double l2;     /* whole launch: bytes that cross L2 (every tile load) */
} fat_work;

typedef struct fat_point {
  fat_config config;
  int launches;
  fat_work work[FAT_SPACE_LAUNCHES];
} fat_point;

typedef struct fat_rejection {
  char reason[160];
  long count;
} fat_rejection;

typedef struct fat_space {
  fat_point *points; /* the default first */
  int count;
  fat_rejection *rejections; /* in the order of the template's constraints, then the host's own */
  int rejection_count;
  long walked; /* points of the whole product */
} fat_space;

/* Problem and GPU as the text that engine functions take ("p.d=64" lines); source.c passes the same. */
fat_status fat_space_facts(const fat_problem *p, const fat_gpu *gpu, fat_text *facts, fat_error *err);

/* Names of the kernels the templates offer, sorted; e.g. "fa1", "fwd", "standard". */
fat_status fat_space_kernels(fat_script *script, char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL], int *count,
                             fat_error *err);

/* Whether a kernel can serve a family on a GPU at all: FAT_OK, or FAT_E_UNSUPPORTED with the reason. Sets
 * *picked to whether a call may be given this kernel unasked (`standard` and `fa1` only when asked for: 0);
 * of several such the one with the most is preferred where nothing is known. Where it fails because the
 * kernel is one of another op, *picked is below 0. */
fat_status fat_space_applies(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                             int *picked, fat_error *err);

/* The valid configs. FAT_E_UNSUPPORTED with the most frequent reason when there is none. */
fat_status fat_space_list(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                          fat_space *space, fat_error *err);
void fat_space_free(fat_space *space);

/* The first of these, without walking the space where a default is valid. FAT_E_UNSUPPORTED. */
fat_status fat_space_default(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                             fat_point *point, fat_error *err);

/* Whether times of calls with the problem's features chose that default, so that nothing else stands in its
 * place: what won for calls without them knows nothing of these. */
bool fat_space_firm(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu);

/* The kernel that takes the tensors which this one cannot take in any config; "" where none is named. */
fat_status fat_space_twin(fat_script *script, const char *kernel, const fat_problem *p, const fat_gpu *gpu,
                          char twin[FAT_CONFIG_KERNEL], fat_error *err);

/* One given config: FAT_OK with its point, FAT_E_INPUT if a value is not in the table, FAT_E_UNSUPPORTED with
 * the constraint's reason. */
fat_status fat_space_point(fat_script *script, const fat_config *config, const fat_problem *p,
                           const fat_gpu *gpu, fat_point *point, fat_error *err);

#endif
