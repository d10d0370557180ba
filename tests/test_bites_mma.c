/* test_bites_mma.c -- the emulator bites kernels on tensor cores: each is spoiled in one place after another,
 * and each must be found.
 *
 * Every barrier, wait and commit is taken out in turn, in the configs where it is needed: what one schedule
 * waits for, another has waited for already. A table holds other defects (bites.h says how). A tile without
 * its swizzle is right, but slow: its bank conflicts are counted. */
#include "bites_calls.h"
#include "bites_defects.h"

/* Causal, with tiles no mask touches and tiles of both kinds of edges, several of each. */
#define SHAPE   "-b1-h2k1-q150-k170-d40-causal all lay=padded"
#define F16_T4  "fwd-f16" SHAPE " gpu=T4"
#define F16     "fwd-f16" SHAPE " gpu=A100"
#define BF16    "fwd-bf16" SHAPE " gpu=A100"
#define TF32    "fwd-tf32" SHAPE " gpu=A100"
#define F32X3   "fwd-f32x3" SHAPE " gpu=A100"
#define WIDE_V  "fwd-f16-b1-h2k1-q150-k170-d40v96 all gpu=T4"
#define NO_KEYS "fwd-f16-b1-h1-q150-k20-d40-causal all gpu=A100" /* for two tiles of Q of three */

#define BACKWARD "bwd-f16-b1-h2k1-q150-k170-d40-causal all lay=padded gpu="

#define BACKWARD_LSE "bwd-f16-b1-h2k1-q150-k170-d40-causal-dlse all lay=padded gpu=A100"
#define BACKWARD_F32 "bwd-f32-b1-h2k1-q150-k170-d40-causal all lay=padded gpu=H200"

#define UNSEEN_KEYS                                                                                          \
  "bwd-f16-b1-h2k1-q1-k197-d40-causal-w16.0 all lay=padded gpu=A100" /* in tiles that no row visits */

/* dQ made late, P in registers; P in shared memory; V in registers; Turing's, through registers during a step
 * and behind it; halves of a block apart; on CUDA cores. */
#define BWD_LATE   "bwd:Br64-Bc128-w8-wS8-wK8-wQ2-s2-V0-q1-b1-Z1-U2-W16"
#define BWD_SHARED "bwd:Br64-Bc64-w8-wS4-wK2-wQ2-s1-V0-q0-b1-Z1-U0-W16"
#define BWD_V_HELD "bwd:Br32-Bc64-w4-wS4-wK4-wQ2-s3-V1-q0-b1-Z1-U0-W16"
#define BWD_TURING "bwd:Br32-Bc64-w4-wS4-wK4-wQ2-s1-V0-q0-b1-Z1-U0-W16"
#define BWD_BEHIND "bwd:Br32-Bc64-w4-wS4-wK4-wQ2-s0-V0-q0-b1-Z1-U0-W16"
#define BWD_IDLE   "bwd:Br32-Bc32-w8-wS2-wK1-wQ2-s1-V0-q0-b1-Z1-U0-W16"
#define BWD_APART  "bwd:Br64-Bc64-w8-A1-wS2-wK1-wQ2-s1-V0-q0-b1-Z1-U0-W16"
#define BWD_CORES  "bwd:Br64-Bc64-w4-X16-Y16-G1-s2-b1-Z1-W16"
#define TWO        "bwd_two:Br64-Bc64-w4-wS4-wK4-s2-b1-Z1-U0-W16"
#define TWO_SHARED "bwd_two:Br64-Bc32-w4-wS2-wK1-s1-b1-Z1-U0-W16"

#define FWD(rest) "fwd:Br64-Bc32-w4-" rest "-b1-Z1-W16"
#define APIECE    "fwd:Br64-Bc32-w4-s1-Q0-b1-Z1-W1"

/* Tiles that hold rows of three heads: two such tiles, and some rows of a third. */
#define PACKED(rest) FWD(rest) "-G1"
#define SHARED       "-b1-h6k2-q50-k70-d40-causal all lay=padded"
#define SHARED_T4    "fwd-f16" SHARED " gpu=T4"
#define SHARED_BF16  "fwd-bf16" SHARED " gpu=A100"
#define SHARED_TF32  "fwd-tf32" SHARED " gpu=A100"

