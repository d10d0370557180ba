/* open.h -- what commands work with, opened as the options and the environment say. */
#ifndef FAT_OPEN_H
#define FAT_OPEN_H

#include "db.h"
#include "gpu.h"
#include "nvrtc.h"
#include "options.h"
#include "worker/lab.h"
#include "script.h"

/* Folder of templates: --templates, else FATUNE_TEMPLATES, else NULL (those inside the program). */
const char *fat_open_templates(const fat_options *options);
/* Folder for dumps: --dump, else FATUNE_DUMP, else NULL. */
const char *fat_open_dump(const fat_options *options);

fat_status fat_open_script(const fat_options *options, fat_script **script, fat_error *err);

/* The GPU of --gpu, else the first device at hand. *at_hand: such a device is in this machine. */
typedef struct fat_asked_gpu {
  fat_gpu gpu; /* the row of the table where its facts have one: what is predicted for it and what is measured
                  on it then meet */
  bool at_hand;
  int ordinal;                   /* of the device at hand */
  int ordinals[FAT_LABS], count; /* with --device all: of all that are equal to it; else of it alone */
  int cuda;                      /* CUDA major of the driver; 0 where there is none */
  char driver[48];               /* its version; "" where there is none */
} fat_asked_gpu;
fat_status fat_open_gpu(const fat_options *options, fat_asked_gpu *asked, fat_error *err);
/* For a command that cannot do without; `why` not. */
fat_status fat_open_gpu_itself(const fat_options *options, const char *why, fat_asked_gpu *asked,
                               fat_error *err);

/* The user's database over the system's; *path is where the user's lies. Says on stderr what fat_db_note has
 * to say, unless --quiet. */
fat_status fat_open_db(const fat_options *options, fat_db_mode mode, fat_db **db, fat_text *path,
                       fat_error *err);
/* The same for reading where a command can do without: *db is NULL where there is none and --db names none.
 */
fat_status fat_open_db_if_any(const fat_options *options, fat_db **db, fat_text *path, fat_error *err);
/* The user's alone. */
fat_status fat_open_own_db(const fat_options *options, fat_db_mode mode, fat_db **db, fat_text *path,
                           fat_error *err);

/* NVRTC for --cuda, else for the driver's CUDA. FAT_E_NVRTC also where it cannot compile for `gpu`. */
fat_status fat_open_nvrtc(const fat_options *options, const fat_asked_gpu *asked, fat_nvrtc **nvrtc,
                          fat_error *err);
/* The same for who compiles while signals are awaited: NVRTC's first compile is behind it, which would take
 * them. */
fat_status fat_open_compiler(const fat_options *options, const fat_asked_gpu *asked, fat_nvrtc **nvrtc,
                             fat_error *err);

#endif
