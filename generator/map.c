/* map.c -- from a problem and the tensors of a call to the driver's tensor maps.
 *
 * Runs in every call of a kernel that takes maps: a handful of numbers, no memory. */
#include "map.h"
#include <string.h>

/* ORDER DTYPE */
static const int types[FAT_ELEMENTS] = {
    [FAT_F16] = FAT_CUDA_MAP_F16,  [FAT_BF16] = FAT_CUDA_MAP_BF16, [FAT_F32] = FAT_CUDA_MAP_F32,
    [FAT_TF32] = FAT_CUDA_MAP_F32, [FAT_F32X3] = FAT_CUDA_MAP_F32, [FAT_I32] = 0 /* of no map, as bytes */};

bool fat_map_is_needed(int tensor)
{
  return fat_tensors[tensor].width != FAT_WIDE_K;
}

fat_map_box fat_map_box_of(int tensor, int64_t rows, int64_t heads)
{
  const bool is_of_Q = fat_tensors[tensor].side == FAT_OF_Q && fat_tensors[tensor].width != FAT_WIDE_K;
  return (fat_map_box){rows, is_of_Q ? heads : 0};
}

fat_map_shape fat_map_shape_of(const fat_problem *p, int tensor)
{
  const fat_extent extent = fat_tensors_extent(p, tensor);
  const fat_dtype dtype = fat_tensors_dtype(p, tensor);
  fat_map_shape shape = {
      .type = types[dtype], .element = fat_dtypes[dtype].bytes, .spared = !fat_map_is_needed(tensor)};
  for (int i = 0; i < FAT_MAP_DIMS; i++)
    shape.size[i] = (uint64_t)extent.size[FAT_MAP_DIMS - 1 - i];
  return shape;
}

bool fat_map_fits(const fat_map_shape *shape, const fat_view *t)
{
  const uint64_t beyond = (UINT64_C(1) << 40) / (uint64_t)shape->element;
  const int64_t strides[] = {t->stride[2], t->stride[1], t->stride[0]}; /* of rows, heads, batches */
  uint64_t bits = (uint64_t)(uintptr_t)t->data;
  for (int i = 1; i < FAT_MAP_DIMS; i++) {
    uint64_t stride = (uint64_t)strides[i - 1]; /* a negative one is huge */
    if (shape->size[i] > 1 && stride >= beyond)
      return false;
    bits |= shape->size[i] > 1 ? stride * (uint64_t)shape->element : 0;
  }
  return bits % 16 == 0;
}

/* Heads before rows. */
static void side_by_side(uint64_t *size, uint64_t *stride, uint32_t *edge)
{
  const uint64_t rows = size[1], from_row = stride[0];
  const uint32_t high = edge[1];
  size[1] = size[2];
  size[2] = rows;
  stride[0] = stride[1];
  stride[1] = from_row;
  edge[1] = edge[2];
  edge[2] = high;
}

int fat_map_encode(const fat_cuda_calls *cuda, const fat_map_shape *shape, const fat_view *t, fat_map_box box,
                   void *map)
{
  static const uint32_t step[FAT_MAP_DIMS] = {1, 1, 1, 1};
  const uint64_t element = (uint64_t)shape->element;
  const int64_t strides[] = {t->stride[2], t->stride[1], t->stride[0]}; /* of rows, heads, batches */
  const int64_t heads = box.heads > 0 ? box.heads : 1;
  uint64_t size[FAT_MAP_DIMS], stride[FAT_MAP_DIMS - 1];
  uint32_t edge[] = {FAT_MAP_BOX / (uint32_t)element, (uint32_t)(box.rows / heads), (uint32_t)heads, 1};
  if (shape->spared && !fat_map_fits(shape, t)) {
    memset(map, 0, FAT_CUDA_MAP_BYTES);
    return FAT_CUDA_SUCCESS;
  }
  /* Where nothing is a stride away, any that the driver takes will do: the bytes of a row, up to a multiple
   * of 16. */
  for (int i = 1; i < FAT_MAP_DIMS; i++)
    stride[i - 1] =
        shape->size[i] > 1 ? element * (uint64_t)strides[i - 1] : (element * shape->size[0] + 15) / 16 * 16;
  memcpy(size, shape->size, sizeof size);
  if (box.heads > 0)
    side_by_side(size, stride, edge);
  return cuda->map_tiled(map, shape->type, FAT_MAP_DIMS, t->data, size, stride, edge, step,
                         FAT_CUDA_MAP_PLAIN, FAT_CUDA_MAP_SWIZZLE_128, FAT_CUDA_MAP_L2_256,
                         FAT_CUDA_MAP_ZEROS);
}
