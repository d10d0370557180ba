// ws_drop.cuh -- dropout of bwd_ws.cu, drawn while S is awaited. Philox gives 16 bytes for 16 rows and 32 keys, of which a warp has 16:
// so two warps draw for each other, each for every other 16 rows, and hand over by way of shared memory. What is left of P is Z, and
//   dS = P (boost Z / P dP - D) = boost (Z dP - P (D / boost)):
// D is divided by the boost when it is made, and gradients are multiplied by it at their end.

//: lots -- which weights of a tile dropout takes, of this thread: what `lost` says for each 16 rows, of the even and of the odd ones; bytes
// are of rows 8 apart, and of keys 8 apart
struct lots {
  static constexpr i32 tiles = Br / 16;
  u32 at[tiles][2];
  __device__ __forceinline__ lots(const call &a, const rows_at &rows, i32 j0, i32 n)
  {
    constexpr i32 quads = (tiles + 3) / 4; // each of two tiles that this warp draws, for one of the two
    const i32 warp = warp_of() - 4, half = warp % 2, lane = thread_id() % 32, g = lane / 4, t = lane % 4;
    const u32 place = shared_address(shared_memory()) + at_lots + (n % 2 * 2 * consumers + warp / 2) * (quads * 2048) + lane * 16;
#pragma unroll
    for (i32 x = 0; x < quads; x++) {
      quad of[2];
#pragma unroll
      for (i32 y = 0; y < 2; y++) {
        const dropping drops(a, rows.of, (2 * t + g % 2) * 4 + g / 2, rows.i0 / 16 + 4 * x + 2 * y + half);
        const bytes16 all = drops.bytes(j0 / 32 + warp / 2);
#pragma unroll
        for (i32 z = 0; z < 4; z++)
          of[z / 2].at[2 * y + z % 2] = all.at[z];
      }
      put16(place + (4 * x + 2 * half) * 512, of[0]);
      put16(place + (4 * x + 2 * half + 1) * 512, of[1]);
    }
    named_sync(8 + warp / 2, 64); // the next step but one may write here again: between them the two meet once more
    const dropping drops(a, rows.of, lane, 0);
#pragma unroll
    for (i32 x = 0; x < 2 * quads; x++) {
      const quad drawn = get16(place + (2 * x + half) * 512);
#pragma unroll
      for (i32 y = 0; y < 2; y++) {
        const i32 tile = x / 2 * 4 + x % 2 + 2 * y;
        if (tile < tiles) {
          u32 even = drawn.at[2 * y], odd = drawn.at[2 * y + 1];
          turn_pair(even, odd, g % 2);
          at[tile][0] = drops.lost(even);
          at[tile][1] = drops.lost(odd);
        }
      }
    }
  }
};

//: draw -- of rounded weights those that dropout leaves; the others are 0
__device__ __forceinline__ void draw(rounded<Br> &Z, const rounded<Br> &P, const lots &by)
{
#pragma unroll
  for (i32 k = 0; k < P.steps; k++)
#pragma unroll
    for (i32 x = 0; x < 4; x++) {
      const u32 byte = 8 | (x % 2 * 2 + x / 2), which = byte * 0x1111 | 0x4400; // of the even row, then of the odd one: its sign all over
      Z.part[k][0].at[x] = P.at(k).at[x] & ~prmt(by.at[k][0], by.at[k][1], which);
    }
}

//: minus_D_drawn -- dP becomes dS / boost
__device__ __forceinline__ void minus_D_drawn(acc<Bc, Br> &dP, const rounded<Br> &P, const rounded<Br> &Z, const D_of_rows &D)
{
#pragma unroll
  for (i32 x = 0; x < dP.C; x++)
#pragma unroll
    for (i32 r = 0; r < dP.R; r++)
      dP.at[r][x] = fmaf(Z.value(r, x), dP.at[r][x], -(P.value(r, x) * __uint_as_float(D.at[x / 4].at[x % 4])));
}

//: scale_boosted -- what dQ and dK are multiplied by
__device__ __forceinline__ float scale_boosted(const call &a)
{
  return a.scale * boost(a);
}
