// sm90_cluster.cuh -- what blocks of a cluster have in common: each other's shared memory and barriers, and a barrier of all.

//: peer -- where another block of the cluster has what a pointer into shared memory names in this one [mapa.u64]
__device__ __forceinline__ float *peer(float *p, i32 block)
{
  float *there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(block));
  return there;
}

//: cluster_arrive -- what this thread wrote is seen by those of the cluster who wait [barrier.cluster.arrive]
__device__ __forceinline__ void cluster_arrive()
{
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

//: cluster_wait -- until all threads of the cluster have arrived [barrier.cluster.wait]
__device__ __forceinline__ void cluster_wait()
{
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

//: peer_place -- where another block of the cluster has what an address in shared memory names in this one [mapa.u32]
__device__ __forceinline__ u32 peer_place(u32 place, i32 block)
{
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(block));
  return there;
}

//: barrier_arrive_there -- one arrival at a barrier of another block, behind products that this thread has waited for, which read
// shared memory; released to the cluster, it would wait until all that the thread has added to device memory is there, too
// [mbarrier.arrive.shared::cluster]
__device__ __forceinline__ void barrier_arrive_there(u32 barrier)
{
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

//: copy_box_to_all -- as copy_box, to the same place of the blocks whose bits `blocks` has, each at its own barrier there
// [cp.async.bulk.tensor.4d.multicast::cluster]
__device__ __forceinline__ void copy_box_to_all(u32 to, const tensor_map &from, i32 column, i32 row, i32 head, i32 batch,
                                                u32 barrier, i32 blocks)
{
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
               "{%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
               "l"(&from), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier), "h"(u16(blocks))
               : "memory");
}

//: copy_there -- starts to copy bytes that lie side by side to another block's shared memory, in 16s; they arrive at a barrier of that
// block [cp.async.bulk.shared::cluster.shared::cta]
__device__ __forceinline__ void copy_there(u32 to, u32 from, i32 bytes, u32 barrier)
{
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(from),
               "r"(bytes), "r"(barrier)
               : "memory");
}
