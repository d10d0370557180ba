/* test_emu_hopper_misses.c -- each part of kernels on what Hopper added is missed by the emulator where it is
 * left out, and misuse is told by its name and line. Sound kernels are in test_emu_hopper.c. */
#include "hopper_bench.h"

#define ALONE(body) KERNEL(INIT "if (t == 0) {\n" body "\n}\n") /* line 7 on */
#define WG(body)    DESCRIPTOR KERNEL(LOAD body)                /* line 9 on */

static const miss misses[] = {
    /* the ring: no wait for what has come, for what is free; no arrival; bytes that are not announced */
    {RING(RING_INIT, EXPECT, FREE, "", "warp_sync();", RELEASE), 256, EMU_RACE, 0, "shared memory["},
    {RING(RING_INIT, EXPECT, "", FULL, "warp_sync();", RELEASE), 256, EMU_RACE, 0, "shared memory["},
    {RING(RING_INIT, EXPECT, FREE, FULL, "warp_sync();", ""), 256, EMU_DEADLOCK, 9,
     "parity 0; its phase 0 lacks 4"},
    {RING(RING_INIT, "", FREE, FULL, "warp_sync();", RELEASE), 256, EMU_DEADLOCK, 0,
     "lacks 1 arrivals and -2048 bytes"},
    {RING(RING_INIT, "barrier_expect(bar + 16 * (n % 2), 2064);", FREE, FULL, "warp_sync();", RELEASE), 256,
     EMU_DEADLOCK, 0, "lacks 0 arrivals and 16 bytes"},
    {RING(RING_INIT, "barrier_arrive(bar + 16 * (n % 2));", FREE, FULL, "warp_sync();", RELEASE), 256,
     EMU_RACE, 17,
     "which a copy may still be writing that arrives at a barrier and began at templates/t.cu:11"},
    /* lane 0 says that its warp has read, and the others have not yet */
    {RING(RING_INIT, EXPECT, FREE, FULL, "", RELEASE), 256, EMU_RACE, 0, "shared memory["},
    /* the wrong parity waits for nothing, or for ever */
    {RING(RING_INIT, EXPECT, FREE, "while (!barrier_passed(bar + 16 * (n % 2), n / 2 % 2 ^ 1)) {}",
          "warp_sync();", RELEASE),
     256, EMU_RACE, 0, "shared memory["},
    {RING(RING_INIT, EXPECT, "while (!barrier_passed(bar + 16 * (n % 2) + 8, n / 2 % 2)) {}", FULL,
          "warp_sync();", RELEASE),
     256, EMU_DEADLOCK, 9, "parity 0"},
    /* barriers: never initialised, in others' sight before, not in that of copies, overwritten, for nobody */
    {ALONE("barrier_arrive(bar + 64);"), 128, EMU_MISUSE, 7, "no barrier was initialised there"},
    {KERNEL("if (t == 0) barrier_init(bar, 2);\nif (t == 0 || t == 77) barrier_arrive(bar);\n"
            "if (t == 0) { while (!barrier_passed(bar, 0)) {} }\n"),
     128, EMU_RACE, 3, "shared memory[8192], which thread 0"},
    {KERNEL("if (t == 0) { barrier_init(bar, 1);\nbarrier_expect(bar, 2048);\ncopy_box(at, from, 0, 0, 0, 0, "
            "bar);\n"
            "while (!barrier_passed(bar, 0)) {} }\n"),
     32, EMU_UNFENCED, 4, "copies may not have seen that this barrier was initialised"},
    {ALONE("put4(bar + 4, 0);\nbarrier_arrive(bar);"), 128, EMU_MISUSE, 8, "written over this barrier"},
    {ALONE("barrier_init(bar + 16, 0);"), 128, EMU_MISUSE, 7, "nobody is to arrive"},
    {ALONE("barrier_init(bar + 20, 1);"), 128, EMU_MISALIGNED, 7, "shared memory["},
    {ALONE("barrier_init(bar + 256, 1);"), 128, EMU_OUT_OF_BOUNDS, 7, "shared memory"},
    /* a copy that nobody waits for; boxes at odd places, outside, by something that is no map */
    {ALONE("barrier_expect(bar, 2048); copy_box(at, from, 0, 0, 0, 0, bar);"), 128, EMU_NEVER_AWAITED, 7,
     "awaited"},
    {ALONE("copy_box(at + 64, from, 0, 0, 0, 0, bar);"), 128, EMU_MISUSE, 7, "aligned to 128 bytes"},
    {ALONE("copy_box(at, from, 4, 0, 0, 0, bar);"), 128, EMU_MISUSE, 7, "multiple of 16 bytes of a row"},
    {ALONE("copy_box(at + 32768, from, 0, 0, 0, 0, bar);"), 128, EMU_MISUSE, 7,
     "does not lie in shared memory"},
    {ALONE("tensor_map m = {}; copy_box(at, m, 0, 0, 0, 0, bar);"), 128, EMU_MISUSE, 7, "no tensor map"},
    /* two copies to one place; a thread's own store there */
    {ALONE("barrier_expect(bar, 4096); copy_box(at, from, 0, 0, 0, 0, bar);\ncopy_box(at, from, 0, 0, 1, 0, "
           "bar);\n"
           "while (!barrier_passed(bar, 0)) {}"),
     128, EMU_RACE, 8, "which a copy may still be writing"},
    {ALONE("barrier_expect(bar, 2048); copy_box(at, from, 0, 0, 0, 0, bar);\nput4(at + 16, 1);\n"
           "while (!barrier_passed(bar, 0)) {}"),
     128, EMU_RACE, 8, "which a copy may still be writing"},
    {KERNEL(INIT "if (t == 0) { barrier_expect(bar, 2048); copy_box(at, from, 0, 0, 0, 0, bar);\n"
                 "while (!barrier_passed(bar, 0)) {} }\nif (t == 40) a.u[3] = 1;\n"),
     128, EMU_RACE, 0, "u[3]"},
    /* boxes to device memory: stores without a fence, others' before a barrier, no commit, no wait, too early
     */
    {THERE_AND_BACK("", "block_sync();", "store_commit();", "store_wait();"), 256, EMU_UNFENCED, 13,
     "with no fence for copies since"},
    {THERE_AND_BACK("copies_fence();", "", "store_commit();", "store_wait();"), 256, EMU_RACE, 0,
     "shared memory["},
    {THERE_AND_BACK("copies_fence();", "block_sync();", "", "store_wait();"), 256, EMU_NEVER_AWAITED, 13,
     "awaited"},
    {THERE_AND_BACK("copies_fence();", "block_sync();", "store_commit();", ""), 256, EMU_NEVER_AWAITED, 13,
     "awaited"},
    {THERE_AND_BACK("copies_fence();", "block_sync();", "store_commit();\nput4(at + 2048, 1);",
                    "store_wait();"),
     256, EMU_RACE, 15, "which a copy to device memory may still be reading"},
    {ALONE("copies_fence(); store_box(to, 0, 0, 0, 0, at);\nstore_commit(); store_wait();"), 128,
     EMU_UNINITIALISED, 7, "reads shared memory[0]"},
    /* named barriers */
    {KERNEL("if (t < 64) put4(at + 4 * t, 1);\nif (t < 32) named_arrive(3, 128);\nif (t >= 64) named_sync(3, "
            "128);\n"),
     128, EMU_DEADLOCK, 4, "the named barrier 3, at which 96 of 128 threads are"},
    {KERNEL(
         "if (t < 64) put4(at + 4 * t, 1);\nelse a.v[t] = get4(at + 4 * (t - 64));\nnamed_sync(2, 128);\n"),
     128, EMU_RACE, 0, "shared memory["},
    {KERNEL("named_sync(0, 128);\n"), 128, EMU_MISUSE, 2, "barrier 0 is that of the whole block"},
    {KERNEL("named_sync(16, 128);\n"), 128, EMU_MISUSE, 2, "the numbers 1 to 15"},
    {KERNEL("named_sync(1, 100);\n"), 128, EMU_MISUSE, 2, "whole warps"},
    {KERNEL("if (t < 64) named_arrive(1, 128); else named_arrive(1, 96);\n"), 128, EMU_MISUSE, 2,
     "another number"},
    /* a number that is changed as one, and beside that */
    {KERNEL("if (t % 32 == 0) atomic_add((i32 *)a.u, 1);\nif (t == 5) a.u[0]++;\n"), 128, EMU_RACE, 3,
     "u[0]"},
    {KERNEL("if (t == 0) atomic_add((i32 *)a.v, 1);\n"), 128, EMU_UNINITIALISED, 2, "v[0]"},
    /* registers */
    {KERNEL("if (t < 128) registers_less<32>(); else registers_more<248>();\n"), 384, EMU_MISUSE, 0,
     "more registers than it began with"},
    {KERNEL("if (t < 128) registers_less<32>(); else registers_more<240>();\n"), 384, EMU_MISUSE, 0,
     "more registers than it began with"},
    {KERNEL("if (t < 96) registers_less<24>();\n"), 256, EMU_MISUSE, 0, "not all threads of a warpgroup"},
    {KERNEL("registers_less<28>();\n"), 128, EMU_MISUSE, 2, "in steps of 8"},
    /* products: their registers and their tiles before the wait, no fence, no commit; lanes that do not come
     */
    {S_OF("", "products_commit();", "products_wait<0>();"), 128, EMU_UNFENCED, 10,
     "written since the last fence"},
    {WG("products_fence();\nwgmma<0>(C.at, desc(at, 16, 1024), desc(at, 16, 1024), 1); products_commit(); "
        "products_wait<0>();\nC.at[0][0] = 1;\nwgmma<0>(C.at, desc(at, 16, 1024), desc(at, 16, 1024), 1); "
        "products_commit(); products_wait<0>();\n"),
     128, EMU_UNFENCED, 12, "written since the last fence"},
    {S_OF("products_fence();", "", "products_wait<0>();"), 128, EMU_PRODUCT_REGISTERS, 13, "may still run"},
    {S_OF("products_fence();", "products_commit();", ""), 128, EMU_PRODUCT_REGISTERS, 13, "reads registers"},
    {S_OF("products_fence();", "products_commit();", "products_wait<1>();"), 128, EMU_PRODUCT_REGISTERS, 13,
     "templates/t.cu:10"},
    {S_OF("products_fence();", "products_commit();\nblock_sync(); if (t == 5) put4(at + 128, 0);",
          "products_wait<0>();"),
     128, EMU_RACE, 12, "which a product of warpgroup 0 may still be reading"},
    {S_OF("products_fence();\nif (t == 5) put4(at + 128, 0);\nblock_sync();", "products_commit();",
          "products_wait<0>();"),
     128, EMU_UNFENCED, 12, "with no fence for copies since"},
    {WG("products_fence(); if (t < 96)\nwgmma<0>(C.at, desc(at, 16, 1024), desc(at, 16, 1024), 1);\n"), 128,
     EMU_MISSING_LANES, 10, "thread 96 has ended"},
    {WG("products_fence();\nwgmma<0>(C.at, desc(at + t / 64 * 32, 16, 1024), desc(at, 16, 1024), 1);\n"), 128,
     EMU_MISUSE, 10, "different operands"},
    {WG("products_fence();\nwgmma<0>(C.at, desc(at, 16, 1024) & ~(3ull << 62), desc(at, 16, 1024), 1);\n"),
     128, EMU_MISUSE, 10, "swizzle of 128 bytes"},
    {WG("products_fence();\nwgmma<0>(C.at, desc(at, 16, 1024), desc(at, 16, 8192), 1);\n"), 128,
     EMU_UNINITIALISED, 10, "reads shared memory["},
    {WG("products_fence();\nwgmma<0>(C.at, desc(at + 32768, 16, 1024), desc(at, 16, 1024), 1);\n"), 128,
     EMU_OUT_OF_BOUNDS, 10, "shared memory at byte"},
    {WG("quad A = {}; products_fence();\nwgmma<1>(C.at, A, desc(at, 2048, 1024), 1);\nA.at[1] = "
        "7;\nproducts_commit(); "
        "products_wait<0>();\na.v[t] = A.at[1];\n"),
     128, EMU_PRODUCT_REGISTERS, 11, "writes registers"},
};

static void every_part_is_missed(void **state)
{
  (void)state;
  are_missed(misses, sizeof misses / sizeof *misses, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_part_is_missed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
