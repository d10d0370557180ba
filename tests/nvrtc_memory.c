/* nvrtc_memory.c -- a libnvrtc for tests that remembers what the real one answered, so that a text which many
 * tests compile, and each variant of the build once more, is compiled once.
 *
 * tests/nvrtc_memory.sh runs a test with it: NVRTC_REAL is the path of the real library, NVRTC_MEMORY a
 * folder of answers (unset or empty: nothing is remembered). An answer is a file named by the hash of all
 * that goes into a compile. It begins with the hash of the rest, so that what is cut or damaged is compiled
 * anew, and appears whole, by a rename, so that threads and processes need no lock. Code and refusals of a
 * source are remembered, not what is due to time or memory, nor a log that tells of fewer kernels than the
 * code has.
 *
 * Where NVRTC_QUICK is set, a library that can (from CUDA 13 on) compiles without most of its optimizations,
 * in two fifths of the time: kernels that no GPU runs need no speed. */
#include "cuda_abi.h"
#include "compile.h"
#include "compile.h"
#include "cubin.h"
#include "ptxas.h"
#include "text.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CUBIN, PTX, LOG, PARTS, MOST = 64 << 20 /* bytes of an answer */, OPTIONS = 64 };

typedef struct program {
  char *source, *name;
  int (*callback)(void *, void *);
  void *payload;
  fat_text answer; /* HASH "\n" RESULT SIZE SIZE SIZE "\n" and the parts */
  int result;
  const char *part[PARTS]; /* in the answer */
  size_t size[PARTS];
} program;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static fat_nvrtc_calls real;
static char identity[1200]; /* of the real library: which file it is */
static bool quick;

/* A test that was promised the library must not go on without it. */
static void *find(void *library, const char *symbol)
{
  void *address = library ? dlsym(library, symbol) : NULL;
  if (!address) {
    fprintf(stderr, "nvrtc_memory.c: no %s in NVRTC_REAL: %s\n", symbol, dlerror());
    abort();
  }
  return address;
}

