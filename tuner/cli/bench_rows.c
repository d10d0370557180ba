/* bench_rows.c -- rows of a bench as problems, as figures and as JSON. */
#include "bench_rows.h"

#include "json.h"

#include <string.h>

const char *const fat_impl_names[FAT_IMPLS] = {"standard", "flash1", "flash2", "best", "pytorch"};

fat_status fat_bench_problem(const fat_bench_row *row, fat_op op, fat_problem *p, fat_error *err)
{
  if (row->emb_dim % row->num_heads)
    return fat_status_fail(err, FAT_E_INPUT, "--emb-dim %lld is no multiple of --num-heads %lld",
                           (long long)row->emb_dim, (long long)row->num_heads);
  const int64_t d = row->emb_dim / row->num_heads;
  if (d > FAT_PROBLEM_D_MAX || d % 8)
    return fat_status_fail(
        err, FAT_E_INPUT,
        "--emb-dim %lld over --num-heads %lld gives heads of %lld: allowed are multiples of 8 up "
        "to %d",
        (long long)row->emb_dim, (long long)row->num_heads, (long long)d, FAT_PROBLEM_D_MAX);
  *p = (fat_problem){.op = op,
                     .dtype = row->dtype,
                     .b = row->batch_size,
                     .h = row->num_heads,
                     .hk = row->num_heads,
                     .q = row->seq_len,
                     .k = row->seq_len,
                     .d = (int32_t)d,
                     .dv = (int32_t)d,
                     .features = row->causal ? 1u << FAT_CAUSAL : 0};
  return fat_problem_check(p, err);
}

double fat_bench_seconds(const fat_bench_row *row, int part)
{
  return part < FAT_OP_COUNT ? row->seconds[part] : row->seconds[FAT_FWD] + row->seconds[FAT_BWD];
}

double fat_bench_tflops(const fat_bench_row *row, int part)
{
  static const double share[FAT_BENCH_PARTS] = {1, 2.5, 3.5};
  const double pairs = (double)row->seq_len * (double)row->seq_len / (row->causal ? 2 : 1);
  return share[part] * 4 * (double)row->batch_size * (double)row->emb_dim * pairs /
         fat_bench_seconds(row, part) / 1e12;
}

static void add_figures(fat_json *j, const fat_bench_row *row)
{
  static const char *const parts[FAT_BENCH_PARTS] = {"forward", "backward", "forward_backward"};
  for (int i = 0; i < FAT_BENCH_PARTS; i++) {
    fat_json_open(j, parts[i], '{');
    fat_json_double(j, "time(s)", fat_bench_seconds(row, i));
    fat_json_double(j, "FLOPS(TFLOPs/s)", fat_bench_tflops(row, i));
    fat_json_close(j, '}');
  }
  fat_json_double(j, "peak_memory_usage(MB)", row->mb);
}

static void add_row(fat_json *j, const fat_bench_row *row)
{
  fat_json_open(j, NULL, '{');
  fat_json_int(j, "batch_size", row->batch_size);
  fat_json_int(j, "seq_len", row->seq_len);
  fat_json_int(j, "num_heads", row->num_heads);
  fat_json_int(j, "emb_dim", row->emb_dim);
  fat_json_string(j, "impl", fat_impl_names[row->impl]);
  fat_json_bool(j, "causal", row->causal);
  fat_json_string(j, "dtype", fat_dtypes[row->dtype].name);
  if (row->failed[0]) {
    fat_json_string(j, "failed", row->failed);
  } else {
    add_figures(j, row);
    fat_json_string(j, "forward_config", row->config[FAT_FWD]);
    fat_json_string(j, "backward_config", row->config[FAT_BWD]);
  }
  fat_json_close(j, '}');
}

fat_status fat_bench_json(const fat_bench_row *rows, int count, fat_text *out, fat_error *err)
{
  fat_json j = {.out = out};
  if (count == 1 && !rows->failed[0]) {
    fat_json_open(&j, NULL, '{');
    add_figures(&j, rows);
    fat_json_close(&j, '}');
  } else {
    fat_json_open(&j, NULL, '[');
    for (int i = 0; i < count; i++)
      add_row(&j, &rows[i]);
    fat_json_close(&j, ']');
  }
  return fat_text_status(out, err);
}
