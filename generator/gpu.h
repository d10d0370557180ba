/* gpu.h -- what GPUs there are: one row per architecture, one row per model that people own.
 *
 * The rows hold what pruning and prediction need. A device at hand fills the same struct from what the
 * driver reports and is matched to a row by those facts, never by its name. Needs no GPU. */
#ifndef FAT_GPU_H
#define FAT_GPU_H

#include "status.h"
#include "problem.h"
#include <stddef.h>
#include <stdint.h>

/* Facts shared by every model of one compute capability; rates are per SM and clock. */
typedef struct fat_arch {
  int sm;              /* 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121 */
  const char *target;  /* what NVRTC is asked for: "sm_75", "sm_90a", ... */
  int threads_sm;      /* resident threads per SM */
  int blocks_sm;       /* resident blocks per SM */
  int regs_sm;         /* 32-bit registers per SM */
  int regs_thread;     /* most registers one thread may have: 255 */
  int shared_block;    /* most shared memory of one block, opted in, bytes */
  int shared_sm;       /* shared memory of one SM, bytes */
  int shared_reserved; /* taken from each block by the driver, bytes: 1024 from sm_80 on, 0 before */
  int fma;             /* fp32 fused multiply-adds */
  int ex2;             /* exponentials */
  int shared_bytes;    /* shared memory bandwidth, bytes */
  int tensor;          /* dense 16-bit tensor-core operations (FLOP) with fp32 accumulation */
  uint32_t dtypes;     /* bit 1u << fat_dtype: what its arithmetic units can do at all */
} fat_arch;

typedef struct fat_gpu {
  char name[32]; /* "T4", "RTX 4090": a label, never part of a match */
  int sm;
  int sms;          /* streaming multiprocessors */
  int shared_block; /* bytes */
  int shared_sm;    /* bytes */
  int64_t l2;       /* bytes */
  int bus;          /* memory bus width, bits */
  int clock;        /* maximum SM clock, MHz */
  int memory_clock; /* maximum memory clock as the driver reports it, MHz; 0 unknown */
  double dram;      /* peak memory bandwidth, GB/s */
  double memory;    /* device memory, GiB */
} fat_gpu;

/* The row of a compute capability; NULL if there is none. */
const fat_arch *fat_gpu_arch(int sm);
/* All model rows, for tables and tests; sets *count. */
const fat_gpu *fat_gpu_list(int *count);
/* A row by name: case, spaces, '-' and '_' do not count ("rtx4090" is "RTX 4090"), the driver's names are
 * known ("NVIDIA GeForce RTX 4090"), a short one is the most common model ("A100"). FAT_E_INPUT names the
 * nearest rows by edit distance; FAT_E_UNSUPPORTED says what an older GPU lacks. */
fat_status fat_gpu_find(const char *name, const fat_gpu **gpu, fat_error *err);
/* The row whose facts equal those of a device at hand (sm, SMs, shared memory, L2, bus, clock within 2 %),
 * the nearest in memory clock and size where several do; NULL if no row does (the device is then used as it
 * is). */
const fat_gpu *fat_gpu_match(const fat_gpu *device);
/* The facts a pick must agree with, as text: "sm75-40SM-65536S-4194304L2-256b-1590+5001MHz". */
enum { FAT_GPU_FACTS = 128 };
const char *fat_gpu_facts(const fat_gpu *gpu, char buffer[FAT_GPU_FACTS]);

#endif
