/* hot.h -- what a running kernel and the scheduler share: the current thread, the arena and its shadow.
 *
 * Each kernel is a shared object with hot.c and twins.c linked into it; `emu_hot_attach` gives it the one
 * state it works on. The shadow has one cell for every 4 bytes of the arena, so an access finds its cells by
 * arithmetic. Where the two halves of a word were not always treated alike its cell is split: it names a pair
 * of cells, one for each half.
 *
 * Order. Within a launch only two things order the accesses of different threads: a barrier of the whole
 * block and a barrier of a whole warp. So a thread's vector clock has just three different entries (itself,
 * its warp, the rest of its block; nothing of other blocks) and is kept as three numbers. Each barrier of a
 * block takes the next tick of that block; a thread's epoch is the tick of its last barrier. An access (u, e)
 * came before thread t's present exactly when u is t and e is no later than its own epoch, or e <
 * t.seen_block and both are of one block, or e < t.seen_warp and both are of one warp, or it was made in an
 * earlier launch, of whose end the thread knows: where launches overlap, because it has waited or has met one
 * that has.
 *
 * A copy that runs on by itself has the epoch EMU_IN_FLIGHT, which comes before nobody's present, its own
 * thread's neither; the wait that covers it makes it a write of that moment (copies.c).
 *
 * Where a block uses barriers in shared memory or named ones, three numbers are too few: from the first such
 * call on each of its threads has a clock with an entry for every thread of the block and for every agent
 * (clocks.c). An agent is what runs on by itself and is awaited as one: the copies that arrive at a barrier,
 * a warpgroup's products, a thread's stores. Its epochs count its phases, products or groups, and nobody has
 * seen one who has not waited for it. An entry above an access's epoch: the access came before. Readers of a
 * word whose reads nothing orders are then kept one by one, in sets (EMU_SET). In a cluster a clock has such
 * entries for each of its blocks: `seen` points to those of the clock's own, the others lie around them. */
#ifndef EMU_HOT_H
#define EMU_HOT_H

#include <stdint.h>

enum { EMU_WARP = 32, EMU_THREADS_MAX = 1024, EMU_GROUP = 128 };

/* What memory holds that nobody has written: a NaN as f32, each half of it one as f16 and as bf16. */
#define EMU_POISON UINT32_C(0x7fed7fed)

/* A stamp: tag 2 bits, block 23, thread 11, epoch 28. Blocks count from 1 over all launches of a run. */
enum { EMU_EPOCH_BITS = 28, EMU_THREAD_BITS = 11, EMU_BLOCK_BITS = 23, EMU_TAG_SHIFT = 62 };
#define EMU_EPOCH_MASK ((UINT64_C(1) << EMU_EPOCH_BITS) - 1)

#define EMU_IN_FLIGHT EMU_EPOCH_MASK

/* "Threads" of a stamp that are none: agents; EMU_SET, whose epoch is the index of a set of readers; and
 * EMU_ATOMIC, all that change a number as one, which nobody else's access comes after in a launch. */
enum { EMU_AGENTS = 128, EMU_SET = (1 << EMU_THREAD_BITS) - 1, EMU_ATOMIC = EMU_SET - 1 };

/* Readers of one warp, or an agent in the place of a lane, at one epoch. A set is a run of these; the first
 * says how many. */
typedef struct emu_readers {
  uint32_t lanes, epoch;
  uint16_t warp, count;
} emu_readers;

/* Tag of `write`: what the cell is. Of a split one the rest of `write` is the index of its halves. */
enum { EMU_CLOSED, EMU_EMPTY, EMU_FILLED, EMU_SPLIT };
/* Tag of `read`: who read since the last write. The epoch is the greatest of all of them. */
enum { EMU_ONE, EMU_OF_WARP, EMU_OF_BLOCK, EMU_OF_GRID };

typedef struct emu_cell {
  uint64_t write, read;       /* stamps; 0: nobody in this run */
  uint32_t write_pc, read_pc; /* where, as offsets into the module */
} emu_cell;

