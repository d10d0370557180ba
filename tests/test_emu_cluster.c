/* test_emu_cluster.c -- two blocks of a cluster that send each other what they make: sound, the numbers are
 * right; each part left out is missed, and misuse is told by its name and line.
 *
 * In each block a warp makes 32 numbers a step, lays them down and sends them to the other block; another
 * reads both blocks' numbers. Two places take turns: who makes waits until both blocks have read what was
 * there. */
#include "hopper_bench.h"

#define PLACE "at + n % 2 * 256"
#define MINE  PLACE " + r * 128"
#define FULL_ "bar + 16 * (n % 2)"
#define FREE_ "bar + 16 * (n % 2) + 8"

#define MEET      "cluster_arrive(); cluster_wait();"
#define AWAIT     "while (!barrier_passed(" FREE_ ", n / 2 % 2 ^ 1)) {}"
#define FENCE     "copies_fence();"
#define SYNC      "warp_sync();"
#define SEND      "copy_there(peer_place(" MINE ", 1 - r), " MINE ", 128, peer_place(" FULL_ ", 1 - r));"
#define ANNOUNCED "barrier_expect(" FULL_ ", 128);"
#define SEE       "while (!barrier_passed(" FULL_ ", n / 2 % 2)) {}"
#define TELL      "barrier_arrive_there(peer_place(" FREE_ ", 1 - r));"

#define EXCHANGE(meet, await, fence, sync, send, announced, see, tell, leave)                                \
  KERNEL("const i32 r = i32(block_id()) % 2; if (t == 0) for (i32 n = 0; n < 2; n++) {\n"                    \
         "barrier_init(" FULL_ ", 1); barrier_init(" FREE_ ", 2); barrier_init_fence(); }\n" meet            \
         "\nif (t < 32) for (i32 n = 0; n < 6; n++) {\n" await "\nput4(" MINE                                \
         " + 4 * t, 100 * r + 10 * n + t);\n" fence "\n" sync "\nif (t == 0) { " send "\n" announced         \
         "\n} }\n"                                                                                           \
         "else { u32 sum = 0; for (i32 n = 0; n < 6; n++) {\n\n" see "\nsum += get4(" PLACE                  \
         " + 4 * (t - 32)) + get4(" PLACE " + 128 + 4 * (t - 32)); warp_sync(); "                            \
         "if (t == 32) { barrier_arrive(" FREE_ ");\n" tell "\n} }\na.v[32 * r + t - 32] = sum; }\n" leave   \
         "\n")

enum { THREADS = 64 };

static void numbers_of_both_are_summed(void **state)
{
  (void)state;
  for (int i = 0; i < ORDERS * LANDINGS; i++) {
    emu_options options = options_of(i, 1);
    bench b = bench_open();
    emu_report r = run_blocks(&b, EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE, TELL, MEET), 2,
                              THREADS, SHARED, &options);
    if (r.findings)
      fail_msg("run %d: %s", i, r.finding[0].text);
    for (uint32_t t = 0; t < 64; t++)
      assert_int_equal(b.a.v[t], 6 * 100 + 2 * (150 + 6 * (t % 32)));
    emu_close(b.e);
  }
}

/* One block writes device memory, the other reads it: with no barrier in shared memory. */
#define HANDED(meet)                                                                                         \
  KERNEL("const i32 r = i32(block_id()) % 2; if (t == 0 && r == 0) a.v[0] = 7;\n" meet                       \
         "\nif (t == 0 && r == 1) a.v[1] = a.v[0];")

static void what_one_wrote_before_they_met_another_reads(void **state)
{
  (void)state;
  for (int met = 0; met < 2; met++) {
    emu_options options = options_of(0, 1);
    bench b = bench_open();
    emu_report r = run_blocks(&b, met ? HANDED(MEET) : HANDED(""), 2, THREADS, SHARED, &options);
    if (met)
      assert_int_equal(b.a.v[1], 7);
    assert_int_equal(r.findings > 0, !met);
    emu_close(b.e);
  }
}

static const miss misses[] = {
    {EXCHANGE("block_sync();", AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE, TELL, MEET), THREADS, EMU_RACE, 0,
     "shared memory[8192], which thread 0 of block"},
    {EXCHANGE(MEET, "", FENCE, SYNC, SEND, ANNOUNCED, SEE, TELL, MEET), THREADS, EMU_RACE, 0,
     "shared memory["},
    {EXCHANGE(MEET, AWAIT, "", SYNC, SEND, ANNOUNCED, SEE, TELL, MEET), THREADS, EMU_UNFENCED, 0,
     "with no fence for copies since"},
    {EXCHANGE("if (t < 32) put4(at + 4 * t, t);\n" MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE, TELL,
              MEET),
     THREADS, EMU_UNFENCED, 0, "with no fence for copies since"},
    {EXCHANGE(MEET, AWAIT, FENCE, "", SEND, ANNOUNCED, SEE, TELL, MEET), THREADS, EMU_RACE, 0,
     "shared memory["},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, "", ANNOUNCED, SEE, TELL, MEET), THREADS, EMU_DEADLOCK, 0,
     "128 bytes"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, "barrier_arrive(" FULL_ ");", SEE, TELL, MEET), THREADS,
     EMU_RACE, 0, "which a copy may still be writing"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, "", TELL, MEET), THREADS, EMU_UNINITIALISED, 0,
     "shared memory["},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE, "", MEET), THREADS, EMU_DEADLOCK, 0,
     "lacks 1 arrivals"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE, "barrier_arrive(" FREE_ ");", MEET), THREADS,
     EMU_RACE, 0, "shared memory["},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE, TELL, ""), THREADS, EMU_MISUSE, 0, "has ended"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE,
              "barrier_arrive_there(peer_place(" FREE_ ", 2));", MEET),
     THREADS, EMU_MISUSE, 0, "a block of the cluster that there is not"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC, SEND, ANNOUNCED, SEE, "barrier_arrive_there(" FREE_ ");", MEET),
     THREADS, EMU_MISUSE, 0, "in one's own shared memory"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC,
              "copy_there(peer_place(" MINE ", 1 - r), " MINE ", 128, peer_place(" FULL_ ", r));", ANNOUNCED,
              SEE, TELL, MEET),
     THREADS, EMU_MISUSE, 0, "arrives at a barrier of that block"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC,
              "copy_there(peer_place(" MINE " + 4, 1 - r), " MINE ", 128, peer_place(" FULL_ ", 1 - r));",
              ANNOUNCED, SEE, TELL, MEET),
     THREADS, EMU_MISUSE, 0, "at multiples of 16"},
    {EXCHANGE(MEET, AWAIT, FENCE, SYNC,
              "copy_there(peer_place(" MINE ", 1 - r), at + 32768 + 256, 128, peer_place(" FULL_ ", 1 - r));",
              ANNOUNCED, SEE, TELL, MEET),
     THREADS, EMU_MISUSE, 0, "do not lie in shared memory"},
};

static void every_part_is_missed(void **state)
{
  (void)state;
  are_missed(misses, sizeof misses / sizeof *misses, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_both_are_summed),
      cmocka_unit_test(what_one_wrote_before_they_met_another_reads),
      cmocka_unit_test(every_part_is_missed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
