// drop.cuh -- which weights dropout keeps: a function of seed, offset, batch, head, row and key, with the bits of
// FlashAttention-2's. Of 16 rows and 32 keys Philox gives lane n of 32 sixteen bytes, by a counter that is
// (offset + 32 head + n, row / 16, key / 32): row % 8 = n / 4 and row / 8 % 2, key % 8 = 2 (n % 4) and one more, key / 8 % 4.
// That is what a lane holds of S on tensor cores. A weight stays where its byte is at most 255 (1 - dropout), rounded down.

//: mul_wide -- all 64 bits of a product
__device__ __forceinline__ u64 mul_wide(u32 x, u32 y)
{
  return u64(x) * y;
}

//: bytes16 -- 16 random bytes
struct bytes16 {
  u32 at[4];
};

//: dropping -- what decides about one head's weights
struct dropping {
  u64 first; // counter of lane 0
  u32 key[2];
  u32 most;  // byte that keeps a weight
  template <class At> __device__ __forceinline__ dropping(const call &a, const At &at)
  {
    const u32 *words = (const u32 *)a.rng.data; // seed and offset, 64 bits each
    key[0] = words[0];
    key[1] = words[1];
    first = (u64(words[3]) << 32 | words[2]) + (u64(at.b) * a.h + at.h) * 32;
    most = u32(255. * double(1.f - a.dropout));
  }
  // Philox4x32 of seven rounds.
  __device__ __forceinline__ bytes16 bytes(i32 lane, i32 rows, i32 keys) const
  {
    const u64 counter = first + lane;
    u32 x[4] = {u32(counter), u32(counter >> 32), u32(rows), u32(keys)}, k0 = key[0], k1 = key[1];
#pragma unroll
    for (i32 n = 0; n < 7; n++) {
      const u64 p = mul_wide(0xD2511F53, x[0]), q = mul_wide(0xCD9E8D57, x[2]);
      x[0] = u32(q >> 32) ^ x[1] ^ k0;
      x[1] = u32(q);
      x[2] = u32(p >> 32) ^ x[3] ^ k1;
      x[3] = u32(p);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return {{x[0], x[1], x[2], x[3]}};
  }
  // Whether byte n of a word keeps its weight.
  __device__ __forceinline__ bool keeps(u32 word, i32 n) const { return (word >> 8 * n & 255) <= most; }
};

//: drop_as -- dropped weights of S become 0; with `signs` they are kept and negative, which says so and loses nothing
% if dtype == "f32" then
template <bool transposed, bool signs, class Acc, class At>
__device__ __forceinline__ void drop_as(Acc &P, const call &a, const At &at, i32 i0, i32 j0)
{
  const dropping drops(a, at);
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++) {
      const i32 i = i0 + (transposed ? Acc::column(c) : Acc::row(r)), j = j0 + (transposed ? Acc::row(r) : Acc::column(c));
      const u32 word = drops.bytes(i % 8 * 4 + j % 8 / 2, i / 16, j / 32).at[j % 32 / 8];
      P.at[r][c] = drops.keeps(word, i % 16 / 8 * 2 + j % 2) ? P.at[r][c] : signs ? -P.at[r][c] : 0.f;
    }
}
% else
// Where 32 keys of an accumulator begin at a multiple of 32, their 16 bytes are made once, else for 16 of them.
template <bool transposed, bool signs, class Acc, class At>
__device__ __forceinline__ void drop_as(Acc &P, const call &a, const At &at, i32 i0, i32 j0)
{
  const dropping drops(a, at);
  const i32 lane = thread_id() % 32, g = lane / 4, t = lane % 4;
  constexpr i32 down = transposed ? Acc::C : Acc::R, along = transposed ? Acc::R : Acc::C; // of a thread: rows, keys
  constexpr i32 blocks = transposed ? along : along / 2;                                    // of 8 keys
  constexpr bool whole = Bc % 32 == 0 && blocks % 4 == 0;
#pragma unroll
  for (i32 d = 0; d < down; d += transposed ? 4 : 2) // 16 rows of Q
#pragma unroll
    for (i32 n = 0; n < blocks; n += whole ? 4 : 2)
#pragma unroll
      for (i32 e = 0; e < (transposed ? 2 : 1); e++) {
        const i32 i = i0 + (transposed ? Acc::column(d) : Acc::row(d)), j = j0 + (transposed ? Acc::row(n) : Acc::column(2 * n));
        bytes16 x = drops.bytes(transposed ? (2 * t + e) * 4 + g / 2 : lane, i / 16, j / 32);
        if (!whole && j / 16 % 2 == 1) {
          x.at[0] = x.at[2];
          x.at[1] = x.at[3];
        }
#pragma unroll
        for (i32 y = 0; y < (whole ? 4 : 2); y++)
#pragma unroll
          for (i32 z = 0; z < (transposed ? 2 : 4); z++) {
            float &p = transposed ? P.at[n + y][d + 2 * z + e] : P.at[d + z / 2][2 * (n + y) + z % 2];
            const bool kept = transposed ? drops.keeps(x.at[y], 2 * z + g % 2) : drops.keeps(x.at[y], z);
            p = kept ? p : signs ? -p : 0.f;
          }
      }
}
% end

//: mark -- hook: `weigh` of the backward, which needs dropped weights too
template <class Acc, class At> __device__ __forceinline__ void mark(Acc &P, const call &a, const At &at, i32 i0, i32 j0)
{
  drop_as<false, true>(P, a, at, i0, j0);
}

//: mark_rows -- the same of P^T
template <class Acc, class At> __device__ __forceinline__ void mark_rows(Acc &P, const call &a, const At &at, i32 i0, i32 j0)
{
  drop_as<true, true>(P, a, at, i0, j0);
}

//: kept -- of marked weights those that stay
template <class Acc> __device__ __forceinline__ Acc kept(const Acc &P)
{
  Acc Z;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      Z.at[r][c] = fmaxf(P.at[r][c], 0.f);
  return Z;
}

//: boost -- what kept weights are multiplied by
__device__ __forceinline__ float boost(const call &a)
{
  return 1.f / (1.f - a.dropout);
}

//: difference -- dS of a marked weight, P (Z dP - D)
__device__ __forceinline__ float difference(float P, float dP, float D, float more)
{
  return fabsf(P) * ((P < 0.f ? 0.f : more * dP) - D);
}
