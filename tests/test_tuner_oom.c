/* test_tuner_oom.c -- every allocation of the tuner's calls fails in turn (__wrap_malloc): the call says so,
 * loses nothing, and the next one works. Run under AddressSanitizer too. */
#include "search/agenda.h"
#include "search/package.h"
#include "cli/json.h"
#include "search/schedule.h"
#include "render.h"
#include "runtime_fixture.h"
#include "search/shortlist.h"
#include "starve.h"
#include "cli/table.h"
#include "worker/full.h"
#include "worker/wire.h"

#include <sys/socket.h>

#define TINY "fwd-f32-b1-h2-q40-k40-d8-causal"

static fat_problem problem;
static const fat_gpu *t4;
static fat_driver *driver;
static fat_source source;
static unsigned char *cubin;
static size_t cubin_size;
static char cubin_hash[FAT_HASH_SIZE];

static int open_all(void **state)
{
  char name[64];
  group_open(state);
  t4 = render_gpu(75);
  MUST(fat_problem_parse(TINY, &problem, err));
  MUST(fat_driver_open(&driver, err));
  source = render_default(script, "fa1", TINY, t4, FAT_LINES_TEMPLATE);
  fake_bench_clean(&bench, "T4");
  snprintf(name, sizeof name, "%.16s.cu", source.hash);
  folder_write(&files, name, fat_text_get(&source.text));
  cubin = cubin_for(fat_text_get(&source.recipe), 75, &cubin_size);
  fat_text_hash(cubin, cubin_size, cubin_hash);
  return 0;
}

static int close_all(void **state)
{
  free(cubin);
  fat_source_free(&source);
  fat_driver_close(driver);
  return group_close(state);
}

static fat_assignment assignment(void)
{
  return (fat_assignment){
      .task = FAT_TASK_CHECK,
      .problem = problem,
      .sms = 40,
      .l2 = 4096,
      .seed = 1,
      .count = 1,
      .entrant[0] = {"fa1:Br32-Bc32", fat_text_get(&source.recipe), cubin_hash, cubin, cubin_size}};
}

/* Fails the first twenty allocations one by one (in the long form forty), later ones at growing distances,
 * until none is left to fail. A call may succeed in spite of a single refusal (Lua collects garbage and asks
 * again), but never lie. */
static void starve_call(fat_status (*call)(fat_error *err), bool all_that_follow)
{
  const long each = getenv("FATUNE_FULL") ? 40 : 20;
  fat_error err = {0};
  long failures = 0;
  if (call(&err) != FAT_OK) /* what is made once is there */
    fail_msg("with memory enough: %s", err.text);
  for (long n = 0;; n += 1 + n / each) {
    err = (fat_error){0};
    starve_after(n, all_that_follow);
    fat_status status = call(&err);
    bool refused = starve_end();
    if (status != FAT_OK) {
      if (!refused || status != FAT_E_NOMEM || !err.text[0])
        fail_msg("allocation %ld: status %d, '%s'", n, (int)status, err.text);
      failures++;
    } else if (refused && all_that_follow) {
      fail_msg("allocation %ld and all after it failed, and the call did not", n);
    }
    if (!refused)
      break;
  }
  assert_true(failures > 0 || !all_that_follow);
  assert_int_equal(call(&err), FAT_OK);
}

/* ---- the calls ---- */

static fat_status make_cases(fat_error *err)
{
  fat_cases cases;
  FAT_TRY(fat_cases_make(&problem, 1, &cases, err));
  fat_cases_free(&cases);
  return FAT_OK;
}

static fat_status prepare_and_verify(fat_error *err)
{
  fat_testbed testbed = {.driver = driver};
  fat_subject c = {.unit = 4};
  fat_full anchored;
  fat_verdict v = {0};
  fat_timer timer = {0};
  double ms;
  fat_assignment a = assignment();
  fat_status status = fat_module_load(driver, cubin, cubin_size, cubin_hash, &c.module, err);
  if (status == FAT_OK)
    status = fat_recipe_parse(fat_text_get(&source.recipe), &c.recipe, err);
  if (status == FAT_OK)
    status = fat_testbed_prepare(&testbed, &a, err);
  if (status == FAT_OK)
    status = fat_verify_cases(&testbed, &a, &c, &v, err);
  if (status == FAT_OK)
    status = fat_timer_open(driver, &timer, err);
  if (status == FAT_OK)
    status = fat_full_launch(&testbed, &a, &c, &anchored, err);
  if (status == FAT_OK)
    status = fat_full_probe(&anchored, &timer, &v, &ms, err);
  if (status == FAT_OK)
    status = fat_full_repeat(&anchored, &v, err);
  if (status == FAT_OK && v.outcome != FAT_OUT_OK)
    status = fat_status_fail(err, FAT_E_INPUT, "%s", v.detail);
  fat_timer_close(&timer);
  fat_testbed_close(&testbed);
  fat_module_free(c.module);
  return status;
}

/* An assignment, from one end of a socket to the other. */
static fat_status send_and_receive(fat_error *err)
{
  fat_text bytes = {0};
  fat_inbox inbox = {0};
  fat_assignment a = assignment(), b;
  bool whole = false;
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  fat_status status = fat_wire_pack(&a, &bytes, err);
  if (status == FAT_OK)
    status = fat_wire_send(ends[0], FAT_WIRE_ASSIGN, bytes.data, bytes.length, err);
  while (status == FAT_OK && !whole)
    status = fat_inbox_read(&inbox, ends[1], &whole, err);
  if (status == FAT_OK)
    status = fat_wire_unpack(inbox.data, inbox.head.bytes, &b, err);
  if (status == FAT_OK) {
    assert_string_equal(b.entrant[0].recipe, a.entrant[0].recipe);
    assert_int_equal(b.entrant[0].cubin_size, cubin_size);
    assert_memory_equal(b.entrant[0].cubin, cubin, cubin_size);
    assert_null(b.clock.cubin);
  }
  fat_inbox_clear(&inbox);
  fat_text_free(&bytes);
  close(ends[0]);
  close(ends[1]);
  return status;
}

