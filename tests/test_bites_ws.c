/* test_bites_ws.c -- the emulator bites kernels for warpgroups: each is spoiled
 * in one place after another, and each must be found.
 *
 * Every wait, release, fence and commit is taken out in turn, in the configs
 * where it is needed: a finding of any kind counts, a block in which nobody can
 * go on, or a wrong result. Of a line that is rendered twice the second one is
 * for FATUNE_FULL=1. A table holds other defects (bites.h says how). */
#include "bites_calls.h"
#include "bites_defects.h"

/* Causal, several tiles of Q for a block, tiles that no mask touches and tiles
 * of both kinds of edges. */
#define F16  "fwd-f16-b1-h2k1-q300-k330-d40-causal all gpu=H200 sms=2 lay=padded"
#define BF16 "fwd-bf16-b1-h2k1-q300-k330-d40v72-causal all gpu=H200 sms=2 lay=padded"
/* No mask touches the last tile but one. */
#define FULL "fwd-f16-b1-h2k1-q300-k330-d40 all gpu=H200 sms=2 lay=padded"
/* Most tiles of Q see no key. */
#define NO_KEYS "fwd-f16-b1-h1-q600-k37-d40-causal all gpu=H200 sms=1"

/* The last row of a warpgroup is the first that sees a tile of 32 keys (k = 301), or the last that does not
 * see the next (k = 332). */
#define LAST_ROW(k) "fwd-f16-b1-h1-q300-k" #k "-d40-causal all gpu=H200 sms=1"

/* V is made in two slices. */
#define SLICED "fwd-f16-b1-h2k1-q200-k70-d40v384-causal all gpu=H200 sms=2"

/* Weights outgrow maxima. */
#define LARGE "fwd-f16-b1-h2k1-q300-k330-d40-causal all gpu=H200 sms=2 lay=padded data=large"
/* The same in two boxes of Q and K. */
#define LARGE_WIDE "fwd-f16-b1-h2k1-q300-k330-d72-causal all gpu=H200 sms=2 lay=padded data=large"

/* They do so tile by tile along the diagonal. */
#define RISING "fwd-f16-b1-h2k1-q300-k330-d40-causal all gpu=H200 sms=2 lay=padded data=rising"

/* Under a window, where some warps of a warpgroup seek a maximum and some do not. */
#define WINDOW "fwd-f16-b1-h2k1-q300-k330-d40-causal-w130.0 all gpu=H200 sms=2 lay=padded data=rising"

/* Biases that copies read, and those that they cannot. */
#define BIASED     "fwd-f16-b1-h2k1-q200-k168-d40-causal-bias all gpu=H200 sms=2"
#define BIASED_ODD "fwd-f16-b1-h2k1-q200-k168-d40-causal-bias all gpu=H200 sms=2 lay=padded"

/* Three tiles of Q, of which two blocks have two at a time; of the last two one has no rows. */
#define TWOS "fwd-f16-b1-h2k1-q300-k170-d40 all gpu=H200 sms=2 lay=padded"

/* Two tiles of Q, three splits of each, of which a block has two; some of the keys of the last are seen by
 * the second warpgroup alone. */
#define PARTS "fwd-f16-b1-h1-q230-k330-d40-causal all gpu=H200 sms=3 lay=padded"

/* The same of three heads that share K and V: the last rows of the second tile are beyond them all. */
#define PEERS "fwd-f16-b1-h6k2-q70-k330-d40-causal all gpu=H200 sms=5 lay=padded"

#define WS(rest) "fwd_ws:Br128-Bc32-" rest
#define SPLIT    WS("s2-q1-Q0-I1-P1-L2-Z1-N2")
#define PACKED   WS("s2-q1-Q0-I1-P1-L2-Z1-N2-G1")
#define SHARED   WS("s2-q1-Q0-I1-P0-L2-Z1-M1")
#define SHARED_E WS("s2-q2-Q0-I1-P0-L2-Z1-E1-M1")

