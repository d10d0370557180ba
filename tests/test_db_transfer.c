/* test_db_transfer.c -- rows out and in: export, import, merge; what is refused, kept, and never taken. */
#include "db_fixture.h"
#include "mod.h"
#include <time.h>
#include "../db/private.h"

static fat_text export_of(fat_db *db)
{
  fat_text text = {0};
  MUST(fat_db_export(db, &text, err));
  return text;
}

static fat_import import_of(fat_db *db, const char *lines)
{
  fat_import counts;
  MUST(fat_db_import(db, lines, strlen(lines), &counts, err));
  return counts;
}

static void assert_counts(fat_import c, long added, long kept, long refused)
{
  if (c.added != added || c.kept != kept || c.refused != refused)
    fail_msg("%ld added, %ld kept, %ld refused (%s)", c.added, c.kept, c.refused, c.first_refusal);
}

/* A few trials of every kind, one with samples and content. */
static void fill(fat_db *db)
{
  static const double times[] = {1.1, 1.2, 1.3}, clocks[] = {1500, NAN, 1400};
  fat_run run = {"fatune secret-folder", "0.1.0", "580.1", "13.0", HASH_B, "secret-host", "model 3", ""};
  fat_artifact a = {.source = "text",
                    .recipe = "launch k grid b block 128 shared 0 args call",
                    .cubin_size = 4,
                    .cubin = (const unsigned char *)"\177ELF",
                    .target = "sm_75"};
  int64_t id;
  MUST(fat_db_run_begin(db, &run, &id, err));
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1.2);
  t.run = id, t.origin = FAT_MEASURED, t.samples = times, t.clocks = clocks, t.sample_count = 3;
  t.error_max = t.error_allowed = INFINITY;
  t.mean = 1.3, t.kind_count = 2;
  t.kinds[0] = (fat_kind_time){"normal", 1.2}, t.kinds[1] = (fat_kind_time){"fall4", 1.4083333333333334};
  t.driver = "580.1";
  MUST(fat_db_put(db, &t, &a, err));
  t = fixture_trial(PROBLEM "-causal", "T4", "fwd:Br32", 0.7);
  t.run = id;
  MUST(fat_db_put(db, &t, NULL, err));
  t = fixture_trial(PROBLEM, "T4", "fa1:Br16", NAN);
  t.run = id, t.outcome = FAT_OUT_COMPILE_FAILED, t.detail = "line 3: \"no\" \\ \xff\x01\n",
  t.log = "secret-log";
  t.eligible = 0;
  MUST(fat_db_put(db, &t, NULL, err));
}

