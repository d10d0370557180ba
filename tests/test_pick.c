/* test_pick.c -- the pick order step by step, what is nearest, and what the answer says. */
#include "db_fixture.h"
#include "pick.h"
#include "width.h"
#include <time.h>

#define ASKED "fwd-f32-b4-h16-q4096-k4096-d64"

static fat_problem parsed(const char *text)
{
  fat_problem p;
  MUST(fat_problem_parse(text, &p, err));
  return p;
}

/* One question by itself. */
static fat_pick answer(fat_db *db, const fat_pick_question *q)
{
  fat_pick pick;
  fat_pick_rows rows = {0};
  MUST(fat_pick_answer(db, q, &rows, &pick, err));
  fat_pick_rows_free(&rows);
  return pick;
}

/* What a pick is asked in these tests: today, with the tools of the fixture's rows. */
static fat_pick ask(fat_db *db, const char *problem, const char *gpu, const char *kernel)
{
  fat_problem p = parsed(problem);
  fat_pick_question q = {.problem = &p,
                         .gpu = fixture_gpu(gpu),
                         .kernel = kernel,
                         .driver = "580.1",
                         .compile_key = "NVRTC 13.0 --std=c++17",
                         .templates = HASH_B,
                         .now = (int64_t)time(NULL)};
  return answer(db, &q);
}

static void put(fat_db *db, const char *problem, const char *gpu, const char *config, fat_origin origin,
                double ms)
{
  fat_trial t = fixture_trial(problem, gpu, config, ms);
  double samples[] = {ms}, clocks[] = {1500};
  t.origin = origin;
  if (origin == FAT_MEASURED) {
    t.driver = "580.1";
    t.samples = samples;
    t.clocks = clocks;
    t.sample_count = 1;
    t.p20 = t.p80 = ms;
    t.clock_mhz = 1500;
  }
  MUST(fat_db_put(db, &t, NULL, err));
}

static void expect(const fat_pick *pick, fat_pick_step step, const char *config)
{
  if (pick->step != step || (config && strcmp(pick->row[step].config, config) != 0))
    fail_msg("%s: %s; expected %s: %s", fat_pick_step_name(pick->step), pick->why[pick->step],
             fat_pick_step_name(step), config ? config : "");
}

/* Rows are added from the last resort upwards; each new one is preferred to all before. */
static void the_order(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_pick pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  for (int step = 0; step < FAT_PICK_DEFAULT; step++)
    assert_int_not_equal(pick.why[step][0], 0);

  put(db, "fwd-f32-b1-h1-q64-k64-d64", "RTX 2080 Ti", "fwd:Br1", FAT_PREDICTED, 1);
  pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_PREDICTED, "fwd:Br1");
  put(db, ASKED, "T4", "fwd:Br2", FAT_PREDICTED, 9);
  pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_PREDICTED, "fwd:Br2");

  put(db, "fwd-f32-b4-h16-q512-k512-d64", "RTX 2080 Ti", "fwd:Br3", FAT_MEASURED, 1);
  pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_ARCH, "fwd:Br3");
  assert_non_null(strstr(pick.why[FAT_PICK_ARCH], "RTX 2080 Ti"));
  assert_non_null(strstr(pick.why[FAT_PICK_ARCH], "distance 5.5"));

  put(db, "fwd-f32-b4-h16-q512-k512-d64", "T4", "fwd:Br4", FAT_MEASURED, 1);
  pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br4");
  put(db, ASKED, "T4", "fwd:Br5", FAT_MEASURED, 5);
  pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br5");
  assert_non_null(strstr(pick.why[FAT_PICK_EXACT], "this device"));
  assert_null(strstr(pick.why[FAT_PICK_EXACT], "distance"));
  fat_db_close(db);
}

/* Times in proportion to the rounds of tiles (15,808, 861,456 and 55,744 units of work on the T4's 40 SMs,
 * two blocks each): every row promises the same, and the nearest is taken. */
