/* fake_cuda.h -- what a test in the same process may ask of the fake driver, beside the driver's own calls.
 *
 * The functions are exported by fake_cuda.so: a test finds them with dlsym in the library that it (or the
 * code under test) opened; FAKE_CONTROL lists them, so that a table of pointers can be made from it. What the
 * fake does and the environment variables it reads are in README.md. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>

typedef struct fake_live {
  int contexts, modules, streams, events, graphs, allocations; /* graphs: those instantiated too */
  size_t bytes;
} fake_live;

/* A kernel of a cubin that fake_cubin makes. */
typedef struct fake_kernel {
  const char *name;
  int registers, shared, threads; /* of a thread; static bytes; most threads of a block, 0: any */
  int params;
  int size[8]; /* bytes of each parameter; those of FAT_CUDA_MAP_BYTES lie as tensor maps must */
} fake_kernel;

typedef enum fake_numbers {
  FAKE_NOTHING,   /* a launch leaves memory as it is */
  FAKE_EMULATE,   /* the source runs in the emulator */
  FAKE_REFERENCE, /* attention is computed by plain loops, as the family in the source's header says */
} fake_numbers;

/* Rows: result, name, parameters. */
#define FAKE_CONTROL(X)                                                                                      \
  /* Forgets everything but cuInit: contexts, memory, clocks, plans set by control, counters, findings. */   \
  X(void, fake_reset, (void))                                                                                \
  /* Replaces FAKE_CUDA_FAULT and FAKE_CUDA_FAIL; counting begins anew. NULL: the environment again. */      \
  X(void, fake_fault, (const char *plan))                                                                    \
  /* Replaces FAKE_CUDA_TIMES. */                                                                            \
  X(void, fake_times, (const char *plan))                                                                    \
  /* Replaces FAKE_CUDA_EMULATE. */                                                                          \
  X(void, fake_compute, (fake_numbers numbers))                                                              \
  /* Replaces FAKE_CUDA_SOURCES: the folder of sources. */                                                   \
  X(void, fake_sources, (const char *folder))                                                                \
  /* How often a function was called ("cuLaunchKernel"), how often entries of a pattern were launched. */    \
  X(long, fake_calls, (const char *function))                                                                \
  X(long, fake_launches, (const char *pattern))                                                              \
  X(void, fake_count, (fake_live * live))                                                                    \
  /* What went wrong and no result code tells: broken canaries, findings of the emulator, sources that were  \
   * not found. How many; the text of one, NULL beyond the last, valid until fake_reset. */                  \
  X(int, fake_findings, (void))                                                                              \
  X(const char *, fake_finding, (int index))                                                                 \
  /* Looks at the canaries of all allocations; the number of broken ones, each of them a finding. */         \
  X(int, fake_canaries, (void))                                                                              \
  /* Milliseconds on the virtual clock of the current context. */                                            \
  X(double, fake_clock, (void))                                                                              \
  /* The error of the current context, met already or waiting for who synchronizes. */                       \
  X(int, fake_sticky, (void))                                                                                \
  /* A cubin that the fake loads, made without a compiler: its bytes, from malloc. */                        \
  X(void *, fake_cubin, (int sm, int count, const fake_kernel *kernels, size_t *size))

#define FAKE_PROTOTYPE(result, name, parameters) result name parameters;
FAKE_CONTROL(FAKE_PROTOTYPE)

#endif
