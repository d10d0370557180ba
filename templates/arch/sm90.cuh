// sm90.cuh -- what Hopper added: barriers that count bytes, tiles copied by the tensor memory accelerator (TMA),
// products of a whole warpgroup on tiles in shared memory, and registers that move between warpgroups.
// As sm75.cuh: one instruction per function; sections of the PTX ISA manual in brackets.

//: tensor_map -- a tensor, its strides and the box of one copy, encoded by the driver
struct alignas(64) tensor_map {
  u64 opaque[16];
};

//: grid_size -- blocks of the grid [Special Registers: %nctaid]
__device__ __forceinline__ i32 grid_size()
{
  return gridDim.x;
}

//: launch_next -- the launch behind this one, where it may overlap, may begin when all blocks of this one have said so
// [griddepcontrol.launch_dependents]
__device__ __forceinline__ void launch_next()
{
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

//: launch_wait -- until the launch before has ended and all that it wrote is seen [griddepcontrol.wait]
__device__ __forceinline__ void launch_wait()
{
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

//: barrier_init -- a phase ends when `count` arrivals and all announced bytes have come [mbarrier.init]
__device__ __forceinline__ void barrier_init(u32 barrier, i32 count)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

//: barrier_init_fence -- what follows, copies too, sees the barriers as initialised [fence.mbarrier_init]
__device__ __forceinline__ void barrier_init_fence()
{
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

//: barrier_arrive -- one arrival [mbarrier.arrive]
__device__ __forceinline__ void barrier_arrive(u32 barrier)
{
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

//: barrier_expect -- one arrival that announces bytes [mbarrier.arrive.expect_tx]
__device__ __forceinline__ void barrier_expect(u32 barrier, i32 bytes)
{
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

//: barrier_passed -- whether the phase of this parity has ended; waits a while for it [mbarrier.try_wait.parity]
__device__ __forceinline__ bool barrier_passed(u32 barrier, u32 parity)
{
  u32 passed;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(passed)
               : "r"(barrier), "r"(parity)
               : "memory");
  return passed;
}

//: barrier_tested -- the same without waiting [mbarrier.test_wait.parity]
__device__ __forceinline__ bool barrier_tested(u32 barrier, u32 parity)
{
  u32 passed;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(passed)
               : "r"(barrier), "r"(parity)
               : "memory");
  return passed;
}

//: copy_box -- starts to copy a box of a tensor to shared memory, which then arrives at a barrier with its bytes;
// what lies outside the tensor comes as zeros [cp.async.bulk.tensor.4d]
__device__ __forceinline__ void copy_box(u32 to, const tensor_map &from, i32 column, i32 row, i32 head, i32 batch,
                                         u32 barrier)
{
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
               "%5}], [%6];" ::"r"(to),
               "l"(&from), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier)
               : "memory");
}

//: lane_again -- a thread's lane, read anew: what is made of it before a loop and behind it takes no register meanwhile [%laneid]
__device__ __forceinline__ i32 lane_again()
{
  i32 lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

//: store_box -- starts to copy a box from shared memory to a tensor; what lies outside the tensor is left out
// [cp.async.bulk.tensor.4d]
__device__ __forceinline__ void store_box(const tensor_map &to, i32 column, i32 row, i32 head, i32 batch, u32 from)
{
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&to),
               "r"(from), "r"(column), "r"(row), "r"(head), "r"(batch)
               : "memory");
}

