/* test_transfer.c -- what a family's main anchor found is tried at its others: the fastest, once, and only
 * there; and what won for a family before is tried again (--effort known), it and the default alone. */
#include "db_fixture.h"
#include "search/effort.h"
#include "search/transfer.h"

#define MAIN  "fwd-f32-b4-h32-q4096-k4096-d64"
#define OTHER "fwd-f32-b32-h32-q512-k512-d64"

static const fat_tools tools = {
    .templates = HASH_B, .compile_key = "NVRTC 13.0 --std=c++17", .model = "m", .driver = "580.1"};

/* Valid ones, of which no effort tries the first few at an anchor that is not the main one. */
static const char *const configs[] = {"fwd:Br16-Bc16-T64-R1-W1-s0", "fwd:Br16-Bc16-T64-R1-W2-s0",
                                      "fwd:Br16-Bc16-T64-R2-W1-s0", "fwd:Br16-Bc16-T64-R1-W1-s1",
                                      "fwd:Br16-Bc16-T64-R1-W2-s1", "fwd:Br16-Bc16-T64-R2-W1-s1"};

typedef struct world {
  fat_db *db;
  fat_script *script;
  fat_goal goal;
  fat_agenda agenda;
  fat_session session;
  fat_schedule schedule;
} world;

static void put(fat_db *db, const char *problem, const char *config, double ms, fat_outcome outcome)
{
  fat_trial t = fixture_trial(problem, "T4", config, ms);
  t.driver = tools.driver;
  t.outcome = outcome;
  t.origin = FAT_MEASURED;
  MUST(fat_db_put(db, &t, NULL, err));
}

static void begin_by(fat_effort effort, world *w, void **state)
{
  static const int no_stop;
  fat_problem p;
  *w = (world){.db = fixture_db(*state, FAT_DB_WRITE), .goal = {.effort = effort}};
  MUST(fat_script_open(NULL, &w->script, err));
  w->agenda.list = calloc(2, sizeof *w->agenda.list);
  assert_non_null(w->agenda.list);
  for (int i = 0; i < 2; i++) {
    MUST(fat_problem_parse(i ? OTHER : MAIN, &p, err));
    w->agenda.list[i] =
        (fat_item){.problem = p, .kernels = {{"fwd", 1}}, .kernel_count = 1, .main_plus_1 = i};
  }
  w->agenda.count = 2;
  w->session = (fat_session){.goal = &w->goal,
                             .agenda = &w->agenda,
                             .gpu = fixture_gpu("T4"),
                             .script = w->script,
                             .tools = tools,
                             .db = w->db,
                             .labs = 1, /* only asked whether there is one */
                             .stop = &no_stop};
  MUST(fat_schedule_make(&w->session, &w->schedule, err));
}

static void begin(world *w, void **state)
{
  begin_by(FAT_QUICK, w, state);
}

static void end(world *w)
{
  fat_schedule_free(&w->schedule);
  fat_agenda_free(&w->agenda);
  fat_script_close(w->script);
  fat_db_close(w->db);
}

/* How much the transfer adds; each is one of the other anchor's pair. */
static int transfer(world *w)
{
  int before = w->schedule.count;
  MUST(fat_transfer_add(&w->schedule, err));
  for (int i = before; i < w->schedule.count; i++) {
    assert_ptr_equal(w->schedule.list[i].pair, &w->schedule.pairs[1]);
    assert_ptr_equal(w->schedule.list[i].attempt.problem, &w->agenda.list[1].problem);
  }
  return w->schedule.count - before;
}

static bool is_planned(const world *w, const char *config)
{
  char text[FAT_CONFIG_TEXT];
  for (int i = 0; i < w->schedule.count; i++)
    if (w->schedule.list[i].pair == &w->schedule.pairs[1] &&
        strcmp(fat_config_print(&w->schedule.list[i].attempt.point->config, text), config) == 0)
      return true;
  return false;
}

static void the_fastest_are_tried_once(void **state)
{
  world w;
  begin(&w, state);
  assert_int_equal(transfer(&w), 0); /* nothing is stored yet */
  int transfers = fat_effort_transfers(FAT_QUICK);
  assert_int_equal(transfers, 4);
  for (int i = 0; i < 6; i++)
    put(w.db, MAIN, configs[i], 10 - i, FAT_OUT_OK);
  assert_int_equal(transfer(&w), 4);
  for (int i = 0; i < 6; i++)
    assert_int_equal(is_planned(&w, configs[i]), i >= 2);
  assert_int_equal(transfer(&w), 0); /* they are planned */
  end(&w);
}

static void what_failed_or_was_tried_is_left(void **state)
{
  world w;
  begin(&w, state);
  put(w.db, MAIN, configs[0], 1, FAT_OUT_OK);
  put(w.db, MAIN, configs[1], 2, FAT_OUT_WRONG);
  put(w.db, MAIN, configs[2], 3, FAT_OUT_OK);
  put(w.db, OTHER, configs[2], 3, FAT_OUT_SLOW);
  assert_int_equal(transfer(&w), 1);
  assert_true(is_planned(&w, configs[0]));
  end(&w);
}

static void predictions_transfer_nothing(void **state)
{
  world w;
  begin(&w, state);
  put(w.db, MAIN, configs[0], 1, FAT_OUT_OK);
  w.session.labs = 0;
  assert_int_equal(transfer(&w), 0);
  end(&w);
}

