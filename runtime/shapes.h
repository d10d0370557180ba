/* shapes.h -- the shapes that a family's rows are of, while a plan is made of them. */
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

#endif
