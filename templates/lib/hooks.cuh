// hooks.cuh -- the only places where a feature of the problem reaches a kernel:
//   rows    where the rows of one batch and head lie      (varlen, paged change it)
//   range   which KV tiles a tile of Q visits             (causal, window, block-sparse, split)
//   score   a product becomes a score                     (bias, ALiBi, softcap, score mod)
//   keep    which pairs (i, j) count                      (masks, dropout)
//   finish  from m and l to the row's factor and its LSE  (sinks, partial)
// `score` has no section yet: a kernel calls it only where `scored` holds, which no family of today sets.

//: place -- the rows of one batch and head
struct place {
  const elem *Q, *K, *V; // row 0
  elem *O;
% if packed then
  lse_rows LSE;   // null: not wanted
  packed_rows Qn; // rows of all heads that share K and V
  i64 Kn, Vn;     // from row to row
  packed_rows On;
  i32 nq, nk;     // how many rows
  i32 peers;      // heads that share K and V
  i32 lead;       // keys before the one that the first row of each head is aligned with
% else
  float *LSE;         // null: not wanted
  i64 Qn, Kn, Vn, On; // from row to row
  i32 nq, nk;         // how many rows
% end
};

//: heads -- one batch, one query head and the head of K and V that it shares
struct heads {
  i32 b, h, hk;
% if slices > 1 then
  i32 v0; // the first column of V and O
% end
};

//: heads_of -- `head` counts the query heads of all batches; heads that share K and V lie side by side
% if slices > 1 then
// (and each of them counts once for each slice of the columns of V)
% end
__device__ __forceinline__ heads heads_of(const call &a, i32 head)
{
% if slices > 1 then
  const i32 h = head / slices % a.h;
  return {head / slices / a.h, h, h / (a.h / a.hk), head % slices * Dv};
% else
  const i32 h = head % a.h;
  return {head / a.h, h, h / (a.h / a.hk)};
% end
}

//: lengths -- how many rows Q and K have
struct lengths {
  i32 nq, nk;
};

//: lengths_of
__device__ __forceinline__ lengths lengths_of(const call &a)
{
  return {a.q, a.k};
}

//: rows -- hook
__device__ __forceinline__ place rows(const call &a, i32 head)
{
% if packed then
  const i64 b = head / a.hk, hk = head % a.hk;
  const i32 peers = a.h / a.hk;
  return {
      (const elem *)a.Q.data + b * a.Q.b + hk * peers * a.Q.h,
      (const elem *)a.K.data + b * a.K.b + hk * a.K.h,
      (const elem *)a.V.data + b * a.V.b + hk * a.V.h,
      (elem *)a.O.data + b * a.O.b + hk * peers * a.O.h,
      {a.LSE.data ? a.LSE.data + b * a.LSE.b + hk * peers * a.LSE.h : a.LSE.data, {1, a.LSE.h, peers}},
      {a.Q.n, a.Q.h, peers}, a.K.n, a.V.n, {a.O.n, a.O.h, peers},
      a.q * peers, a.k, peers, a.k - a.q,
  };
% else
%  local from = slices > 1 and " + at.v0" or ""
  const heads at = heads_of(a, head);
  const i64 b = at.b, h = at.h, hk = at.hk;
  return {
      (const elem *)a.Q.data + b * a.Q.b + h * a.Q.h,
      (const elem *)a.K.data + b * a.K.b + hk * a.K.h,
      (const elem *)a.V.data + b * a.V.b + hk * a.V.h$(from),
      (elem *)a.O.data + b * a.O.b + h * a.O.h$(from),
%  if slices > 1 then
      a.LSE.data && at.v0 == 0 ? a.LSE.data + b * a.LSE.b + h * a.LSE.h : nullptr, // the first slice tells it
%  else
      a.LSE.data ? a.LSE.data + b * a.LSE.b + h * a.LSE.h : a.LSE.data,
%  end
      a.Q.n, a.K.n, a.V.n, a.O.n,
      a.q, a.k,
  };
% end
}

