/* test_bites_ws_told.c -- the emulator bites fwd_ws where tiles of Q are told of (D = 1), hold rows of
 * several heads (G = 1) or have a window: each text is spoiled in one place, which must be found.
 * When the next tile is asked for shapes the schedule alone (bites_defects.h says how). */
#include "bites_defects.h"

/* Four heads share K and V; several tiles of Q for a block, the last with rows of none; few keys for each
 * row, which no tile of 32 begins with. */
#define WINDOW "fwd-f16-b1-h8k2-q90-k130-d40-causal-w45.0 all gpu=H200 sms=2 lay=padded"
/* The same of every key before a row's, of batches of lengths of their own, of a window on either side. */
#define CAUSAL "fwd-f16-b1-h8k2-q90-k130-d40-causal all gpu=H200 sms=2 lay=padded"
#define RAGGED "fwd-bf16-b5-h8k2-q190-k190-d40-causal-varlen all gpu=H200 sms=2 lay=padded"
/* Most rows see no key. */
#define NO_KEYS "fwd-f16-b1-h1-q600-k37-d40-causal all gpu=H200 sms=1"
#define BOTH    "fwd-bf16-b1-h4-q300-k300-d40-w74.40 all gpu=H200 sms=2 lay=padded"

#define WS(rest) "fwd_ws:Br128-Bc32-" rest
#define TOLD     WS("s2-q2-Q0-I1-P0-L2-D1-Z1")
#define ONE      WS("s2-q1-Q0-I1-P0-L2-D1-Z1")
#define BOXED    WS("s2-q2-Q0-I1-P0-L2-D1-Z1-G1")
#define APART    WS("s2-q2-Q0-I1-P0-L2-Z1-G1")

#define RING    "templates/lib/ring.cuh"
#define WS_LIB  "templates/lib/ws.cuh"
#define RECORDS "templates/lib/ws_records.cuh"

static const defect defects[] = {
    /* records: of which warpgroup, of which place, when its place is free, when the next is drawn, the last
     */
    {BOXED, "64 * (lane % consumers)", "0", CAUSAL, WRONG, NULL, NULL},
    {BOXED, "put_record(first + lane, my);", "", CAUSAL, EMU_UNINITIALISED, RECORDS, "get16("},
    {BOXED, "put_record(first + lane, my);", "put_record(lane, my);", CAUSAL, EMU_RACE, RECORDS, "get16("},
    {BOXED, "get_record<false>(a, own)", "get_record<false>(a, own - me)", CAUSAL, EMU_RACE, RECORDS,
     "get16("},
    {BOXED, "wait(Q_free + first + x, slot.parity ^ 1);", ";", WINDOW, EMU_RACE, WS_LIB, "stmatrix("},
    {TOLD, "if (tiles == 0)\n      release(asked);", "", NO_KEYS, EMU_DEADLOCK, RING, "barrier_passed("},
    {TOLD, "last ? -1 : my.head", "my.head", CAUSAL, EMU_DEADLOCK, RING, "barrier_passed("},
    {TOLD, "barrier_arrive(barrier_at(told + slot.slot));", ";", CAUSAL, EMU_DEADLOCK, RING,
     "barrier_passed("},
    {TOLD, "wait(told + slot.slot, slot.parity);", ";", CAUSAL, EMU_UNINITIALISED, RECORDS, "get16("},
    {TOLD, "(x - Q_free) % consumers == 0 ? 5", "(x - Q_free) % consumers == 0 ? 4", CAUSAL, EMU_RACE, RING,
     "copy_box("},
    {TOLD, "my.i0 + 64 * lane", "my.i0", CAUSAL, WRONG, NULL, NULL},
    /* O leaves later: before what comes next has been copied there, and at the end; only where places are two
     */
    {TOLD, "    store_wait();\n    barrier_arrive", "    barrier_arrive", CAUSAL, EMU_RACE, RING,
     "copy_box("},
    {TOLD, "      return free_place(leaving);", "      return;", CAUSAL, EMU_NEVER_AWAITED, WS_LIB,
     "store_box("},
    {TOLD, "give_start(me, round);\n      free_place(leaving);\n      i32 y",
     "give_start(me, round);\n      i32 y", CAUSAL, EMU_DEADLOCK, RING, "barrier_passed("},
    {ONE, "release(Q_free + own);", "", CAUSAL, EMU_DEADLOCK, RING, "barrier_passed("},
    /* boxes of several heads: which rows, which heads; where their numbers lie */
    {BOXED, "(my.i0 + 64 * lane) / my.at.peers", "(my.i0 + 64 * lane) / 2", CAUSAL, WRONG, NULL, NULL},
    {APART, "(my.i0 + 64 * x) / at.peers", "my.i0 / at.peers", CAUSAL, WRONG, NULL, NULL},
    {APART, "(i0 + first) / at.peers", "i0 / at.peers", CAUSAL, EMU_RACE, WS_LIB, "store_box("},
    {APART, "to, 64 * x, at.h,", "to, 64 * x, at.hk,", CAUSAL, EMU_RACE, WS_LIB, "store_box("},
    {BOXED, "(x > 1) + (x > 2)", "(x > 1)", CAUSAL, WRONG, NULL, NULL},
    {BOXED, "x & ((1 << y.log) - 1)", "x & (1 << y.log)", CAUSAL, WRONG, NULL, NULL},
    {BOXED, "ends[b * next] * peers / R", "ends[b * next] / R", RAGGED, WRONG, NULL, NULL},
    /* windows: where tiles of keys begin, the ends of what a row sees, in which tiles they are looked for */
    {BOXED, "const i32 before = max(0, to - ceil_div(max(0, to - from), Bc) * Bc);",
     "const i32 before = from + 1;", WINDOW, WRONG, NULL, NULL},
    {BOXED, "my.nk -= before;", ";", WINDOW, WRONG, NULL, NULL},
    {TOLD, "hi[r] - 1 - a.L", "hi[r] - a.L", WINDOW, WRONG, NULL, NULL},
    {TOLD, "hi[r] - 1 - a.L", "hi[r] - 2 - a.L", WINDOW, WRONG, NULL, NULL},
    {TOLD, "column_behind(c) >= from", "column_behind(c) > from", BOTH, WRONG, NULL, NULL},
    {TOLD, "column_behind(c) < to", "column_behind(c) <= to", BOTH, WRONG, NULL, NULL},
    {TOLD, "return c / 2 * 8 + c % 2;\n}", "return c;\n}", BOTH, WRONG, NULL, NULL},
    {TOLD, "any_lane(j0 < at.of_row(a, Acc::R - 1).lo)", "any_lane(j0 < at.of_row(a, 0).lo)", BOTH, WRONG,
     NULL, NULL},
};

static void every_defect_is_found(void **state)
{
  (void)state;
  defects_are_found(defects, sizeof defects / sizeof *defects);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_defect_is_found),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
