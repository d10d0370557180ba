/* commands.c -- the table of commands, and which one a name means. */
#include "commands.h"

#include "text.h"

#include <stdio.h>
#include <string.h>

const fat_command *const fat_commands[] = {
    &fat_cmd_tune,   &fat_cmd_show,    &fat_cmd_why,    &fat_cmd_render, &fat_cmd_verify,
    &fat_cmd_report, &fat_cmd_bench,   &fat_cmd_export, &fat_cmd_import, &fat_cmd_merge,
    &fat_cmd_forget, &fat_cmd_compact, &fat_cmd_doctor, &fat_cmd_help,
};
const int fat_command_count = sizeof fat_commands / sizeof *fat_commands;

const fat_command *fat_commands_find(const char *name)
{
  for (int i = 0; i < fat_command_count; i++)
    if (strcmp(name, fat_commands[i]->name) == 0)
      return fat_commands[i];
  return NULL;
}

const char *fat_commands_guess(const char *name, char text[64])
{
  int least = 3; /* more letters than that are another word */
  text[0] = 0;
  for (int i = 0; i < fat_command_count; i++) {
    const int distance = fat_text_distance(name, fat_commands[i]->name);
    if (distance < least) {
      least = distance;
      snprintf(text, 64, "did you mean '%s'? ", fat_commands[i]->name);
    }
  }
  return text;
}
