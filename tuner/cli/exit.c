/* exit.c -- the table from statuses to exit codes, and the last words on stderr.
 *
 * In: a status or an error. Out: the code the process ends with. Files named wrongly count as usage: the
 * database's path is an argument like any other. */
#include "exit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const unsigned char codes[FAT_STATUS_COUNT] = {
    [FAT_OK] = FAT_EXIT_FINE,
    [FAT_E_NOMEM] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_INPUT] = FAT_EXIT_USAGE,
    [FAT_E_UNSUPPORTED] = FAT_EXIT_NO_KERNEL,
    [FAT_E_TEMPLATE] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_LIMIT] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_NVRTC] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_COMPILE] = FAT_EXIT_NO_KERNEL,
    [FAT_E_TIMEOUT] = FAT_EXIT_NO_KERNEL,
    [FAT_E_CANCELLED] = FAT_EXIT_NO_KERNEL,
    [FAT_E_IO] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_FULL] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_READONLY] = FAT_EXIT_USAGE,
    [FAT_E_DENIED] = FAT_EXIT_USAGE,
    [FAT_E_FOREIGN] = FAT_EXIT_USAGE,
    [FAT_E_NEWER] = FAT_EXIT_USAGE,
    [FAT_E_CORRUPT] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_BUSY] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_DB] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_NOT_FOUND] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_NO_DRIVER] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_NO_DEVICE] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_NO_CONTEXT] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_DEVICE_MEMORY] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_LAUNCH] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_IMAGE] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_CAPTURE] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_CONTEXT_DEAD] = FAT_EXIT_DEVICE_LOST,
    [FAT_E_DEVICE_LOST] = FAT_EXIT_DEVICE_LOST,
    [FAT_E_CUDA] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_ALIGNMENT] = FAT_EXIT_ENVIRONMENT,
    [FAT_E_FORKED] = FAT_EXIT_ENVIRONMENT,
};

int fat_exit_code(fat_status status)
{
  return (unsigned)status < FAT_STATUS_COUNT ? codes[status] : FAT_EXIT_ENVIRONMENT;
}

int fat_exit_fail(const fat_error *err)
{
  fprintf(stderr, "fatune: %s\n", err->text[0] ? err->text : fat_status_name(err->status));
  return fat_exit_code(err->status);
}

int fat_exit_print(const char *text)
{
  if (fputs(text, stdout) >= 0 && fflush(stdout) == 0)
    return FAT_EXIT_FINE;
  fprintf(stderr, "fatune: stdout cannot be written: %s\n", strerror(errno));
  return FAT_EXIT_ENVIRONMENT;
}
