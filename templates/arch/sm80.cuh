// sm80.cuh -- what Ampere added: 16-deep products, bf16, tf32, and copies that run on by themselves.
// As sm75.cuh: one instruction per function; sections of the PTX ISA manual in brackets.

//: mma_f16 -- a 16x8 tile C += A B, A 16x16 and B 16x8 of f16. With g = lane / 4, t = lane % 4:
// c0 c1 = C(g, 2t..), c2 c3 = C(g + 8, 2t..); a = A(g, 2t..), A(g + 8, 2t..), A(g, 2t + 8..), A(g + 8, 2t + 8..);
// b0 = B(2t.., g), b1 = B(2t + 8.., g) [mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32]
__device__ __forceinline__ void mma_f16(float &c0, float &c1, float &c2, float &c3, const quad &a, u32 b0, u32 b1)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}

//: mma_bf16 -- the same of bf16 [mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32]
__device__ __forceinline__ void mma_bf16(float &c0, float &c1, float &c2, float &c3, const quad &a, u32 b0, u32 b1)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}

//: mma_tf32 -- a 16x8 tile C += A B, A 16x8 and B 8x8 of tf32 (an f32 whose lower 13 bits do not count).
// C as above; a = A(g, t), A(g + 8, t), A(g, t + 4), A(g + 8, t + 4); b0 = B(t, g), b1 = B(t + 4, g)
// [mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32]
__device__ __forceinline__ void mma_tf32(float &c0, float &c1, float &c2, float &c3, const quad &a, u32 b0, u32 b1)
{
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}

//: round_tf32 -- the nearest tf32, halves away from zero [cvt.rna.tf32.f32]
__device__ __forceinline__ u32 round_tf32(float x)
{
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}

//: pack_f16 -- two f16 in a register, `low` at the lower address [cvt.rn.f16x2.f32]
__device__ __forceinline__ u32 pack_f16(float low, float high)
{
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

//: pack_bf16 -- two bf16 in a register, `low` at the lower address [cvt.rn.bf16x2.f32]
__device__ __forceinline__ u32 pack_bf16(float low, float high)
{
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

//: copy_async -- starts to copy 16 bytes to shared memory; where `real` is false, zeros, and nothing is read
// [cp.async.cg.shared.global, with its source size]
__device__ __forceinline__ void copy_async(u32 to, const void *from, bool real)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(real ? 16 : 0) : "memory");
}

//: copy_commit -- this thread's copies since the last call are one group [cp.async.commit_group]
__device__ __forceinline__ void copy_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

//: copy_wait -- until all but the `left` youngest groups of this thread have landed [cp.async.wait_group]
template <i32 left> __device__ __forceinline__ void copy_wait()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

//: named_sync -- `threads` threads, some by named_arrive, meet at one of the block's 16 barriers [barrier.cta.sync]
__device__ __forceinline__ void named_sync(i32 name, i32 threads)
{
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

//: named_arrive -- the same without waiting for the others [barrier.cta.arrive]
__device__ __forceinline__ void named_arrive(i32 name, i32 threads)
{
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
