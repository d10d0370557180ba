/* test_script.c -- the Lua host: what templates may do, what stops them, and how their mistakes are told.
 *
 * Each case is a small templates folder with one kernel, `probe`, rendered or asked for its space. */
#include "folder.h"
#include "script.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <time.h>

/* A whole X.lua around the lines that a case wants to try. */
static const char lua_head[] =
    "local try = function() %s end\n"
    "return { about = 'probe', picked = true,\n"
    "  serves = { op = 'fwd', dtypes = { 'f32' }, features = {}, sm = 75 },\n"
    "  tunables = { { 'Br', { 16, 32 }, 'rows' } }, defaults = { { Br = 16 } },\n"
    "  words = function(c) return { Br = c.Br } end, threads = function() return 32 end,\n"
    "  constants = function(c, p) return { { 'Br', c.Br, 'rows' } } end,\n"
    "  constraints = {}, shared = function() return 0 end,\n"
    "  registers = function() return 32 end,\n"
    "  work = function(c, p) try() return { { blocks = 1, threads = 32 } } end,\n"
    "  recipe = function(c, p, g, entry) return 'launch ' .. entry 'probe' .. ' grid 1 block "
    "32 shared 0 args call' end }\n";
static const char cu_text[] = "extern \"C\" __global__ void $(entry \"probe\")() { int x = Br; }\n";
static const char facts[] =
    "p.op=fwd\np.dtype=f32\np.b=1\np.h=1\np.hk=1\np.q=64\np.k=64\np.d=64\np.dv=64\np.slices=1\n"
    "p.feature_list=\ng.name=T4\ng.sm=75\ng.sms=40\ng.shared_block=65536\n"
    "g.shared_sm=65536\ng.regs_sm=65536\ng.dtypes=f16 f32\n";

typedef struct probe {
  folder at;
  fat_script *script;
  fat_error err;
  fat_text result;
} probe;

/* A script over a folder with these two files; `body` is Lua run while the space is made. */
static probe probe_make(const char *body, const char *cu)
{
  probe p = {.at = folder_make()};
  char lua[4096];
  snprintf(lua, sizeof lua, lua_head, body);
  folder_write(&p.at, "probe.lua", lua);
  folder_write(&p.at, "probe.cu", cu);
  folder_write(&p.at, "lib/one.cuh",
               "//: one -- the first\ninline int one() { return $(Br); }\n\n"
               "//: two -- uses one\ninline int two() { return one() + one(); }\n\n"
               "//: never -- is not used\ninline int never() { return 3; }\n");
  folder_write(&p.at, "arch/sm75.cuh", "//: old\nint old();\n\n//: both\nint both_75();\n");
  folder_write(&p.at, "arch/sm90.cuh", "//: both\nint both_90();\n");
  assert_int_equal(fat_script_open(p.at.path, &p.script, &p.err), FAT_OK);
  return p;
}

static void probe_end(probe *p)
{
  fat_script_close(p->script);
  fat_text_free(&p->result);
  folder_remove(&p->at);
}

static fat_status ask_space(probe *p)
{
  const char *args[] = {"probe", facts};
  return fat_script_call(p->script, "space", 2, args, &p->result, &p->err);
}

static fat_status ask_render(probe *p, const char *facts_text)
{
  const char *args[] = {"probe", facts_text, "probe:Br16"};
  return fat_script_call(p->script, "render", 3, args, &p->result, &p->err);
}

static void expect_lua_error(const char *body, fat_status status, const char *words)
{
  probe p = probe_make(body, cu_text);
  assert_int_equal(ask_space(&p), status);
  if (strstr(p.err.text, words) == NULL)
    fail_msg("'%s' does not hold '%s'", p.err.text, words);
  /* The script is still of use, and says the same again. */
  assert_int_equal(ask_space(&p), status);
  probe_end(&p);
}

static void space_of_the_probe(void **state)
{
  (void)state;
  probe p = probe_make("", cu_text);
  assert_int_equal(ask_space(&p), FAT_OK);
  assert_non_null(strstr(fat_text_get(&p.result), "P\tprobe:Br16\t1\n"));
  assert_non_null(strstr(fat_text_get(&p.result), "P\tprobe:Br32\t1\n"));
  assert_non_null(strstr(fat_text_get(&p.result), "W\t2\n"));
  probe_end(&p);
}

