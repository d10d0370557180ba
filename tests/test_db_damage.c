/* test_db_damage.c -- damaged files: a reader misses what is damaged and nothing else, a check names it, and
 * no damaged binary ever leaves the database. */
#include "db_fixture.h"

static const char CUBIN[] = "\177ELF 0123456789 a binary of some length, each byte of which counts";

static fat_trial stored(const fixture *f)
{
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  fat_artifact a = {.source = "__global__ void k();",
                    .recipe = "launch k grid b block 128 shared 0 args call",
                    .target = "sm_75",
                    .cubin = (const unsigned char *)CUBIN,
                    .cubin_size = sizeof CUBIN};
  double times[] = {1, 2};
  t.samples = times, t.sample_count = 2;
  MUST(fat_db_put(db, &t, &a, err));
  fixture_put(db, "fwd:Br32", FAT_PREDICTED, 2);
  fat_db_close(db);
  t.samples = NULL;
  return t;
}

static void assert_finding(const fixture *f, const char *words)
{
  fat_db *db = fixture_db(f, FAT_DB_READ);
  fat_text findings = {0};
  MUST(fat_db_check(db, &findings, err));
  if (!strstr(fat_text_get(&findings), words))
    fail_msg("'%s' is not in: %s", words, fat_text_get(&findings));
  fat_text_free(&findings);
  fat_db_close(db);
}

static void a_damaged_binary_is_never_handed_out(void **state)
{
  const fixture *f = *state;
  fat_trial t = stored(f);
  fat_best best;
  char sql[256];
  for (size_t i = 0; i <= sizeof CUBIN; i++) { /* each byte changed; at last the whole cut short */
    snprintf(sql, sizeof sql,
             i < sizeof CUBIN ? "UPDATE binary SET cubin = CAST(substr(cubin, 1, %zu) || x'ff' ||"
                                " substr(cubin, %zu) AS BLOB)"
                              : "UPDATE binary SET cubin = substr(cubin, 1, length(cubin) - 1)",
             i, i + 2);
    fixture_sql(f->path, sql);
    fat_db *db = fixture_db(f, FAT_DB_READ);
    MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
    assert_null(best.cubin);
    assert_int_equal(best.cubin_size, 0);
    assert_non_null(best.source); /* it can be built again */
    assert_non_null(strstr(fat_db_note(db), "binary"));
    fat_db_best_free(&best);
    fat_db_close(db);
    assert_finding(f, "main: binary");
    fat_db *writer = fixture_db(f, FAT_DB_WRITE); /* the same content again repairs it */
    fat_artifact a = {.cubin = (const unsigned char *)CUBIN, .cubin_size = sizeof CUBIN, .target = "sm_75"};
    MUST(fat_db_put_artifact(writer, t.id, &a, err));
    MUST(fat_db_best(writer, &t.problem, &t.gpu, NULL, true, &best, err));
    assert_int_equal(best.cubin_size, sizeof CUBIN);
    assert_memory_equal(best.cubin, CUBIN, sizeof CUBIN);
    fat_db_best_free(&best);
    fat_db_close(writer);
  }
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_error err = {0};
  fat_artifact wrong = {.cubin = (const unsigned char *)CUBIN, .cubin_size = 9, .cubin_hash = HASH_A};
  assert_int_equal(fat_db_put_artifact(db, t.id, &wrong, &err), FAT_E_INPUT);
  assert_int_equal(fat_db_put_artifact(db, 999, &wrong, &err), FAT_E_NOT_FOUND);
  fat_db_close(db);
}

static void damaged_text_is_left_out(void **state)
{
  const fixture *f = *state;
  fat_trial t = stored(f);
  fat_best best;
  fixture_sql(f->path, "UPDATE source SET text = text || ' '; UPDATE recipe SET text = 'launch evil'");
  fat_db *db = fixture_db(f, FAT_DB_READ);
  MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
  assert_null(best.source);
  assert_null(best.recipe);
  assert_non_null(best.cubin);
  fat_db_best_free(&best);
  fat_db_close(db);
  assert_finding(f, "main: source");
  assert_finding(f, "main: recipe");
}

static bool count_trial(const fat_trial *t, void *user)
{
  (void)t;
  ++*(int *)user;
  return true;
}

