/* drop.c -- Philox4x32 of seven rounds, by a counter of offset, head, row and key; a byte for each weight. */
#include "drop.h"

static uint32_t upper(uint32_t x, uint32_t y)
{
  return (uint32_t)((uint64_t)x * y >> 32);
}

static void philox(uint32_t x[4], uint64_t seed)
{
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int n = 0; n < 7; n++) {
    const uint32_t y[4] = {upper(0xCD9E8D57u, x[2]) ^ x[1] ^ k0, 0xCD9E8D57u * x[2],
                           upper(0xD2511F53u, x[0]) ^ x[3] ^ k1, 0xD2511F53u * x[0]};
    for (int i = 0; i < 4; i++)
      x[i] = y[i];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

bool fat_drop_keeps(const fat_rng *rng, float rate, int64_t head, int64_t i, int64_t j)
{
  const uint64_t counter = rng->offset + (uint64_t)(head * 32 + i % 8 * 4 + j % 8 / 2);
  uint32_t x[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)(i / 16), (uint32_t)(j / 32)};
  philox(x, rng->seed);
  const int64_t byte = i % 16 / 8 * 2 + j % 2;
  return (x[j % 32 / 8] >> 8 * byte & 255) <= (uint32_t)(255. * (double)(1 - rate));
}
