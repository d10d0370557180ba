/* nvrtc.c -- a libnvrtc that compiles nothing, for tests: scripted by the source it is given.
 *
 * FAKE_MAJOR, FAKE_MINOR: the version it claims. FAKE_NO_WATCH: no flow callback, as before CUDA 12.8.
 * FAKE_NO_CUBIN: lacks a function that is needed. A source holds lines such as
 *   "fake result 11"    the compile ends with that code
 *   "fake wait 300"     it takes that many milliseconds, asking the callback meanwhile
 *   "fake log TEXT"     TEXT goes into the log ("|" for a new line)
 * The cubin is the architecture option followed by the source, and so is the PTX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct program {
  char *source;
  char cubin[4096];
  char log[4096];
  int (*callback)(void *, void *);
  void *payload;
} program;

int nvrtcVersion(int *major, int *minor)
{
  *major = FAKE_MAJOR;
  *minor = FAKE_MINOR;
  return 0;
}

int nvrtcGetNumSupportedArchs(int *count)
{
  *count = 3;
  return 0;
}

int nvrtcGetSupportedArchs(int *sms)
{
  sms[0] = 75;
  sms[1] = 80;
  sms[2] = 90;
  return 0;
}

const char *nvrtcGetErrorString(int result)
{
  static _Thread_local char text[32];
  snprintf(text, sizeof text, "FAKE_ERROR_%d", result);
  return text;
}

int nvrtcCreateProgram(void **out, const char *source, const char *name, int headers,
                       const char *const *texts, const char *const *names)
{
  (void)name, (void)headers, (void)texts, (void)names;
  program *p = calloc(1, sizeof *p);
  p->source = strdup(source);
  *out = p;
  return 0;
}

int nvrtcDestroyProgram(void **out)
{
  program *p = *out;
  free(p->source);
  free(p);
  *out = NULL;
  return 0;
}

#ifndef FAKE_NO_WATCH
int nvrtcSetFlowCallback(void *handle, int (*callback)(void *, void *), void *payload)
{
  program *p = handle;
  p->callback = callback;
  p->payload = payload;
  return 0;
}
#endif

/* The number after "fake WORD", or 0. */
static int script(const program *p, const char *word)
{
  const char *at = strstr(p->source, word);
  return at ? atoi(at + strlen(word)) : 0;
}

int nvrtcCompileProgram(void *handle, int count, const char *const *options)
{
  program *p = handle;
  const char *arch = "none";
  for (int i = 0; i < count; i++)
    if (strncmp(options[i], "--gpu-architecture=", 19) == 0)
      arch = options[i] + 19;
  snprintf(p->cubin, sizeof p->cubin, "%s %s", arch, p->source);
  const char *log = strstr(p->source, "fake log ");
  if (log)
    snprintf(p->log, sizeof p->log, "%.*s", (int)strcspn(log + 9, "\n"), log + 9);
  for (char *c = p->log; *c; c++)
    *c = *c == '|' ? '\n' : *c;
  for (int left = script(p, "fake wait "); left > 0; left -= 5) {
    if (p->callback && p->callback(p->payload, NULL))
      return 16;
    usleep(5000);
  }
  return script(p, "fake result ");
}

int nvrtcGetCUBINSize(void *handle, size_t *size)
{
  *size = strlen(((program *)handle)->cubin);
  return 0;
}

#ifndef FAKE_NO_CUBIN
int nvrtcGetCUBIN(void *handle, char *cubin)
{
  program *p = handle;
  memcpy(cubin, p->cubin, strlen(p->cubin));
  return 0;
}
#endif

int nvrtcGetPTXSize(void *handle, size_t *size)
{
  *size = strlen(((program *)handle)->cubin) + 1;
  return 0;
}

int nvrtcGetPTX(void *handle, char *ptx)
{
  strcpy(ptx, ((program *)handle)->cubin);
  return 0;
}

int nvrtcGetProgramLogSize(void *handle, size_t *size)
{
  *size = strlen(((program *)handle)->log) + 1;
  return 0;
}

int nvrtcGetProgramLog(void *handle, char *log)
{
  strcpy(log, ((program *)handle)->log);
  return 0;
}
