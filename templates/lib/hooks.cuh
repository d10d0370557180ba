// hooks.cuh -- where the features of a problem reach the kernels:
//   rows    where the rows of one batch and head lie, how many  (varlen, pages, lengths by batch: lengths.cuh)
//   sees    the keys that a row sees, and the rows that see a key
//   range   which KV tiles a tile of Q visits, in spans         (masks, block-sparse); range_rows its transpose; split_of cuts it
//   score   a product becomes a score                           (scale; softcap, ALiBi, bias, mod)
//   keep    whether row i sees key j                            (masks; a user's: with `score`)
//   weigh   what happens to P after the row sum                 (dropout)
//   finish  from m and l to the row's factor and its LSE        (sinks, dropout's 1 / (1 - p)); in ends.cuh
//   tell    what dS is needed for beside dQ and dK, backward    (the gradient of a bias)
// Kernels call them all, for every family; what they do is decided when they are rendered. A backward whose S has a row for each
// key calls score_rows, mask_rows, weigh_rows, tell_rows; one asks for a feature itself only where a step then has an operand more.

//: sequence -- the rows of one batch and query head
struct sequence {
  i32 b, h, hk; // batch, query head, the head of K and V that it shares
% if packed then
  i32 nq, nk;   // how many rows: of Q those of all heads that share K and V
%  if grouped then
  i32 q;        // rows of Q of one head
  power_of_2 peers; // heads that share K and V
%  else
  i32 q, peers; // rows of Q of one head; heads that share K and V
%  end
% else
  i32 nq, nk;   // how many rows
% end
% if slices > 1 then
  i32 v0;       // the first column of V and O
% end
% if ragged then
  i32 all_q, all_k; // of the longest batch: what workspaces have room for
% end
% if has.prefix then
  i32 prefix;   // keys that the causal mask leaves to all rows
% end
% if begins or shifts then
  i32 k0;       // the first of its keys in their tensors
% end
% if has.varlen then
  i32 q0;       // the first of its rows in theirs
% end
% if has.iv then
  const i32 *lo, *hi; // of its rows
% end
};

//: sequence_of -- `head` counts the query heads of all batches; heads that share K and V lie side by side
% if packed then
// (and count as one: their rows share tiles)
% elseif slices > 1 then
// (and each of them counts once for each slice of the columns of V)
% end
__device__ __forceinline__ sequence sequence_of(const call &a, i32 head)
{
% local give = by_batch and "sequence my = " or "return "
% if packed then
%  if grouped then
  const i32 hk = head % a.hk;
  const power_of_2 peers(a.h / a.hk);
%  else
  const i32 hk = head % a.hk, peers = a.h / a.hk;
%  end
  $(give){head / a.hk, hk * peers, hk, a.q * peers, a.k, a.q, peers};
% elseif slices > 1 then
  const i32 h = head / slices % a.h;
  $(give){head / slices / a.h, h, h / (a.h / a.hk), a.q, a.k, head % slices * Dv};
% else
  const i32 h = head % a.h;
  $(give){head / a.h, h, h / (a.h / a.hk), a.q, a.k};
% end
% if by_batch then
  measure(my, a);
  return my;
% end
}

//: place -- a sequence, and where its rows lie: of a tensor X row 0, null where it is not wanted, and Xn, from row to row
struct place : sequence {
% for _, t in ipairs(tensors_of_rows) do
%   local const = t.is_out and "" or "const "
%   if t.whole then -- `measure` reads it
%   elseif t.width == 1 then
  $(packed and "packed_floats " or const .. "float *")$(t.name);
%   else
  $(const)elem *$(t.name);
  $(packed and t.side == "q" and "packed_rows" or "i64") $(t.name)n;
%   end
% end
};

