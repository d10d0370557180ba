/* lines.c -- which template line a place in a module's machine code came from.
 *
 * The #line marks went through the compiler into the debug information; addr2line, which comes with every
 * compiler, reads it. Of the inlined frames the innermost that is a line of the kernel's text counts: the
 * frames of the twins are skipped. */
#include "module.h"
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts addr2line with its output in a pipe; its reading end, or NULL. */
static FILE *start(char *const argv[], pid_t *child)
{
  int ends[2];
  if (pipe(ends))
    return NULL;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  int failed = posix_spawnp(child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  FILE *out = failed ? NULL : fdopen(ends[0], "r");
  if (!out)
    close(ends[0]);
  return out;
}

/* `/build/templates/lib/x.cuh:17 (discriminator 2)`: true if it ends in the name of a file of the text. */
static bool take(const emu_names *files, const char *text, emu_place *place)
{
  const char *colon = strrchr(text, ':');
  if (!colon)
    return false;
  size_t length = (size_t)(colon - text);
  for (int i = 0; i < files->count; i++) {
    size_t n = strlen(files->name[i]);
    if (n <= length && !memcmp(colon - n, files->name[i], n) && (n == length || colon[-(long)n - 1] == '/')) {
      snprintf(place->file, sizeof place->file, "%s", files->name[i]);
      place->line = atoi(colon + 1);
      return true;
    }
  }
  return false;
}

void emu_lines_find(const emu_module *m, const uint32_t *offsets, int count, emu_place *places)
{
  enum { MOST = 64 };
  char address[MOST][16];
  char *argv[MOST + 5] = {"addr2line", "-a", "-i", "-e", (char *)m->path};
  count = count < MOST - 1 ? count : MOST - 1;
  for (int i = 0; i < count; i++) {
    places[i] = (emu_place){0};
    /* A return address is behind its call: the byte before belongs to it. */
    snprintf(address[i], sizeof address[i], "%x", offsets[i] ? offsets[i] - 1 : 0);
    argv[5 + i] = address[i];
  }
  pid_t child;
  FILE *out = count ? start(argv, &child) : NULL;
  if (!out)
    return;
  char line[1024];
  int at = -1;
  while (fgets(line, sizeof line, out)) {
    if (!strncmp(line, "0x", 2))
      at++;
    else if (at >= 0 && at < count && !places[at].line)
      take(&m->files, line, &places[at]);
  }
  fclose(out);
  waitpid(child, NULL, 0);
}