static const struct {
  const char *kernel, *line;
} schedules[] = {
    {WS("s2-q1-Q0-I1-P1-L0-Z1"), F16},
    {WS("s2-q2-Q1-I2-P1-L1-Z2"), BF16},
    {WS("s1-q1-Q0-I0-P0-L0-Z1"), F16},
    {WS("s2-q1-Q1-I2-P0-L0-Z1"), NO_KEYS},
    {WS("s2-q1-Q0-I2-P1-L0-Z1-S1"), F16},
    {WS("s2-q1-Q0-I1-P1-L2-Z1"), LARGE},
    {WS("s2-q1-Q0-I1-P1-L0-Z1-B1"), BIASED},
    {WS("s2-q2-Q0-I1-P1-L2-Z1-B1"), BIASED_ODD},
    {SPLIT, PARTS},
    {PACKED, PEERS},
};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

/* What is taken out. Not take_turn, whose turns shape the schedule alone, and
 * not registers_more, whose absence is slow at the worst. */
static const char *const names[] = {
    "wait",
    "release",
    "barrier_expect",
    "barrier_arrive",
    "barrier_init",
    "block_sync",
    "warp_sync",
    "copies_fence",
    "store_commit",
    "barrier_init_fence",
    "store_wait",
    "first_turn",
    "pass_turn",
    "products_fence",
    "products_commit",
    "products_wait<0>",
    "products_wait<1>",
    "registers_less<40>",
    "copy_box",
    "copy_tile",
    "copy_K",
    "copy_V",
    "store_box",
    "store_from",
    "store_zeros",
    "named_arrive",
    "pass_by",
    "put_task",
    "put4",
    "mask",
    "scale_rows",
    "stmatrix",
    "set_weights",
    "shrink",
    "produce_biases",
    "bring_biases",
    "put_biases",
};

static void every_call_is_missed(void **state)
{
  (void)state;
  for (unsigned i = 0; i < SCHEDULES; i++) {
    victim v = victim_of(schedules[i].kernel, schedules[i].line);
    take_out(&v, names, sizeof names / sizeof *names, emu_check_full(), is_found_out);
    victim_free(&v);
  }
  all_were_missed(30);
}

/* ---- other defects ---- */

#define WS_LIB  "templates/lib/ws.cuh"
#define RING    "templates/lib/ring.cuh"
#define SOFTMAX "templates/lib/softmax.cuh"
#define KERNEL  "templates/fwd_ws.cu"
#define BIASES  "fwd_ws:Br128-Bc80-s2-q1-Q0-I1-P1-L0-Z1-B1"
#define PLAIN   WS("s2-q1-Q0-I1-P1-L0-Z1")
#define COUNTED WS("s2-q2-Q0-I2-P1-L1-Z2")
/* P in shared memory: in turns; and with one box of it whole, one begun, no softmax beside the products. */
#define LAID WS("s2-q1-Q0-I2-P1-L0-Z1-S1")
/* No maximum sought; and with P in shared memory. */
#define LOOSE      WS("s2-q1-Q0-I1-P1-L2-Z1")
#define LOOSE_LAID WS("s2-q1-Q0-I2-P0-L2-Z1-S1")
/* The softmax in turns. */
#define SOFT  WS("s2-q1-Q0-I2-P2-L0-Z1")
#define BOXES "fwd_ws:Br128-Bc80-s2-q1-Q0-I0-P0-L0-Z1-S1"

/* The next tile of Q begins early. */
#define AHEAD "fwd_ws:Br128-Bc32-s3-q2-Q0-I1-P1-L2-Z2-E1"

#define BLOCKS "fwd-f16-b1-h2k1-q200-k300-d40-bs96x48 all gpu=H200 sms=3 lay=padded"
/* Warpgroups of a tile of Q see other tiles of keys. */
#define PIECES WS("s2-q2-Q0-I1-P0-L2-Z1")
#define APART  "fwd-f16-b1-h2-q256-k700-d40-bs64x32 all gpu=H200 sms=1"

#define USED "fwd-f16-b5-h2k1-q200-k300-d64-used all gpu=H200 sms=3 lay=padded"