/* The two cells of a word whose cell is split. */
typedef struct emu_halves {
  emu_cell half[2];
  emu_cell *of;  /* the split cell; NULL: not in use */
  uint32_t next; /* not in use: the next such one */
} emu_halves;

/* Shared memory has addresses of its own: the block's first byte has this one. It is aligned to what kernels
 * may count on (the swizzle of 1024 bytes does) and to no more. As a pointer it is aligned to less. */
enum { EMU_SHARED_ALIGN = 128, EMU_SHARED_BASE = 3 * 1024 };

/* What a whole warp does together. ORDER OP */
typedef enum emu_op {
  EMU_LDMATRIX,
  EMU_LDMATRIX_TRANS,
  EMU_MMA_F16_K8,
  EMU_MMA_F16,
  EMU_MMA_BF16,
  EMU_MMA_TF32,
  EMU_STMATRIX,
  EMU_STMATRIX_TRANS,
  EMU_WGMMA,
  EMU_OPS
} emu_op;

/* Of a warpgroup. */
typedef struct emu_product {
  float *c;          /* registers that are added to, those of the thread */
  int32_t columns;   /* of the product */
  const uint32_t *a; /* registers of the left operand; NULL: it lies in shared memory */
  uint64_t left, right;
  int32_t by_rows; /* the right operand: its rows are contiguous, else its columns */
  int32_t turned;  /* the left one in shared memory: its columns are, else its rows */
  int32_t add, is_bf16;
} emu_product;

/* A lane's part in it. */
typedef struct emu_part {
  int32_t place; /* EMU_OPS * line of the call + the op: the same in all lanes */
  uint32_t row;  /* matrices: the lane's address */
  uint32_t a[4], b[2];
  float c[4];      /* products: what is added to, then the sum */
  uint32_t got[4]; /* matrices: what comes out */
  emu_product product;
} emu_part;

/* A thread as the callbacks see it. */
typedef struct emu_me {
  uint64_t who;   /* block << EMU_THREAD_BITS | thread, the block counted over all launches */
  uint64_t stamp; /* who << EMU_EPOCH_BITS | epoch */
  uint64_t ended; /* blocks before this one are of launches that have ended, as the thread knows */
  uint32_t seen_block, seen_warp;
  uintptr_t stack, stack_size;
  const uint32_t *seen;  /* its clock, where there is one: emu_seen_at */
  int32_t threads;       /* of its block */
  int32_t rank, peers;   /* where there is a clock: its block's place in a cluster of so many */
  int32_t stride;        /* entries of a clock for each of these */
  uintptr_t known, last; /* registers that products use lie from here to there; 0: none do */
  int64_t block, grid;   /* blockIdx.x, gridDim.x */
  int32_t thread;
  char *shared;
  uint32_t shared_size;
  int32_t lanes; /* of a shuffle: the argument, the value given, the value got */
  float given, got;
  emu_part part;
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
  EMU_NEVER_AWAITED,
  EMU_DEADLOCK,
  EMU_UNFENCED,
  EMU_PRODUCT_REGISTERS,
  EMU_MISUSE,
  EMU_KIND_COUNT
} emu_kind;

typedef enum emu_wait {
  EMU_WAIT_NONE,
  EMU_WAIT_BLOCK,
  EMU_WAIT_WARP,
  EMU_WAIT_SHUFFLE,
  EMU_WAIT_VOTE,
  EMU_WAIT_TOGETHER, /* emu_op */
  EMU_WAIT_PRODUCT,  /* a warpgroup */
  EMU_WAIT_SIGNAL,   /* a barrier in shared memory */
  EMU_WAIT_NAMED,
  EMU_WAIT_CLUSTER,
  EMU_WAIT_NUMBER, /* a number in device memory */
  EMU_WAIT_COUNT
} emu_wait;

typedef struct emu_event {
  emu_kind kind;
  int is_write;
  int in_shared; /* `address` is one of shared memory's own, outside of it */
  uintptr_t address;
  uint32_t size;
  uintptr_t pc;     /* in the kernel; 0 where `file` says it */
  const char *file; /* source position where the compiler gave it */
  uint32_t line;
  uint64_t other; /* a race: the other stamp and its place */
  uint32_t other_pc;
  int other_is_write;
  const char *words; /* a misuse: what is wrong */
} emu_event;