/* What a log may hold and JSON may not: a surrogate, forms that are too long, what lies beyond Unicode. */
static void stored_text_is_what_json_takes(void **state)
{
  static const char *const rows[][2] = {{"\xed\xa0\x80", "???"},
                                        {"\xe0\x9f\xbf", "???"},
                                        {"\xf0\x8f\x80\x80", "????"},
                                        {"\xf4\x90\x80\x80", "????"},
                                        {"\xe2\x82", "??"},
                                        {"\xed\x9f\xbf", "\xed\x9f\xbf"},
                                        {"\xc3\xa4\n\t\x7f", "\xc3\xa4\n\t?"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *clean = fat_db_clean(rows[i][0], 99);
    assert_string_equal(clean, rows[i][1]);
    assert_int_equal(fat_db_is_text(rows[i][0], 99), strcmp(clean, rows[i][0]) == 0);
    free(clean);
  }
}

static void an_export_comes_back_as_it_was(void **state)
{
  const fixture *f = *state;
  char path[300];
  fat_db *here = fixture_db(f, FAT_DB_WRITE), *there = NULL;
  snprintf(path, sizeof path, "%s/there.db", f->folder);
  fill(here);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  fat_text first = export_of(here);
  assert_null(strstr(first.data, "secret"));
  assert_null(strstr(first.data, "ELF"));
  assert_counts(import_of(there, first.data), 3, 0, 0);
  assert_counts(import_of(there, first.data), 0, 3, 0);
  assert_counts(import_of(here, first.data), 0, 3, 0);
  fat_text second = export_of(there);
  assert_string_equal(first.data, second.data);
  fat_best best;
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  MUST(fat_db_best(there, &t.problem, &t.gpu, NULL, true, &best, err));
  assert_int_equal(best.trial.origin, FAT_MEASURED);
  assert_int_equal(best.trial.sample_count, 3);
  assert_true(best.trial.samples[1] == 1.2 && isnan(best.trial.clocks[1]));
  assert_int_equal(best.trial.kind_count, 2);
  assert_true(best.trial.mean == 1.3 && best.trial.kinds[0].ms == 1.2 && best.trial.kinds[1].ms > 1.4083);
  assert_string_equal(best.trial.kinds[1].name, "fall4");
  assert_null(best.cubin);
  assert_null(best.source);
  fat_db_best_free(&best);
  fat_text view = {0};
  MUST(fat_db_view(there, "best", true, &view, err));
  assert_non_null(strstr(view.data, "\"nvrtc\":\"13.0\"")); /* facts of the run travel with its rows */
  fat_text_free(&view);
  fat_text findings = {0};
  MUST(fat_db_check(there, &findings, err));
  assert_string_equal(fat_text_get(&findings), "");
  fat_text_free(&first);
  fat_text_free(&second);
  fat_db_close(here);
  fat_db_close(there);
}

/* `line` with the first `from` replaced by `to`. */
static void replaced(const char *line, const char *from, const char *to, fat_text *out)
{
  const char *at = strstr(line, from);
  if (!at)
    fail_msg("no %s in %s", from, line);
  fat_text_clear(out);
  fat_text_add_bytes(out, line, (size_t)(at - line));
  fat_text_add(out, to);
  fat_text_add(out, at + strlen(from));
}

/* One value of a good line replaced, and a word of the refusal. */
static const struct {
  const char *from, *to, *why;
} lies[] = {
    {"\"fatune\":1", "\"fatune\":2", "written by a newer fatune"},
    {"\"problem\":\"fwd-f32", "\"problem\":\"fwd-f31", "f31"},
    {"\"problem\":\"fwd-f32-b4-h16-q4096-k4096-d64\"", "\"problem\":7", "problem"},
    {"\"problem\"", "\"question\"", "problem"},
    {"-d64", "-d63", "63"},
    {"\"config\":\"fwd:Br16\"", "\"config\":\"fwd:Br16; rm -rf\"", "rm"},
    {"\"config\":\"fwd:Br16\"", "\"config\":\"fwd\\u0001:Br16\"", "config"},
    {"\"sm\":75", "\"sm\":\"75\"", "sm"},
    {"\"sm\":75", "\"sm\":1e300", "sm"},
    {"\"sms\":40", "\"sms\":-40", "sms"},
    {"\"sms\":40", "\"sms\":99999999999999999999", "sms"},
    {"\"name\":\"T4\"", "\"name\":\"a name that is longer than any name of a GPU could be\"", "gpu"},
    {"\"name\":\"T4\"", "\"name\":\"\\u001b[31m\"", "gpu"},
    {"\"l2\":", "\"l2\":-", "l2"},
    {"\"compile_key\":\"", "\"compile_key\":\"\xff", "compile_key"},
    {"\"dram\"", "\"drum\"", "dram"},
    {"\"outcome\":\"ok\"", "\"outcome\":\"great\"", "outcome"},
    {"\"origin\":\"predicted\"", "\"origin\":\"dreamt\"", "origin"},
    {"\"eligible\":1", "\"eligible\":2", "eligible"},
    {"\"ms\":2.0", "\"ms\":-2.0", "ms"},
    {"\"ms\":2.0", "\"ms\":1e999", "ms"},
    {"\"ms\":2.0", "\"ms\":\"2\"", "ms"},
    {"\"ms\":2.0", "\"ms\":[2]", "ms"},
    {"\"ms\":2.0", "\"ms\":true", "ms"},
    {"\"registers\":64", "\"registers\":false", "registers"},
    {"\"config\":\"fwd:Br16\"", "\"config\":[\"fwd:Br16\"]", "config"},
    {"\"driver\":\"", "\"driver\":{},\"drives\":\"", "driver"},
    {"\"error_max\":", "\"error_allowed\":1e-9,\"error_max\":1,\"was\":", "off by 1"},
    {"\"samples\":[]", "\"samples\":[true]", "samples"},
    {"\"samples\":[]", "\"samples\":true", "sample"},
    {"\"samples\":[]", "\"samples\":{\"a\":1}", "sample"},
    {"\"samples\":[]", "\"samples\":[1,2],\"clocks\":[true,1500]", "samples"},
    {"\"samples\":[]", "\"samples\":[1,2],\"clocks\":[\"x\",[1]]", "samples"},
    {"\"kinds\":{}", "\"kinds\":true", "kinds"},
    {"\"kinds\":{}", "\"kinds\":[1,2]", "kinds"},
    {"\"driver\":\"\",\"made_by\":", "\"driver\":{\"a\":1},\"other\":", "driver"},
    {"\"made_by\":", "\"detail\":[1],\"other\":", "detail"},
    {"\"kinds\":{}", "\"kinds\":{\"wide\":true}", "kind"},
    {"\"registers\":64", "\"registers\":null", "registers"},
    {"\"registers\":64", "\"registers\":64.5", "registers"},
    {"\"registers\":64", "\"registers\":1000000", "registers"},
    {"\"date\":\"20", "\"date\":\"90", "future"},
    {"\"date\":\"20", "\"date\":\"now", "date"},
    {"\"source\":\"a", "\"source\":\"\\n", "plain text"},
    {"\"samples\":[]", "\"samples\":[1,\"x\"]", "samples"},
    {"\"samples\":[]", "\"samples\":[1,-1]", "samples"},
    {"\"mean\":null", "\"mean\":-1", "mean"},
    {"\"mean\":null", "\"mean\":1,\"kinds\":{\"wide\":-1}", "kinds"},
    {"\"mean\":null", "\"mean\":1,\"kinds\":{\"wide\":\"1\"}", "kinds"},
    {"\"mean\":null", "\"mean\":1,\"kinds\":{\"wide\":1,\"wide\":2}", "kinds"},
    {"\"mean\":null", "\"mean\":1,\"kinds\":{\"Wide\\u0000\":1}", "kinds"},
    {"\"mean\":null", "\"mean\":1,\"kinds\":{\"\":1}", "kinds"},
    {"\"mean\":null", "\"mean\":1,\"kinds\":{\"akindwithalongname\":1}", "kinds"},
    {"{\"fatune\"", "[{\"fatune\"", "JSON"},
    {"{\"fatune\"", "{\"fatune", "JSON"},
};

/* The time of a line grows as its samples do: 60,000 of them are read in a second, not in minutes. */
/* The texts of expressions travel with the problems that name them; one of another hash is refused. */
/* All of an import counts, or nothing: a row that cannot be stored is no row that is refused. */
static void what_cannot_be_stored_ends_an_import(void **state)
{
  const fixture *f = *state;
  fat_db *here = fixture_db(f, FAT_DB_WRITE);
  fill(here);
  fat_text lines = export_of(here);
  fat_db_close(here);
  unlink(f->path);
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  fixture_sql(f->path, "CREATE UNIQUE INDEX one ON sample(trial)");
  here = fixture_db(f, FAT_DB_WRITE);
  fat_error err = {0};
  fat_import counts;
  assert_int_equal(fat_db_import(here, lines.data, lines.length, &counts, &err), FAT_E_DB);
  assert_counts(counts, 0, 0, 0);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM trial"), 0);
  fat_text_free(&lines);
  fat_db_close(here);
}

static void expressions_travel(void **state)
{
  const fixture *f = *state;
  char path[300];
  fat_db *here = fixture_db(f, FAT_DB_WRITE), *there = NULL;
  fat_text forged = {0};
  snprintf(path, sizeof path, "%s/there.db", f->folder);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  MUST(fat_mod_add("s+table0[h]", FAT_MOD, &t.problem, err));
  MUST(fat_mod_add("j % 2 == 0", FAT_MASK_MOD, &t.problem, err));
  MUST(fat_db_put(here, &t, NULL, err));
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  fat_text text = export_of(here);
  replaced(text.data, "\"mod\":\"s + table0[h]\"", "\"mod\":\"s + table1[h]\"", &forged);
  assert_string_not_equal(text.data, forged.data);
  assert_counts(import_of(there, forged.data), 0, 0, 1);
  assert_counts(import_of(there, text.data), 1, 0, 0);
  fat_db_close(there);
  fat_db_close(here);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM mod JOIN problem ON instr(family, hash)"), 2);
  assert_int_equal(
      fixture_number(path, "SELECT count(*) FROM mod WHERE text IN ('s + table0[h]', 'j % 2 == 0')"), 2);
  fat_text_free(&forged);
  fat_text_free(&text);
}

static void many_samples_are_read_once(void **state)
{
  enum { SAMPLES = 60000 };
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_text rows = {0}, line = {0}, many = {0};
  fat_import c;
  fill(db);
  MUST(fat_db_export(db, &rows, err));
  fat_db_close(db);
  fat_text_add(&many, "\"samples\":[1");
  for (int i = 1; i < SAMPLES; i++)
    fat_text_add(&many, ",1");
  fat_text_add(&many, "],\"clocks\":[1500");
  for (int i = 1; i < SAMPLES; i++)
    fat_text_add(&many, ",1500");
  fat_text_add(&many, "]");
  const char *from = strstr(fat_text_get(&rows), "\"samples\":[");
  assert_non_null(from);
  const char *begin = from, *clocks = strstr(from, "\"clocks\":[");
  assert_non_null(clocks);
  while (begin > fat_text_get(&rows) && begin[-1] != '\n')
    begin--;
  const char *samples_end = strchr(from, ']') + 1, *clocks_end = strchr(clocks, ']') + 1;
  fat_text_add_bytes(&line, begin, (size_t)(from - begin));
  fat_text_add(&line, fat_text_get(&many));
  fat_text_add_bytes(&line, samples_end, (size_t)(clocks - samples_end) - 1);
  fat_text_add_bytes(&line, clocks_end, strcspn(clocks_end, "\n"));
  unlink(f->path);
  db = fixture_db(f, FAT_DB_WRITE);
  struct timespec began, ended;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
  MUST(fat_db_import(db, fat_text_get(&line), line.length, &c, err));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
  fat_db_close(db);
  assert_counts(c, 1, 0, 0);
  assert_true(ended.tv_sec - began.tv_sec < 20);
  fat_text_free(&rows);
  fat_text_free(&line);
  fat_text_free(&many);
}

static void edit(fat_text *line, const char *key, const char *value)
{
  char *at = strstr(line->data, key);
  assert_non_null(at);
  memcpy(at + strlen(key), value, strlen(value));
}

/* Whatever order rows of one config come in, the one of the latest date counts. Where ours is the latest and
 * a row from elsewhere takes its place, with an earlier date and less time, that of another driver did not
 * step back in: none counted, and the winner was lost. */
static void rows_from_elsewhere_leave_one_current(void **state)
{
  static const char *const rows[][3] = {
      {"1", "2026-11-10", "9.5"}, {"2", "2026-11-05", "9.7"}, {"1", "2026-11-03", "9.1"}};
  static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  fixture *f = *state;
  for (int i = 0; i < 6; i++) {
    fat_db *db = fixture_db(f, FAT_DB_WRITE);
    fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 9.5);
    t.origin = FAT_MEASURED, t.driver = "1";
    MUST(fat_db_put(db, &t, NULL, err));
    fat_text line = export_of(db);
    fat_db_close(db);
    unlink(f->path);
    db = fixture_db(f, FAT_DB_WRITE);
    for (int k = 0; k < 3; k++) {
      const char *const *row = rows[orders[i][k]];
      edit(&line, "\"driver\":\"", row[0]);
      edit(&line, "\"date\":\"", row[1]);
      edit(&line, "\"ms\":", row[2]);
      import_of(db, line.data);
      assert_string_equal(fixture_winner(db), "fwd:Br16");
    }
    fat_text_free(&line);
    fat_db_close(db);
    unlink(f->path);
  }
}

