/* main.c -- the program fatune: finds the command, reads its options, runs it.
 *
 * In: argv. Out: an exit code (exit.h). The first argument names the command; where it is an option or there
 * is none, the command is `tune`. */
#include "commands.h"
#include "exit.h"
#include "worker/serve.h"
#include "text.h"

#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const fat_command *const commands[] = {
    &fat_cmd_tune,   &fat_cmd_show,   &fat_cmd_why,   &fat_cmd_render, &fat_cmd_verify,
    &fat_cmd_export, &fat_cmd_import, &fat_cmd_merge, &fat_cmd_doctor,
};
enum { COMMANDS = sizeof commands / sizeof commands[0], NEAR = 2, NAME_ROOM = 32 };

static int overview(void)
{
  printf("fatune writes, compiles, ranks and remembers FlashAttention kernels.\n\n"
         "  fatune --gpu T4 --dims 64,128          tune for a GPU, at hand or not\n"
         "  fatune COMMAND --help                  options of a command\n\nCommands:\n");
  for (int i = 0; i < COMMANDS; i++)
    printf("  %-8s %s%s\n", commands[i]->name, commands[i]->about,
           commands[i] == &fat_cmd_tune ? " (the default command)" : "");
  printf("\n%s\n", FAT_EXIT_HELP);
  return fat_exit_print("");
}

static int unknown(const char *name)
{
  const char *nearest = NULL;
  int least = NEAR + 1;
  for (int i = 0; i < COMMANDS; i++) {
    int distance = fat_text_distance(name, commands[i]->name);
    if (distance < least) {
      least = distance;
      nearest = commands[i]->name;
    }
  }
  fprintf(stderr, "fatune: '%s' is no command; %s%s%sfatune --help lists them\n", name,
          nearest ? "did you mean '" : "", nearest ? nearest : "", nearest ? "'? " : "");
  return FAT_EXIT_USAGE;
}

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

int main(int argc, char **argv)
{
  signal(SIGXFSZ, SIG_IGN); /* a file-size limit is then a failed write, which the database reports */
  if (argc > 1 && strcmp(argv[1], FAT_SERVE_WORD) == 0)
    return fat_serve_main(argc, argv);
  if (argc > 1 && strcmp(argv[1], FAT_SERVE_CHECK) == 0)
    return fat_serve_check(argc, argv);
  argp_err_exit_status = FAT_EXIT_USAGE;
  argp_program_version = "fatune " FATUNE_VERSION;
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0))
    return overview();
  if (argc < 2 || argv[1][0] == '-')
    return run(&fat_cmd_tune, argc, argv);
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(argv[1], commands[i]->name) == 0)
      return run(commands[i], argc, argv);
  return unknown(argv[1]);
}