static fat_status choose(fat_error *err)
{
  fat_shortlist list;
  fat_status status =
      fat_shortlist_make(script, "fwd", &problem, t4, (fat_shortlist_rule){.most = 20}, &list, err);
  fat_shortlist_free(&list);
  return status;
}

static fat_status list_anchors(fat_error *err)
{
  const fat_goal goal = {.causal = 3};
  fat_agenda list = {0};
  fat_status status = fat_agenda_list(&goal, t4, script, &list, err);
  if (status == FAT_OK)
    fat_agenda_free(&list);
  return status;
}

static fat_db *db;
static fat_agenda agenda;

static fat_status plan_tune(fat_error *err)
{
  static const fat_goal goal = {.threads = 1};
  const volatile int stop = 0;
  fat_session session = {.goal = &goal,
                         .agenda = &agenda,
                         .gpu = t4,
                         .script = script,
                         .tools = {.templates = "none", .compile_key = "none"},
                         .db = db,
                         .stop = &stop};
  fat_schedule schedule = {0};
  fat_status status = fat_schedule_make(&session, &schedule, err);
  fat_schedule_free(&schedule);
  return status;
}

static fat_status print_table(fat_error *err)
{
  static const fat_column columns[] = {{.title = "problem", .keep = 2, .heading = true},
                                       {.title = "ms", .right = true, .keep = 3},
                                       {.title = "what", .keep = 1}};
  fat_table table = {.columns = columns, .column_count = 3};
  fat_text out = {0};
  for (int i = 0; i < 40; i++) {
    fat_table_add(&table, TINY);
    fat_table_addf(&table, "%d", i);
    fat_table_add(&table, "a cell that is long enough to leave its column out of a narrow table");
  }
  fat_status status = fat_table_print(&table, (fat_look){.width = 60}, &out, err);
  fat_table_free(&table);
  fat_text_free(&out);
  return status;
}

static fat_status write_json(fat_error *err)
{
  fat_text out = {0};
  fat_json j = {.out = &out};
  fat_json_open(&j, NULL, '[');
  for (int i = 0; i < 50; i++) {
    fat_json_open(&j, NULL, '{');
    fat_json_string(&j, "problem", TINY);
    fat_json_int(&j, "i", i);
    fat_json_close(&j, '}');
  }
  fat_json_close(&j, ']');
  fat_status status = fat_text_status(&out, err);
  fat_text_free(&out);
  return status;
}

/* All rows, or none: a package that lacks some is shipped. */
static fat_status make_package(fat_error *err)
{
  fat_package_counts counts;
  FAT_TRY(fat_package_make(db, script, NULL, NULL, 1, &counts, err));
  return counts.rows == 1 ? FAT_OK : fat_status_fail(err, FAT_E_INPUT, "%d rows of 1", counts.rows);
}

/* ---- tests ---- */

#define STARVED(name, call)                                                                                  \
  static void name(void **state)                                                                             \
  {                                                                                                          \
    (void)state;                                                                                             \
    starve_call(call, true);                                                                                 \
    starve_call(call, false);                                                                                \
  }
STARVED(cases, make_cases)
STARVED(messages, send_and_receive)
STARVED(search, choose)
STARVED(anchors, list_anchors)
STARVED(tables, print_table)
STARVED(json, write_json)

/* Device memory comes back whatever fails. */
static void verification(void **state)
{
  fake_live before, after;
  (void)state;
  fake_bench_clean(&bench, "T4");
  fake_bench_begin(&bench, 75);
  cu.fake_compute(FAKE_REFERENCE);
  cu.fake_sources(files.path);
  cu.fake_count(&before);
  starve_call(prepare_and_verify, true);
  starve_call(prepare_and_verify, false);
  cu.fake_count(&after);
  assert_int_equal(after.allocations, before.allocations);
  assert_int_equal(after.modules, before.modules);
  assert_int_equal(after.events, before.events);
}

static void plans(void **state)
{
  static const char *const problems[] = {TINY};
  const fat_goal goal = {
      .problems = problems, .problem_count = 1, .kernels = {"standard"}, .kernel_count = 1};
  (void)state;
  unlink(path);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_agenda_list(&goal, t4, script, &agenda, err));
  starve_call(plan_tune, true);
  starve_call(plan_tune, false);
  fat_agenda_free(&agenda);
  fat_db_close(db);
}

static void packages(void **state)
{
  (void)state;
  unlink(path);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  fat_trial t = fixture_trial(TINY, "T4", "gone:Br16", 1);
  t.origin = FAT_MEASURED;
  MUST(fat_db_put(db, &t, NULL, err));
  starve_call(make_package, false);
  fat_db_close(db);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cases),        cmocka_unit_test(messages), cmocka_unit_test(search),
      cmocka_unit_test(anchors),      cmocka_unit_test(tables),   cmocka_unit_test(json),
      cmocka_unit_test(verification), cmocka_unit_test(plans),    cmocka_unit_test(packages),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
