/* test_shipped.c -- the rows of db/tuned: each is a config that its kernel has, as the templates are now, for
 * its own problem and GPU, and that they write. A call of the problem gets another row than its own where
 * that is not so. And a family whose winners have tiles that are parted among blocks (G), as few tiles gain
 * by, has others: a call of many tiles would be given those. And all shapes of a family have room in its
 * plan: those that are left out lie far from its main anchor, as one row of Q on a long cache does. */
#include "db_fixture.h"
#include "family.h"
#include "folder.h"
#include "source.h"
#include "space.h"
#include "text.h"

#include <glob.h>

typedef struct looking {
  fat_script *script;
  int rows, unfit;
} looking;

static const char ALL_PARTED[] = "SELECT count(*) FROM (SELECT family FROM best WHERE kernel IN ('bwd_ws', "
                                 "'bwd_pair', 'bwd_wide') GROUP BY family "
                                 "HAVING min(coalesce(json_extract(tunables, '$.G'), 1)) > 1)";

/* The types of 16 bits share their rows, and so do GPUs of an architecture. */
#define OF_FAMILIES(what)                                                                                    \
  "SELECT max(n) FROM (SELECT count(DISTINCT " what ") AS n FROM best "                                      \
  "GROUP BY replace(family, '-f16-', '-bf16-'), sm)"
static const char SHAPES[] = OF_FAMILIES("replace(problem, '-f16-', '-bf16-')");
static const char CONFIGS[] = OF_FAMILIES("config");

static bool look(const fat_trial *t, void *user)
{
  looking *l = user;
  fat_point point;
  fat_source source;
  fat_error why = {0};
  char problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
  l->rows++;
  if (fat_space_point(l->script, &t->config, &t->problem, &t->gpu, &point, &why) == FAT_OK &&
      fat_source_render(l->script, &t->problem, &t->gpu, &t->config, FAT_LINES_TEMPLATE, &source, &why) ==
          FAT_OK) {
    fat_source_free(&source);
  } else {
    l->unfit++;
    print_error("%s, %s, of an %s: %s\n", fat_problem_print(&t->problem, problem),
                fat_config_print(&t->config, config), t->gpu.name, why.text);
  }
  return true;
}

/* The rows of a file, into a database that may have others. */
static void import_into(const char *path, const char *file, looking *l)
{
  fat_db *db = NULL;
  fat_text text = {0};
  fat_import counts;
  MUST(fat_text_read_file(&text, file, 64 << 20, err));
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_import_shipped(db, fat_text_get(&text), text.length, &counts, err));
  assert_string_equal(counts.first_refusal, "");
  if (l)
    MUST(fat_db_trials(db, NULL, look, l, err));
  fat_db_close(db);
  fat_text_free(&text);
}

static void each_row_fits_its_problem(void **state)
{
  (void)state;
  folder files = folder_make();
  char path[300];
  glob_t found;
  looking l = {0};
  MUST(fat_script_open(NULL, &l.script, err));
  assert_int_equal(glob("db/tuned/*.jsonl", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    snprintf(path, sizeof path, "%s/%zu.db", files.path, i);
    import_into(path, found.gl_pathv[i], &l);
    if (fixture_number(path, ALL_PARTED) > 0)
      fail_msg("%s: families that this counts: %s", found.gl_pathv[i], ALL_PARTED);
  }
  globfree(&found);
  fat_script_close(l.script);
  folder_remove(&files);
  print_message("%d rows\n", l.rows);
  assert_true(l.rows > 0);
  assert_int_equal(l.unfit, 0);
}

static void each_family_fits_its_plan(void **state)
{
  (void)state;
  folder files = folder_make();
  char path[300];
  glob_t found;
  snprintf(path, sizeof path, "%s/all.db", files.path);
  assert_int_equal(glob("db/tuned/*.jsonl", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++)
    import_into(path, found.gl_pathv[i], NULL);
  const long long shapes = fixture_number(path, SHAPES), configs = fixture_number(path, CONFIGS);
  print_message("%lld shapes and %lld configs at most\n", shapes, configs);
  assert_in_range(shapes, 1, FAT_FAMILY_SHAPES);
  assert_in_range(configs, 1, FAT_FAMILY_CODES - 2);
  globfree(&found);
  folder_remove(&files);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_row_fits_its_problem),
                                     cmocka_unit_test(each_family_fits_its_plan)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