/* Keys in splits, of rows of a few heads. */
#define IN_SPLITS   "fwd:Br16-Bc32-w1-s2-Q0-b1-Z1-W16-G1-N2"
#define SPLITS      "-b1-h6k2-q5-k290-d40-causal all lay=padded sms=6 data=large"
#define SPLITS_BF16 "fwd-bf16" SPLITS " gpu=A100"
/* More splits than four warps read at once; and an odd number of rows, of fewer splits, which two warps have.
 */
#define SPLITS_MANY   "fwd-bf16-b1-h3k1-q5-k1200-d40-causal all lay=padded sms=24 gpu=A100"
#define SPLITS_ODD    "fwd-bf16-b1-h3k1-q5-k300-d40-causal all lay=padded sms=12 gpu=A100"
#define SPLITS_NORMAL "fwd-bf16-b1-h6k2-q5-k290-d40-causal all sms=24 gpu=A100"
/* Parts of a tile's keys, and splits that the blocks of a cluster have. */
#define IN_PARTS      "fwd:Br16-Bc32-w2-k2-s2-Q0-b1-Z1-W16-G1"
#define IN_CLUSTER    "fwd:Br16-Bc32-w2-k2-s2-Q0-b1-Z1-W16-G1-N1-M8"
#define CLUSTER_BF16  "fwd-bf16-b1-h6k2-q5-k290-d40-causal all lay=padded sms=6 gpu=H200"
#define SPLITS_NUMBER "fwd-f16-b1-h6k2-q5-k290-d40-causal-split64 all lay=padded gpu=A100"

/* ---- every barrier, wait and commit ---- */

static const struct {
  const char *kernel, *line;
} schedules[] = {
    {FWD("s0-Q0"), F16_T4},
    {FWD("s0-Q1"), F16_T4},
    {FWD("s1-Q0"), F16_T4},
    {FWD("s1-Q1"), F16_T4},
    {FWD("s1-Q1"), F16},
    {FWD("s2-Q0"), BF16},
    {FWD("s2-Q1"), F16},
    {FWD("s3-Q0"), TF32},
    {FWD("s3-Q0"), NO_KEYS},
    {"fa1", F16_T4},
    {"standard", F16_T4},
    {"fa1", F16},
    {"standard", F16},
    {"fa1", TF32},
    {"fa1", WIDE_V},
    {PACKED("s2-Q1"), SHARED_BF16},
    {IN_SPLITS, SPLITS_BF16},
    {IN_PARTS, SPLITS_BF16},
    {"fa1_bwd", BACKWARD "T4"},
    {"fa1_bwd", BACKWARD "A100"},
    {"fa1_bwd", UNSEEN_KEYS},
    {BWD_LATE, BACKWARD "A100"},
    {BWD_SHARED, BACKWARD "A100"},
    {BWD_V_HELD, BACKWARD "A100"},
    {BWD_TURING, BACKWARD "T4"},
    {BWD_BEHIND, BACKWARD "T4"},
    {BWD_APART, BACKWARD "A100"},
    {BWD_CORES, BACKWARD_F32},
    {BWD_IDLE, BACKWARD "T4"},
    {BWD_V_HELD, UNSEEN_KEYS},
    {BWD_APART, UNSEEN_KEYS},
    {TWO, BACKWARD "A100"},
    {TWO, UNSEEN_KEYS},
    {TWO_SHARED, BACKWARD "A100"},
    {TWO_SHARED, BACKWARD "T4"},
    {"standard_bwd", BACKWARD "A100"},
    {"standard_bwd", BACKWARD "T4"},
};

/* Whether the kernel without a call races or leaves a copy behind. */
static bool is_missed(const bites_run *run)
{
  char line[512];
  const emu_finding *place = &run->without->place;
  for (int f = 0; f < run->report.findings; f++) {
    const emu_finding *found = &run->report.finding[f];
    if (found->kind != EMU_RACE && found->kind != EMU_NEVER_AWAITED)
      continue;
    if (!has_access(line_text(run->text, found->file, found->line, line, sizeof line)))
      fail_msg("without the %s of %s:%d: no access stands on the line of '%s'", run->without->name,
               place->file, place->line, found->text);
    print_message("%s without %s:%d: %s\n", emu_check_title(&run->v->c, &run->v->config), place->file,
                  place->line, found->text);
    return true;
  }
  return false;
}

