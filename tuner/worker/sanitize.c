/* sanitize.c -- starts compute-sanitizer on this program, with an assignment in a file.
 *
 * In: an assignment and a tool's name. Out: whether neither complained. The tool changes how a process
 * starts, so the assignment does not come through a socket: the child reads the file, tries the kernel, and
 * ends. */
#include "sanitize.h"

#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const tools[] = {"memcheck", "racecheck", "initcheck", "synccheck"};

/* What tools say of kernels that the emulator, which follows each lane, finds right. Racecheck takes one
 * lane's arrival at a barrier in shared memory for that lane's alone, though its warp has met before; with
 * all lanes arriving it is silent. Synccheck calls a barrier by name divergent that two halves of a block
 * reach at lines of their own. */
static const struct {
  const char *tool, *kernel, *tunable; /* which is 1; NULL: all configs */
} misreadings[] = {{"racecheck", "bwd_ws", NULL},   {"racecheck", "bwd_wide", NULL},
                   {"racecheck", "bwd_pair", NULL}, {"racecheck", "fwd_ws", "B"},
                   {"synccheck", "bwd_wide", NULL}, {"synccheck", "bwd_pair", NULL},
                   {"synccheck", "bwd", "A"}};

enum { FOUND_CODE = 86, TICK_NS = 20000000, PATIENCE_TICKS = 600 * 50, LOG_MOST = 1 << 20 };

static bool is_there(fat_text *path, const char *folder, size_t length, const char *below)
{
  fat_text_clear(path);
  fat_text_format(path, "%.*s%s/compute-sanitizer", (int)length, folder, below);
  return !path->failed && access(fat_text_get(path), X_OK) == 0;
}

fat_status fat_sanitize_find(fat_text *path, fat_error *err)
{
  static const char usual[] = "/usr/local/cuda";
  const char *home = getenv("CUDA_HOME"), *folders = getenv("PATH");
  for (const char *at = folders ? folders : ""; *at; at += strcspn(at, ":"), at += *at == ':')
    if (is_there(path, at, strcspn(at, ":"), ""))
      return FAT_OK;
  if ((home && is_there(path, home, strlen(home), "/bin")) || is_there(path, usual, strlen(usual), "/bin"))
    return FAT_OK;
  return fat_status_fail(err, FAT_E_NOT_FOUND,
                         "compute-sanitizer is neither in PATH nor below CUDA_HOME or %s: it comes with the "
                         "CUDA toolkit",
                         usual);
}

/* Makes an empty temporary file; its name is in `path`. */
static int temporary(fat_text *path, fat_error *err)
{
  const char *folder = getenv("TMPDIR");
  fat_text_clear(path);
  fat_text_format(path, "%s/fatune-XXXXXX", folder && *folder ? folder : "/tmp");
  int fd = path->failed ? -1 : mkostemp(path->data, O_CLOEXEC);
  if (fd < 0)
    fat_status_fail(err, FAT_E_IO, "a file %s cannot be made: %s", fat_text_get(path), strerror(errno));
  return fd;
}

static _Noreturn void become(const char *sanitizer, char *const arguments[], int log)
{
  setpgid(0, 0);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(sanitizer, arguments);
  _exit(127);
}

/* Waits for the process; kills its group, which no Ctrl-C reaches, where it takes too long or is to stop. */
static fat_status wait_for(pid_t pid, const volatile int *stop, int *how, fat_error *err)
{
  for (int tick = 0; tick < PATIENCE_TICKS && !*stop; tick++) {
    pid_t ended = waitpid(pid, how, WNOHANG);
    if (ended == pid)
      return FAT_OK;
    if (ended < 0 && errno != EINTR)
      return fat_status_fail(err, FAT_E_IO, "compute-sanitizer is gone: %s", strerror(errno));
    nanosleep(&(struct timespec){0, TICK_NS}, NULL);
  }
  kill(-pid, SIGKILL);
  waitpid(pid, how, 0);
  if (*stop)
    return fat_status_fail(err, FAT_E_CANCELLED, "stopped while a sanitizer ran");
  return fat_status_fail(err, FAT_E_TIMEOUT, "compute-sanitizer did not end within %d s",
                         PATIENCE_TICKS / (1000000000 / TICK_NS));
}

