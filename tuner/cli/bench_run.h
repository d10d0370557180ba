/* bench_run.h -- rows of a bench, measured on the GPU at hand. */
#ifndef FAT_BENCH_RUN_H
#define FAT_BENCH_RUN_H

#include "bench_rows.h"
#include "open.h"

typedef struct fat_bench fat_bench;

/* A context on the GPU at hand, in this process: what is run is known or default, not searched. */
fat_status fat_bench_open(const fat_options *options, const fat_asked_gpu *asked, fat_bench **bench,
                          fat_error *err);
void fat_bench_close(fat_bench *bench);

/* Fills in the row's numbers, or why there are none. A status other than FAT_OK ends the sweep. */
fat_status fat_bench_measure(fat_bench *bench, fat_bench_row *row, fat_error *err);

#endif
