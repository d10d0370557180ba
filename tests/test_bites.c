/* test_bites.c -- the emulator bites: each kernel of the ordinary cores is spoiled in one place after
 * another, and each must be found.
 *
 * Every barrier of every kernel is taken out in turn; a table holds other defects (bites.h says how). */
#include "bites_calls.h"
#include "bites_defects.h"

/* ---- every barrier ---- */

/* Causal, with tiles no mask touches and tiles of both kinds of edges, several of each. */
#define MANY_TILES "fwd-f32-b1-h2k1-q150-k170-d40-causal all lay=padded"

/* The backward, with heads that share K and V, and rows that see no key. */
#define BACKWARD "bwd-f32-b1-h2k1-q70-k59-d40-causal all"

/* Whether the kernel without a barrier races, on lines that access memory. */
static bool is_missed(const bites_run *run)
{
  char line[512];
  const emu_finding *place = &run->without->place, *race = NULL;
  for (int f = 0; f < run->report.findings && !race; f++)
    if (run->report.finding[f].kind == EMU_RACE)
      race = &run->report.finding[f];
  if (!race)
    return false;
  if (!has_access(line_text(run->text, race->file, race->line, line, sizeof line)) ||
      !has_access(line_text(run->text, race->other_file, race->other_line, line, sizeof line)))
    fail_msg("without the %s of %s:%d: no access stands on the line of '%s'", run->without->name, place->file,
             place->line, race->text);
  print_message("%s without %s:%d: %s\n", emu_check_title(&run->v->c, &run->v->config), place->file,
                place->line, race->text);
  return true;
}

/* In each kernel, whichever others have it too. */
static void every_barrier_is_missed(void **state)
{
  (void)state;
  static const char *const names[] = {"block_sync", "warp_sync"};
  static const char *const kernels[] = {"standard", "fa1", "fwd:Br64-Bc32-T128-R2-W4-s0",
                                        "fwd:Br64-Bc32-T128-R2-W4-s1"};
  for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    victim v = victim_of(kernels[i], MANY_TILES);
    call_count = 0;
    take_out(&v, names, 2, true, is_missed);
    all_were_missed(3);
    victim_free(&v);
  }
}

/* ---- other defects ---- */

/* Tiles that the window's left end cuts, some that it leaves free, some that its right end cuts. */
#define WINDOW "fwd-f32-b1-h2k1-q150-k170-d40-w140.9 all lay=padded"

/* Chunks whose ends lie amid tiles; the first rows stand at no key. */
#define CHUNKS "fwd-f32-b1-h2k1-q170-k150-d40-chunk40 all lay=padded"

/* Batches of several lengths, none that of the tensors. */
#define USED "fwd-f32-b3-h2k1-q90-k150-d40-used all lay=padded"

#define PREFIX "fwd-f32-b3-h2k1-q90-k150-d40-causal-prefix all lay=padded"

#define RAGGED "fwd-f32-b5-h2k1-q90-k150-d40-varlen all lay=padded"

#define GIVEN "fwd-f32-b2-h2k1-q90-k150-d40-iv all lay=padded"

#define BLOCKS     "fwd-f32-b2-h4k2-q90-k150-d40-bs32x32 all lay=padded"
#define BLOCKS_BWD "bwd-f32-b2-h4k2-q90-k150-d40-causal-bs32x24 all lay=padded"