static const defect defects[] = {
    /* splits of keys: which tiles they are, whose rows see them, which of them a block has, and where it
       leaves what it has */
    {SPLIT, "own.last - own.first, own.first};", "own.last - own.first, 0};", PARTS, WRONG, NULL, NULL},
    {SPLIT, "max(own.full - all.base, 0)", "all.last", PARTS, WRONG, NULL, NULL},
    {SPLIT, "block % splits", "0", PARTS, WRONG, NULL, NULL},
    {SPLIT, "to.O(my.split, first + i)", "to.O(0, first + i)", PARTS, WRONG, NULL, NULL},
    {SPLIT, "put4(task_place(x) + 8, my.split);", "", PARTS, WRONG, NULL, NULL},
    {SPLIT, "to.L(my.split, first)[", "to.L(0, first)[", PARTS, WRONG, NULL, NULL},
    {SPLIT, "lane % 8 ^ row % 8) * 4);", "lane % 8) * 4);", PARTS, WRONG, NULL, NULL},
    {SPLIT, "row < rows_here && column < Dv", "column < Dv", PARTS, WRONG, NULL, NULL},
    {SPLIT, "copies_fence();\n  warp_sync();\n}", "warp_sync();\n}", PARTS, EMU_UNFENCED, RING, "copy_box("},
    {PACKED, "(i64(i0) + 64 * me + r) * from.Qn", "(i64(i0) + r) * from.Qn", PEERS, WRONG, NULL, NULL},
    {PACKED, "(chunk % 8 ^ r % 8) * 16, x", "chunk % 8 * 16, x", PEERS, WRONG, NULL, NULL},
    {PACKED, "named_sync(1 + consumers + me, 128);", "", PEERS, EMU_RACE, "templates/lib/ws.cuh", "wgmma"},
    {PACKED, "is_there && ", "", PEERS, EMU_OUT_OF_BOUNDS, "templates/lib/ws_splits.cuh", "*(const quad *)"},
    {WS("s2-q1-Q1-I2-P0-L2-Z1-N2-G1"), "warp_sync(); // all lanes have read what",
     "// all lanes have read what", PEERS, EMU_RACE, "templates/lib/ws_splits.cuh", "*(float2 *)"},
    {SPLIT, "pass_behind(me, n, others, tiles == 0);", "", PARTS, EMU_DEADLOCK, RING, "barrier_passed("},
    /* biases: whose, of which keys, which chunk; all have read them when the next tile may come */
    {BIASES, "at.h, at.b, full);", "at.hk, at.b, full);", BIASED, WRONG, NULL, NULL},
    {WS("s2-q2-Q0-I1-P1-L2-Z1-B1"), "nth_tile(visit, x) * Bc, barrier_at(", "x * Bc, barrier_at(", BIASED,
     WRONG, NULL, NULL},
    /* tiles that two blocks copy half of each: whose rows, to whom, when both have read; whose rows of Q */
    {SHARED, "row + first, head", "row, head", TWOS, WRONG, NULL, NULL},
    {SHARED, "barrier_at(full), 3);", "barrier_at(full), 1 << own_rank());", TWOS, EMU_DEADLOCK, RING,
     "barrier_passed("},
    {SHARED, "peer_place(barrier_at(0), lane)", "peer_place(barrier_at(0), own_rank())", TWOS, EMU_RACE,
     "templates/lib/ws_cluster.cuh", "copy_box_to_all("},
    {SHARED_E, "  release_both(K_free + step_of<stages>(n).slot);",
     "  release(K_free + step_of<stages>(n).slot);", TWOS, EMU_DEADLOCK, RING, "barrier_passed("},
    {SHARED, "  release_both(V_free + at.slot);", "  release(V_free + at.slot);", TWOS, EMU_DEADLOCK, RING,
     "barrier_passed("},
    {SHARED, "O_map);\n  }\n  meet_other();", "O_map);\n  }", TWOS, EMU_MISUSE,
     "templates/lib/ws_cluster.cuh", "barrier_arrive_there("},
    {SHARED, "barrier_init_fence();\n  }\n  meet_other();", "barrier_init_fence();\n  }", TWOS, EMU_MISUSE,
     "templates/lib/ws_cluster.cuh", "copy_box_to_all("},
    {SHARED, "+ own_rank() * Br}", "}", TWOS, WRONG, NULL, NULL},
    {BIASES, "min(j + 2 * n + 1, nk - 1)", "min(j + 2 * n, nk - 1)", BIASED_ODD, WRONG, NULL, NULL},
    {BIASES, "(chunk % 8 ^ r % 8)", "chunk % 8", BIASED_ODD, WRONG, NULL, NULL},
    {BIASES, "i0 + r < at.nq ?", "true ?", BIASED_ODD, EMU_OUT_OF_BOUNDS, "templates/lib/bias_tiles.cuh",
     "row["},
    {BIASES, "(lane / 8 ^ lane % 8) * 16", "lane / 8 * 16", BIASED, WRONG, NULL, NULL},
    {BIASES, "k % 2 * 64", "0", BIASED, WRONG, NULL, NULL},
    /* masks, tiles, what a tile of Q is */
    {PLAIN, "keep(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf()", "S.at[r][c]", F16, WRONG, NULL,
     NULL},
    {PLAIN, "max(0, at.nk - behind)", "min(at.nk, max(0, at.nk + 1 - behind))", F16, WRONG, NULL, NULL},
    {PLAIN, "copy_tile<boxes, Bc>(K_place(K.slot), K_map, j0, at.hk, at.b, K_full + K.slot);",
     "copy_tile<boxes, Bc>(K_place(K.slot), K_map, j0, at.h, at.b, K_full + K.slot);", F16, WRONG, NULL,
     NULL},
    {PLAIN, "i0 + first", "i0", F16, WRONG, NULL, NULL},
    /* where a batch ends: what lies behind its keys, and behind its rows */
    {PLAIN, "clear_rows(V_place(V.slot), at.nk - j0);", ";", USED, WRONG, NULL, NULL},
    {PLAIN, "if (at.nq - i0 < Br)", "if (false)", USED, WRONG, NULL, NULL},
    /* block masks: a tile of the list left out, one with some of its blocks taken as whole */
    {PIECES, "to[1] = whole + cut;", "to[1] = max(whole + cut - 1, 0);", BLOCKS, WRONG, NULL, NULL},
    {PIECES, "return all ? all_blocks : some ? some_blocks : no_block;",
     "return some ? all_blocks : no_block;", BLOCKS, WRONG, NULL, NULL},
    /* whose rows see a tile, of whom a mask cuts it; a V that is awaited too long, one that is not awaited;
       what is told of a tile */
    {PIECES, "is_seen_by(entry, me)", "is_seen_by(entry, 0)", APART, WRONG, NULL, NULL},
    {PIECES, "is_cut_for(entry, me)", "is_cut_for(entry, 2)", BLOCKS, WRONG, NULL, NULL},
    {PIECES, "n - last >= stages", "n - last > stages", APART, EMU_DEADLOCK, RING, "barrier_passed("},
    {PIECES, "if (last >= 0)\n        last_step(x, last);", ";", APART, WRONG, NULL, NULL},
    {PIECES, "put4(entry_place(n), entry);", ";", APART, EMU_UNINITIALISED, "templates/lib/ws_lists.cuh",
     "get4("},
    {PIECES, "i0 + 64 * x, j * Bc", "i0, j * Bc", APART, WRONG, NULL, NULL},
    /* swizzles: of what is written, of what is read, and how many bytes lie
       from one row of 8 to the next */
    {PLAIN, "((n % 8 + lane / 16) ^ row % 8)", "(n % 8 + lane / 16)", F16, WRONG, NULL, NULL},
    {WS("s2-q2-Q1-I2-P1-L1-Z2"), "(x % 64 / 8 + lane / 16) ^ row % 8", "x % 64 / 8 + lane / 16", BF16, WRONG,
     NULL, NULL},
    {PLAIN, "stride >> 4 | 1u << 30", "stride >> 4", F16, EMU_MISUSE, WS_LIB, "wgmma<0>("},
    {PLAIN, "k / 4 * box_bytes<Acc::columns> + k % 4 * 32", "k / 4 * box_bytes<Acc::columns> + k % 4 * 16",
     F16, WRONG, NULL, NULL},
    {PLAIN, "box_bytes<16 * Left::steps>, 1024)", "box_bytes<16 * Left::steps>, 2048)", F16, EMU_RACE, WS_LIB,
     "wgmma<1>("},
    {COUNTED, "box_bytes<16 * Left::steps>, 1024)", "1024, 1024)", BF16, WRONG, NULL, NULL},
    {PLAIN, "(start + (bytes >> 4))", "start", F16, WRONG, NULL, NULL},
    /* products: what is added to, which operand, three warps of four */
    {PLAIN, ", k > 0)", ", true)", F16, WRONG, NULL, NULL},
    {PLAIN, "wgmma<1>(C.at, A.at(k), b.at(k * 2048), true);",
     "if (warp_of() % 4) wgmma<1>(C.at, A.at(k), b.at(k * 2048), true);", F16, EMU_MISSING_LANES, WS_LIB,
     "wgmma<1>("},
    {PLAIN, "wgmma<1>(C.at, A.at(k)", "wgmma<1>(C.at, A.at(0)", F16, WRONG, NULL, NULL},
    {PLAIN, "products_wait<1>()", "products_wait<2>()", F16, EMU_PRODUCT_REGISTERS, SOFTMAX, "S.at[r][c]"},
    /* P in shared memory: each thread's fence behind what it lays; the meeting of the four warps, of all and
       of no more; where it lies, swizzled, in how many boxes of one's own; laid again while the products that
       read the last one are under way */
    {LAID, "stmatrix((first ^ k % 4 * 32) + k / 4 * box_bytes<64>, a.at[0], a.at[1], a.at[2], a.at[3]);", ";",
     F16, EMU_UNINITIALISED, WS_LIB, "wgmma<1>("},
    {LAID, "  copies_fence();\n#line", "#line", F16, EMU_UNFENCED, WS_LIB, "wgmma<1>("},
    {LAID, "named_sync(1 + consumers + A.me, 128);", "", F16, EMU_RACE, WS_LIB, "wgmma<1>("},
    {LAID, "named_sync(1 + consumers + A.me, 128);", "warp_sync();", F16, EMU_RACE, WS_LIB, "wgmma<1>("},
    {BOXES, "named_sync(1 + consumers + A.me, 128);", "", F16, EMU_RACE, WS_LIB, "wgmma<1>("},
    {BOXES, "named_sync(1 + consumers + A.me, 128);", "named_sync(1 + consumers + A.me, 256);", F16,
     EMU_DEADLOCK, WS_LIB, "named_sync("},
    {LAID, "(lane / 16 ^ row % 8)", "(lane / 16)", F16, WRONG, NULL, NULL},
    {LAID, "rows.at(k / 4 * box_bytes<64> + k % 4 * 32)", "rows.at(k / 4 * box_bytes<64> + k % 4 * 16)", F16,
     WRONG, NULL, NULL},
    {BOXES, "rows.at(k / 4 * box_bytes<64> + k % 4 * 32)", "rows.at(k / 4 * box_bytes<32> + k % 4 * 32)", F16,
     WRONG, NULL, NULL},
    {LAID, "me * (P_boxes * box_bytes<64>)", "0 * (P_boxes * box_bytes<64>)", F16, EMU_RACE, WS_LIB,
     "stmatrix("},
    {BOXES, "me * (P_boxes * box_bytes<64>)", "me * (1 * box_bytes<64>)", F16, EMU_RACE, WS_LIB, "stmatrix("},
    {LAID, "products_wait<0>();                                   // O is there",
     "set_weights(x.P, x.S); products_wait<0>();", F16, EMU_RACE, WS_LIB, "stmatrix("},
    {BOXES, "start_ABt(x.S, Q, K_place(K.slot));                   // the next",
     "set_weights(x.P, x.S); start_ABt(x.S, Q, K_place(K.slot)); //", F16, EMU_RACE, WS_LIB, "stmatrix("},
    /* no maximum is sought: all lanes of a warp ask together whether weights outgrew one; what is done
       then, and only then, with S, O, P, l and m; what where not even their sums are finite */
    {LOOSE, "!(x.at[r] <= limit)", "false", LARGE, WRONG, NULL, NULL},
    {LOOSE, "any_lane(above(sums_of_P, 4096.f) || unset(x.m))", "(above(sums_of_P, 4096.f) || unset(x.m))",
     LARGE, EMU_DEADLOCK, RING, "barrier_passed("},
    {LOOSE, "!any_lane(above(sums_of_P, 1e30f) || unset(x.m))", "true", LARGE, WRONG, NULL, NULL},
    {LOOSE, "x.l = x.l + sums_of_P;", ";", F16, WRONG, NULL, NULL},
    {LOOSE, "warp_ABt<Dp>(x.S, Q_place(own), K_place(K.slot));", ";", LARGE, WRONG, NULL, NULL},
    {LOOSE, "  scale_rows(x.O, f);\n", "", LARGE, WRONG, NULL, NULL},
    {LOOSE, "  x.l = f * x.l;", "", LARGE, WRONG, NULL, NULL},
    {LOOSE, "      scale_rows(x.S, f);", "", RISING, WRONG, NULL, NULL},
    {LOOSE, "      sums_of_P = f * sums_of_P;", "", RISING, WRONG, NULL, NULL},
    {LOOSE, "lg2(v.at[r]) * ex2(-lg2(c))", "lg2(v.at[r])", RISING, WRONG, NULL, NULL},
    {LOOSE, "    set_weights(x.P, x.S);\n  }", "  }", LARGE, WRONG, NULL, NULL},
    {LOOSE, "set_weights(x.P, x.S);\n  //", "//", F16, WRONG, NULL, NULL},
    {LOOSE_LAID, "    set_weights(x.P, x.S);\n  }", "  }", LARGE, WRONG, NULL, NULL},
    {LOOSE_LAID, "set_weights(x.P, x.S);\n  //", "//", F16, WRONG, NULL, NULL},
    /* the same under a window: O shrinks when it is there, and all warps of a warpgroup wait for it at once
     */
    {LOOSE, "  if (seeks)\n    scale_rows(x.O, by);\n", "", WINDOW, WRONG, NULL, NULL},
    {LOOSE, "    by = move(x, row_max(x.m, x.S), c);",
     "    by = (products_wait<0>(), move(x, row_max(x.m, x.S), c));", WINDOW, EMU_MISUSE, WS_LIB, "wgmma"},
    {LOOSE, "    by = move(x, row_max(x.m, x.S), c);",
     "    scale_rows(x.O, by = move(x, row_max(x.m, x.S), c));", WINDOW, EMU_PRODUCT_REGISTERS, SOFTMAX,
     "O.at[r][c]"},
    /* the order of tiles, the same for who copies and who computes */
    {LOOSE, "n == 0 || n >= visit.full ? n : visit.full - n", "visit.last - 1 - n", F16, WRONG, NULL, NULL},
    {LOOSE, "nth_tile(visit, x) * Bc", "x * Bc", FULL, WRONG, NULL, NULL},
    /* who begins first lets the next one begin */
    {LOOSE_LAID, "  if (round == 0 && me < consumers - 1)\n    pass_turn(me);", "", F16, EMU_DEADLOCK, RING,
     "named_sync("},
    /* its exponentials in two halves: each column once; V goes only when O is there (the last tile of V is
       the one that waits for nothing else), as does the last P */
    {LOOSE, "exp2_columns<0, columns / 2>(x.S, x.m, c);", ";", F16, WRONG, NULL, NULL},
    {LOOSE, "exp2_columns<0, columns / 2>(x.S, x.m, c);", "exp2_columns<0, columns / 2 - 1>(x.S, x.m, c);",
     F16, WRONG, NULL, NULL},
    {LOOSE, "exp2_columns<columns / 2, columns>(x.S, x.m, c);", ";", F16, WRONG, NULL, NULL},
    {LOOSE, "exp2_columns<columns / 2, columns>(x.S, x.m, c);",
     "exp2_columns<columns / 2 - 1, columns>(x.S, x.m, c);", F16, WRONG, NULL, NULL},
    {LOOSE,
     "products_wait<0>();                                   // O is there\n"
     "  release(V_free + V.slot);\n#line",
     "release(V_free + V.slot);\n  products_wait<0>();\n#line", FULL, EMU_RACE, RING, "copy_box("},
    {LOOSE_LAID, "exp2_columns<0, columns / 2>(x.S, x.m, c);",
     "exp2_columns<0, columns / 2>(x.S, x.m, c); set_weights(x.P, x.S);", LARGE, EMU_RACE, WS_LIB,
     "stmatrix("},
    /* S again: whose rows of Q, which tile of K and until when; rows and columns of either, swizzled, in
       their boxes; which operand, added to what, for which columns of S */
    {LOOSE, "warp_ABt<Dp>(x.S, Q_place(own), K_place(K.slot));",
     "warp_ABt<Dp>(x.S, Q_place(0), K_place(K.slot));", LARGE, WRONG, NULL, NULL},
    {LOOSE, "warp_ABt<Dp>(x.S, Q_place(own), K_place(K.slot));",
     "warp_ABt<Dp>(x.S, Q_place(own), K_place(V.slot));", LARGE, EMU_RACE, WS_LIB, "ldmatrix("},
    {LOOSE, "exp2_columns<columns / 2, columns>(x.S, x.m, c);",
     "exp2_columns<columns / 2, columns>(x.S, x.m, c); release(K_free + K.slot);", LARGE, EMU_RACE, RING,
     "copy_box("},
    {LOOSE, "row = warp_of() % 4 * 16 + lane % 16;\n  return", "row = lane % 16;\n  return", LARGE, WRONG,
     NULL, NULL},
    {LOOSE, "own_rows(A, x)", "own_rows(A, 0)", LARGE, WRONG, NULL, NULL},
    {LOOSE, "(x % 64 / 8 + lane / 16) ^ row % 8", "x % 64 / 8 + lane / 16", LARGE, WRONG, NULL, NULL},
    {LOOSE, "place + x / 64 * box_bytes<64>", "place", LARGE_WIDE, WRONG, NULL, NULL},
    {LOOSE, "lane / 16 * 8 + lane % 8", "lane % 16", LARGE, WRONG, NULL, NULL},
    {LOOSE, "(j + row) * 128", "row * 128", LARGE, WRONG, NULL, NULL},
    {LOOSE, "x % 64 / 8 + lane / 8 % 2", "x % 64 / 8 + lane / 16", LARGE, WRONG, NULL, NULL},
    {LOOSE, "(x % 64 / 8 + lane / 8 % 2) ^ lane % 8", "x % 64 / 8 + lane / 8 % 2", LARGE, WRONG, NULL, NULL},
    {LOOSE, "B + x / 64 * box_bytes<Acc::columns>", "B", LARGE_WIDE, WRONG, NULL, NULL},
    {LOOSE, "B + x / 64 * box_bytes<Acc::columns>", "B + x / 64 * box_bytes<64>", LARGE_WIDE, EMU_RACE,
     WS_LIB, "ldmatrix("},
    {LOOSE, "b.at[2 * n], b.at[2 * n + 1]", "b.at[2 * n + 1], b.at[2 * n]", LARGE, WRONG, NULL, NULL},
    {LOOSE, "  C = {};", "  ", LARGE, WRONG, NULL, NULL},
    {LOOSE, "j / 4 + 2 * n", "j / 4", LARGE, WRONG, NULL, NULL},
    /* rings: who arrives, with how many bytes, in which phase, at which slot */
    {PLAIN, "x < K_free ? 4 : 4 * consumers", "x < K_free ? 3 : 4 * consumers", F16, EMU_RACE, WS_LIB,
     "stmatrix("},
    {PLAIN, "x < K_free ? 4 : 4 * consumers", "x < K_free ? 5 : 4 * consumers", F16, EMU_DEADLOCK, RING,
     "barrier_passed("},
    {PLAIN, "4 * consumers", "4 * consumers - 1", F16, EMU_RACE, RING, "copy_box("},
    {PLAIN, "4 * consumers", "4 * consumers + 1", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN, "if (thread_id() % 32 == 0)\n    barrier_arrive", "barrier_arrive", F16, EMU_DEADLOCK, RING,
     "barrier_passed("},
    {PLAIN, "barrier_expect(barrier_at(full), boxes_ * box_bytes<rows_>);",
     "barrier_expect(barrier_at(full), boxes_ * box_bytes<rows_> - 16);", F16, EMU_DEADLOCK, RING,
     "barrier_passed("},
    {PLAIN, "V.parity ^ 1", "V.parity", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN,
     "products_wait<0>();                                   // O is there\n  release(V_free + V.slot);",
     "release(V_free + V.slot);\n  products_wait<0>();", F16, EMU_RACE, RING, "copy_box("},
    {PLAIN, "u32(n) / slots % 2", "u32(n) % 2", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN, "K_place(K.slot)", "K_place(0)", F16, EMU_RACE, RING, "copy_box("},
    {PLAIN, "start_ABt(x.S, Q, K_place(K.slot));", "start_ABt(x.S, Q, K_place(0));", F16, EMU_RACE, WS_LIB,
     "wgmma<0>("},
    /* whose rows: each warpgroup has its own places, 64 rows of the tile, a barrier for its 4 warps, and the
       word of which tile they are */
    {PLAIN, "shfl_first(warp_of() / 4 - 1)", "shfl_first(warp_of() / 4 % 2)", F16, WRONG, NULL, NULL},
    {PLAIN, "shfl_first(warp_of() / 4 - 1)", "shfl_first(0)", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN, "my.i0 + 64 * x", "my.i0", F16, WRONG, NULL, NULL},
    {PLAIN, "store_from(Q_place(own), x.O, O_map, at, i0 + 64 * me);",
     "store_from(Q_place(own), x.O, O_map, at, i0);", F16, WRONG, NULL, NULL},
    {COUNTED, "Q.slot * consumers + x", "Q.slot + x", BF16, EMU_DEADLOCK, RING, "barrier_passed("},
    {COUNTED, "get_task(own)", "get_task(me)", BF16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN, "get4(task_place(x) + 4)", "get4(task_place(x))", F16, WRONG, NULL, NULL},
    {PLAIN, "last ? -1 : my.head", "my.head", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    /* which tiles they see, to the row: one too few is wrong, one too many is a tile that nobody copies */
    {PLAIN, "range<64>(a, at, i0 + 64 * me)", "range<64>(a, at, i0)", F16, WRONG, NULL, NULL},
    {PLAIN, "range<64>(a", "range<63>(a", LAST_ROW(301), WRONG, NULL, NULL},
    {PLAIN, "range<64>(a", "range<65>(a", LAST_ROW(332), EMU_DEADLOCK, RING, "barrier_passed("},
    /* tiles that others see: how many, in which slots, with a turn for each but the first */
    {PLAIN, "range(a, at, my.i0)", "range<64>(a, at, my.i0)", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN, "x < count; x++, n++", "x < count; x++", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN, "> at(n);", "> at(0);", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {PLAIN, "x > 0 || !all", "true", F16, EMU_DEADLOCK, RING, "named_sync("},
    {PLAIN, "take_turn(me);\n      pass", "pass", F16, EMU_DEADLOCK, RING, "named_sync("},
    {SOFT, "take_turn(me);\n      pass", "pass", F16, EMU_DEADLOCK, RING, "named_sync("},
    {SOFT, "pass_turn(me);\n#line", "\n#line", F16, EMU_DEADLOCK, RING, "named_sync("},
    {SOFT, "  first_turn(me);", "", F16, EMU_DEADLOCK, RING, "named_sync("},
    /* O is stored: the fence behind the barrier, by one lane for all; before
       the rows are there */
    {PLAIN, "copies_fence();\n  warp_sync();", "warp_sync();\n  copies_fence();", F16, EMU_UNFENCED, WS_LIB,
     "store_box("},
    {PLAIN, "to, 64 * x, i0 + first", "to, 64 * x + 64, i0 + first", F16, WRONG, NULL, NULL},
    /* slices of V: which columns are read, which are written, whose word on the LSE counts */
    {PLAIN, "head % slices * Dv", "0", SLICED, EMU_RACE, WS_LIB, "store_box("},
    {PLAIN, "V_full + V.slot, at.v0", "V_full + V.slot", SLICED, WRONG, NULL, NULL},
    {PLAIN, "at.v0 + 64 * x", "64 * x", SLICED, EMU_RACE, WS_LIB, "store_box("},
    {PLAIN, "a.LSE.data && at.v0 == 0", "a.LSE.data != nullptr", SLICED, EMU_RACE, SOFTMAX, "to[i64(i0)"},
    /* a counter that is no longer changed as one; registers that are not there
     */
    {COUNTED, "atomic_add(counter, 1)", "((*counter)++)", BF16, EMU_RACE, RING, "(*counter)++"},
    /* the next tile of Q: which, whose place, how many there are, what runs while O is stored */
    {AHEAD, "start_first(x, next, then.parity, n);", "start_first(x, own, then.parity, n);", F16, EMU_RACE,
     WS_LIB, "stmatrix("},
    {AHEAD, "last ? ~my.head : my.head", "my.head", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {AHEAD, "all.last = max(1, all.last);", "", NO_KEYS, EMU_DEADLOCK, RING, "barrier_passed("},
    {AHEAD, "products_wait<1>();                                 // O is there", "", F16,
     EMU_PRODUCT_REGISTERS, SOFTMAX, "O.at[r][c] *="},
    {PLAIN, "registers_more<232>();", "registers_more<240>();", F16, EMU_MISUSE, KERNEL, ""},
};

static void every_defect_is_found(void **state)
{
  (void)state;
  defects_are_found(defects, sizeof defects / sizeof *defects);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_call_is_missed),
      cmocka_unit_test(every_defect_is_found),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
