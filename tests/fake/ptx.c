/* ptx.c -- reads PTX as far as a driver must: its architecture, its kernels, their parameters.
 *
 * In: a text as NVRTC writes it. Out: functions with parameters and launch bounds. Registers are a guess:
 * those the driver's own compiler would give are nowhere in the text. */
#include "fake.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 64 };

bool fake_ptx_is(const void *image)
{
  const char *text = image;
  while (isspace((unsigned char)*text) || !strncmp(text, "//", 2))
    text += isspace((unsigned char)*text) ? 1 : strcspn(text, "\n");
  return !strncmp(text, ".version", 8);
}

/* Bytes of a scalar type: ".u64", ".f32", ".b8". */
static int width_of(const char *type)
{
  return atoi(type + strcspn(type, "0123456789")) / 8;
}

/* "	.param .align 8 .b8 NAME[176]" or "	.param .u64 NAME": where the next one goes, and how large it
 * is. */
static bool add_param(fake_function *f, const char *line, size_t length)
{
  char text[256];
  int align = 0;
  snprintf(text, sizeof text, "%.*s", (int)length, line);
  const char *at = strstr(text, ".param ");
  if (!at || f->params == FAKE_PARAMS)
    return false;
  at += strlen(".param ");
  if (sscanf(at, ".align %d", &align) == 1)
    at = strchr(at + 1, '.');
  if (!at)
    return false;
  const char *bracket = strchr(at, '[');
  int width = width_of(at), size = width * (bracket ? atoi(bracket + 1) : 1);
  align = align ? align : width;
  if (align <= 0 || size <= 0)
    return false;
  f->bytes = (f->bytes + align - 1) / align * align;
  f->offset[f->params] = f->bytes;
  f->size[f->params++] = size;
  f->bytes += size;
  return f->bytes <= FAKE_PARAM_BYTES;
}

/* One entry; `at` stands behind ".entry ". */
static int add_entry(fake_module *module, const char *at)
{
  fake_function *f = fake_handle_make(sizeof *f, FAKE_FUNCTION, module->head.context);
  if (!f || module->count == FAKE_FUNCTIONS)
    return 2;
  f->module = module;
  f->threads = 1024;
  f->registers = REGISTERS;
  atomic_store_explicit(&f->dynamic, 49152, memory_order_relaxed);
  module->function[module->count++] = f;
  snprintf(f->name, sizeof f->name, "%.*s", (int)strcspn(at, "( \t\n"), at);
  const char *line = at + strcspn(at, "\n"), *body = strchr(at, '{');
  if (!body)
    return 218;
  int tid[3];
  for (; line < body; line += strcspn(line, "\n")) {
    line++;
    size_t length = strcspn(line, "\n");
    const char *bounds = strstr(line, ".maxntid ");
    if (!strncmp(line + strspn(line, " \t"), ".param", 6) && !add_param(f, line, length))
      return 218;
    if (bounds && bounds < line + length && sscanf(bounds, ".maxntid %d, %d, %d", tid, tid + 1, tid + 2) == 3)
      f->threads = tid[0] * tid[1] * tid[2];
  }
  return 0;
}

int fake_ptx_read(const void *image, fake_module *module, bool *alone)
{
  const char *text = image, *target = strstr(text, "\n.target sm_");
  char letter = 0;
  if (!target || sscanf(target, "\n.target sm_%d%c", &module->sm, &letter) < 1)
    return 218; /* the driver's compiler refuses it */
  *alone = letter == 'a';
  for (const char *at = text; (at = strstr(at, ".entry "));) {
    at += strlen(".entry ");
    int failed = add_entry(module, at);
    if (failed)
      return failed;
  }
  return 0;
}