//: store_commit -- this thread's stores since the last call are one group [cp.async.bulk.commit_group]
__device__ __forceinline__ void store_commit()
{
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

//: store_wait -- until this thread's stores have read shared memory [cp.async.bulk.wait_group.read]
__device__ __forceinline__ void store_wait()
{
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

//: await_count -- until a number in device memory is n; what those did before who counted it up came before what this thread
// does next [ld.acquire.gpu]
__device__ __forceinline__ void await_count(const i32 *from, i32 n)
{
  i32 x;
  do
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  while (x != n);
}

//: count_is -- whether it is n yet; if so, as above [ld.acquire.gpu]
__device__ __forceinline__ bool count_is(const i32 *from, i32 n)
{
  i32 x;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x == n;
}

//: await_reached -- until it is n or more; as above [ld.acquire.gpu]
__device__ __forceinline__ void await_reached(const i32 *from, i32 n)
{
  i32 x;
  do
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  while (x < n);
}

//: has_reached -- whether it is n or more yet; if so, as above [ld.acquire.gpu]
__device__ __forceinline__ bool has_reached(const i32 *from, i32 n)
{
  i32 x;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x >= n;
}

//: count_up -- adds to a number in device memory, behind all that this thread has done and waited for [red.release.gpu]
__device__ __forceinline__ void count_up(i32 *to, i32 x = 1)
{
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}

//: come_to -- adds x to a number in device memory; what it was before; what those did before who counted it up came before what this thread does
// next [atom.acquire.gpu.global.add]
__device__ __forceinline__ i32 come_to(i32 *to, i32 x)
{
  i32 before;
  asm volatile("atom.acquire.gpu.global.add.s32 %0, [%1], %2;" : "=r"(before) : "l"(to), "r"(x) : "memory");
  return before;
}

//: copies_fence -- what this thread wrote to shared memory is seen by copies that start later [fence.proxy.async]
__device__ __forceinline__ void copies_fence()
{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

//: stmatrix -- four 8x8 matrices of 16-bit elements; lane 8 i + r names row r of matrix i; the opposite of ldmatrix
// [stmatrix.sync.aligned.m8n8.x4]
__device__ __forceinline__ void stmatrix(u32 row, u32 x0, u32 x1, u32 x2, u32 x3)
{
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(x0), "r"(x1), "r"(x2),
               "r"(x3)
               : "memory");
}

//: registers_more -- this warpgroup takes registers, waiting until they are free [setmaxnreg.inc]
template <i32 count> __device__ __forceinline__ void registers_more()
{
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

//: registers_less -- this warpgroup gives registers away [setmaxnreg.dec]
template <i32 count> __device__ __forceinline__ void registers_less()
{
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

//: products_fence -- registers written so far may be read and written by products [wgmma.fence]
__device__ __forceinline__ void products_fence()
{
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

//: products_commit -- the products since the last call are one group [wgmma.commit_group]
__device__ __forceinline__ void products_commit()
{
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

//: nap_if_negative -- an instruction that cannot be moved, with x as its condition [nanosleep]
__device__ __forceinline__ void nap_if_negative(float x)
{
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p nanosleep.u32 0;\n}" ::"f"(x) : "memory");
}

//: pin -- two numbers are read behind this and not before: of who waits for products the compiler does not know which [no instruction]
__device__ __forceinline__ void pin(float &x, float &y)
{
  asm volatile("" : "+f"(x), "+f"(y)::"memory");
}

//: products_wait -- until all but the `left` youngest groups are done [wgmma.wait_group]
template <i32 left> __device__ __forceinline__ void products_wait()
{
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

//: wgmma -- C (64 rows; a thread has 2 of them, as fragments.cuh says) = A B or, with `add`, += A B, 16 deep. A: registers
// of the warps, or rows in shared memory. B: its columns in shared memory or, `B_rows`, its rows
// [wgmma.mma_async.sync.aligned]
% for _, shape in ipairs(products) do
%   local n, sums, registers = shape.columns, {}, {}
%   for i = 0, n // 2 - 1 do sums[#sums + 1] = "%" .. i end
%   for i = 0, n // 4 - 1, 2 do
%     registers[#registers + 1] = string.format('"+f"(c[0][%d]), "+f"(c[0][%d]), "+f"(c[1][%d]), "+f"(c[1][%d])', i, i + 1, i, i + 1)
%   end
%   local at = n // 2
%   local A = shape.held and string.format("{%%%d, %%%d, %%%d, %%%d}", at, at + 1, at + 2, at + 3) or "%" .. at
%   local B = at + (shape.held and 4 or 1)
template <i32 B_rows>
__device__ __forceinline__ void wgmma(float (&c)[2][$(n // 4)], $(shape.held and "const quad &a" or "u64 a"), u64 b, i32 add)
{
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %$(B + 1), 0;\n"
               "wgmma.mma_async.sync.aligned.m64n$(n)k16.f32.$(dtype).$(dtype) "
               "{$(table.concat(sums, ", "))}, "
               "$(A), %$(B), p, 1, 1, $(shape.held and "" or "0, ")%$(B + 2);\n}"
               : $(table.concat(registers, ", "))
               : $(shape.held and '"r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3])' or '"l"(a)'), "l"(b), "r"(add), "n"(B_rows));
}
% end

//: wgmma_turned -- as wgmma with A in shared memory, whose columns are the contiguous ones there [wgmma.mma_async, imm-trans-a]
% for _, n in ipairs(turned_products) do
%   local sums, registers = {}, {}
%   for i = 0, n // 2 - 1 do sums[#sums + 1] = "%" .. i end
%   for i = 0, n // 4 - 1, 2 do
%     registers[#registers + 1] = string.format('"+f"(c[0][%d]), "+f"(c[0][%d]), "+f"(c[1][%d]), "+f"(c[1][%d])', i, i + 1, i, i + 1)
%   end
template <i32 B_rows>
__device__ __forceinline__ void wgmma_turned(float (&c)[2][$(n // 4)], u64 a, u64 b, i32 add)
{
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %$(n // 2 + 2), 0;\n"
               "wgmma.mma_async.sync.aligned.m64n$(n)k16.f32.$(dtype).$(dtype) "
               "{$(table.concat(sums, ", "))}, "
               "%$(n // 2), %$(n // 2 + 1), p, 1, 1, 1, %$(n // 2 + 3);\n}"
               : $(table.concat(registers, ", "))
               : "l"(a), "l"(b), "r"(add), "n"(B_rows));
}
% end

//: copy_bulk -- starts to copy bytes that lie side by side to shared memory, in 16s; they arrive at a barrier
// [cp.async.bulk.shared::cluster.global.mbarrier]
__device__ __forceinline__ void copy_bulk(u32 to, const void *from, i32 bytes, u32 barrier)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
               "r"(bytes), "r"(barrier)
               : "memory");
}

//: reduce_bulk -- starts to add fp32 numbers that lie side by side in shared memory to device memory; a store of this
// thread, as store_box [cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32]
__device__ __forceinline__ void reduce_bulk(float *to, u32 from, i32 bytes)
{
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}

//: reduce_add4 -- adds to four numbers side by side in device memory, sooner or later [red.global.add.v4.f32]
__device__ __forceinline__ void reduce_add4(float *to, float x0, float x1, float x2, float x3)
{
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x0), "f"(x1), "f"(x2), "f"(x3) : "memory");
}

//: stmatrix_trans -- four 8x8 matrices, transposed: the opposite of ldmatrix_trans [stmatrix.sync.aligned.m8n8.x4.trans]
__device__ __forceinline__ void stmatrix_trans(u32 row, u32 x0, u32 x1, u32 x2, u32 x3)
{
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(x0), "r"(x1), "r"(x2),
               "r"(x3)
               : "memory");
}
