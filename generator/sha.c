/* sha.c -- the compression function of SHA-256 (FIPS 180-4, 6.2.2) by x86's SHA instructions.
 *
 * In: a state and whole blocks. Out: the state after them. The first plan of a family hashes 1 MB of cubins,
 * each before it is loaded: libmd's portable code takes 2.1 ms for it where these instructions take 0.4. The
 * rest of a hash, and all of it on other processors, stays libmd's. */
#include "sha.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

static const uint32_t k[64] =
    {/* the first 32 bits of the cube roots of the first 64 primes, behind the point */
     0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
     0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
     0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
     0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
     0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
     0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
     0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
     0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* CPUID costs microseconds in a virtual machine, so it is asked once. */
static bool has_instructions(void)
{
  enum { UNKNOWN, NO, YES };
  static atomic_int known = UNKNOWN;
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == UNKNOWN) {
    unsigned a, b = 0, c = 0, d;
    const bool vectors = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSSE3) && (c & bit_SSE4_1);
    answer = vectors && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) ? YES : NO;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == YES;
}

/* The instructions want the state as two vectors, which trade places every two rounds. */
__attribute__((target("sha,ssse3,sse4.1"))) static void take(uint32_t s[8], const unsigned char *bytes,
                                                             size_t blocks)
{
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef = _mm_set_epi32((int)s[0], (int)s[1], (int)s[4], (int)s[5]);
  __m128i cdgh = _mm_set_epi32((int)s[2], (int)s[3], (int)s[6], (int)s[7]);
  for (; blocks > 0; blocks--, bytes += FAT_SHA_BLOCK) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4]; /* words of the schedule, the next four rounds' first */
    for (int i = 0; i < 4; i++)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)bytes + i), big_endian);
    for (int round = 0; round < 64; round += 4) {
      const __m128i wk = _mm_add_epi32(w[0], _mm_loadu_si128((const __m128i *)(k + round)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_unpackhi_epi64(wk, wk));
      const __m128i early = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
      const __m128i next = _mm_sha256msg2_epu32(early, w[3]);
      w[0] = w[1];
      w[1] = w[2];
      w[2] = w[3];
      w[3] = next;
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  s[0] = (uint32_t)_mm_extract_epi32(abef, 3);
  s[1] = (uint32_t)_mm_extract_epi32(abef, 2);
  s[2] = (uint32_t)_mm_extract_epi32(cdgh, 3);
  s[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
  s[4] = (uint32_t)_mm_extract_epi32(abef, 1);
  s[5] = (uint32_t)_mm_extract_epi32(abef, 0);
  s[6] = (uint32_t)_mm_extract_epi32(cdgh, 1);
  s[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

bool fat_sha_blocks(uint32_t state[8], const void *bytes, size_t blocks)
{
  if (!has_instructions())
    return false;
  take(state, bytes, blocks);
  return true;
}

#else

bool fat_sha_blocks(uint32_t state[8], const void *bytes, size_t blocks)
{
  (void)state, (void)bytes, (void)blocks;
  return false;
}

#endif
