/* bench_run.c -- forward and backward of one setting, on the GPU at hand, in this process.
 *
 * In: a row with its parameters. Out: median seconds of each, and by how much the GPU's free memory sank. The
 * kernels are the stored ones where the database has some, else the defaults; a family's config is compiled
 * once for all sizes of a sweep. Tensors hold normal numbers; O and LSE are the forward's own. */
#include "bench_run.h"

#include "compile.h"
#include "launch.h"
#include "oracle/half.h"
#include "oracle/spots.h"
#include "search/fitting.h"
#include "source.h"
#include "usual.h"
#include "worker/timer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MADE = 64, SEED = 1 };
static const double seconds_each = 0.5; /* of samples, for each of forward and backward */
static const double compile_deadline = 300;

/* A config of a family, compiled and loaded. */
typedef struct made {
  char family[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
  fat_recipe recipe;
  fat_module *module;
} made;

struct fat_bench {
  const fat_options *options;
  const fat_asked_gpu *asked;
  fat_script *script;
  fat_nvrtc *nvrtc;
  fat_db *db; /* NULL: there is none */
  fat_driver *driver;
  fat_timer timer;
  float *block;
  made made[MADE];
  int count;
};

/* The kernel of an implementation for an op; NULL: what a call is given. ORDER IMPL, ORDER OP */
static const char *const kernels[FAT_IMPLS][FAT_OP_COUNT] = {
    {"standard", "standard_bwd"}, {"fa1", "fa1_bwd"}, {"fwd", "bwd"}, {NULL, NULL}, {NULL, NULL}};

/* -- what serves it */

static bool stored(fat_bench *b, const fat_problem *p, const char *kernel, fat_config *config)
{
  static fat_pick pick; /* large */
  fat_pick_rows rows = {0};
  fat_point point;
  const fat_pick_question question = {
      .problem = p, .gpu = &b->asked->gpu, .kernel = kernel, .near = true, .now = (int64_t)time(NULL)};
  bool found = b->db && fat_fitting_answer(b->db, b->script, &question, &rows, &pick, NULL) == FAT_OK &&
               pick.step < FAT_PICK_DEFAULT &&
               fat_config_parse(pick.row[pick.step].config, config, NULL) == FAT_OK &&
               fat_space_point(b->script, config, p, &b->asked->gpu, &point, NULL) == FAT_OK;
  fat_pick_rows_free(&rows);
  return found;
}

static fat_status choose(fat_bench *b, const fat_problem *p, const char *kernel, fat_config *config,
                         fat_error *err)
{
  fat_point point;
  int unasked;
  if (stored(b, p, kernel, config))
    return FAT_OK;
  FAT_TRY(fat_usual_find(b->script, kernel, p, &b->asked->gpu, true, &point, &unasked, err));
  *config = point.config;
  return FAT_OK;
}

static fat_status make(fat_bench *b, const fat_problem *p, const fat_config *config, made *m, fat_error *err)
{
  fat_source source;
  fat_binary binary;
  FAT_TRY(fat_source_render(b->script, p, &b->asked->gpu, config, FAT_LINES_TEMPLATE, &source, err));
  fat_status status =
      fat_compile(b->nvrtc, fat_text_get(&source.text), config->kernel,
                  fat_gpu_arch(b->asked->gpu.sm)->target, compile_deadline, NULL, &binary, err);
  if (status == FAT_OK)
    status = fat_recipe_parse(fat_text_get(&source.recipe), &m->recipe, err);
  if (status == FAT_OK)
    status = fat_module_load(b->driver, binary.cubin, binary.size, binary.hash, &m->module, err);
  fat_binary_free(&binary);
  fat_source_free(&source);
  return status;
}

/* The config of the row for an op, loaded; those made before are kept. */
static fat_status obtain(fat_bench *b, const fat_problem *p, fat_bench_row *row, made **found, fat_error *err)
{
  fat_config config;
  char family[FAT_PROBLEM_TEXT];
  char *text = row->config[p->op];
  FAT_TRY(choose(b, p, kernels[row->impl][p->op], &config, err));
  fat_config_print(&config, text);
  fat_problem_family(p, family);
  for (int i = 0; i < b->count; i++)
    if (strcmp(b->made[i].family, family) == 0 && strcmp(b->made[i].config, text) == 0) {
      *found = &b->made[i];
      return FAT_OK;
    }
  if (b->count == MADE) { /* a sweep over more families than that makes the first anew */
    fat_module_free(b->made[0].module);
    memmove(&b->made[0], &b->made[1], (MADE - 1) * sizeof b->made[0]);
    b->count--;
  }
  made *m = &b->made[b->count];
  memset(m, 0, sizeof *m);
  FAT_TRY(make(b, p, &config, m, err));
  snprintf(m->family, sizeof m->family, "%s", family);
  snprintf(m->config, sizeof m->config, "%s", text);
  b->count++;
  *found = m;
  return FAT_OK;
}

/* -- memory */

typedef struct room {
  fat_cuda_address at[FAT_TENSORS], workspace;
  fat_slot slot[FAT_TENSORS]; /* of the backward, which has the forward's tensors too */
} room;

static fat_status grab(fat_bench *b, int64_t bytes, fat_cuda_address *at, fat_error *err)
{
  return fat_driver_check(b->driver, "cuMemAlloc",
                          fat_driver_table(b->driver)->memory_alloc(at, (size_t)(bytes ? bytes : 1)), err);
}

/* The block's numbers, over and over; the first elements again are those of the block, so that no call costs
 * more than one block of host memory. */
static fat_status fill(fat_bench *b, const fat_slot *slot, fat_cuda_address at, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(b->driver);
  const int64_t span = fat_image_span(slot), block = (int64_t)FAT_SPOTS_BLOCK * slot->bytes;
  int64_t filled = span < block ? span : block;
  void *elements = malloc((size_t)block);
  if (!elements)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for random numbers");
  fat_half_store(slot->type, elements, b->block, FAT_SPOTS_BLOCK);
  fat_status status =
      fat_driver_check(b->driver, "cuMemcpyHtoD", cuda->copy_in(at, elements, (size_t)filled), err);
  free(elements);
  for (; filled < span && status == FAT_OK; filled *= 2)
    status =
        fat_driver_check(b->driver, "cuMemcpyDtoDAsync",
                         cuda->copy_async(at + (fat_cuda_address)filled, at,
                                          (size_t)(span - filled < filled ? span - filled : filled), NULL),
                         err);
  return status;
}

static fat_status furnish(fat_bench *b, const fat_problem *backward, int64_t workspace, room *r,
                          fat_error *err)
{
  fat_image_place(backward, FAT_BHSD, false, 0, r->slot);
  for (int t = 0; t < FAT_TENSORS; t++) {
    if (r->slot[t].role == FAT_ROLE_NONE)
      continue;
    FAT_TRY(grab(b, fat_image_span(&r->slot[t]), &r->at[t], err));
    if (r->slot[t].role == FAT_ROLE_IN)
      FAT_TRY(fill(b, &r->slot[t], r->at[t], err));
  }
  return workspace ? grab(b, workspace, &r->workspace, err) : FAT_OK;
}

static void clear(fat_bench *b, room *r)
{
  const fat_cuda_calls *cuda = fat_driver_table(b->driver);
  for (int t = 0; t < FAT_TENSORS; t++)
    if (r->at[t])
      cuda->memory_free(r->at[t]);
  if (r->workspace)
    cuda->memory_free(r->workspace);
}

static fat_call call_of(const fat_problem *p, const room *r)
{
  fat_call c = {.scale = (float)(1 / sqrt((double)p->d))};
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_role(p, t) != FAT_ROLE_NONE) {
      c.tensor[t].data = (void *)(uintptr_t)r->at[t];
      memcpy(c.tensor[t].stride, r->slot[t].stride, sizeof c.tensor[t].stride);
    }
  return c;
}

