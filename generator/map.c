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

int fat_map_encode(const fat_cuda_calls *cuda, const fat_map_shape *shape, const fat_view *t, int64_t rows,
                   void *map)
{
  static const uint32_t step[FAT_MAP_DIMS] = {1, 1, 1, 1};
  const uint64_t element = (uint64_t)shape->element;
  const int64_t strides[] = {t->stride[2], t->stride[1], t->stride[0]}; /* of rows, heads, batches */
  const uint32_t box[] = {FAT_MAP_BOX / (uint32_t)element, (uint32_t)rows, 1, 1};
  uint64_t stride[FAT_MAP_DIMS - 1];
  if (shape->spared && !fat_map_fits(shape, t)) {
    memset(map, 0, FAT_CUDA_MAP_BYTES);
    return FAT_CUDA_SUCCESS;
  }
  /* Where nothing is a stride away, any that the driver takes will do: the bytes of a row, up to a multiple
   * of 16. */
  for (int i = 1; i < FAT_MAP_DIMS; i++)
    stride[i - 1] =
        shape->size[i] > 1 ? element * (uint64_t)strides[i - 1] : (element * shape->size[0] + 15) / 16 * 16;
  return cuda->map_tiled(map, shape->type, FAT_MAP_DIMS, t->data, shape->size, stride, box, step,
                         FAT_CUDA_MAP_PLAIN, FAT_CUDA_MAP_SWIZZLE_128, FAT_CUDA_MAP_L2_256,
                         FAT_CUDA_MAP_ZEROS);
}
