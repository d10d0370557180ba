/* nvrtc_apart.c -- nvrtc_apart LIBRARY NAME OPTION... <SOURCE >ANSWER: has libnvrtc compile in a process of
 * its own.
 *
 * Never built with a sanitizer: where the program is, nvrtc_memory.c has this one compile. NVRTC asks for
 * memory so often that it takes two to four times as long where a sanitizer stands between, and no code of
 * ours runs in it. */
#include "nvrtc_answer.h"
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* All of a file, with a 0 behind it. */
static char *read_all(FILE *f)
{
  size_t length = 0, room = 1 << 20;
  char *text = malloc(room);
  while (text) {
    length += fread(text + length, 1, room - length - 1, f);
    if (feof(f) || ferror(f))
      break;
    if (length + 1 == room)
      text = realloc(text, room *= 2);
  }
  if (text)
    text[length] = 0;
  return text;
}

int main(int argc, char **argv)
{
  fat_nvrtc_calls real = {0};
  if (argc < 3) {
    fprintf(stderr, "usage: nvrtc_apart LIBRARY NAME OPTION... <SOURCE >ANSWER\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever is killed needs no answer */
  char *source = read_all(stdin);
  if (!source)
    return 1;
  answer_open(argv[1], &real);
  answer_write(&real, source, argv[2], argc - 3, (const char *const *)argv + 3, NULL, NULL, stdout);
  fflush(stdout);
  _exit(ferror(stdout) != 0); /* NVRTC has much to tidy up */
}
