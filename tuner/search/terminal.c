/* terminal.c -- asks the terminal. */
#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

int fat_terminal_width(int fd)
{
  struct winsize size;
  if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0)
    return 0;
  return size.ws_col;
}
