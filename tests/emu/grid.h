/* grid.h -- the threads of the blocks that run now, who of them may go on, and what each waits for. Private.
 *
 * grid.c switches between threads and lets barriers and shuffles happen; together.c has the products of a
 * warp; copies.c the copies that run on by themselves; side.h has what Hopper added; maps.c the tensor maps;
 * run.c fills the blocks and reads what is left; findings.c collects. All of it works on the one grid that
 * runs. */
#ifndef EMU_GRID_H
#define EMU_GRID_H

#include "fiber.h"
#include "map.h"
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

/* Registers of a thread that products use: an array of sums or of left operands. */
typedef struct emu_registers {
  uintptr_t from, to;
  bool sums;
  bool dirty;       /* written since the last fence */
  uint32_t product; /* the latest that uses them, counted from 1 */
  uintptr_t pc;
} emu_registers;

enum { EMU_REGISTER_ARRAYS = 12, EMU_PRODUCT_GROUPS = 32 };

/* What is known of each thread and agent: `seen` by accesses of a thread, `async` by those that the hardware
 * makes beside it. They differ in what threads have stored without a fence since. */
typedef struct emu_clock {
  uint32_t *seen, *async; /* the first of the entries of its own block */
  uint64_t ended;         /* as emu_me.ended */
  unsigned before;        /* entries of other blocks of the cluster before these */
} emu_clock;

typedef struct emu_thread {
  emu_me me;
  emu_fiber fiber;
  struct emu_block *home;
  emu_wait waits;
  uint32_t wait_pc;
  bool done, arrived; /* arrived: at the barrier of the cluster */
  uint64_t groups;    /* of copies, closed so far */
  int flights, flight_room;
  emu_flight *flight; /* by age */
  /* What follows is side.h's. */
  emu_clock clock;
  uint32_t waits_for, parity;  /* a barrier and its phase */
  uint32_t stores, last_store; /* of its groups of boxes: closed; the last that has one */
  unsigned store_agent;        /* 0: it has none */
  unsigned send_agent;         /* reads what it copies to other blocks; 0: it has none */
  uint32_t sends;              /* begun */
  uintptr_t store_pc;
  uint32_t products, products_done; /* begun; awaited */
  uint32_t waits_for_products;      /* which waits there were, one after another */
  bool fenced;                      /* registers, once at least */
  int product_groups, register_arrays;
  uint32_t
      product_group[EMU_PRODUCT_GROUPS]; /* products of each closed group and those before, the last ones */
  emu_registers registers[EMU_REGISTER_ARRAYS];
} emu_thread;

typedef struct emu_block {
  bool active;
  bool waited;       /* one of its threads, for the launch before */
  int threads, left; /* of the block; not yet done */
  int at_barrier;
  int at_cluster; /* of the first block of a cluster: threads of all its blocks that wait for the others */
  uint32_t tick;  /* of the last barrier of the block or of one of its warps */
  uint32_t ready; /* warps with lanes that may go on */
  uint32_t runnable[EMU_WARPS_MAX]; /* lanes that may go on */
  int waiting[EMU_WARPS_MAX][EMU_WAIT_COUNT];
  char *shared;
  uint32_t shared_size;
  emu_thread *thread;
  struct emu_side *side; /* NULL: not needed so far */
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
  emu_thread *self;      /* who runs; NULL: the scheduler */
  bool fatal;            /* what was found makes going on senseless */
  bool changed;          /* a block has ended: its place may be filled */
  int resident, cluster; /* blocks; of a cluster, 1 without */
  int64_t blocks;        /* of the launch */
  bool overlaps;         /* it began while the one before ran */
  bool blind;            /* and lets the next one begin, or ends, where a block has not waited for that */
  uint64_t ended; /* emu_me.ended of its threads at first; of those of a launch that overlaps with it */
  uint64_t ended_next;
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
/* The present thread is to wait; it runs on until it leaves. */
void emu_grid_pause(emu_wait kind, uintptr_t pc);
void emu_grid_leave(void);
void emu_grid_resume(emu_thread *t);
/* Some threads side by side meet: what one knows of launches that have ended all know. */
void emu_grid_tell(emu_thread *first, int count);
void emu_grid_launch_next(void);
void emu_grid_launch_wait(void);

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
fat_status emu_map_fill(const emu *e, fat_tensor tensor, fat_map_box box, const void *call, size_t call_size,
                        void *map, fat_error *err);

/* Threads of a warp that do different things where one is to be done together. Fatal. */
void emu_findings_apart(const emu_thread *t, const emu_thread *other);
/* Of a block in which nobody can go on: who waits where. */
void emu_findings_stuck(const emu_block *b);
/* Raw findings become those of the report. */
void emu_findings_finish(emu_grid *g);

#endif
