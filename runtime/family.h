/* family.h -- the kernels of a plan, by the shapes at which each is the best.
 *
 * A problem's plan has one shape, a family's all that were chosen for it. Finding the best for a call's sizes
 * runs in calls: it reads, and neither allocates nor locks. */
#ifndef FAT_FAMILY_H
#define FAT_FAMILY_H

#include "candidate.h"
#include "load.h"

#include <stdatomic.h>

/* The H200's package has 136 shapes of d 64 forward, and 77 configs of d 128. With room for 96 and 64 most
 * shapes of one row of Q were left out, as they lie far from a family's main anchor. */
enum {
  FAT_FAMILY_SHAPES = 240,
  FAT_FAMILY_CODES = 128, /* distinct cubins: at most as many kernels */
  FAT_FAMILY_KEPT = 16    /* answers that are kept */
};

typedef struct fat_shape {
  fat_problem problem; /* whose row it is */
  fat_measure at;
  double ms; /* of equally good ones the least comes first */
  fat_pace pace;
  int waves;      /* of the family's list */
  int main, twin; /* of `code`; main -1: it is not built yet; twin -1: none */
  bool usual;     /* a default stands here, beside what was measured or alone */
} fat_shape;

/* Begin with {0}. */
typedef struct fat_family {
  fat_shape *shape; /* by ms */
  int shapes, usuals;
  fat_waves *waves; /* distinct: few tiles of many shapes differ, and a call does this arithmetic for each */
  int waves_count;
  fat_loaded *code;
  int codes;
  int unbuilt;      /* shapes whose kernel is compiled when a call needs it */
  bool far_unbuilt; /* so are the defaults for what lies far off all that was measured */
  _Atomic(uint64_t)
      *kept;     /* what was found for sizes that were asked for before: a model's layers ask the same */
  fat_text text; /* a line for each shape: problem, step, config, twin, whether it is not built yet */
} fat_family;

/* Kernels that do not serve a call; begins with {0}. */
typedef struct fat_passed {
  uint64_t bits[FAT_FAMILY_CODES / 64];
  bool unbuilt; /* nor do those that are not built yet */
} fat_passed;
static inline void fat_passed_add(fat_passed *passed, int code)
{
  passed->bits[code / 64] |= (uint64_t)1 << code % 64;
}
static inline bool fat_passed_has(const fat_passed *passed, int code)
{
  if (passed == NULL || code < 0)
    return passed != NULL && passed->unbuilt;
  return (passed->bits[code / 64] >> code % 64 & 1) != 0;
}

/* Begins with the kernels of another plan of the family, which must be held as long as this one, and with its
 * defaults. */
fat_status fat_family_begin(fat_family *family, const fat_family *before, fat_error *err);
/* One more shape, a row's; where no row is behind the kernel, `row` has the problem and else zeros. Takes the
 * recipes over. `main` NULL: it is not built yet. `twin` may be NULL. */
fat_status fat_family_add(fat_family *family, const fat_candidate *row, fat_loaded *main, fat_loaded *twin,
                          fat_error *err);
/* The twin of a shape with this main kernel; NULL: none has one. */
const fat_loaded *fat_family_twin(const fat_family *family, const fat_loaded *main);
/* One shape less. */
void fat_family_remove(fat_family *family, const fat_shape *shape);
void fat_family_free(fat_family *family);

/* The shape whose row the pick would take for a problem on a GPU, its main kernel being none of those passed
 * over (NULL: none is); NULL: there is none. It may be one that is not built yet. */
const fat_shape *fat_family_best(const fat_family *family, const fat_problem *p, const fat_room *room,
                                 const fat_passed *passed);
/* The same, from what was found before where it was asked for these sizes and nothing is passed over. */
const fat_shape *fat_family_known(const fat_family *family, const fat_problem *p, const fat_room *room);

/* What must be built before a call of a problem on a device of so many SMs gets the kernel that it would get
 * if all were: a shape's, or the defaults for what lies far off. */
typedef enum fat_family_need { FAT_NEEDS_NOTHING, FAT_NEEDS_SHAPE, FAT_NEEDS_FAR } fat_family_need;
fat_family_need fat_family_needs(const fat_family *family, const fat_problem *p, const fat_room *room,
                                 int64_t sms, const fat_shape **shape);

#endif
