// scores.cuh -- what features make of products: the hook `score` of families that have any, and its derivative.
//   softcap  S = softcap tanh(scale Q K^T / softcap)
// Such scores are in base 2 with the scale in them, or with softcap in units of the cap: c is what is left.

//: unit_of -- the factor c of such scores
__device__ __forceinline__ float unit_of(const call &a)
{
  constexpr float log2e = 1.44269504088896f;
  return log2e * a.softcap;
}

//: tanh_of -- f32 kinds want every digit; of 16 bits the instruction gives more than products of such keep
__device__ __forceinline__ float tanh_of(float x)
{
  return $((dtype == "f16" or dtype == "bf16") and "tanh_approx" or "tanhf")(x);
}

//: score_as -- products become scores; `transposed`: S has a row for each key
template <bool transposed, class Acc>
__device__ __forceinline__ void score_as(Acc &S, const call &a, const sequence &, i32, i32)
{
  const float inner = a.scale / a.softcap;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = tanh_of(inner * S.at[r][c]);
}

//: score_rows -- hook: `score` of S^T
template <class Acc> __device__ __forceinline__ void score_rows(Acc &S, const call &a, const sequence &at, i32 i0, i32 j0)
{
  score_as<true>(S, a, at, i0, j0);
}

//: slope_of -- the derivative of a capped score, 1 - tanh^2, told from its weight P = 2^(c tanh - L): a thread has no room to
// keep scores that long. Where P is 0 nothing depends on it
__device__ __forceinline__ float slope_of(float P, float L, float c)
{
  const float t = fminf(fmaxf((lg2(P) + L) * (1.f / c), -1.f), 1.f);
  return fmaf(-t, t, 1.f);
}
