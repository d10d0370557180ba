/* test_chart.c -- a bench's chart: where figures lie, by what lines are told apart. */
#include "cli/bench_chart.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static fat_bench_row row(fat_impl impl, bool causal, int64_t seq_len, double seconds, double mb)
{
  return (fat_bench_row){.batch_size = 1,
                         .seq_len = seq_len,
                         .num_heads = 1,
                         .emb_dim = 64,
                         .causal = causal,
                         .dtype = FAT_F16,
                         .impl = impl,
                         .seconds = {seconds / 2, seconds / 2},
                         .mb = mb};
}

static fat_text draw(const fat_bench_row *rows, int count)
{
  fat_error err = {0};
  fat_text out = {0};
  assert_int_equal(fat_bench_chart(rows, count, "H200", &out, &err), FAT_OK);
  return out;
}

/* The heights of a panel's line number `which`, from its first to its last point. */
static int heights(const char *svg, int panel, int which, double at[8])
{
  for (int i = 0; i <= panel; i++)
    svg = strstr(svg, "<g transform") + 1;
  for (int i = 0; i <= which; i++)
    svg = strstr(svg, "<polyline") + 1;
  int n = 0;
  for (const char *p = strstr(svg, "points=\"") + 8; *p != '"'; n++) {
    char *end;
    strtod(p, &end);
    at[n] = strtod(end + 1, &end);
    p = end + 1;
  }
  return n;
}

/* 1 to 1,000 ms and 1 to 50 MiB: equal factors are equal heights in the first, equal differences in the last.
 */
static void powers_of_ten(void **state)
{
  (void)state;
  const fat_bench_row rows[] = {row(FAT_IMPL_BEST, false, 1024, 0.001, 1),
                                row(FAT_IMPL_BEST, false, 2048, 0.01, 25.5),
                                row(FAT_IMPL_BEST, false, 65536, 1, 50)};
  fat_text svg = draw(rows, 3);
  double at[8];
  assert_int_equal(heights(svg.data, 0, 0, at), 3);
  assert_true(fabs((at[0] - at[1]) - (at[0] - at[2]) / 3) < 0.2);
  assert_int_equal(heights(svg.data, 2, 0, at), 3);
  assert_true(fabs((at[0] - at[1]) - (at[0] - at[2]) / 2) < 0.2);
  assert_non_null(strstr(svg.data, ">1000</text>"));
  assert_non_null(strstr(svg.data, ">64k</text>"));
  fat_text_free(&svg);
}

static void an_algorithm_has_one_colour(void **state)
{
  (void)state;
  fat_bench_row rows[2 * FAT_IMPLS];
  for (int i = 0; i < 2 * FAT_IMPLS; i++)
    rows[i] = row((fat_impl)(i / 2), i % 2, 1024, 0.001, 1);
  fat_text svg = draw(rows, 2 * FAT_IMPLS);
  const char *legend = strstr(svg.data, "</g>\n<line");
  char strokes[FAT_IMPLS][16];
  assert_non_null(legend);
  for (int i = 0; i < 2 * FAT_IMPLS; i++) {
    char stroke[16], rest[200];
    legend = strstr(legend, "<line") + 1;
    assert_int_equal(sscanf(strstr(legend, "stroke="), "stroke=\"%7s\" %199[^/]", stroke, rest), 2);
    assert_int_equal(strstr(rest, "dasharray") != NULL, i % 2);
    if (i % 2)
      assert_string_equal(stroke, strokes[i / 2]);
    else
      snprintf(strokes[i / 2], sizeof strokes[i / 2], "%s", stroke);
    for (int j = 0; j < i / 2; j++)
      assert_string_not_equal(stroke, strokes[j]);
  }
  fat_text_free(&svg);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(powers_of_ten),
                                     cmocka_unit_test(an_algorithm_has_one_colour)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
