// ws_pairs_stay.cuh -- pairs of blocks that stay (bwd_pair.cu, H = 2): each goes on with two more tiles of keys when it has done two. V, Q and dO of the next
// ones come while this one's last dQ is made, which reads K; dV leaves before it and dK beside it.

//: pair_tasks -- which tiles of keys a pair does, one after another$(cut.right and ": of a head the n-th and then the n-th last, so that all pairs have as many steps" or ", forth and back")
struct pair_tasks {
  const call &a;
  i32 $(cut.right and "turn" or "number"); // $(cut.right and "tasks before, and counterparts that are none" or "among those of all heads")
  key_task my;
  row_steps from;
% if cut.right then
  __device__ __forceinline__ explicit pair_tasks(const call &a_) : a(a_), turn(-1), my{0, 0}, from(a_) { go_on(); }
  __device__ __forceinline__ bool is_one() const { return my.head < a.b * a.h; }
% else
  __device__ __forceinline__ explicit pair_tasks(const call &a_) : a(a_), my{0, 0}, from(a_) { go_on(); }
  __device__ __forceinline__ i32 all() const { return $(key_heads) * ceil_div(a.k, Bc); }
  __device__ __forceinline__ bool is_one() const { return number < all(); }
% end
  __device__ __forceinline__ void go_on()
  {
% if cut.right then
    const i32 round = from.round + 1, pairs = grid_size() / 2, pair = i32(block_id()) / 2, tiles = ceil_div(a.k, Bc), some = (tiles + 1) / 2;
    i32 number = ++turn / 2 * pairs + pair;
    if (turn % 2 == 1 && number % some * 2 + 1 == tiles) // the one in the middle is its own counterpart
      number = ++turn / 2 * pairs + pair;
    my = {number / some * (a.h / a.hk), Bc * (turn % 2 == 0 ? number % some : tiles - 1 - number % some)};
    if (!is_one())
      return;
% else
    const i32 round = from.round + 1, pairs = grid_size() / 2, pair = i32(block_id()) / 2;
    number = round * pairs + (round % 2 == 0 ? pair : pairs - 1 - pair);
    if (!is_one())
      return;
    my = key_task_of(a, number);
% end
    from = row_steps(a, my, from.before + from.steps, round);
    my.j0 += 64 * own_rank();
  }
};

//: bring_pair_keys -- one thread copies K and V of each, when their places are free
__device__ __forceinline__ void bring_pair_keys(const call &a, const tensor_map &K_map, const tensor_map &V_map)
{
  for (pair_tasks own(a); own.is_one(); own.go_on()) {
    const sequence at = sequence_of(a, own.my.head);
    const u32 before = (own.from.round + 1) % 2;
    wait(V_free, before);
    copy_keys<V_boxes>(V_of(0), V_map, own.my.j0, at, V_full);
    wait(K_free, before);
    copy_pair_keys<boxes>(K_of(0), K_map, own.my.j0, at, K_full);
  }
}

//: produce_pairs -- what the warpgroup that copies does
__device__ __forceinline__ void produce_pairs(const call &a, const LD_row *LD_all, const tensor_map &Q_map, const tensor_map &K_map,
                                              const tensor_map &V_map, const tensor_map &dO_map)
{
  if (thread_id() == 64)
    bring_pair_keys(a, K_map, V_map);
  if (thread_id() == 0)
    for (pair_tasks own(a); own.is_one(); own.go_on())
      bring_queries(a, LD_all, own.my, own.from, Q_map);
  if (thread_id() == 32)
    for (pair_tasks own(a); own.is_one(); own.go_on())
      bring_gradients(a, own.my, own.from, dO_map);
}

//: dK_place -- where dK of 64 keys lies until it has been stored
__device__ __forceinline__ u32 dK_place()
{
  return shared_address(shared_memory()) + at_dK;
}

//: leave_V -- dV is there: it is stored by way of V's place once the other warpgroup, which makes dP, has read that, and the next V may come
__device__ __forceinline__ void leave_V(acc<Bc, Dv> &dV, const call &a, const key_task &my, i32 last, const tensor_map &dV_map)
{
  const dO_place_of at(last);
  wait(dO_free + at.slot, at.parity);                   // so it has made the last dP
  store_scaled(V_of(0), dV, 1.f, dV_map, of_keys(sequence_of(a, my.head)), my.j0);
  end_stores();
  release(V_free);
}

//: last_beside -- the last dQ, and dK beside it
template <class Quarter>
__device__ __forceinline__ void last_beside(const Quarter &own, acc<Bc, D> &dK, const call &a, const key_task &my, i32 last, i32 last_tile, const tensor_map &dK_map)
{
  acc<Bc, Quarter::width> dQ;
  products_wait<0>();                                   // dK is there
  start_pair_dQ(dQ, own, last);
  end_stores();                                         // the dK before has been read
  warp_sync();
  store_scaled(dK_place(), dK, a.scale, dK_map, of_keys(sequence_of(a, my.head)), my.j0);
  products_wait<0>();
  end_quarter(own, last, last_tile, dQ);
}
