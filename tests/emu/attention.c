/* attention.c -- lays out one attention call in the emulator's memory, runs a kernel on it, reads the result.
 *
 * Everything that is no element of a tensor is NaN and closed, and outputs are NaN before the run. */
#include "attention.h"
#include "oracle/half.h"
#include "width.h"
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

/* Half of the tensors have far rows, the others far heads and batches. */
static void lay_far(int t, const int64_t size[EMU_DIMS], int64_t stride[EMU_DIMS])
{
  const int64_t far = INT64_C(1) << 31, b = size[0], h = size[1], n = size[2], d = size[3];
  const int64_t rows = n > 1 ? n - 1 : 1;
  if (t % 2) {
    stride[2] = (far / rows + d) / 8 * 8 + 8;
    stride[1] = d;
    stride[0] = h * d;
  } else {
    stride[1] = h > 1 ? far / (h - 1) / 8 * 8 + n * d : n * d;
    stride[0] = b > 1 ? far / (b - 1) / 8 * 8 + 64 + stride[1] : n * h * d;
  }
}

static emu_layout lay_out(const emu_case *c, const fat_config *config, int t)
{
  const fat_problem *p = &c->problem;
  const int element = fat_dtypes[fat_tensors_dtype(p, t)].bytes;
  const int wide = fat_dtypes[p->dtype].bytes;
  /* rows of biases may begin anywhere */
  const int unit = t == FAT_BIASES && element == wide ? wide : (int)fat_width_alignment(config, wide);
  const fat_extent e = fat_tensors_extent(p, t);
  /* rows are contiguous, and never far */
  const bool row = fat_tensors[t].width == FAT_WIDE_1 || fat_tensors[t].side == FAT_OF_CALL ||
                   fat_tensors[t].side == FAT_OF_TABLE;
  emu_layout l = {.name = fat_tensors[t].name, .element = element};
  emu_lay lay = c->lay == EMU_MIXED ? (emu_lay)((t + 1) % 3) : c->lay;
  memcpy(l.size, e.size, sizeof e.size);
  fat_truth_lay(p, t, lay == EMU_FAR ? FAT_BHSD : (fat_lay)lay, unit / wide, l.stride);
  l.stride[3] = 1;
  if (lay == EMU_PADDED && !row)
    l.shift = unit;
  if (lay == EMU_FAR && !row)
    lay_far(t, l.size, l.stride);
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

/* Places tensors: `data` gets where each lies, `call` what the kernel is given. */
static fat_status place(emu *e, const emu_kernel *kernel, const emu_case *c, const fat_truth *t,
                        emu_layout l[FAT_TENSORS], fat_call *call, fat_error *err)
{
  const fat_problem *p = &c->problem;
  *call = (fat_call){.scale = c->scale};
  fat_tensors_usual(call->scalar);
  for (int i = 0; i < FAT_TENSORS; i++) {
    const fat_role role = fat_tensors_role(p, i);
    if (role == FAT_ROLE_NONE || (c->no_lse && (role == FAT_ROLE_WANTED || role == FAT_ROLE_ASIDE)))
      continue;
    l[i] = lay_out(c, &kernel->config, i);
    fat_view *view = &call->tensor[i];
    view->data = emu_tensor(e, &l[i]);
    memcpy(view->stride, l[i].stride, sizeof view->stride);
    if (!view->data)
      return fat_status_fail(err, FAT_E_NOMEM, "no room for tensor %s", l[i].name);
    if (fat_tensors_is_in(role)) {
      move(fat_tensors_dtype(p, i), &l[i], view->data, t->in[i], true);
      emu_filled(e, view->data);
    }
  }
  return FAT_OK;
}

/* The outputs that there are, packed. */
static fat_status collect(const fat_problem *p, const emu_layout l[FAT_TENSORS], const fat_call *call,
                          emu_result *r, fat_error *err)
{
  for (int i = 0; i < FAT_TENSORS; i++) {
    if (!fat_tensors_is_out(fat_tensors_role(p, i)) || !call->tensor[i].data)
      continue;
    r->out[i] = malloc((size_t)(fat_tensors_elements(p, i) + 1) * sizeof *r->out[i]);
    if (!r->out[i]) {
      emu_result_free(r);
      return fat_status_fail(err, FAT_E_NOMEM, "no memory for a result");
    }
    move(fat_tensors_dtype(p, i), &l[i], call->tensor[i].data, r->out[i], false);
  }
  return FAT_OK;
}

fat_status emu_attention_run(emu *e, const emu_kernel *kernel, const emu_case *c, const fat_truth *t,
                             const emu_options *options, emu_result *r, fat_error *err)
{
  const fat_problem *p = &c->problem;
  const fat_sizes sizes = fat_recipe_sizes(p, c->sms);
  emu_layout l[FAT_TENSORS];
  fat_call call;
  fat_call_layout layout;
  unsigned char bytes[FAT_CALL_BYTES];
  *r = (emu_result){.stored = fat_reference_stores(kernel->config.kernel)};
  emu_reset(e);
  FAT_TRY(place(e, kernel, c, t, l, &call, err));
  fat_tensors_layout(p, &layout);
  fat_tensors_pack(&layout, p, &call, bytes);
  FAT_TRY(emu_run(e, kernel->module, &kernel->recipe, &sizes, bytes, (size_t)layout.bytes, options,
                  &r->report, err));
  return collect(p, l, &call, r, err);
}

void emu_result_free(emu_result *r)
{
  for (int t = 0; t < FAT_TENSORS; t++) {
    free(r->out[t]);
    r->out[t] = NULL;
  }
}

/* The worst element of one output; false where one is too far off, is NaN, or is finite where it may not be.
 */
static bool near(const fat_problem *p, int t, const double *right, const float *got, double allowed,
                 char *why, size_t room)
{
  const fat_extent e = fat_tensors_extent(p, t);
  const int64_t heads = e.size[1], rows = e.size[2], width = e.size[3];
  int64_t worst = -1;
  double most = allowed;
  for (int64_t i = 0; i < fat_tensors_elements(p, t); i++) {
    const double off = fat_reference_off(right[i], got[i]);
    if (off > most) {
      most = off;
      worst = i;
    }
  }
  if (worst < 0)
    return true;
  const int64_t row = worst / width;
  snprintf(
      why, room,
      "%s[batch %lld, head %lld, row %lld, column %lld] is %.9g, right is %.9g: off by %.3g, allowed %.3g",
      fat_tensors[t].name, (long long)(row / rows / heads), (long long)(row / rows % heads),
      (long long)(row % rows), (long long)(worst % width), (double)got[worst], right[worst], most, allowed);
  return false;
}

bool emu_attention_right(const emu_case *c, const fat_truth *t, const emu_result *r, char *why, size_t room)
{
  for (int i = 0; i < FAT_TENSORS; i++)
    if (r->out[i] && !near(&c->problem, i, t->right[i], r->out[i], t->allowed[i][r->stored], why, room))
      return false;
  return true;
}
