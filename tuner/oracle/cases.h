/* cases.h -- what kernels are tried on: small cases around every tile edge, and the anchor shape itself.
 *
 * A tensor lies in an image: memory of which only the elements of the logical tensors hold numbers. All else,
 * and every output before a run, is one NaN with a payload of its own: a read of it shows in the result, a
 * write to it shows in the image. Inputs lie before outputs. What is right is computed once, by reference.h.
 */
#ifndef FAT_CASES_H
#define FAT_CASES_H

#include "truth.h"

/* A quiet NaN that no arithmetic makes; either half of it is one too, as f16 and as bf16. */
#define FAT_INPUTS_POISON UINT32_C(0x7fc57fc5)

/* One tensor in an image; sizes and strides count elements. One that the op does not have is all zeros. */
typedef struct fat_slot {
  fat_role role;
  fat_dtype type;    /* of its elements */
  int bytes;         /* of one element */
  int64_t size[4];   /* batches, heads, rows, columns */
  int64_t stride[3]; /* from batch to batch, head to head, row to row */
  int64_t at;        /* where its first element lies: bytes from the image's beginning */
} fat_slot;

typedef struct fat_case {
  fat_problem problem;
  float scale;
  int unit; /* strides and addresses are multiples of so many bytes: what a kernel may move at once */
  char title[FAT_PROBLEM_TEXT + 64]; /* for messages */
  fat_slot slot[FAT_TENSORS];
  fat_truth truth; /* what is right, packed; its inputs are in the image alone */
} fat_case;

typedef struct fat_cases {
  char family[FAT_PROBLEM_TEXT];
  fat_case *list;
  int count;
  char *image;   /* all tensors of all cases, with guards between them */
  int64_t bytes; /* a multiple of 4 */
} fat_cases;

/* The cases of a problem's family; the same seed gives the same numbers on every machine. FAT_E_UNSUPPORTED
 * for problems that have no reference. */
fat_status fat_inputs_cases(const fat_problem *p, uint64_t seed, fat_cases *cases, fat_error *err);
void fat_inputs_cases_free(fat_cases *cases);

/* The anchor: too large to be made on the host, so each of its inputs is one block of random numbers over and
 * over (fat_inputs_anchor_number; the block's length is prime, so no two heads are alike), and all else is
 * poison. A few of its rows are known. */
enum { FAT_INPUTS_BLOCK = 1048583, FAT_INPUTS_ROWS = 12 };
typedef struct fat_anchor {
  fat_problem problem;
  float scale;
  fat_slot slot[FAT_TENSORS];
  int64_t bytes;   /* of one image: a multiple of 4, as all places in it are */
  int64_t outputs; /* from here on the image has no inputs */
  int rows[2];     /* known ones, by fat_side: rows of Q, keys */
  struct {
    int64_t b, h, i;
  } row[2][FAT_INPUTS_ROWS];
  double *right[FAT_TENSORS]; /* of the known rows */
  double allowed[FAT_TENSORS][2];
} fat_anchor;

/* The block, of FAT_INPUTS_BLOCK numbers; NULL without memory. */
float *fat_inputs_block(uint64_t seed);
fat_status fat_inputs_anchor(const fat_problem *p, const float *block, fat_anchor *anchor, fat_error *err);
void fat_inputs_anchor_free(fat_anchor *anchor);
/* What stands in an input, so many elements behind its first. Periodic in FAT_INPUTS_BLOCK. */
float fat_inputs_anchor_number(const fat_anchor *anchor, const float *block, int tensor, int64_t element);

/* Bytes of an image that hold elements of a tensor or its paddings: from slot.at, so many. */
int64_t fat_inputs_span(const fat_slot *slot);
/* Where a row begins: bytes from the image's beginning. */
int64_t fat_inputs_row(const fat_slot *slot, int64_t b, int64_t h, int64_t n);
/* Whether an element (2 or 4 bytes) is as it was before the run. */
bool fat_inputs_poisoned(const fat_slot *slot, const void *element);
/* The op's outputs in words: "O or LSE". */
enum { FAT_INPUTS_NAMES = 128 };
const char *fat_inputs_outputs(const fat_problem *p, char names[FAT_INPUTS_NAMES]);

/* Used by the two files behind this header alone. */
enum { FAT_INPUTS_GUARD = 32768 }; /* bytes between two tensors */
/* Places all tensors of a call behind each other, inputs first; returns the bytes up to the guard behind the
 * last. `odd`: strides and addresses are multiples of one element alone. */
int64_t fat_inputs_place(const fat_problem *p, fat_lay how, bool odd, int64_t from,
                         fat_slot slot[FAT_TENSORS]);
/* FAT_E_UNSUPPORTED for problems that have no reference. */
fat_status fat_inputs_check(const fat_problem *p, fat_error *err);

#endif
