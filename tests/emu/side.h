/* side.h -- what runs beside the threads of a block and what they wait for: clocks, barriers in shared memory
 * and named ones, boxes of tensor maps, products of warpgroups. Private.
 *
 * A block has none of it until one of its threads calls for it. Each part has a file: clocks.c, signals.c,
 * boxes.c, products.c. All checks against the shadow are made when a copy or a product begins, by its agent
 * (hot.h); its bytes move and its sums are taken later, as the run's landing says. */
#ifndef EMU_SIDE_H
#define EMU_SIDE_H

#include "grid.h"
#include "maps.h"

enum { EMU_SIGNALS = 64, EMU_NAMES = 16, EMU_GROUPS = EMU_THREADS_MAX / EMU_GROUP };
/* Agents: the copies that arrive at a barrier; a warpgroup's products; a thread's stores. */
enum { EMU_AGENT_PRODUCTS = EMU_SIGNALS, EMU_AGENT_STORES = EMU_AGENT_PRODUCTS + EMU_GROUPS };

typedef struct emu_signal {
  uint32_t at;          /* address in shared memory */
  uint64_t stamp;       /* of the write that initialised it */
  unsigned by;          /* the thread that did */
  bool fenced;          /* copies may use it */
  int32_t count, lacks; /* arrivals of a phase, still to come in this one */
  int64_t bytes;        /* announced and not yet come, may be negative */
  uint32_t phase;
  uint32_t loads, awaited; /* copies begun; of these known to somebody */
  uintptr_t load_pc;
  emu_clock gathered, done; /* by this phase; of the last phase */
} emu_signal;

typedef struct emu_name {
  int threads, come;
  emu_clock gathered;
} emu_name;

/* A box under way; `signal` NULL: to device memory. */
typedef struct emu_box {
  emu_tensor_map map;
  int32_t at[4];
  uint32_t shared; /* address */
  emu_signal *signal;
  bool reduces;    /* numbers of fp32 are added to those in device memory */
  unsigned sender; /* to another block's shared memory: the agent that reads, and its epoch */
  uint32_t sent;
  emu_thread *by;
  uint32_t epoch; /* of its agent */
  uintptr_t pc;
} emu_box;

/* A product under way. */
typedef struct emu_work {
  emu_product of;
  float *c[EMU_GROUP];
  const uint32_t *a[EMU_GROUP];
} emu_work;

typedef struct emu_group {
  int come;
  uint32_t begun, done; /* products */
  bool fresh;           /* `clock` is what all its threads have seen */
  emu_clock clock;
  int room;
  emu_work *work; /* those begun and not done, by age */
} emu_group;

typedef struct emu_side {
  bool in_use;
  unsigned stride, clock_size; /* entries of a block; of all blocks of the cluster */
  uint32_t *entries;           /* of all clocks */
  emu_clock scratch;
  int signals, store_agents;
  emu_signal signal[EMU_SIGNALS];
  emu_name name[EMU_NAMES];
  emu_group group[EMU_GROUPS];
  int boxes, box_room;
  emu_box *box; /* by age */
  bool moved;   /* registers from one warp to another */
  uintptr_t moved_pc;
  int moves[EMU_WARPS_MAX], registers[EMU_WARPS_MAX];
} emu_side;

/* ---- clocks.c ---- */

/* Gives the block its clocks if it has none. */
void emu_clocks_need(emu_block *b);
/* `t` is done with what it did so far: its later accesses are of a new epoch. */
void emu_clocks_advance(emu_thread *t);
/* What `t` has seen and done goes into a clock. */
void emu_clocks_release(emu_thread *t, emu_clock *to);
void emu_clocks_acquire(emu_thread *t, const emu_clock *from);
void emu_clocks_clear(const emu_side *s, emu_clock *clock);
/* `t` knows what its agent did before an epoch. */
void emu_clocks_awaited(emu_thread *t, unsigned agent, uint32_t epoch);
/* Some threads side by side meet, each of them for the others' present. */
void emu_clocks_met(emu_block *b, int first, int count, uint32_t tick);
/* All threads of a cluster meet, whose blocks have clocks. */
void emu_clocks_met_all(emu_block *first, int blocks);
/* Who learns of a clock learns what an agent did before an epoch. */
void emu_clocks_tell(emu_clock *to, const emu_block *of, unsigned agent, uint32_t epoch);
/* What `t` stored so far is seen by what runs beside it, once that knows of `t`. */
void emu_clocks_fence(void);
/* What every thread of a warpgroup has seen of others' stores and of agents. */
const uint32_t *emu_clocks_of_group(emu_block *b, int group);
/* An access of `size` bytes by an agent that has seen `seen`. */
void emu_clocks_access(emu_block *b, unsigned agent, uint32_t epoch, const uint32_t *seen, uintptr_t address,
                       uint32_t size, int is_write, uintptr_t pc);
