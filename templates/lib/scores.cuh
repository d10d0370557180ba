// scores.cuh -- what features make of products: the hook `score` of families that have any, and its derivative.
//   softcap  S = softcap tanh(scale Q K^T / softcap), else S = scale Q K^T
//   alibi    S = S - slope |i + nk - nq - j|, by the slope of the head
//   bias     S = S + bias of the pair
//   mod      S becomes what an expression makes of it
//   mask     S = -inf where the pair's byte is 0, or an expression says no
// Such scores are in base 2 with the scale in them, with softcap alone in units of the cap, with mod, or bias beside no other term, natural: c is
// what is left.

//: unit_of -- the factor c of such scores
__device__ __forceinline__ float unit_of(const call &a)
{
  return $(c_is_cap and "1.44269504088896f * a.softcap" or (has.modHASH or has.bias and not (has.softcap or has.alibi)) and "1.44269504088896f" or "1.f");
}

//: block_total -- of a number of each thread; whole in the first one
__device__ __forceinline__ float block_total(float x)
{
  float *const all = (float *)shared_memory();
  all[thread_id()] = x;
  block_sync();
  float sum = 0.f;
  for (i32 n = 0; n < T && thread_id() == 0; n++)
    sum += all[n];
  return sum;
}

//: dsink_by_rows -- dsink = -sum of exp(sink - LSE) D of a head, D being made again
__device__ __forceinline__ void dsink_by_rows(const call &a, i32 h)
{
  constexpr float log2e = 1.44269504088896f;
  float sum = 0.f;
  for (i32 b = 0; b < a.b; b++) {
    const place at = rows(a, b * a.h + h);
    for (i64 i = thread_id(); i < at.nq; i += T) {
      float D = 0.f;
      for (i32 x = 0; x < Dv; x++)
        D = fmaf(float_of(at.dO[i * at.dOn + x]), float_of(at.O[i * at.On + x]), D);
      sum -= ex2(log2e * (*at.sink - at.LSE[i])) * $(has.dlse and "(D - at.dLSE[i])" or "D");
    }
  }
  sum = block_total(sum);
  if (thread_id() == 0)
    a.dsink.data[h * a.dsink.h] = sum;
}

//: tanh_of -- f32 kinds want every digit; of 16 bits the instruction gives more than products of such keep
__device__ __forceinline__ float tanh_of(float x)
{
  return $((dtype == "f16" or dtype == "bf16") and "tanh_approx" or "tanhf")(x);
}

//: ruled -- a sequence with what all its scores need, asked for once
% if has.drop then
struct ruled : sequence {
  dropping drops; // of this thread's 16 rows
%  if has.alibi then
  float slope;
%  end
  __device__ __forceinline__ ruled(const call &a, i32 head, i32 i0)
      : sequence(sequence_of(a, head)), drops(a, *this, thread_id() % 32, (i0 + acc<Br, Bc>::row(0)) / 16)
  {
%  if has.alibi then
    slope = a.slopes.data[i64(b) * a.slopes.b + i64(h) * a.slopes.h];
%  end
  }
};
% else
struct ruled : sequence {
  float slope;
};
% end

//: ruled_of
% if has.drop then
__device__ __forceinline__ ruled ruled_of(const call &a, i32 head, i32 i0)
{
  return ruled(a, head, i0);
}
% else
__device__ __forceinline__ ruled ruled_of(const call &a, i32 head)
{
  ruled my;
  (sequence &)my = sequence_of(a, head);
  my.slope = a.slopes.data[i64(my.b) * a.slopes.b + i64(my.h) * a.slopes.h];
  return my;
}
% end

//: slope_at -- that of row i
% if ruled then
__device__ __forceinline__ float slope_at(const ruled &at, i32)
{
  return at.slope;
}
% else
__device__ __forceinline__ float slope_at(const place &at, i32 i)
{
  return $(packed and "at.slopes[i]" or "*at.slopes");
}
% end

