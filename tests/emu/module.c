/* module.c -- compiles a filtered text with the host C++ compiler and loads it.
 *
 * The compiler is $FATUNE_EMU_CXX, else g++, else c++. Its own instrumentation of memory accesses and
 * arithmetic calls what hot.c and twins.c define; the sanitizers' libraries are not linked. A compiled text
 * is kept under a hash of everything that went into it, written under another name first, so that several
 * tests may share a folder: alone, for variants of the build that link their own hot.c and twins.c with it,
 * and linked. */
#include "module.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Objects that are linked into every kernel: hot.c, twins.c. */
static const char *const linked[] = {EMU_HOT};
enum { LINKED = sizeof linked / sizeof *linked };

/* -O1 with inlining is the fastest sum of compiling and running. Products and sums are not fused but where
 * the text says fmaf. */
static const char *const options[] = {
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-g1",
    "-fPIC",
    "-w",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-fsanitize=thread",
    "-fsanitize=alignment,bounds,signed-integer-overflow,integer-divide-by-zero,shift",
};
enum { OPTIONS = sizeof options / sizeof *options };

/* What depends on the compiler and on the machine. clang takes a read for seen where a write of the same
 * element follows. gcc compiles in 36 % less time with these: a fifth goes on choosing registers where it is
 * not told to make it short, a sixth on checks of overflow that can never be, which -ftree-vrp knows and
 * leaves out (a third of a kernel's instructions), the rest on passes that find little in loops which
 * callbacks fill. fmaf is a slow function where the compiler may not use the instruction. */
static const char *const clang_options[] = {"-mllvm", "-tsan-instrument-read-before-write=1", NULL};
static const char *const gcc_options[] = {
    "-fira-algorithm=priority",  "-fira-region=one",        "-ftree-vrp",
    "-fno-tree-dominator-opts",  "-fno-tree-loop-optimize", "-fno-ivopts",
    "-fno-move-loop-invariants", "-fno-forward-propagate",  "-fno-dse",
    "-fno-if-conversion",        "-fno-if-conversion2",     NULL};
enum { EXTRA_OPTIONS = 12 };

/* g++ where there is one: clang++ works too, but does not check the alignment of copied structs. */
static const char *compiler(void)
{
  static const char *known;
  const char *asked = getenv("FATUNE_EMU_CXX");
  if (asked && *asked)
    return asked;
  if (!known)
    known = system("g++ --version >/dev/null 2>&1") == 0 ? "g++" : "c++";
  return known;
}

static const char *cache(void)
{
  const char *folder = getenv("FATUNE_EMU_CACHE");
  return folder && *folder ? folder : EMU_CACHE;
}

/* Whether the compiler is clang, by its own word; asked once. */
static bool is_clang(void)
{
  static int known = -1;
  char command[1024], line[256];
  if (known < 0) {
    snprintf(command, sizeof command, "%s --version", compiler());
    FILE *f = popen(command, "r");
    known = f && fgets(line, sizeof line, f) && strstr(line, "clang");
    if (f)
      pclose(f);
  }
  return known > 0;
}

