// ws_steps_told.cuh -- what who copies a tile of Q tells of it to those that compute with it, where batches have lengths of their own: they
// need not count tiles and heads, nor ask for lengths, which took nine loads a step of what registers had no room for (d 128).

//: step_place -- where it is said of the n-th tile of Q
__device__ __forceinline__ u32 step_place(i32 n)
{
  return shared_address(shared_memory()) + at_steps + step_bytes * Q_place_of(n).slot;
}

//: tell_step -- before its barrier says full: its number among the tiles of all heads, its first row, or -1 where no mask cuts it, and what a
// mask asks of its sequence
__device__ __forceinline__ void tell_step(i32 n, const rows_at &at, i32 number, bool is_last)
{
  const u32 to = step_place(n);
  put16(to, {{u32(number), u32(at.is_cut ? at.i0 : -1), is_last, $(has.prefix and "u32(at.of.prefix)" or "0")}});
  put16(to + 16, {{u32(at.of.nq), u32(at.of.nk), u32(at.of.b), u32(at.of.h)}});
}

//: told_step -- a row_step as it was told: read when its tile is full, and until it is given back
struct told_step {
  i32 n;
  bool more; // whether this one is there, behind the first
  __device__ __forceinline__ explicit told_step(const row_steps &from) : n(from.before), more(true) {}
  __device__ __forceinline__ i32 number() const { return i32(get16(step_place(n)).at[0]); }
  __device__ __forceinline__ rows_at cut_at(const call &a) const
  {
    const quad x = get16(step_place(n));
    const i32 i0 = shfl_first(i32(x.at[1]));
    if (i0 < 0)
      return {{}, 0, false};
    sequence at = {};
    const quad y = get16(step_place(n) + 16);
    at.nq = i32(y.at[0]);
    at.nk = i32(y.at[1]);
    at.b = i32(y.at[2]);
    at.h = i32(y.at[3]);
% if has.prefix then
    at.prefix = i32(x.at[3]);
% end
    return {at, i0, true};
  }
  __device__ __forceinline__ void go_on() { more = !shfl_first(i32(get16(step_place(n++)).at[2])); }
};
