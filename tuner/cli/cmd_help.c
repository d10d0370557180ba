/* cmd_help.c -- `fatune help [COMMAND|environment]`, and what is made of the same tables: the man page and
 * the completions of shells.
 *
 * In: the tables of commands, options and variables. Out: text on stdout. Nothing is told in two places: a
 * new option is in --help, in the man page and in both completions by its row of options.def. */
#include "commands.h"
#include "exit.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name, *who, *doc;
} variables[] = {
#define VARIABLE(name, who, doc) {name, who, doc},
#include "environment.def"
#undef VARIABLE
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static void overview(fat_text *out)
{
  fat_text_add(out,
               "fatune writes, compiles, ranks and remembers FlashAttention kernels.\n\n"
               "  fatune --gpu T4 --dims 64,128          tune for a GPU, at hand or not\n"
               "  fatune COMMAND --help                  options of a command, as `fatune help COMMAND`\n"
               "  fatune help environment                variables that it reads\n\nCommands:\n");
  for (int i = 0; i < fat_command_count; i++)
    fat_text_format(out, "  %-8s %s%s\n", fat_commands[i]->name, fat_commands[i]->about,
                    i == 0 ? " (the default command)" : "");
  fat_text_format(out, "\n%s\n", FAT_EXIT_HELP);
}

static void environment(fat_text *out)
{
  for (int i = 0; i < VARIABLES; i++)
    fat_text_format(out, "%-19s %s (%s)\n", variables[i].name, variables[i].doc, variables[i].who);
}

/* Text of a man page: what begins a line or an escape there is masked. */
static void troff(fat_text *out, const char *text)
{
  for (const char *c = text; *c; c++) {
    if (*c == '\\')
      fat_text_add(out, "\\e");
    else if (*c == '-')
      fat_text_add(out, "\\-");
    else if ((*c == '.' || *c == '\'') && (c == text || c[-1] == '\n'))
      fat_text_format(out, "\\&%c", *c);
    else if (c[0] == '\n' && c[1] == '\n')
      fat_text_add(out, "\n.PP"), c++, fat_text_add(out, "\n");
    else
      fat_text_add_bytes(out, c, 1);
  }
  fat_text_add(out, "\n");
}

static void man_option(fat_text *out, int option)
{
  fat_option_help h = fat_options_help(option);
  fat_text_add(out, ".TP\n.B ");
  troff(out, h.name);
  if (h.value) {
    out->length--; /* on the line of the name */
    fat_text_format(out, "=\\fI%s\\fR\n", h.value);
  }
  troff(out, h.doc);
}

static void man_command(fat_text *out, const fat_command *c)
{
  fat_text_format(out, ".SS fatune %s %s\n", c->name, c->args ? c->args : "");
  troff(out, c->about);
  fat_text_add(out, ".PP\n");
  troff(out, c->more);
  for (int i = 0; i < FAT_OPTION_COUNT; i++)
    if (c->uses >> i & 1u)
      man_option(out, i);
}

static void man(fat_text *out)
{
  fat_text_add(out, ".TH FATUNE 1 \"\" \"fatune " FATUNE_VERSION "\" \"User Commands\"\n.SH NAME\n"
                    "fatune \\- writes, compiles, ranks and remembers FlashAttention kernels\n.SH SYNOPSIS\n"
                    ".B fatune\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n.PP\n"
                    "Without a command it is\n.BR tune .\n.SH COMMANDS\n");
  for (int i = 0; i < fat_command_count; i++)
    man_command(out, fat_commands[i]);
  fat_text_add(out, ".SH ENVIRONMENT\n");
  for (int i = 0; i < VARIABLES; i++) {
    fat_text_format(out, ".TP\n.B %s\n", variables[i].name);
    troff(out, variables[i].doc);
  }
  fat_text_add(out, ".SH EXIT STATUS\n");
  troff(out, FAT_EXIT_HELP);
}

static void words_of(fat_text *out, const fat_command *c)
{
  for (int i = 0; i < FAT_OPTION_COUNT; i++)
    if (c->uses >> i & 1u)
      fat_text_format(out, "%s ", fat_options_help(i).name);
  fat_text_add(out, "--help");
}

/* Options by command, names of GPUs from the program itself, files elsewhere. */
static void bash(fat_text *out)
{
  fat_text_add(
      out, "# bash completion of fatune, made by `fatune help --bash`\n_fatune() {\n"
           "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=tune words\n"
           "  case ${COMP_WORDS[1]} in\n    ");
  for (int i = 0; i < fat_command_count; i++)
    fat_text_format(out, "%s%s", i ? " | " : "", fat_commands[i]->name);
  fat_text_add(
      out, ") command=${COMP_WORDS[1]} ;;\n  esac\n  case $before in\n"
           "    --gpu | --as)\n      local IFS=$'\\n'\n      COMPREPLY=($(compgen -W \"$(fatune show gpus "
           "--csv 2>/dev/null | tail -n +2 | cut -d, -f1)\" -- \"$word\"))\n"
           "      COMPREPLY=(\"${COMPREPLY[@]// /\\\\ }\")\n      return ;;\n  esac\n  case $command in\n");
  for (int i = 0; i < fat_command_count; i++) {
    fat_text_format(out, "    %s) words='", fat_commands[i]->name);
    words_of(out, fat_commands[i]);
    fat_text_add(out, "' ;;\n");
  }
  fat_text_add(out, "  esac\n  if [ \"$COMP_CWORD\" = 1 ]; then words+=' ");
  for (int i = 0; i < fat_command_count; i++)
    fat_text_format(out, "%s%s", i ? " " : "", fat_commands[i]->name);
  fat_text_add(out, "'; fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
                    "complete -o default -F _fatune fatune\n");
}

/* Between quotes of zsh, inside brackets. */
static void quoted(fat_text *out, const char *text)
{
  for (const char *c = text; *c; c++)
    fat_text_format(out, strchr("[]:\\", *c) ? "\\%c" : *c == '\'' ? "'\\''" : "%c", *c);
}

static void zsh(fat_text *out)
{
  fat_text_add(out, "#compdef fatune\n# zsh completion of fatune, made by `fatune help --zsh`\n_fatune() {\n"
                    "  local command=tune\n  local -a commands\n  commands=(\n");
  for (int i = 0; i < fat_command_count; i++) {
    fat_text_format(out, "    '%s:", fat_commands[i]->name);
    quoted(out, fat_commands[i]->about);
    fat_text_add(out, "'\n");
  }
  fat_text_add(out,
               "  )\n  if (( CURRENT == 2 )); then _describe command commands; fi\n"
               "  if (( CURRENT > 2 )) && [[ -n ${(M)commands:#$words[2]:*} ]]; then command=$words[2]; fi\n"
               "  case $command in\n");
  for (int i = 0; i < fat_command_count; i++) {
    fat_text_format(out, "    %s) _arguments", fat_commands[i]->name);
    for (int o = 0; o < FAT_OPTION_COUNT; o++) {
      fat_option_help h = fat_options_help(o);
      if (!(fat_commands[i]->uses >> o & 1u))
        continue;
      fat_text_format(out, " \\\n      '%s%s[", h.name, h.value ? "=" : "");
      quoted(out, h.doc);
      fat_text_format(out, h.value ? "]:%s:_files'" : "]", h.value ? h.value : "");
      fat_text_add(out, h.value ? "" : "'");
    }
    fat_text_add(out, " \\\n      '--help[all options]' '*:file:_files' ;;\n");
  }
  fat_text_add(out, "  esac\n}\n_fatune \"$@\"\n");
}

static int help(const fat_options *o)
{
  fat_text out = {0};
  fat_error err = {0};
  fat_status status = FAT_OK;
  char guess[64];
  const char *topic = o->arg_count ? o->args[0] : "";
  void (*form)(fat_text *) = o->man ? man : o->bash ? bash : o->zsh ? zsh : *topic ? environment : overview;
  if (*topic && strcmp(topic, "environment") != 0)
    status = fat_status_fail(&err, FAT_E_INPUT, "'%s' is no command; %sfatune --help lists them", topic,
                             fat_commands_guess(topic, guess));
  else
    form(&out);
  if (status == FAT_OK)
    status = fat_text_status(&out, &err);
  int code = status == FAT_OK ? fat_exit_print(fat_text_get(&out)) : fat_exit_fail(&err);
  fat_text_free(&out);
  return code;
}

const fat_command fat_cmd_help = {
    .name = "help",
    .args = "[COMMAND|environment]",
    .about = "print what the program or a command does",
    .more = "environment: the variables that are read. --man, --bash and --zsh print the man page and the "
            "completions that a package installs.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(MAN) | FAT_USE(BASH) | FAT_USE(ZSH),
    .most = 1,
    .run = help,
};