static void every_call_is_missed(void **state)
{
  (void)state;
  static const char *const names[] = {"block_sync", "warp_sync", "copy_wait", "copy_commit", "named_sync"};
  for (unsigned i = 0; i < sizeof schedules / sizeof *schedules; i++) {
    victim v = victim_of(schedules[i].kernel, schedules[i].line);
    take_out(&v, names, sizeof names / sizeof *names, true, is_missed);
    victim_free(&v);
  }
  all_were_missed(20);
}

/* ---- other defects ---- */

#define MMA     "templates/lib/mma.cuh"
#define HALF    "templates/lib/half.cuh"
#define SOFTMAX "templates/lib/softmax.cuh"
#define SPLIT   "templates/lib/split.cuh"
#define GRID    "templates/lib/grid.cuh"
#define GRID16  "templates/lib/grid16.cuh"
#define PARTS   "templates/lib/parts.cuh"
#define APART   "templates/lib/apart.cuh"
#define SIMT    "templates/lib/gridsimt.cuh"

static const defect defects[] = {
    /* launches that overlap: what the one before makes */
    {IN_SPLITS, "launch_wait();", "", CLUSTER_BF16, EMU_RACE, "templates/lib/split.cuh",
     "L[n] = s0 + n * by < splits ? *L_s"},
    {BWD_LATE, "launch_wait();", "", BACKWARD "H200", EMU_RACE, "templates/lib/walk.cuh",
     "copy_async(LD(n).data + 16 * thread_id()"},
    {BWD_APART, "launch_wait();", "", BACKWARD "H200", EMU_RACE, "templates/lib/walk.cuh",
     "copy_async(LD(n).data + 16 * thread_id()"},
    {TWO, "launch_wait();", "", BACKWARD "H200", EMU_RACE, "templates/lib/walk.cuh",
     "copy_async(LD(n).data + 16 * thread_id()"},
    /* masks and tiles */
    {FWD("s1-Q0"), "keep(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf()", "S.at[r][c]", F16_T4,
     WRONG, NULL, NULL},
    {FWD("s2-Q1"), "keep(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf()", "S.at[r][c]",
     "fwd-bf16-b1-h1-q20-k35-d40 all gpu=A100", WRONG, NULL, NULL},
    {FWD("s1-Q0"), "max(0, at.nk - behind)", "min(at.nk, max(0, at.nk + 1 - behind))", F16_T4, WRONG, NULL,
     NULL},
    {FWD("s2-Q0"), "ceil_div(bottom.hi, Bc)", "bottom.hi / Bc", F16, WRONG, NULL, NULL},
    /* splits: which tiles are whose, what a block leaves of its rows, what the merge makes of it */
    {IN_SPLITS, "min(max(hi, first), all.last)", "all.last", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_SPLITS, "all.first + s * tiles", "all.first + s * (tiles + 1)", SPLITS_BF16, WRONG, NULL, NULL},
    {"fwd", "hi = lo + tiles; // the same keys", "hi = lo + tiles - (s > 0); // the same keys", SPLITS_NUMBER,
     WRONG, NULL, NULL},
    {IN_SPLITS, "factor.at[r] = inverse(l.at[r])", "factor.at[r] = 1.f", SPLITS_NORMAL, WRONG, NULL, NULL},
    {IN_SPLITS, "fmaf(c, m.at[r], lg2(l.at[r]))", "c * m.at[r]", SPLITS_NORMAL, WRONG, NULL, NULL},
    {IN_SPLITS, "f_s = ex2(m_s - origin(m))", "f_s = ex2(m_s)", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_SPLITS, "l = f * l + f_s * l_s", "l += f_s * l_s", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_SPLITS, "own[1] = sum.l", "own[1] = 1.f", SPLITS_NORMAL, WRONG, NULL, NULL},
    {IN_SPLITS, "l *= f;", "", SPLITS_MANY, WRONG, NULL, NULL},
    {IN_SPLITS, "O[x][y] *= f;", "", SPLITS_MANY, WRONG, NULL, NULL},
    {IN_SPLITS, "f_s[s] = ex2(L_s[s] - origin(m))", "f_s[s] = ex2(L_s[s])", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_SPLITS, "own += 32 * room;", "", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_SPLITS, "i32(from.rows) - 1);", "i32(from.rows));", SPLITS_ODD, EMU_OUT_OF_BOUNDS, SPLIT, "*L_s"},
    {IN_SPLITS, "splits * rows * Dv + s * rows", "(splits - 1) * rows * Dv + s * rows", SPLITS_BF16, WRONG,
     NULL, NULL},
    {IN_SPLITS, "i64 first = i64(my.head) * at.nq", "i64 first = i64(my.head) * at.q", SPLITS_BF16, WRONG,
     NULL, NULL},
    /* parts: whose keys are whose, in shared memory and in masks; what a cluster merges, and that its blocks
       wait */
    {IN_PARTS, "own_part() * own_keys", "0", SPLITS_NORMAL, WRONG, NULL, NULL},
    {IN_PARTS, "own_part() * (rows_ / parts) * of.row", "0", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_PARTS, "y * Acc::rows + r", "r", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_PARTS, "sum.gain(L_s[row], 1.f", "sum.gain(L_s[r], 1.f", SPLITS_BF16, WRONG, NULL, NULL},
    {IN_CLUSTER, "peer(L_s + row, s)", "peer(L_s + row, 0)", CLUSTER_BF16, WRONG, NULL, NULL},
    {IN_CLUSTER, "x += splits * T", "x += T", CLUSTER_BF16, EMU_RACE, SPLIT, "at.O["},
    {IN_CLUSTER, "  cluster_arrive();\n  cluster_wait(); // nobody", " // nobody", CLUSTER_BF16,
     EMU_OUT_OF_BOUNDS, SPLIT, "*(const quad *)from"},
    {IN_CLUSTER, "  cluster_arrive();\n  cluster_wait();\n  const", "  const", CLUSTER_BF16, EMU_RACE, SPLIT,
     "*(const quad *)from"},
    /* rows of several heads in a tile: which keys a row sees, which tiles it does, where it lies */
    {PACKED("s1-Q0"), "at.q - 1 - i / at.peers", "at.q - 1 - i", SHARED_T4, WRONG, NULL, NULL},
    {PACKED("s2-Q0"), "top = sees(a, at, i0)", "top = sees(a, at, i0 + Br - 1)", SHARED_BF16, WRONG, NULL,
     NULL},
    {PACKED("s2-Q0"), "i0 + min(rows_, at.nq - i0) - 1", "i0", SHARED_BF16, WRONG, NULL, NULL},
    {PACKED("s1-Q0"), "i32(r) % by.peers * by.h", "0", SHARED_T4, WRONG, NULL, NULL},
    {PACKED("s1-Q0"), "i32(r) / by.peers * by.n", "i32(r) * by.n", SHARED_T4, EMU_OUT_OF_BOUNDS, MMA,
     "return *(const quad *)p"},
    {PACKED("s2-Q0"), "{1, a.LSE.h, at.peers}", "{1, a.LSE.h, 1}", SHARED_BF16, EMU_OUT_OF_BOUNDS, SOFTMAX,
     "to[i64(i0)"},
    {PACKED("s2-Q0"), "{a.O.n, a.O.h, at.peers}", "{a.O.n, a.Q.h, at.peers}",
     "fwd-tf32-b1-h6k2-q50-k70-d40v24 all gpu=A100", WRONG, NULL, NULL},
    {PACKED("s2-Q0"), "h * a.Q.h", "hk * a.Q.h", SHARED_TF32, WRONG, NULL, NULL},
    {PACKED("s2-Q0"), "i < n - i0 && my.x * per_chunk < d", "my.x * per_chunk < d", SHARED_BF16,
     EMU_OUT_OF_BOUNDS, MMA, "copy_async("},
    {PACKED("s2-Q0"), "ceil_div(a.q * (a.h / a.hk), Br)", "ceil_div(a.q, Br)", SHARED_BF16, WRONG, NULL,
     NULL},
    /* the swizzle: of what is written, of what is read, of a pair's second chunk */
    {FWD("s1-Q0"), "x ^ Tile::order(k * step)", "x", F16_T4, WRONG, NULL, NULL},
    {FWD("s2-Q0"), "x ^ Tile::order(k * step)", "x", F16, WRONG, NULL, NULL},
    {FWD("s1-Q0"), "(base ^ (pair * 32 & flips))", "(base + (pair * 32 & flips))",
     "fwd-f16-b1-h1-q40-k50-d64 all", WRONG, NULL, NULL},
    {FWD("s2-Q0"), "return {from.chunk(i + lane % 16, lane / 16)};",
     "return {from.data + (i + lane % 16) * Tile::row + lane / 16 * 16};", F16, WRONG, NULL, NULL},
    {FWD("s3-Q0"), "second = Left::is_pairs ? 2 * t + 1", "second = Left::is_pairs ? 2 * t", TF32, WRONG,
     NULL, NULL},
    /* fragments: halves of a register, registers, a matrix that is not turned over, a depth in another order
     */
    {FWD("s1-Q0"), "pack_f16(pair[0], pair[1])", "pack_f16(pair[1], pair[0])", F16_T4, WRONG, NULL, NULL},
    {FWD("s1-Q0"), "right_of(x.at[0], x.at[1])", "right_of(x.at[1], x.at[0])", F16, WRONG, NULL, NULL},
    {FWD("s1-Q0"), "ldmatrix_trans(view.at(16 * k, n))", "ldmatrix(view.at(16 * k, n))", F16_T4, WRONG, NULL,
     NULL},
    {FWD("s1-Q0"), "mma_f16(c0, c1, c2, c3, a,", "mma_bf16(c0, c1, c2, c3, a,", F16, WRONG, NULL, NULL},
    {FWD("s1-Q0"), "round_tf32(__uint_as_float(a.at[x]))", "a.at[x]", "fwd-tf32-b1-h1-q64-k64-d128 all",
     WRONG, NULL, NULL},
    {FWD("s1-Q0"), "mma_tf32(c0, c1, c2, c3, a.big, b.small[0], b.small[1]);", ";", F32X3, WRONG, NULL, NULL},
    /* the ring */
    {FWD("s2-Q0"), "copy_wait<stages - 2>();", "copy_wait<stages - 1>();", F16, EMU_RACE, MMA, "ldmatrix("},
    {FWD("s3-Q0"), "copy_wait<stages - 2>();", "copy_wait<stages - 1>();", TF32, EMU_RACE, MMA, "ldmatrix("},
    {FWD("s3-Q0"), "j + stages - 1", "j + stages", BF16, EMU_RACE, MMA, "ldmatrix("},
    {FWD("s3-Q0"), "mma_ABt(S, Q, K.slot(j))", "mma_ABt(S, Q, K.slot(j + 1))", BF16, EMU_RACE, MMA,
     "ldmatrix("},
    {FWD("s2-Q1"), "u32(j) % count", "u32(j) % 1", F16, EMU_RACE, MMA, "copy_async("},
    /* bounds; what lies beyond them is zero: 0 x NaN is NaN */
    {FWD("s1-Q0"), "my.i < n - i0 - k * share<Tile>::step && my.x * per_chunk < d", "my.x * per_chunk < d",
     F16_T4, EMU_OUT_OF_BOUNDS, MMA, "return *(const quad *)p"},
    {FWD("s2-Q0"), "my.i < n - i0 - k * share<Tile>::step && my.x * per_chunk < d",
     "my.i <= n - i0 - k * share<Tile>::step && my.x * per_chunk < d", F16, EMU_OUT_OF_BOUNDS, MMA,
     "copy_async("},
    {FWD("s2-Q0"), "my.i < n - i0 - k * share<Tile>::step && my.x * per_chunk < d",
     "my.i < n - i0 - k * share<Tile>::step", F16, EMU_OUT_OF_BOUNDS, MMA, "copy_async("},
    {FWD("s1-Q0"), "f.chunk[k] = {};", "f.chunk[k] = {{~0u, ~0u, ~0u, ~0u}};", F16_T4, WRONG, NULL, NULL},
    {APIECE, "if (Acc::row(r) < n - i0) {", "if (Acc::row(r) <= n - i0) {",
     "fwd-f16-b1-h1-q20-k35-d40v24 all lay=padded", EMU_OUT_OF_BOUNDS, HALF, "row[column_of(c)]"},
    {FWD("s1-Q0"), "i < n - i0 && chunk * per_chunk < Acc::columns", "chunk * per_chunk < Acc::columns", F16,
     EMU_OUT_OF_BOUNDS, HALF, "*(quad *)(to"},
    /* lanes that do not come; an address that is aligned for less; a block's tile that another wrote */
    {FWD("s1-Q0"), "ldmatrix(view.at(16 * n, k))",
     "(thread_id() % 32 != 3 ? ldmatrix(view.at(16 * n, k)) : quad())", F16_T4, EMU_MISSING_LANES, MMA,
     "ldmatrix("},
    {FWD("s1-Q0"), "mma_f16(c0, c1, c2, c3, a,", "if (thread_id() % 32 != 3) mma_f16(c0, c1, c2, c3, a,", F16,
     EMU_MISSING_LANES, HALF, "mma_f16("},
    {FWD("s1-Q0"), "(elem *)a.V.data", "(elem *)a.V.data + 1", F16_T4, EMU_MISALIGNED, MMA,
     "return *(const quad *)p"},
    {FWD("s2-Q0"), "(elem *)a.V.data", "(elem *)a.V.data + 1", F16, EMU_MISALIGNED, MMA, "copy_async("},
    {FWD("s2-Q0"), "k * step * Tile::row", "k * step * Tile::row + 8", F16, EMU_MISALIGNED, MMA,
     "copy_async("},
    {"standard", "store_scores(S, matrix_of(S_all, head, at), i * Br",
     "store_scores(S, matrix_of(S_all, head, at), Br", F16, EMU_RACE, HALF, "*(u32 *)to ="},
    /* the backward: masks, D, scales, heads, reductions, the grid of warps */
    {BWD_LATE, "mask_rows(S, a, at, i0, j0);", ";", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_LATE, "dP.at[r][x + y] - D[y]", "dP.at[r][x + y]", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_LATE, "store_part(dQ, a.scale,", "store_part(dQ, a.scale * a.scale,", BACKWARD "A100", WRONG, NULL,
     NULL},
    {BWD_LATE, "store_part(dK, a.scale,", "store_part(dK, 1.f,", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_LATE, "count * (a_.h / a_.hk)", "count", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_LATE, "log2e * at.LSE[i]", "at.LSE[i]", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_LATE, "clear(shares<dQ_part>(dQ_all, tile));", ";", BACKWARD "A100", EMU_UNINITIALISED, PARTS,
     "reduce_add("},
    {BWD_LATE, "reduce_add(all.at(r, c), S.at[r][c]);", "all.at(r, c)[0] += S.at[r][c];", BACKWARD "A100",
     EMU_RACE, PARTS, "reduce_add("},
    {BWD_LATE, "dS.slot(n - 1)", "dS.slot(n)", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_SHARED, "Acc::first_column() / 8 + c / 2", "c / 2", BACKWARD "A100", EMU_RACE, GRID16, "put4("},
    {BWD_SHARED, "first_column() + c / 2 * 8 < columns", "c / 2 * 8 < columns", BACKWARD "A100",
     EMU_OUT_OF_BOUNDS, GRID16, "put4("},
    {BWD_V_HELD, "number_of(n) * Br", "number_of(0) * Br", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_TURING, "thread_id() < Br / 2", "thread_id() < Br / 4", BACKWARD "T4", EMU_UNINITIALISED,
     "templates/lib/grad.cuh", "get16("},
    {BWD_APART, "named_arrive(P_here, T);", ";", BACKWARD "A100", EMU_DEADLOCK, APART, "named_sync("},
    {BWD_APART, "named_arrive(dO_read, T);", ";", BACKWARD "A100", EMU_DEADLOCK, APART, "named_sync("},
    {BWD_APART, "float_of(elem(pair >> 16 * y)) *", "", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_APART, "scale_part(dK, my.a.scale);", ";", BACKWARD "A100", WRONG, NULL, NULL},
    {BWD_CORES, "w < 3 ? 4 * x - 3 + w", "w < 3 ? 4 * x - 3", BACKWARD_F32, WRONG, NULL, NULL},
    {BWD_CORES, "Acc::row_block(0)", "0", BACKWARD_F32, WRONG, NULL, NULL},
    {BWD_CORES, "column(c) < columns", "true", BACKWARD_F32, EMU_OUT_OF_BOUNDS, SIMT, "put"},
    {"standard_bwd", "subtract_rows(dS, d);", ";", BACKWARD "A100", WRONG, NULL, NULL},
    {"standard_bwd", "P_here.data + j0", "P_here.data", BACKWARD "A100", WRONG, NULL, NULL},
    {"standard_bwd", "store_scores(dS, dP_here", "store_scores(dS, P_here", BACKWARD "A100", WRONG, NULL,
     NULL},
    {BWD_IDLE, "if (S_part::has(0)) {", "{", BACKWARD "T4", WRONG, NULL, NULL},
    {BWD_LATE, "D -= at.dLSE[i];", ";", BACKWARD_LSE, WRONG, NULL, NULL},
    {"fa1_bwd", "sum.at[r] - dLSE.at[r]", "sum.at[r]", BACKWARD_LSE, WRONG, NULL, NULL},
    {"standard_bwd", "sum.at[r] - dLSE.at[r]", "sum.at[r]", BACKWARD_LSE, WRONG, NULL, NULL},
    {TWO, "mask(S, a, at, i0, j * Bc);", ";", BACKWARD "A100", WRONG, NULL, NULL},
    {TWO, "dP.at[r][x] - LD.at[r].y", "dP.at[r][x]", BACKWARD "A100", WRONG, NULL, NULL},
    {TWO, "real ? log2e * at.LSE[i] : -minus_inf()", "log2e * at.LSE[i]", BACKWARD "A100", EMU_OUT_OF_BOUNDS,
     "templates/lib/grad.cuh", "at.LSE[i]"},
    {TWO, "n + stages - 1", "n + stages", BACKWARD "A100", EMU_RACE, GRID, "ldmatrix"},
};

