/* grid.h -- the threads of the blocks that run now, who of them may go on, and what each waits for. Private.
 *
 * grid.c switches between threads and lets barriers and shuffles happen; together.c has the products of a
 * warp; copies.c the copies that run on by themselves; maps.c the tensor maps; run.c fills the blocks and
 * reads what is left; findings.c collects. All of it works on the one grid that runs. */
#ifndef EMU_GRID_H
#define EMU_GRID_H

#include "fiber.h"
#include "memory.h"
#include "module.h"

enum { EMU_RESIDENT_MAX = 8, EMU_WARPS_MAX = EMU_THREADS_MAX / EMU_WARP };

/* A copy that a thread has begun and not yet waited for. */
typedef struct emu_flight {
  char *to;
  const char *from; /* NULL: zeros */
  uintptr_t pc;
  uint64_t group; /* how many groups were closed before it */
  bool landed;    /* its bytes have been moved */
  uint64_t stamp; /* what the thread had seen when it began */
  uint32_t seen_block, seen_warp;
} emu_flight;

typedef struct emu_thread {
  emu_me me;
  emu_fiber fiber;
  struct emu_block *home;
  emu_wait waits;
  uint32_t wait_pc;
  bool done;
  uint64_t groups; /* of copies, closed so far */
  int flights, flight_room;
  emu_flight *flight; /* by age */
} emu_thread;

typedef struct emu_block {
  bool active;
  int threads, left; /* of the block; not yet done */
  int at_barrier;
  uint32_t tick;                    /* of the last barrier of the block or of one of its warps */
  uint32_t ready;                   /* warps with lanes that may go on */
  uint32_t runnable[EMU_WARPS_MAX]; /* lanes that may go on */
  int waiting[EMU_WARPS_MAX][EMU_WAIT_COUNT];
  char *shared;
  uint32_t shared_size;
  emu_thread *thread;
} emu_block;

/* What a finding is before its places are known. */
typedef struct emu_raw {
  emu_event event;
  uint32_t pc, other_pc;
  uint64_t me; /* stamp counting, as emu_me.who */
  uint64_t first_block;
  char entry[FAT_RECIPE_ENTRY];
  char where[160];
  long count;
} emu_raw;

typedef struct emu_grid {
  emu *memory;
  const emu_module *module;
  const emu_options *options;
  emu_report *report;
  const emu_entry *entry;
  const char *entry_name;
  void **args;
  emu_fiber main;
  emu_thread *self; /* who runs; NULL: the scheduler */
  bool fatal;       /* what was found makes going on senseless */
  bool changed;     /* a block has ended: its place may be filled */
  int resident;
  int turn; /* the block that runs */
  int warp; /* and its warp; -1: to be chosen */
  uint64_t random;
  emu_block block[EMU_RESIDENT_MAX];
  emu_thread *threads;
  char *stacks;
  int raws;
  long events;
  emu_raw raw[EMU_FINDINGS];
} emu_grid;

extern emu_grid *emu_now;

/* Makes every thread of a block ready to begin. */
void emu_grid_begin(emu_block *b, int64_t index);
/* Runs threads until a block has ended, nobody can go on, or something fatal was found. */
void emu_grid_go(void);
uint64_t emu_grid_random(void);

/* The callbacks of emu_hot. */
void emu_grid_wait(emu_wait kind, uintptr_t pc);
void emu_findings_add(const emu_event *event);
void emu_copies_begin(char *to, const char *from, int real, uintptr_t pc);
void emu_copies_commit(void);
void emu_copies_wait(int left);

/* The present thread waits or begins another copy: some copies may land. */
void emu_copies_pass(emu_thread *t);
/* The present thread ends. */
void emu_copies_end(emu_thread *t);

/* What the lanes of a warp, all of which have come, do together. NULL; or a lane that came for another thing
 * than the first one did. */
const emu_thread *emu_together(emu_thread *lanes);

/* The map of a tensor of the struct `call` that kernels are given, whose sizes are those it was laid out
 * with. FAT_E_INPUT where that is no tensor's first element, or it cannot be mapped. */
fat_status emu_map_fill(const emu *e, fat_arg_kind kind, int64_t rows, const void *call, size_t call_size,
                        void *map, fat_error *err);

/* Threads of a warp that do different things where one is to be done together. Fatal. */
void emu_findings_apart(const emu_thread *t, const emu_thread *other);
/* Of a block in which nobody can go on: who waits where. */
void emu_findings_stuck(const emu_block *b);
/* Raw findings become those of the report. */
void emu_findings_finish(emu_grid *g);

#endif