static const defect defects[] = {
    /* masks and tiles */
    {"standard,fa1,fwd", "keep(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf()", "S.at[r][c]",
     MANY_TILES, WRONG, NULL, NULL},
    {"fwd", "keep(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf()", "S.at[r][c]",
     "fwd-f32-b1-h1-q20-k35-d40 all", WRONG, NULL, NULL},
    {"standard,fa1,fwd", "max(0, at.nk - behind)", "min(at.nk, i + 1)", MANY_TILES, WRONG, NULL, NULL},
    {"fwd", "max(0, at.nk - behind)", "max(0, at.nk - behind - 1)", MANY_TILES, WRONG, NULL, NULL},
    {"fwd", "top.hi / Bc", "(top.hi + 1) / Bc", "fwd-f32-b1-h1-q130-k160-d40-causal all", WRONG, NULL, NULL},
    {"fwd", "ceil_div(bottom.hi, Bc)", "bottom.hi / Bc", MANY_TILES, WRONG, NULL, NULL},
    {"fwd", "ceil_div(at.nk, Bc)", "at.nk / Bc", "fwd-f32-b1-h1-q20-k35-d40 all", WRONG, NULL, NULL},
    {"fa1", "j < visit.first || j >= visit.last", "j < visit.first || j >= visit.last - 1", MANY_TILES, WRONG,
     NULL, NULL},
    {"standard,fa1,fwd", "behind - a.R", "behind - a.R + 1", WINDOW, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "at.nk - 1 - a.L", "at.nk - a.L", WINDOW, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "ceil_div(bottom.lo, Bc)", "0", WINDOW, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "top.lo / Bc", "(top.lo / Bc + 1)", WINDOW, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "stands - stands % a.chunk", "stands", CHUNKS, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "first + min(a.chunk, at.nk - first)", "at.nk", CHUNKS, WRONG, NULL, NULL},
    {"fwd", "stands < 0 ?", "false ?", CHUNKS, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "at_most(a.used_k.data[my.b * a.used_k.b], nk)", "nk", USED, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "at_most(a.used_q.data[my.b * a.used_q.b], nq)", "nq", USED, WRONG, NULL, NULL},
    {"standard", "row * at.all_q", "row * at.nq", USED, WRONG, NULL, NULL},
    {"standard,fa1,fwd", " + i64(at.k0) * a.K.n", "", "fwd-f32-b3-h2k1-q90-k150-d40-lpad all", WRONG, NULL,
     NULL},
    {"standard,fa1,fwd", "max(at.prefix, max(0, at.nk - behind))", "max(0, at.nk - behind)", PREFIX, WRONG,
     NULL, NULL},
    {"fa1_bwd", "j < at.prefix ?", "false ?", "bwd-f32-b3-h2k1-q70-k59-d40-causal-prefix all", WRONG, NULL,
     NULL},
    {"standard,fa1,fwd", "my.k0 = cu_k[0];", "my.k0 = 0;", RAGGED, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "at_most(cu_q[a.cu_q.b] - my.q0, nq)", "nq", RAGGED, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "max(0, at.lo[row])", "0", GIVEN, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "x.hi_most = some ? max(x.hi_most, seen.hi) : x.hi_most;",
     "x.hi_most = some ? min(x.hi_most, seen.hi) : x.hi_most;", GIVEN, WRONG, NULL, NULL},
    {"fwd", "x.hi_least / Bc", "x.hi_most / Bc", "fwd-f32-b1-h1-q400-k400-d40-causal-iv all", WRONG, NULL,
     NULL},
    {"fa1_bwd", "last = some ? max(last, i + 1) : last;", "last = some ? max(last, 1) : last;",
     "bwd-f32-b2-h2k1-q90-k150-d40-iv all", WRONG, NULL, NULL},
    /* blocks: of the head, a tile of the list left out, one with some of them taken as whole, heads of a list
       of rows */
    {"standard,fa1,fwd", "at.h * a.blocks.h", "at.hk * a.blocks.h", BLOCKS, WRONG, NULL, NULL},
    {"fwd", "to[1] = whole + cut;", "to[1] = whole + max(cut - 1, 0);", BLOCKS, WRONG, NULL, NULL},
    {"fwd", "return all ? all_blocks : some ? some_blocks : no_block;",
     "return some ? all_blocks : no_block;", BLOCKS, WRONG, NULL, NULL},
    {"bwd", "list.add(x * Tr + i,", "list.add(i,", BLOCKS_BWD, WRONG, NULL, NULL},
    /* blocks within a tile: the last of a row, where one ends, whose they are where S is transposed */
    {"fwd", "across <= last", "across < last", BLOCKS, WRONG, NULL, NULL},
    {"fwd", "Acc::column(c) < behind", "true", "fwd-f32-b1-h2-q40-k90-d40-bs32x12 all", WRONG, NULL, NULL},
    {"bwd", "(transposed ? across : down[r])", "down[r]", BLOCKS_BWD, WRONG, NULL, NULL},
    {"bwd", "visit.room - 1 - (n - visit.whole)", "visit.room - 1", BLOCKS_BWD, WRONG, NULL, NULL},
    /* the online softmax */
    {"fwd", "scale_rows(O, f);", ";", MANY_TILES " data=rising", WRONG, NULL, NULL},
    {"fwd", "l = f * l;", ";", MANY_TILES " data=rising", WRONG, NULL, NULL},
    {"fa1", "scale_rows(O, f * l);", "scale_rows(O, l);", MANY_TILES " data=rising", WRONG, NULL, NULL},
    {"fa1", "f_ij = decay(m_ij, m_new, c)", "f_ij = rowvec<Br>(1.f)", MANY_TILES " data=falling", WRONG, NULL,
     NULL},
    {"standard", "scale_rows(P, end.factor);", ";", MANY_TILES, WRONG, NULL, NULL},
    {"fwd", "if (a.scale < 0.f) {", "if (false) {", MANY_TILES " scale=-0.3 data=large", WRONG, NULL, NULL},
    {"standard,fa1,fwd", "(c * m + lg2(l)) * ln2", "lg2(l) * ln2", MANY_TILES, WRONG, NULL, NULL},
    {"standard,fa1,fwd", "l == 0.f ? -minus_inf()", "l == 0.f ? minus_inf()",
     "fwd-f32-b1-h1-q70-k20-d40-causal all", WRONG, NULL, NULL},
    {"fwd", "l == 0.f ? 0.f : 1.f / l", "1.f / l", "fwd-f32-b1-h1-q70-k20-d40-causal all", WRONG, NULL, NULL},
    {"fwd", "return m == minus_inf() ? 0.f : m;", "return m;", "fwd-f32-b1-h1-q70-k20-d40-causal all", WRONG,
     NULL, NULL},
    /* indices */
    {"standard,fa1", "depart<D>(K, at.K, at.Kn, j * Bc, at.nk)",
     "depart<D>(K, at.K, at.Kn, j * Bc + 1, at.nk)", MANY_TILES, WRONG, NULL, NULL},
    {"fwd", "at.K, at.Kn, (j + 1) * Bc, at.nk)", "at.K, at.Kn, j * Bc, at.nk)", MANY_TILES, WRONG, NULL,
     NULL},
    {"fwd", "h / (a.h / a.hk)", "h % a.hk", "fwd-f32-b1-h4k2-q20-k35-d40 all", WRONG, NULL, NULL},
    {"fwd", "b * a.V.b", "b * a.K.b", "fwd-f32-b2-h1-q20-k35-d40v16 all lay=mixed", EMU_OUT_OF_BOUNDS,
     "templates/lib/simt.cuh", "(const vec *)(f.from"},
    {"standard,fa1,fwd", "if (i < f.n - f.i0 && column < f.d)", "if (i <= f.n - f.i0 && column < f.d)",
     MANY_TILES, EMU_OUT_OF_BOUNDS, "templates/lib/simt.cuh", "(const vec *)(f.from"},
    {"fwd", "if (i < f.n - f.i0 && column < f.d)", "if (i < f.n - f.i0)", MANY_TILES, EMU_OUT_OF_BOUNDS,
     "templates/lib/simt.cuh", "(const vec *)(f.from"},
    {"fwd", "Acc::row(r) < n - i0 && Acc::column(c) < Acc::columns)\n        *(vec *)",
     "Acc::row(r) < n + 1 - i0 && Acc::column(c) < Acc::columns)\n        *(vec *)", MANY_TILES,
     EMU_OUT_OF_BOUNDS, "templates/lib/simt.cuh", "*(vec *)(to.data"},
    {"fwd", "lane_of() == 0 && row_of<rows_>(r) < n - i0", "lane_of() == 0", MANY_TILES, EMU_OUT_OF_BOUNDS,
     "templates/lib/softmax.cuh", "to[i64(i0)"},
    {"fa1,fwd", "lane_of() == 0 && row_of<rows_>(r) < n - i0", "row_of<rows_>(r) < n - i0", MANY_TILES,
     EMU_RACE, "templates/lib/softmax.cuh", "to[i64(i0)"},
    {"standard", "store_scores(S, matrix_of(S_all, head, at), i * Br",
     "store_scores(S, matrix_of(S_all, head, at), Br", MANY_TILES, EMU_RACE, "templates/lib/simt.cuh",
     "*to = *from"},
    /* rows of V beyond the end must be zero: 0 x NaN is NaN */
    {"standard,fa1,fwd", "vec value = {};", "vec value = {}; if (i >= f.n - f.i0 || column >= f.d) continue;",
     MANY_TILES, EMU_UNINITIALISED, "templates/lib/simt.cuh", "row("},
    /* the backward: what is transposed, what is summed, what is scaled */
    {"fa1_bwd", "keep(by, u32(i0) + Acc::column(c)) && keep_from(by, u32(i0) + Acc::column(c))", "true",
     BACKWARD, WRONG, NULL, NULL},
    {"fa1_bwd", "if (u32(j) >= u32(at.nk))\n    return {0, 0};", "",
     "bwd-f32-b1-h1-q70-k1-d40 all data=large", WRONG, NULL, NULL},
    {"fa1_bwd", "max(0, at.nq - 1 - behind)", "max(0, at.nq - behind)", BACKWARD, WRONG, NULL, NULL},
    {"fa1_bwd", "head < first + group; head++) {\n      const place at = rows(a, head);\n      const spans",
     "head < first + 1; head++) {\n      const place at = rows(a, head);\n      const spans", BACKWARD, WRONG,
     NULL, NULL},
    {"fa1_bwd", "dP.at[r][c] - D.at[c]", "dP.at[r][c]", BACKWARD, WRONG, NULL, NULL},
    {"fa1_bwd", "scale_rows(dK, rowvec<Bc>(a.scale));", ";", BACKWARD, WRONG, NULL, NULL},
    {"fa1_bwd", "scale_rows(dQ, rowvec<Br>(a.scale));", ";", BACKWARD, WRONG, NULL, NULL},
    {"fa1_bwd", "store_sums(sums<Br, D>{}, {dQ_all + i64(head) * a.q * D, D}, i0, at.nq);", ";", BACKWARD,
     EMU_UNINITIALISED, "templates/lib/simt.cuh", "(const vec *)(from.data"},
    {"fa1_bwd", "mma_AB(dK, operand_of(S), Q);", "mma_AB(dK, operand_of(dP), Q);", BACKWARD, WRONG, NULL,
     NULL},
    {"fa1_bwd", "-log2e * L.at[x]", "-L.at[x]", BACKWARD, WRONG, NULL, NULL},
    /* threads that do not come */
    {"fwd", "sums<Br, Dv> O = {};", "sums<Br, Dv> O = {}; if (row_of<Br>(0) >= at.nq - i0) return;",
     MANY_TILES, EMU_DIVERGENT_BARRIER, "templates/fwd.cu", "block_sync();"},
    {"standard,fa1,fwd", "v.at[r] += shfl_xor(v.at[r], lanes);",
     "if (lane_of() != 3) v.at[r] += shfl_xor(v.at[r], lanes);", MANY_TILES, EMU_MISSING_LANES,
     "templates/lib/softmax.cuh", "shfl_xor"},
    /* a pointer that is aligned for less */
    {"fwd", "(elem *)a.V.data", "(elem *)a.V.data + 1", MANY_TILES, EMU_MISALIGNED, "templates/lib/simt.cuh",
     "(const vec *)(f.from"},
};