static void open_real(void)
{
  const char *path = getenv("NVRTC_REAL");
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
  void *address;
  char companion[1200];
  struct stat s = {0};
  int major, minor;
#define FIND(field, symbol, parameters)                                                                      \
  address = find(library, #symbol);                                                                          \
  memcpy(&real.field, &address, sizeof address);
  FAT_NVRTC_CALLS(FIND)
  FIND(error_text, nvrtcGetErrorString, )
  address = dlsym(library, "nvrtcSetFlowCallback"); /* which older ones lack */
  memcpy(&real.watch, &address, sizeof address);
  real.version(&major, &minor);
  quick = getenv("NVRTC_QUICK") && major >= 13;
  stat(path, &s);
  snprintf(identity, sizeof identity, "%d.%d %s %lld %lld.%ld", major, minor, path, (long long)s.st_size,
           (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
  /* As generator/nvrtc.c does it: under a sanitizer NVRTC does not find its companion by itself. */
  snprintf(companion, sizeof companion, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(strrchr(path, '/') - path),
           path, major, minor);
  dlopen(companion, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static const fat_nvrtc_calls *nvrtc(void)
{
  pthread_once(&once, open_real);
  return &real;
}

/* The file of a compile's answer, or "". */
static void name_file(const program *p, int count, const char *const *options, char *file, size_t room)
{
  static const char *const variables[] = FAT_NVRTC_VARIABLES;
  const char *folder = getenv("NVRTC_MEMORY");
  char hash[FAT_HASH_SIZE];
  fat_text key = {0};
  file[0] = 0;
  if (!folder || !folder[0])
    return;
  fat_text_format(&key, "%s\n%s\n", identity, p->name);
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    fat_text_format(&key, "%s\n", getenv(variables[i]) ? getenv(variables[i]) : "");
  for (int i = 0; i < count; i++)
    fat_text_format(&key, "%s\n", options[i]);
  fat_text_add(&key, p->source);
  if (fat_text_status(&key, NULL) == FAT_OK) {
    fat_text_hash(key.data, key.length, hash);
    snprintf(file, room, "%s/%s", folder, hash);
  }
  fat_text_free(&key);
}

/* Takes an answer apart, in place; false where it is none. */
static bool read_answer(program *p)
{
  char hash[FAT_HASH_SIZE];
  const char *text = fat_text_get(&p->answer), *at = strchr(text, '\n');
  if (!at || at - text != FAT_HASH_SIZE - 1)
    return false;
  fat_text_hash(at + 1, p->answer.length - FAT_HASH_SIZE, hash);
  if (memcmp(hash, text, FAT_HASH_SIZE - 1) != 0 ||
      sscanf(at + 1, "%d %zu %zu %zu", &p->result, &p->size[CUBIN], &p->size[PTX], &p->size[LOG]) != 4)
    return false;
  at = strchr(at + 1, '\n') + 1;
  for (int i = 0; i < PARTS; i++) {
    p->part[i] = at;
    at += p->size[i];
  }
  return true;
}

/* One part of what the real library made; empty where it made none. */
static void read_part(void *program, int (*size_of)(void *, size_t *), int (*get)(void *, char *),
                      fat_text *part)
{
  size_t size = 0;
  char *bytes = size_of(program, &size) == FAT_NVRTC_SUCCESS && size > 0 ? malloc(size) : NULL;
  if (bytes && get(program, bytes) == FAT_NVRTC_SUCCESS)
    fat_text_add_bytes(part, bytes, size);
  free(bytes);
}

/* Whether the same would be said at any time: see generator/compile.c for the log. */
static bool is_lasting(int result, const fat_text part[PARTS])
{
  fat_entry coded[FAT_COMPILE_ENTRIES], logged[FAT_COMPILE_ENTRIES];
  if (result != FAT_NVRTC_SUCCESS)
    return result == FAT_NVRTC_COMPILATION;
  return fat_cubin_entries((const unsigned char *)part[CUBIN].data, part[CUBIN].length, coded,
                           FAT_COMPILE_ENTRIES) <=
         fat_ptxas_entries(fat_text_get(&part[LOG]), logged, FAT_COMPILE_ENTRIES);
}

/* Has the real library compile, and makes its answer of what it says. */
static bool compile(program *p, int count, const char *const *options)
{
  char hash[FAT_HASH_SIZE];
  void *program = NULL;
  fat_text part[PARTS] = {{0}}, rest = {0};
  int result = nvrtc()->create(&program, p->source, p->name, 0, NULL, NULL);
  if (result == FAT_NVRTC_SUCCESS && p->callback && nvrtc()->watch)
    nvrtc()->watch(program, p->callback, p->payload);
  if (result == FAT_NVRTC_SUCCESS)
    result = nvrtc()->compile(program, count, options);
  if (result == FAT_NVRTC_SUCCESS) {
    read_part(program, nvrtc()->cubin_size, nvrtc()->cubin, &part[CUBIN]);
    read_part(program, nvrtc()->ptx_size, nvrtc()->ptx, &part[PTX]);
  }
  if (program) {
    read_part(program, nvrtc()->log_size, nvrtc()->log, &part[LOG]);
    nvrtc()->destroy(&program);
  }
  fat_text_format(&rest, "%d %zu %zu %zu\n", result, part[CUBIN].length, part[PTX].length, part[LOG].length);
  for (int i = 0; i < PARTS; i++)
    fat_text_add_bytes(&rest, part[i].data, part[i].length);
  fat_text_hash(rest.data, rest.length, hash);
  fat_text_clear(&p->answer);
  fat_text_format(&p->answer, "%s\n", hash);
  fat_text_add_bytes(&p->answer, rest.data, rest.length);
  bool lasting = is_lasting(result, part);
  fat_text_free(&rest);
  for (int i = 0; i < PARTS; i++)
    fat_text_free(&part[i]);
  return lasting;
}

/* What cannot be written is compiled again. */
static void keep_answer(const program *p, const char *file)
{
  char beside[1200];
  snprintf(beside, sizeof beside, "%s.XXXXXX", file);
  int fd = mkstemp(beside);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
  if (!f)
    return;
  bool whole = fwrite(p->answer.data, 1, p->answer.length, f) == p->answer.length;
  if (fclose(f) != 0 || !whole || rename(beside, file) != 0)
    unlink(beside);
}

/* -- the functions of a libnvrtc */

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvrtcVersion(int *major, int *minor)
{
  return nvrtc()->version(major, minor);
}
EXPORT int nvrtcGetNumSupportedArchs(int *count)
{
  return nvrtc()->count_targets(count);
}
EXPORT int nvrtcGetSupportedArchs(int *sms)
{
  return nvrtc()->targets(sms);
}
EXPORT const char *nvrtcGetErrorString(int result)
{
  return nvrtc()->error_text(result);
}

EXPORT int nvrtcCreateProgram(void **out, const char *source, const char *name, int headers,
                              const char *const *texts, const char *const *names)
{
  (void)texts, (void)names;
  program *p = headers == 0 ? calloc(1, sizeof *p) : NULL; /* what fatune compiles has none */
  *out = p;
  if (p) {
    p->source = strdup(source);
    p->name = strdup(name);
  }
  return p && p->source && p->name ? FAT_NVRTC_SUCCESS : FAT_NVRTC_OUT_OF_MEMORY;
}

EXPORT int nvrtcDestroyProgram(void **out)
{
  program *p = *out;
  fat_text_free(&p->answer);
  free(p->source);
  free(p->name);
  free(p);
  *out = NULL;
  return FAT_NVRTC_SUCCESS;
}

EXPORT int nvrtcSetFlowCallback(void *handle, int (*callback)(void *, void *), void *payload)
{
  program *p = handle;
  p->callback = callback;
  p->payload = payload;
  return FAT_NVRTC_SUCCESS;
}

EXPORT int nvrtcCompileProgram(void *handle, int count, const char *const *given)
{
  program *p = handle;
  char file[1000];
  const char *options[OPTIONS + 1];
  nvrtc();
  if (count > OPTIONS)
    return FAT_NVRTC_OUT_OF_MEMORY;
  memcpy(options, given, (size_t)count * sizeof *options);
  if (quick)
    options[count++] = "--Ofast-compile=max";
  name_file(p, count, options, file, sizeof file);
  if (file[0] && fat_text_read_file(&p->answer, file, MOST, NULL) == FAT_OK && read_answer(p))
    return p->callback && p->callback(p->payload, NULL) ? FAT_NVRTC_CANCELLED : p->result;
  bool lasting = compile(p, count, options);
  if (fat_text_status(&p->answer, NULL) != FAT_OK || !read_answer(p))
    return FAT_NVRTC_OUT_OF_MEMORY;
  if (lasting && file[0])
    keep_answer(p, file);
  return p->result;
}

#define PART(PART, size_symbol, symbol)                                                                      \
  EXPORT int size_symbol(void *handle, size_t *size)                                                         \
  {                                                                                                          \
    *size = ((program *)handle)->size[PART];                                                                 \
    return FAT_NVRTC_SUCCESS;                                                                                \
  }                                                                                                          \
  EXPORT int symbol(void *handle, char *bytes)                                                               \
  {                                                                                                          \
    const program *p = handle;                                                                               \
    memcpy(bytes, p->part[PART], p->size[PART]);                                                             \
    return FAT_NVRTC_SUCCESS;                                                                                \
  }
PART(CUBIN, nvrtcGetCUBINSize, nvrtcGetCUBIN)
PART(PTX, nvrtcGetPTXSize, nvrtcGetPTX)
PART(LOG, nvrtcGetProgramLogSize, nvrtcGetProgramLog)
