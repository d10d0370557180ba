/* lab.h -- the GPU's half of a tune: compiled jobs wait in a queue, one at a time is with the worker. */
#ifndef FAT_LAB_H
#define FAT_LAB_H

#include "search/attempt.h"
#include "worker.h"

struct fat_measure {
  fat_worker *worker;
  fat_binary clock; /* the tool that reads the SM clock; empty where it does not compile */
  uint64_t seed;
  double least; /* seconds that every trial may take on the GPU, and as many times that a race as it has
                   entrants */
  fat_job *job; /* with the worker, or NULL */
  char config[FAT_WIRE_ENTRANTS][FAT_CONFIG_TEXT];
  fat_assignment assignment;
};
typedef struct fat_measure fat_measure;

/* Starts the worker of a device and compiles the clock tool meanwhile; without a bench (NULL) there is none.
 */
fat_status fat_measure_open(int ordinal, const fat_bench *bench, const fat_gpu *gpu, double least,
                            fat_measure *measure, fat_error *err);
void fat_measure_close(fat_measure *measure);

/* Hands a job that fat_trial_runs to the worker, which must be free. `best_ms`: of its line so far, or 0. */
fat_status fat_measure_begin(fat_measure *measure, fat_job *job, double best_ms, fat_error *err);
/* Waits up to `seconds`; *done is the job that ended, judged, or NULL. */
fat_status fat_measure_step(fat_measure *measure, double seconds, fat_job **done, fat_error *err);

/* Tries entrants that are stored, and waits for the end: a race, or a check of one. `expected` milliseconds
 * of a call. FAT_E_CANCELLED once *cancel is not 0. */
fat_status fat_measure_run(fat_measure *measure, fat_task task, const fat_problem *p, const fat_gpu *gpu,
                           const fat_entrant *entrants, int count, double expected,
                           const volatile int *cancel, fat_verdict *verdicts, fat_error *err);

/* Seconds that a trial may take on the GPU when a call is expected to take so many milliseconds. */
double fat_measure_deadline(double least, double expected_ms, int entrants);

#endif