typedef struct emu_hot {
  emu_me *me;
  uint64_t first_block; /* of this launch, in the counting of stamps */
  uintptr_t arena;
  uint64_t arena_size;
  emu_cell *shadow;
  emu_halves *halves; /* [0] is the head of those not in use */
  uint64_t accesses, budget;
  int variant;                           /* of the text, which this run is of */
  uintptr_t image, image_size;           /* the module in memory: constants may be read there */
  uintptr_t call, call_size;             /* the launch's argument struct: each thread copies it from there */
  void (*found)(const emu_event *event); /* does not return where going on would crash */
  void (*wait)(emu_wait kind, uintptr_t pc);
  void (*split)(emu_cell *cell);
  void (*copy)(char *to, const char *from, int real, uintptr_t pc);
  void (*copy_commit)(void);
  void (*copy_wait)(int left);
  /* Barriers of 8 bytes at an address of shared memory; `bytes` < 0: none are announced. */
  void (*signal_init)(uint32_t at, int32_t count, uintptr_t pc);
  void (*signal_fence)(void);
  void (*signal_arrive)(uint32_t at, int32_t bytes, uintptr_t pc);
  int (*signal_passed)(uint32_t at, uint32_t parity, int waits, uintptr_t pc);
  void (*named)(int name, int threads, int waits, uintptr_t pc);
  /* Until a number in device memory is n, or more; one was counted up. */
  void (*await_count)(const int32_t *from, int32_t n, int or_more, uintptr_t pc);
  void (*counted)(const int32_t *number);
  int any_counted; /* one has been waited for */
  /* Whether an access of another block came before the present of `me` by such a number. */
  int (*counted_before)(uint64_t who, uint64_t epoch, const emu_me *me);
  /* The launch behind may begin; until the one before has ended. */
  void (*launch_next)(void);
  void (*launch_wait)(void);
  void (*own_registers)(int count, int more, uintptr_t pc);
  /* Boxes of tensor maps; `signal` is of a copy to shared memory alone. */
  void (*box_load)(uint32_t to, const void *map, const int32_t at[4], uint32_t signal, uintptr_t pc);
  void (*box_store)(const void *map, const int32_t at[4], uint32_t from, uintptr_t pc);
  /* Bytes side by side: copied to shared memory; numbers of fp32 there that are added to device memory. */
  void (*bulk_load)(uint32_t to, const void *from, int32_t bytes, uint32_t signal, uintptr_t pc);
  void (*bulk_reduce)(float *to, uint32_t from, int32_t bytes, uintptr_t pc);
  void (*store_commit)(void);
  void (*store_wait)(void);
  void (*copies_fence)(void);
  /* Blocks of a cluster. */
  char *(*peer)(char *p, int rank, uintptr_t pc);
  uint32_t (*peer_place)(uint32_t place, int rank, uintptr_t pc);
  void (*signal_arrive_there)(uint32_t at, uintptr_t pc);
  void (*box_load_all)(uint32_t to, const void *map, const int32_t at[4], uint32_t signal, int blocks,
                       uintptr_t pc);
  void (*bulk_send)(uint32_t to, uint32_t from, int32_t bytes, uint32_t signal, uintptr_t pc);
  void (*cluster_arrive)(uintptr_t pc);
  /* Products of warpgroups: `part` of the present thread says which. */
  void (*product)(uintptr_t pc);
  void (*products_fence)(void);
  void (*products_commit)(void);
  void (*products_wait)(int left);
  void (*registers)(uintptr_t address, uint32_t size, int is_write, uintptr_t pc);
  void (*add_reader)(emu_cell *cell, const emu_me *me);
  const emu_readers *sets;
} emu_hot;

/* Of the module that a file is linked into. */
extern emu_hot *emu_hot_state __attribute__((visibility("hidden")));

#endif
