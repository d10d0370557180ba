// drop.cuh -- which weights dropout keeps: a function of seed, offset, batch, head, row and key, with the bits of
// FlashAttention-2's. Of 16 rows and 32 keys Philox gives lane n of 32 sixteen bytes, by a counter that is
// (offset + 32 head + n, row / 16, key / 32): row % 8 = n / 4 and row / 8 % 2, key % 8 = 2 (n % 4) and one more, key / 8 % 4.
// That is what a lane holds of S on tensor cores. A weight stays where its byte is at most 255 (1 - dropout), rounded down.

//: mul_wide -- all 64 bits of a product. Of what dropout costs, this is most: beside wgmma a warp waits 13.7 clocks for one, alone 6.2 (H200).
// Tried for fwd_ws and taken out: upper halves by fma.rz.f64, 6.9 clocks each, but more power; bytes made by the warps that only copy (17 %
// more clocks); dropping while the next S runs, and by factors of 1 and 0 (3 to 6 % fewer clocks in tunes, no less time in calls back to back)
__device__ __forceinline__ u64 mul_wide(u32 x, u32 y)
{
  return u64(x) * y;
}

//: bytes16 -- 16 random bytes
struct bytes16 {
  u32 at[4];
};

//: dropping -- what decides about the weights of one head in 16 rows, of one lane. Of the seven rounds of Philox4x32 what is the same
// for all keys is made once: of the first three rounds' six products four
struct dropping {
  u32 key[2];
  u32 x2, x[4]; // before the keys are in it; as the third round leaves it, but for what depends on keys
  u32 low, high; // by how much a byte must be below 256 to keep its weight, four times: the lower 7 bits, the upper one
  template <class At> __device__ __forceinline__ dropping(const call &a, const At &at, i32 lane, i32 rows)
  {
    const u32 *words = (const u32 *)a.rng.data; // seed and offset, 64 bits each
    const u64 counter = (u64(words[3]) << 32 | words[2]) + (u64(at.b) * a.h + at.h) * 32 + lane;
    key[0] = words[0];
    key[1] = words[1];
    const u64 p0 = mul_wide(0xD2511F53, u32(counter)), q0 = mul_wide(0xCD9E8D57, u32(rows));
    const u64 p1 = mul_wide(0xD2511F53, u32(q0 >> 32) ^ u32(counter >> 32) ^ key[0]);
    const u64 q2 = mul_wide(0xCD9E8D57, u32(p1 >> 32) ^ u32(p0) ^ round_key(1, 1));
    x2 = u32(p0 >> 32) ^ key[1];
    x[0] = u32(q2 >> 32) ^ round_key(0, 2);
    x[1] = u32(q2);
    x[2] = u32(p1) ^ round_key(1, 2);
    x[3] = u32(q0) ^ round_key(0, 1);
    const u32 above = 255 - u32(255. * double(1.f - a.dropout)); // a byte of at most the rest keeps its weight
    low = (above & 127) * 0x01010101;
    high = above & 128 ? 0x80808080 : 0;
  }
  __device__ __forceinline__ u32 round_key(i32 which, i32 n) const { return key[which] + u32(n) * (which ? 0xBB67AE85 : 0x9E3779B9); }
  // Of 32 keys.
  __device__ __forceinline__ bytes16 bytes(i32 keys) const
  {
    const u64 q1 = mul_wide(0xCD9E8D57, x2 ^ u32(keys));
    const u64 p2 = mul_wide(0xD2511F53, u32(q1 >> 32) ^ x[3]);
    u32 y[4] = {u32(q1) ^ x[0], x[1], u32(p2 >> 32) ^ x[2], u32(p2)};
#pragma unroll
    for (i32 n = 3; n < 7; n++) {
      const u64 p = mul_wide(0xD2511F53, y[0]), q = mul_wide(0xCD9E8D57, y[2]);
      y[0] = u32(q >> 32) ^ y[1] ^ round_key(0, n);
      y[1] = u32(q);
      y[2] = u32(p >> 32) ^ y[3] ^ round_key(1, n);
      y[3] = u32(p);
    }
    return {{y[0], y[1], y[2], y[3]}};
  }
  // Of the four bytes of a word the upper bits say which weights are dropped: where byte + `above` goes beyond 255.
  __device__ __forceinline__ u32 lost(u32 word) const
  {
    const u32 sum = (word & 0x7f7f7f7f) + low;
    return word & sum | high & (word | sum);
  }
};

//: weight_of -- one weight by the byte n of what `lost` says: 0 where it is dropped, or with `signs` negative
template <bool signs> __device__ __forceinline__ float weight_of(float P, u32 lost, i32 n)
{
  return (lost >> (8 * n + 7) & 1) == 0 ? P : signs ? -P : 0.f;
}

