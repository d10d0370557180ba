/* module.h -- a kernel text made into a shared object of this machine. Private to the emulator.
 *
 * filter.c turns the text into C++ for the host, module.c compiles and loads it, lines.c finds the template
 * line of a place in the machine code. */
#ifndef EMU_MODULE_H
#define EMU_MODULE_H

#include "emu.h"
#include "text.h"

enum { EMU_FILES = 32, EMU_FILE = 96 };

typedef struct emu_names {
  int count;
  char name[EMU_FILES][EMU_FILE]; /* files of the #line marks */
} emu_names;

/* Host C++ for a text: arch functions left out (each must have a twin in `prelude`), a caller for each entry
 * added behind. FAT_E_TEMPLATE names an arch function without a twin. */
fat_status emu_filter(const char *text, const char *prelude, fat_text *out, emu_names *files, fat_error *err);

typedef struct emu_entry {
  void (*call)(void **args);
  int args;
  unsigned long size[64]; /* bytes of each */
  int bounds;             /* __launch_bounds__ */
} emu_entry;

struct emu_module {
  char path[1024];
  void *handle;
  void (*attach)(emu_hot *hot);
  uintptr_t image, image_size;
  emu_names files;
};

fat_status emu_module_entry(const emu_module *m, const char *name, emu_entry *entry, fat_error *err);

typedef struct emu_place {
  char file[EMU_FILE];
  int line;
} emu_place;

/* Template places of `count` return addresses, given as offsets into the module; "" and 0 where unknown. */
void emu_lines_find(const emu_module *m, const uint32_t *offsets, int count, emu_place *places);

#endif