static void a_damaged_row_is_a_miss(void **state)
{
  static const struct {
    const char *sql, *finding;
    int left; /* trials that are still read */
    bool best;
  } cases[] = {
      {"UPDATE trial SET config = 'fwd:Br16-Br16' WHERE id = 1", "trial 1", 1, false},
      {"UPDATE trial SET samples = 3 WHERE id = 1", "trial 1", 1, false},
      {"UPDATE trial SET registers = -9 WHERE id = 1", "trial 1", 1, false},
      {"UPDATE trial SET outcome = 'marvellous' WHERE id = 2", "trial 2", 1, true},
      {"UPDATE device SET sms = 4", "device", 0, false},
      {"UPDATE problem SET text = 'fwd-f33-b1-h1-q1-k1-d64'", "f33", 0, false},
      {"UPDATE winner SET trial = 2", "better", 2, true},
      {"DELETE FROM winner", "no winner", 2, false},
      {"UPDATE trial SET current = 0 WHERE id = 1", "may not be", 2, false},
      {"DELETE FROM device", "is not there", 0, false},
  };
  const fixture *f = *state;
  const fat_db_filter whole = {.samples = true};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unlink(f->path);
    fat_trial t = stored(f);
    fixture_sql(f->path, cases[i].sql);
    fat_db *db = fixture_db(f, FAT_DB_READ);
    fat_best best;
    fat_error err = {0};
    int count = 0;
    fat_status status = fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, &err);
    if (status != (cases[i].best ? FAT_OK : FAT_E_NOT_FOUND))
      fail_msg("%s: best has status %d", cases[i].sql, (int)status);
    fat_db_best_free(&best);
    MUST(fat_db_trials(db, &whole, count_trial, &count, err));
    if (count != cases[i].left)
      fail_msg("%s: %d trials are read", cases[i].sql, count);
    fat_db_close(db);
    assert_finding(f, cases[i].finding);
  }
}

static int lines_of(const fat_text *text)
{
  int lines = 0;
  for (size_t i = 0; i < text->length; i++)
    lines += text->data[i] == '\n';
  return lines;
}

/* Where a table has only a page, it is gone; of trials, which have some, the rows of others are left. */
static void what_can_be_read_is_exported(void **state)
{
  enum { ROWS = 60 };
  static const struct {
    const char *table;
    int least, most; /* rows that are still written */
    const char *has; /* in each of them */
  } cases[] = {{"run", ROWS, ROWS, "\"samples\":["},        {"sample", ROWS, ROWS, "\"samples\":null"},
               {"kind", ROWS, ROWS, "\"config\":\"fwd:Br"}, {"mod", ROWS, ROWS, "\"config\":\"fwd:Br"},
               {"trial", 1, ROWS - 1, "\"samples\":["},     {"problem", 0, 0, ""}};
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  const double times[] = {1, 2};
  fat_text whole = {0}, text = {0};
  char config[32];
  const fat_run run = {.command = "fatune", .version = "0.1.0"};
  t.samples = times, t.sample_count = 2;
  MUST(fat_db_run_begin(db, &run, &t.run, err));
  for (int i = 0; i < ROWS; i++) {
    snprintf(config, sizeof config, "fwd:Br%d", 16 + i);
    MUST(fat_config_parse(config, &t.config, err));
    MUST(fat_db_put(db, &t, NULL, err));
  }
  fat_db_close(db);
  MUST(fat_text_read_file(&whole, f->path, 1 << 22, err));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_error first = {0};
    long lost = -1;
    /* The root of a table of one page is its leaf; of trials the first leaf is taken. */
    if (strcmp(cases[i].table, "trial") == 0)
      fixture_spoil_page(f->path,
                         "SELECT min(pageno) FROM dbstat WHERE name = 'trial' AND pagetype = 'leaf'");
    else
      fixture_spoil(f->path, cases[i].table);
    db = fixture_db(f, FAT_DB_READ);
    fat_text_clear(&text);
    assert_int_equal(fat_db_export(db, &text, &first), FAT_E_CORRUPT);
    fat_text_clear(&text);
    MUST(fat_db_export_readable(db, &text, &lost, err));
    fat_db_close(db);
    const int left = lines_of(&text);
    if (left < cases[i].least || left > cases[i].most || left + lost > ROWS)
      fail_msg("%s: %d rows are left, %ld lost", cases[i].table, left, lost);
    int has = 0;
    for (const char *at = text.data; left > 0 && (at = strstr(at, cases[i].has)); at++)
      has++;
    assert_int_equal(has, left);
    fixture_write(f->path, whole.data, whole.length);
  }
  fat_text_free(&whole);
  fat_text_free(&text);
}

