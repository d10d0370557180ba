/* attention.c -- lays out one attention call in the emulator's memory, runs a kernel on it, reads the result.
 *
 * Everything that is no element of a tensor is NaN and closed, O and LSE are NaN before the run. */
#include "attention.h"
#include "call_old.h"
#include "half.h"
#include "width.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fat_status emu_kernel_render(fat_script *script, const fat_problem *p, const fat_gpu *gpu,
                             const fat_config *config, fat_source *source, fat_error *err)
{
  return fat_source_render(script, p, gpu, config, FAT_LINES_TEMPLATE, source, err);
}

fat_status emu_kernel_load(const char *text, const char *recipe, const fat_config *config, emu_kernel *kernel,
                           fat_error *err)
{
  *kernel = (emu_kernel){0};
  FAT_TRY(fat_recipe_parse(recipe, &kernel->recipe, err));
  kernel->config = *config;
  return emu_module_load(text, &kernel->module, err);
}

void emu_kernel_free(emu_kernel *kernel)
{
  emu_module_free(kernel->module);
  kernel->module = NULL;
}

/* What all tensors of a call have in common. */
typedef struct laying {
  emu_lay lay;
  int element, unit; /* bytes: of an element; of what strides and addresses are multiples of */
} laying;

/* Strides of a tensor of b batches, h heads, n rows, d columns. `which` counts the tensors of a call. */
static emu_layout lay_out(const char *name, const laying *how, int which, int64_t b, int64_t h, int64_t n,
                          int64_t d)
{
  emu_layout l = {name, {b, h, n, d}, {h * n * d, n * d, d, 1}, how->element, 0};
  emu_lay lay = how->lay;
  const int W = how->unit / how->element;
  if (lay == EMU_MIXED)
    lay = (emu_lay)((which + 1) % 3);
  if (lay == EMU_BSHD) {
    l.stride[0] = n * h * d;
    l.stride[1] = d;
    l.stride[2] = h * d;
  } else if (lay == EMU_PADDED) {
    l.stride[2] = d + (1 + which) * W;
    l.stride[1] = n * l.stride[2] + 3 * W;
    l.stride[0] = h * l.stride[1] + 5 * W;
    l.shift = how->unit;
  } else if (lay == EMU_FAR) {
    /* Half of the tensors have far rows, the others far heads and batches. */
    int64_t far = INT64_C(1) << 31, rows = n > 1 ? n - 1 : 1;
    if (which % 2)
      l.stride[2] = (far / rows + d) / 8 * 8 + 8;
    else
      l.stride[1] = h > 1 ? far / (h - 1) / 8 * 8 + n * d : n * d;
    l.stride[0] = b > 1 ? far / (b - 1) / 8 * 8 + 64 + l.stride[1] : l.stride[0];
    if (which % 2) {
      l.stride[1] = d;
      l.stride[0] = h * d;
    }
  }
  return l;
}

/* Copies rows between a packed array and a tensor. */
static void move(fat_dtype type, const emu_layout *l, char *data, float *packed, bool in)
{
  for (int64_t b = 0; b < l->size[0]; b++)
    for (int64_t h = 0; h < l->size[1]; h++)
      for (int64_t n = 0; n < l->size[2]; n++) {
        char *row = data + (b * l->stride[0] + h * l->stride[1] + n * l->stride[2]) * l->element;
        float *flat = packed + ((b * l->size[1] + h) * l->size[2] + n) * l->size[3];
        if (in)
          fat_half_store(type, row, flat, l->size[3]);
        else
          fat_half_load(type, flat, row, l->size[3]);
      }
}

static tensor argument(const emu_layout *l, void *data)
{
  return (tensor){data, l->stride[0], l->stride[1], l->stride[2]};
}

enum { Q, K, V, O, LSE, TENSORS };

static void all_layouts(const emu_case *c, const fat_config *config, emu_layout l[TENSORS])
{
  const fat_problem *p = &c->problem;
  const int element = fat_dtypes[p->dtype].bytes;
  const laying how = {c->lay, element, (int)fat_width_alignment(config, element)};
  l[Q] = lay_out("Q", &how, 0, p->b, p->h, p->q, p->d);
  l[K] = lay_out("K", &how, 1, p->b, p->hk, p->k, p->d);
  l[V] = lay_out("V", &how, 2, p->b, p->hk, p->k, p->dv);
  l[O] = lay_out("O", &how, 3, p->b, p->h, p->q, p->dv);
  int64_t pad = c->lay == EMU_PADDED ? 5 : 0;
  l[LSE] = (emu_layout){"LSE", {p->b, p->h, p->q, 1}, {p->h * (p->q + pad), p->q + pad, 1, 1}, 4, 0};
}