static void every_defect_is_found(void **state)
{
  (void)state;
  defects_are_found(defects, sizeof defects / sizeof *defects);
}

/* ---- recipes that promise too little ---- */

static void recipe_is_too_small(const char *kernel, const char *piece, const char *instead, const char *where)
{
  char why[512];
  int count;
  emu_report report;
  victim v = victim_of(kernel, MANY_TILES);
  char *recipe = spoiled(fat_text_get(&v.source.recipe), piece, instead, &count);
  if (count == 0)
    fail_msg("the recipe of %s has no '%s': %s", kernel, piece, fat_text_get(&v.source.recipe));
  run_spoiled(&v, fat_text_get(&v.source.text), recipe, &report, why, sizeof why);
  bool found = false;
  for (int f = 0; f < report.findings; f++)
    found = found || (report.finding[f].kind == EMU_OUT_OF_BOUNDS && strstr(report.finding[f].text, where));
  if (!found)
    fail_msg("%s with a recipe of '%s': %s", kernel, instead,
             report.findings ? report.finding[0].text : "no finding");
  free(recipe);
  victim_free(&v);
}

static void too_little_memory_is_found(void **state)
{
  (void)state;
  recipe_is_too_small("fwd", " shared ", " shared 0-16+", "shared memory");
  recipe_is_too_small("fa1", "workspace 8*b*h*q", "workspace 8*b*h*q-4", "workspace(");
  recipe_is_too_small("standard", "workspace 4*", "workspace 0-64+4*", "workspace");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_barrier_is_missed),
      cmocka_unit_test(every_defect_is_found),
      cmocka_unit_test(too_little_memory_is_found),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
