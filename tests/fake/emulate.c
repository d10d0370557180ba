/* emulate.c -- a launch as numbers: the source of the entry runs in the emulator on the fake's own memory.
 *
 * The emulator's arena is the fake's: its cells are kept for the allocations that a launch is given pointers
 * to. What it finds becomes findings of the fake and, as far as a device would notice, a code. One launch at
 * a time, in all threads. */
#include "fake.h"
#include "memory.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct loaded {
  char *text; /* a source in two places is one module */
  emu_module *module;
  struct loaded *next;
} loaded;

/* Blocks after which their numbers begin again: the emulator can tell 2^EMU_BLOCK_BITS apart. */
enum { RENUMBER = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emu *machine;
static loaded *all;

/* An emu over the fake's arena, or over as much of its beginning as the address space has room to shadow:
 * beside ThreadSanitizer's own there is not always room for all. */
static bool open_machine(void)
{
  size_t bytes;
  char *arena = fake_memory_arena(&bytes);
  if (machine || !arena)
    return machine != NULL;
  emu *e = calloc(1, sizeof *e);
  void *shadow = MAP_FAILED;
  for (bytes *= 2; e && shadow == MAP_FAILED && bytes > (size_t)1 << 30;) {
    bytes /= 2;
    shadow = mmap(NULL, bytes / 4 * sizeof(emu_cell), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (shadow == MAP_FAILED) {
    fake_found("nothing can be emulated: there is no room for a shadow of the memory");
    free(e);
    return false;
  }
  madvise(shadow, bytes / 4 * sizeof(emu_cell), MADV_NOHUGEPAGE);
  e->hot.arena = (uintptr_t)arena;
  e->hot.arena_size = bytes;
  e->hot.shadow = shadow;
  e->hot.first_block = 1;
  machine = e;
  return true;
}

static emu_module *module_of(const char *entry)
{
  const char *text = fake_source_text(entry);
  fat_error err = {0};
  if (!text)
    return NULL;
  for (loaded *l = all; l; l = l->next)
    if (!strcmp(l->text, text))
      return l->module;
  loaded *l = calloc(1, sizeof *l);
  if (!l || !(l->text = strdup(text)) || emu_module_load(text, &l->module, &err) != FAT_OK) {
    fake_found("%s cannot be emulated: %.500s", entry, err.text);
    if (l)
      free(l->text);
    free(l);
    return NULL;
  }
  l->next = all;
  all = l;
  return l->module;
}

/* Every word of the arguments that is an address of an allocation opens it. */
static void show_memory(const fake_work *w)
{
  for (int i = 0; i + 8 <= w->function->bytes; i += 8) {
    fat_cuda_address address;
    memcpy(&address, w->params + i, sizeof address);
    fake_memory_show(machine, address);
  }
  bool old = machine->hot.first_block > RENUMBER;
  if (old)
    machine->hot.first_block = 1;
  fake_memory_regions(machine, old);
}

/* What a device makes of a finding: an error, waiting for ever, or nothing. ORDER KIND */
static const int codes[EMU_KIND_COUNT] = {
    [EMU_OUT_OF_BOUNDS] = 700,          [EMU_MISALIGNED] = 716,      [EMU_DIVERGENT_BARRIER] = FAKE_ENDLESS,
    [EMU_MISSING_LANES] = FAKE_ENDLESS, [EMU_REGISTER_BOUNDS] = 719, [EMU_ARITHMETIC] = 719,
    [EMU_ENDLESS] = FAKE_ENDLESS,       [EMU_PADDING] = 700,
};

static int judge(const emu_report *report)
{
  int code = 0;
  for (int i = 0; i < report->findings; i++) {
    fake_found("emulator: %s", report->finding[i].text);
    if (!code)
      code = codes[report->finding[i].kind];
  }
  return code;
}

static int run(const fake_work *w)
{
  const fake_function *f = w->function;
  emu_report *report = calloc(1, sizeof *report);
  emu_module *module = report && open_machine() ? module_of(f->name) : NULL;
  fat_error err = {0};
  int code = 719;
  if (module && w->grid[1] * w->grid[2] * w->block[1] * w->block[2] == 1) {
    emu_call call = {.entry = f->name,
                     .grid = w->grid[0],
                     .block = w->block[0],
                     .shared = w->shared,
                     .args = f->params,
                     .memory = w->params,
                     .bytes = (size_t)f->bytes,
                     .offset = f->offset};
    show_memory(w);
    if (emu_launch(machine, module, &call, NULL, report, &err) == FAT_OK)
      code = judge(report);
    else
      fake_found("%s cannot be emulated: %.500s", f->name, err.text);
  } else if (module) {
    fake_found("%s cannot be emulated: its grid or block has more than one dimension", f->name);
  }
  free(report);
  return code;
}

int fake_emulate(const fake_work *w)
{
  if (!fake_source_is_named(w->function->name))
    return 0; /* memory stays as it is */
  pthread_mutex_lock(&lock);
  int code = run(w);
  pthread_mutex_unlock(&lock);
  return code;
}