/* Everything a command does with a file, whatever state it is in. */
static void use(const char *path, const fat_trial *asked, long *opened, long *served)
{
  for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++) {
    fat_db *db = NULL;
    fat_error err = {0};
    fat_best best;
    fat_text text = {0};
    int count = 0;
    if (fat_db_open(path, NULL, (fat_db_mode)mode, &db, &err) != FAT_OK) {
      assert_null(db);
      assert_string_not_equal(err.text, "");
      continue;
    }
    ++*opened;
    fat_status status = fat_db_best(db, &asked->problem, &asked->gpu, NULL, true, &best, &err);
    if (status != FAT_OK && status != FAT_E_NOT_FOUND)
      fail_msg("damage is no miss: status %d, %s", (int)status, err.text);
    if (status == FAT_OK && best.cubin) {
      assert_memory_equal(best.cubin, CUBIN, sizeof CUBIN);
      ++*served;
    }
    fat_db_best_free(&best);
    fat_db_trials(db, NULL, count_trial, &count, &err);
    fat_db_view(db, "best", true, &text, &err);
    fat_db_view(db, "runs", false, &text, &err);
    fat_db_export(db, &text, &err);
    fat_db_export_readable(db, &text, &(long){0}, &err);
    fat_db_check(db, &text, &err);
    if (mode == FAT_DB_WRITE) {
      fat_trial t = *asked;
      fat_db_put(db, &t, NULL, &err);
    }
    fat_text_free(&text);
    fat_db_close(db);
  }
}

static uint64_t next_random(uint64_t *state) /* xorshift64 */
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void random_bytes_crash_nothing(void **state)
{
  const fixture *f = *state;
  fat_trial t = stored(f);
  fat_text whole = {0};
  uint64_t seed = 0x9E3779B97F4A7C15u;
  long opened = 0, served = 0;
  MUST(fat_text_read_file(&whole, f->path, 1 << 22, err));
  char *bytes = malloc(whole.length);
  assert_non_null(bytes);
  for (int round = 0; round < 250; round++) {
    memcpy(bytes, whole.data, whole.length);
    int changes = 1 + (int)(next_random(&seed) % 8);
    /* Half of the rounds aim at the head of a page, where the structure is. */
    for (int i = 0; i < changes; i++) {
      size_t at = next_random(&seed) % whole.length;
      if (round & 1)
        at = at / 4096 * 4096 + next_random(&seed) % 64;
      bytes[at < whole.length ? at : 0] = (char)next_random(&seed);
    }
    unlink(f->path);
    fixture_write(f->path, bytes, whole.length);
    use(f->path, &t, &opened, &served);
  }
  for (size_t n = 0; n < whole.length; n += n < 600 ? 37 : 4096 + 13) { /* cut short */
    unlink(f->path);
    fixture_write(f->path, whole.data, n);
    use(f->path, &t, &opened, &served);
  }
  /* The test bites: some were opened and served, and some were not. */
  assert_true(opened > 50 && served > 20 && served < opened);
  free(bytes);
  fat_text_free(&whole);
}

/* A file's views are its own: one that never ends is given up, whether it gives rows or none, and the handle
 * goes on. */
static void an_endless_view_is_given_up(void **state)
{
  static const char *const ends[] = {"", " WHERE id < 0"};
  const fixture *f = *state;
  fat_trial t = stored(f);
  for (int i = 0; i < 4; i++) {
    char sql[256];
    fat_best best;
    fat_text text = {0};
    fat_error why = {0};
    snprintf(sql, sizeof sql,
             "DROP VIEW runs; CREATE VIEW runs AS WITH RECURSIVE n (id) AS (VALUES (1) UNION ALL"
             " SELECT id + 1 FROM n) SELECT * FROM n%s",
             ends[i / 2]);
    fixture_sql(f->path, sql);
    fat_db *db = fixture_db(f, FAT_DB_READ);
    assert_int_equal(fat_db_view(db, "runs", i & 1, &text, &why), FAT_E_LIMIT);
    assert_non_null(strstr(why.text, "reading it takes too long"));
    fat_text_clear(&text);
    MUST(fat_db_view(db, "trials", i & 1, &text, err));
    MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
    fat_db_best_free(&best);
    fat_text_free(&text);
    fat_db_close(db);
  }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_damaged_binary_is_never_handed_out),
      TEST(damaged_text_is_left_out),
      TEST(a_damaged_row_is_a_miss),
      TEST(what_can_be_read_is_exported),
      TEST(an_endless_view_is_given_up),
      TEST(random_bytes_crash_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
