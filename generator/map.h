/* map.h -- the tensor maps that a recipe names (mapQ): what the copies of a TMA unit know of a tensor.
 *
 * A map has 4 dimensions, (d, rows, heads, batch). Its boxes are 128 bytes of so many rows of one head,
 * swizzled over 128 bytes; what of a box lies outside of the tensor reads as 0 and is not written. Where a
 * box has rows of several heads, these lie side by side, and the dimensions are (d, heads, rows, batch). */
#ifndef FAT_MAP_H
#define FAT_MAP_H

#include "cuda_abi.h"
#include "tensors.h"

enum { FAT_MAP_DIMS = 4, FAT_MAP_BOX = 128 /* bytes of a row of a box */ };

/* What is the same in all calls of a problem. */
typedef struct fat_map_shape {
  int type;                    /* FAT_CUDA_MAP_F16, ... */
  int element;                 /* bytes */
  uint64_t size[FAT_MAP_DIMS]; /* d, rows, heads, batch */
  bool spared;                 /* its map is not needed */
} fat_map_shape;

/* The rows of a box; of how many heads, 0: of one. */
typedef struct fat_map_box {
  int64_t rows, heads;
} fat_map_box;

/* Those of a launch whose boxes have `rows` rows: of so many heads where a tensor has a row for each of Q. */
fat_map_box fat_map_box_of(int tensor, int64_t rows, int64_t heads);

fat_map_shape fat_map_shape_of(const fat_problem *p, int tensor);

/* Whether there can be a map: 16-byte alignment, and strides neither negative nor of 2^40 bytes or more. A
 * stride of a dimension with one element means nothing and is not looked at. */
bool fat_map_fits(const fat_map_shape *shape, const fat_view *t);

/* Whether a kernel that takes a map of this tensor has no other way to it. Of biases it has, and takes a map
 * of zeros where there can be none: neither a length of keys that is no multiple of 8 nor a cut-out may
 * exclude it. */
bool fat_map_is_needed(int tensor);

/* Writes the map, FAT_CUDA_MAP_BYTES at a multiple of FAT_CUDA_MAP_ALIGN, with boxes of such rows,
 * which their heads divide. The driver's result code; cuda->map_tiled must be there, the tensor must fit
 * unless it is spared. */
int fat_map_encode(const fat_cuda_calls *cuda, const fat_map_shape *shape, const fat_view *t, fat_map_box box,
                   void *map);

#endif