static void the_nearest_shape(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-f32-b4-h16-q1024-k1024-d64", "T4", "fwd:Br64-s1", FAT_MEASURED, 4);
  put(db, "fwd-f32-b4-h16-q8192-k8192-d64", "T4", "fwd:Br64-s2", FAT_MEASURED, 218);
  put(db, "fwd-f32-b1-h16-q4096-k4096-d64", "T4", "fwd:Br64-s3", FAT_MEASURED, 14.1);
  fat_pick pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br64-s3"); /* batch 4 times smaller: 1; lengths doubled: 2 */
  pick = ask(db, "fwd-f32-b4-h16-q7000-k7000-d64", "T4", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br64-s2");
  pick = ask(db, "fwd-f32-b4-h16-q0-k0-d64", "T4", NULL); /* no rows at all is like one */
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br64-s1");
  fat_db_close(db);
}

/* Of shapes that lie equally near that which promises less: 22.1, 20.9 and 20.6 ms. */
static void the_better_of_equally_near(void **state)
{
  const char *asked = "fwd-f32-b2-h32-q8192-k8192-d64";
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-f32-b2-h10-q4096-k4096-d64", "T4", "fwd:Br64-s1", FAT_MEASURED, 1.75);
  put(db, "fwd-f32-b1-h32-q16384-k16384-d64", "T4", "fwd:Br64-s2", FAT_MEASURED, 41.6);
  fat_pick pick = ask(db, asked, "T4", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br64-s2");
  put(db, "fwd-f32-b4-h32-q4096-k4096-d64", "T4", "fwd:Br64-s3", FAT_MEASURED, 10.4);
  pick = ask(db, asked, "T4", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br64-s3");
  put(db, "fwd-f32-b4-h32-q4096-k4096-d64", "RTX 2080 Ti", "fwd:Br4", FAT_MEASURED, 10);
  pick = ask(db, asked, "T4", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br64-s3");
  fat_db_close(db);
}

/* Of equal scores the nearer one, then that with as many rows of Q, then the device with as many SMs. */
static void ties(void **state)
{
  (void)state;
  const fat_problem p = parsed(ASKED);
  const fat_room room = fat_reach_room(fixture_gpu("T4"));
  const fat_asked asked = fat_candidate_asked(&p, &room);
  fat_candidate a = {.found = true, .score = 1, .sms = 40}, b = a;
  a.at = b.at = asked.at;
  b.distance = 1;
  assert_true(fat_candidate_before(&a, &b, &asked, 40) && !fat_candidate_before(&b, &a, &asked, 40));
  a.distance = 1;
  b.at.all += 2;
  assert_true(fat_candidate_before(&a, &b, &asked, 40) && !fat_candidate_before(&b, &a, &asked, 40));
  a.at.all -= 2;
  b.sms = 46;
  assert_true(fat_candidate_before(&a, &b, &asked, 40) && !fat_candidate_before(&b, &a, &asked, 40));
  assert_false(fat_candidate_before(&a, &b, &asked, 44));
  b.found = false;
  assert_true(fat_candidate_before(&a, &b, &asked, 44));
}

/* A family is the code: another d, mask or architecture never serves. */
static void other_families_never_serve(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-f32-b4-h16-q4096-k4096-d128", "T4", "fwd:Br1", FAT_MEASURED, 1);
  put(db, "fwd-f32-b4-h16-q4096-k4096-d64-causal", "T4", "fwd:Br2", FAT_MEASURED, 1);
  put(db, ASKED, "A100", "fwd:Br3", FAT_MEASURED, 1);
  fat_pick pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  fat_db_close(db);
}

/* -- kernels that never met */

#define HALF(n) "fwd-f16-b1-h8-q" #n "-k" #n "-d256"
#define LENT(n) "fwd-bf16-b1-h8-q" #n "-k" #n "-d256"

/* At 1024 only `fwd` was measured; `fwd_ws` at half and twice the length, where it is faster. */
static fat_db *put_strangers(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, HALF(1024), "H200", "fwd:Br1", FAT_MEASURED, 1.0);
  put(db, HALF(512), "H200", "fwd_ws:Br2", FAT_MEASURED, 0.2);
  put(db, HALF(2048), "H200", "fwd_ws:Br3", FAT_MEASURED, 2.6);
  return db;
}

/* Tiles of two rows: 2048 are 16 rounds of 132 SMs at 512 and 32 at 1024, of 736 and 1248 keys' time, and the
 * last of them is whole. */
static void an_untried_kernel_that_promises_more(void **state)
{
  fat_db *db = put_strangers(state);
  put(db, HALF(1024), "H200", "fwd_ws:Br2", FAT_PREDICTED, 0.5); /* is not tried */
  fat_pick pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd_ws:Br2");
  assert_non_null(strstr(pick.why[FAT_PICK_EXACT], "fwd:Br1 for " HALF(1024) " on this device"));
  const char *why = pick.why[FAT_PICK_NEAREST];
  assert_non_null(strstr(why, "fwd_ws:Br2 for " HALF(512) " on this device"));
  assert_non_null(strstr(
      why, "promises 0.6716 ms for " HALF(1024) ", where fwd_ws was never tried and fwd:Br1 takes 1 ms"));
  put(db, HALF(512), "H200", "standard:Br1", FAT_MEASURED, 0.1); /* the nearest row is another's */
  pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "standard:Br1");
  pick = ask(db, HALF(1024), "H200", "fwd");
  expect(&pick, FAT_PICK_EXACT, "fwd:Br1");
  fat_db_close(db);
}

/* What was measured for the very problem stays where a promise is less than a quarter better. */
static void a_small_promise_is_no_reason(void **state)
{
  fat_db *db = put_strangers(state);
  put(db, HALF(1024), "H200", "fwd:Br4", FAT_MEASURED, 0.83); /* promised: 0.6723 */
  fat_pick pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br4");
  fat_db_close(db);
}

/* Where the question lies beside the row that was measured alone, the other kernel is expected to be faster.
 */
static void the_nearest_is_expected_to_be_slower(void **state)
{
  fat_db *db = put_strangers(state);
  fat_pick pick = ask(db, HALF(1000), "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd_ws:Br2");
  assert_string_equal(pick.why[FAT_PICK_EXACT], "no measurement of this problem on this device");
  assert_non_null(strstr(pick.why[FAT_PICK_NEAREST], "fwd_ws:Br2 for " HALF(512)));
  assert_non_null(strstr(pick.why[FAT_PICK_NEAREST], "; expected 0."));
  fat_db_close(db);
}

static void only_the_exact_row_will_do(void **state)
{
  fat_db *db = put_strangers(state);
  fat_problem p = parsed(HALF(1024)), beside = parsed(HALF(1000));
  fat_pick pick;
  fat_pick_question q = {.problem = &p, .gpu = fixture_gpu("H200"), .exact = true};
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br1");
  q.problem = &beside;
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_NEAREST, "fwd_ws:Br2");
  fat_db_close(db);
}

/* It was beaten where it was tried, with whatever outcome. */
static void a_tried_kernel_is_beaten(void **state)
{
  static const fat_outcome outcomes[] = {FAT_OUT_OK, FAT_OUT_WRONG, FAT_OUT_TIMEOUT};
  for (int i = 0; i < 3; i++) {
    fixture_close(state);
    fixture_open(state);
    fat_db *db = put_strangers(state);
    fat_trial t = fixture_trial(HALF(1024), "H200", "fwd_ws:Br2", 1.1);
    t.driver = "580.1";
    t.origin = FAT_MEASURED;
    t.outcome = outcomes[i];
    MUST(fat_db_put(db, &t, NULL, err));
    fat_pick pick = ask(db, HALF(1024), "H200", NULL);
    expect(&pick, FAT_PICK_EXACT, "fwd:Br1");
    fat_db_close(db);
  }
}

/* Rows that promise no more, of a far shape, of another device, of four times the work. */
static void what_promises_less(void **state)
{
  static const struct {
    const char *problem, *gpu;
    double ms;
  } rows[] = {
      {HALF(512), "H200", 0.3},
      {HALF(256), "H200", 0.01},
      {HALF(4096), "H200", 1.1},
      {HALF(512), "H100 SXM", 0.1},
      {"fwd-f16-b4-h8-q1024-k1024-d256", "H200", 4.1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    fixture_close(state);
    fixture_open(state);
    fat_db *db = fixture_db(*state, FAT_DB_WRITE);
    put(db, HALF(1024), "H200", "fwd:Br1", FAT_MEASURED, 1.0);
    put(db, rows[i].problem, rows[i].gpu, "fwd_ws:Br2", FAT_MEASURED, rows[i].ms);
    fat_pick pick = ask(db, HALF(1024), "H200", NULL);
    expect(&pick, FAT_PICK_EXACT, "fwd:Br1");
    fat_db_close(db);
  }
}

/* Rows that all lie far off are no answer where a default can be had; one that is near lets all count. */
static void rows_far_off(void **state)
{
  static const char decode[] = "fwd-f16-b1-h8-q1-k4096-d256";
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_problem p = parsed(decode);
  fat_pick_question q = {.problem = &p, .gpu = fixture_gpu("H200")};
  put(db, HALF(4096), "H200", "fwd:Br1", FAT_MEASURED, 1);
  fat_pick pick = answer(db, &q);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br1");
  assert_false(pick.far);
  q.near = true;
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  assert_true(pick.far);
  assert_non_null(strstr(pick.why[FAT_PICK_NEAREST], "fwd:Br1 for " HALF(4096)));
  assert_non_null(strstr(pick.why[FAT_PICK_DEFAULT], "too far off"));
  put(db, "fwd-f16-b1-h8-q4-k4096-d256", "H200", "fwd:Br2", FAT_MEASURED, 0.004);
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br2");
  p = parsed("fwd-f16-b16-h8-q4096-k4096-d256"); /* whose heads fill the GPU, as those of one batch do not */
  pick = answer(db, &q);
  assert_false(pick.far);                       /* 2^16 rows count as the most */
  p = parsed("fwd-f16-b1-h1-q4096-k4096-d256"); /* an eighth of the rows */
  pick = answer(db, &q);
  assert_true(pick.far);
  p = parsed("fwd-f32-b1-h8-q1-k4096-d256"); /* of which there are none */
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  assert_false(pick.far);
  fat_db_close(db);
}

/* A problem's own row yields where the other type's took much less, but not where nothing can be compiled. */
static void rows_that_the_other_half_leads(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, HALF(1024), "H200", "fwd:Br3", FAT_MEASURED, 1.06);
  put(db, LENT(1024), "H200", "fwd:Br1", FAT_MEASURED, 1);
  fat_pick pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br1");
  assert_non_null(strstr(pick.why[FAT_PICK_EXACT], "the other type's took less"));
  pick = ask(db, LENT(1024), "H200", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br1");
  put(db, LENT(512), "H200", "fwd:Br4", FAT_MEASURED, 1.1); /* f16 may be as much faster by itself */
  put(db, HALF(512), "H200", "fwd:Br5", FAT_MEASURED, 1);
  pick = ask(db, LENT(512), "H200", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br4");
  fat_problem p = parsed(HALF(1024));
  fat_pick_question q = {.problem = &p, .gpu = fixture_gpu("H200"), .alone = true};
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br3");
  q = (fat_pick_question){.problem = &p, .gpu = fixture_gpu("H200"), .exact = true};
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br3");
  fat_db_close(db);
}

/* What was measured in the other type of 16 bits is near, never exact, and counts where its shape was not
 * measured in the type itself, or led by little; nowhere else, and not where nothing can be compiled. */
static void rows_of_the_other_half(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, LENT(1024), "H200", "fwd:Br9", FAT_PREDICTED, 0.1);
  fat_pick pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  put(db, LENT(1024), "H200", "fwd:Br1", FAT_MEASURED, 1);
  pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br1");
  assert_string_equal(pick.row[FAT_PICK_NEAREST].problem, HALF(1024));
  assert_non_null(strstr(pick.why[FAT_PICK_NEAREST], "measured in the other type of 16 bits 1 ms"));
  pick = ask(db, LENT(1024), "H200", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br1");
  pick = ask(db, "fwd-f32-b1-h8-q1024-k1024-d256", "H200", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  put(db, HALF(64), "H200", "fwd:Br2", FAT_MEASURED, 0.1);
  pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br1");
  fat_problem p = parsed(HALF(1024));
  fat_pick_question q = {.problem = &p, .gpu = fixture_gpu("H200"), .alone = true};
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br2");
  put(db, HALF(1024), "H200", "fwd:Br3", FAT_MEASURED, 1.04);
  put(db, LENT(1024), "H100 SXM", "fwd:Br4", FAT_MEASURED, 0.5);
  pick = ask(db, HALF(1024), "H200", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br3");
  pick = ask(db, HALF(1000), "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br3");
  pick = ask(db, HALF(1000), "H100 SXM", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br4");
  fat_db_close(db);
}

/* A problem that another device has by an older kernel alone says nothing of how fast that device is: its
 * rows would seem twice as fast here. Where one kernel won on both, they are. */
static void devices_are_compared_by_one_kernel(void **state)
{
  for (int same = 0; same < 2; same++) {
    fixture_close(state);
    fixture_open(state);
    fat_db *db = fixture_db(*state, FAT_DB_WRITE);
    put(db, HALF(2048), "H200", "fwd_ws:Br1", FAT_MEASURED, 1);
    put(db, HALF(2048), "H100 SXM", same ? "fwd_ws:Br2" : "fwd:Br2", FAT_MEASURED, 2);
    put(db, HALF(1024), "H100 SXM", "fwd_ws:Br3", FAT_MEASURED, 0.5);
    const fat_pick pick = ask(db, HALF(1000), "H200", NULL);
    expect(&pick, same ? FAT_PICK_ARCH : FAT_PICK_NEAREST, same ? "fwd_ws:Br3" : "fwd_ws:Br1");
    fat_db_close(db);
  }
}

/* A head that few shapes are tuned for is lent what won at the next wider one that many are, in either type,
 * and with what was measured for it; no other head is, nor one with another V. */
static void rows_of_a_wider_head(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-bf16-b1-h8-q1024-k1024-d64", "H200", "fwd:Br1", FAT_MEASURED, 1);
  put(db, "fwd-bf16-b1-h8-q512-k512-d128", "H200", "fwd:Br2", FAT_MEASURED, 0.1);
  fat_pick pick = ask(db, "fwd-bf16-b1-h8-q1024-k1024-d32", "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br1");
  assert_string_equal(pick.row[FAT_PICK_NEAREST].problem, "fwd-bf16-b1-h8-q1024-k1024-d32");
  assert_non_null(strstr(pick.why[FAT_PICK_NEAREST], "measured at d 64 1 ms"));
  pick = ask(db, "fwd-f16-b1-h8-q1024-k1024-d40", "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br1");
  assert_non_null(strstr(pick.why[FAT_PICK_NEAREST], "measured in the other type of 16 bits at d 64 1 ms"));
  pick = ask(db, "fwd-bf16-b1-h8-q1024-k1024-d72", "H200", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  pick = ask(db, "fwd-bf16-b1-h8-q1024-k1024-d96", "H200", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  pick = ask(db, "fwd-bf16-b1-h8-q1024-k1024-d32v64", "H200", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  pick = ask(db, "fwd-f32-b1-h8-q1024-k1024-d32", "H200", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  put(db, "fwd-bf16-b1-h8-q1024-k1024-d32", "H200", "fwd:Br3", FAT_MEASURED, 0.9);
  pick = ask(db, "fwd-bf16-b1-h8-q1024-k1024-d32", "H200", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br3");
  put(db, "fwd-bf16-b1-h8-q8-k1024-d64", "H200", "fwd:Br4", FAT_MEASURED, 0.1);
  pick = ask(db, "fwd-bf16-b1-h8-q8-k1024-d32", "H200", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br4");
  fat_problem p = parsed("fwd-bf16-b1-h8-q8-k1024-d40");
  fat_pick_question q = {.problem = &p, .gpu = fixture_gpu("H200"), .alone = true};
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  fat_db_close(db);
}

/* Baselines are found only when named, and a failed trial is never found. */
static void asked_kernels(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_trial t = fixture_trial(ASKED, "T4", "fa1:Br1", 3);
  t.eligible = 0;
  MUST(fat_db_put(db, &t, NULL, err));
  t = fixture_trial(ASKED, "T4", "fa1:Br2", 1);
  t.eligible = 0;
  t.outcome = FAT_OUT_SPILLS;
  MUST(fat_db_put(db, &t, NULL, err));
  t = fixture_trial(ASKED, "T4", "fa1:Br3", 4);
  t.eligible = 0;
  MUST(fat_db_put(db, &t, NULL, err));
  fat_pick pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  pick = ask(db, ASKED, "T4", "fa1");
  expect(&pick, FAT_PICK_PREDICTED, "fa1:Br1");
  fat_db_close(db);
}

/* As the winner among all kernels is found: over all kinds of data, where those are known. */
static void asked_kernels_by_their_means(void **state)
{
  static const struct {
    const char *config;
    double ms, mean;
  } rows[] = {{"fwd:Br1", 1, 1.5}, {"fwd:Br2", 1.1, 1.2}, {"fwd:Br3", 1.15, NAN}, {"fwd:Br4", 1.05, 1.3}};
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fat_trial t = fixture_trial(ASKED, "T4", rows[i].config, rows[i].ms);
    t.origin = FAT_MEASURED, t.mean = rows[i].mean;
    MUST(fat_db_put(db, &t, NULL, err));
  }
  fat_pick pick = ask(db, ASKED, "T4", "fwd");
  expect(&pick, FAT_PICK_EXACT, "fwd:Br2");
  pick = ask(db, ASKED, "T4", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br2");
  fat_db_close(db);
}

/* A row of the asked kernel that was made to stand in for another config is left for the last. */
static void twins_are_the_last(void **state)
{
  static const char narrow[] = "fwd:Br1-W1", other[] = "fwd:Br2-W1";
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  const struct {
    const char *problem, *gpu, *config;
    fat_pick_step twin;
  } rows[] = {
      {"fwd-f32-b4-h16-q512-k512-d64", "RTX 2080 Ti", narrow, FAT_PICK_ARCH},
      {"fwd-f32-b4-h16-q512-k512-d64", "T4", other, FAT_PICK_NEAREST},
      {ASKED, "T4", narrow, FAT_PICK_EXACT},
  };
  for (int i = 0; i < 3; i++) {
    fat_trial t = fixture_trial(rows[i].problem, rows[i].gpu, rows[i].config, 9);
    t.origin = FAT_MEASURED;
    t.twin_of = "fwd_ws:Br64";
    MUST(fat_db_put(db, &t, NULL, err));
    fat_pick pick = ask(db, ASKED, "T4", "fwd");
    expect(&pick, FAT_PICK_DEFAULT, NULL);
    assert_non_null(strstr(pick.why[FAT_PICK_DEFAULT], "only a twin"));
    assert_true(pick.twin.row.found && pick.twin.step == rows[i].twin);
    assert_string_equal(pick.twin.row.config, rows[i].config);
  }
  fat_pick pick = ask(db, ASKED, "T4", NULL); /* unasked it has won */
  expect(&pick, FAT_PICK_EXACT, narrow);
  put(db, "fwd-f32-b4-h16-q1024-k1024-d64", "T4", "fwd:Br1-W4", FAT_MEASURED, 1);
  pick = ask(db, ASKED, "T4", "fwd");
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br1-W4");
  put(db, ASKED, "T4", "fwd:Br3-W1", FAT_MEASURED, 10); /* no twin */
  pick = ask(db, ASKED, "T4", "fwd");
  expect(&pick, FAT_PICK_EXACT, "fwd:Br3-W1");
  fat_db_close(db);
}

/* Of twins at the same step the nearer shape's stands in, whichever came first. */
static void the_nearest_twin(void **state)
{
  static const char *const rows[][2] = {{"fwd-f32-b4-h16-q1024-k1024-d64", "fwd:Br1-W1"},
                                        {"fwd-f32-b4-h16-q2048-k2048-d64", "fwd:Br2-W1"},
                                        {"fwd-f32-b4-h16-q512-k512-d64", "fwd:Br3-W1"}};
  static const char *const nearest[] = {"fwd:Br1-W1", "fwd:Br2-W1", "fwd:Br2-W1"};
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  for (int i = 0; i < 3; i++) {
    fat_trial t = fixture_trial(rows[i][0], "T4", rows[i][1], 9);
    t.origin = FAT_MEASURED;
    t.twin_of = "fwd_ws:Br64";
    MUST(fat_db_put(db, &t, NULL, err));
    fat_pick pick = ask(db, ASKED, "T4", "fwd");
    assert_int_equal(pick.twin.step, FAT_PICK_NEAREST);
    assert_string_equal(pick.twin.row.config, nearest[i]);
  }
  fat_db_close(db);
}

/* Of other devices with rows of the same shape, the one whose number of SMs is nearer: a T4 has 40. */
static void the_nearest_device(void **state)
{
  static const char *const gpus[] = {"RTX 2080 Ti", "RTX 2060", "RTX 2080 Ti"}; /* 68 and 30 SMs */
  for (int first = 0; first < 2; first++) {
    fixture_close(state);
    fixture_open(state);
    fat_db *db = fixture_db(*state, FAT_DB_WRITE);
    assert_true(fixture_gpu(gpus[0])->sms - 40 > 40 - fixture_gpu(gpus[1])->sms);
    for (int i = first; i < first + 2; i++)
      put(db, ASKED, gpus[i], strcmp(gpus[i], "RTX 2060") == 0 ? "fwd:Br1" : "fwd:Br2", FAT_MEASURED, 1 + i);
    fat_pick pick = ask(db, ASKED, "T4", NULL);
    expect(&pick, FAT_PICK_ARCH, "fwd:Br1");
    assert_non_null(strstr(pick.why[FAT_PICK_ARCH], "RTX 2060"));
    fat_db_close(db);
  }
}

/* A quarter of what memory of so many GB/s takes for Q, K, V and O of heads of 64 rows and columns in f32. */
static double unhidden(double heads, double dram)
{
  return 0.25 * heads * 4 * 64 * 64 * 4 * 1e-6 / dram / 0.9;
}

/* What was measured here, far from the question, yields to another device's row beside it; at the very shape
 * it does not, however much another promises. */
static void a_neighbours_row_beside_the_question(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-f32-b4-h32-q4096-k4096-d64", "T4", "fwd:Br64", FAT_MEASURED, 40);
  put(db, "fwd-f32-b1-h1-q64-k64-d64", "RTX 2060", "fwd:Br32", FAT_MEASURED, 0.005);
  fat_pick pick = ask(db, "fwd-f32-b1-h2-q64-k64-d64", "T4", NULL);
  expect(&pick, FAT_PICK_ARCH, "fwd:Br32");
  assert_non_null(strstr(pick.why[FAT_PICK_NEAREST], "fwd:Br64"));
  const fat_candidate *here = &pick.row[FAT_PICK_NEAREST], *there = &pick.row[FAT_PICK_ARCH];
  /* By the clocks, 1590 and 1680 MHz, and for 30 SMs in the place of 40; one round of one tile on either. */
  const double tile = 0.0025 - unhidden(1, 336), times = 1680 / 1590.0 * (1.03 + 0.1 * log2(40 / 30.0));
  assert_true(fabs(there->expected - (0.0025 + unhidden(2, 320) + tile * times)) < 1e-9);
  assert_true(there->score < here->score);
  pick = ask(db, "fwd-f32-b4-h32-q4096-k4096-d64", "T4", NULL);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br64");
  fat_db_close(db);
}

/* What another device took where this one was measured, too, tells how much slower this one is, and no more:
 * its config lost here, or will be tried. */
static void a_problem_that_was_measured_here(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-f32-b4-h32-q4096-k4096-d64", "T4", "fwd:Br64", FAT_MEASURED, 40);
  put(db, "fwd-f32-b4-h32-q4096-k4096-d64", "RTX 2060", "fwd:Br32", FAT_MEASURED, 20);
  fat_pick pick = ask(db, "fwd-f32-b4-h32-q3000-k3000-d64", "T4", NULL);
  expect(&pick, FAT_PICK_NEAREST, "fwd:Br64");
  assert_false(pick.row[FAT_PICK_ARCH].found);
  put(db, "fwd-f32-b1-h1-q64-k64-d64", "RTX 2060", "fwd:Br32", FAT_MEASURED, 0.005);
  pick = ask(db, "fwd-f32-b1-h2-q64-k64-d64", "T4", NULL);
  expect(&pick, FAT_PICK_ARCH, "fwd:Br32");
  const double tile = 0.0025 - unhidden(1, 336), times = 2 * (1.03 + 0.1 * log2(40 / 30.0));
  assert_true(fabs(pick.row[FAT_PICK_ARCH].expected - (0.0025 + unhidden(2, 320) + tile * times)) < 1e-9);
  pick = ask(db, "fwd-f32-b4-h32-q4096-k4096-d64", "RTX 2070", NULL); /* nothing was measured there */
  expect(&pick, FAT_PICK_ARCH, "fwd:Br32");
  fat_db_close(db);
}

static void differences_are_named(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_problem p = parsed(ASKED);
  fat_pick pick;
  fat_pick_question q = {.problem = &p,
                         .gpu = fixture_gpu("T4"),
                         .driver = "590.2",
                         .compile_key = "NVRTC 12.4",
                         .templates = HASH_A,
                         .now = (int64_t)time(NULL) + 10 * 24 * 3600};
  put(db, ASKED, "T4", "fwd:Br1", FAT_MEASURED, 1);
  pick = answer(db, &q);
  expect(&pick, FAT_PICK_EXACT, "fwd:Br1");
  const char *why = pick.why[FAT_PICK_EXACT];
  assert_non_null(strstr(why, "driver '580.1', now '590.2'"));
  assert_non_null(strstr(why, "now 'NVRTC 12.4'"));
  assert_non_null(strstr(why, "templates have changed"));
  assert_non_null(strstr(why, "10 days old"));
  q.driver = q.compile_key = q.templates = NULL; /* not known now: not compared */
  pick = answer(db, &q);
  assert_string_equal(pick.row[FAT_PICK_EXACT].differences, "");
  fat_db_close(db);
}

static void without_rows(void **state)
{
  fat_problem p = parsed(ASKED);
  fat_pick pick;
  fat_pick_question q = {.problem = &p, .gpu = fixture_gpu("T4")};
  (void)state;
  pick = answer(NULL, &q);
  expect(&pick, FAT_PICK_DEFAULT, NULL);
  assert_string_equal(pick.why[FAT_PICK_EXACT], "there is no database");
  q.unserved = "no kernel does this";
  pick = answer(NULL, &q);
  expect(&pick, FAT_PICK_UNSUPPORTED, NULL);
  assert_string_equal(pick.why[FAT_PICK_UNSUPPORTED], "no kernel does this");
}

static void distances(void **state)
{
  fat_problem a = parsed("fwd-f32-b1-h8-q1024-k1024-d64"), b = a;
  (void)state;
  assert_true(fat_candidate_distance(&a, &a) == 0);
  b.q = 4096; /* 2^13 rows become 2^15 */
  assert_true(fat_candidate_distance(&a, &b) == 3);
  b.b = 8; /* 2^18 count as 2^16 */
  assert_true(fat_candidate_distance(&a, &b) == 4);
  b.k = 2048;
  assert_true(fat_candidate_distance(&a, &b) == 5);
  b.hk = 2;
  assert_true(fat_candidate_distance(&a, &b) == 6);
  assert_true(fat_candidate_distance(&a, &b) == fat_candidate_distance(&b, &a));
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(the_order),
      IN_FOLDER(the_nearest_shape),
      IN_FOLDER(the_better_of_equally_near),
      IN_FOLDER(ties),
      IN_FOLDER(other_families_never_serve),
      IN_FOLDER(rows_far_off),
      IN_FOLDER(rows_that_the_other_half_leads),
      IN_FOLDER(rows_of_the_other_half),
      IN_FOLDER(devices_are_compared_by_one_kernel),
      IN_FOLDER(rows_of_a_wider_head),
      IN_FOLDER(asked_kernels),
      IN_FOLDER(asked_kernels_by_their_means),
      IN_FOLDER(a_neighbours_row_beside_the_question),
      IN_FOLDER(a_problem_that_was_measured_here),
      IN_FOLDER(differences_are_named),
      cmocka_unit_test(without_rows),
      cmocka_unit_test(distances),
      IN_FOLDER(twins_are_the_last),
      IN_FOLDER(the_nearest_twin),
      IN_FOLDER(the_nearest_device),
      IN_FOLDER(an_untried_kernel_that_promises_more),
      IN_FOLDER(a_small_promise_is_no_reason),
      IN_FOLDER(the_nearest_is_expected_to_be_slower),
      IN_FOLDER(only_the_exact_row_will_do),
      IN_FOLDER(a_tried_kernel_is_beaten),
      IN_FOLDER(what_promises_less),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
