/* test_emu_maps.c -- the tensor maps that a recipe gives to a kernel in the emulator: made of the tensors of
 * its call, or refused. */
#include "arguments.h"
#include "emu.h"
#include "map.h"
#include "maps.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* The struct of the text below. */
typedef struct call {
  fat_view Q, K, V, O;
  void *LSE;
  int64_t LSE_b, LSE_h;
  int32_t b, h, hk, q, k;
  float scale;
} call;

static const char text[] = "#line 1 \"maps.cu\"\n"
                           "typedef unsigned int u32;\n"
                           "struct alignas(64) map { u32 word[32]; };\n"
                           "struct tensor { void *data; long long b, h, n; };\n"
                           "struct call { tensor Q, K, V, O; float *LSE; long long LSE_b, LSE_h; int b, h, "
                           "hk, q, k; float scale; };\n"
                           "extern \"C\" __global__ void __launch_bounds__(32)\n"
                           "copy(const map V, const call a, const map O, u32 *w)\n"
                           "{\n"
                           "  const u32 i = u32(thread_id());\n"
                           "  w[i] = V.word[i];\n"
                           "  ((u32 *)a.Q.data)[i] = O.word[i];\n"
                           "}\n";
static const char steps[] =
    "workspace 128\nlaunch copy grid 1 block 32 shared 0 args mapV(q+60) call mapO(64) ws(0)\n";

typedef struct made {
  emu *e;
  emu_module *module;
  call c;
} made;

static void must(fat_status status, const fat_error *err)
{
  if (status != FAT_OK)
    fail_msg("%s", err->text);
}

static made make(void)
{
  fat_error err = {0};
  made m;
  must(emu_open(&m.e, &err), &err);
  must(emu_module_load(text, &m.module, &err), &err);
  const emu_layout words = {"words", {1, 1, 1, 32}, {32, 32, 32, 1}, 4, 0};
  const emu_layout v = {"V", {2, 1, 9, 40}, {480, 7, 48, 1}, 2, 0};
  const emu_layout o = {"O", {2, 4, 5, 40}, {160, 40, 320, 1}, 2, 0};
  m.c = (call){.Q = {emu_tensor(m.e, &words), {32, 32, 32}},
               .V = {emu_tensor(m.e, &v), {480, 7, 48}},
               .O = {emu_tensor(m.e, &o), {160, 40, 320}}};
  assert_true(m.c.Q.data && m.c.V.data && m.c.O.data);
  return m;
}

static void unmake(made *m)
{
  emu_module_free(m->module);
  emu_close(m->e);
}

static fat_status run(made *m, const char *recipe_text, const void *c, size_t size, emu_report *report,
                      fat_error *err)
{
  static fat_recipe recipe;
  const fat_sizes sizes = {.b = 2, .h = 4, .hk = 1, .q = 4, .k = 9, .sms = 1};
  must(fat_recipe_parse(recipe_text, &recipe, err), err);
  return emu_run(m->e, m->module, &recipe, &sizes, c, size, NULL, report, err);
}

static void maps_have_the_sizes_of_their_tensors(void **state)
{
  (void)state;
  static emu_report report;
  fat_error err = {0};
  emu_tensor_map o;
  made m = make();
  must(run(&m, steps, &m.c, sizeof m.c, &report, &err), &err);
  if (report.findings)
    fail_msg("%s", report.finding[0].text);
  memcpy(&o, m.c.Q.data, sizeof o);
  assert_int_equal(o.magic, EMU_MAP_MAGIC);
  assert_true(o.base == (uintptr_t)m.c.O.data && o.element == 2);
  assert_true(o.size[0] == 40 && o.size[1] == 5 && o.size[2] == 4 && o.size[3] == 2);
  assert_true(o.stride[0] == 640 && o.stride[1] == 80 && o.stride[2] == 320);
  assert_true(o.box[0] == 64 && o.box[1] == 64 && o.box[2] == 1 && o.box[3] == 1);
  unmake(&m);
}

static void what_cannot_be_given(void **state)
{
  (void)state;
  static emu_report report;
  fat_error err = {0};
  made m = make();
  const struct {
    const char *steps, *words;
  } wrong[] = {
      {"workspace 128\nlaunch copy grid 1 block 32 shared 0 args call mapV(64) mapO(64) ws(0)\n",
       "argument 1 of 'copy' has 176 bytes, the kernel takes 128"},
      {"workspace 128\nlaunch copy grid 1 block 32 shared 0 args mapV(64) call mapK(64) ws(0)\n",
       "K is to be mapped, and there is no tensor at its address"},
  };
  for (int i = 0; i < 2; i++) {
    assert_int_equal(run(&m, wrong[i].steps, &m.c, sizeof m.c, &report, &err), FAT_E_INPUT);
    if (!strstr(err.text, wrong[i].words))
      fail_msg("'%s' does not say '%s'", err.text, wrong[i].words);
  }
  call c = m.c;
  c.O.stride[2] = 321;
  assert_int_equal(run(&m, steps, &c, sizeof c, &report, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "O cannot be mapped"));
  unmake(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps_have_the_sizes_of_their_tensors),
      cmocka_unit_test(what_cannot_be_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
