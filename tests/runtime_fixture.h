/* runtime_fixture.h -- what the runtime's tests share: the fake driver, a database with code that it loads,
 * and attention calls in its memory, compared with the reference in double.
 *
 * Kernels are rendered from the templates; their cubins are made without a compiler, and a launch computes
 * what the source's family says (FAKE_REFERENCE). */
#ifndef FAT_TESTS_RUNTIME_FIXTURE_H
#define FAT_TESTS_RUNTIME_FIXTURE_H

#include "arguments.h"
#include "db_fixture.h"
#include "fake/bench.h"
#include "fatune.h"
#include "folder.h"
#include "oracle/half.h"
#include "recipe.h"
#include "oracle/whole.h"
#include "source.h"
#include "space.h"
#include "tensors.h"

#define ASKED  "fwd-f32-b2-h4k2-q33-k65-d64-causal"
#define NEAR   "fwd-f32-b2-h4k2-q64-k64-d64-causal"
#define WIDE   "fwd:Br64-Bc32-T128-R4-W4-s1"
#define NARROW "fwd:Br64-Bc32-T128-R4-W1-s1"

static fake_bench bench;
static folder files;
static fat_script *script;
static char path[300];
#define cu (bench.cu)

static inline int group_open(void **state)
{
  (void)state;
  setenv("FATUNE_LIBCUDA", FAKE_DRIVER, 1);
  files = folder_make();
  snprintf(path, sizeof path, "%s/fatune.db", files.path);
  MUST(fat_script_open(NULL, &script, err));
  return 0;
}

static inline int group_close(void **state)
{
  (void)state;
  fat_script_close(script);
  folder_remove(&files);
  return 0;
}

/* A H200 with a context, no database, no fault. */
static inline int begin(void **state)
{
  (void)state;
  unlink(path);
  setenv("FATUNE_DB", path, 1);
  setenv("FATUNE_SYSTEM_DB", "", 1);
  unsetenv("FATUNE_JIT");
  unsetenv("FATUNE_DISABLE_JIT");
  fake_bench_clean(&bench, "H200,T4");
  fake_bench_begin(&bench, 90);
  cu.fake_compute(FAKE_REFERENCE);
  cu.fake_sources(files.path);
  return 0;
}

/* -- what is stored */

/* A rendered source, where the fake driver finds it. */
static inline void show_source(const fat_source *source)
{
  char name[64];
  snprintf(name, sizeof name, "%.16s.cu", source->hash);
  folder_write(&files, name, fat_text_get(&source->text));
}

/* Bytes of the struct that kernels of a problem take. */
static inline size_t call_bytes(const fat_problem *p)
{
  fat_call_layout layout;
  fat_tensors_layout(p, &layout);
  return (size_t)layout.bytes;
}

/* One entry for each launch of a recipe; a cubin without code. `p` NULL: of a plain forward. */
static inline void *cubin_of(const char *recipe_text, const fat_problem *p, int sm, size_t *size)
{
  static const fat_problem plain;
  static fat_recipe recipe;
  fake_kernel kernels[FAT_RECIPE_STEPS] = {0};
  int count = 0;
  MUST(fat_recipe_parse(recipe_text, &recipe, err));
  for (int i = 0; i < recipe.steps; i++) {
    const fat_step *s = &recipe.step[i];
    if (s->kind != FAT_STEP_LAUNCH)
      continue;
    kernels[count] = (fake_kernel){.name = s->entry, .registers = 64, .params = s->args};
    for (int a = 0; a < s->args; a++)
      kernels[count].size[a] = (int)argument_size(s->arg[a].kind, call_bytes(p ? p : &plain));
    count++;
  }
  return cu.fake_cubin(sm, count, kernels, size);
}

static inline void *cubin_for(const char *recipe_text, int sm, size_t *size)
{
  return cubin_of(recipe_text, NULL, sm, size);
}

typedef struct stored {
  const char *problem, *gpu, *config;
  fat_origin origin;
  double ms;
  bool no_cubin;    /* source and recipe alone */
  bool no_content;  /* not even those */
  int sm;           /* of the cubin; 0: the GPU's */
  int maps;         /* the kernel takes so many tensor maps too, behind its other arguments */
  const char *into; /* NULL: the user's database */
  const char *twin_of;
  const char *valid; /* NULL, or a line `valid` that its recipe begins with */
} stored;

