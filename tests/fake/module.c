/* module.c -- modules and functions: loading cubins and PTX, looking kernels up, their attributes, occupancy.
 *
 * A cubin that is damaged in a way that can be seen ends the process by SIGSEGV, as the real driver does;
 * with FAKE_CUDA_DAMAGE=code it is error 200. */
#include "fake.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Of one architecture a device runs what was made for it or for a smaller minor number; sm_90 and later are
 * built with features of the one architecture only, and run there alone. */
static bool runs_on(int sm, const fake_row *row)
{
  return sm / 10 == row->major && (sm >= 90 ? sm % 10 == row->minor : sm % 10 <= row->minor);
}

/* PTX runs on every device from its architecture on; that of sm_90a and its like on that architecture alone.
 */
static int load_ptx(fake_context *c, fake_module *m, const void *bytes)
{
  const fake_row *row = fake_device_row(c->ordinal);
  bool alone = false;
  int result = fake_ptx_read(bytes, m, &alone), sm = 10 * row->major + row->minor;
  if (result == 0 && (alone ? sm != m->sm : sm < m->sm))
    return 209;
  return result;
}

static int load(fake_context *c, void **handle, const void *bytes)
{
  const char *damage = getenv("FAKE_CUDA_DAMAGE");
  if (!bytes)
    return 1;
  fake_module *m = fake_handle_make(sizeof *m, FAKE_MODULE, c);
  bool ptx = fake_ptx_is(bytes);
  int result = !m ? 2 : ptx ? load_ptx(c, m, bytes) : fake_cubin_read(bytes, m);
  if (result == FAKE_DAMAGED) {
    if (!damage || strcmp(damage, "code") != 0)
      fake_script_die(SIGSEGV);
    result = 200;
  }
  if (result == 0 && !ptx && !runs_on(m->sm, fake_device_row(c->ordinal)))
    result = 209;
  if (result && m)
    fake_module_bury(m);
  if (result == 0) {
    fake_log("load %s", m->count ? m->function[0]->name : "a module of no kernel");
    *handle = m;
  }
  return result;
}

void fake_module_bury(fake_module *m)
{
  for (int i = 0; i < m->count; i++)
    fake_handle_bury(m->function[i]);
  fake_handle_bury(m);
}

int cuModuleLoadData(void **module, const void *image)
{
  FAKE_ENTER_CONTEXT(cuModuleLoadData, c);
  return load(c, module, image);
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *names, void **values)
{
  FAKE_ENTER_CONTEXT(cuModuleLoadDataEx, c);
  (void)options, (void)names, (void)values;
  return load(c, module, image);
}

int cuModuleUnload(void *module)
{
  FAKE_ENTER_CONTEXT(cuModuleUnload, c);
  if (!fake_handle_is(module, FAKE_MODULE, c))
    return 400;
  fake_module_bury(module);
  return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
  FAKE_ENTER_CONTEXT(cuModuleGetFunction, c);
  fake_module *m = module;
  if (!fake_handle_is(m, FAKE_MODULE, c))
    return 400;
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->function[i]->name, name)) {
      *function = m->function[i];
      return 0;
    }
  return 500;
}

int cuModuleGetFunctionCount(unsigned *count, void *module)
{
  FAKE_ENTER_CONTEXT(cuModuleGetFunctionCount, c);
  if (!fake_handle_is(module, FAKE_MODULE, c))
    return 400;
  *count = (unsigned)((fake_module *)module)->count;
  return 0;
}

int cuModuleGetLoadingMode(int *mode)
{
  FAKE_ENTER(cuModuleGetLoadingMode);
  *mode = 2; /* lazy */
  return 0;
}

/* ---- functions ---- */

/* The function of a handle, or the calling function is left with 400. */
#define FUNCTION(f, handle)                                                                                  \
  fake_function *f = (handle);                                                                               \
  if (!fake_handle_is(f, FAKE_FUNCTION, NULL))                                                               \
  return 400

int cuFuncLoad(void *function)
{
  FAKE_ENTER_CONTEXT(cuFuncLoad, c);
  return fake_handle_is(function, FAKE_FUNCTION, c) ? 0 : 400;
}

int cuFuncGetModule(void **module, void *function)
{
  FAKE_ENTER(cuFuncGetModule);
  FUNCTION(f, function);
  *module = f->module;
  return 0;
}

int cuFuncGetName(const char **name, void *function)
{
  FAKE_ENTER(cuFuncGetName);
  FUNCTION(f, function);
  *name = f->name;
  return 0;
}

int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size)
{
  FAKE_ENTER(cuFuncGetParamInfo);
  FUNCTION(f, function);
  if (index >= (size_t)f->params)
    return 1;
  *offset = (size_t)f->offset[index];
  if (size)
    *size = (size_t)f->size[index];
  return 0;
}

int cuFuncGetAttribute(int *value, int attribute, void *function)
{
  FAKE_ENTER_CONTEXT(cuFuncGetAttribute, c);
  FUNCTION(f, function);
  const int known[][2] = {{0, f->threads},
                          {1, f->shared},
                          {2, 0},
                          {3, f->local},
                          {4, f->registers},
                          {5, f->module->sm},
                          {6, f->module->sm},
                          {7, 0},
                          {8, atomic_load_explicit(&f->dynamic, memory_order_relaxed)},
                          {9, -1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i][0] == attribute) {
      *value = known[i][1];
      return fake_handle_is(f, FAKE_FUNCTION, c) ? 0 : 400;
    }
  return 1;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
  FAKE_ENTER_CONTEXT(cuFuncSetAttribute, c);
  fake_function *f = function;
  if (!fake_handle_is(f, FAKE_FUNCTION, c))
    return 400;
  if (attribute == 9) /* the share of shared memory in the cache: a wish */
    return value >= -1 && value <= 100 ? 0 : 1;
  if (attribute != FAT_CUDA_FUNCTION_DYNAMIC_SHARED || value < 0 ||
      value + f->shared > fake_device_row(c->ordinal)->shared_block)
    return 1;
  atomic_store_explicit(&f->dynamic, value, memory_order_relaxed);
  return 0;
}

static int up(int value, int unit)
{
  return (value + unit - 1) / unit * unit;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared)
{
  FAKE_ENTER_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor, c);
  fake_function *f = function;
  const fake_row *row = fake_device_row(c->ordinal);
  int resident, most;
  if (!fake_handle_is(f, FAKE_FUNCTION, c))
    return 400;
  if (threads < 1 || cuDeviceGetAttribute(&resident, 39, c->ordinal + FAKE_FIRST_DEVICE) ||
      cuDeviceGetAttribute(&most, 106, c->ordinal + FAKE_FIRST_DEVICE))
    return 1;
  int warps = up(threads, 32) / 32;
  int bytes = f->shared + (int)shared + (row->major >= 8 ? 1024 : 0);
  int registers = up(32 * (f->registers ? f->registers : 1), 256);
  int by[] = {most, resident / (32 * warps), 65536 / (registers * warps),
              bytes ? row->shared_sm / up(bytes, row->major >= 8 ? 128 : 256) : most};
  *blocks = most;
  for (size_t i = 0; i < sizeof by / sizeof *by; i++)
    *blocks = by[i] < *blocks ? by[i] : *blocks;
  if (threads > f->threads || f->shared + (int)shared > row->shared_block)
    *blocks = 0;
  return 0;
}
