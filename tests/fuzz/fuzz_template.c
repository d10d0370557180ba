/* fuzz_template.c -- any bytes as a kernel's CUDA text: rendering ends, with a text or with a clear error.
 *
 * The input becomes templates/probe.cu beside a small fixed probe.lua and lib file; limits are tight so that
 * endless templates end soon. What must hold: no crash, a status with words, and the same answer twice. */
#include "../folder.h"
#include "script.h"
#include <stdint.h>

static const char lua_text[] =
    "return { about = 'probe', picked = true,\n"
    "  serves = { op = 'fwd', dtypes = { 'f32' }, features = {}, sm = 75 },\n"
    "  tunables = { { 'Br', { 16 }, 'rows' } }, defaults = { { Br = 16 } },\n"
    "  constants = function(c) return { { 'Br', c.Br, 'rows' } } end, constraints = {},\n"
    "  shared = function() return 0 end, registers = function() return 32 end,\n"
    "  work = function() return { { blocks = 1 } } end,\n"
    "  recipe = function(c, p, entry) return 'launch ' .. entry 'probe' .. ' grid 1 block "
    "32 shared 0 args call' end }\n";
static const char facts[] =
    "p.op=fwd\np.dtype=f32\np.b=1\np.h=1\np.hk=1\np.q=64\np.k=64\np.d=64\np.dv=64\np.slices=1\n"
    "p.feature_list=\ng.name=T4\ng.sm=75\ng.sms=40\ng.shared_block=65536\n"
    "g.shared_sm=65536\ng.regs_sm=65536\ng.dtypes=f16 f32\n";

static folder home;

static void remove_home(void)
{
  folder_remove(&home);
}

static fat_status render(fat_text *text, fat_error *err)
{
  const char *args[] = {"probe", facts, "probe:Br16"};
  fat_script *script;
  fat_status status = fat_script_open(home.path, &script, err);
  if (status != FAT_OK)
    return status;
  fat_script_limits(script, 2 * 1000 * 1000, 8 * 1024 * 1024);
  status = fat_script_call(script, "render", 3, args, text, err);
  fat_script_close(script);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (home.path[0] == '\0') {
    home = folder_make();
    atexit(remove_home);
    folder_write(&home, "probe.lua", lua_text);
    folder_write(&home, "lib/one.cuh", "//: one\nint one() { return $(Br); }\n");
    folder_write(&home, "arch/sm75.cuh", "//: two\nint two() { return one(); }\n");
    folder_write(&home, "probe.cu", "");
  }
  char path[300];
  snprintf(path, sizeof path, "%s/probe.cu", home.path);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0)
    abort();
  fat_text first = {0}, second = {0};
  fat_error err = {0}, again = {0};
  fat_status status = render(&first, &err);
  if (render(&second, &again) != status || strcmp(fat_text_get(&first), fat_text_get(&second)) != 0)
    abort();
  if (status != FAT_OK && (err.text[0] == '\0' || status == FAT_E_NOMEM))
    abort();
  fat_text_free(&first);
  fat_text_free(&second);
  return 0;
}