static void endless_lines_are_refused(void **state)
{
  enum { BYTES = (4 << 20) + 100 };
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  char *line = malloc(BYTES + 1);
  assert_non_null(line);
  memset(line, 'x', BYTES);
  line[BYTES] = 0;
  fat_import c = import_of(db, line);
  free(line);
  assert_counts(c, 0, 0, 1);
  assert_non_null(strstr(c.first_refusal, "longer than 4 MiB"));
  fat_db_close(db);
}

/* Each row below would read it again. */
static void a_long_shared_line_is_refused(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_text lines = {0};
  fat_text_add(&lines, "{\"fatune\":1,\"shared\":{\"k\":0");
  for (int i = 0; i < 6000; i++)
    fat_text_format(&lines, ",\"k%d\":%d", i, i);
  fat_text_add(&lines, "}}\n{\"fatune\":1,\"problem\":\"fwd\"}\n");
  fat_import c = import_of(db, fat_text_get(&lines));
  assert_counts(c, 0, 0, 2);
  assert_non_null(strstr(c.first_refusal, "line 1: what rows share is longer than 64 KiB"));
  fat_text_free(&lines);
  fat_db_close(db);
}

static void every_value_is_checked(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 2);
  fat_text good = export_of(db), bad = {0};
  fat_db_close(db);
  unlink(((fixture *)*state)->path);
  db = fixture_db(*state, FAT_DB_WRITE);
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    replaced(good.data, lies[i].from, lies[i].to, &bad);
    fat_import c = import_of(db, bad.data);
    if (c.added != 0 || c.refused != 1 || !strstr(c.first_refusal, lies[i].why))
      fail_msg("%s: %ld added, refused: %s", lies[i].to, c.added, c.first_refusal);
  }
  assert_counts(import_of(db, ""), 0, 0, 0);
  assert_counts(import_of(db, "\n \n\t\r\n"), 0, 0, 0);
  /* One bad line does not keep the good ones out; its number is named. */
  fat_text_clear(&bad);
  fat_text_format(&bad, "\nnull\n%s{}\n", good.data);
  fat_import c = import_of(db, bad.data);
  assert_counts(c, 1, 0, 2);
  assert_non_null(strstr(c.first_refusal, "line 2"));
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_text_free(&good);
  fat_text_free(&bad);
  fat_db_close(db);
}

