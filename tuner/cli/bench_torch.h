/* bench_torch.h -- a row of a bench by PyTorch. */
#ifndef FAT_BENCH_TORCH_H
#define FAT_BENCH_TORCH_H

#include "bench_rows.h"

/* By scaled_dot_product_attention, in a python3 of its own: the row's numbers, or why there are none. */
void fat_bench_pytorch(fat_bench_row *row);

#endif
