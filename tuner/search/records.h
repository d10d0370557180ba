/* records.h -- what the database holds of one problem on one device, as the tuner needs it in memory. */
#ifndef FAT_RECORDS_H
#define FAT_RECORDS_H

#include "compile.h"
#include "config.h"
#include "db.h"
#include "gpu.h"
#include "oracle/kinds.h"
#include "problem.h"
#include "sources.h"
#include "worker/timer.h"

/* The tools that a record must have been made with to count: another NVRTC or option makes other code. */
typedef struct fat_tools {
  const char *templates;   /* hash over all templates */
  fat_sources *sources;    /* what they render; NULL: other templates are taken to render another source */
  const char *compile_key; /* fat_compile_key */
  const char *model;       /* FAT_MODEL_VERSION: predicted records say that it made them */
  const char *driver;      /* the driver's version where trials are measured; NULL where they are predicted */
} fat_tools;

/* What a trial found beside times: the compiler's figures of the worst entry, and the error. */
typedef struct fat_figures {
  int registers, stack, spills, shared, blocks_per_sm;
  double error_max, error_allowed; /* NAN: not verified */
} fat_figures;

typedef struct fat_record {
  int64_t id; /* negative: of the system's file */
  char config[FAT_CONFIG_TEXT], kernel[FAT_CONFIG_KERNEL];
  char source_hash[FAT_HASH_SIZE];
  bool same_source; /* the templates in use give its config the source that was tried */
  fat_outcome outcome;
  fat_origin origin;
  double ms;
  double mean, kinds[FAT_KINDS]; /* of a finalist, over all kinds of data; 0: not timed on them */
  char limit[16];
  int eligible;
  fat_figures figures;
  double forecast; /* milliseconds */
  char twin_of[FAT_CONFIG_TEXT];
  char race[32];     /* when the race began that it was in; "": none */
  int rivals;        /* so many others it was timed with there; 0: the race broke off */
  char detail[1024]; /* why it failed, or its race broke off */
  fat_timing timing; /* measured */
  double compile_seconds;
} fat_record;

typedef struct fat_records {
  fat_record *list; /* made with the same compile key; where trials are measured: with this driver, none
                    predicted; else: measured ones, and those predicted by the same model */
  int count;
} fat_records;

/* Reads the records of a problem on a device that count with these tools. */
fat_status fat_records_read(fat_db *db, const fat_problem *p, const fat_gpu *gpu, const fat_tools *tools,
                            fat_records *records, fat_error *err);
void fat_records_free(fat_records *records);

/* The record of a config: one with the same source if there is one, else any; NULL if it was never tried. */
const fat_record *fat_records_find(const fat_records *records, const char *config);

/* The fastest record of a kernel (NULL: of all that may win unasked) among those with the same source: a
 * clean one if any is, else one that spills, else NULL. Measured records come before predicted ones. Where
 * the fastest has a mean, the record of the least mean. */
const fat_record *fat_records_best(const fat_records *records, const char *kernel);

/* Whether a record was measured with the same source and works: one of that kernel, or (NULL) one that may
 * win unasked. */
bool fat_records_works(const fat_record *record, const char *kernel);

/* Whether it was in a race, and whether that came to its end. */
bool fat_records_is_finalist(const fat_record *record);
bool fat_records_is_timed(const fat_record *record);
/* The newest of those that work and that `is` is true of, or NULL. Ids grow with time; those of the system's
 * file come before all others. */
const fat_record *fat_records_newest(const fat_records *records, const char *kernel,
                                     bool (*is)(const fat_record *record));
/* Whether both were timed in one and the same race. */
bool fat_records_raced(const fat_record *a, const fat_record *b);

/* Fills in figures and times; the samples are borrowed. */
void fat_records_fill(fat_trial *trial, const fat_figures *figures, const fat_timing *timing);

/* A measured record as a trial that can be stored again; its strings are borrowed from the record and the
 * tools. */
fat_status fat_records_trial(const fat_record *record, const fat_problem *p, const fat_gpu *gpu,
                             const fat_tools *tools, fat_trial *trial, fat_error *err);

/* The id of a record that may be written to: its own, or, for a record of the system's file, that of a copy
 * which is made in the user's. */
fat_status fat_records_own(fat_db *db, const fat_record *record, const fat_problem *p, const fat_gpu *gpu,
                           const fat_tools *tools, int64_t *id, fat_error *err);

/* The record's code, for fat_db_code_free. FAT_E_NOT_FOUND where none that can be launched is stored. */
fat_status fat_records_code(fat_db *db, const fat_record *record, const fat_problem *p, const fat_gpu *gpu,
                            fat_code *code, fat_error *err);

#endif
