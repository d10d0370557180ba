/* jit_abi.h -- what libfatune and libfatune-jit say to each other: one request, one answer, plain C.
 *
 * libfatune-jit writes and compiles kernels (Lua, NVRTC); libfatune loads it only where a caller's policy
 * lets it compile. Both come from one build: a library of another FATUNE_JIT_ABI is refused. */
#ifndef FAT_JIT_ABI_H
#define FAT_JIT_ABI_H

#include "config.h"
#include "gpu.h"
#include "status.h"
#include "text.h"

enum { FATUNE_JIT_ABI = 4 };

typedef enum fatune_jit_task {
  FATUNE_JIT_NAME,   /* say which config would be made; nothing is compiled */
  FATUNE_JIT_MAKE,   /* render and compile it */
  FATUNE_JIT_REBUILD /* compile `source` as it is */
} fatune_jit_task;

typedef struct fatune_jit_request {
  fatune_jit_task task;
  const char *problem;        /* canonical text */
  const char *mod, *mask_mod; /* what its expressions say; NULL: it has none */
  const fat_gpu *gpu;
  int cuda;           /* the CUDA major of the driver */
  const char *kernel; /* NULL: the one preferred of those that may be picked unasked */
  const char *config; /* NULL: the kernel's default for the problem */
  const char *rather; /* NULL, or a config for the default's place, where it is one of the same kernel, valid
                         for the problem and without spills */
  int narrow;         /* the config, but moving one element at once: any alignment will do */
  int mapless;        /* the driver makes no tensor maps: a kernel that takes some is no default */
  const char *source; /* for FATUNE_JIT_REBUILD */
} fatune_jit_request;

/* Texts and bytes are freed by fatune_jit_free. */
typedef struct fatune_jit_answer {
  fat_error error; /* where the result is not FAT_OK */
  char config[FAT_CONFIG_TEXT];
  char source_hash[FAT_HASH_SIZE], cubin_hash[FAT_HASH_SIZE];
  char *source, *recipe; /* NULL after FATUNE_JIT_REBUILD */
  void *cubin;
  size_t cubin_size;
  char *compile_key;             /* as fat_compile_key says */
  char templates[FAT_HASH_SIZE]; /* hash over all of them */
  int picked; /* above 0: calls may get it unasked, as the default where the driver makes tensor maps, or as a
                 twin */
  int registers, stack, spills; /* worst entry */
  double seconds;               /* the compile took */
} fatune_jit_answer;

/* What libfatune-jit exports. Rows: result, name, parameters. */
#define FATUNE_JIT_CALLS(X)                                                                                  \
  X(int, fatune_jit_abi, (void))                                                                             \
  X(fat_status, fatune_jit_answer_request, (const fatune_jit_request *request, fatune_jit_answer *answer))   \
  X(void, fatune_jit_free, (fatune_jit_answer * answer))

#endif
