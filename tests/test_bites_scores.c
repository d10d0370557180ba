/* test_bites_scores.c -- the emulator bites kernels in what features make of scores: each hook is spoiled in
 * one place after another, and each must be found by a wrong result. A table holds the defects
 * (bites_defects.h says how). */
#include "bites_defects.h"

#define CAP     "fwd-f16-b1-h2k1-q67-k70-d64-softcap all data=wide"
#define CAP_32  "fwd-f32-b1-h1-q20-k35-d40-softcap all data=wide scale=-0.3"
#define CAP_BWD "bwd-f16-b1-h2k1-q70-k90-d40-causal-softcap all data=wide"

#define ALIBI      "fwd-f16-b2-h2k1-q67-k70-d64-alibi all"
#define ALIBI_CUT  "fwd-f16-b2-h2k1-q67-k70-d64-causal-alibi all"
#define ALIBI_WS   "fwd-f16-b2-h2k1-q200-k170-d64-causal-alibi all gpu=H200 sms=2"
#define ALIBI_LATE "fwd-f16-b1-h2k1-q70-k390-d64-causal-alibi all gpu=H200 sms=2"
#define ALIBI_32   "fwd-f32-b2-h2k1-q20-k35-d40-alibi all"
#define ALIBI_BWD  "bwd-f16-b2-h2k1-q70-k90-d40-alibi-softcap all"

#define SINK_BWD "bwd-f16-b2-h2k1-q70-k90-d40-causal-sink-dsink all"

#define DROP     "fwd-f16-b2-h2k1-q67-k170-d64-causal-drop all"
#define DROP_WS  "fwd-f16-b2-h2k1-q200-k170-d64-causal-drop all gpu=H200 sms=2"
#define DROP_32  "fwd-f32-b2-h2k1-q20-k35-d40-drop all"
#define DROP_BWD "bwd-f16-b2-h2k1-q70-k90-d40-causal-drop all"

#define DROP_BWD_WS  "bwd-f16-b2-h2k1-q100-k140-d64-drop all gpu=H200"
#define DROP_BWD_CAP "bwd-f16-b2-h2k1-q100-k140-d64-softcap-drop all gpu=H200"

#define PAIRS     "fwd-f16-b2-h2k1-q67-k70-d64-mask-bias all"
#define PAIRS_ODD "fwd-f16-b1-h2-q20-k73-d64-bias all"
#define PAIRS_BWD "bwd-f16-b2-h2k1-q70-k90-d40-mask-bias-softcap all"
#define DBIAS     "bwd-f16-b2-h2k1-q70-k190-d40-w9.9-bias-dbias all"
#define DBIAS_WS  "bwd-f16-b1-h2-q70-k90-d64-bias-dbias all gpu=H200"

#define MOD      "fwd-f16-b2-h2k1-q67-k70-d64 all mod=s+table0[h,i]-0.1*b mask=itable1[i]<=itable1[j]"
#define MOD_EVEN "fwd-f16-b2-h2k1-q67-k70-d64 all mod=s+table0[h]*(j-i)"
#define MOD_LATE "fwd-f16-b1-h2k1-q70-k390-d64-causal all gpu=H200 sms=2 mod=s-(j/20-table0[h])+0.1*i"
#define MOD_BWD  "bwd-f16-b2-h2k1-q70-k90-d40 all mod=20.0*tanh(s*table0[h]/20.0) mask=j<80"

