/* bench_chart.h -- rows of a bench as a picture. */
#ifndef FAT_BENCH_CHART_H
#define FAT_BENCH_CHART_H

#include "bench_rows.h"

/* Time, TFLOP/s and memory as an SVG picture: the parameter with the most values runs to the right. */
fat_status fat_bench_chart(const fat_bench_row *rows, int count, const char *gpu, fat_text *out,
                           fat_error *err);

#endif
