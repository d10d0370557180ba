// sm75.cuh -- one instruction or special register per function, for sm_75 and all that came later.
// A file smNN.cuh holds what sm_NN added; the newest file that a GPU understands and that has a name wins.
// Sections of the PTX ISA manual are named in brackets.

//: thread_id -- index of the thread in its block [Special Registers: %tid]
__device__ __forceinline__ i32 thread_id()
{
  return threadIdx.x;
}

//: block_id -- index of the block in the grid [Special Registers: %ctaid]
__device__ __forceinline__ i64 block_id()
{
  return blockIdx.x;
}

//: block_sync -- all threads of the block meet, and see what the others wrote before [bar.sync]
__device__ __forceinline__ void block_sync()
{
  __syncthreads();
}

//: warp_sync -- the 32 threads of the warp meet, and see what the others wrote before [bar.warp.sync]
__device__ __forceinline__ void warp_sync()
{
  __syncwarp();
}

//: shfl_xor -- x of the thread whose lane number differs in the bits `lanes` [shfl.sync.bfly]
__device__ __forceinline__ float shfl_xor(float x, i32 lanes)
{
  return __shfl_xor_sync(0xffffffffu, x, lanes);
}

//: ex2 -- 2^x, relative error 2^-22; -inf gives 0 [ex2.approx.ftz.f32]
__device__ __forceinline__ float ex2(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//: lg2 -- log2 x, absolute error 2^-22 near 1 [lg2.approx.ftz.f32]
__device__ __forceinline__ float lg2(float x)
{
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//: shared_memory -- the block's dynamic shared memory, aligned to 16 bytes [.shared state space]
__device__ __forceinline__ char *shared_memory()
{
  extern __shared__ float4 shared_memory_[];
  return (char *)shared_memory_;
}
