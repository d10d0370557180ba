/* bench_rows.h -- a row of `fatune bench`: one setting of a sweep, what it took, how it is written.
 *
 * The names of parameters and of what is measured are those of the benchmark script of a course on parallel
 * programming: "batch_size", "forward", "time(s)", "FLOPS(TFLOPs/s)", "peak_memory_usage(MB)". */
#ifndef FAT_BENCH_ROWS_H
#define FAT_BENCH_ROWS_H

#include "config.h"
#include "problem.h"
#include "text.h"

enum { FAT_BENCH_PARTS = 3, FAT_BENCH_DETAIL = 512 };

/* ORDER IMPL */
typedef enum fat_impl {
  FAT_IMPL_STANDARD,
  FAT_IMPL_FLASH1,
  FAT_IMPL_FLASH2,
  FAT_IMPL_BEST,
  FAT_IMPL_PYTORCH,
  FAT_IMPLS
} fat_impl;
extern const char *const fat_impl_names[FAT_IMPLS];

typedef struct fat_bench_row {
  int64_t batch_size, seq_len, num_heads, emb_dim;
  bool causal;
  fat_dtype dtype;
  fat_impl impl;
  double seconds[FAT_OP_COUNT];               /* of a forward, of a backward */
  double mb;                                  /* MiB of GPU memory that both need beside nothing else */
  char config[FAT_OP_COUNT][FAT_CONFIG_TEXT]; /* "" of PyTorch */
  char failed[FAT_BENCH_DETAIL];              /* why it has no numbers; "" where it has them */
} fat_bench_row;

/* The call of a row. FAT_E_INPUT where the heads do not divide emb_dim, or no head dimension comes out. */
fat_status fat_bench_problem(const fat_bench_row *row, fat_op op, fat_problem *p, fat_error *err);

/* Forward, backward, both: seconds, and TFLOP/s by the operations that the mask leaves as the course counts
 * them: all pairs, half of them under a causal mask. */
double fat_bench_seconds(const fat_bench_row *row, int part);
double fat_bench_tflops(const fat_bench_row *row, int part);

/* One row alone is the course's object; several are a list of them, each with its parameters before. */
fat_status fat_bench_json(const fat_bench_row *rows, int count, fat_text *out, fat_error *err);

#endif
