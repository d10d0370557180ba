/* found.c -- findings, kept for the test to read, and the log file that several processes write.
 *
 * A finding is what went wrong but has no result code. FAKE_CUDA_LOG names a file; each event is one line
 * with the process's number, appended whole: "4711 launch fwd_0123456789abcdef". Findings go there too. */
#include "fake.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FINDINGS = 64, LINE = 700 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *findings[FINDINGS];
static int count;

static void write_log(const char *text)
{
  const char *path = getenv("FAKE_CUDA_LOG");
  char line[LINE + 32];
  if (!path || !*path)
    return;
  int n = snprintf(line, sizeof line, "%ld %s\n", (long)getpid(), text);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file >= 0 && write(file, line, (size_t)n) != n)
    fprintf(stderr, "fake_cuda: cannot write to %s\n", path);
  if (file >= 0)
    close(file);
}

void fake_log(const char *format, ...)
{
  char text[LINE];
  va_list args;
  if (!getenv("FAKE_CUDA_LOG"))
    return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  write_log(text);
}

void fake_found(const char *format, ...)
{
  char text[LINE];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fake_log("finding: %.600s", text);
  pthread_mutex_lock(&lock);
  if (count < FINDINGS && (findings[count] = strdup(text)))
    count++;
  pthread_mutex_unlock(&lock);
}

int fake_findings(void)
{
  pthread_mutex_lock(&lock);
  int n = count;
  pthread_mutex_unlock(&lock);
  return n;
}

const char *fake_finding(int index)
{
  return index >= 0 && index < fake_findings() ? findings[index] : NULL;
}

void fake_found_reset(void)
{
  pthread_mutex_lock(&lock);
  while (count > 0)
    free(findings[--count]);
  pthread_mutex_unlock(&lock);
}