static void better_rows_replace_and_older_ones_do_not_retire(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_text line, other = {0};
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 2);
  line = export_of(db);
  replaced(line.data, "\"ms\":2.0", "\"ms\":1.5", &other);
  assert_counts(import_of(db, other.data), 1, 0, 0);
  replaced(line.data, "\"ms\":2.0", "\"ms\":3.5", &other);
  assert_counts(import_of(db, other.data), 0, 1, 0);
  replaced(line.data, "\"outcome\":\"ok\"", "\"outcome\":\"oom\"", &other);
  assert_counts(import_of(db, other.data), 0, 1, 0);
  /* Another source of the same config, made long ago: it is added, but ours stays the one that counts. */
  fat_text old = {0};
  replaced(line.data, "\"source\":\"a", "\"source\":\"b", &other);
  replaced(other.data, "\"ms\":2.0", "\"ms\":0.1", &old);
  char *date = strstr(old.data, "\"date\":\"20");
  memcpy(date + strlen("\"date\":\""), "2001", 4);
  assert_counts(import_of(db, old.data), 1, 0, 0);
  fat_best best;
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, false, &best, err));
  assert_true(best.trial.ms == 1.5);
  fat_db_best_free(&best);
  fat_text findings = {0};
  MUST(fat_db_check(db, &findings, err));
  assert_string_equal(fat_text_get(&findings), "");
  fat_text_free(&line);
  fat_text_free(&other);
  fat_text_free(&old);
  fat_db_close(db);
}

