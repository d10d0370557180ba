// ws_settle.cuh -- dQ where blocks lay down, add and round its sums themselves, so that no launches clear and round them: the parts of a tile of Q,
// and the whole. Who comes first and who comes last is known by the keys here, and found as blocks come in ws_comers.cuh.

//: give_part -- a block's part of the sums of a tile of Q, behind which others come; `others_came`: and before
template <class Share, class Acc> __device__ __forceinline__ void give_part(const Share &my, i32 number, const Acc &dQ, bool others_came)
{
  if (others_came)
    $(partial and "add_some_to_sums(my.sums(number), dQ, my.some())" or "add_to_sums(my.sums(number), dQ)");
  else
    lay_sums(my.sums(number), dQ$(partial and ", my.some()" or ""));
}

//: take_sums -- those of all blocks before it
template <class Acc> __device__ __forceinline__ void take_sums(const float *from, Acc &dQ$(partial and ", i32 some" or ""))
{
  const quad *const sums = (const quad *)from + thread_id() % 32;
#pragma unroll
  for (i32 c = 0; c < Acc::C; c += 2) {
    const quad x = $(partial and "c / 2 * 8 >= some ? quad{} : " or "")sums[c / 2 * 32];
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      dQ.at[y / 2][c + y % 2] += __uint_as_float(x.at[y]);
  }
}

//: store_whole -- rows i0.. of dQ of a sequence of n rows, which begins at `to`: all its parts are there
template <class Share, class Acc> __device__ __forceinline__ void store_whole(const Share &my, const Acc &dQ, elem *to, i32 i0, i32 n)
{
  const i32 lane = thread_id() % 32;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const i32 i = i0 + my.row + warp_of() % 4 * 16 + r * 8 + lane / 4;
    elem *const row = to + i64(i) * my.a.dQ.n + my.column + lane % 4 * 2;
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += 2)
      if (i < n && ($(partial and "" or "Ds == D || ")my.column + c / 2 * 8 < D))
        *(u32 *)(row + c / 2 * 8) = pack_$(dtype)($(scale_of_my) * dQ.at[r][c], $(scale_of_my) * dQ.at[r][c + 1]);
  }
}

//: settle_dQ -- dQ of a tile from the keys of a tile: laid down, added, or with all before it the whole
$(paired and "template <class Share, class Acc> " or "")__device__ __forceinline__ void settle_dQ(const $(paired and "Share" or "share_of_dQ") &my, i32 number, $(paired and "Acc" or "dQ_part") &dQ)
{
  const i32 tile = i32(u32(number) % u32(my.tiles));
% local is_part, comes_later = "tile >= my.ended", "!my.is_first"
% if both_ways then
%   is_part, comes_later = "my.reversed ? tile >= my.ended : !my.is_first", "my.reversed ? !my.is_first : tile >= my.ended"
% elseif last_first then
%   is_part, comes_later = comes_later, is_part
% end
  if ($(is_part)) {
    give_part(my, number, dQ, $(comes_later));
    return;
  }
  if ($(comes_later))
    take_sums(my.sums(number), dQ$(partial and ", my.some()" or ""));
  const place at = rows(my.a, i32(u32(number) / u32(my.tiles)));
  store_whole(my, dQ, at.dQ, tile * Br, at.nq);
}

//: settle_unseen -- dQ = 0 of the tiles of Q that see no key: under a causal mask, where keys are fewer, they come first$(stays and not owns and ". A block may have drawn none" or "")
$(paired and "template <class Share> " or "")__device__ __forceinline__ void settle_unseen(const $(paired and "Share" or "share_of_dQ") &my, const row_steps &from)
{
% local first = both_ways and "first" or "from.visit.first"
% if both_ways then
  const i32 first = my.reversed ? -from.visit.last : from.visit.first;
% end
  for (i32 x = 0; my.is_first$(stays and not owns and " && from.steps > 0" or "") && x < $(first) * (my.a.h / my.a.hk); x++) {
    $(paired and "acc<Bc, Share::width>" or "dQ_part") none = {};
    settle_dQ(my, (from.head + x / $(first)) * from.tiles + x % $(first), none);
  }
}