/* -- time */

typedef struct work {
  fat_bench *bench;
  fat_launch launch;
  fat_call call;
  fat_cuda_address workspace;
} work;

static fat_status queue(void *user, int turn, fat_error *err)
{
  const work *w = user;
  (void)turn;
  return fat_launch_run(w->bench->driver, &w->launch, &w->call, w->workspace, NULL, err);
}

static fat_status take_time(work *w, double *seconds, fat_error *err)
{
  static fat_timing timing; /* large */
  const fat_runner runner = {queue, w};
  double probe;
  FAT_TRY(fat_timer_probe(&w->bench->timer, &runner, &probe, err));
  FAT_TRY(fat_timer_run(&w->bench->timer, &runner, &probe, 1, seconds_each, FAT_TIMER_LEAST, &timing, err));
  *seconds = timing.median / 1e3;
  return FAT_OK;
}

static fat_status measure(fat_bench *b, fat_bench_row *row, room *r, fat_error *err)
{
  static work w[FAT_OP_COUNT]; /* large */
  const fat_cuda_calls *cuda = fat_driver_table(b->driver);
  size_t before, after, total;
  int64_t workspace = 0;
  fat_problem p[FAT_OP_COUNT];
  made *m;
  for (int op = 0; op < FAT_OP_COUNT; op++) {
    FAT_TRY(fat_bench_problem(row, (fat_op)op, &p[op], err));
    FAT_TRY(obtain(b, &p[op], row, &m, err));
    FAT_TRY(fat_launch_prepare(&m->recipe, &p[op], b->asked->gpu.sms, m->module, &w[op].launch, err));
    workspace = w[op].launch.workspace > workspace ? w[op].launch.workspace : workspace;
  }
  FAT_TRY(fat_driver_check(b->driver, "cuMemGetInfo", cuda->memory_info(&before, &total), err));
  FAT_TRY(furnish(b, &p[FAT_BWD], workspace, r, err));
  for (int op = 0; op < FAT_OP_COUNT; op++) {
    w[op].bench = b;
    w[op].call = call_of(&p[op], r);
    w[op].workspace = r->workspace;
    FAT_TRY(take_time(&w[op], &row->seconds[op], err));
  }
  FAT_TRY(fat_driver_check(b->driver, "cuMemGetInfo", cuda->memory_info(&after, &total), err));
  row->mb = before > after ? (double)(before - after) / 1048576 : 0;
  return FAT_OK;
}

