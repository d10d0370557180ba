/* launch.c -- cuLaunchKernel and cuLaunchKernelEx: limits, arguments, scripted faults, the clock.
 *
 * A launch that is refused (limits, non-sticky faults) returns its code; one that goes wrong on the device
 * returns 0 and leaves its code for whoever waits next, as the real driver does. */
#include "fake.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Limits of a device give 1, limits of the function 701. */
static int check(const fake_function *f, const fake_work *w)
{
  const fake_row *row = fake_device_row(f->head.context->ordinal);
  const unsigned most_grid[3] = {2147483647, 65535, 65535}, most_block[3] = {1024, 1024, 64};
  for (int i = 0; i < 3; i++)
    if (!w->grid[i] || !w->block[i] || w->grid[i] > most_grid[i] || w->block[i] > most_block[i])
      return 1;
  unsigned threads = w->block[0] * w->block[1] * w->block[2], warps = (threads + 31) / 32;
  if (threads > 1024)
    return 1;
  if ((int)w->shared > atomic_load_explicit(&f->dynamic, memory_order_relaxed) ||
      (int)w->shared + f->shared > row->shared_block)
    return 1;
  return threads > (unsigned)f->threads || warps * 32 * (unsigned)f->registers > 65536 ? 701 : 0;
}

/* Arguments as one piece of memory, in the layout of the function's parameters. */
static int gather(const fake_function *f, void **arguments, void **extra, unsigned char *params)
{
  if (extra) { /* 1: a buffer, 2: its size, 0: the end */
    const void *buffer = NULL;
    size_t size = 0;
    for (; *extra; extra += 2)
      if (*extra == (void *)1)
        buffer = extra[1];
      else
        size = *(const size_t *)extra[1];
    if (!buffer || size < (size_t)f->bytes || arguments)
      return 1;
    memcpy(params, buffer, (size_t)f->bytes);
    return 0;
  }
  for (int i = 0; i < f->params; i++) {
    if (!arguments || !arguments[i])
      return 1;
    memcpy(params + f->offset[i], arguments[i], (size_t)f->size[i]);
  }
  return 0;
}

/* The launch of `w`, but for function and arguments. */
static int launch(fake_context *c, fake_work *w, void *function, void *stream, void **arguments, void **extra)
{
  _Alignas(FAT_CUDA_MAP_ALIGN) unsigned char params[FAKE_PARAM_BYTES];
  fake_function *f = function;
  fake_stream *s;
  if (!fake_handle_is(f, FAKE_FUNCTION, c) || fake_stream_find(c, stream, &s))
    return 400;
  w->kind = FAKE_WORK_LAUNCH;
  w->function = f;
  w->params = params;
  int result = check(f, w);
  if (result == 0)
    result = gather(f, arguments, extra, params);
  return result ? result : fake_work_submit(s, w);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments,
                   void **extra)
{
  FAKE_ENTER_CONTEXT(cuLaunchKernel, c);
  fake_work w = {.grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .shared = shared};
  return launch(c, &w, function, stream, arguments, extra);
}

/* Clusters are of Hopper and later, have at most 8 blocks where a kernel does not ask for more, and divide
 * the grid. */
static int read_attributes(const fake_context *c, const fat_cuda_launch *l, fake_work *w)
{
  enum { NOT_SUPPORTED = 801, BAD_CLUSTER = 912, CLUSTER_MOST = 8, SINCE = 9 };
  if (l->attributes > 0 && !l->attribute)
    return 1;
  for (unsigned i = 0; i < l->attributes; i++) {
    const fat_cuda_attribute *a = &l->attribute[i];
    const unsigned *cluster = a->value.cluster;
    if (a->id == FAT_CUDA_LAUNCH_OVERLAP && (unsigned)a->value.overlap <= 1) {
      w->overlap = a->value.overlap;
      continue;
    }
    if (a->id != FAT_CUDA_LAUNCH_CLUSTER)
      return 1;
    if (fake_device_row(c->ordinal)->major < SINCE)
      return NOT_SUPPORTED;
    for (int x = 0; x < 3; x++)
      if (cluster[x] == 0 || cluster[x] > CLUSTER_MOST || l->grid[x] % cluster[x] != 0)
        return BAD_CLUSTER;
    w->cluster = cluster[0] * cluster[1] * cluster[2];
    if (w->cluster > CLUSTER_MOST)
      return BAD_CLUSTER;
  }
  return 0;
}

int cuLaunchKernelEx(void *with, void *function, void **arguments, void **extra)
{
  FAKE_ENTER_CONTEXT(cuLaunchKernelEx, c);
  const fat_cuda_launch *l = with;
  fake_work w = {0};
  if (!l)
    return 1;
  memcpy(w.grid, l->grid, sizeof w.grid);
  memcpy(w.block, l->block, sizeof w.block);
  w.shared = l->shared;
  int result = read_attributes(c, l, &w);
  return result ? result : launch(c, &w, function, l->stream, arguments, extra);
}

static int compute(const fake_work *w)
{
  switch (fake_numbers_wanted()) {
  case FAKE_EMULATE:
    return fake_emulate(w);
  case FAKE_REFERENCE:
    return fake_reference(w);
  default:
    return 0;
  }
}

/* What an error on the device leaves behind. */
static void leave(fake_stream *s, int code)
{
  if (code == FAKE_ENDLESS)
    atomic_store_explicit(&s->hung, 1, memory_order_relaxed);
  else if (code)
    atomic_store_explicit(&s->head.context->pending, code, memory_order_relaxed);
}

static double duration(const fake_stream *s, const fake_work *w)
{
  const fake_row *row = fake_device_row(s->head.context->ordinal);
  double blocks = (double)w->grid[0] * w->grid[1] * w->grid[2];
  return fake_script_ms(w, fake_source_config, blocks / (row ? row->sms : 1));
}

int fake_launch_do(fake_stream *s, const fake_work *w)
{
  const char *name = w->function->name;
  if (fake_stream_is_hung(s))
    return 0; /* it is behind what never ends */
  atomic_fetch_add_explicit(&w->function->launches, 1, memory_order_relaxed);
  fake_strike strike = fake_script_launch(name, fake_source_config);
  fake_log("launch %s", name);
  if (strike.effect)
    fake_log("fault in %s: effect %d, code %d", name, (int)strike.effect, strike.code);
  if (strike.effect == FAKE_CODE && !fake_is_sticky(strike.code))
    return strike.code;
  if (strike.effect == FAKE_SEGV || strike.effect == FAKE_KILL)
    fake_script_die(strike.effect == FAKE_SEGV ? SIGSEGV : SIGKILL);
  if (strike.effect == FAKE_CODE || strike.effect == FAKE_HANG) {
    leave(s, strike.effect == FAKE_HANG ? FAKE_ENDLESS : strike.code);
    return 0;
  }
  leave(s, compute(w));
  fake_effect_apply(w, strike.effect);
  if (strike.effect == FAKE_SLOW)
    fake_sleep(strike.ms);
  fake_stream_advance(s, duration(s, w) + (strike.effect == FAKE_SLOW ? strike.ms : 0));
  return 0;
}
