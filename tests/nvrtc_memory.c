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
 * Where NVRTC_APART names the program nvrtc_apart.c, that compiles, so that a sanitizer has nothing to do
 * with it.
 *
 * Where NVRTC_QUICK is set, a library that can (from CUDA 13 on) compiles without most of its optimizations,
 * in two fifths of the time: kernels that no GPU runs need no speed. */
#include "nvrtc_answer.h"
#include "compile.h"
#include "cubin.h"
#include "ptxas.h"
#include "text.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST = 64 << 20 /* bytes of an answer */, OPTIONS = 64 };

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

static void open_real(void)
{
  const char *path = getenv("NVRTC_REAL");
  struct stat s = {0};
  int major, minor;
  answer_open(path, &real);
  real.version(&major, &minor);
  quick = getenv("NVRTC_QUICK") && major >= 13;
  stat(path, &s);
  snprintf(identity, sizeof identity, "%d.%d %s %lld %lld.%ld", major, minor, path, (long long)s.st_size,
           (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
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

/* Whether the same would be said at any time: see generator/compile.c for the log. */
static bool is_lasting(const program *p)
{
  fat_entry coded[FAT_COMPILE_ENTRIES], logged[FAT_COMPILE_ENTRIES];
  char *log = strndup(p->part[LOG], p->size[LOG]);
  const bool lasting = p->result == FAT_NVRTC_SUCCESS
                           ? log && fat_cubin_entries((const unsigned char *)p->part[CUBIN], p->size[CUBIN],
                                                      coded, FAT_COMPILE_ENTRIES) <=
                                        fat_ptxas_entries(log, logged, FAT_COMPILE_ENTRIES)
                           : p->result == FAT_NVRTC_COMPILATION;
  free(log);
  return lasting;
}

static void apart_must(bool so, const char *what)
{
  if (so)
    return;
  fprintf(stderr, "nvrtc_memory.c: NVRTC_APART %s\n", what);
  abort();
}

/* Takes in what comes until the other side is closed, and asks the callback meanwhile; false once that has
 * said "stop". */
static bool receive(const program *p, int from, fat_text *answer)
{
  char bytes[65536];
  ssize_t got = 1;
  while (got > 0) {
    struct pollfd ready = {.fd = from, .events = POLLIN};
    const bool come = poll(&ready, 1, 5) > 0;
    if (p->callback && p->callback(p->payload, NULL))
      return false;
    got = come ? recv(from, bytes, sizeof bytes, 0) : 1;
    if (come && got > 0)
      fat_text_add_bytes(answer, bytes, (size_t)got);
  }
  return true;
}

/* Has NVRTC_APART compile (nvrtc_apart.c): the answer, without its hash. A socket, for a test may have set a
 * limit to files. */
static void compile_apart(const program *p, int count, const char *const *options, fat_text *answer)
{
  const char *words[OPTIONS + 5] = {getenv("NVRTC_APART"), getenv("NVRTC_REAL"), p->name};
  posix_spawn_file_actions_t actions;
  pid_t child;
  int side[2], how;
  memcpy(words + 3, options, (size_t)count * sizeof *words);
  apart_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, side) == 0, "has no socket");
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, side[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, side[1], STDOUT_FILENO);
  apart_must(posix_spawn(&child, words[0], &actions, NULL, (char *const *)words, environ) == 0,
             "does not start");
  posix_spawn_file_actions_destroy(&actions);
  close(side[1]);
  for (size_t at = 0, length = strlen(p->source); at < length;) {
    const ssize_t sent = send(side[0], p->source + at, length - at, MSG_NOSIGNAL);
    apart_must(sent > 0 || errno == EINTR, "does not listen");
    at += sent > 0 ? (size_t)sent : 0;
  }
  shutdown(side[0], SHUT_WR);
  const bool whole = receive(p, side[0], answer);
  if (!whole)
    kill(child, SIGKILL);
  close(side[0]);
  while (waitpid(child, &how, 0) < 0)
    apart_must(errno == EINTR, "is nobody's child");
  apart_must(how == 0 || !whole, "has failed");
  if (!whole) {
    fat_text_clear(answer);
    fat_text_format(answer, "%d 0 0 0\n", FAT_NVRTC_CANCELLED);
  }
}

/* The same in this process. */
static void compile_here(const program *p, int count, const char *const *options, fat_text *answer)
{
  char *bytes = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&bytes, &size);
  if (!out)
    return;
  answer_write(nvrtc(), p->source, p->name, count, options, p->callback, p->payload, out);
  if (fclose(out) == 0)
    fat_text_add_bytes(answer, bytes, size);
  free(bytes);
}

/* Has the real library compile, and makes its answer of what it says. */
static void compile(program *p, int count, const char *const *options)
{
  char hash[FAT_HASH_SIZE];
  const char *apart = getenv("NVRTC_APART");
  fat_text rest = {0};
  (apart && apart[0] ? compile_apart : compile_here)(p, count, options, &rest);
  fat_text_hash(fat_text_get(&rest), rest.length, hash);
  fat_text_clear(&p->answer);
  fat_text_format(&p->answer, "%s\n", hash);
  fat_text_add_bytes(&p->answer, rest.data, rest.length);
  fat_text_free(&rest);
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
  compile(p, count, options);
  if (fat_text_status(&p->answer, NULL) != FAT_OK || !read_answer(p))
    return FAT_NVRTC_OUT_OF_MEMORY;
  if (file[0] && is_lasting(p))
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
