// ws_grad_steps.cuh -- what a step of the backward for warpgroups is made of: products, P and dS, and what becomes of them.

//: get_chunk -- 16 bytes of device memory
__device__ __forceinline__ quad get_chunk(const elem *p)
{
  return *(const quad *)p;
}

//: rounded -- an accumulator as the left operand of a product
template <i32 columns_> struct rounded : operand<Bc, columns_> {
  __device__ __forceinline__ void round(const acc<Bc, columns_> &S) { (operand<Bc, columns_> &)*this = operand_of(S); }
  __device__ __forceinline__ const quad &at(i32 k) const { return this->part[k][0]; }
% if has.drop then
  // Of marked weights those that stay.
  __device__ __forceinline__ void keep(const rounded &P)
  {
#pragma unroll
    for (i32 k = 0; k < this->steps; k++)
#pragma unroll
      for (i32 x = 0; x < 4; x++)
        this->part[k][0].at[x] = P.at(k).at[x] & ~prmt(P.at(k).at[x], 0, 0xbb99);
  }
% end
  // What became of S.at[r][c].
  __device__ __forceinline__ float value(i32 r, i32 c) const
  {
    return float_of(elem(at(c / 4).at[r + c % 4 / 2 * 2] >> c % 2 * 16));
  }
};

//: kept_rows -- rows of a tile as the left operand of many products: the first columns, `held` times 16, in registers
template <i32 depth, i32 held_$(halves and ", i32 again = 0" or "")> struct kept_rows {
  static constexpr i32 held = held_, steps = depth / 16;
  held_rows<16 * held$(halves and ", again" or "")> first;
  placed_rows<depth$(halves and ", again" or "")> all;
  __device__ __forceinline__ explicit kept_rows(u32 place) : first(place), all(place) {}
};

//: K_rows -- K as the left operand of S^T = K Q^T
typedef $(K_held > 0 and "kept_rows<Dp, K_held" or "placed_rows<Dp")$(halves and ", 64 - share_of_dQ::width" or "")> K_rows;

//: V_rows -- V as that of dP^T = V dO^T
typedef $(V_held > 0 and "kept_rows<Dw, V_held>" or "placed_rows<Dw>") V_rows;

//: start_kept -- start_ABt with such an A
template <class Acc, class Left> __device__ __forceinline__ void start_kept(Acc &C, const Left &A, u32 B)
{
  const descriptor b(B, 16, 1024);
  products_fence();
#pragma unroll
  for (i32 k = 0; k < A.held; k++)
    wgmma<0>(C.at, A.first.at(k), b.at(k / 4 * box_bytes<Acc::columns> + k % 4 * 32), k > 0);
#pragma unroll
  for (i32 k = A.held; k < A.steps; k++)
    wgmma<0>(C.at, A.all.at(k), b.at(k / 4 * box_bytes<Acc::columns> + k % 4 * 32), true);
  products_commit();
}

//: start_S -- S^T = K Q^T
__device__ __forceinline__ void start_S(acc<Bc, Br> &S, const K_rows &K, i32 n, bool is_here)
{
  await_full(Q_full, Q_place_of(n), is_here);
  $(K_held > 0 and "start_kept" or "start_ABt")(S, K, Q_of(n));
}

//: start_dP -- dP^T = V dO^T
__device__ __forceinline__ void start_dP(acc<Bc, Br> &dP, const V_rows &V, i32 n, bool is_here)
{
  await_full(dO_full, dO_place_of(n), is_here);
  $(V_held > 0 and "start_kept" or "start_ABt")(dP, V, dO_of(n));
}

//: set_P -- S^T of a tile becomes P^T = exp(S^T - LSE)
__device__ __forceinline__ void set_P(acc<Bc, Br> &S, const call &a, const rows_at &at, i32 j0, i32 n$(rows_ahead and ", const LSE_of_rows &L" or "")$(keeps_slope and ", acc<Bc, Br> &slopes" or ""))
{
  $(score_rows)(S, a, at.of, at.i0, j0$(and_slopes)$(placed and ", bias_place(Q_place_of(n).slot)" or ""));
  if (at.is_cut)
    $(cut.right and not (cut.left or has.bs or has.modHASH or placed and ragged) and "mask_before" or "mask_rows")(S, a, at.of, at.i0, j0);
% if not capped then
  $(rows_ahead and "exp2_minus_rows" or "exp2_minus_LSE")(S, $(rows_ahead and "L" or "LD_of(n)"), $(c_of_call));
% end
  $(lots and "" or weigh_rows .. "(S, a, at.of, at.i0, j0);")
}

//: mask_before -- mask_rows where masks cut off none but the rows before those that see a key: by one comparison of a number that the
// compiler knows. Rows behind the last one need none, as their LSE is inf and their scores are numbers: not where an expression gives these, nor where
// tiles of biases reach past a batch's rows
template <class Acc> __device__ __forceinline__ void mask_before(Acc &S, const call &a, const sequence &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const interval by = seen_by(a, at, j0 + Acc::row(r));
    const i32 first = by.lo < by.hi ? by.lo - i0 - Acc::column(0) : Br;
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = c / 2 * 8 + c % 2 >= first ? S.at[r][c] : minus_inf();
  }
}