static fat_status run(const char *sanitizer, const char *tool, int ordinal, const char *file, int log_file,
                      const volatile int *stop, fat_finding *finding, fat_error *err)
{
  char number[16], code[16], self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  int how = 0;
  if (n <= 0)
    return fat_status_fail(err, FAT_E_IO, "this program cannot find itself: %s", strerror(errno));
  self[n] = 0;
  snprintf(number, sizeof number, "%d", ordinal);
  snprintf(code, sizeof code, "%d", FOUND_CODE);
  const char *const arguments[] = {sanitizer, "--tool", tool, "--error-exitcode", code, self, FAT_SERVE_CHECK,
                                   number,    file,     NULL};
  pid_t pid = fork();
  if (pid == 0)
    become(sanitizer, (char *const *)arguments, log_file);
  if (pid < 0)
    return fat_status_fail(err, FAT_E_IO, "compute-sanitizer cannot be started: %s", strerror(errno));
  setpgid(pid, pid); /* both the child and its parent do this: either may be first */
  FAT_TRY(wait_for(pid, stop, &how, err));
  const int ended = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  *finding = ended == 0 ? FAT_FINDING_NONE : ended == FOUND_CODE ? FAT_FINDING_OF_TOOL : FAT_FINDING_ELSE;
  return FAT_OK;
}

fat_status fat_sanitize_run(const char *sanitizer, const char *tool, int ordinal, const fat_assignment *a,
                            const volatile int *stop, fat_finding *finding, fat_text *log, fat_error *err)
{
  fat_text bytes = {0}, file = {0}, said = {0};
  int in = temporary(&file, err), out = in < 0 ? -1 : temporary(&said, err);
  fat_status status = out < 0 ? FAT_E_IO : fat_wire_pack(a, &bytes, err);
  *finding = FAT_FINDING_ELSE;
  if (status == FAT_OK && write(in, bytes.data, bytes.length) != (ssize_t)bytes.length)
    status = fat_status_fail(err, FAT_E_IO, "an assignment cannot be written: %s", strerror(errno));
  if (status == FAT_OK)
    status = run(sanitizer, tool, ordinal, fat_text_get(&file), out, stop, finding, err);
  if (status == FAT_OK)
    status = fat_text_read_file(log, fat_text_get(&said), LOG_MOST, err);
  if (in >= 0) {
    close(in);
    unlink(fat_text_get(&file));
  }
  if (out >= 0) {
    close(out);
    unlink(fat_text_get(&said));
  }
  fat_text_free(&bytes);
  fat_text_free(&file);
  fat_text_free(&said);
  return status;
}

bool fat_sanitize_misreads(const char *tool, const char *config)
{
  fat_config c;
  int32_t value;
  if (fat_config_parse(config, &c, NULL) != FAT_OK)
    return false;
  for (size_t i = 0; i < sizeof misreadings / sizeof *misreadings; i++)
    if (strcmp(misreadings[i].tool, tool) == 0 && strcmp(misreadings[i].kernel, c.kernel) == 0 &&
        (!misreadings[i].tunable ||
         (fat_config_get(&c, misreadings[i].tunable, &value) == FAT_OK && value == 1)))
      return true;
  return false;
}

fat_status fat_sanitize_all(const char *sanitizer, int ordinal, const fat_assignment *a,
                            const volatile int *stop, fat_verdict *v, int *misread, fat_error *err)
{
  bool doubted = false;
  for (size_t i = 0; i < sizeof tools / sizeof *tools && v->outcome == FAT_OUT_OK; i++) {
    fat_text log = {0};
    fat_finding finding;
    const fat_status status = fat_sanitize_run(sanitizer, tools[i], ordinal, a, stop, &finding, &log, err);
    if (status == FAT_OK && finding == FAT_FINDING_OF_TOOL &&
        fat_sanitize_misreads(tools[i], a->entrant[0].config)) {
      doubted = true;
      snprintf(v->detail, sizeof v->detail, "%s reports what it misreads in such kernels", tools[i]);
    } else if (status == FAT_OK && finding != FAT_FINDING_NONE) {
      v->outcome = FAT_OUT_WRONG;
      snprintf(v->detail, sizeof v->detail, "%s: %.900s", tools[i], fat_text_get(&log));
    }
    fat_text_free(&log);
    FAT_TRY(status);
  }
  *misread += doubted && v->outcome == FAT_OUT_OK;
  return FAT_OK;
}
