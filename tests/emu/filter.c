/* filter.c -- from the text that NVRTC gets to the text that the host compiler gets.
 *
 * Every line keeps its place under the #line marks. Lines that come from templates/arch/ become empty: their
 * functions are the twins of prelude.hpp. Behind the text stands one caller for each __global__ function. */
#include "module.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char arch_folder[] = "templates/arch/";

/* `#line 12 "templates/fwd.cu"`: the file's name in `file`, and true. */
static bool line_mark(const char *line, size_t length, char file[EMU_FILE])
{
  char text[EMU_FILE + 64];
  if (length >= sizeof text)
    return false;
  memcpy(text, line, length);
  text[length] = 0;
  int number;
  return sscanf(text, " #line %d \"%95[^\"]\"", &number, file) == 2;
}

static void remember(emu_names *files, const char *file)
{
  for (int i = 0; i < files->count; i++)
    if (!strcmp(files->name[i], file))
      return;
  if (files->count < EMU_FILES)
    snprintf(files->name[files->count++], EMU_FILE, "%s", file);
}

static bool is_word(int c)
{
  return isalnum(c) || c == '_';
}

/* The word that ends before `end`; its length, 0 if there is none. */
static size_t word_before(const char *begin, const char *end, const char **word)
{
  while (end > begin && isspace((unsigned char)end[-1]))
    end--;
  *word = end;
  while (*word > begin && is_word((unsigned char)(*word)[-1]))
    (*word)--;
  return (size_t)(end - *word);
}

/* Whether the prelude has `TWIN type name(`. */
static bool has_twin(const char *prelude, const char *name, size_t length)
{
  for (const char *p = strstr(prelude, "\nTWIN "); p; p = strstr(p + 1, "\nTWIN ")) {
    const char *word, *open = strchr(p, '(');
    if (open && word_before(p, open, &word) == length && !memcmp(word, name, length))
      return true;
  }
  return false;
}

/* A line of an arch file that begins a function, `__device__ ... name(`, must have a twin. */
static fat_status check_arch_line(const char *line, size_t length, const char *file, const char *prelude,
                                  fat_error *err)
{
  const char *device = memmem(line, length, "__device__", 10);
  const char *open = device ? memchr(device, '(', length - (size_t)(device - line)) : NULL, *word;
  size_t n = open ? word_before(device, open, &word) : 0;
  if (n == 0 || has_twin(prelude, word, n))
    return FAT_OK;
  return fat_status_fail(err, FAT_E_TEMPLATE,
                         "%s: the arch function '%.*s' has no twin in the emulator's prelude.hpp", file,
                         (int)n, word);
}

static const char *after_brackets(const char *p)
{
  int depth = 0;
  do {
    depth += *p == '(';
    depth -= *p == ')';
  } while (*p && *p++ && depth > 0);
  return p;
}

/* A caller, the sizes of the arguments and the launch bound of each __global__ function. */
static void add_callers(const char *text, fat_text *out)
{
  fat_text_add(out, "\n#line 1 \"callers\"\n");
  for (const char *p = strstr(text, "__global__"); p; p = strstr(p, "__global__")) {
    p += strlen("__global__");
    const char *bounds = NULL, *bounds_end = NULL, *open = strchr(p, '('), *name;
    size_t n = open ? word_before(p, open, &name) : 0;
    if (n == strlen("__launch_bounds__") && !memcmp(name, "__launch_bounds__", n)) {
      bounds = open;
      bounds_end = after_brackets(open);
      open = strchr(bounds_end, '(');
      n = open ? word_before(bounds_end, open, &name) : 0;
    }
    if (n == 0)
      continue;
    fat_text_format(out, "extern \"C\" void emu_call_%.*s(void **args) { emu_call(%.*s, args); }\n", (int)n,
                    name, (int)n, name);
    fat_text_format(
        out, "extern \"C\" int emu_args_%.*s(unsigned long *sizes) { return emu_sizes(%.*s, sizes); }\n",
        (int)n, name, (int)n, name);
    fat_text_format(out, "extern \"C\" int emu_bounds_%.*s() { return emu_first%.*s; }\n", (int)n, name,
                    bounds ? (int)(bounds_end - bounds) : 6, bounds ? bounds : "(1024)");
  }
}

fat_status emu_filter(const char *text, const char *prelude, fat_text *out, emu_names *files, fat_error *err)
{
  char file[EMU_FILE] = "";
  bool in_arch = false;
  *files = (emu_names){0};
  fat_text_format(out, "#define EMU_PRODUCTS_OF_BF16 %d\n", strstr(text, "k16.f32.bf16.bf16") != NULL);
  fat_text_add(out, "#line 1 \"prelude.hpp\"\n");
  fat_text_add(out, prelude);
  fat_text_add(out, "\n#line 1 \"rendered\"\n");
  remember(files, "rendered");
  for (const char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    if (line_mark(line, length, file)) {
      remember(files, file);
      in_arch = strstr(file, arch_folder) != NULL;
      fat_text_add_bytes(out, line, length);
    } else if (in_arch) {
      FAT_TRY(check_arch_line(line, length, file, prelude, err));
    } else {
      fat_text_add_bytes(out, line, length);
    }
    fat_text_add(out, "\n");
    line += length + (line[length] == '\n');
  }
  add_callers(text, out);
  return fat_text_status(out, err);
}
