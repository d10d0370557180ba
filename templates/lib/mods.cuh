// mods.cuh -- what an expression of the user's makes of a score (`mod`), and which pairs it keeps (`mask`). The host parses,
// differentiates and writes it (generator/mod_emit.c): a line for each operation, v its value and d its derivative by s; of what grows evenly
// along a row b, the first pair's, and e, what is added to that.

//: row_and_key -- a row and a key as expressions name them: batch, query head, both from 0, and how many of each there are;
// those of the first pair along an accumulator's row, and how far on from there they are, which compilers know
struct row_and_key {
  i32 b, h, i, j, q, k, first_i, first_j, rows_on, keys_on;
};

//: pair_of -- an element of an accumulator
template <bool transposed, class Acc, class At>
__device__ __forceinline__ row_and_key pair_of(const At &at, i32 i0, i32 j0, i32 r, i32 c)
{
  const i32 first_i = i0 + (transposed ? Acc::column(0) : Acc::row(r)), first_j = j0 + (transposed ? Acc::row(r) : Acc::column(0));
  const i32 on = Acc::column(c) - Acc::column(0), rows_on = transposed ? on : 0, keys_on = transposed ? 0 : on;
  const i32 i = first_i + rows_on, j = first_j + keys_on;
% if packed then
  return {at.b, at.h + i % at.peers, i / at.peers, j, at.q, at.nk, first_i / at.peers, first_j, rows_on, keys_on};
% else
  return {at.b, at.h, i, j, at.nq, at.nk, first_i, first_j, rows_on, keys_on};
% end
}

//: entry_of -- where an entry of a table lies, of `b` entries in rows of `n`; beyond an end the one at that end
__device__ __forceinline__ i64 entry_of(i32 x, const tensor &of)
{
  return max(i64(0), min(i64(x), of.b - 1));
}
__device__ __forceinline__ i64 entry_of(i32 y, i32 x, const tensor &of)
{
  return min(max(y, 0) * of.n, of.b - of.n) + max(i64(0), min(i64(x), of.n - 1));
}

//: floor_over -- x / y downwards; 0 where y is 0
__device__ __forceinline__ i32 floor_over(i32 x, i32 y)
{
  if (y == 0 || y == -1)
    return i32(0 - u32(x) * u32(y != 0)); // what no division can say wraps around
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

//: floor_rest -- what floor_over leaves of x
__device__ __forceinline__ i32 floor_rest(i32 x, i32 y)
{
  return i32(u32(x) - u32(floor_over(x, y)) * u32(y));
}

//: magnitude
__device__ __forceinline__ float magnitude(float x)
{
  return fabsf(x);
}
__device__ __forceinline__ i32 magnitude(i32 x)
{
  return x < 0 ? i32(0 - u32(x)) : x;
}

//: lesser
template <class X> __device__ __forceinline__ X lesser(X x, X y)
{
  return x <= y ? x : y;
}

//: greater
template <class X> __device__ __forceinline__ X greater(X x, X y)
{
  return x >= y ? x : y;
}

//: exp_of -- of 16 bits as precise as weights are
__device__ __forceinline__ float exp_of(float x)
{
  return $((dtype == "f16" or dtype == "bf16") and "ex2(1.44269504088896f * x)" or "expf(x)");
}

//: log_of
__device__ __forceinline__ float log_of(float x)
{
  return $((dtype == "f16" or dtype == "bf16") and "0.693147180559945f * lg2(x)" or "logf(x)");
}

//: modded -- a score, and its derivative by what it was
struct modded {
  float value, slope;
};

//: mod_of -- what the score s of a pair becomes
__device__ __forceinline__ $(keeps_slope and "modded" or "float") mod_of(const call &a, const row_and_key &x, float s)
{
% for _, line in ipairs(mod_lines) do
  $(line)
% end
}

//: course -- what an expression adds to the scores of a row: to that of its first key, and by how much more with each key
struct course {
  float first, more;
};

//: known_numbers -- what it asks of tables that is the same for all pairs of a head
struct known_numbers {
  float at[$(math.max(known_count, 1))];
};

//: known_of
__device__ __forceinline__ known_numbers known_of(const call &a, const row_and_key &x)
{
% for _, line in ipairs(known_lines) do
  $(line)
% end
}

//: course_of -- of one that adds what grows evenly along a row; x: the row's first pair, and one key on
__device__ __forceinline__ course course_of(const call &a, const known_numbers &known, const row_and_key &x)
{
% for _, line in ipairs(course_lines) do
  $(line)
% end
}

//: added_along -- the same of a row of S, in base 2
template <class Acc> struct added_along {
  float first, more;
  added_along() = default;
  template <class At> __device__ __forceinline__ added_along(const call &a, const known_numbers &known, const At &at, i32 i0, i32 j0, i32 r)
  {
    constexpr float log2e = 1.44269504088896f;
    row_and_key x = pair_of<false, Acc>(at, i0, j0, r, 0);
    x.keys_on = 1;
    const course y = course_of(a, known, x);
    first = log2e * y.first;
    more = log2e * y.more;
  }
  __device__ __forceinline__ float at(i32 c) const
  {
    return fmaf(more, float(Acc::column(c) - Acc::column(0)), first); // of a number that compilers know
  }
};

//: keeps_pair -- whether the mask leaves a pair
__device__ __forceinline__ bool keeps_pair(const call &a, const row_and_key &x)
{
% for _, line in ipairs(mask_lines) do
  $(line)
% end
}

//: times_kept -- dS times the derivatives of scores; what has no weight has none of an expression's, whatever they are
template <class Acc> __device__ __forceinline__ void times_kept(Acc &dS, const Acc &slopes)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      dS.at[r][c] = $(has.modHASH and "dS.at[r][c] == 0.f ? 0.f : " or "")dS.at[r][c] * slopes.at[r][c];
}
