/* test_bites_ws_bwd.c -- the emulator bites the backward kernels for warpgroups: each is spoiled in one place
 * after another, and each must be found.
 *
 * Every wait, release, fence, copy and commit is taken out in turn: a finding of any kind counts, a block in
 * which nobody can go on, or a wrong result. Of a line that is rendered twice the second one is for
 * FATUNE_FULL=1. A table holds other defects (bites.h says how). */
#include "bites_calls.h"
#include "bites_defects.h"

/* Several tiles of either side, heads that share keys, tiles that no mask touches and cut ones. */
#define F16  "bwd-f16-b1-h2k1-q300-k330-d64-causal all gpu=H200 sms=2 lay=padded"
#define BF16 "bwd-bf16-b1-h2k1-q200-k300-d128-causal all gpu=H200 sms=2 lay=padded"
#define WIDE "bwd-bf16-b1-h2k1-q200-k150-d192-causal all gpu=H200 sms=2 lay=padded"
/* Sums of four blocks in order. */
#define DET "bwd-f16-b1-h1-q130-k500-d64-det all gpu=H200 sms=4"
/* And under a causal mask; and of blocks that stay. */
#define CUT_DET  "bwd-f16-b1-h1-q370-k500-d64-causal-det all gpu=H200 sms=4"
#define STAY_DET "bwd-f16-b1-h1-q130-k700-d64-det all gpu=H200 sms=4"
/* Of these some rows see no key; and there is one tile of keys. */
#define FEW_DET  "bwd-f16-b1-h2k1-q436-k308-d64-causal-det all gpu=H200 sms=3 lay=padded"
#define ONCE_DET "bwd-f16-b1-h2k1-q436-k100-d64-causal-det all gpu=H200 sms=3 lay=padded"
#define WIDE_DET "bwd-bf16-b1-h1-q70-k250-d192-det all gpu=H200 sms=4"
#define PAIR_DET "bwd-bf16-b1-h1-q70-k450-d192-det all gpu=H200 sms=8"
/* The second head goes the other way: the first keys first, each from the last rows on; under a window; by
 * pairs, with rows that see no key. */
#define BOTH_DET   "bwd-f16-b1-h2-q370-k500-d64-causal-det all gpu=H200 sms=2"
#define BAND_DET   "bwd-f16-b1-h2-q370-k500-d64-causal-w150.0-det all gpu=H200 sms=2"
#define PAIRS_DET  "bwd-bf16-b2-h1-q200-k300-d192-causal-det all gpu=H200 sms=8"
#define UNSEEN_DET "bwd-bf16-b2-h1-q200-k100-d192-causal-det all gpu=H200 sms=4"
/* Batches of lengths of their own: with others behind them, and with what is no number. */
#define RAGGED "bwd-f16-b4-h2k1-q200-k230-d64-varlen all gpu=H200 sms=2 lay=padded"
#define USED   "bwd-f16-b4-h2-q200-k230-d64-used all gpu=H200 sms=2 lay=padded"

#define ROWS        "bwd_ws:Br128-Bc128-s2-t2-S0-R0-Z1"
#define HELD        "bwd_ws:Br64-Bc128-s2-t2-S1-R1-Z1"
#define COLUMNS     "bwd_ws:Br64-Bc128-s2-t2-S1-R0-Z1"
#define OWN         "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-H1"
#define STAY        "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-E1-H2"
#define EARLY       "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-E2-H2"
#define KEPT        "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-K1"
#define LAID        "bwd_ws:Br128-Bc128-s2-t2-S0-R1-Z1-T1"
#define ROUNDED     "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-H2-T2"
#define LAST_FIRST  "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-H2-T3"
#define BOTH_ENDS   "bwd_ws:Br64-Bc128-s2-t2-S1-R1-Z1-T3"
#define COMERS      "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-H2-T4"
#define SLICES      "bwd_ws:Br80-Bc128-s2-t2-S0-R1-Z1-O1-E1"
#define PARTED      "bwd_ws:Br64-Bc128-s2-t2-S1-R1-Z1-G2"
#define PARTED_PAIR "bwd_pair:Br64-s2-o2-t2-Z1-G2"
#define FEW         "bwd-f16-b2-h1-q436-k308-d64-causal all gpu=H200 sms=1 lay=padded"
/* Tiles of keys of one step: one is drawn while the one before the last is being done. */
#define SHORT "bwd-f16-b2-h1-q50-k308-d64-causal all gpu=H200 sms=1 lay=padded"
/* Two of them: that no more are there is said while the first one is being done. */
#define PAIR "bwd-f16-b2-h1-q50-k128-d64-causal all gpu=H200 sms=1 lay=padded"
/* Three heads on one of K and V: the second block of the first tile of keys begins amid a head; the second
 * tile, of three steps, is not parted. And of batches of their own lengths. */