static bool has_fma_option(void)
{
#ifdef __x86_64__
  return __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

/* All options in order, from argv[n] on; returns where they end. */
static int add_options(const char **argv, int n)
{
  for (int i = 0; i < OPTIONS; i++)
    argv[n++] = options[i];
  for (const char *const *extra = is_clang() ? clang_options : gcc_options; *extra; extra++)
    argv[n++] = *extra;
  if (has_fma_option())
    argv[n++] = "-mfma";
  return n;
}

/* Starts a program with its output in `log`; 0, or -1 if it did not start. */
static int start(char *const argv[], const char *log, pid_t *child)
{
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  int failed = posix_spawnp(child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed ? -1 : 0;
}

static int wait_for(pid_t child)
{
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The first line of a compiler's output that says error. */
static void first_error(const char *log, char *text, size_t room)
{
  FILE *f = fopen(log, "r");
  snprintf(text, room, "no message");
  char line[512];
  while (f && fgets(line, sizeof line, f))
    if (strstr(line, "error")) {
      line[strcspn(line, "\n")] = 0;
      snprintf(text, room, "%s", line);
      break;
    }
  if (f)
    fclose(f);
}

/* What is compiled and where to. */
typedef struct plan {
  fat_text code;
  emu_names files;
  char text[900]; /* path without suffix, of the compiled text */
  char stem[900]; /* of what is linked of it */
  char work[940]; /* of what this process writes on the way */
} plan;

static fat_status read_linked(fat_text *all, fat_error *err)
{
  for (int i = 0; i < LINKED; i++) {
    fat_text one = {0};
    fat_status status = fat_text_read_file(&one, linked[i], 1 << 24, err);
    if (status == FAT_OK)
      fat_text_add_bytes(all, one.data, one.length);
    fat_text_free(&one);
    FAT_TRY(status);
  }
  return FAT_OK;
}

static fat_status plan_make(const char *text, plan *p, fat_error *err)
{
  fat_text prelude = {0}, all = {0};
  struct stat folder;
  char hash[FAT_HASH_SIZE];
  static long number;
  fat_status status = fat_text_read_file(&prelude, EMU_DIR "/prelude.hpp", 1 << 20, err);
  if (status == FAT_OK)
    status = emu_filter(text, fat_text_get(&prelude), &p->code, &p->files, err);
  if (status != FAT_OK)
    goto done;
  fat_text_add(&all, compiler());
  const char *words[OPTIONS + EXTRA_OPTIONS];
  for (int i = 0, n = add_options(words, 0); i < n; i++)
    fat_text_add(&all, words[i]);
  fat_text_add(&all, fat_text_get(&p->code));
  status = fat_text_status(&all, err);
  if (status != FAT_OK)
    goto done;
  fat_text_hash(all.data, all.length, hash);
  snprintf(p->text, sizeof p->text, "%s/%.32s", cache(), hash);
  status = read_linked(&all, err);
  if (status != FAT_OK)
    goto done;
  if (stat(cache(), &folder) && mkdir(cache(), 0700) && errno != EEXIST) {
    status = fat_status_fail(err, FAT_E_IO, "the emulator's cache folder '%s': %s", cache(), strerror(errno));
    goto done;
  }
  fat_text_hash(all.data, all.length, hash);
  snprintf(p->stem, sizeof p->stem, "%s/%.32s", cache(), hash);
  snprintf(p->work, sizeof p->work, "%s.%ld.%ld", p->stem, (long)getpid(), number++);
done:
  fat_text_free(&prelude);
  fat_text_free(&all);
  return status;
}

static void path_of(const char *stem, const char *suffix, char path[1024])
{
  snprintf(path, 1024, "%s%s", stem, suffix);
}

static bool is_there(const char *stem, const char *suffix)
{
  char path[1024];
  path_of(stem, suffix, path);
  return access(path, R_OK) == 0;
}

/* Runs the compiler's `argv`, which makes work+suffix, and names that stem+suffix. */
static fat_status make(const plan *p, const char *const *argv, const char *stem, const char *suffix,
                       fat_error *err)
{
  char made[1024], named[1024], log[1024], message[512];
  pid_t child;
  path_of(p->work, suffix, made);
  path_of(stem, suffix, named);
  path_of(p->work, ".log", log);
  fat_status status = FAT_OK;
  if (start((char *const *)argv, log, &child)) {
    status = fat_status_fail(err, FAT_E_IO, "cannot run the C++ compiler '%s'", compiler());
  } else if (wait_for(child)) {
    first_error(log, message, sizeof message);
    status = fat_status_fail(err, FAT_E_COMPILE, "the host compiler '%s' refuses the kernel: %s", compiler(),
                             message);
  } else if (rename(made, named)) {
    status = fat_status_fail(err, FAT_E_IO, "cannot name '%s': %s", named, strerror(errno));
  }
  unlink(log);
  return status;
}

static fat_status compile(const plan *p, fat_error *err)
{
  char cpp[1024], object[1024];
  path_of(p->work, ".cpp", cpp);
  path_of(p->work, ".o", object);
  FILE *f = fopen(cpp, "w");
  bool written = f && fwrite(p->code.data, 1, p->code.length, f) == p->code.length;
  if ((f && fclose(f)) || !written)
    return fat_status_fail(err, FAT_E_IO, "cannot write '%s'", cpp);
  const char *argv[OPTIONS + EXTRA_OPTIONS + 6];
  argv[0] = compiler();
  int n = add_options(argv, 1);
  const char *const rest[] = {"-c", cpp, "-o", object, NULL};
  memcpy(argv + n, rest, sizeof rest);
  fat_status status = make(p, argv, p->text, ".o", err);
  unlink(cpp);
  return status;
}

static fat_status link_module(const plan *p, fat_error *err)
{
  char object[1024], so[1024];
  path_of(p->text, ".o", object);
  path_of(p->work, ".so", so);
  /* Without the C++ library and what starts programs, of which a kernel has nothing: half of the time. */
  const char *argv[LINKED + 9] = {compiler(), "-shared", "-nostdlib", "-o", so, object};
  memcpy(argv + 6, linked, sizeof linked);
  argv[6 + LINKED] = "-lm";
  argv[7 + LINKED] = "-lgcc";
  return make(p, argv, p->stem, ".so", err);
}

static int find_image(struct dl_phdr_info *info, size_t size, void *user)
{
  emu_module *m = user;
  (void)size;
  if (info->dlpi_addr != m->image)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && end > m->image_size)
      m->image_size = end;
  }
  return 1;
}

static fat_status open_object(const plan *p, emu_module *m, fat_error *err)
{
  path_of(p->stem, ".so", m->path);
  m->files = p->files;
  m->handle = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
  void *attach = m->handle ? dlsym(m->handle, "emu_hot_attach") : NULL;
  Dl_info info;
  if (!attach || !dladdr(attach, &info))
    return fat_status_fail(err, FAT_E_IO, "cannot load '%s': %s", m->path, dlerror());
  memcpy(&m->attach, &attach, sizeof attach);
  m->image = (uintptr_t)info.dli_fbase;
  dl_iterate_phdr(find_image, m);
  return FAT_OK;
}

fat_status emu_module_load(const char *text, emu_module **module, fat_error *err)
{
  plan p = {0};
  *module = NULL;
  emu_module *m = calloc(1, sizeof *m);
  fat_status status =
      m ? plan_make(text, &p, err) : fat_status_fail(err, FAT_E_NOMEM, "no memory for a module");
  bool linked_before = status == FAT_OK && is_there(p.stem, ".so");
  if (status == FAT_OK && !linked_before && !is_there(p.text, ".o"))
    status = compile(&p, err);
  if (status == FAT_OK && !linked_before)
    status = link_module(&p, err);
  if (status == FAT_OK)
    status = open_object(&p, m, err);
  fat_text_free(&p.code);
  if (status == FAT_OK)
    *module = m;
  else
    emu_module_free(m);
  return status;
}

void emu_module_free(emu_module *m)
{
  if (m && m->handle)
    dlclose(m->handle);
  free(m);
}

fat_status emu_module_entry(const emu_module *m, const char *name, emu_entry *entry, fat_error *err)
{
  static const char *const prefix[3] = {"emu_call_", "emu_args_", "emu_bounds_"};
  void *found[3];
  for (int i = 0; i < 3; i++) {
    char symbol[FAT_RECIPE_ENTRY + 16];
    snprintf(symbol, sizeof symbol, "%s%s", prefix[i], name);
    found[i] = dlsym(m->handle, symbol);
    if (!found[i])
      return fat_status_fail(err, FAT_E_NOT_FOUND, "the kernel text has no entry '%s'", name);
  }
  int (*args)(unsigned long *), (*bounds)(void);
  memcpy(&entry->call, &found[0], sizeof found[0]);
  memcpy(&args, &found[1], sizeof found[1]);
  memcpy(&bounds, &found[2], sizeof found[2]);
  entry->args = args(entry->size);
  entry->bounds = bounds();
  return FAT_OK;
}