//: rows -- hook
% if told then
__device__ __forceinline__ place rows(const call &a, const sequence &at)
{
% else
__device__ __forceinline__ place rows(const call &a, i32 head)
{
  const sequence at = sequence_of(a, head);
% end
  const i64 b = at.b, h = at.h, hk = at.hk;
  place my;
  (sequence &)my = at;
% for _, t in ipairs(tensors_of_rows) do
%   local batch = has.varlen and "" or "b * a." .. t.name .. ".b + "
%   local from = t.name .. ".data + " .. batch .. (t.side == "q" and "h" or "hk") .. " * a." .. t.name .. ".h"
%   local row = begins and t.side == "k" and "k0" or has.varlen and t.side == "q" and "q0"
%   local first = row and (t.width == 1 and " + at." .. row or string.format(" + i64(at.%s) * a.%s.n", row, t.name)) or ""
%   from = t.width == 1 and from .. first or from
%   if t.whole then -- `measure` reads it
%   elseif t.side == "h" or t.side == "a" then
%     local head = string.format("a.%s.data + %sh * a.%s.h", t.name, t.side == "a" and "b * a." .. t.name .. ".b + " or "", t.name)
  my.$(t.name) = $(packed and "{" .. head .. ", {0, a." .. t.name .. ".h, at.peers}}" or head);
%   elseif t.width == 1 then
%     local wanted = slices > 1 and "a." .. t.name .. ".data && at.v0 == 0" or "a." .. t.name .. ".data" -- the first slice tells it
%     if packed then
  my.$(t.name) = {a.$(t.name).data ? a.$(from) : nullptr, {1, a.$(t.name).h, at.peers}};
%     else
  my.$(t.name) = $(wanted) ? a.$(from) : nullptr;
%     end
%   else
  my.$(t.name) = (elem *)a.$(from)$(first)$(t.width == "dv" and slices > 1 and " + at.v0" or "");
%     if packed and t.side == "q" then
  my.$(t.name)n = {a.$(t.name).n, a.$(t.name).h, at.peers};
%     else
  my.$(t.name)n = a.$(t.name).n;
%     end
%   end
% end
  return my;
}

//: ceil_div
__device__ __forceinline__ i32 ceil_div(i32 x, i32 y)
{
  return x / y + (x % y > 0);
}

//: interval -- from lo to before hi
struct interval {
  i32 lo, hi;
};

//: sees -- hook: the keys that row i sees. Counted from the end, where the last row stands at the last key, so that
// nothing overflows 32 bits, whatever the lengths are
__device__ __forceinline__ interval sees(const call &a, const sequence &at, i32 i)
{
% if cut.line then
  const i32 behind = max(0, $(packed and "at.q - 1 - i / at.peers" or "at.nq - 1 - i")); // rows that follow row i
% end
% local function lifted(x) return has.prefix and "max(at.prefix, " .. x .. ")" or x end -- the causal mask's end by a prefix
% local hi = has.causal and lifted "max(0, at.nk - behind)" or has.w and "max(0, at.nk - max(0, behind - a.R))" or "at.nk"
% if has.causaltl then
%   hi = string.format("min(%s, %s)", hi, lifted((packed and "at.q" or "at.nq") .. " - behind")) -- row i stands at key i
% end
% local lo = has.w and "max(0, max(0, at.nk - 1 - a.L) - behind)" or "0"
% if has.chunk then
  const i32 stands = at.nk - 1 - behind, first = max(0, stands - stands % a.chunk); // the row's key, that of its chunk
  const i32 end = stands < 0 ? 0 : first + min(a.chunk, at.nk - first);
%   lo, hi = string.format("max(first, %s)", lo), string.format("min(end, %s)", hi)
% end
% if has.iv then
  const interval own = given(at, $(packed and "i / at.peers" or "i"));
%   lo, hi = string.format("max(own.lo, %s)", lo), string.format("min(own.hi, %s)", hi)
% end
  return {$(lo), $(hi)};
}

//: seen_by -- hook: the rows that see key j, the transpose of `sees`; none where there is no such key
% if has.iv then
// But for what tensors give
% end
__device__ __forceinline__ interval seen_by(const call &a, const sequence &at, i32 j)
{
  if (u32(j) >= u32(at.nk))
    return {0, 0};
% if cut.line then
  const i32 behind = max(0, at.nk - 1 - j); // keys that follow key j
% end
% local function lifted(x) return has.prefix and "(j < at.prefix ? 0 : " .. x .. ")" or x end
% local lo = has.causal and lifted "max(0, at.nq - 1 - behind)" or has.w and "max(0, max(0, at.nq - 1 - a.R) - behind)" or "0"
% if has.causaltl then
%   lo = string.format("max(%s, %s)", lo, lifted "min(at.nq, j)")
% end
  return {$(lo), $(has.w and "max(0, at.nq - max(0, behind - a.L))" or "at.nq")};
}

//: spans -- tiles [first, last): up to `free` the lower end of masks cuts them, up to `full` no mask touches them, then
// the upper end does
struct spans {
  i32 first, free, full, last;$(key_splits and "\n  i32 base;" or "")
% if listed then
  const i32 *list; // of tiles: those that no mask touches from the front on, others from the end
  i32 whole, room; // how many of the former; of all that there are
% end
};

//: is_cut -- whether a mask cuts the j-th tile
__device__ __forceinline__ bool is_cut(const spans &visit, i32 j)
{
  return $(has.bs and not listed and "true" or key_splits and "j - visit.base >= visit.full" or "j < visit.free || j >= visit.full");
}

//: range -- hook: the KV tiles that rows [i0, i0 + rows_) visit; none where no such row is
template <i32 rows_ = Br> __device__ __forceinline__ spans range(const call &a, const sequence &at, i32 i0)
{
  if (i0 >= at.nq)
    return {0, 0, 0, 0};
% if has.iv then
  return range_given(a, at, i0, min(rows_, at.nq - i0));
% elseif cut.right then
  const interval top = sees(a, at, i0), bottom = sees(a, at, i0 + min(rows_, at.nq - i0) - 1);
  const i32 last = ceil_div(bottom.hi, Bc);
%  if cut.left then
  const i32 first = min(top.lo / Bc, last), free = min(max(first, ceil_div(bottom.lo, Bc)), last);
  return {first, free, min(max(free, top.hi / Bc), last), last};
%  else
  return {0, 0, top.hi / Bc, last};
%  end
% else
  return {0, 0, at.nk / Bc, ceil_div(at.nk, Bc)};
% end
}

//: range_rows -- hook: the tiles of Q that keys [j0, j0 + Bc) are seen by
__device__ __forceinline__ spans range_rows(const call &a, const sequence &at, i32 j0)
{
% if ragged then
  if (j0 >= at.nk)
    return {0, 0, 0, 0}; // a shorter batch has no such keys
% end
  const interval top = seen_by(a, at, j0), bottom = seen_by(a, at, j0 + min(Bc, at.nk - j0) - 1);
% if has.iv then
  return rows_given(a, at, j0, min(Bc, at.nk - j0), {top.lo, bottom.hi});
% else
  const i32 last = ceil_div(bottom.hi, Br), first = $(has.causaltl and "top.lo < at.nq ? " or "")min(top.lo / Br, last)$(has.causaltl and " : last" or "");
  if (at.nk - j0 < Bc)
    return {first, last, last, last}; // keys beyond the end are masked
  const i32 free = min(max(first, ceil_div(bottom.lo, Br)), last);
  return {first, free, min(max(free, top.hi / Br), last), last};
% end
}

//: keep -- hook: whether a row that sees these keys sees key j, as far as the upper end decides. Without a sign, since j
// counts on beyond the last key: where that is near 2^31, to what no i32 holds
__device__ __forceinline__ bool keep(const interval &seen, u32 j)
{
  return j < u32(seen.hi);
}

//: keep_from -- hook: the same, as far as the lower end does
__device__ __forceinline__ bool keep_from(const interval &seen, u32 j)
{
  return j >= u32(seen.lo);
}

//: score -- hook: plain products become scores, for every tile and before masks. In a family without features of the
// score these are the products themselves, and c = base2(scale) enters with the exponential; where the scale is
// negative they change their sign, so that their maximum is a maximum again
% if scored then
// What it gives else is in scores.cuh
template <class Acc, class At>
__device__ __forceinline__ void score(Acc &S, const call &a, const At &at, i32 i0, i32 j0$(slopes_out)$(biases_in))
{
  score_as<false>(S, a, at, i0, j0$(and_slopes)$(and_biases));
}
% else
template <class Acc> __device__ __forceinline__ void score(Acc &S, const call &a, const sequence &, i32, i32)
{
  if (a.scale < 0.f) {
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        S.at[r][c] = -S.at[r][c];
  }
}
% end

//: weigh -- hook: what happens to P after the row sum, on every tile: dropout
% if has.drop and ruled then
// Later here, when P is rounded
% end
% if has.drop and not ruled then
template <class Acc, class At> __device__ __forceinline__ void weigh(Acc &P, const call &a, const At &at, i32 i0, i32 j0)
{
  drop_as<false, false>(P, a, at, i0, j0);
}
% else
template <class Acc> __device__ __forceinline__ void weigh(Acc &, const call &, const sequence &, i32, i32)
{
}
% end
