/* compile.h -- CUDA text -> cubin or PTX, through NVRTC, with a deadline. */
#ifndef FAT_COMPILE_H
#define FAT_COMPILE_H

#include "entry.h"
#include "nvrtc.h"
#include "status.h"
#include "text.h"
#include <stddef.h>

enum { FAT_COMPILE_ENTRIES = 8 };

typedef struct fat_binary {
  unsigned char *cubin;
  size_t size;
  char hash[FAT_HASH_SIZE]; /* SHA-256 of the cubin */
  fat_text log;             /* NVRTC's and ptxas's words, whole */
  fat_entry entry[FAT_COMPILE_ENTRIES];
  int entries;
  double seconds; /* the compile took */
} fat_binary;

/* Compiles `source` for `target`: "sm_75", or "compute_75", which gives PTX in place of a cubin: a text, its
 * closing zero included, that says nothing of entries. FAT_E_COMPILE: the text is the first error with its
 * line as NVRTC gives it (template file and line), binary->log holds everything. FAT_E_TIMEOUT after
 * `deadline` seconds (0: none). FAT_E_CANCELLED once *cancel (may be NULL) is not 0. FAT_E_NVRTC for its
 * internal failures and for a target it does not know. The binary is to be freed whatever the status. */
fat_status fat_compile(fat_nvrtc *nvrtc, const char *source, const char *name, const char *target,
                       double deadline, const volatile int *cancel, fat_binary *binary, fat_error *err);
void fat_binary_free(fat_binary *binary);

/* What decides NVRTC's output beside source and target: options and the environment variables it reads, as
 * one text for the key of a trial. */
fat_status fat_compile_key(const fat_nvrtc *nvrtc, fat_text *key, fat_error *err);

#endif
