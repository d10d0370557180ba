/* attention.h -- attention problems on the emulator: inputs, layouts, a run of a rendered kernel, a verdict.
 *
 * What test_kernels and test_bites share. Renders come from the generator, for the GPU that a case names; the
 * packed arrays are floats, whatever the tensors' elements are. Failures of the
 * machinery itself (a template that does not render, a text that does not compile) are statuses. */
#ifndef EMU_ATTENTION_H
#define EMU_ATTENTION_H

#include "config.h"
#include "emu.h"
#include "gpu.h"
#include "source.h"
#include "space.h"
#include "oracle/truth.h"

/* Where the rows of a tensor lie. Every layout but the first has something between rows or heads. ORDER
 * LAYOUT */
typedef enum emu_lay {
  EMU_BHSD,   /* packed */
  EMU_BSHD,   /* rows of all heads side by side */
  EMU_PADDED, /* packed, with some numbers behind each row, head and batch; the first element off 256 bytes */
  EMU_MIXED,  /* each tensor another of the three */
  EMU_FAR,    /* heads or rows more than 2^31 elements from the first */
  EMU_LAYS
} emu_lay;

extern const char *const emu_lay_names[EMU_LAYS];

typedef struct emu_case {
  fat_problem problem;
  const fat_gpu *gpu; /* whose architecture the kernel is rendered for */
  float scale;
  emu_lay lay;
  fat_data data;
  bool no_lse; /* tensors that a caller may do without are absent */
  int sms;     /* of the GPU: what a grid that stays is launched with */
  uint64_t seed;
} emu_case;

/* Reads a line `PROBLEM KERNELS [gpu=NAME] [scale=X] [lay=NAME] [data=NAME] [sms=N] [nolse]`; `kernels` gets
 * the second word. */
fat_status emu_case_parse(const char *line, emu_case *c, char kernels[FAT_CONFIG_TEXT], fat_error *err);
/* 1 / sqrt(d), a T4 where it has the type and an A100 elsewhere, and the rest as in an ordinary call. */
void emu_case_plain(emu_case *c, const fat_problem *p);

fat_status emu_truth_make(const emu_case *c, fat_truth *t, fat_error *err);

/* A kernel ready to run. */
typedef struct emu_kernel {
  emu_module *module;
  fat_recipe recipe;
  fat_config config; /* its W decides what strides and addresses are multiples of */
} emu_kernel;
fat_status emu_kernel_render(fat_script *script, const fat_problem *p, const fat_gpu *gpu,
                             const fat_config *config, fat_source *source, fat_error *err);
fat_status emu_kernel_load(const char *text, const char *recipe, const fat_config *config, emu_kernel *kernel,
                           fat_error *err);
void emu_kernel_free(emu_kernel *kernel);

/* What a run gave: packed, owned; NULL where there is no such output, or it was not asked for. */
typedef struct emu_result {
  float *out[FAT_TENSORS];
  bool stored; /* the kernel keeps S in memory */
  emu_report report;
} emu_result;
fat_status emu_attention_run(emu *e, const emu_kernel *kernel, const emu_case *c, const fat_truth *t,
                             const emu_options *options, emu_result *r, fat_error *err);
void emu_result_free(emu_result *r);

/* Whether a result is right; else `why` says what is wrong and where. Findings are no part of it. */
bool emu_attention_right(const emu_case *c, const fat_truth *t, const emu_result *r, char *why, size_t room);

#endif
