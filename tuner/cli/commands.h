/* commands.h -- the commands of the program; each is one file, cmd_<name>.c. */
#ifndef FAT_COMMANDS_H
#define FAT_COMMANDS_H

#include "options.h"

extern const fat_command fat_cmd_tune;   /* cmd_tune.c */
extern const fat_command fat_cmd_show;   /* cmd_show.c */
extern const fat_command fat_cmd_why;    /* cmd_why.c */
extern const fat_command fat_cmd_render; /* cmd_render.c */
extern const fat_command fat_cmd_verify; /* cmd_verify.c */
extern const fat_command fat_cmd_report; /* cmd_report.c */
extern const fat_command fat_cmd_bench;  /* cmd_bench.c */
extern const fat_command fat_cmd_export; /* cmd_exchange.c */
extern const fat_command fat_cmd_import;
extern const fat_command fat_cmd_merge;
extern const fat_command fat_cmd_forget; /* cmd_forget.c */
extern const fat_command fat_cmd_compact;
extern const fat_command fat_cmd_doctor; /* cmd_doctor.c */
extern const fat_command fat_cmd_help;   /* cmd_help.c */

/* All of them, in the order in which they are told; the first is what runs where none is named. */
extern const fat_command *const fat_commands[];
extern const int fat_command_count;

/* The command of that name, or NULL. */
const fat_command *fat_commands_find(const char *name);
/* "did you mean 'tune'? " where a command's name is near, else "". */
const char *fat_commands_guess(const char *name, char text[64]);

#endif