//: drop_as -- dropped weights of S become 0; with `signs` they are kept and negative, which says so and loses nothing
% if dtype == "f32" then
template <bool transposed, bool signs, class Acc, class At>
__device__ __forceinline__ void drop_as(Acc &P, const call &a, const At &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++) {
      const i32 i = i0 + (transposed ? Acc::column(c) : Acc::row(r)), j = j0 + (transposed ? Acc::row(r) : Acc::column(c));
      const dropping drops(a, at, i % 8 * 4 + j % 8 / 2, i / 16);
      P.at[r][c] = weight_of<signs>(P.at[r][c], drops.lost(drops.bytes(j / 32).at[j % 32 / 8]), i % 16 / 8 * 2 + j % 2);
    }
}
% else
// Where 32 keys of an accumulator begin at a multiple of 32, their 16 bytes are made once, else for 16 of them.
template <bool transposed, bool signs, class Acc, class At>
__device__ __forceinline__ void drop_as(Acc &P, const call &a, const At &at, i32 i0, i32 j0)
{
  const i32 lane = thread_id() % 32, g = lane / 4, t = lane % 4;
  constexpr i32 down = transposed ? Acc::C : Acc::R, along = transposed ? Acc::R : Acc::C; // of a thread: rows, keys
  constexpr i32 blocks = transposed ? along : along / 2;                                    // of 8 keys
  constexpr bool whole = Bc % 32 == 0 && blocks % 4 == 0;
#pragma unroll
  for (i32 d = 0; d < down; d += transposed ? 4 : 2) { // 16 rows of Q
    const i32 i = i0 + (transposed ? Acc::column(d) : Acc::row(d));
    const dropping drops(a, at, transposed ? (2 * t + g % 2) * 4 + g / 2 : lane, i / 16);
#pragma unroll
    for (i32 n = 0; n < blocks; n += whole ? 4 : 2) {
      const i32 j = j0 + (transposed ? Acc::row(n) : Acc::column(2 * n));
      bytes16 x = drops.bytes(j / 32);
      if (!whole && j / 16 % 2 == 1) {
        x.at[0] = x.at[2];
        x.at[1] = x.at[3];
      }
      if constexpr (transposed)
        turn_pairs(x, g % 2);
#pragma unroll
      for (i32 y = 0; y < (whole ? 4 : 2); y++)
#pragma unroll
        for (i32 z = 0; z < 4; z++) {
          float &p = transposed ? P.at[n + y][d + z] : P.at[d + z / 2][2 * (n + y) + z % 2];
          p = transposed ? weight_of<signs>(p, drops.lost(x.at[z % 2 * 2 + y / 2]), y % 2 * 2 + z / 2)
                         : weight_of<signs>(p, drops.lost(x.at[y]), z);
        }
    }
  }
}
% end

//: turn_pair -- where S is transposed a lane has one key and two rows beside each other, of whose bytes a lane of Philox holds one
// row and two keys: the lane of the other key makes the other row's, and they exchange what each of them needs. Then a word for
// each row: the bytes of both rows 8 apart for its key, and for the one 8 behind
__device__ __forceinline__ void turn_pair(u32 &x, u32 &y, i32 own)
{
  const u32 even = 0x6420, odd = 0x7531; // bytes
  const u32 mine = prmt(x, y, own ? odd : even), others = u32(from_lane(i32(prmt(x, y, own ? even : odd)), 4));
  x = own ? others : mine;
  y = own ? mine : others;
}

//: turn_pairs -- of 16 keys, and the next 16
__device__ __forceinline__ void turn_pairs(bytes16 &x, i32 own)
{
  turn_pair(x.at[0], x.at[1], own);
  turn_pair(x.at[2], x.at[3], own);
  const u32 second = x.at[1];
  x.at[1] = x.at[2];
  x.at[2] = second;
}

//: drop_packed -- of 64 rows of rounded weights those that are dropped become 0
template <class Rounded> __device__ __forceinline__ void drop_packed(Rounded &P, const dropping &drops, i32 j0)
{
  constexpr bool whole = Bc % 32 == 0;
  bytes16 x;
#pragma unroll
  for (i32 k = 0; k < P.steps; k++) { // 16 keys
    if (!whole || k % 2 == 0)
      x = drops.bytes((j0 + 16 * k) / 32);
    const bool upper = whole ? k % 2 == 1 : j0 / 16 % 2 != k % 2;
#pragma unroll
    for (i32 y = 0; y < 2; y++) {
      const u32 lost = drops.lost(upper ? x.at[2 + y] : x.at[y]);
      P.part[k][0].at[2 * y] &= ~prmt(lost, 0, 0x9988);     // a row g
      P.part[k][0].at[2 * y + 1] &= ~prmt(lost, 0, 0xbbaa); // g + 8
    }
  }
}

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
