/* maps.c -- cuTensorMapEncodeTiled for the fake driver and the emulator, strict and readable; the maps of a
 * recipe.
 *
 * What is refused is what the text of cuda.h excludes. Packed types of 4 and 6 bits are unknown here. */
#include "maps.h"
#include "grid.h"
#include "map.h"
#include <string.h>

_Static_assert(sizeof(emu_tensor_map) == FAT_CUDA_MAP_BYTES, "a map has its own size");

enum { INVALID_VALUE = 1, INTERLEAVE_32 = 2, SWIZZLE_32 = 1, SWIZZLES = 7, PROMOTIONS = 4 };

/* Bytes of an element; by CUtensorMapDataType. */
static const int widths[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
/* Most bytes of a row of a box; by CUtensorMapSwizzle. 0: any. */
static const uint32_t spans[SWIZZLES] = {0, 32, 64, 128, 128, 128, 128};

static bool is_float(int type)
{
  enum { FLOAT16 = 6 };
  return type >= FLOAT16;
}

static bool good_layout(int type, uint32_t rank, uint32_t row, int interleave, int swizzle, int promotion,
                        int fill)
{
  if (interleave < 0 || interleave > INTERLEAVE_32 || swizzle < 0 || swizzle >= SWIZZLES || promotion < 0 ||
      promotion >= PROMOTIONS || fill < 0 || fill > 1 || (fill && !is_float(type)))
    return false;
  if (interleave == INTERLEAVE_32 && swizzle != SWIZZLE_32)
    return false;
  if (interleave)
    return rank >= 3;
  return row % 16 == 0 && (!spans[swizzle] || row <= spans[swizzle]);
}

static bool good_dimensions(uint32_t rank, const uint64_t *size, const uint64_t *stride, const uint32_t *box,
                            const uint32_t *step, uint64_t unit)
{
  for (uint32_t i = 0; i < rank; i++) {
    if (size[i] == 0 || size[i] > UINT64_C(1) << 32 || box[i] == 0 || box[i] > 256 || step[i] == 0 ||
        step[i] > 8)
      return false;
    if (i + 1 < rank && (stride[i] % unit != 0 || stride[i] >= UINT64_C(1) << 40))
      return false;
  }
  return true;
}

int emu_map_tiled(void *map, int type, uint32_t rank, void *base, const uint64_t *size,
                  const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,
                  int swizzle, int promotion, int fill)
{
  const uint64_t unit = interleave == INTERLEAVE_32 ? 32 : 16;
  if (!map || (uintptr_t)map % FAT_CUDA_MAP_ALIGN != 0 || type < 0 ||
      type >= (int)(sizeof widths / sizeof *widths) || rank == 0 || rank > EMU_MAP_DIMS || !size || !box ||
      !step || (!stride && rank > 1) || !base || (uintptr_t)base % unit != 0 ||
      !good_dimensions(rank, size, stride, box, step, unit) ||
      !good_layout(type, rank, box[0] * (uint32_t)widths[type], interleave, swizzle, promotion, fill))
    return INVALID_VALUE;
  emu_tensor_map m = {.magic = EMU_MAP_MAGIC,
                      .rank = (uint8_t)rank,
                      .type = (uint8_t)type,
                      .element = (uint8_t)widths[type],
                      .interleave = (uint8_t)interleave,
                      .swizzle = (uint8_t)swizzle,
                      .promotion = (uint8_t)promotion,
                      .fill = (uint8_t)fill,
                      .base = (uintptr_t)base};
  for (uint32_t i = 0; i < rank; i++) {
    m.size[i] = size[i];
    m.box[i] = (uint16_t)box[i];
    m.step[i] = (uint8_t)step[i];
    if (i + 1 < rank)
      m.stride[i] = stride[i];
  }
  memcpy(map, &m, sizeof m);
  return 0;
}

/* The tensor of this name, if the kernel's struct has its address: the region, and what the struct says of
 * it. */
static const emu_region *region_of(const emu *e, const char *name, const void *args, size_t size,
                                   fat_view *view)
{
  for (size_t at = 0; at + sizeof *view <= size; at += sizeof view->data) {
    memcpy(view, (const char *)args + at, sizeof *view);
    for (int i = 0; i < e->count; i++)
      if (e->region[i].data == view->data && strcmp(e->region[i].layout.name, name) == 0)
        return &e->region[i];
  }
  return NULL;
}

fat_status emu_map_fill(const emu *e, fat_tensor tensor, fat_map_box box, const void *args, size_t size,
                        void *map, fat_error *err)
{
  static const fat_cuda_calls calls = {.map_tiled = emu_map_tiled};
  const char *name = fat_tensors[tensor].name;
  fat_view view;
  const emu_region *r = region_of(e, name, args, size, &view);
  if (!r)
    return fat_status_fail(err, FAT_E_INPUT, "%s is to be mapped, and there is no tensor at its address",
                           name);
  const emu_layout *l = &r->layout;
  fat_map_shape shape = {.type = l->element == 4 ? FAT_CUDA_MAP_F32 : FAT_CUDA_MAP_F16,
                         .element = l->element,
                         .spared = !fat_map_is_needed(tensor)};
  for (int i = 0; i < EMU_DIMS; i++)
    shape.size[i] = (uint64_t)l->size[EMU_DIMS - 1 - i];
  if ((!shape.spared && !fat_map_fits(&shape, &view)) || fat_map_encode(&calls, &shape, &view, box, map) != 0)
    return fat_status_fail(err, FAT_E_INPUT, "%s cannot be mapped: its address or strides do not allow it",
                           name);
  return FAT_OK;
}
