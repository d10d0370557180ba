// ends.cuh -- what a row ends with, when all its keys are seen: the hook `finish` of hooks.cuh.

//: inverse -- 1 / l; a row that sees no key has l = 0 and gives O = 0
__device__ __forceinline__ float inverse(float l)
{
  return l == 0.f ? 0.f : 1.f / l;
}

//: ending -- what a row ends with: O = factor O, and its LSE
struct ending {
  float factor, LSE;
};

//: end_row -- 1 / l, and LSE = scale m + ln l, +inf for a row that sees no key
__device__ __forceinline__ ending end_row(float m, float l, float c)
{
  constexpr float ln2 = 0.693147180559945f;
  return {inverse(l), l == 0.f ? -minus_inf() : (c * m + lg2(l)) * ln2};
}
% if has.sink then
// The same of a row with its sink: one more score, whose V is 0
__device__ __forceinline__ ending end_row(float m, float l, float c, float sink_score)
{
  constexpr float ln2 = 0.693147180559945f, log2e = 1.44269504088896f;
  const float sink = log2e * sink_score, keys = c * m;
  const float most = fmaxf(keys, sink), f = ex2(keys - origin(most)), all = f * l + ex2(sink - origin(most));
  return {f * inverse(all), all == 0.f ? -minus_inf() : (most + lg2(all)) * ln2};
}
% end

//: ends -- what rows end with: O = diag(factor) O, and their LSE
template <i32 rows_> struct ends {
  rowvec<rows_> factor, LSE;
  __device__ __forceinline__ void set(i32 r, const ending &x)
  {
    factor.at[r] = x.factor;
    LSE.at[r] = x.LSE;
  }
};

//: finish -- hook: what rows end with
template <i32 rows_>
__device__ __forceinline__ ends<rows_> finish(const rowvec<rows_> &m, const rowvec<rows_> &l, float c)
{
  ends<rows_> end;
#pragma unroll
  for (i32 r = 0; r < m.R; r++)
    end.set(r, end_row(m.at[r], l.at[r], c));
  return end;
}
% if has.drop then
// The same of rows i0.. with their sinks, where there are any; O is of the weights that dropout kept
template <i32 rows_, class At>
__device__ __forceinline__ ends<rows_> finish(const rowvec<rows_> &m, const rowvec<rows_> &l, float c, const call &a, const At &at,
                                              i32)
{
  ends<rows_> end;
#pragma unroll
  for (i32 r = 0; r < m.R; r++) {
    end.set(r, end_row(m.at[r], l.at[r], c$(has.sink and ", *at.sink" or "")));
    end.factor.at[r] *= boost(a);
  }
  return end;
}
% elseif has.sink then
// The same of rows i0.. with their sinks
template <i32 rows_>
__device__ __forceinline__ ends<rows_> finish(const rowvec<rows_> &m, const rowvec<rows_> &l, float c, const place &at, i32 i0)
{
  ends<rows_> end;
#pragma unroll
  for (i32 r = 0; r < m.R; r++)
    end.set(r, end_row(m.at[r], l.at[r], c, $(packed and "at.sink[i64(i0) + row_of<rows_>(r)]" or "*at.sink")));
  return end;
}
% end