/* A look at what the agent is about to write over; `async`: whose stores copies have been shown by fences. */
void emu_clocks_replace(emu_block *b, unsigned agent, uint32_t epoch, const uint32_t *async,
                        uintptr_t address, uint32_t size, uintptr_t pc);
/* Numbers of fp32 that such an agent changes as atomics do. */
void emu_clocks_change(emu_block *b, unsigned agent, uint32_t epoch, const uint32_t *seen, uintptr_t address,
                       uint32_t size, uintptr_t pc);
void emu_clocks_add_reader(emu_cell *cell, const emu_me *me);
/* Forgets the sets of readers. */
void emu_clocks_open(emu_hot *hot);
/* A block begins: it has no clocks. */
void emu_side_reset(emu_block *b);
void emu_clocks_free(emu_block *b);

/* ---- counts.c ---- */

/* Forgets who has counted and who has waited. */
void emu_counts_open(emu_hot *hot);
void emu_counts_up(const int32_t *number);
void emu_counts_await(const int32_t *number, int32_t n, int or_more, uintptr_t pc);
/* As hot.h says. */
int emu_counts_before(uint64_t who, uint64_t epoch, const emu_me *me);

/* ---- signals.c ---- */

void emu_signals_init(uint32_t at, int32_t count, uintptr_t pc);
void emu_signals_fence(void);
void emu_signals_arrive(uint32_t at, int32_t bytes, uintptr_t pc);
/* At a barrier of another block of the cluster. */
void emu_signals_arrive_there(uint32_t at, uintptr_t pc);
int emu_signals_passed(uint32_t at, uint32_t parity, int waits, uintptr_t pc);
void emu_signals_named(int name, int threads, int waits, uintptr_t pc);
void emu_signals_registers(int count, int more, uintptr_t pc);
/* The barrier at an address; NULL, and a finding, if there is none or the thread does not know of it. */
emu_signal *emu_signals_at(emu_block *b, uint32_t at, uintptr_t pc);
/* Bytes have come. */
void emu_signals_came(emu_block *b, emu_signal *s, int64_t bytes);
/* Says what a thread waits for. */
void emu_signals_describe(const emu_thread *t, char *text, size_t room);
/* A block has ended. */
void emu_signals_end(emu_block *b);

/* ---- boxes.c ---- */

void emu_boxes_load(uint32_t to, const void *map, const int32_t at[4], uint32_t signal, uintptr_t pc);
void emu_boxes_store(const void *map, const int32_t at[4], uint32_t from, uintptr_t pc);
/* To the same place of all blocks of the cluster whose bits `blocks` has, each at its own barrier. */
void emu_boxes_load_all(uint32_t to, const void *map, const int32_t at[4], uint32_t signal, int blocks,
                        uintptr_t pc);
/* Bytes side by side, as a box of one row. */
void emu_boxes_bulk_load(uint32_t to, const void *from, int32_t bytes, uint32_t signal, uintptr_t pc);
void emu_boxes_bulk_reduce(float *to, uint32_t from, int32_t bytes, uintptr_t pc);
/* To another block of the cluster, at one of whose barriers they arrive. */
void emu_boxes_bulk_send(uint32_t to, uint32_t from, int32_t bytes, uint32_t signal, uintptr_t pc);
void emu_boxes_commit(void);
void emu_boxes_wait(void);
/* Some may land now. */
void emu_boxes_pass(emu_block *b);
/* Nobody can go on: one copy to shared memory lands, if one is under way. */
bool emu_boxes_stalled(emu_grid *g);
/* The present thread ends. */
void emu_boxes_end(emu_thread *t);

/* ---- products.c ---- */

void emu_products_begin(uintptr_t pc);
/* All threads of a warpgroup have come. NULL; or one that came for something else. */
const emu_thread *emu_products_meet(emu_block *b, int group);
void emu_products_fence(void);
void emu_products_commit(void);
void emu_products_wait(int left);
void emu_products_registers(uintptr_t address, uint32_t size, int is_write, uintptr_t pc);
void emu_products_pass(emu_block *b);
void emu_products_end(emu_thread *t);

/* ---- clusters.c ---- */

/* Where another block of the cluster has what lies at `p` in this one. */
char *emu_clusters_peer(char *p, int rank, uintptr_t pc);
/* The same of an address in shared memory, as instructions for a cluster take it; whose that is, and what it
 * is there. */
uint32_t emu_clusters_place(uint32_t place, int rank, uintptr_t pc);
emu_block *emu_clusters_block(uint32_t *place, uintptr_t pc);
void emu_clusters_arrive(uintptr_t pc);
/* The present thread, which is stopped, waits until all of its cluster do. */
void emu_clusters_wait(emu_thread *t, uintptr_t pc);
/* A block has ended. */
void emu_clusters_end(emu_block *b);

/* Something is wrong that words alone say. Fatal. */
void emu_findings_misuse(const char *words, uintptr_t pc);
void emu_findings_unfenced(const char *words, uintptr_t pc);

#endif