/* Lines that version 1.0 exported say in sentences what has fields now. */
static void old_lines_are_understood(void **state)
{
  static const struct {
    const char *detail, *driver, *query;
  } lines[] = {
      {"twin of fwd:Br64, for tensors that are not aligned", "580.1",
       "SELECT twin_of = 'fwd:Br64' AND detail = '' AND driver = '580.1' AND made_by = '' FROM trials"},
      {"finalist: timed in turns with 8 others from 2026-11-21T16:02:44.000Z", "580.1",
       "SELECT race = '2026-11-21T16:02:44.000Z' AND rivals = 8 AND detail = '' FROM trials"},
      {"finalist: timed in turns with 1 other", "580.1",
       "SELECT race = 'unknown' AND rivals = 1 FROM trials"},
      {"finalist: the last round was broken off (timeout)", "580.1",
       "SELECT race = 'unknown' AND rivals = 0 AND detail = 'the last round was broken off (timeout)' FROM "
       "trials"},
      {"line 3: no", "model 3",
       "SELECT driver = '' AND made_by = 'model 3' AND detail = 'line 3: no' FROM trials"},
  };
  const fixture *f = *state;
  fat_text line = {0}, shorter = {0};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16-W1", FAT_MEASURED, 2);
  MUST(fat_db_export(db, &line, err));
  fat_db_close(db);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char detail[200], driver[60];
    snprintf(detail, sizeof detail, "\"detail\":\"%s\"", lines[i].detail);
    snprintf(driver, sizeof driver, "\"driver\":\"%s\"", lines[i].driver);
    replaced(line.data, "\"driver\":\"\",\"made_by\":\"\"", driver, &shorter);
    char *old = strdup(shorter.data);
    assert_non_null(old);
    replaced(old, "\"twin_of\":\"\",\"race\":\"\",\"rivals\":0,\"made_as\":\"\",\"detail\":\"\"", detail,
             &shorter);
    free(old);
    unlink(f->path);
    db = fixture_db(f, FAT_DB_WRITE);
    assert_counts(import_of(db, shorter.data), 1, 0, 0);
    fat_db_close(db);
    if (fixture_number(f->path, lines[i].query) != 1)
      fail_msg("%s", lines[i].query);
  }
  fat_text_free(&line);
  fat_text_free(&shorter);
}

