/* stop.c -- one flag for the process, since a signal belongs to the process. */
#include "stop.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* 0: go on; a signal's number: it asked to stop; -1: an error did. */
static volatile sig_atomic_t asked;
_Static_assert(sizeof(sig_atomic_t) == sizeof(int), "read by way of an int pointer");

static const int numbers[2] = {SIGINT, SIGTERM};

/* What a signal is answered with, on stderr, or NULL: what runs may take minutes to end. */
static const char *volatile notice;
static const char stopping[] =
    "\nfatune: stopping when what runs now has ended; Ctrl-C again stops at once. Results so far are kept\n";

/* The second of its kind ends the process. The handler resets itself instead of using SA_RESETHAND: NVRTC's
 * first compile installs its own handlers and restores ours by signal(), which keeps SA_RESTART alone. So we
 * use SA_RESTART from the start: reads and waits go on until what runs has ended. */
static void on_signal(int number)
{
  const int error = errno;
  const struct sigaction ends = {.sa_handler = SIG_DFL};
  sigaction(number, &ends, NULL);
  __atomic_store_n(&asked, number, __ATOMIC_RELAXED); /* pool threads read it meanwhile */
  if (notice && write(STDERR_FILENO, notice, strlen(notice)) < 0)
    notice = NULL; /* nobody reads it */
  errno = error;
}

const volatile int *fat_stop_begin(fat_stop *stop, bool quiet)
{
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  asked = 0;
  notice = quiet ? NULL : stopping + !isatty(STDERR_FILENO); /* below a live line */
  for (int i = 0; i < 2; i++)
    sigaction(numbers[i], &action, &stop->before[i]);
  return &asked;
}

void fat_stop_end(const fat_stop *stop)
{
  for (int i = 0; i < 2; i++)
    sigaction(numbers[i], &stop->before[i], NULL);
}

void fat_stop_ask(void)
{
  if (!asked)
    __atomic_store_n(&asked, -1, __ATOMIC_RELAXED);
}

int fat_stop_signal(void)
{
  return asked > 0 ? asked : 0;
}
