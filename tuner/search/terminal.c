/* terminal.c -- asks the terminal. */
#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

int fat_terminal_width(int fd)
{
  struct winsize size;
  return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