static void a_merge_takes_rows_of_anybody_and_no_content(void **state)
{
  const fixture *f = *state;
  char path[300];
  fat_import c;
  fat_error err = {0};
  fat_db *here = fixture_db(f, FAT_DB_WRITE), *there = NULL;
  fill(here);
  fat_text first = export_of(here);
  fat_db_close(here);
  snprintf(path, sizeof path, "%s/there.db", f->folder);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  chmod(f->path, 0666); /* as downloaded: nothing in it is run, so its owner does not matter */
  MUST(fat_db_merge(there, f->path, &c, err));
  assert_counts(c, 3, 0, 0);
  MUST(fat_db_merge(there, f->path, &c, err));
  assert_counts(c, 0, 3, 0);
  fat_text second = export_of(there);
  assert_string_equal(first.data, second.data);
  MUST(fat_db_merge(there, path, &c, err)); /* into itself */
  assert_counts(c, 0, 3, 0);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM binary"), 0);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM source"), 0);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM trial WHERE log <> ''"), 0);
  char missing[320];
  snprintf(missing, sizeof missing, "%s/missing.db", f->folder);
  assert_int_equal(fat_db_merge(there, missing, &c, &err), FAT_E_NOT_FOUND);
  assert_int_equal(fat_db_merge(there, f->folder, &c, &err), FAT_E_FOREIGN);
  fixture_write(missing, "", 0); /* an empty file holds nothing to merge */
  MUST(fat_db_merge(there, missing, &c, err));
  assert_counts(c, 0, 0, 0);
  fixture_write(missing, "words and words, but no database", 32);
  assert_int_equal(fat_db_merge(there, missing, &c, &err), FAT_E_FOREIGN);
  assert_int_equal(fat_db_merge(there, "/dev/zero", &c, &err), FAT_E_FOREIGN);
  fat_text_free(&first);
  fat_text_free(&second);
  fat_db_close(there);
}

/* Rows that came without binaries get those of a file of one's own later. */
static void a_merge_brings_binaries_to_known_rows(void **state)
{
  const fixture *f = *state;
  char path[320];
  fat_import c;
  fat_db *there = NULL;
  fat_db *here = fixture_db(f, FAT_DB_WRITE);
  fill(here);
  fat_db_close(here);
  snprintf(path, sizeof path, "%s/later.db", f->folder);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  chmod(f->path, 0666); /* anybody's: rows alone */
  MUST(fat_db_merge(there, f->path, &c, err));
  assert_counts(c, 3, 0, 0);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM binary"), 0);
  chmod(f->path, 0600);
  MUST(fat_db_merge(there, f->path, &c, err));
  assert_counts(c, 0, 3, 0);
  fat_db_close(there);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM trial WHERE binary IS NOT NULL"), 1);
}

/* Merges the filled file into a new one of this name; how many binaries that has then. */
static long merged_binaries(const fixture *f, const char *name)
{
  char path[320];
  fat_import c;
  fat_db *there = NULL;
  snprintf(path, sizeof path, "%s/%s", f->folder, name);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  MUST(fat_db_merge(there, f->path, &c, err));
  assert_counts(c, 3, 0, 0);
  fat_db_close(there);
  const long binaries = (long)fixture_number(path, "SELECT count(*) FROM trial WHERE binary IS NOT NULL");
  assert_int_equal(c.with_code, binaries);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM binary"), binaries);
  return binaries;
}

