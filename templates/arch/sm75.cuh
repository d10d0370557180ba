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

//: keep_order -- loads above are asked for before those below: ptxas moves none past it [bar.warp.sync]
__device__ __forceinline__ void keep_order()
{
  __syncwarp();
}

//: shfl_xor -- x of the thread whose lane number differs in the bits `lanes` [shfl.sync.bfly]
__device__ __forceinline__ float shfl_xor(float x, i32 lanes)
{
  return __shfl_xor_sync(0xffffffffu, x, lanes);
}

//: shfl_first -- x of the first thread of the warp: compilers see that it is one number for all [shfl.sync.idx]
__device__ __forceinline__ i32 shfl_first(i32 x)
{
  return __shfl_sync(0xffffffffu, x, 0);
}

//: atomic_add -- adds to a number in device memory; what it was before [atom.global.add]
__device__ __forceinline__ i32 atomic_add(i32 *to, i32 x)
{
  return atomicAdd(to, x);
}

//: reduce_add -- adds to a number in device memory, sooner or later [red.global.add.f32]
__device__ __forceinline__ void reduce_add(float *to, float x)
{
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}

//: anew -- x, of which compilers cannot know that it is what it was before: what is made of it is not kept in registers over
// a loop, but made again [mov.b32]
__device__ __forceinline__ u32 anew(u32 x)
{
  u32 y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

//: any_lane -- whether x holds in one of the 32 threads of the warp [vote.sync.any]
__device__ __forceinline__ bool any_lane(bool x)
{
  return __any_sync(0xffffffffu, x);
}

//: prmt -- four of the eight bytes of two words, by a number of four bits each; its upper bit asks for that byte's sign instead [prmt.b32]
__device__ __forceinline__ u32 prmt(u32 a, u32 b, u32 which)
{
  u32 x;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(which));
  return x;
}

//: tanh_approx -- off by 2^-11 of itself [tanh.approx.f32]
__device__ __forceinline__ float tanh_approx(float x)
{
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
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

//: shared_memory -- the block's dynamic shared memory; swizzled tiles begin at multiples of 1024 bytes
// [.shared state space]
__device__ __forceinline__ char *shared_memory()
{
  extern __shared__ __align__(1024) char shared_memory_[];
  return shared_memory_;
}

//: quad -- four registers of 32 bits: what one lane moves at once
struct alignas(16) quad {
  u32 at[4];
};

//: shared_address -- where a pointer into shared memory points, as the 32-bit address that instructions take
__device__ __forceinline__ u32 shared_address(const void *p)
{
  return u32(__cvta_generic_to_shared(p));
}

//: put16 -- 16 bytes into shared memory [st.shared.v4.b32]
__device__ __forceinline__ void put16(u32 to, const quad &x)
{
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.at[0]), "r"(x.at[1]), "r"(x.at[2]), "r"(x.at[3])
               : "memory");
}

//: get16 -- 16 bytes out of shared memory [ld.shared.v4.b32]
__device__ __forceinline__ quad get16(u32 from)
{
  quad x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "r"(from)
               : "memory");
  return x;
}

//: put4 -- 4 bytes into shared memory [st.shared.b32]
__device__ __forceinline__ void put4(u32 to, u32 x)
{
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

//: get4 -- 4 bytes out of shared memory [ld.shared.b32]
__device__ __forceinline__ u32 get4(u32 from)
{
  u32 x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
  return x;
}

//: ldmatrix -- four 8x8 matrices of 16-bit elements; lane 8 i + r names row r of matrix i (16 bytes); element
// (g, 2t) and (g, 2t + 1) of each go to lane 4 g + t, one register a matrix [ldmatrix.sync.aligned.m8n8.x4]
__device__ __forceinline__ quad ldmatrix(u32 row)
{
  quad x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "r"(row)
               : "memory");
  return x;
}

//: ldmatrix_trans -- the same, transposed: elements (2t, g) and (2t + 1, g) go to lane 4 g + t
// [ldmatrix.sync.aligned.m8n8.x4.trans]
__device__ __forceinline__ quad ldmatrix_trans(u32 row)
{
  quad x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "r"(row)
               : "memory");
  return x;
}

//: mma_f16_k8 -- a 16x8 tile C += A B, A 16x8 and B 8x8 of f16. With g = lane / 4, t = lane % 4:
// c0 c1 = C(g, 2t..), c2 c3 = C(g + 8, 2t..); a0 = A(g, 2t..), a1 = A(g + 8, 2t..); b = B(2t.., g)
// [mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32]
__device__ __forceinline__ void mma_f16_k8(float &c0, float &c1, float &c2, float &c3, u32 a0, u32 a1, u32 b)
{
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a0), "r"(a1), "r"(b));
}

//: mma_f16 -- what sm_80 does at once: A 16x16, B 16x8, as two products of half the depth
__device__ __forceinline__ void mma_f16(float &c0, float &c1, float &c2, float &c3, const quad &a, u32 b0, u32 b1)
{
  mma_f16_k8(c0, c1, c2, c3, a.at[0], a.at[1], b0);
  mma_f16_k8(c0, c1, c2, c3, a.at[2], a.at[3], b1);
}

//: f16_bits -- the nearest f16 [cvt.rn.f16.f32]
__device__ __forceinline__ u16 f16_bits(float x)
{
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

//: pack_f16 -- two f16 in a register, `low` at the lower address
__device__ __forceinline__ u32 pack_f16(float low, float high)
{
  return u32(f16_bits(low)) | u32(f16_bits(high)) << 16;
}

//: float_of_f16 [cvt.f32.f16]
__device__ __forceinline__ float float_of_f16(u16 x)
{
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
