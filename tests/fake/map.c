/* map.c -- cuTensorMapEncodeTiled: what the emulator can read again (tests/emu/maps.h). */
#include "fake.h"
#include "maps.h"

int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *base, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,
                           int swizzle, int promotion, int fill)
{
  FAKE_ENTER_CONTEXT(cuTensorMapEncodeTiled, c);
  (void)c;
  return emu_map_tiled(map, type, rank, base, size, stride, box, step, interleave, swizzle, promotion, fill);
}
