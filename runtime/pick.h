/* pick.h -- which stored kernel serves a call, and why: a question to the database alone.
 *
 * The order: exact (measured, this problem, this device) -> nearest: of the measured shapes of the family on
 * this device that whose config is expected to be the fastest for the problem -> the same on another device
 * of this architecture -> predicted -> the default config -> unsupported. The nearest yields to another
 * device's row that promises more: what was measured here once, far from what is asked, hides no neighbour's
 * measurement of nearly that. Every step says what it found or why it found nothing, so the answer explains
 * itself. What is expected follows from the time at a shape by how tiles fill the SMs (waves.h); the farther
 * off a shape lies, the less its row counts (candidate.h).
 *
 * If a default can be compiled, rows that all lie far off (candidate.h) are ignored: windowed prefills of
 * 2,048 and 8,192 rows would give a decode tiles of 192 rows.
 *
 * Rows that were measured in the other type of 16 bits count as nearest ones, too, where their shape was not
 * measured in the type itself on their device: few shapes are tuned in both, and configs take as long
 * (candidate.h). They are taken for near, never for exact. Where one took much less than the type's own row
 * of the same problem, that one yields.
 *
 * A head dimension for which few shapes are tuned borrows the rows of the next larger common one, with their
 * times unchanged: of 15 calls of models of d 16 and 32 on an H200 the default took 1.38 times as long as the
 * best of a tune in the mean, 3.96 times at worst, what won at d 64 1.15 and 1.64 times.
 *
 * A measured row has beaten the kernels that were tried at its problem, and no other. So the row of the first
 * two steps yields to the best row of a kernel that was never tried at its problem, where that lies within
 * a doubling of all lengths and promises less time there. Not so where one kernel is asked for, or the exact
 * row alone will do. Of 539 such cases by lot (H200) that is right in 475, by operations in 394. */
#ifndef FAT_PICK_H
#define FAT_PICK_H

#include "candidate.h"

/* ORDER PICK */
typedef enum fat_pick_step {
  FAT_PICK_EXACT,
  FAT_PICK_NEAREST,
  FAT_PICK_ARCH,
  FAT_PICK_PREDICTED,
  FAT_PICK_DEFAULT,
  FAT_PICK_UNSUPPORTED,
  FAT_PICK_STEPS
} fat_pick_step;
const char *fat_pick_step_name(fat_pick_step step); /* "exact", "nearest", "arch", ... */

typedef struct fat_pick_question {
  const fat_problem *problem;
  const fat_gpu *gpu;
  const char *kernel;   /* NULL: one that may be picked unasked */
  const char *unserved; /* NULL: some kernel serves the family here; else why none does */
  bool exact;           /* a row of this very problem yields to none */
  bool near;            /* where all rows lie far off a default will do better, which is made for the sizes */
  bool alone;           /* rows of another type or width do not count: nothing can be compiled */
  /* What is in use now; a row made with something else is named as such, but is no miss. NULL: not compared.
   */
  const char *driver, *compile_key, *templates;
  int64_t now; /* seconds since 1970 */
  /* Source hashes of rows that are no answer: their code turned out not to be there or not to load. */
  const char (*refused)[FAT_HASH_SIZE];
  int refused_count;
  const char (
      *unfit)[FAT_CONFIG_KERNEL]; /* kernels that cannot run here; then others' rows count that lost */
  int unfit_count;
  bool hidden; /* this problem's winner is no answer: then others of its rows count that lost to it */
} fat_pick_question;

/* What is left where no step has a row and no default can be made: a row of the kernel that is wanted, but
 * made for tensors that are not aligned. It takes any tensors, and is slow. */
typedef struct fat_pick_twin {
  fat_candidate row;
  fat_pick_step step; /* that a row of its problem and device belongs to */
} fat_pick_twin;

typedef struct fat_pick_list fat_pick_list;

typedef struct fat_pick {
  fat_pick_step step; /* the first that found something, or the nearest, to which it yielded */
  fat_candidate row[FAT_PICK_STEPS];
  fat_pick_twin twin;
  bool far;                     /* there are rows, all of them too far off */
  const fat_pick_list *weighed; /* of the fat_pick_rows that it was asked with; NULL: there is no database */
  char why[FAT_PICK_STEPS][1024]; /* one sentence for each step, up to the chosen one */
} fat_pick;

/* Rows of a family, read at the first question that weighs them and kept for the next: of another problem of
 * the family, with other rows refused; device, kernel and what is in use now stay. Begin with {0}. */
struct fat_pick_list {
  bool read;
  fat_candidate *row; /* that work and have a time, of the device's architecture */
  int count;
};
typedef struct fat_pick_rows {
  fat_pick_list winners;
  fat_pick_list all; /* with losers; of `kernel` alone unless that is NULL */
} fat_pick_rows;
void fat_pick_rows_free(fat_pick_rows *rows);

/* The list that a question weighs: the winners; all, where not every kernel may win. */
fat_status fat_pick_read(fat_db *db, const fat_pick_question *question, fat_pick_rows *rows,
                         fat_pick_list **list, fat_error *err);

/* Answers; one that yielded stays in `row` of its step. `db` NULL: there is no database, the first four steps
 * say so. */
fat_status fat_pick_answer(fat_db *db, const fat_pick_question *question, fat_pick_rows *rows, fat_pick *pick,
                           fat_error *err);

/* What won where the problem is plain (fat_feature_plain), which a family that nothing is known of may be
 * given too; `found` says whether there is such a row. In `plain` that problem; `rows` are of its family. */
fat_status fat_pick_plain(fat_db *db, const fat_pick_question *question, fat_pick_rows *rows,
                          fat_problem *plain, fat_candidate *row, fat_error *err);

/* The rows that were weighed for the step which was taken, the least score first; not for an exact one, which
 * none is weighed against. Returns how many. */
enum { FAT_PICK_LISTED = 24 };
int fat_pick_list_weighed(const fat_pick *pick, const fat_candidate *row[FAT_PICK_LISTED]);

#endif