/* What spoils one row only. */
static bool is_its_own(fat_status status)
{
  static const fat_status own[] = {FAT_E_UNSUPPORTED,   FAT_E_COMPILE, FAT_E_TIMEOUT,
                                   FAT_E_DEVICE_MEMORY, FAT_E_LAUNCH,  FAT_E_IMAGE};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (status == own[i])
      return true;
  return false;
}

fat_status fat_bench_measure(fat_bench *bench, fat_bench_row *row, fat_error *err)
{
  room r = {0};
  fat_error why = {0};
  fat_status status = measure(bench, row, &r, &why);
  clear(bench, &r);
  if (is_its_own(status)) {
    snprintf(row->failed, sizeof row->failed, "%.500s", why.text);
    return FAT_OK;
  }
  return status == FAT_OK ? FAT_OK : fat_status_fail(err, status, "%s", why.text);
}

/* -- opening */

static fat_status open_device(fat_bench *b, fat_error *err)
{
  int device;
  void *context;
  FAT_TRY(fat_driver_open(&b->driver, err));
  const fat_cuda_calls *cuda = fat_driver_table(b->driver);
  FAT_TRY(fat_driver_check(b->driver, "cuDeviceGet", cuda->device(&device, b->asked->ordinal), err));
  FAT_TRY(
      fat_driver_check(b->driver, "cuDevicePrimaryCtxRetain", cuda->primary_retain(&context, device), err));
  FAT_TRY(fat_driver_check(b->driver, "cuCtxSetCurrent", cuda->context_set(context), err));
  return fat_timer_open(b->driver, &b->timer, err);
}

fat_status fat_bench_open(const fat_options *options, const fat_asked_gpu *asked, fat_bench **bench,
                          fat_error *err)
{
  fat_text path = {0};
  fat_bench *b = *bench = calloc(1, sizeof *b);
  if (!b || !(b->block = fat_spots_block(SEED)))
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a bench");
  b->options = options;
  b->asked = asked;
  FAT_TRY(fat_open_script(options, &b->script, err));
  FAT_TRY(fat_open_compiler(options, asked, &b->nvrtc, err));
  fat_status status = fat_open_db_if_any(options, &b->db, &path, err);
  fat_text_free(&path);
  FAT_TRY(status);
  return open_device(b, err);
}

void fat_bench_close(fat_bench *bench)
{
  if (!bench)
    return;
  for (int i = 0; i < bench->count; i++)
    fat_module_free(bench->made[i].module);
  if (bench->driver) {
    fat_timer_close(&bench->timer);
    fat_driver_close(bench->driver);
  }
  fat_db_close(bench->db);
  fat_nvrtc_close(bench->nvrtc);
  fat_script_close(bench->script);
  free(bench->block);
  free(bench);
}