static void a_merge_brings_the_binaries_of_ones_own_files(void **state)
{
  const fixture *f = *state;
  char path[320];
  fat_best best;
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fill(db);
  fat_db_close(db);
  assert_int_equal(merged_binaries(f, "own.db"), 1);
  snprintf(path, sizeof path, "%s/own.db", f->folder);
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
  assert_int_equal(best.cubin_size, 4);
  assert_memory_equal(best.cubin, "\177ELF", 4);
  assert_string_equal(best.source, "text");
  assert_string_equal(best.target, "sm_75");
  fat_db_best_free(&best);
  fat_db_close(db);
  chmod(f->path, 0620);
  assert_int_equal(merged_binaries(f, "others_may_write.db"), 0);
  chmod(f->path, 0600);
  if (geteuid() == 0) { /* who alone may give files away */
    assert_int_equal(chown(f->path, 12345, 12345), 0);
    assert_int_equal(merged_binaries(f, "of_another.db"), 0);
    assert_int_equal(chown(f->path, 0, 0), 0);
  }
  fixture_sql(f->path, "UPDATE binary SET cubin = x'7f454c47'"); /* no longer what its hash says */
  assert_int_equal(merged_binaries(f, "damaged.db"), 0);
}

/* Turns a link as soon as the file behind it is open for reading alone. */
static struct {
  const char *link, *to;
  int (*open)(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out);
} turned;

static int open_and_turn(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
  const int result = turned.open(vfs, name, file, flags, out);
  if (flags & SQLITE_OPEN_READONLY) {
    assert_int_equal(unlink(turned.link), 0);
    assert_int_equal(symlink(turned.to, turned.link), 0);
  }
  return result;
}

static void a_link_that_is_turned_brings_no_binaries(void **state)
{
  const fixture *f = *state;
  char own[320], link[320];
  sqlite3_vfs *usual = sqlite3_vfs_find(NULL), turning = *usual;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fill(db);
  fat_db_close(db);
  merged_binaries(f, "own.db");
  chmod(f->path, 0620);
  snprintf(own, sizeof own, "%s/own.db", f->folder);
  snprintf(link, sizeof link, "%s/link.db", f->folder);
  assert_int_equal(symlink(f->path, link), 0);
  fixture through = *f;
  snprintf(through.path, sizeof through.path, "%.255s", link);
  turned.link = link, turned.to = own, turned.open = usual->xOpen;
  turning.zName = "turning", turning.xOpen = open_and_turn, turning.pNext = NULL;
  sqlite3_vfs_register(&turning, 1);
  const long binaries = merged_binaries(&through, "there.db");
  sqlite3_vfs_unregister(&turning);
  assert_int_equal(binaries, 0);
}

/* More than a million of SQLite's steps, after which it is asked whether that is enough. */
static void a_large_database_is_merged_whole(void **state)
{
  const fixture *f = *state;
  char path[300];
  fat_import c;
  fat_db *here = fixture_db(f, FAT_DB_WRITE), *there = NULL;
  fill(here);
  fat_db_close(here);
  fixture_sql(f->path, "CREATE TABLE more (x INTEGER NOT NULL, y TEXT NOT NULL) STRICT;"
                       "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
                       "INSERT INTO more SELECT i, 'row ' || i FROM n");
  snprintf(path, sizeof path, "%s/there.db", f->folder);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  MUST(fat_db_merge(there, f->path, &c, err));
  assert_counts(c, 3, 0, 0);
  fat_db_close(there);
}