//: ceil_div
__device__ __forceinline__ i32 ceil_div(i32 x, i32 y)
{
  return x / y + (x % y > 0);
}

//: turn -- what one block does: a tile of Q of one head; `head` counts the query heads of all batches
% if packed then
// (those that share K and V being packed, these are the heads of K and V)
% end
struct turn {
  i32 head, i0;
};

//: turn_of -- blocks start in the order of their numbers: Z heads together, of these the last tiles of Q, the
// longest under a causal mask, first. Heads together share L2; the longest first leaves short ones for the end.
__device__ __forceinline__ turn turn_of(const call &a, i32 block)
{
% if packed then
  const i32 Tr = ceil_div(a.q * (a.h / a.hk), Br), heads = a.b * a.hk, most = min(Z, heads);
% else
  const i32 Tr = ceil_div(a.q, Br), heads = a.b * a.h$(slices > 1 and " * slices" or ""), most = min(Z, heads);
% end
  const i32 first = block / (Tr * most) * most, x = block - Tr * first;
  const i32 together = min(most, heads - first);
  return {first + x % together, Br * (Tr - 1 - x / together)};
}

//: nth_block -- the n-th number of a block that stays: forth and back over the grid, so that who began with a
// long one ends with a short one
__device__ __forceinline__ i32 nth_block(i32 n)
{
  const i32 me = i32(block_id());
  return n * grid_size() + (n % 2 ? grid_size() - 1 - me : me);
}

//: blocks_of -- tiles of Q of all heads
__device__ __forceinline__ i32 blocks_of(const call &a)
{
  return ceil_div(a.q, Br) * a.b * a.h$(slices > 1 and " * slices" or "");
}

//: tiles -- KV tiles [first, full) that no mask touches, then [full, last) that one does
struct tiles {
  i32 first, full, last;
};

//: range -- hook: the KV tiles that rows [i0, i0 + rows_) visit; none where no such row is
template <i32 rows_ = Br, class Lengths> __device__ __forceinline__ tiles range(const Lengths &at, i32 i0)
{
  if (i0 >= at.nq)
    return {0, 0, 0};
% if causal then
%  if packed then
  // Row i sees keys 0 .. i / peers + lead: the last row of each head sees the last key.
  const i32 first_sees = max(0, i0 / at.peers + 1 + at.lead);
  const i32 last_sees = max(0, (min(i0 + rows_, at.nq) - 1) / at.peers + 1 + at.lead);
%  else
  // Row i sees keys 0 .. i + nk - nq: the last row sees the last key.
  const i32 first_sees = max(0, i0 + 1 + at.nk - at.nq);
  const i32 last_sees = max(0, min(i0 + rows_, at.nq) + at.nk - at.nq);
%  end
  return {0, first_sees / Bc, ceil_div(last_sees, Bc)};
% else
  return {0, at.nk / Bc, ceil_div(at.nk, Bc)};
% end
}

//: keep -- hook: whether row i may see key j
template <class Lengths> __device__ __forceinline__ bool keep(const Lengths &at, i32 i, i32 j)
{
% if causal and packed then
  return j <= i / at.peers + at.lead; // and so j < nk for every row there is
% elseif causal then
  return j <= i + at.nk - at.nq; // and so j < nk for every row there is
% else
  return j < at.nk;
% end
}

//: inverse -- 1 / l; a row that sees no key has l = 0 and gives O = 0
__device__ __forceinline__ float inverse(float l)
{
  return l == 0.f ? 0.f : 1.f / l;
}

//: finish -- hook: LSE = scale m + ln l; +inf for a row that sees no key
__device__ __forceinline__ float finish(float m, float l, float c)
{
  constexpr float ln2 = 0.693147180559945f;
  return l == 0.f ? -minus_inf() : (c * m + lg2(l)) * ln2;
}
