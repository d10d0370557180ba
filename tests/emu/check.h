/* check.h -- runs kernels on the emulator inside a cmocka test: what goes wrong fails the test with its
 * words.
 *
 * One script, one emu and every kernel compiled so far are kept for the whole program. */
#ifndef EMU_CHECK_H
#define EMU_CHECK_H

#include "attention.h"

enum { EMU_KERNELS = 3 };
extern const char *const emu_kernel_names[EMU_KERNELS];

/* Group fixtures: open and close what is kept. */
int emu_check_open(void **state);
int emu_check_close(void **state);
fat_script *emu_check_script(void);
emu *emu_check_machine(void);

/* Skips the test where this machine has too few addresses for cases that lie EMU_FAR. */
void emu_check_far(void);

/* FATUNE_FULL is set: the long form of a test is wanted. */
bool emu_check_full(void);

/* The valid configs on the case's GPU; free it. */
fat_space emu_check_space(const char *kernel, const emu_case *c);
/* Configs of it that together hold every value of every tunable; -1 where there are too many values. */
enum { EMU_COVER = 64 };
int emu_check_covering(const fat_space *space, fat_config picked[EMU_COVER]);
/* "fwd" is its default config, "fwd:Br16-..." that one. */
fat_config emu_check_config(const char *word, const emu_case *c);
/* Problem text to case, with all else as in an ordinary call. */
emu_case emu_check_case(const char *problem);
/* The same on an H200. */
emu_case emu_check_hopper_case(const char *problem);
fat_truth emu_check_truth(const emu_case *c);

/* The case and config in words, for messages; overwritten by the next call. */
const char *emu_check_title(const emu_case *c, const fat_config *config);

/* Runs, and wants no finding. Free the result. */
emu_result emu_check_run(const emu_case *c, const fat_truth *t, const fat_config *config, emu_order order,
                         uint64_t seed);
/* Runs, and wants a right result. */
void emu_check_solves(const emu_case *c, const fat_truth *t, const fat_config *config, emu_order order,
                      uint64_t seed);

#endif
