/* main.c -- the program fatune: finds the command, reads its options, runs it.
 *
 * In: argv. Out: an exit code (exit.h). The first argument names the command; where it is an option or there
 * is none, the command is `tune`. */
#include "commands.h"
#include "exit.h"
#include "worker/serve.h"
#include "text.h"

#include <argp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_ROOM = 32 };

/* The command line as it was typed, for the table of runs. */
static void join(int argc, char **argv, fat_text *line)
{
  fat_text_add(line, "fatune");
  for (int i = 1; i < argc; i++)
    fat_text_format(line, " %s", argv[i]);
}

static int run(const fat_command *command, int argc, char **argv)
{
  char name[NAME_ROOM];
  fat_options options;
  fat_error err = {0};
  fat_text line = {0};
  int skip = argc > 1 && argv[1][0] != '-' ? 1 : 0;
  join(argc, argv, &line);
  snprintf(name, sizeof name, "fatune %s", command->name);
  argv[skip] = name;
  fat_status status = fat_text_status(&line, &err);
  if (status == FAT_OK)
    status = fat_options_read(command, argc - skip, argv + skip, &options, &err);
  options.command_line = fat_text_get(&line);
  int code = status == FAT_OK ? command->run(&options) : fat_exit_fail(&err);
  fat_text_free(&line);
  return code;
}

static int unknown(const char *name)
{
  char guess[64];
  fat_error err = {0};
  fat_status_fail(&err, FAT_E_INPUT, "'%s' is no command; %sfatune --help lists them", name,
                  fat_commands_guess(name, guess));
  return fat_exit_fail(&err);
}

/* A control byte in an argument is a slip of the paste, and would be echoed to the terminal. */
static int refuse_control(int argc, char **argv)
{
  fat_error err = {0};
  for (int i = 1; i < argc; i++)
    for (const unsigned char *c = (const unsigned char *)argv[i]; *c; c++)
      if (*c < ' ' || *c == 127) {
        fat_status_fail(&err, FAT_E_INPUT, "argument %d has a control character at place %d: none is allowed",
                        i, (int)(c - (const unsigned char *)argv[i]) + 1);
        return fat_exit_fail(&err);
      }
  return FAT_EXIT_FINE;
}

/* Whoever closed stdin, stdout or stderr must not find a worker's socket or the database in its place. Writes
 * still fail there: /dev/null is opened for reading. */
static void fill_standard_places(void)
{
  int fd;
  do
    fd = open("/dev/null", O_RDONLY);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0)
    close(fd);
}

int main(int argc, char **argv)
{
  fill_standard_places();
  /* A parent that ignores SIGCHLD passes that on, and we could not learn how a worker ended. */
  signal(SIGCHLD, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN); /* a file-size limit is then a failed write, which the database reports */
  if (argc > 1 && strcmp(argv[1], FAT_SERVE_WORD) == 0)
    return fat_serve_main(argc, argv);
  if (argc > 1 && strcmp(argv[1], FAT_SERVE_CHECK) == 0)
    return fat_serve_check(argc, argv);
  argp_err_exit_status = FAT_EXIT_USAGE;
  argp_program_version = "fatune " FATUNE_VERSION;
  atexit(fat_exit_last);
  if (refuse_control(argc, argv) != FAT_EXIT_FINE)
    return FAT_EXIT_USAGE;
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
    return fat_cmd_help.run(&(fat_options){0});
  if (argc == 3 && strcmp(argv[1], "help") == 0 && fat_commands_find(argv[2])) {
    char *asked[] = {argv[0], argv[2], (char[]){"--help"}, NULL};
    return run(fat_commands_find(argv[2]), 3, asked);
  }
  if (argc < 2 || argv[1][0] == '-')
    return run(fat_commands[0], argc, argv);
  const fat_command *command = fat_commands_find(argv[1]);
  return command ? run(command, argc, argv) : unknown(argv[1]);
}
