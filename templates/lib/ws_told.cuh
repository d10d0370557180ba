// ws_told.cuh -- what blocks of bwd_ws.cu that stay tell all their warps of the tile of keys that comes next.

//: told_place -- where it is said which tile of keys a place of K and V holds
__device__ __forceinline__ u32 told_place(i32 round)
{
  return shared_address(shared_memory()) + at_told + told_bytes * keys_place_of(round).slot;
}

//: tell_keys -- all that others need of it, which they would divide for: 1.5 of the 29 thousand clocks of a tile of 1024 keys, causal, d 64
__device__ __forceinline__ void tell_keys(const key_task &my, const row_steps &from, const sequence &at)
{
  const u32 to = told_place(from.round);
% if listed then
  put16(to, {{u32(my.head), u32(my.j0), u32(from.steps), u32(from.visit.whole)}});
  put16(to + 16, {{u32(from.visit.room), u32(u64(from.visit.list)), u32(u64(from.visit.list) >> 32), 0}});
% else
  put16(to, {{u32(my.head), u32(my.j0), u32(from.steps), u32(from.visit.first)}});
  put16(to + 16, {{u32(from.visit.free), u32(from.visit.full), u32(from.visit.last), $(in_line and "u32(from.number)" or "0")}});
% end
  put16(to + 32, {{u32(at.b), u32(at.hk), $(in_line and "u32(at.k0), u32(at.nk)" or "0, 0")}});
% if rows_told then
  put16(to + 48, {{u32(at.h), u32(at.nq), u32(at.q0), 0}});
% end
}

//: told_sequence -- where dK and dV of a tile of keys go
__device__ __forceinline__ sequence told_sequence(i32 round)
{
  const quad x = get16(told_place(round) + 32);
  sequence at = {};
  at.b = i32(x.at[0]);
  at.h = at.hk = i32(x.at[1]);
% if in_line then
  at.q0 = i32(x.at[2]);
  at.nk = i32(x.at[3]);
% end
  return at;
}

//: told_task -- which it is
__device__ __forceinline__ key_task told_task(i32 round)
{
  const quad x = get16(told_place(round));
  return {i32(x.at[0]), i32(x.at[1])};
}

//: told_list -- its list of tiles of Q: how many no mask touches, how many there are and may be, where it lies
__device__ __forceinline__ spans told_list(i32 whole, i32 last, i32 room, u32 low, u32 high)
{
  return {0, 0, whole, last, (const i32 *)(u64(high) << 32 | low), whole, room};
}

//: told_rows_of -- a sequence of rows that see a tile of keys: of the query head that is `more` behind the first. In ragged batches
// its lengths are device memory's, and would be awaited in each step that a mask cuts
__device__ __forceinline__ sequence told_rows_of(i32 round, i32 more)
{
  const quad x = get16(told_place(round) + 48);
  sequence at = told_sequence(round);
  at.h = i32(x.at[0]) + more;
  at.nq = i32(x.at[1]);
  at.q0 = i32(x.at[2]);
  return at;
}
