/* hot.h -- what a running kernel and the scheduler share: the current thread, the arena and its shadow.
 *
 * Each kernel is a shared object with hot.c linked into it; `emu_hot_attach` gives it the one state it works
 * on. The shadow has one cell for every 4 bytes of the arena, so an access finds its cells by arithmetic.
 *
 * Order. Within a launch only two things order the accesses of different threads: a barrier of the whole
 * block and a barrier of a whole warp. So a thread's vector clock has just three different entries (itself,
 * its warp, the rest of its block; nothing of other blocks) and is kept as three numbers. Each barrier of a
 * block takes the next tick of that block; a thread's epoch is the tick of its last barrier. An access (u, e)
 * came before thread t's present exactly when u is t, or e < t.seen_block and both are of one block, or
 * e < t.seen_warp and both are of one warp, or it was made in an earlier launch. */
#ifndef EMU_HOT_H
#define EMU_HOT_H

#include <stdint.h>

enum { EMU_WARP = 32, EMU_THREADS_MAX = 1024 };

/* A stamp: tag 2 bits, block 24, thread 10, epoch 28. Blocks count from 1 over all launches of a run. */
enum { EMU_EPOCH_BITS = 28, EMU_THREAD_BITS = 10, EMU_BLOCK_BITS = 24, EMU_TAG_SHIFT = 62 };

/* Tag of `write`: what the cell is. */
enum { EMU_CLOSED, EMU_EMPTY, EMU_FILLED };
/* Tag of `read`: who read since the last write. The epoch is the greatest of all of them. */
enum { EMU_ONE, EMU_OF_WARP, EMU_OF_BLOCK, EMU_OF_GRID };

typedef struct emu_cell {
  uint64_t write, read;       /* stamps; 0: nobody in this run */
  uint32_t write_pc, read_pc; /* where, as offsets into the module */
} emu_cell;

/* A thread as the callbacks see it. */
typedef struct emu_me {
  uint64_t who;   /* block << EMU_THREAD_BITS | thread, the block counted over all launches */
  uint64_t stamp; /* who << EMU_EPOCH_BITS | epoch */
  uint32_t seen_block, seen_warp;
  uintptr_t stack, stack_size;
  int64_t block; /* blockIdx.x */
  int32_t thread;
  char *shared;
  int32_t lanes; /* of a shuffle: the argument, the value given, the value got */
  float given, got;
} emu_me;

/* ORDER KIND: names in findings.c */
typedef enum emu_kind {
  EMU_RACE,
  EMU_OUT_OF_BOUNDS,
  EMU_UNINITIALISED,
  EMU_MISALIGNED,
  EMU_DIVERGENT_BARRIER,
  EMU_MISSING_LANES,
  EMU_REGISTER_BOUNDS,
  EMU_ARITHMETIC,
  EMU_ENDLESS,
  EMU_PADDING,
  EMU_KIND_COUNT
} emu_kind;

typedef enum emu_wait {
  EMU_WAIT_NONE,
  EMU_WAIT_BLOCK,
  EMU_WAIT_WARP,
  EMU_WAIT_SHUFFLE,
  EMU_WAIT_COUNT
} emu_wait;

typedef struct emu_event {
  emu_kind kind;
  int is_write;
  uintptr_t address;
  uint32_t size;
  uintptr_t pc;     /* in the kernel; 0 where `file` says it */
  const char *file; /* source position where the compiler gave it */
  uint32_t line;
  uint64_t other; /* a race: the other stamp and its place */
  uint32_t other_pc;
  int other_is_write;
} emu_event;

typedef struct emu_hot {
  emu_me *me;
  uint64_t first_block; /* of this launch, in the counting of stamps */
  uintptr_t arena;
  uint64_t arena_size;
  emu_cell *shadow;
  uint64_t accesses, budget;
  uintptr_t image, image_size;           /* the module in memory: constants may be read there */
  uintptr_t call, call_size;             /* the launch's argument struct: each thread copies it from there */
  void (*found)(const emu_event *event); /* does not return where going on would crash */
  void (*wait)(emu_wait kind, uintptr_t pc);
} emu_hot;

#endif