/* Everything by which a script could reach files, other code, other scripts, or run for ever inside C. */
static void templates_have_few_words(void **state)
{
  (void)state;
  static const char *const absent[] = {
      "io",          "os",           "package",        "debug",           "require",      "load",
      "loadfile",    "dofile",       "print",          "pcall",           "xpcall",       "pairs",
      "next",        "setmetatable", "getmetatable",   "rawset",          "rawget",       "_G",
      "utf8",        "coroutine",    "collectgarbage", "string.find",     "string.match", "string.gmatch",
      "string.gsub", "string.dump",  "math.random",    "math.randomseed", "table.move"};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
    char body[200];
    snprintf(body, sizeof body, "local x = %s; if x == nil then error(\"undefined name (field)\") end",
             absent[i]);
    expect_lua_error(body, FAT_E_TEMPLATE, "undefined name");
  }
  expect_lua_error("local s = ('x'):find('x')", FAT_E_TEMPLATE, "method 'find'");
  expect_lua_error("string.format = nil", FAT_E_TEMPLATE, "'format' cannot be set here");
  expect_lua_error("table.x = 1", FAT_E_TEMPLATE, "'x' cannot be set here");
  expect_lua_error("math.max = math.min", FAT_E_TEMPLATE, "'max' cannot be set here");
  expect_lua_error("leak = 1", FAT_E_TEMPLATE, "probe.lua:1: 'leak' is no local");
}

static void endless_lua_is_stopped(void **state)
{
  (void)state;
  probe p = probe_make("while true do end", cu_text);
  fat_script_limits(p.script, 5 * 1000 * 1000, 0);
  struct timespec from, to;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  assert_int_equal(ask_space(&p), FAT_E_LIMIT);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
  assert_true(to.tv_sec - from.tv_sec < 5);
  assert_non_null(strstr(p.err.text, "probe.lua:1: more than 5 million instructions"));
  probe_end(&p);
}

