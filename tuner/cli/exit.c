/* exit.c -- the table from statuses to exit codes, and the last words on stderr.
 *
 * In: a status or an error. Out: the code the process ends with. Files named wrongly count as usage: the
 * database's path is an argument like any other. */
#include "exit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Those that are not FAT_EXIT_ENVIRONMENT. */
static const struct {
  fat_status status;
  int code;
} codes[] = {
    {FAT_OK, FAT_EXIT_FINE},
    {FAT_E_INPUT, FAT_EXIT_USAGE},
    {FAT_E_READONLY, FAT_EXIT_USAGE},
    {FAT_E_DENIED, FAT_EXIT_USAGE},
    {FAT_E_FOREIGN, FAT_EXIT_USAGE},
    {FAT_E_NEWER, FAT_EXIT_USAGE},
    {FAT_E_UNSUPPORTED, FAT_EXIT_NO_KERNEL},
    {FAT_E_COMPILE, FAT_EXIT_NO_KERNEL},
    {FAT_E_TIMEOUT, FAT_EXIT_NO_KERNEL},
    {FAT_E_CANCELLED, FAT_EXIT_NO_KERNEL},
    {FAT_E_CONTEXT_DEAD, FAT_EXIT_DEVICE_LOST},
    {FAT_E_DEVICE_LOST, FAT_EXIT_DEVICE_LOST},
};

static int code_of(fat_status status)
{
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].status == status)
      return codes[i].code;
  return FAT_EXIT_ENVIRONMENT;
}

int fat_exit_fail(const fat_error *err)
{
  char line[sizeof err->text];
  snprintf(line, sizeof line, "%s", err->text[0] ? err->text : fat_status_name(err->status));
  fat_status_line(line);
  fprintf(stderr, "fatune: %s\n", line);
  return code_of(err->status);
}

static bool lost; /* stdout could not be written, and that was said */

static int say_lost(void)
{
  if (!lost)
    fprintf(stderr, "fatune: stdout cannot be written: %s\n", strerror(errno));
  lost = true;
  return FAT_EXIT_ENVIRONMENT;
}

int fat_exit_print(const char *text)
{
  return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? FAT_EXIT_FINE : say_lost();
}

void fat_exit_last(void)
{
  if (fflush(stdout) != 0 || ferror(stdout))
    _exit(say_lost());
}