#define GROUP      "bwd-f16-b2-h3k1-q70-k130-d64-causal all gpu=H200 sms=4 lay=padded"
#define GROUPS     "bwd-f16-b6-h6k2-q250-k250-d64-causal-varlen all gpu=H200 sms=4 lay=padded"
#define GROUP_WIDE "bwd-bf16-b1-h3k1-q70-k150-d192 all gpu=H200 sms=4"
/* Tiles that a mask cuts on both sides. */
#define WINDOW "bwd-f16-b1-h1-q150-k150-d64-w40.30 all gpu=H200 sms=1 lay=padded"
/* Ragged batches of a causal mask; and with tiles of keys that no row sees. */
#define LINED  "bwd-f16-b4-h2k1-q200-k230-d64-causal-varlen all gpu=H200 sms=2 lay=padded"
#define UNSEEN "bwd-f16-b6-h1-q90-k390-d64-w40.0-varlen all gpu=H200 sms=2"
/* Biases that copies read, and those that they cannot. */
#define BIASED     "bwd-f16-b1-h2k1-q170-k200-d128-causal-bias all gpu=H200 sms=2"
#define BIASED_ODD "bwd-f16-b1-h2k1-q150-k200-d128-causal-bias all gpu=H200 sms=2 lay=padded"
#define BIASES     "bwd_ws:Br80-Bc128-s2-t2-S0-R1-Z1-O1-B1"
#define HALVES     "bwd_wide:Br64-s2-t2-Z1"
/* Of the second pair one block has no keys, and all the same makes its part of dQ. */
#define COUPLE "bwd_pair:Br64-s2-o1-t2-Z1"
#define SHARED "bwd_pair:Br64-s2-o1-t2-Z1-M1"
/* One pair, which does two of three tiles of keys one after another, then the one in the middle. */
#define STAYED "bwd_pair:Br64-s2-o2-t2-Z1-H2"
#define THREE  "bwd-bf16-b1-h1-q100-k300-d192-causal all gpu=H200 sms=2"
/* Three pairs, the first of which lays dQ down, the last rounds it; and tiles of rows that see no key. */
#define SETTLED   "bwd_pair:Br64-s2-o1-t2-Z1-T2"
#define PAIRED    "bwd-bf16-b1-h1-q200-k300-d192-causal all gpu=H200 sms=6"
#define SIGHTLESS "bwd-bf16-b1-h1-q200-k100-d192-causal all gpu=H200 sms=2"
#define ABREAST   "bwd-bf16-b1-h1-q130-k500-d192 all gpu=H200 sms=8"

static const struct {
  const char *kernel, *line;
} schedules[] = {{ROWS, F16},    {HELD, F16},     {COLUMNS, BF16},  {OWN, FEW},          {STAY, SHORT},
                 {STAY, PAIR},   {STAY, LINED},   {STAY, WINDOW},   {SLICES, BF16},      {HALVES, WIDE},
                 {COUPLE, WIDE}, {STAYED, THREE}, {BIASES, BIASED}, {BIASES, BIASED_ODD}};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

/* Without an order. */
#define LOOSE       "bwd-f16-b1-h1-q130-k500-d64 all gpu=H200 sms=4"
#define LOOSE_HEADS "bwd-f16-b1-h2k1-q130-k500-d64 all gpu=H200 sms=4"
#define LOOSE_CUT   "bwd-f16-b2-h1-q300-k300-d64-causal all gpu=H200 sms=4"
/* The second warpgroup has but half the columns of dQ. */
#define PARTIAL "bwd-bf16-b1-h1-q130-k150-d96 all gpu=H200 sms=2"

/* What is taken out. Not await_start and give_start, which shape the schedule alone. Nor await_last, of which
 * most warps learn from those that copy: the table has the others. Nor products_fence: the registers of dQ
 * and dP are new ones in the emulator, which the hardware has used before. */
