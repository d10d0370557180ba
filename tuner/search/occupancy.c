/* occupancy.c -- resident blocks per SM, as the hardware hands resources out.
 *
 * In: the limits of an architecture and the footprint of a block. Out: blocks per SM and what binds.
 * Registers are given to whole warps in units of 256 and lie in four partitions of the SM, each with its own
 * quarter; a launch is checked as if its warps filled all four. Shared memory is given in units of 256 bytes
 * on sm_75 and 128 bytes from sm_80 on, with the driver's own part added to each block. The test compares
 * these rules with NVIDIA's cuda_occupancy.h where that is installed. */
#include "occupancy.h"

#include <stddef.h>
#include <limits.h>

enum {
  WARP = 32,
  PARTITIONS = 4,      /* of an SM, each with its scheduler and its quarter of the registers */
  REGISTER_UNIT = 256, /* registers are given to a warp in multiples of this */
  SHARED_UNIT_TURING = 256,
  SHARED_UNIT = 128,
  BLOCK_THREADS = 1024, /* threads of a block, on every architecture */
};

static int ceildiv(int x, int y)
{
  return (x + y - 1) / y;
}

static int round_up(int x, int unit)
{
  return ceildiv(x, unit) * unit;
}

static int by_registers(const fat_arch *arch, int warps, int registers)
{
  if (registers > arch->regs_thread)
    return 0;
  if (registers <= 0)
    return INT_MAX;
  int warp_registers = round_up(registers * WARP, REGISTER_UNIT);
  if (warp_registers * round_up(warps, PARTITIONS) > arch->regs_sm)
    return 0;
  return arch->regs_sm / PARTITIONS / warp_registers * PARTITIONS / warps;
}

static int by_shared(const fat_arch *arch, int shared)
{
  int unit = arch->sm < 80 ? SHARED_UNIT_TURING : SHARED_UNIT;
  if (shared > arch->shared_block)
    return 0;
  int taken = round_up(shared + arch->shared_reserved, unit);
  return taken > 0 ? arch->shared_sm / taken : INT_MAX;
}

int fat_occupancy_blocks(const fat_arch *arch, const fat_footprint *f, const char **binding)
{
  bool launchable = f->threads >= 1 && f->threads <= BLOCK_THREADS && f->shared >= 0;
  int warps = launchable ? ceildiv(f->threads, WARP) : 1;
  const struct {
    const char *name;
    int blocks;
  } limits[] = {
      {"threads", launchable ? arch->threads_sm / WARP / warps : 0},
      {"registers", by_registers(arch, warps, f->registers)},
      {"shared memory", by_shared(arch, f->shared)},
      {"blocks", arch->blocks_sm},
  };
  int least = 0;
  for (int i = 1; i < (int)(sizeof limits / sizeof limits[0]); i++)
    if (limits[i].blocks < limits[least].blocks)
      least = i;
  if (binding)
    *binding = limits[least].name;
  return limits[least].blocks;
}