//: place_rows -- m of scores that were all counted from a tile's first row, which differ from their own by a number for each row:
// so what is added is the same in all rows of a thread
__device__ __forceinline__ void place_rows(rowvec<Br> &m, const ruled &at)
{
  constexpr float log2e = 1.44269504088896f;
#pragma unroll
  for (i32 r = 0; r < m.R; r++)
    m.at[r] -= log2e * at.slope * float(row_of<Br>(r));
}

//: terms -- what is added to the capped or scaled products of one row of S, in base 2; `transposed`: a row for a key
template <bool transposed, class Acc> struct terms {
% if has.alibi then
  float slope, first; // log2(e) slope; of the first column j - (i + nk - nq), counted from the ends as `sees` does
% end
  template <class At>
  __device__ __forceinline__ terms(const At &at, i32 i0, i32 j0, i32 r)
  {
% if has.alibi then
    constexpr float log2e = 1.44269504088896f;
    const i32 i = i0 + (transposed ? Acc::column(0) : $(rows_later and "0" or "Acc::row(r)")), j = j0 + (transposed ? Acc::row(r) : Acc::column(0));
    slope = log2e * slope_at(at, i);
    first = float((j - at.nk) + $(packed and "(at.q - i / at.peers)" or "(at.nq - i)"));
%  if has.causal and not has.prefix then
    first *= slope; // no key that is seen lies behind
%  end
% end
  }
  __device__ __forceinline__ float at(i32 c) const
  {
% if has.alibi then
    const i32 on = Acc::column(c) - Acc::column(0); // a number that compilers know
    const float along = transposed ? float(-on) : float(on);
    return $(has.causal and not has.prefix and "fmaf(slope, along, first)" or "-slope * fabsf(first + along)");
% else
    return 0.f;
% end
  }
};

//: score_as -- products become scores
template <bool transposed, class Acc, class At>
__device__ __forceinline__ void score_as(Acc &S, const call &a, const At &at, i32 i0, i32 j0$(slopes_out)$(biases_in))
{
  constexpr float log2e = 1.44269504088896f;
% if has.softcap then
  const float inner = a.scale / a.softcap;
% end
% local natural = has.modHASH or has.bias and not (has.softcap or has.alibi)
% local placed = biases_in ~= ""
% local bias_pairs = has.bias and dtype ~= "f32" and not placed
% if placed then
  const placed_biases<transposed, Acc> adds(biases_at);
% end
% if bias_pairs then
  const biases_of_keys<transposed, Acc> by_key(a, at, i0, j0);
% end
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
% if not c_is_cap then
    const terms<transposed, Acc> added(at, i0, j0, r);
% end
% if bias_pairs then
    const biases<transposed, Acc> adds(a, at, i0 + Acc::row(transposed ? 0 : r), j0);
% end
% if placed then
    quad four;
% end
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++) {
% if placed then
      if (c % 8 == 0)
        four = adds.part(r, c / 8);
% end
% if c_is_cap then
      S.at[r][c] = tanh_of(inner * S.at[r][c]);
%   if keeps_slope then
      slopes.at[r][c] = 1.f - S.at[r][c] * S.at[r][c];
%   end
% elseif has.modHASH then -- which takes natural scores
      float s = $(has.softcap and "tanh_of(inner * S.at[r][c])" or "a.scale * S.at[r][c]");
%   if keeps_slope then
      float slope = $(has.softcap and "1.f - s * s" or "1.f");
%   end
%   if has.softcap then
      s *= a.softcap;
%   end
%   if has.alibi then
      s += 0.693147180559945f * added.at(c);
%   end
% elseif has.softcap and keeps_slope then
      const float capped = tanh_of(inner * S.at[r][c]);
      slopes.at[r][c] = 1.f - capped * capped;
      S.at[r][c] = log2e * a.softcap * capped + added.at(c);
% elseif has.softcap then
      S.at[r][c] = log2e * a.softcap * tanh_of(inner * S.at[r][c]) + added.at(c);
% elseif natural then
      S.at[r][c] = a.scale * S.at[r][c];
% else
      S.at[r][c] = log2e * a.scale * S.at[r][c] + added.at(c);
% end
% if has.bias or has.mask then
      const i32 i = i0 + (transposed ? Acc::column(c) : Acc::row(r)), j = j0 + (transposed ? Acc::row(r) : Acc::column(c));
% end
% if has.bias then
%   local into, by = has.modHASH and "s" or "S.at[r][c]", natural and "" or "log2e * "
%   local alone = "((const bias_elem *)a.bias.data)[number_of_pair(a.bias, at, i, j)]"
%   local here = placed and "elem(four.at[c % 8 / 2] >> c % 2 * 16)" or bias_pairs and "transposed ? by_key.at[r][c] : adds.of[c / 2].at[c % 2]" or alone
      $(into) += $(by)bias_of($(here));
% end
% if keeps_slope and has.modHASH then
      const modded y = mod_of(a, pair_of<transposed, Acc>(at, i0, j0, r, c), s);
      S.at[r][c] = y.value;
      slopes.at[r][c] = slope * y.slope;
% elseif has.modHASH then
      S.at[r][c] = mod_of(a, pair_of<transposed, Acc>(at, i0, j0, r, c), s);
% end
% if has.maskHASH then
      S.at[r][c] = keeps_pair(a, pair_of<transposed, Acc>(at, i0, j0, r, c)) ? S.at[r][c] : minus_inf();
% end
% if has.mask then
      S.at[r][c] = ((const unsigned char *)a.attend.data)[number_of_pair(a.attend, at, i, j)] ? S.at[r][c] : minus_inf();
% end
    }
  }