static const char *const names[] = {
    "wait",
    "release",
    "release_Q",
    "barrier_expect",
    "barrier_init",
    "block_sync",
    "copies_fence",
    "store_commit",
    "barrier_init_fence",
    "products_commit",
    "products_wait<0>",
    "products_wait<1>",
    "products_wait<2>",
    "registers_less<24>",
    "copy_box",
    "copy_bulk",
    "copy_tile",
    "copy_keys<boxes>",
    "copy_keys<V_boxes>",
    "bring_Q",
    "bring_dO",
    "store_box",
    "store_from",
    "store_scaled",
    "reduce_bulk",
    "reduce_add4",
    "stmatrix_trans",
    "lay_dS",
    "show_dS",
    "start_AB",
    "start_slices",
    "start_S",
    "start_dP",
    "start_dQ",
    "end_dQ",
    "end_half",
    "start_pair_dQ",
    "end_quarter",
    "last_quarter",
    "lend_P",
    "take_lent_P",
    "show_both",
    "meet_other",
    "copy_there",
    "barrier_arrive_there",
    "copy_pair_keys<boxes>",
    "add_to_sums",
    "last_dQ",
    "mask_rows",
    "exp2_minus_LSE",
    "set_P",
    "set_dS",
    "minus_D_times",
    "hand_P",
    "take_P",
    "await_full",
    "await_keys",
    "leave_keys",
    "store_dK",
    "store_dV",
    "tell_keys",
    "barrier_arrive",
    "end_stores",
    "settle_dQ",
    "settle_unseen",
    "give_part",
    "take_sums",
    "store_whole",
    "clear_sums",
    "make_LD",
    "bring_all_biases",
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

#define STEPS      "templates/lib/ws_grad_steps.cuh"
#define PARTS      "templates/lib/ws_parts.cuh"
#define SUMS       "templates/lib/ws_sums.cuh"
#define TURNS      "templates/lib/ws_turns.cuh"
#define FIRST_COME "templates/lib/ws_comers.cuh"
#define PAIRS      "templates/lib/ws_pairs.cuh"
#define RING       "templates/lib/ring.cuh"
#define GRAD       "templates/lib/ws_grad.cuh"
#define STAYS      "templates/lib/ws_stays.cuh"
#define SETTLES    "templates/lib/ws_settle.cuh"
#define WS         "templates/lib/ws.cuh"
#define TAILS      "templates/lib/ws_tails.cuh"
#define TOLD       "templates/lib/ws_steps_told.cuh"

/* Blocks that are there or not, of which some keys see none. */
#define SPARSE "bwd-f16-b1-h4k2-q150-k700-d64-bs64x128 all gpu=H200 sms=2"

static const defect defects[] = {
    /* lists of blocks that stay: keys that no row sees, tiles that a mask cuts, whose head; rows that are
       told, and those of a tail */
    {STAY, "if (list.whole + list.cut == 0)", "if (false)", SPARSE, WRONG, NULL, NULL},
    {STAY, "u32(from.steps), u32(from.visit.whole)", "u32(from.steps), u32(from.visit.last)",
     "bwd-f16-b1-h2-q150-k300-d64-bs48x128 all gpu=H200 sms=2", WRONG, NULL, NULL},
    {STAY, "  my.h += more;", "  ;", SPARSE, WRONG, NULL, NULL},
    {STAY, "at.nq = i32(x.at[1]);", "at.nq = at.nk;", LINED, WRONG, NULL, NULL},
    {STAY, "(chunk % 8 ^ row % 8) * 16)", "chunk % 8 * 16)", LINED, WRONG, NULL, NULL},
    /* masks: transposed, of the right rows and keys */
    {ROWS, "j0 + Acc::row(r)", "j0", F16, WRONG, NULL, NULL},
    {ROWS, "by.lo - i0 - Acc::column(0)", "by.lo - Acc::column(0)", F16, WRONG, NULL, NULL},
    {ROWS, "c / 2 * 8 + c % 2 >= first", "c / 2 * 8 >= first", F16, WRONG, NULL, NULL},
    /* biases: of which head, rows and keys, turned; what of 32 rows a tile lacks */
    {BIASES, "at.h, at.b, full);", "at.hk, at.b, full);", BIASED, WRONG, NULL, NULL},
    {BIASES, "at.of, at.i0, my.j0, barrier_at(", "at.of, at.i0, 0, barrier_at(", BIASED, WRONG, NULL, NULL},
    {BIASES, "own / 64 * box_bytes<Br>", "0", BIASED, WRONG, NULL, NULL},
    {BIASES, "first ^ r * 16", "first", BIASED, WRONG, NULL, NULL},
    {BIASES, "beyond ? 2048 : 0", "0", BIASED, EMU_RACE, "templates/lib/bias_tiles.cuh", "ldmatrix_trans("},
    /* LSE and D: whose, of which rows, which of the two */
    {ROWS, "LD_all + i64(number) * Br", "LD_all", F16, WRONG, NULL, NULL},
    {HELD, "i % 8 / 2 * 4 + i / 8 % 2 * 2", "i % 8 / 2 * 2 + i / 8 % 2 * 8", F16, WRONG, NULL, NULL},
    {HELD, "at[x] = LD.D(4 * x)", "at[x] = LD.LSE(4 * x)", F16, WRONG, NULL, NULL},
    /* dS: of whom, where, turned, fenced; while the last one is still read */
    {ROWS, "me * box_bytes<Br> + row * 128", "row * 128", F16, EMU_RACE, STEPS, "stmatrix_trans("},
    {ROWS, "(chunk ^ row % 8)", "chunk", F16, WRONG, NULL, NULL},
    {HELD, "lane / 16 * 8 + lane % 8, chunk", "lane % 16, chunk", F16, WRONG, NULL, NULL},
    {HELD, "copies_fence();\n  warp_sync();\n  release(dS_full", "warp_sync();\n  release(dS_full", F16,
     EMU_UNFENCED, SUMS, "wgmma<1>("},
    {ROWS, "wait(dS_free + to.slot, to.parity ^ 1);", "", F16, EMU_RACE, SUMS, "wgmma<1>("},
    {COLUMNS, "await_full(dS_full, dS_place_of(n), is_here);", "", BF16, EMU_RACE, SUMS, "wgmma<1>("},
    /* dQ: of which rows, which columns, whose turn, of which step; added to which tile's sums, all of it */
    {ROWS, "64 * me_", "0", F16, WRONG, NULL, NULL},
    {COLUMNS, "me_ * width", "0", BF16, WRONG, NULL, NULL},
    {COLUMNS, "number >= 0", "true", BF16, EMU_OUT_OF_BOUNDS, SUMS, "reduce_bulk("},
    {ROWS, "last_tile = of.number();", "", F16, WRONG, NULL, NULL},
    {ROWS, "place, dQ_part::C / 2 * 512);", "place, dQ_part::C / 2 * 256);", F16, WRONG, NULL, NULL},
    {ROWS, "if (lane == 0)\n    store_wait(); // the last have been read", "", F16, EMU_RACE, SUMS, "put16("},
    {ROWS, "copies_fence();\n  warp_sync();\n  release(dS_full", "warp_sync();\n  release(dS_full", F16,
     EMU_UNFENCED, SUMS, "reduce_bulk("},
    {HELD, "reduce_add4(to + (c / 2 * 32 + thread_id() % 32) * 4", "reduce_add4(to + c / 2 * 128", F16, WRONG,
     NULL, NULL},
    {HALVES, "column = group * first", "column = 0", WIDE, WRONG, NULL, NULL},
    /* a tile of Q that is free before the next S starts: the product that read it is awaited; of sums at one
     * address each thread has its own */
    {EARLY, "  products_wait<0>();\n  release_Q(n - 1);\n", "  release_Q(n - 1);\n", F16, EMU_RACE, RING,
     "copy_box("},
    {EARLY, "own = to + thread_id() % 32 * 4", "own = to", F16, WRONG, NULL, NULL},
    /* of a pair: whose dS and K is where, and which columns each makes; who waits for whom */
    {COUPLE, "64 + own_rank() * width", "64", WIDE, WRONG, NULL, NULL},
    {COUPLE, "b(own_rank() == 0 ? own : other", "b(true ? own : other", WIDE, WRONG, NULL, NULL},
    {COUPLE, "j0 ^ 64", "j0", WIDE, WRONG, NULL, NULL},
    {COUPLE, "my.j0 += 64 * own_rank();", "", WIDE, WRONG, NULL, NULL},
    {COUPLE, "barrier_arrive_there(peer_place(free, 1 - own_rank()))", "barrier_arrive(free)", WIDE, EMU_RACE,
     PAIRS, "copy_there("},
    {COUPLE, "copy_there(peer_place(mine, other)", "copy_there(peer_place(mine, 1 - other)", WIDE, EMU_MISUSE,
     PAIRS, "copy_there("},
    {COUPLE, "  copies_fence();\n  named_sync(2, 128);", "  named_sync(2, 128);", WIDE, EMU_UNFENCED, PAIRS,
     "copy_there("},
    {COUPLE, "  copies_fence();\n  named_sync(2, 128);", "  copies_fence();", WIDE, EMU_RACE, PAIRS,
     "copy_there("},
    {COUPLE, "  named_sync(2, 128);\n}", "}", WIDE, EMU_RACE, PAIRS, "get16("},
    /* of a pair that stays: which tiles it does */
    {STAYED, "number % some * 2 + 1 == tiles", "false", THREE, WRONG, NULL, NULL},
    {STAYED, "tiles - 1 - number % some", "number % some", THREE, WRONG, NULL, NULL},
    {STAYED, "from.before + from.steps, round", "from.before, round", THREE, EMU_RACE, RING, "copy_box("},
    /* of tiles that both copy: whose rows, to whom, when both have read */
    {SHARED, "row + first, head", "row, head", WIDE, WRONG, NULL, NULL},
    {SHARED, "barrier_at(full), 3);", "barrier_at(full), 1 << own_rank());", WIDE, EMU_DEADLOCK, RING,
     "barrier_passed("},
    {SHARED, "  release_both(dO_free", "  release(dO_free", WIDE, EMU_DEADLOCK, RING, "barrier_passed("},
    {SHARED, "peer_place(barrier_at(0), lane)", "peer_place(barrier_at(0), own_rank())", WIDE, EMU_RACE,
     "templates/lib/ws_cluster.cuh", "copy_box_to_all("},
    /* of a pair that comes first or last at a tile of Q: both of its blocks do */
    {SETTLED, "my.j0 < Bc", "my.j0 == 0", PAIRED, EMU_UNINITIALISED, SUMS, "reduce_add4("},
    {SETTLED, "my.j0 / Bc * Bc + Bc", "my.j0 + Bc", PAIRED, WRONG, NULL, NULL},
    {SETTLED, "wait(turn + at.slot * sharers + Share::which, at.parity);", "", ABREAST, EMU_RACE, SUMS,
     "reduce_add4("},
    {SETTLED, "if (count != nullptr) count_up(count);", "", PAIRED, EMU_DEADLOCK, TURNS, "await_reached("},
    {SETTLED, "settle_unseen(own, from);", "", SIGHTLESS, WRONG, NULL, NULL},
    /* dQ^T: of which columns of K; turned back */
    {SLICES, "K_of(0) + my.column / 64 * box_bytes<64>", "K_of(0)", BF16, WRONG, NULL, NULL},
    {SLICES, "+ (chunk ^ row % 8) * 16, x[0]", "+ chunk * 16, x[0]", BF16, WRONG, NULL, NULL},
    {SLICES, "copies_fence();\n  block_sync();", "block_sync();", BF16, EMU_UNFENCED, SUMS, "store_box("},
    {SLICES, "copies_fence();\n  block_sync();", "copies_fence();", BF16, EMU_RACE, SUMS, "store_box("},
    /* turns: each is given, each is passed on */
    {HELD, "barrier_arrive(barrier_at(let));", "", DET, EMU_DEADLOCK, RING, "barrier_passed("},
    {HELD, "release(added + at.slot * sharers + which);", "", DET, EMU_DEADLOCK, RING, "barrier_passed("},
    {HELD, "copies_fence(); // a copy writes there next", "", DET, EMU_UNFENCED, GRAD, "copy_bulk("},
    {COUPLE, "copies_fence(); // a copy writes there next", "", PAIR_DET, EMU_UNFENCED, GRAD, "copy_bulk("},
    {HELD, "count_up(count);", "", DET, EMU_DEADLOCK, TURNS, "await_count("},
    {STAY, "count_up(count);", "", STAY_DET, EMU_DEADLOCK, TURNS, "await_count("},
    {STAY, "(ceil_div(a.k, Bc) - 1 - mine.nth)", "mine.nth", STAY_DET, EMU_DEADLOCK, TURNS, "await_count("},
    {HELD, "range(a, at, tile * Br).last", "range(a, at, tile * Br).full", CUT_DET, EMU_DEADLOCK, TURNS,
     "await_count("},
    {STAY, "barrier_arrive(barrier_at(let));", "", STAY_DET, EMU_DEADLOCK, RING, "barrier_passed("},
    {HELD, "(reversed ? mine.nth : ceil_div(a.k, Bc) - 1 - mine.nth)", "(ceil_div(a.k, Bc) - 1 - mine.nth)",
     BOTH_DET, EMU_DEADLOCK, TURNS, "await_count("},
    {HELD, "my.reversed ? tiles_ahead(a, at, my, of.row_tile()) : ", "", BOTH_DET, EMU_DEADLOCK, TURNS,
     "await_count("},
    {HELD, "my.j0 / Bc - range(a, at, tile * Br).first", "my.j0 / Bc", BAND_DET, EMU_DEADLOCK, TURNS,
     "await_count("},
    {HELD, "(tile ^ tile >> 31)", "tile", BOTH_DET, EMU_DEADLOCK, RING, "barrier_passed("},
    /* of sums that nobody has cleared: who lays them down, who rounds them, and what no key reaches */
    {LAID, "i32(u32(number) % u32(tiles)) < ended", "false", CUT_DET, EMU_UNINITIALISED, SUMS,
     "reduce_add4("},
    {LAID, "i32(u32(number) % u32(tiles)) < ended", "i32(u32(number) % u32(tiles)) <= ended", CUT_DET, WRONG,
     NULL, NULL},
    {LAID, "reversed ? is_first : ", "", BOTH_DET, EMU_UNINITIALISED, SUMS, "reduce_add4("},
    {SETTLED, "my.reversed ? tile >= my.ended : !my.is_first", "!my.is_first", PAIRS_DET, WRONG, NULL, NULL},
    {SETTLED, "my.reversed ? !my.is_first : tile >= my.ended", "tile >= my.ended", PAIRS_DET, WRONG, NULL,
     NULL},
    {SETTLED, "my.reversed ? -from.visit.last : from.visit.first", "from.visit.first", UNSEEN_DET, WRONG,
     NULL, NULL},
    {LAID, "if (has_keys)", "if (true)", FEW_DET, EMU_UNINITIALISED, SUMS, "= from["},
    {ROUNDED, "my.j0 + Bc).first : tiles;", "my.j0).first : tiles;", FEW_DET, WRONG, NULL, NULL},
    {ROUNDED, "settle_unseen(share, own.from);", "", ONCE_DET, WRONG, NULL, NULL},
    {ROUNDED, "settle_unseen(share, from);", "", FEW_DET, WRONG, NULL, NULL},
    {ROUNDED, "wait(turn + at.slot * sharers, at.parity);", "", FEW_DET, EMU_UNINITIALISED, SUMS,
     "reduce_add4("},
    /* the same without an order: all wait for the first, the last for all. That the last waits for more than
     * the first is not seen here: it is drawn last, and comes last in each order of running */
    {ROUNDED, "wait(turn + at.slot * sharers, at.parity);", "", LOOSE, EMU_UNINITIALISED, SUMS,
     "reduce_add4("},
    {ROUNDED, "of.tile < ended ? my.j0 / Bc : my.j0 > 0", "of.tile < ended ? my.j0 / Bc : 0", LOOSE,
     EMU_UNINITIALISED, SUMS, "reduce_add4("},
    {ROUNDED, "if (count != nullptr) count_up(count);", "", LOOSE, EMU_DEADLOCK, TURNS, "await_reached("},
    {LAST_FIRST, "comes_last ? all : min(all, 1)", "comes_last ? all : 0", LOOSE_CUT, EMU_UNINITIALISED, SUMS,
     "reduce_add4("},
    {LAST_FIRST, "comes_last = my.j0 < Bc", "comes_last = my.j0 >= Bc", LOOSE_CUT, EMU_DEADLOCK, TURNS,
     "await_reached("},
    {BOTH_ENDS, "my.reversed ? tiles_behind(a, at, my, of.row_tile()) == 0 : my.j0 < Bc", "my.j0 < Bc",
     LOOSE_CUT, EMU_DEADLOCK, TURNS, "await_reached("},
    /* whoever comes first lays dQ down, and whoever comes last rounds it */
    {COMERS, "wait(turn + at.slot, at.parity);", "", LOOSE, EMU_UNINITIALISED, FIRST_COME, "get16("},
    {COMERS, "before < others ? min(before, 1) : others", "before < others ? 0 : others", LOOSE,
     EMU_UNINITIALISED, SUMS, "reduce_add4("},
    {COMERS, "before < others ? min(before, 1) : others", "min(before, 1)", LOOSE, EMU_RACE, SUMS,
     "reduce_add4("},
    {COMERS, "count_up(counts + tile, one_done);", "", LOOSE, EMU_DEADLOCK, FIRST_COME, "await_reached("},
    {COMERS, "before < others ? u32(tile) : u32(-1)", "u32(-1)", LOOSE, EMU_DEADLOCK, FIRST_COME,
     "await_reached("},
    {COMERS, "u32(before > 0)", "0u", LOOSE_CUT, WRONG, NULL, NULL},
    {COMERS, "seen.last - seen.first - 1", "seen.last - seen.first", LOOSE_CUT, WRONG, NULL, NULL},
    {COMERS, "clear_unseen(a, rows(a", "if (false) clear_unseen(a, rows(a", FEW, WRONG, NULL, NULL},
    {COMERS, "if (tile == from.opening)", "if (tile == from.visit.first)", LOOSE_HEADS, WRONG, NULL, NULL},
    /* of columns that K has not */
    {HELD, "min(width, Ds - column)", "width", PARTIAL, EMU_OUT_OF_BOUNDS, SUMS, "reduce_add4("},
    /* parted tiles: which steps a block has, whose sums are laid where, and who adds them up, when */
    {PARTED, "from.head += before / tiles;", "", GROUP, WRONG, NULL, NULL},
    {PARTED, "from.first += before % tiles;", "", GROUP, WRONG, NULL, NULL},
    {PARTED, "all * (my.part + 1) / from.blocks", "all * my.part / from.blocks", GROUP, WRONG, NULL, NULL},
    {PARTED, "if (my.part < from.blocks)\n    return true;", "return true;", GROUP, WRONG, NULL, NULL},
    {PARTED, "number = first_number(a, head);", "number = first_number(a, my.head);", GROUPS, WRONG, NULL,
     NULL},
    {PARTED, "mine.head / parts * keys.all + mine.nth", "mine.nth", GROUPS, EMU_RACE, SUMS,
     "sums[c / 2 * 32] ="},
    {PARTED, "x < blocks; x++, from", "x < blocks - 1; x++, from", GROUP, WRONG, NULL, NULL},
    {PARTED, "of_all_blocks(dV, first + 16 * D, step", "of_all_blocks(dV, first, step", GROUP, WRONG, NULL,
     NULL},
    {PARTED, "* warps + warp_of() - 4, step", "* warps, step", GROUP, EMU_RACE, SUMS, "sums[c / 2 * 32] ="},
    {PARTED, "ends[x] = {0, 0};", "", GROUP, EMU_UNINITIALISED, PARTS, "atomic_add("},
    {PARTED, "await_count(&all_ends[number].laid, from.blocks);", "", GROUP, EMU_RACE, PARTS,
     "const quad part"},
    {PARTED, "count_up(&all_ends[number].laid);", "", GROUP, EMU_DEADLOCK, PARTS, "await_count("},
    {PARTED_PAIR, "own_rank() * 4 + warp_of() % 4", "warp_of() % 4", GROUP_WIDE, EMU_RACE, SUMS,
     "sums[c / 2 * 32] ="},
    {PARTED_PAIR, "2 * number + is_V", "number", GROUP_WIDE, WRONG, NULL, NULL},
    {PARTED_PAIR, "(is_V ? 16 * D : 0)", "0", GROUP_WIDE, EMU_RACE, SUMS, "sums[c / 2 * 32] ="},
    /* dK takes the place of K only when nobody reads that any more */
    {ROWS, "named_sync(1, 128 * consumers);", "", F16, EMU_RACE, WS, "stmatrix("},
    /* rings: who arrives, at which slot, in which phase; a tile given back before dK has been made of it */
    {ROWS, "x < dO_full ? 2 : ", "x < dO_full ? 1 : ", F16, EMU_DEADLOCK, RING, "barrier_passed("},
    {ROWS, "Q_place_of(n).slot * LD_tile::bytes", "0 * LD_tile::bytes", F16, EMU_RACE, GRAD, "copy_bulk("},
    {HALVES, "(k * 128 + thread_id() % 128) * 16", "(k * 128 + thread_id() % 64) * 16", WIDE, EMU_RACE, STEPS,
     "put16("},
    /* sums of a block's own: begun, and ended; tiles of keys that come while the last ones are read */
    {OWN, "!my.is_first", "true", F16, EMU_UNINITIALISED, SETTLES, "sums[c / 2 * 32]"},
    {OWN, "tile >= my.ended", "true", F16, WRONG, NULL, NULL},
    {OWN, "keys_place_of(round).slot * consumers + group", "group", F16, EMU_RACE, WS, "wgmma<0>("},
    /* tiles of keys that are drawn: each once; whose K a last dQ is of; dK stored when all is in it */
    {STAY, "own.go_on(atomic_add(counts, 1));", "own.go_on(own.number + 2);", SHORT, WRONG, NULL, NULL},
    {STAY, "share.turn_to(own);", "", SHORT, WRONG, NULL, NULL},
    {STAY, "told_task(round)", "told_task(round + 1)", SHORT, WRONG, NULL, NULL},
    /* of ragged batches: what no row sees is cleared; where a batch's keys begin and end */
    {STAY, "clear_keys(a, own.my);", "", UNSEEN, WRONG, NULL, NULL},
    {STAY, "at.q0 = i32(x.at[2]);", "", RAGGED, WRONG, NULL, NULL},
    {STAY, "at.nk = i32(x.at[3]);", "at.nk = 1 << 20;", RAGGED, WRONG, NULL, NULL},
    {STAY, "  dK = {};", "", SHORT, WRONG, NULL, NULL},
    {STAY, "  dV = {};", "", SHORT, WRONG, NULL, NULL},
    {OWN, "share.turn_to(own);", "", FEW, WRONG, NULL, NULL},
    /* launches that overlap: D, dQ = 0 and what tiles are drawn from, which the one before makes; dQ */
    {ROWS, "await_last();                                         // D is here", "", F16, EMU_RACE, GRAD,
     "copy_bulk("},
    {STAY, "await_last();                                         // nothing is drawn", "", SHORT, EMU_RACE,
     STAYS, "atomic_add("},
    {HELD, "await_last();                                         // dQ is whole", "", F16, EMU_RACE, SUMS,
     "from[c / 2 * 32]"},
    /* where a batch ends: cleared, of Q and dO, of K and V, when they have come; what lies behind is not
       written; empty tiles */
    {ROWS, "clear_behind<boxes_, Br>(to, rows_here);", "", USED, WRONG, NULL, NULL},
    {ROWS, "clear_behind<boxes_, 64>(", "if (false) clear_behind<boxes_, 64>(", USED, WRONG, NULL, NULL},
    {ROWS, "wait(tail + warp_of(), tails++ % 2);\n  clear_behind", "clear_behind", USED, EMU_RACE, TAILS,
     "put16("},
    {ROWS, "copies_fence();\n  warp_sync();\n  if (thread_id() % 32 == 0)",
     "warp_sync();\n  if (thread_id() % 32 == 0)", USED, EMU_UNFENCED, WS, "wgmma<0>("},
    {ROWS, "tails++ % 2", "0", USED, EMU_RACE, TAILS, "put16("},
    {ROWS, "rows_to.n - of_batch < 64", "false", RAGGED, WRONG, NULL, NULL},
    {ROWS, "if (i0 + row < to.n)", "if (true)", RAGGED, WRONG, NULL, NULL},
    {ROWS, "at.q0 = at.k0;", "", RAGGED, WRONG, NULL, NULL},
    {ROWS, "if (!has_rows(a, {tile / Tr, tile % Tr * Br})) return;", "", USED, EMU_UNINITIALISED, SUMS,
     "from[c / 2 * 32]"},
    /* tiles of batches in line */
    {ROWS, "if (!has_rows(a, {my.head, my.i0})) return;", "", RAGGED, EMU_UNINITIALISED, SUMS,
     "from[c / 2 * 32]"},
    {ROWS, "ends[b * next] / R + b", "ends[b * next] / R", RAGGED, WRONG, NULL, NULL},
    {ROWS, "first(b + x) <= number", "first(b + x) < number", RAGGED, WRONG, NULL, NULL},
    {ROWS, "first += from.tiles;", "", RAGGED, WRONG, NULL, NULL},
    /* of a step what is told: before its tile is full, whether a mask cuts it, of which lengths, whether it
       is the last; until all lanes have read it */
    {ROWS, "tell_step(n, at, number, is_last);", "", LINED, EMU_UNINITIALISED, TOLD, "get16("},
    {ROWS, "u32(at.is_cut ? at.i0 : -1)", "u32(-1)", LINED, WRONG, NULL, NULL},
    {ROWS, "u32(at.of.nq), u32(at.of.nk)", "u32(at.of.nk), u32(at.of.nq)", LINED, WRONG, NULL, NULL},
    {ROWS, "n + 1 == from.before + from.steps", "false", LINED, EMU_DEADLOCK, RING, "barrier_passed("},
    {KEPT, "  warp_sync(); // what was told last all lanes have read\n", "", LINED, EMU_RACE, TOLD, "put16("},
    /* heads that share K and V */
    {ROWS, "      head++;", "", F16, WRONG, NULL, NULL},
};

static void every_defect_is_found(void **state)
{
  (void)state;
  defects_are_found(defects, sizeof defects / sizeof *defects);
}

/* How many of the runs, whose warps go on in other orders, give dQ other bits than the first, or a finding.
 * One is enough but for FATUNE_FULL=1, which prints how many. */
enum { RUNS = 13 };
static int other_bits(const victim *v, const emu_kernel *kernel, int variant)
{
  emu_result r[RUNS] = {0};
  const size_t bytes = (size_t)fat_tensors_elements(&v->c.problem, FAT_DQ) * sizeof *r[0].out[FAT_DQ];
  int others = 0;
  for (int run = 0; run < RUNS && (!others || emu_check_full()); run++) {
    const emu_options options = {.accesses = 200000000,
                                 .order = run < 2 ? (emu_order)run : EMU_RANDOM,
                                 .seed = (uint64_t)run,
                                 .resident = 8,
                                 .variant = variant};
    assert_int_equal(
        emu_attention_run(emu_check_machine(), kernel, &v->c, &v->truth, &options, &r[run], NULL), FAT_OK);
    others += r[run].report.findings > 0 || memcmp(r[run].out[FAT_DQ], r[0].out[FAT_DQ], bytes) != 0;
  }
  for (int run = 0; run < RUNS; run++)
    emu_result_free(&r[run]);
  return others;
}

/* What other bits show: blocks that add to dQ when it is not their turn. */
static void sums_out_of_order_are_found(void **state)
{
#define TURN "wait(turn + at.slot * sharers + which, at.parity);"
  enum { WAITS = 3 };
  static const struct {
    const char *kernel, *line, *turn;
  } of[] = {{HELD, DET, TURN},        {HELD, CUT_DET, TURN},
            {HELD, BOTH_DET, TURN},   {STAY, STAY_DET, TURN},
            {LAID, CUT_DET, TURN},    {ROUNDED, FEW_DET, "wait(turn + at.slot * sharers, at.parity);"},
            {HALVES, WIDE_DET, TURN}, {COUPLE, PAIR_DET, TURN}};
  (void)state;
  for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
    victim v = victim_of(of[i].kernel, of[i].line);
    const char *const waits[WAITS] = {"await_count(count, earlier);", of[i].turn,
                                      "wait(added + at.slot * sharers + which, at.parity);"};
    char *text = strdup(fat_text_get(&v.source.text)), without[160];
    for (int n = 1; n <= WAITS; n++) {
      int count;
      char *const whole = text;
      snprintf(without, sizeof without, "if (emu_variant() != %d) {%s}", n, waits[n - 1]);
      text = spoiled(whole, waits[n - 1], without, &count);
      free(whole);
      assert_true(count > 0);
    }
    emu_kernel kernel = load_spoiled(&v, text, fat_text_get(&v.source.recipe));
    assert_int_equal(other_bits(&v, &kernel, 0), 0);
    for (int n = 1; n <= WAITS; n++) {
      const int others = other_bits(&v, &kernel, n);
      print_message("%s without '%s': %d of up to %d runs tell\n", of[i].kernel, waits[n - 1], others, RUNS);
      assert_true(others > 0);
    }
    emu_kernel_free(&kernel);
    free(text);
    victim_free(&v);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_call_is_missed),
      cmocka_unit_test(every_defect_is_found),
      cmocka_unit_test(sums_out_of_order_are_found),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
