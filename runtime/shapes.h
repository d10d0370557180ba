/* shapes.h -- the choice of a family while it is made: the shapes that its rows are of, and what the files
 * that make it share. */
#ifndef FAT_SHAPES_H
#define FAT_SHAPES_H

#include "choosing.h"
#include "anchor.h"

/* Shapes that rows of a family are of, the nearest to the main anchor first; measured ones, if there are any.
 */
typedef struct fat_shapes {
  fat_problem main;
  bool measured;
  int count, left; /* left: more than there is room for */
  struct {
    fat_problem problem;
    double distance;
    bool unbuilt; /* its kernel is compiled when a call needs it: this config, that of a row of `row` */
    fat_pick_step step;
    char config[FAT_CONFIG_TEXT];
    fat_problem row;
  } list[FAT_FAMILY_SHAPES];
  fat_problem far[FAT_ANCHOR_BESIDES];
} fat_shapes;

/* Lists them; `main` is there. A database that cannot be read has none. */
fat_status fat_shapes_list(fat_choosing *c, fat_shapes *s, fat_error *err);

/* Puts one shape into the family, if it has a row that loads, or would once it is built. */
fat_status fat_choose_shape(fat_choosing *c, fat_shapes *s, int i, fat_pick *pick, fat_family *family,
                            bool *taken, fat_error *err);
/* And beside what is stored the defaults of the shapes that all of it lies far off; `later`: whether there
 * are such is noted alone. */
fat_status fat_choose_far(fat_choosing *c, fat_shapes *s, bool later, fat_pick *pick, fat_family *family,
                          fat_error *err);

/* Takes over what was built before: where that cannot be kept in a database, it would be compiled again. */
fat_status fat_built_begin(fat_choosing *c, fat_family *family, fat_error *err);
/* Builds what the call at hand needs, and says what else is not built. *taken: shapes of the family. */
fat_status fat_built_for_call(fat_choosing *c, fat_shapes *s, fat_pick *pick, fat_family *family, int *taken,
                              fat_error *err);

#endif
