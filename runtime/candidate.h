/* candidate.h -- a stored row as the pick weighs it: what it is of, how far it lies, what it promises. */
#ifndef FAT_CANDIDATE_H
#define FAT_CANDIDATE_H

#include "db.h"
#include "waves.h"

/* Where a problem lies among those of its family; doublings above 1. */
typedef struct fat_measure {
  double rows;  /* of Q in all heads, counted up to 2^16 */
  double keys;  /* that a row may see: k, or as wide as a window or a chunk is */
  double q;     /* rows of a head */
  double group; /* heads that share one of K and V */
  double all;   /* rows of Q in all heads, all of them */
} fat_measure;
fat_measure fat_candidate_measure(const fat_problem *p);
double fat_candidate_apart(const fat_measure *a, const fat_measure *b);

/* The problem that is asked for, on the device that it is asked for. */
typedef struct fat_asked {
  const fat_problem *problem;
  fat_measure at;
  fat_reach reach;
} fat_asked;
fat_asked fat_candidate_asked(const fat_problem *p, const fat_room *room);

/* How a row ranks for a problem, the least first: the time to be expected there (waves.h), and more with the
 * distance, as what is measured near says more. 0 where the row is of that very problem on that very device.
 */
static inline double fat_candidate_score(const fat_waves *w, const fat_pace *pace, const fat_reach *reach,
                                         double expected_ms, double distance)
{
  const double rated_ms = fat_waves_rated(w, pace, reach, expected_ms);
  return expected_ms + distance * (pace->doubt * expected_ms + pace->doubt_rate * rated_ms);
}

/* Whether both are the same problem of their family. */
bool fat_candidate_same(const fat_problem *a, const fat_problem *b);

/* A row as the pick weighs it; texts are copies. */
typedef struct fat_candidate {
  bool found;
  fat_problem shape;
  fat_measure at;                                                /* the shape's */
  char problem[FAT_PROBLEM_TEXT], gpu[32], facts[FAT_GPU_FACTS]; /* problem: the shape's text */
  char timed[FAT_PROBLEM_TEXT]; /* what was timed: another where it is lent */
  char config[FAT_CONFIG_TEXT], kernel[FAT_CONFIG_KERNEL], source_hash[FAT_HASH_SIZE], date[40];
  fat_origin origin;
  double ms, mean; /* mean: over all kinds of data; NAN or 0: it was in no race that timed them */
  fat_waves waves; /* of the config */
  fat_pace pace;   /* of its time at its shape, stretched where that was another device's */
  double clocks;   /* by which it was stretched for the clocks of the data sheets */
  /* Set for the problem that is asked for by fat_candidate_weigh. */
  double distance, expected, score; /* expected: ms */
  bool same_device;
  bool usual;      /* nothing was measured: a default stands here */
  bool lent;       /* timed in the other type of 16 bits or at a wider head; `shape` is of those asked for */
  bool wider;      /* the latter, or both */
  char lender[56]; /* where: " in the other type of 16 bits at d 64" */
  bool eligible;   /* its kernel may be picked unasked */
  bool twin;       /* W = 1, timed where it stands in for another config */
  double age_days; /* NAN: its date cannot be read */
  char differences[400]; /* "driver 580.1, now 590.2; ..."; "" if none */
  int sms;
} fat_candidate;

/* What rows are held against: the device that is asked for and what is in use now. */
typedef struct fat_candidate_scale {
  const fat_gpu *gpu;
  const char *driver, *compile_key, *templates; /* NULL: not compared */
  int64_t now;                                  /* seconds since 1970 */
} fat_candidate_scale;

void fat_candidate_read(const fat_trial *trial, const fat_candidate_scale *scale, fat_candidate *row);

/* Makes a row of the other type of 16 bits, or of a wider head, one of those that are asked for: of 176
 * configs timed in both on an H200 the middle four fifths take 0.98 to 1.03 times as long in f16 as in bf16.
 * Its code is not there: it is compiled when it is taken. */
void fat_candidate_lend(fat_candidate *row, const fat_problem *asked);
/* Whether a row that is lent was so much faster than a problem's own that its config is likely so, too. */
bool fat_candidate_leads(const fat_candidate *lent, const fat_candidate *own);

/* Makes of a row of the plain family what is expected of a config at a problem of a family that has none: its
 * time there. */
void fat_candidate_stand_in(fat_candidate *row, const fat_problem *p, const char *config,
                            const fat_room *room);

/* Stretches rows of other devices by what problems of the family took that were measured there and here,
 * instead of by clocks: two GPUs of a name differ by 5 %, and one that is timed under load from one that is
 * not by more. */
void fat_candidate_level(fat_candidate *rows, int count);

/* The time to be expected for a problem, ms. */
double fat_candidate_expected(const fat_candidate *row, const fat_asked *asked);
void fat_candidate_weigh(fat_candidate *row, const fat_asked *asked);

/* Whether a comes before b, both weighed, on a device of so many SMs, of one step: the least score, of equal
 * ones that with as many rows of Q, then the nearest SM count, then the row of the least time (the shorter
 * problem, whose tiles fit both), then the text, so that the answer is always one. Of several configs of an
 * asked kernel for one problem those that raced on all kinds of data come first, the least mean before the
 * others.
 *
 * What equally near shapes did on an H200: 2 x 32 heads of 8192 rows, d 64, were 1.20 times as fast with what
 * 32 heads of 16384 take as with what 20 of 4096 do; 16 x 16 heads of 1024, d 128, 1.06 to 1.11 times as fast
 * with the row of N = 512 as with that of 2048. */
bool fat_candidate_before(const fat_candidate *a, const fat_candidate *b, const fat_asked *asked, int sms);

/* One sentence: what it is and where from. */
void fat_candidate_explain(const fat_candidate *row, char *why, size_t room);
/* What it promises, weighed: "0.38 ms by CONFIG of PROBLEM on H200, distance 1.5" and the line's end. */
void fat_candidate_tell(const fat_candidate *row, fat_text *out);

/* How far two problems of one family lie apart: the doublings between their rows of Q in all heads, counted
 * up to 2^16, and between their keys, and half of those between their q and between their heads per KV head.
 * Rows of all heads say whether the GPU is full, k how long each tile works; a config for few heads, of small
 * tiles, is slow at the same length with many (0.6 of cuDNN's rate where the right neighbour's gives 1.0, d
 * 128 on an H200). */
double fat_candidate_distance(const fat_problem *a, const fat_problem *b);
/* Whether what was measured at one says something of the other: lengths at most eight times apart, and rows
 * of all heads less than that, for tiles that fill a GPU are the wrong ones where few do not. */
bool fat_candidate_near(const fat_measure *a, const fat_measure *b);
/* Rows of Q in all heads, capped at 2^16 as in the distance. */
double fat_candidate_rows(const fat_problem *p);

#endif
