/* process.c -- forks workers and waits for them. */
#include "process.h"

#include "clock.h"
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In the new process, between fork and exec: only calls that are safe there. */
static _Noreturn void become_worker(int fd, const char *path, char *const arguments[], pid_t parent)
{
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) /* it died in the meantime: nobody will send that signal */
    _exit(1);
  int nothing = open("/dev/null", O_RDWR);
  if (nothing >= 0) {
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
  }
  if (fd == FAT_SERVE_FD)
    fcntl(fd, F_SETFD, 0);
  else
    dup2(fd, FAT_SERVE_FD);
  execv(path, arguments);
  _exit(127);
}

fat_status fat_process_start(int ordinal, pid_t *pid, int *fd, fat_error *err)
{
  char number[16], word[] = FAT_SERVE_WORD, name[] = "fatune";
  char *const arguments[] = {name, word, number, NULL};
  const struct timeval patience = {10, 0};
  int ends[2];
  snprintf(number, sizeof number, "%d", ordinal);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fat_status_fail(err, FAT_E_IO, "a worker cannot be started: %s", strerror(errno));
  const pid_t parent = getpid();
  *pid = fork();
  if (*pid == 0)
    become_worker(ends[1], "/proc/self/exe", arguments, parent);
  const int why = errno;
  close(ends[1]);
  if (*pid < 0) {
    *pid = 0;
    close(ends[0]);
    return fat_status_fail(err, FAT_E_IO, "a worker cannot be started: %s", strerror(why));
  }
  setpgid(*pid, *pid); /* both the child and its parent do this: either may be first */
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  *fd = ends[0];
  return FAT_OK;
}

bool fat_process_reap(pid_t pid, double seconds)
{
  for (double until = fat_clock_now() + seconds;;) {
    pid_t ended = waitpid(pid, NULL, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR))
      return true;
    if (fat_clock_now() > until)
      return false;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
}

void fat_process_say_end(pid_t pid, char *why, size_t room)
{
  siginfo_t info = {0};
  for (double until = fat_clock_now() + 1; fat_clock_now() < until && info.si_pid == 0;)
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid == 0)
      nanosleep(&(struct timespec){0, 1000000}, NULL);
  if (info.si_code == CLD_EXITED)
    snprintf(why, room, "the worker that ran it ended with code %d", info.si_status);
  else
    snprintf(why, room, "the worker that ran it was ended by signal %d (%s)", info.si_status,
             strsignal(info.si_status));
}