/* What an effort tries: less at the other anchors, less where nothing is measured. */
static void efforts(void **state)
{
  (void)state;
  const fat_item main_one = {.main_plus_1 = 0}, other = {.main_plus_1 = 1};
  const fat_item_kernel picked = {"fwd", 1}, asked = {"fa1", 0};
  for (int effort = 0; effort < FAT_EFFORT_COUNT; effort++) {
    const fat_goal o = {.effort = (fat_effort)effort, .shuffle = 5};
    const fat_shortlist_rule all = fat_effort_rule(&o, &main_one, &picked, true);
    assert_int_equal(all.shuffle, 5);
    assert_false(all.trusting);
    assert_true(fat_effort_rule(&o, &other, &picked, true).trusting);
    assert_true(fat_effort_rule(&o, &main_one, &picked, false).trusting);
    assert_true(fat_effort_rule(&o, &other, &picked, true).most <= all.most);
    assert_true(fat_effort_rule(&o, &main_one, &picked, false).most <= all.most);
    assert_true(fat_effort_rule(&o, &main_one, &asked, true).most <= all.most);
    assert_true(effort > FAT_QUICK || all.most + fat_effort_transfers(FAT_QUICK) <= 64);
  }
}

/* -- --effort known */

static void put_by(fat_db *db, const char *problem, const char *gpu, const char *config, double ms)
{
  fat_trial t = fixture_trial(problem, gpu, config, ms);
  t.driver = "570.2"; /* another one, which made other times */
  t.origin = FAT_MEASURED;
  MUST(fat_db_put(db, &t, NULL, err));
}

/* The winner of the problem itself first, then that of the nearest, then another architecture's. Not tried:
 * what lost, what is no point here, what belongs to another family. */
static void what_is_known_is_tried_alone(void **state)
{
  static const char *const order[] = {"fwd:Br16-Bc16-T64-R1-W2-s0", "fwd:Br16-Bc16-T64-R2-W1-s0",
                                      "fwd:Br16-Bc16-T64-R1-W2-s1"};
  char text[FAT_CONFIG_TEXT], usual[FAT_CONFIG_TEXT];
  world w;
  fat_point point;
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put_by(db, OTHER, "A30", order[2], 1);
  put_by(db, OTHER, "T4", "fwd:Br16-Bc16-T64-R1-W1-s0", 2);
  put_by(db, OTHER, "T4", "fwd:Br7-Bc16-T64-R1-W1-s0", 0.5);
  put_by(db, "fwd-f32-b64-h32-q256-k256-d64", "RTX 2080", order[1], 3);
  put_by(db, OTHER "-causal", "T4", "fwd:Br16-Bc16-T64-R1-W1-s1", 0.1);
  put_by(db, "fwd-f32-b30-h32-q512-k512-d64", "T4", order[0], 1);
  fat_db_close(db);
  begin_by(FAT_KNOWN, &w, state);
  const fat_pair *pair = &w.schedule.pairs[1];
  MUST(fat_space_default(w.script, "fwd", &w.agenda.list[1].problem, w.session.gpu, &point, err));
  fat_config_print(&point.config, usual);
  assert_int_equal(pair->shortlist.count, 4);
  for (int i = 0; i < 4; i++)
    assert_string_equal(fat_config_print(&pair->shortlist.space.points[i].config, text),
                        i ? order[i - 1] : usual);
  assert_int_equal(w.schedule.count, 8); /* at the main anchor the same */
  assert_int_equal(transfer(&w), 0);
  end(&w);
}

/* What won in the other type of 16 bits comes before what won for a shape that lies farther off; f32 has
 * none. A head that few shapes are tuned for knows what won at a wider one. */
static void either_half_is_known(void **state)
{
  const struct {
    const char *asked, *first;
    int count;
  } cases[] = {
      {"fwd-f16-b1-h8-q512-k512-d64", "fwd:Br64", 2},    {"fwd-bf16-b1-h8-q4096-k4096-d64", "fwd:Br128", 2},
      {"fwd-f16-b1-h8-q4096-k4096-d64", "fwd:Br128", 2}, {"fwd-f32-b1-h8-q512-k512-d64", "fwd:Br32", 1},
      {"fwd-f16-b1-h8-q512-k512-d40", "fwd:Br64", 2},    {"fwd-f32-b1-h8-q512-k512-d40", "fwd:Br32", 1}};
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put_by(db, "fwd-bf16-b1-h8-q512-k512-d64", "H200", "fwd:Br64", 1);
  put_by(db, "fwd-f16-b1-h8-q4096-k4096-d64", "H200", "fwd:Br128", 1);
  put_by(db, "fwd-f32-b1-h8-q4096-k4096-d64", "H200", "fwd:Br32", 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_problem p;
    fat_won won = {0};
    fat_known known;
    MUST(fat_problem_parse(cases[i].asked, &p, err));
    MUST(fat_known_read(db, &p, fixture_gpu("H200"), &won, &known, err));
    assert_int_equal(known.count, cases[i].count);
    assert_string_equal(known.config[0], cases[i].first);
    fat_won_free(&won);
  }
  fat_db_close(db);
}

/* With a driver of their own, rows are stored already. */
static void what_is_timed_is_not_timed_again(void **state)
{
  world w;
  begin_by(FAT_KNOWN, &w, state);
  assert_int_equal(w.schedule.count, 2); /* nothing is known: the defaults */
  put(w.db, OTHER, configs[0], 1, FAT_OUT_OK);
  fat_schedule_free(&w.schedule);
  MUST(fat_schedule_make(&w.session, &w.schedule, err));
  assert_int_equal(w.schedule.chosen, 4); /* at the main anchor it is new */
  assert_int_equal(w.schedule.stored, 1);
  assert_int_equal(w.schedule.count, 3);
  end(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_fastest_are_tried_once, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(what_failed_or_was_tried_is_left, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(predictions_transfer_nothing, fixture_open, fixture_close),
      cmocka_unit_test(efforts),
      cmocka_unit_test_setup_teardown(what_is_known_is_tried_alone, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(either_half_is_known, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(what_is_timed_is_not_timed_again, fixture_open, fixture_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