fat_status emu_attention_run(emu *e, const emu_kernel *kernel, const emu_case *c, const emu_truth *t,
                             const emu_options *options, emu_result *r, fat_error *err)
{
  const fat_problem *p = &c->problem;
  emu_layout l[TENSORS];
  char *data[TENSORS] = {NULL};
  float *packed[3] = {t->q, t->k, t->v};
  *r = (emu_result){.stored = fat_reference_stores(kernel->config.kernel)};
  all_layouts(c, &kernel->config, l);
  emu_reset(e);
  for (int i = 0; i < (c->no_lse ? LSE : TENSORS); i++) {
    data[i] = emu_tensor(e, &l[i]);
    if (!data[i])
      return fat_status_fail(err, FAT_E_NOMEM, "no room for tensor %s", l[i].name);
    if (i <= V) {
      move(p->dtype, &l[i], data[i], packed[i], true);
      emu_filled(e, data[i]);
    }
  }
  call a = {.Q = argument(&l[Q], data[Q]),
            .K = argument(&l[K], data[K]),
            .V = argument(&l[V], data[V]),
            .O = argument(&l[O], data[O]),
            .LSE = {(float *)(void *)data[LSE], l[LSE].stride[0], l[LSE].stride[1]},
            .b = (i32)p->b,
            .h = (i32)p->h,
            .hk = (i32)p->hk,
            .q = (i32)p->q,
            .k = (i32)p->k,
            .scale = c->scale};
  const fat_sizes sizes = fat_recipe_sizes(p, c->sms);
  FAT_TRY(emu_run(e, kernel->module, &kernel->recipe, &sizes, &a, sizeof a, options, &r->report, err));
  int64_t rows = p->b * p->h * p->q;
  r->o = malloc((size_t)(rows * p->dv) * sizeof *r->o);
  r->lse = c->no_lse ? NULL : malloc((size_t)rows * sizeof *r->lse);
  if (!r->o || (!r->lse && !c->no_lse)) {
    emu_result_free(r);
    return fat_status_fail(err, FAT_E_NOMEM, "no memory for a result");
  }
  move(p->dtype, &l[O], data[O], r->o, false);
  if (r->lse)
    move(FAT_F32, &l[LSE], data[LSE], r->lse, false);
  return FAT_OK;
}

void emu_result_free(emu_result *r)
{
  free(r->o);
  free(r->lse);
  r->o = r->lse = NULL;
}

/* The worst element of one output; false where one is too far off, is NaN, or is finite where it may not be.
 */
static bool near(const char *name, const double *right, const float *got, int64_t count, int64_t width,
                 const emu_case *c, double allowed, char *why, size_t room)
{
  int64_t worst = -1;
  double most = allowed;
  for (int64_t i = 0; i < count; i++) {
    bool special = !isfinite(right[i]) || isnan(got[i]);
    double off = special ? ((double)got[i] == right[i] ? 0 : INFINITY) : fabs((double)got[i] - right[i]);
    if (off > most) {
      most = off;
      worst = i;
    }
  }
  if (worst < 0)
    return true;
  int64_t row = worst / width;
  snprintf(
      why, room,
      "%s[batch %lld, head %lld, row %lld, column %lld] is %.9g, right is %.9g: off by %.3g, allowed %.3g",
      name, (long long)(row / c->problem.q / c->problem.h), (long long)(row / c->problem.q % c->problem.h),
      (long long)(row % c->problem.q), (long long)(worst % width), (double)got[worst], right[worst], most,
      allowed);
  return false;
}

bool emu_attention_right(const emu_case *c, const emu_truth *t, const emu_result *r, char *why, size_t room)
{
  const fat_problem *p = &c->problem;
  int64_t rows = p->b * p->h * p->q;
  return near("O", t->o, r->o, rows * p->dv, p->dv, c, t->allowed_o, why, room) &&
         (!r->lse || near("LSE", t->lse, r->lse, rows, 1, c,
                          r->stored ? t->allowed_lse_stored : t->allowed_lse, why, room));
}