% if placed then
  warp_sync(); // all lanes have read biases, whose place may be given back
% end
}

//: tell -- hook: what dS is needed for beside dQ and dK
template <class Acc> __device__ __forceinline__ void tell(const Acc &dS, const call &a, const sequence &at, i32 i0, i32 j0)
{
  tell_as<false>(dS, a, at, i0, j0);
}

//: tell_rows -- hook: the same of dS^T
template <class Acc> __device__ __forceinline__ void tell_rows(const Acc &dS, const call &a, const sequence &at, i32 i0, i32 j0)
{
  tell_as<true>(dS, a, at, i0, j0);
}

//: score_rows -- hook: `score` of S^T
template <class Acc, class At>
__device__ __forceinline__ void score_rows(Acc &S, const call &a, const At &at, i32 i0, i32 j0$(slopes_out)$(biases_in))
{
  score_as<true>(S, a, at, i0, j0$(and_slopes)$(and_biases));
}

//: steepness -- derivatives of the capped scores of one row of S, 1 - tanh^2, told from their weights P = 2^(S - L): a thread has
// no room to keep scores that long. Where P is 0 nothing depends on it
template <bool transposed, class Acc> struct steepness {
  float by;
  terms<transposed, Acc> added;
  template <class At>
  __device__ __forceinline__ steepness(const call &a, const At &at, i32 i0, i32 j0, i32 r)
      : by(0.693147180559945f / a.softcap), added(at, i0, j0, r)$(has.bias and ", all(a), where(at), i(i0), j(j0), row(r)" or "")
  {
  }
% if has.bias then
  const call &all;
  const place &where;
  i32 i, j, row;
  __device__ __forceinline__ float bias(i32 c) const
  {
    constexpr float log2e = 1.44269504088896f;
    const i64 n = number_of_pair(all.bias, where, i + (transposed ? Acc::column(c) : Acc::row(row)),
                                 j + (transposed ? Acc::row(row) : Acc::column(c)));
    return log2e * bias_of(((const bias_elem *)all.bias.data)[n]);
  }
% end
  __device__ __forceinline__ float of(float P, float L, i32 c) const
  {
    const float t = fminf(fmaxf((lg2(fabsf(P)) + L - $(has.bias and "(added.at(c) + bias(c))" or "added.at(c)")) * by, -1.f), 1.f);
    return fmaf(-t, t, 1.f);
  }
};
