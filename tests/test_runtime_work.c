/* test_runtime_work.c -- how much work the first plan of a family is: what it asks the database and how many
 * steps SQLite takes for that, how often it hashes, however much was tried for the family. */
#include "make.h"
#include "runtime_fixture.h"

#define FAMILY "fwd-f32-d64-causal"
#define OTHER  "fwd:Br32-Bc32-T128-R4-W4-s0"
#define THIRD  "fwd:Br32-Bc32-T128-R4-W4-s1"

enum { SHAPES = 12, KERNELS = 3 };

/* -- what is counted */

static struct {
  int winners, twins; /* statements that ask for them */
  int codes;          /* looks for a config's code */
  int begins;         /* of reads that belong together */
  int cubins;         /* hashed */
  long steps;         /* of SQLite's machine */
} work;

static int note_statement(unsigned kind, void *user, void *statement, void *nanoseconds)
{
  sqlite3_stmt *stmt = statement;
  const char *text = sqlite3_sql(stmt);
  (void)kind, (void)user, (void)nanoseconds;
  work.winners += strstr(text, "JOIN main.winner w") != NULL;
  work.twins += strstr(text, "instr(replace(t.config") != NULL;
  work.codes += strstr(text, "CROSS JOIN main.trial t") != NULL;
  work.begins += strcmp(text, "BEGIN") == 0;
  work.steps += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
  return 0;
}

/* On every connection that is opened from here on. */
static int watch(sqlite3 *db, char **error, const void *routines)
{
  (void)error, (void)routines;
  return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, note_statement, NULL);
}

void __real_fat_text_hash(const void *bytes, size_t n, char hash[FAT_HASH_SIZE]);
void __wrap_fat_text_hash(const void *bytes, size_t n, char hash[FAT_HASH_SIZE]);

void __wrap_fat_text_hash(const void *bytes, size_t n, char hash[FAT_HASH_SIZE])
{
  work.cubins += n > 4 && memcmp(bytes, "\177ELF", 4) == 0;
  __real_fat_text_hash(bytes, n, hash);
}

/* -- what is planned */

/* Shapes that share a few kernels, and one twin for all. */
static void store_family(void)
{
  static const char *const configs[KERNELS] = {WIDE, OTHER, THIRD};
  for (int i = 0; i < SHAPES; i++) {
    char problem[FAT_PROBLEM_TEXT];
    stored s = {.problem = problem, .gpu = "H200", .ms = 1 + i, .origin = FAT_MEASURED};
    snprintf(problem, sizeof problem, "fwd-f32-b1-h4k2-q%d-k%d-d64-causal", 64 << i, 64 << i);
    s.config = configs[i % KERNELS];
    store(s);
    s.config = NARROW;
    s.ms *= 3;
    store(s);
  }
}

/* What a tune leaves behind: so many trials of each problem that lost, without code. */
static void store_losers(int count)
{
  char sql[1200];
  snprintf(sql, sizeof sql,
           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
           " INSERT INTO trial (run, problem, device, toolchain, kernel, config, source, templates, origin,"
           " outcome, eligible, current, ms, limit_by, registers, stack, spills, shared, blocks_per_sm,"
           " samples, detail, log, date) SELECT t.run, t.problem, t.device, t.toolchain, t.kernel,"
           " 'fwd:Br64-Bc32-T128-R4-W4-s' || (1 + i), 'loser' || i, t.templates, t.origin, t.outcome, 1, 1,"
           " t.ms + i, '', 0, 0, 0, 0, 1, 0, '', '', t.date FROM n, winner w JOIN trial t ON t.id = w.trial",
           count);
  fixture_sql(path, sql);
}

static void plan_once(int *codes)
{
  fatune *h = open_usual();
  memset(&work, 0, sizeof work);
  sqlite3_auto_extension((void (*)(void))watch);
  fatune_plan *plan = plan_of(h, FAMILY);
  sqlite3_reset_auto_extension();
  assert_int_equal(plan->family.shapes, SHAPES);
  *codes = plan->family.codes;
  for (int i = 0; i < SHAPES; i++)
    assert_true(plan->family.shape[i].twin >= 0); /* shared by the shapes of a kernel */
  fatune_plan_free(plan);
  fatune_close(h);
}

static void each_thing_once(void **state)
{
  (void)state;
  int codes;
  store_family();
  plan_once(&codes);
  assert_int_equal(codes, KERNELS + 1);
  assert_int_equal(work.cubins, codes);
  assert_int_equal(work.winners, 1);
  assert_int_equal(work.begins, 1);
  if (work.twins > KERNELS)
    fail_msg("twins were looked for %d times, for %d kernels", work.twins, KERNELS);
}

/* Measured with other templates than the stored code is of: that is found once for each kernel, too. */
static void other_templates(void **state)
{
  (void)state;
  static const char sql[] =
      "CREATE TEMP TABLE code AS SELECT * FROM trial WHERE config <> '" NARROW "';"
      " UPDATE code SET origin = 'predicted', id = id + 1000; INSERT INTO trial SELECT * FROM code;"
      " UPDATE trial SET source = 'of others', recipe = NULL, binary = NULL WHERE origin = 'measured' AND"
      " config <> '" NARROW "'";
  int codes, told = 0;
  store_family();
  plan_once(&codes);
  const int looks = work.codes;
  fixture_sql(path, sql);
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, FAMILY);
  const char *at = fatune_describe(plan);
  while ((at = strstr(at, "why source: the row was measured with other templates")) != NULL)
    told++, at++;
  assert_int_equal(told, KERNELS);
  fatune_plan_free(plan);
  fatune_close(h);
  plan_once(&codes);
  assert_int_equal(codes, KERNELS + 1);
  assert_int_equal(work.cubins, codes);
  assert_int_equal(work.codes, looks + KERNELS);
}

/* A tune of the family leaves hundreds of trials; a plan reads none of them and steps over few. */
static void what_lost_costs_little(void **state)
{
  (void)state;
  enum { LOSERS = 300 };
  int codes;
  store_family();
  plan_once(&codes);
  const long alone = work.steps;
  store_losers(LOSERS);
  plan_once(&codes);
  assert_int_equal(codes, KERNELS + 1);
  print_message("%ld steps of SQLite, %ld beside %d losers\n", alone, work.steps, SHAPES * LOSERS);
  assert_true(work.steps > alone);
  if (work.steps - alone > 5 * SHAPES * LOSERS)
    fail_msg("%ld steps of SQLite, %ld beside %d losers", alone, work.steps, SHAPES * LOSERS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(each_thing_once, begin),
      cmocka_unit_test_setup(other_templates, begin),
      cmocka_unit_test_setup(what_lost_costs_little, begin),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
