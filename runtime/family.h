/* family.h -- the kernels of a plan, by the shapes at which each is the best.
 *
 * A problem's plan has one shape, a family's all that were chosen for it. Finding the best for a call's sizes
 * runs in calls: it reads, and neither allocates nor locks. */
#ifndef FAT_FAMILY_H
#define FAT_FAMILY_H

#include "candidate.h"
#include "load.h"

enum {
  FAT_FAMILY_SHAPES = 64,
  FAT_FAMILY_CODES = 32 /* distinct cubins: at most as many kernels, each a bit of a word */
};

typedef struct fat_shape {
  fat_problem problem; /* whose row it is */
  fat_measure at;
  double ms; /* of equally good ones the least comes first */
  fat_pace pace;
  int waves;      /* of the family's list */
  int main, twin; /* of `code`; twin -1: none */
} fat_shape;

/* Begin with {0}. */
typedef struct fat_family {
  fat_shape *shape; /* by ms */
  int shapes;
  fat_waves *waves; /* distinct: few tiles of many shapes differ, and a call does this arithmetic for each */
  int waves_count;
  fat_loaded *code;
  int codes;
  fat_text text; /* a line for each shape: problem, step, config, twin */
} fat_family;

/* One more shape, a row's; where no row is behind the kernel, `row` has the problem and else zeros. Takes the
 * recipes over. `twin` may be NULL. */
fat_status fat_family_add(fat_family *family, const fat_candidate *row, fat_loaded *main, fat_loaded *twin,
                          fat_error *err);
/* The twin of a shape with this main kernel; NULL: none has one. */
const fat_loaded *fat_family_twin(const fat_family *family, const fat_loaded *main);
void fat_family_free(fat_family *family);

/* The shape whose row the pick would take for a problem, its main kernel being none of those passed over (bit
 * 1u << main); NULL: there is none. */
const fat_shape *fat_family_best(const fat_family *family, const fat_asked *asked, uint32_t passed);

#endif