//: set_slope -- P times the derivative of its scores, where that is not 1
__device__ __forceinline__ void set_slope(acc<Bc, Br> &P, const call &a, const rows_at &at, i32 j0, i32 n)
{
% if has.softcap and not (keeps_slope or capped) then
  times_slope(P, LD_of(n), a, at.of, at.i0, j0);
% end
}

//: D_of_rows -- D of the rows of a tile, as a thread needs it
struct D_of_rows {
  quad at[Br / 16];
  __device__ __forceinline__ explicit D_of_rows(LD_tile LD)
  {
#pragma unroll
    for (i32 x = 0; x < Br / 16; x++)
      at[x] = LD.D(4 * x);
  }
};

//: value_of -- a number of P, which may have been rounded
__device__ __forceinline__ float value_of(const rounded<Br> &P, i32 r, i32 c) { return P.value(r, c); }
__device__ __forceinline__ float value_of(const acc<Bc, Br> &P, i32 r, i32 c) { return P.at[r][c]; }

//: minus_D_times -- dP becomes dS = P (dP - D)
template <class Weights>
__device__ __forceinline__ void minus_D_times(acc<Bc, Br> &dP, const Weights &P, const D_of_rows &D$(has.drop and ", float more" or ""))
{
#pragma unroll
  for (i32 x = 0; x < dP.C; x++)
#pragma unroll
    for (i32 r = 0; r < dP.R; r++)
      dP.at[r][x] = $(has.drop and "difference(value_of(P, r, x), dP.at[r][x], __uint_as_float(D.at[x / 4].at[x % 4]), more)" or "value_of(P, r, x) * (dP.at[r][x] - __uint_as_float(D.at[x / 4].at[x % 4]))");
}

//: tell_dS -- `tell_rows` of a tile
__device__ __forceinline__ void tell_dS(const acc<Bc, Br> &dS, const call &a, const rows_at &at, i32 j0)
{
  tell_rows(dS, a, at.of, at.i0, j0);
}

//: hand_P -- to the warpgroup that has the same keys: its threads hold of dP what those here hold of P
__device__ __forceinline__ void hand_P(i32 n, const rounded<Br> &P)
{
  const step_of<1> to(n);
  wait(P_free, to.parity ^ 1);
#pragma unroll
  for (i32 k = 0; k < P.steps; k++)
    put16(shared_address(shared_memory()) + at_P + (k * 128 + thread_id() % 128) * 16, P.at(k));
  warp_sync();
  release(P_full);
}

//: take_P -- from there
__device__ __forceinline__ void take_P(i32 n, rounded<Br> &P)
{
  wait(P_full, step_of<1>(n).parity);
#pragma unroll
  for (i32 k = 0; k < P.steps; k++)
    P.part[k][0] = get16(shared_address(shared_memory()) + at_P + (k * 128 + thread_id() % 128) * 16);
  warp_sync();
  release(P_free);
}

//: lay_dS -- the keys of a warpgroup, transposed back: a warp lays 16 columns
__device__ __forceinline__ void lay_dS(i32 n, i32 me, const rounded<Br> &x)
{
  const dS_place_of to(n);
  const i32 lane = thread_id() % 32, row = lane / 16 * 8 + lane % 8, chunk = warp_of() % 4 * 2 + lane / 8 % 2;
  const u32 first = dS_of(n) + me * box_bytes<Br> + row * 128 + (chunk ^ row % 8) * 16;
  wait(dS_free + to.slot, to.parity ^ 1);
#pragma unroll
  for (i32 k = 0; k < x.steps; k++)
    stmatrix_trans(first + k * 2048, x.at(k).at[0], x.at(k).at[1], x.at(k).at[2], x.at(k).at[3]);
}

//: show_dS -- what this warp has laid is there for the products of all
__device__ __forceinline__ void show_dS(i32 n)
{
  copies_fence();
  warp_sync();
  release(dS_full + dS_place_of(n).slot);
}

//: end_stores -- what the first lane of this warp has begun to store has been read
__device__ __forceinline__ void end_stores()
{
  if (thread_id() % 32 == 0)
    store_wait();
}

//: store_scaled -- rows i0.. of `scale` times an accumulator of 64 rows, rounded, by way of a place that nobody else reads
template <class Acc>
__device__ __forceinline__ void store_scaled(u32 place, Acc &S, float scale, const tensor_map &to, const sequence &at, i32 i0$(ragged and ", const stored_rows &rows_to" or ""))
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] *= scale;
  store_from(place, S, to, at, i0$(begins and not has.varlen and " + rows_to.before" or "")$(ragged and ", rows_to, i0" or ""));
}
