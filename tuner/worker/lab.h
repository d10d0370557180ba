/* lab.h -- the GPU at hand: its worker, how long trials may take, and the tool that reads clocks. */
#ifndef FAT_LAB_H
#define FAT_LAB_H

#include "compile.h"
#include "nvrtc.h"
#include "worker.h"

enum { FAT_LABS = 16 }; /* of a host */

typedef struct fat_lab {
  fat_worker *worker;
  int ordinal;             /* of the device */
  const fat_binary *clock; /* the tool that reads the SM clock; NULL or empty: there is none */
  uint64_t seed;           /* of inputs */
  double least; /* seconds on the GPU that every trial may take; a race may take as many per entrant */
  fat_assignment assignment; /* what the worker has, which points here: a lab stays where it is */
} fat_lab;

/* Starts the worker of a device. The clock tool, or NULL, must outlive the lab; it may be compiled later. */
fat_status fat_lab_open(int ordinal, const fat_binary *clock, double least, fat_lab *lab, fat_error *err);
void fat_lab_close(fat_lab *lab);
/* Compiles the tool for a GPU; where that fails it stays empty. */
void fat_lab_make_clock(fat_nvrtc *nvrtc, const fat_gpu *gpu, fat_binary *clock);

/* What the worker is given to do. The entrants, and what they point at, must live until it is done. */
typedef struct fat_experiment {
  fat_task task;
  const fat_problem *problem;
  const fat_gpu *gpu;
  const fat_entrant *entrants;
  int count;
  double expected_ms; /* of a call; NAN: unknown */
  double best_ms;     /* of the same kernel and problem so far, or 0 */
} fat_experiment;

/* Gives it to the worker, which must be free, and returns at once. */
fat_status fat_lab_begin(fat_lab *lab, const fat_experiment *e, fat_error *err);
/* Waits up to `seconds` until the worker of one of these labs that has something to do has news. */
void fat_lab_wait(fat_lab *const *labs, int count, double seconds);
/* The same as fat_lab_begin, and waits for the verdicts. FAT_E_CANCELLED once *stop (which may be NULL) is
 * not 0. */
fat_status fat_lab_run(fat_lab *lab, const fat_experiment *e, const volatile int *stop, fat_verdict *verdicts,
                       fat_error *err);

/* Seconds that a trial may take on the GPU when a call is expected to take so many milliseconds on normal
 * data, and it is timed on so many other kinds. */
double fat_lab_deadline(double least, double expected_ms, int entrants, int kinds);

#endif
