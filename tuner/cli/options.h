/* options.h -- what may be typed after a command: one table of options, of which each command uses some. */
#ifndef FAT_OPTIONS_H
#define FAT_OPTIONS_H

#include "search/goal.h"
#include "shard.h"
#include "source.h"
#include <stdbool.h>

typedef enum fat_option {
#define OPTION(id, name, value, doc, read, member, least, most) FAT_OPT_##id,
#include "options.def"
#undef OPTION
  FAT_OPTION_COUNT
} fat_option;
#define FAT_USE(option) (UINT64_C(1) << FAT_OPT_##option)

enum { FAT_OPTIONS_ARGS = 1024 };

enum { FAT_DEVICE_ALL = -1 };

typedef struct fat_options {
  const char *command_line; /* as it was typed */
  fat_goal goal;            /* what is to be tuned; its problems are the arguments */
  const char *gpu;          /* NULL: the device at hand */
  int device;               /* 1 + its ordinal; 0: the first; FAT_DEVICE_ALL: it and all that are equal */
  fat_shard shard;
  int json_progress;  /* 0: as text */
  bool time;          /* verify: time the winners again */
  const char *config; /* NULL: the default one */
  fat_lines lines;
  double deadline;                   /* seconds that any trial may take on the GPU; 0: the default */
  int cuda;                          /* 12, 13; 0: as the driver says */
  const char *db, *templates, *dump; /* NULL: as the environment says */
  bool sanitize;
  bool winners;               /* export: them alone */
  bool force;                 /* export: over a file that is there */
  bool packaged;              /* import: any date is taken; --sources sets it */
  bool sources;               /* import: renders the rows; --cubins sets it */
  const char *cubins;         /* import: the GPUs whose winners are compiled, or "all"; NULL: none */
  const char *as;             /* NULL, or a GPU that is not at hand */
  int top;                    /* so many configs of each kernel; 0: not given */
  const char *problem, *sort; /* show: which rows, in which order; NULL: all, as stored */
  int origin_plus_1;          /* 0: any */
  bool all;                   /* show: also a package's rows beside one's own */
  const char *output;         /* report, bench: the file; NULL: fatune.html, none */
  bool csv;
  const char *source;                                     /* forget: the beginning of a hash; NULL: any */
  int older;                                              /* forget: days; 0: any */
  fat_numbers batch_sizes, seq_lens, num_heads, emb_dims; /* bench */
  uint32_t impls, causal;                                 /* bench: bits of fat_impl; bit 0: no, bit 1: yes */
  bool json, quiet;
  bool man, bash, zsh; /* help: the form */
  int arg_count;
  const char *args[FAT_OPTIONS_ARGS];
} fat_options;

typedef struct fat_command {
  const char *name;
  const char *args;                       /* "PROBLEM", "[best|trials]", NULL */
  const char *about;                      /* one line for the overview */
  const char *more;                       /* paragraphs below the options in --help */
  uint64_t uses;                          /* FAT_USE(GPU) | ... */
  int least, most;                        /* arguments beside options */
  int (*run)(const fat_options *options); /* returns the exit code */
} fat_command;

/* An option as it is told: "--gpu", "NAME" (NULL: it takes none), "the GPU, like ...". */
typedef struct fat_option_help {
  const char *name, *value, *doc;
} fat_option_help;
fat_option_help fat_options_help(int option);

/* Reads a command's options; --help, --usage, --version and unknown options end the program (codes 0 and 2),
 * as argp does. A value that is wrong is FAT_E_INPUT. */
fat_status fat_options_read(const fat_command *command, int argc, char **argv, fat_options *options,
                            fat_error *err);

#endif
