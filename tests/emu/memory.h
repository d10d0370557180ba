/* memory.h -- the arena of an emu: regions with names, and the shadow cells of their bytes. Private. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "emu.h"

enum { EMU_REGIONS = 64, EMU_GUARD = 512 };

typedef struct emu_region {
  emu_layout layout;
  char *data;
  uint64_t bytes; /* from the first to the last element */
} emu_region;

struct emu {
  emu_hot hot;
  uint64_t used;
  int count;
  emu_region region[EMU_REGIONS];
  uint32_t halves; /* of hot.halves, that were ever in use */
};

/* A plain array of bytes; NULL where there is no room. */
char *emu_memory_array(emu *e, const char *name, uint64_t bytes, int shift);
/* Gives back what was laid out after the first `regions` regions. */
void emu_memory_cut(emu *e, int regions);
/* Sets what the cells of some bytes are: EMU_CLOSED, EMU_EMPTY or EMU_FILLED. */
void emu_memory_mark(emu *e, const void *data, uint64_t bytes, int tag);
/* Forgets who wrote and read them in earlier runs. */
void emu_memory_age(emu *e, const void *data, uint64_t bytes);
/* Gives each half of a word a cell of its own. */
void emu_memory_split(emu *e, emu_cell *cell);
/* Bytes become EMU_POISON. */
void emu_memory_poison(void *data, uint64_t bytes);
/* An address as a person reads it: "K[batch 0, head 1, row 3, column 5]". */
void emu_memory_describe(const emu *e, uintptr_t address, char *text, size_t room);
/* The first closed byte of a region or around it that is no longer poison; NULL if there is none. */
const char *emu_memory_spoiled(const emu *e, const emu_region *region);

#endif