/* What runs in C sees no hook: it is refused, or counts as what it costs. */
static void long_calls_are_stopped(void **state)
{
  (void)state;
  static const struct {
    const char *body;
    fat_status status;
    const char *words;
  } cases[] = {
      {"local s = string.rep('', 1 << 62)", FAT_E_TEMPLATE, "above 65536 bytes"},
      {"local s = string.rep('abcd', 1 << 62)", FAT_E_TEMPLATE, "above 65536 bytes"},
      {"local s = string.rep('', 1 << 62, '')", FAT_E_TEMPLATE, "above 65536 bytes"},
      {"local t = {} for i = 1, 100000 do t[i] = i end while true do table.insert(t, 1, 0) end", FAT_E_LIMIT,
       "million instructions"},
      {"local t = {} for i = 1, 100000 do t[i] = i end while true do table.sort(t) end", FAT_E_LIMIT,
       "million instructions"},
      {"local s = string.rep('abcdefgh', 8000) for i = 1, 7 do s = s .. s end while true do s:upper() end",
       FAT_E_LIMIT, "million instructions"},
      {"local t = {} while true do local n = table.unpack(t, 1, 900000) end", FAT_E_TEMPLATE,
       "above 1000 values"},
      {"local s = string.rep('abcdefgh', 8000) while true do local n = s:byte(1, -1) end", FAT_E_TEMPLATE,
       "above 1000 values"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    probe p = probe_make(cases[i].body, cu_text);
    struct timespec from, to;
    fat_script_limits(p.script, 10 * 1000 * 1000, 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from); /* of this process, however busy the machine is */
    assert_int_equal(ask_space(&p), cases[i].status);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    assert_true(to.tv_sec - from.tv_sec < 30);
    assert_non_null(strstr(p.err.text, cases[i].words));
    probe_end(&p);
  }
}

/* A line of many blanks is read once, not once for each of them. */
static void blanks_inside_a_line_cost_nothing(void **state)
{
  (void)state;
  enum { BLANKS = 200000 };
  char *text = malloc(BLANKS + 64);
  assert_non_null(text);
  sprintf(text, "// %*s.\n%s", BLANKS, "", "extern \"C\" void $(entry \"probe\")();\n");
  probe p = probe_make("", text);
  struct timespec from, to;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  assert_int_equal(ask_render(&p, facts), FAT_OK);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
  assert_true(to.tv_sec - from.tv_sec < 5);
  probe_end(&p);
  free(text);
}

static void greedy_lua_is_stopped(void **state)
{
  (void)state;
  static const char *const greedy[] = {
      "local t = {} for i = 1, 1e9 do t[i] = i end",
      "local s = 'x' while true do s = s .. s end",
      "local t = {} for i = 1, 1e9 do t[i] = {} end",
  };
  for (size_t i = 0; i < sizeof greedy / sizeof greedy[0]; i++) {
    probe p = probe_make(greedy[i], cu_text);
    fat_script_limits(p.script, 0, 8 * 1024 * 1024);
    assert_int_equal(ask_space(&p), FAT_E_LIMIT);
    assert_non_null(strstr(p.err.text, "more than the 8 MB"));
    probe_end(&p);
  }
  expect_lua_error("local s = string.rep('x', 1000000)", FAT_E_TEMPLATE, "above 65536 bytes");
  expect_lua_error("local s = ('x'):rep(1 << 40)", FAT_E_TEMPLATE, "above 65536 bytes");
}

static void bytecode_is_refused(void **state)
{
  (void)state;
  probe p = probe_make("", cu_text);
  folder_write(&p.at, "probe.lua", "\x1bLuaT junk");
  assert_int_equal(ask_space(&p), FAT_E_TEMPLATE);
  probe_end(&p);
}

static void mistakes_name_their_line(void **state)
{
  (void)state;
  static const struct {
    const char *cu, *words;
  } cases[] = {
      {"int a;\nint b = $(stagez);\n", "templates/probe.cu:2: undefined name 'stagez'"},
      {"int a;\n\n%  local t = {}\nint b = $(t.none);\n", "templates/probe.cu:4: a hole is nil"},
      {"int b = $(1.5);\n", "templates/probe.cu:1: a hole is a float"},
      {"int b = $({});\n", "templates/probe.cu:1: a hole is a table"},
      {"int b = $(Br;\n", "templates/probe.cu:1: a hole $( is not closed"},
      {"int b = $( );\n", "templates/probe.cu:1: empty hole"},
      {"%  if Br then\nint b;\n", "templates/probe.cu:"},
      {"int a;\n%  local function f(\nint b;\n", "templates/probe.cu:"},
      {"%  use \"lib/none.cuh\"\n", "templates/lib/none.cuh: there is no such file"},
      {"%  error \"own words\"\n", "templates/probe.cu:1: own words"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    probe p = probe_make("", cases[i].cu);
    assert_int_equal(ask_render(&p, facts), FAT_E_TEMPLATE);
    if (strstr(p.err.text, cases[i].words) == NULL)
      fail_msg("'%s' does not hold '%s'", p.err.text, cases[i].words);
    probe_end(&p);
  }
}

static void sections_come_on_first_use(void **state)
{
  (void)state;
  probe p = probe_make(
      "", "%  use \"lib/one.cuh\"\n// never and old stand in a comment\nint x = two(), y = old();\n"
          "const char *s = \"never\";\n");
  assert_int_equal(ask_render(&p, facts), FAT_OK);
  const char *text = fat_text_get(&p.result);
  const char *one = strstr(text, "inline int one() { return 16; }"), *two = strstr(text, "inline int two()");
  const char *main = strstr(text, "int x = two()");
  assert_true(one != NULL && two != NULL && main != NULL && one < two && two < main);
  assert_null(strstr(text, "never()"));
  assert_null(strstr(one + 20, "int one()")); /* emitted once */
  assert_non_null(strstr(text, "#line 1 \"templates/lib/one.cuh\"\n//: one"));
  assert_non_null(strstr(text, "#line 2 \"templates/probe.cu\"\n// never"));
  probe_end(&p);
}

static void newest_arch_file_wins(void **state)
{
  (void)state;
  static const struct {
    const char *sm, *words, *not ;
  } cases[] = {{"g.sm=75", "both_75", "both_90"},
               {"g.sm=89", "both_75", "both_90"},
               {"g.sm=90", "both_90", "both_75"}};
  for (size_t i = 0; i < 3; i++) {
    char own[sizeof facts + 16], *at;
    strcpy(own, facts);
    at = strstr(own, "g.sm=75");
    memcpy(at, cases[i].sm, 7);
    probe p = probe_make("", "int x = both() + old();\n");
    assert_int_equal(ask_render(&p, own), FAT_OK);
    assert_non_null(strstr(fat_text_get(&p.result), cases[i].words));
    assert_null(strstr(fat_text_get(&p.result), cases[i].not ));
    assert_non_null(strstr(fat_text_get(&p.result), "int old();"));
    probe_end(&p);
  }
}

static void a_name_stands_in_one_lib_file(void **state)
{
  (void)state;
  probe p = probe_make("", "%  use \"lib/one.cuh\"; use \"lib/two.cuh\"\nint x;\n");
  folder_write(&p.at, "lib/two.cuh", "//: one\nint one();\n");
  fat_script_close(p.script);
  assert_int_equal(fat_script_open(p.at.path, &p.script, &p.err), FAT_OK);
  assert_int_equal(ask_render(&p, facts), FAT_E_TEMPLATE);
  assert_non_null(strstr(p.err.text, "'one' stands in templates/lib/one.cuh already"));
  probe_end(&p);
}

static void a_body_emitted_twice_keeps_its_lines(void **state)
{
  (void)state;
  probe p = probe_make(
      "", "%  local function step(n)\n  a($(n));\n  b();\n%  end\n%  step(1)\n%  step(2)\nend();\n");
  assert_int_equal(ask_render(&p, facts), FAT_OK);
  assert_non_null(strstr(fat_text_get(&p.result), "#line 2 \"templates/probe.cu\"\n  a(1);\n  b();\n"
                                                  "#line 2 \"templates/probe.cu\"\n  a(2);\n  b();\n"
                                                  "#line 7 \"templates/probe.cu\"\nend();\n"));
  probe_end(&p);
}

static void folders_that_are_none(void **state)
{
  (void)state;
  fat_script *script;
  fat_error err = {0};
  assert_int_equal(fat_script_open("/nowhere/at/all", &script, &err), FAT_E_IO);
  assert_null(script);
  assert_non_null(strstr(err.text, "/nowhere/at/all"));
  probe p = probe_make("", cu_text);
  folder_write(&p.at, "broken.lua", "return 5");
  fat_script_close(p.script);
  assert_int_equal(fat_script_open(p.at.path, &p.script, &p.err), FAT_OK);
  const char *args[] = {"broken", facts};
  assert_int_equal(fat_script_call(p.script, "space", 2, args, &p.result, &p.err), FAT_E_TEMPLATE);
  const char *none[] = {"none", facts};
  assert_int_equal(fat_script_call(p.script, "space", 2, none, &p.result, &p.err), FAT_E_UNSUPPORTED);
  assert_non_null(strstr(p.err.text, "there is no kernel 'none': the templates have broken, probe"));
  const char *outside[] = {"../../etc/passwd", facts};
  assert_int_equal(fat_script_call(p.script, "space", 2, outside, &p.result, &p.err), FAT_E_UNSUPPORTED);
  probe_end(&p);
}

static void the_hash_follows_the_files(void **state)
{
  (void)state;
  probe p = probe_make("", cu_text), q = probe_make("", cu_text);
  assert_string_equal(fat_script_templates_hash(p.script), fat_script_templates_hash(q.script));
  folder_write(&q.at, "lib/one.cuh", "//: one\n");
  fat_script_close(q.script);
  assert_int_equal(fat_script_open(q.at.path, &q.script, &q.err), FAT_OK);
  assert_string_not_equal(fat_script_templates_hash(p.script), fat_script_templates_hash(q.script));
  probe_end(&p);
  probe_end(&q);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(space_of_the_probe),
      cmocka_unit_test(templates_have_few_words),
      cmocka_unit_test(endless_lua_is_stopped),
      cmocka_unit_test(greedy_lua_is_stopped),
      cmocka_unit_test(long_calls_are_stopped),
      cmocka_unit_test(blanks_inside_a_line_cost_nothing),
      cmocka_unit_test(bytecode_is_refused),
      cmocka_unit_test(mistakes_name_their_line),
      cmocka_unit_test(sections_come_on_first_use),
      cmocka_unit_test(newest_arch_file_wins),
      cmocka_unit_test(a_name_stands_in_one_lib_file),
      cmocka_unit_test(a_body_emitted_twice_keeps_its_lines),
      cmocka_unit_test(folders_that_are_none),
      cmocka_unit_test(the_hash_follows_the_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
