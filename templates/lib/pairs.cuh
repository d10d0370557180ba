// pairs.cuh -- tensors of pairs of a row and a key (`bias`, its gradient, `mask`): where a pair lies, and how biases are read.

//: number_of_pair -- where the number of row i and key j lies in a tensor of pairs; beyond the last ones that of the last
template <class At> __device__ __forceinline__ i64 number_of_pair(const tensor &of, const At &at, i32 i, i32 j)
{
% local batch = has.varlen and "" or "i64(at.b) * of.b + "
  const i32 row = max(0, min(i, at.nq - 1)), key = max(0, min(j, at.nk - 1));
% if packed then
  return $(batch)i64(at.h + row % at.peers) * of.h + i64(row / at.peers$(has.varlen and " + at.q0" or "")) * of.n + key$(begins and not has.varlen and " + at.k0" or "");
% else
  return $(batch)i64(at.h) * of.h + i64(row$(has.varlen and " + at.q0" or "")) * of.n + key$(begins and not has.varlen and " + at.k0" or "");
% end
}

//: bias_elem -- of Q's type, unless $(has.bias32 and "as here " or "")they are of f32 beside 16 bits
typedef $(has.bias32 and "float" or "elem") bias_elem;

//: bias_of
__device__ __forceinline__ float bias_of(bias_elem x)
{
  return $(has.bias32 and "x" or "float_of(x)");
}

//: biases -- those that a thread adds to a row of S: neighbouring keys by one load where they are aligned, and all loads
// under way before the first is wanted; by single keys, each with its own place, fwd_ws spilled
struct alignas(2 * sizeof(bias_elem)) two_biases {
  bias_elem at[2];
};
template <bool transposed, class Acc> struct biases {
  two_biases of[Acc::C / 2];
  template <class At> __device__ __forceinline__ biases(const call &a, const At &at, i32 i, i32 j0)
  {
    if constexpr (transposed)
      return; // its neighbours are rows, which lie apart
    const bias_elem *const row = (const bias_elem *)a.bias.data + number_of_pair(a.bias, at, i, 0);
    const bias_elem *const first = row + j0 + Acc::column(0);
    if (j0 + Acc::column(Acc::C - 1) < at.nk && u64(first) % sizeof(two_biases) == 0) {
#pragma unroll
      for (i32 n = 0; n < Acc::C / 2; n++)
        of[n] = *(const two_biases *)(first + (Acc::column(2 * n) - Acc::column(0)));
    } else {
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        of[c / 2].at[c % 2] = row[max(0, min(j0 + Acc::column(c), at.nk - 1))];
    }
  }
};

//: biases_of_keys -- those of S^T, a row for each key: where a row of Q begins is asked once for all of a thread's keys
template <bool transposed, class Acc> struct biases_of_keys {
  bias_elem at[transposed ? Acc::R : 1][transposed ? Acc::C : 1];
  template <class At> __device__ __forceinline__ biases_of_keys(const call &a, const At &of, i32 i0, i32 j0)
  {
    if constexpr (transposed)
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++) {
        const bias_elem *const row = (const bias_elem *)a.bias.data + number_of_pair(a.bias, of, i0 + Acc::column(c), 0);
#pragma unroll
        for (i32 r = 0; r < Acc::R; r++)
          at[r][c] = row[max(0, min(j0 + Acc::row(r), of.nk - 1))];
      }
  }
};

//: clear_pairs -- dbias = 0 in one of the tiles of Q of all heads: where several share their rows, by the first of these alone
__device__ __forceinline__ void clear_pairs(const call &a, i32 tile)
{
  const i32 Tr = ceil_div(a.q, Br), i0 = tile % Tr * Br;
  const sequence at = sequence_of(a, tile / Tr);
  if ((a.dbias.b == 0 && at.b > 0) || (a.dbias.h == 0 && at.h > 0))
    return;
  const i32 rows_here = min(a.dbias.n == 0 ? 1 - i0 : Br, at.nq - i0);
  for (i32 r = 0; r < rows_here; r++) {
    float *const row = (float *)a.dbias.data + number_of_pair(a.dbias, at, i0 + r, 0);
    for (i32 j = thread_id(); j < at.nk; j += T)
      row[j] = 0.f;
  }
}

//: tell_as -- dS leaves as the gradient of bias: into its place, or where several share one into their sum
template <bool transposed, class Acc>
__device__ __forceinline__ void tell_as(const Acc &dS, const call &a, const sequence &at, i32 i0, i32 j0)
{
  const bool alone = (a.b == 1 || a.dbias.b != 0) && (a.h == 1 || a.dbias.h != 0) && (a.q == 1 || a.dbias.n != 0);
  constexpr i32 rows_ = transposed ? Acc::C : Acc::R, keys_ = transposed ? Acc::R : Acc::C;
#pragma unroll
  for (i32 y = 0; y < rows_; y++) {
    const i32 i = i0 + (transposed ? Acc::column(y) : Acc::row(y));
    float *const row = (float *)a.dbias.data + number_of_pair(a.dbias, at, i, 0);
#pragma unroll
    for (i32 x = 0; x < keys_; x++) {
      const i32 j = j0 + (transposed ? Acc::row(x) : Acc::column(x));
      const float value = transposed ? dS.at[x][y] : dS.at[y][x];
      if (i >= at.nq || j >= at.nk)
        continue;
      if (alone)
        row[j] = value;
      else
        reduce_add(row + j, value);
    }
  }
}
