/* nvrtc.h -- finding and loading libnvrtc at run time (never linked), and which of several to use.
 *
 * Looked for, in this order: FATUNE_NVRTC (a file or a folder; nothing else then), the CUDA toolkit
 * (CUDA_HOME, CUDA_PATH, /usr/local/cuda*), NVIDIA's Python wheels (VIRTUAL_ENV, CONDA_PREFIX, the prefixes
 * of python3 on PATH, ~/.local, /usr/local/lib/python3*, /usr/lib/python3*), the linker's cache, and what
 * set-up fetched ($XDG_DATA_HOME/fatune/nvrtc, and nvrtc/ beside the program). Of all found the newest is
 * used whose CUDA major is at most `cuda`; of equals the one found first. */
#ifndef FAT_NVRTC_H
#define FAT_NVRTC_H

#include "cuda_abi.h"
#include "locate.h"
#include <stdbool.h>

typedef struct fat_nvrtc fat_nvrtc;

enum { FAT_NVRTC_OLDEST = 12 }; /* the oldest CUDA major our kernels are compiled with */

/* Lists the libnvrtc found, at most `room`, in order of preference for `cuda` (12, 13; 0: no limit), those
 * with a problem last. Loads each of them. For doctor. */
fat_status fat_nvrtc_list(int cuda, fat_nvrtc_found *found, int room, int *count, fat_error *err);

/* Loads the preferred one. FAT_E_NVRTC says where was looked and how to get one. May be shared by threads. */
fat_status fat_nvrtc_open(int cuda, fat_nvrtc **nvrtc, fat_error *err);
void fat_nvrtc_close(fat_nvrtc *nvrtc);

const char *fat_nvrtc_version(const fat_nvrtc *nvrtc); /* "13.0" */
const char *fat_nvrtc_path(const fat_nvrtc *nvrtc);
bool fat_nvrtc_targets(const fat_nvrtc *nvrtc, int sm); /* whether it can compile for this architecture */
const fat_nvrtc_calls *fat_nvrtc_table(const fat_nvrtc *nvrtc); /* its functions, for compile.c */

#endif
