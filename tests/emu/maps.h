/* maps.h -- a tensor map as the fake driver writes it and the emulator reads it.
 *
 * The real one is 128 bytes that only the driver and the TMA unit understand; this one has the same size, and
 * all that it was made from in plain fields. For C and for the C++ of kernels. */
#ifndef EMU_MAPS_H
#define EMU_MAPS_H

#include <stdint.h>

enum { EMU_MAP_MAGIC = 0x544d4150, EMU_MAP_DIMS = 5 };

/* All enumerations are those of cuda.h; what lies behind `rank` dimensions is 0. */
typedef struct emu_tensor_map {
  uint32_t magic;              /* EMU_MAP_MAGIC */
  uint8_t rank, type, element; /* element: bytes */
  uint8_t interleave, swizzle, promotion, fill;
  uint8_t step[EMU_MAP_DIMS]; /* element strides */
  uint16_t box[EMU_MAP_DIMS]; /* elements */
  uint64_t base;
  uint64_t size[EMU_MAP_DIMS];       /* elements */
  uint64_t stride[EMU_MAP_DIMS - 1]; /* bytes, of dimensions 1, 2, ... */
  uint64_t reserved[2];
} emu_tensor_map;

#ifdef __cplusplus
extern "C" {
#endif
/* cuTensorMapEncodeTiled: 0, or 1 (CUDA_ERROR_INVALID_VALUE) where cuda.h says what a driver refuses. */
int emu_map_tiled(void *map, int type, uint32_t rank, void *base, const uint64_t *size,
                  const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,
                  int swizzle, int promotion, int fill);
#ifdef __cplusplus
}
#endif

#endif
