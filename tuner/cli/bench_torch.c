/* bench_torch.c -- a row of a bench by PyTorch: bench_torch.py in a python3 of the user's.
 *
 * In: a row with its parameters. Out: its numbers, or what python3 said last. A process of its own, so that
 * neither its memory nor its faults are ours. */
#include "bench_torch.h"

#include "embed.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAID = 4096, NUMBER = 24 };
extern char **environ;

/* What the child writes, as far as there is room; the rest is read and dropped. */
static void read_all(int fd, char said[SAID])
{
  size_t used = 0;
  char chunk[512];
  for (ssize_t n; (n = read(fd, chunk, sizeof chunk)) > 0;) {
    if (used + (size_t)n >= SAID) { /* the last words count */
      const size_t keep = SAID / 2;
      memmove(said, said + used - keep, keep);
      used = keep;
    }
    memcpy(said + used, chunk, (size_t)n);
    used += (size_t)n;
  }
  said[used] = 0;
}

static int run_python(char *const arguments[], char said[SAID])
{
  int ends[2], status = -1;
  pid_t pid;
  posix_spawn_file_actions_t actions;
  said[0] = 0;
  if (pipe(ends) != 0)
    return -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  const int result = posix_spawnp(&pid, "python3", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (result == 0) {
    read_all(ends[0], said);
    waitpid(pid, &status, 0);
  } else {
    snprintf(said, SAID, "python3 cannot be started: %s", strerror(result));
  }
  close(ends[0]);
  return status;
}

static const char *last_line(char *text)
{
  for (size_t n = strlen(text); n && text[n - 1] == '\n';)
    text[--n] = 0;
  const char *line = strrchr(text, '\n');
  return line ? line + 1 : text;
}

void fat_bench_pytorch(fat_bench_row *row)
{
  const fat_embed *script = fat_embed_find("tuner/cli/bench_torch.py");
  const int64_t sizes[] = {row->batch_size, row->num_heads, row->seq_len, row->emb_dim / row->num_heads};
  char numbers[4][NUMBER], said[SAID], dtype[8], python[] = "python3", flag[] = "-c",
                                                 causal[2] = {row->causal ? '1' : '0', 0};
  for (int i = 0; i < 4; i++)
    snprintf(numbers[i], NUMBER, "%lld", (long long)sizes[i]);
  snprintf(dtype, sizeof dtype, "%s", fat_dtypes[row->dtype].name);
  char *text = script ? strdup(script->text) : NULL;
  if (!text) {
    snprintf(row->failed, sizeof row->failed, "out of memory");
    return;
  }
  char *const arguments[] = {python,     flag,       text,  numbers[0], numbers[1],
                             numbers[2], numbers[3], dtype, causal,     NULL};
  const int status = run_python(arguments, said);
  const char *line = last_line(said);
  if (status != 0 ||
      sscanf(line, "%lf %lf %lf", &row->seconds[FAT_FWD], &row->seconds[FAT_BWD], &row->mb) != 3)
    snprintf(row->failed, sizeof row->failed, "python3 with PyTorch and a GPU is needed; it said: %.400s",
             line);
  free(text);
}
