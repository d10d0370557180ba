/* test_shipped.c -- the rows of db/tuned: each is a config that its kernel has, as the templates are now, for
 * its own problem and GPU, and that they write. A call of the problem gets another row than its own where
 * that is not so. And a family whose winners have tiles that are parted among blocks (G), as few tiles gain
 * by, has others: a call of many tiles would be given those. */
#include "db_fixture.h"
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
    fat_db *db = NULL;
    fat_text text = {0};
    fat_import counts;
    snprintf(path, sizeof path, "%s/%zu.db", files.path, i);
    MUST(fat_text_read_file(&text, found.gl_pathv[i], 64 << 20, err));
    MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
    MUST(fat_db_import_shipped(db, fat_text_get(&text), text.length, &counts, err));
    assert_string_equal(counts.first_refusal, "");
    MUST(fat_db_trials(db, NULL, look, &l, err));
    fat_db_close(db);
    if (fixture_number(path, ALL_PARTED) > 0)
      fail_msg("%s: families that this counts: %s", found.gl_pathv[i], ALL_PARTED);
    fat_text_free(&text);
  }
  globfree(&found);
  fat_script_close(l.script);
  folder_remove(&files);
  print_message("%d rows\n", l.rows);
  assert_true(l.rows > 0);
  assert_int_equal(l.unfit, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_row_fits_its_problem)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