static void a_hostile_database_is_only_read(void **state)
{
  static const struct {
    const char *sql;
    fat_status status; /* of the merge */
    long refused;      /* where it succeeds */
  } cases[] = {
      /* A view in place of the table. */
      {"DROP VIEW best; DROP VIEW trials; DROP VIEW failures; DROP VIEW runs; DROP VIEW history; DROP VIEW "
       "rejections; DROP VIEW tunables; DROP TABLE winner; DROP TABLE sample;"
       "ALTER TABLE trial RENAME TO real; CREATE VIEW trial AS SELECT * FROM real",
       FAT_E_CORRUPT, 0},
      /* Columns that call functions, which may take for ever: one is not read, one is, one is only checked.
       */
      {"ALTER TABLE problem ADD COLUMN evil TEXT AS (upper(text))", FAT_E_CORRUPT, 0},
      {"ALTER TABLE problem RENAME COLUMN text TO t2; ALTER TABLE problem ADD COLUMN text TEXT AS"
       " (hex(zeroblob(100000000)))",
       FAT_E_CORRUPT, 0},
      {"ALTER TABLE problem ADD COLUMN pad TEXT CHECK (pad IS NULL OR instr(pad, substr(pad, 1, 1000000) || "
       "'b') = 0);"
       "PRAGMA ignore_check_constraints = ON;"
       "UPDATE problem SET pad = replace(hex(zeroblob(1000000)), '0', 'a') WHERE id = 1",
       FAT_OK, 0},
      /* Values that no reader takes. */
      {"UPDATE trial SET ms = -1", FAT_OK, 3},
      {"UPDATE trial SET config = 'fwd:Br16-' || hex(zeroblob(10000))", FAT_OK, 3},
      {"UPDATE problem SET text = text || char(0) || id", FAT_OK, 3},
      {"UPDATE device SET sms = 41", FAT_OK, 3},
      {"UPDATE trial SET samples = 2147483647", FAT_OK, 3},
      {"UPDATE trial SET samples = 2; DELETE FROM sample", FAT_OK, 3},
      /* A table that is made by a module of SQLite's, of whatever content. */
      {"PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES"
       " ('table', 'more', 'more', 0, 'CREATE VIRTUAL TABLE more USING fts4(a)')",
       FAT_E_CORRUPT, 0},
      {"PRAGMA user_version = 3000", FAT_E_NEWER, 0},
      {"PRAGMA application_id = 1", FAT_E_FOREIGN, 0},
      {"DROP TABLE binary", FAT_E_CORRUPT, 0},
  };
  const fixture *f = *state;
  char path[300];
  fat_db *there = NULL;
  snprintf(path, sizeof path, "%s/there.db", f->folder);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_import c;
    fat_error err = {0};
    unlink(f->path);
    fat_db *here = fixture_db(f, FAT_DB_WRITE);
    fill(here);
    fat_db_close(here);
    fixture_sql(f->path, cases[i].sql);
    fat_status status = fat_db_merge(there, f->path, &c, &err);
    if (status != cases[i].status || (status == FAT_OK && c.refused != cases[i].refused))
      fail_msg("%s: status %d (%s), %ld refused (%s)", cases[i].sql, (int)status, err.text, c.refused,
               c.first_refusal);
  }
  fat_db_close(there);
}

/* A file of an older version is read by way of a copy in memory; one of 1 TiB, nearly all of it holes, is
 * not. */
static void a_file_of_holes_is_refused(void **state)
{
  const fixture *f = *state;
  char path[300];
  fat_import c;
  fat_error err = {0};
  fat_db *there = NULL;
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  fixture_sql(f->path, "PRAGMA user_version = 1003");
  FILE *file = fopen(f->path, "r+");
  assert_non_null(file);
  assert_int_equal(fseek(file, 28, SEEK_SET), 0); /* how many pages there are, of 4 KiB */
  assert_int_equal(fwrite("\x10\0\0\0", 1, 4, file), 4);
  fclose(file);
  if (truncate(f->path, (off_t)1 << 40) != 0)
    skip(); /* this file system has no room for holes */
  snprintf(path, sizeof path, "%s/there.db", f->folder);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  assert_int_equal(fat_db_merge(there, f->path, &c, &err), FAT_E_LIMIT);
  assert_non_null(strstr(err.text, "has an older version and 1048576 MiB"));
  fat_db_close(there);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(expressions_travel),
      TEST(what_cannot_be_stored_ends_an_import),
      TEST(stored_text_is_what_json_takes),
      TEST(an_export_comes_back_as_it_was),
      TEST(many_samples_are_read_once),
      TEST(rows_from_elsewhere_leave_one_current),
      TEST(endless_lines_are_refused),
      TEST(a_long_shared_line_is_refused),
      TEST(every_value_is_checked),
      TEST(better_rows_replace_and_older_ones_do_not_retire),
      TEST(old_lines_are_understood),
      TEST(a_merge_takes_rows_of_anybody_and_no_content),
      TEST(a_merge_brings_binaries_to_known_rows),
      TEST(a_merge_brings_the_binaries_of_ones_own_files),
      TEST(a_link_that_is_turned_brings_no_binaries),
      TEST(a_large_database_is_merged_whole),
      TEST(a_hostile_database_is_only_read),
      TEST(a_file_of_holes_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