static void every_defect_is_found(void **state)
{
  (void)state;
  defects_are_found(defects, sizeof defects / sizeof *defects);
}

/* ---- banks ---- */

static long long conflicts_of(const victim *v, const emu_kernel *kernel, int variant)
{
  char why[512];
  emu_report report;
  is_sound(v, run_variant(v, kernel, variant, &report, why, sizeof why), &report, why);
  assert_true(report.together > 0);
  return report.conflicts;
}

/* Rows of 2, 4, 6, 8, 10, 12 and 16 chunks. */
static void no_matrix_has_bank_conflicts_but_without_swizzle(void **state)
{
  (void)state;
  static const char *const lines[] = {
      "fwd-f16-b1-h1-q40-k50-d16 all",     "fwd-f16-b1-h1-q40-k50-d32v48 all",
      "fwd-f16-b1-h1-q40-k50-d64v80 all",  "fwd-bf16-b1-h1-q40-k50-d96v128 all",
      "fwd-tf32-b1-h1-q40-k50-d40v64 all",
  };
  for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
    int count;
    victim v = victim_of(FWD("s1-Q0"), lines[i]);
    char *text = spoiled(fat_text_get(&v.source.text), "(x ^ order(i)) * 16",
                         "((emu_variant() == 1 ? x : x ^ order(i)) * 16)", &count);
    char *both = spoiled(text, "x ^ Tile::order(k * step)",
                         "(emu_variant() == 1 ? x : x ^ Tile::order(k * step))", &count);
    emu_kernel kernel = load_spoiled(&v, both, fat_text_get(&v.source.recipe));
    assert_int_equal(conflicts_of(&v, &kernel, 0), 0);
    long long without = conflicts_of(&v, &kernel, 1);
    assert_true(without > 0);
    print_message("%s without its swizzle: %lld bank conflicts\n", lines[i], without);
    emu_kernel_free(&kernel);
    free(both);
    free(text);
    victim_free(&v);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_call_is_missed),
      cmocka_unit_test(every_defect_is_found),
      cmocka_unit_test(no_matrix_has_bank_conflicts_but_without_swizzle),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