static inline void add_maps(fat_text *recipe, int count)
{
  static const char *const maps[] = {"mapQ(64)", "mapK(32)", "mapV(32)", "mapO(64)"};
  fat_text more = {0};
  fat_text_add_bytes(&more, recipe->data, recipe->length - 1); /* up to the end of its line */
  for (int i = 0; i < count; i++)
    fat_text_format(&more, " %s", maps[i]);
  fat_text_add(&more, "\n");
  fat_text_free(recipe);
  *recipe = more;
}

static inline void add_valid(fat_text *recipe, const char *valid)
{
  fat_text more = {0};
  fat_text_format(&more, "valid %s\n", valid);
  fat_text_add(&more, fat_text_get(recipe));
  fat_text_free(recipe);
  *recipe = more;
}

/* Stores a trial with its code, as the tuner would. */
static inline void store(stored s)
{
  fat_db *db = NULL;
  fat_source source;
  char cubin_hash[FAT_HASH_SIZE];
  double samples[] = {s.ms}, clocks[] = {1500};
  fat_trial t = fixture_trial(s.problem, s.gpu, s.config, s.ms);
  size_t size = 0;
  MUST(fat_source_render(script, &t.problem, &t.gpu, &t.config, FAT_LINES_TEMPLATE, &source, err));
  show_source(&source);
  if (s.maps)
    add_maps(&source.recipe, s.maps);
  if (s.valid)
    add_valid(&source.recipe, s.valid);
  void *cubin = cubin_of(fat_text_get(&source.recipe), &t.problem, s.sm ? s.sm : t.gpu.sm, &size);
  fat_text_hash(cubin, size, cubin_hash);
  t.source_hash = source.hash;
  t.origin = s.origin;
  t.twin_of = s.twin_of;
  t.eligible = strncmp(s.config, "fwd", 3) == 0;
  if (s.origin == FAT_MEASURED) {
    t.driver = "580.1";
    t.samples = samples;
    t.clocks = clocks;
    t.sample_count = 1;
    t.p20 = t.p80 = s.ms;
    t.clock_mhz = 1500;
  }
  fat_artifact a = {.source = fat_text_get(&source.text),
                    .recipe = fat_text_get(&source.recipe),
                    .cubin = s.no_cubin ? NULL : cubin,
                    .cubin_size = s.no_cubin ? 0 : size,
                    .cubin_hash = s.no_cubin ? NULL : cubin_hash,
                    .target = fat_gpu_arch(t.gpu.sm)->target};
  MUST(fat_db_open(s.into ? s.into : path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_put(db, &t, s.no_content ? NULL : &a, err));
  fat_db_close(db);
  fat_source_free(&source);
  free(cubin);
}

/* The measured winner of ASKED on a H200, and its twin. */
static inline void store_usual(void)
{
  store((stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  store((stored){.problem = ASKED, .gpu = "H200", .config = NARROW, .ms = 2, .origin = FAT_MEASURED});
}

/* Whether a tune has come to a kernel with code for the problem. On a busy machine its budget may end before;
 * the same command goes on from there, FIXTURE_TUNES times at most. */
enum { FIXTURE_TUNES = 8 };
static inline bool has_winner(const char *problem, const char *gpu)
{
  fat_db *db = NULL;
  fat_best best = {0};
  fat_problem p;
  MUST(fat_problem_parse(problem, &p, err));
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  bool found = fat_db_best(db, &p, fixture_gpu(gpu), NULL, true, &best, NULL) == FAT_OK && best.cubin;
  fat_db_best_free(&best);
  fat_db_close(db);
  return found;
}

/* -- handles and plans */

#define MUST_RUN(call)                                                                                       \
  do {                                                                                                       \
    if ((call) != FATUNE_OK)                                                                                 \
      fail_msg("%s: %s", #call, fatune_detail());                                                            \
  } while (0)

/* Fails with this status, and says a sentence with this word. */
#define EXPECT(status, word, call)                                                                           \
  do {                                                                                                       \
    fatune_status got_ = (call);                                                                             \
    if (got_ != (status))                                                                                    \
      fail_msg("%s: '%s', expected '%s': %s", #call, fatune_status_text(got_), fatune_status_text(status),   \
               fatune_detail());                                                                             \
    if (!strstr(fatune_detail(), word))                                                                      \
      fail_msg("%s: '%s' does not say '%s'", #call, fatune_detail(), word);                                  \
  } while (0)

static inline fatune *open_usual(void)
{
  fatune *h = NULL;
  MUST_RUN(fatune_open(NULL, &h));
  return h;
}

static inline fatune_request request_of(const char *problem, fatune_policy policy)
{
  return (fatune_request){.size = sizeof(fatune_request), .problem = problem, .policy = policy};
}

static inline fatune_plan *plan_of(fatune *h, const char *problem)
{
  fatune_plan *plan = NULL;
  fatune_request r = request_of(problem, FATUNE_FALLBACK);
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  return plan;
}

/* What fatune_supported promises, kept; `kernel` NULL: none is asked for. */
static inline fatune_plan *plan_for(fatune *h, const char *problem, const char *kernel, fatune_policy policy)
{
  fatune_plan *plan = NULL;
  fatune_request r = request_of(problem, policy);
  r.kernel = kernel;
  MUST_RUN(fatune_supported(h, &r));
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  return plan;
}

/* Whether fatune_describe has the line `name value...` with this beginning. */
static inline void describes(const fatune_plan *plan, const char *line)
{
  char start[FAT_CONFIG_TEXT + 64];
  snprintf(start, sizeof start, "\n%s", line);
  if (!strstr(fatune_describe(plan), start) && strncmp(fatune_describe(plan), line, strlen(line)) != 0)
    fail_msg("no line '%s' in\n%s", line, fatune_describe(plan));
}

/* Shows the source of the config in the line `name` of a plan for `problem`: what was compiled on demand
 * computes only then. */
static inline void give_source(const fatune_plan *plan, const char *problem, const char *name)
{
  char start[32], config[FAT_CONFIG_TEXT];
  fat_source source;
  snprintf(start, sizeof start, "\n%s ", name);
  const char *at = strstr(fatune_describe(plan), start);
  assert_non_null(at);
  at += strlen(start);
  snprintf(config, sizeof config, "%.*s", (int)strcspn(at, "\n"), at);
  fat_trial t = fixture_trial(problem, "H200", config, 1);
  MUST(fat_source_render(script, &t.problem, &t.gpu, &t.config, FAT_LINES_TEMPLATE, &source, err));
  show_source(&source);
  fat_source_free(&source);
}

/* -- an attention call in device memory */

typedef struct attention {
  fat_problem p;
  fatune_tensor Q, K, V, O, LSE;
  fatune_tensors all;
  void *workspace;
  float *q, *k, *v; /* packed, as the tensors' type holds them */
  int64_t pad;      /* elements behind each row */
} attention;

static inline void *device_memory(size_t bytes)
{
  fat_cuda_address a = 0;
  assert_int_equal(cu.cuMemAlloc_v2(&a, bytes ? bytes : 1), 0);
  return (void *)(uintptr_t)a;
}

static inline float *random_numbers(fat_dtype type, int64_t count, unsigned seed)
{
  float *x = malloc((size_t)(count + 1) * sizeof *x);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = fat_half_round(type, (float)(seed >> 8) / (float)(1 << 23) - 1);
  }
  return x;
}

/* A tensor whose rows have `pad` elements behind them and which begins `off` elements into its memory. */
static inline fatune_tensor upload(fat_dtype type, const float *from, int64_t b, int64_t h, int64_t n,
                                   int64_t d, int64_t pad, int64_t off)
{
  float elements[FAT_PROBLEM_DV_MAX];
  int64_t row = d + pad, bytes = fat_dtypes[type].bytes;
  char *at = (char *)device_memory((size_t)((b * h * n * row + off) * bytes)) + off * bytes;
  for (int64_t i = 0; from && i < b * h * n; i++) {
    fat_half_store(type, elements, from + i * d, d);
    assert_int_equal(cu.cuMemcpyHtoD_v2((uintptr_t)(at + i * row * bytes), elements, (size_t)(d * bytes)), 0);
  }
  return (fatune_tensor){at, {h * n * row, n * row, row}};
}

static inline attention attention_make(const char *problem, int64_t pad, int64_t off)
{
  attention a = {.pad = pad};
  MUST(fat_problem_parse(problem, &a.p, err));
  const fat_problem *p = &a.p;
  a.q = random_numbers(p->dtype, p->b * p->h * p->q * p->d, 1);
  a.k = random_numbers(p->dtype, p->b * p->hk * p->k * p->d, 2);
  a.v = random_numbers(p->dtype, p->b * p->hk * p->k * p->dv, 3);
  a.Q = upload(p->dtype, a.q, p->b, p->h, p->q, p->d, pad, off);
  a.K = upload(p->dtype, a.k, p->b, p->hk, p->k, p->d, pad, off);
  a.V = upload(p->dtype, a.v, p->b, p->hk, p->k, p->dv, pad, off);
  a.O = upload(p->dtype, NULL, p->b, p->h, p->q, p->dv, pad, off);
  a.LSE = upload(FAT_F32, NULL, p->b, p->h, p->q + 1, 1, 0, off); /* with room to move it by a float */
  a.LSE.stride[0] = p->h * p->q;
  a.LSE.stride[1] = p->q;
  return a;
}

static inline const fatune_tensors *tensors_of(attention *a)
{
  a->all = (fatune_tensors){
      .size = sizeof a->all, .Q = &a->Q, .K = &a->K, .V = &a->V, .O = &a->O, .LSE = &a->LSE, .scale = 0.125f};
  return &a->all;
}

/* O and LSE are what the reference in double says. */
static inline void is_right(const attention *a)
{
  const fat_problem *p = &a->p;
  int64_t rows = p->b * p->h * p->q;
  double *o = malloc((size_t)(rows * p->dv + 1) * sizeof *o), *lse = malloc((size_t)(rows + 1) * sizeof *lse);
  double near = fat_dtypes[p->dtype].bytes == 2 ? 1e-2 : 1e-5; /* O is rounded to the tensors' type */
  int64_t bytes = fat_dtypes[p->dtype].bytes;
  float *row = malloc((size_t)p->dv * sizeof *row), elements[FAT_PROBLEM_DV_MAX], value;
  const fat_reference_inputs in = {.of = {[FAT_Q] = a->q, [FAT_K] = a->k, [FAT_V] = a->v}, .scale = 0.125f};
  double *right[FAT_TENSORS] = {[FAT_O] = o, [FAT_LSE] = lse};
  assert_true(o && lse && row && fat_whole_double(p, &in, right));
  for (int64_t i = 0; i < rows; i++) {
    const char *at = (const char *)a->O.data + i * a->O.stride[2] * bytes;
    assert_int_equal(cu.cuMemcpyDtoH_v2(elements, (uintptr_t)at, (size_t)(p->dv * bytes)), 0);
    fat_half_load(p->dtype, row, elements, p->dv);
    for (int64_t j = 0; j < p->dv; j++)
      if (!(fabs(row[j] - o[i * p->dv + j]) < near))
        fail_msg("O[%ld][%ld] is %g, not %g", (long)i, (long)j, (double)row[j], o[i * p->dv + j]);
    assert_int_equal(cu.cuMemcpyDtoH_v2(&value, (uintptr_t)((float *)a->LSE.data + i), sizeof value), 0);
    if (!(value == lse[i] || fabs(value - lse[i]) < 1e-5))
      fail_msg("LSE[%ld] is %g, not %g", (long)i, (double)value, lse[i]);
  }
  free(o);
  free(lse);
  free(row);
}

static inline void attention_free(attention *a)
{
  free(a->q);
  free(a->k);
  free(a->v);
}

/* One call of packed tensors that begin `off` elements into their memory gives what is right. */
static inline void computes(const fatune_plan *plan, const char *problem, int64_t off)
{
  size_t bytes = 0;
  attention a = attention_make(problem, 0, off);
  MUST_RUN(fatune_workspace(plan, NULL, &bytes));
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, bytes ? device_memory(bytes) : NULL, NULL));
  is_right(&a);
  attention_free(&a);
}

#endif
