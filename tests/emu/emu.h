/* emu.h -- runs the rendered text of a kernel on the host and watches every access it makes.
 *
 * A text (with its #line marks) is loaded into a module; tensors are laid out in the memory of an emu, where
 * only their logical elements may be touched; a recipe is run over them as the runtime would launch it. What
 * was wrong comes back as findings with the template's file and line. Not for several threads at once. */
#ifndef EMU_EMU_H
#define EMU_EMU_H

#include "hot.h"
#include "recipe.h"
#include "status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- kernels ---- */

typedef struct emu_module emu_module;

/* Compiles a text (kept by its hash in the cache folder, FATUNE_EMU_CACHE if set) and loads it. Errors:
 * FAT_E_TEMPLATE for an arch function without a twin, FAT_E_COMPILE with the compiler's first error. */
fat_status emu_module_load(const char *text, emu_module **module, fat_error *err);
void emu_module_free(emu_module *module);

/* ---- memory ---- */

typedef struct emu emu;

fat_status emu_open(emu **e, fat_error *err);
void emu_close(emu *e);
/* Forgets all memory. */
void emu_reset(emu *e);
/* Bytes that can be laid out; tens of GiB, of which only touched pages exist. */
uint64_t emu_room(const emu *e);

enum { EMU_DIMS = 4 };

/* A tensor: EMU_DIMS sizes and strides in elements, the last stride 1. */
typedef struct emu_layout {
  const char *name; /* kept by reference */
  int64_t size[EMU_DIMS];
  int64_t stride[EMU_DIMS];
  int element; /* bytes: a multiple of 2 */
  int shift;   /* bytes by which its first element misses an alignment of 256; a multiple of 2 */
} emu_layout;

/* Memory for it: every byte is EMU_POISON, NaN in every type. Elements are open for writing, and for reading
 * once written or declared filled. NULL where there is no room. */
void *emu_tensor(emu *e, const emu_layout *layout);
/* Declares the elements of the tensor at `data` filled by the host. */
void emu_filled(emu *e, const void *data);
/* Poisons its elements and declares them empty again. */
void emu_emptied(emu *e, const void *data);

/* ---- runs ---- */

typedef enum emu_order { EMU_IN_ORDER, EMU_REVERSED, EMU_RANDOM } emu_order;

/* When a copy that runs on by itself moves its bytes: at the wait that covers it, at once, or at any time in
 * between by the run's seed. */
typedef enum emu_landing { EMU_LAND_LATE, EMU_LAND_EARLY, EMU_LAND_RANDOM } emu_landing;

typedef struct emu_options {
  emu_order order; /* of blocks, warps and lanes, wherever several could go on */
  emu_landing landing;
  uint64_t seed;      /* of EMU_RANDOM and EMU_LAND_RANDOM */
  int resident;       /* blocks that run interleaved; 0: two */
  uint64_t accesses;  /* more than these count as endless; 0: 2^34 */
  int events;         /* so many of what becomes findings end the run; 0: 20000 */
  bool one_workspace; /* the pointers into the workspace are parts of one array, not arrays of their own */
  int variant;        /* what emu_variant() says in a text that holds several variants of a kernel */
} emu_options;

enum { EMU_FINDINGS = 16 };

typedef struct emu_finding {
  emu_kind kind;
  char file[96]; /* template, as in the #line mark; "" if the place is none of the text's */
  int line;
  char other_file[96]; /* of a race: the other access; of a barrier: where others wait */
  int other_line;
  char entry[FAT_RECIPE_ENTRY];
  int64_t block;
  int thread;
  long count;     /* times the same was found at the same place */
  char text[512]; /* all of it as one sentence */
} emu_finding;

typedef struct emu_report {
  int findings; /* at most EMU_FINDINGS are kept, the first ones */
  emu_finding finding[EMU_FINDINGS];
  long long launches, blocks, accesses, barriers, shuffles;
  long long together;  /* products and loads of matrices, each of a whole warp */
  long long conflicts; /* of the rows of a matrix with one another, for the banks of shared memory */
  long long copies;    /* of 16 bytes, asynchronous */
  long long boxes;     /* of tensor maps, copied either way */
} emu_report;

/* Runs all steps of a recipe. `call` is handed to the kernels where the recipe says so. What a kernel does
 * wrong is a finding; a status other than FAT_OK is for what never came to run (an entry that is not there,
 * arguments of other sizes than the kernel's). After a finding that would crash, the rest is not run. */
fat_status emu_run(emu *e, const emu_module *module, const fat_recipe *recipe, const fat_sizes *sizes,
                   const void *call, size_t call_size, const emu_options *options, emu_report *report,
                   fat_error *err);

/* One launch, as the driver is given it: blocks of x alone, arguments at offsets of one piece of memory. */
typedef struct emu_call {
  const char *entry;
  int64_t grid, block, shared, cluster; /* cluster 0: none */
  int args;
  const void *memory;
  size_t bytes;
  const int *offset;
} emu_call;

/* Runs it on memory that was laid out before. */
fat_status emu_launch(emu *e, const emu_module *module, const emu_call *call, const emu_options *options,
                      emu_report *report, fat_error *err);

const char *emu_kind_name(emu_kind kind);

#endif