static const defect defects[] = {
    /* expressions: heads of Q and not of K, ends of tables, which pairs stay, the derivative */
    {"fwd", "{at.b, at.h, i, j,", "{at.b, at.hk, i, j,", MOD, WRONG, NULL, NULL},
    {"fwd", "min(i64(x), of.b - 1)", "i64(x)", MOD, EMU_OUT_OF_BOUNDS, "templates/lib/mods.cuh",
     "const i32 "},
    {"standard,fa1,fwd", "keeps_pair(a, pair_of<transposed, Acc>(at, i0, j0, r, c)) ?",
     "!keeps_pair(a, pair_of<transposed, Acc>(at, i0, j0, r, c)) ?", MOD, WRONG, NULL, NULL},
    {"bwd,bwd_two,fa1_bwd,standard_bwd", "slopes.at[r][c] = slope * y.slope", "slopes.at[r][c] = slope",
     MOD_BWD, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "keys_on = transposed ? 0 : on", "keys_on = 0", MOD_EVEN, WRONG, NULL, NULL},
    {"fwd_ws", "x.added[r].first -= c * origin(x.m.at[r]);", "", MOD_LATE, WRONG, NULL, NULL},
    {"fwd_ws", "more = log2e * y.more;", "more = y.more;", MOD_LATE, WRONG, NULL, NULL},
    {"fwd_ws", "x.keys_on = 1;", "", MOD_LATE, WRONG, NULL, NULL},
    /* pairs: heads of Q and not of K, batches, what lies beyond the last, the sign, the share in the
       derivative */
    {"fwd", "i64(at.h) * of.h", "i64(at.hk) * of.h", PAIRS, WRONG, NULL, NULL},
    {"fwd", "i64(at.b) * of.b", "0", PAIRS, WRONG, NULL, NULL},
    {"fwd", "max(0, min(j, at.nk - 1))", "j", PAIRS, EMU_OUT_OF_BOUNDS, "templates/lib/scores.cuh",
     "number_of_pair("},
    {"fwd", "j0 + Acc::column(Acc::C - 1) < at.nk", "true", PAIRS, EMU_OUT_OF_BOUNDS,
     "templates/lib/pairs.cuh", "two_biases"},
    {"bwd", "max(0, min(j0 + Acc::row(r), of.nk - 1))", "j0 + Acc::row(r)", PAIRS_BWD, EMU_OUT_OF_BOUNDS,
     "templates/lib/pairs.cuh", "= row["},
    {"fwd", "first + (Acc::column(2 * n)", "first + (Acc::column(n)", PAIRS, WRONG, NULL, NULL},
    {"fwd", "u64(first) % sizeof(two_biases) == 0", "true", PAIRS_ODD, EMU_MISALIGNED,
     "templates/lib/pairs.cuh", "two_biases"},
    {"standard,fa1,fwd", "? S.at[r][c] : minus_inf();", "? minus_inf() : S.at[r][c];", PAIRS, WRONG, NULL,
     NULL},
    {"bwd,bwd_two,fa1_bwd", "(added.at(c) + bias(c))", "added.at(c)", PAIRS_BWD, WRONG, NULL, NULL},
    /* dbias: rows and keys change places, pairs that no row sees, what lies beyond the last row */
    {"bwd,fa1_bwd", "transposed ? dS.at[x][y] : dS.at[y][x]", "transposed ? dS.at[x][0] : dS.at[y][0]", DBIAS,
     WRONG, NULL, NULL},
    {"bwd_ws", "tell_rows(dS, a, at.of, at.i0, j0);", "", DBIAS_WS, WRONG, NULL, NULL},
    {"bwd,bwd_two,fa1_bwd,standard_bwd", "row[j] = 0.f;", "", DBIAS, WRONG, NULL, NULL},
    {"bwd_two,standard_bwd", "i >= at.nq || j >= at.nk", "false", DBIAS, WRONG, NULL, NULL},
    /* dropout: rounds, the counter's parts, which byte, the edge, what is left is larger, what is lost counts
       in dS */
    {"fwd", "n < 7", "n < 10", DROP, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "(u64(at.b) * a.h + at.h) * 32", "u64(at.h) * 32", DROP_32, WRONG, NULL, NULL},
    {"fwd", "(u64(at.b) * a.h + at.h) * 32", "(u64(at.b) * a.h + at.hk) * 32", DROP, WRONG, NULL, NULL},
    {"fwd", "drops.bytes(j / 32)", "drops.bytes(j / 16)", DROP, WRONG, NULL, NULL},
    {"fwd", "(above & 127)", "(above & 63)", DROP, WRONG, NULL, NULL},
    {"fwd", "u32(q0) ^ round_key(0, 1)", "u32(q0) ^ round_key(0, 2)", DROP, WRONG, NULL, NULL},
    {"fwd_ws", "0x9988", "0xbbaa", DROP_WS, WRONG, NULL, NULL},
    {"fwd_ws", "acc<Br, Bc>::row(0)) / 16", "acc<Br, Bc>::row(0)) / 32", DROP_WS, WRONG, NULL, NULL},
    {"fwd,fa1", "end.factor.at[r] *= boost(a);", "", DROP, WRONG, NULL, NULL},
    {"bwd,bwd_two,fa1_bwd", "own ? odd : even", "own ? even : odd", DROP_BWD, WRONG, NULL, NULL},
    {"bwd,bwd_two,fa1_bwd,standard_bwd", "(P < 0.f ? 0.f : more * dP)", "more * dP", DROP_BWD, WRONG, NULL,
     NULL},
    {"bwd,bwd_two,fa1_bwd,standard_bwd", "fmaxf(P.at[r][c], 0.f)", "fabsf(P.at[r][c])", DROP_BWD, WRONG, NULL,
     NULL},
    {"bwd_ws", "| 0x4400", "", DROP_BWD_WS, WRONG, NULL, NULL},
    {"bwd_ws", "(2 * x + half) * 512", "2 * x * 512", DROP_BWD_WS, WRONG, NULL, NULL},
    {"bwd_ws", "j0 / 32 + warp / 2", "j0 / 32 + warp", DROP_BWD_WS, WRONG, NULL, NULL},
    {"bwd_ws", "part * D", "D", DROP_BWD_WS, WRONG, NULL, NULL},
    {"bwd_ws", "fmaf(Z.value(r, x)", "fmaf(P.value(r, x)", DROP_BWD_WS, WRONG, NULL, NULL},
    {"bwd_ws", "return a.scale * boost(a);", "return a.scale;", DROP_BWD_WS, WRONG, NULL, NULL},
    {"bwd_ws", "named_sync(8 + warp / 2, 64);", "", DROP_BWD_WS, EMU_RACE, "templates/lib/ws_drop.cuh",
     "get16"},
    {"bwd_ws", "n % 2 * 2 * consumers", "0", DROP_BWD_WS, EMU_RACE, "templates/lib/ws_drop.cuh", "put16"},
    {"bwd_ws", "0xbb99", "0x9988", DROP_BWD_CAP, WRONG, NULL, NULL},
    {"bwd_ws", "head - from.batch * a.h", "head", DROP_BWD_WS, WRONG, NULL, NULL},
    {"bwd_ws", "difference(value_of(P, r, x)", "difference(fabsf(value_of(P, r, x))", DROP_BWD_CAP, WRONG,
     NULL, NULL},
    /* the gradient of sinks: its sign, all batches, whole blocks */
    {"bwd,bwd_two", "sum -= ex2(sink - of.x) * of.y", "sum += ex2(sink - of.x) * of.y", SINK_BWD, WRONG, NULL,
     NULL},
    {"bwd,bwd_two", "(i64(b) * a.h + h) * rows_of_head", "i64(h) * rows_of_head", SINK_BWD, WRONG, NULL,
     NULL},
    {"fa1_bwd,standard_bwd", "*at.sink - at.LSE[i]", "-at.LSE[i]", SINK_BWD, WRONG, NULL, NULL},
    {"bwd", "n < T && thread_id() == 0", "n < 32 && thread_id() == 0", SINK_BWD, WRONG, NULL, NULL},
    /* alibi: the slope of the batch, the diagonal's place, both of its sides, its share in the derivative */
    {"fwd", "b * a.slopes.b + ", "", ALIBI, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "at.nq - i", "at.nk - i", ALIBI_32, WRONG, NULL, NULL},
    {"fwd", "fabsf(first + along)", "(first + along)", ALIBI, WRONG, NULL, NULL},
    {"fwd_ws", "m.at[r] -= log2e * at.slope * float(row_of<Br>(r));", "", ALIBI_WS, WRONG, NULL, NULL},
    {"fwd_ws", "added.first -= origin(x.m.at[r]);", "", ALIBI_LATE, WRONG, NULL, NULL},
    {"fwd", "first *= slope;", "", ALIBI_CUT, WRONG, NULL, NULL},
    {"bwd,bwd_two", "float(-on)", "float(on)", ALIBI_BWD, WRONG, NULL, NULL},
    {"fa1_bwd,bwd,bwd_two", "L - added.at(c)", "L", ALIBI_BWD, WRONG, NULL, NULL},
    /* softcap: the cap on either side, the sign of the scale, the derivative with and without its LSE */
    {"fwd", "a.scale / a.softcap", "a.scale", CAP, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "1.44269504088896f * a.softcap", "1.44269504088896f", CAP_32, WRONG, NULL, NULL},
    {"fwd", "a.scale / a.softcap", "fabsf(a.scale) / a.softcap", CAP_32, WRONG, NULL, NULL},
    {"fa1_bwd,bwd,bwd_two", "fmaf(-t, t, 1.f)", "1.f", CAP_BWD, WRONG, NULL, NULL},
    {"fa1_bwd,bwd", "lg2(fabsf(P)) + L", "lg2(fabsf(P))", CAP_BWD, WRONG, NULL, NULL},
    {"standard_bwd", "1.f - S.at[r][c] * S.at[r][c]", "1.f", CAP_BWD, WRONG, NULL, NULL},
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
