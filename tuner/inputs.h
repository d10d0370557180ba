/* inputs.h -- what kernels are tried on: small cases around every tile edge, and the anchor shape itself.
 *
 * A tensor lies in an image: memory of which only the elements of the logical tensors hold numbers. All else,
 * and every output before a run, is one NaN with a payload of its own: a read of it shows in the result, a
 * write to it shows in the image. What is right is computed once, by reference.h. */
#ifndef FAT_INPUTS_H
#define FAT_INPUTS_H

#include "tensors.h"

enum { FAT_FORWARD = FAT_LSE + 1 /* tensors of the forward */ };

/* A quiet NaN that no arithmetic makes; either half of it is one too, as f16 and as bf16. */
#define FAT_INPUTS_POISON UINT32_C(0x7fc57fc5)

/* One tensor in an image; sizes and strides count elements. */
typedef struct fat_slot {
  fat_dtype type;    /* of its elements: the problem's; f32 for LSE */
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
  fat_slot slot[FAT_FORWARD];
  double *o, *lse; /* what is right, packed */
  double allowed_o;
  double allowed_lse[2]; /* [fat_reference_stores] */
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

/* The anchor: too large to be made on the host, so its image is one block of random numbers over and over
 * (element e is block[e % length], rounded to the type; the length is prime, so no two heads are alike), with
 * poison laid over what is no input. A few of its rows are known. */
enum { FAT_INPUTS_BLOCK = 1048583, FAT_INPUTS_ROWS = 12 };
typedef struct fat_anchor {
  fat_problem problem;
  float scale;
  fat_slot slot[FAT_FORWARD];
  int64_t bytes; /* of one image: a multiple of 4, as all places in it are */
  int rows;      /* known ones */
  struct {
    int64_t b, h, i;
  } row[FAT_INPUTS_ROWS];
  double *o, *lse; /* of the known rows */
  double allowed_o;
  double allowed_lse[2]; /* [fat_reference_stores] */
} fat_anchor;

/* The block, of FAT_INPUTS_BLOCK numbers; NULL without memory. */
float *fat_inputs_block(uint64_t seed);
fat_status fat_inputs_anchor(const fat_problem *p, const float *block, fat_anchor *anchor, fat_error *err);
void fat_inputs_anchor_free(fat_anchor *anchor);

/* Bytes of an image that hold elements of a tensor or its paddings: from slot.at, so many. */
int64_t fat_inputs_span(const fat_slot *slot);
/* Where a row begins: bytes from the image's beginning. */
int64_t fat_inputs_row(const fat_slot *slot, int64_t b, int64_t h, int64_t n);
/* Whether an element (2 or 4 bytes) is as it was before the run. */
bool fat_inputs_poisoned(const fat_slot *slot, const void *element);

/* Used by the two files behind this header alone. */
typedef enum fat_lay { FAT_BHSD, FAT_BSHD, FAT_PADDED, FAT_ODD } fat_lay; /* ORDER LAY */
enum { FAT_INPUTS_GUARD = 32768 };                                        /* bytes between two tensors */
/* Places all tensors of a call behind each other; returns the bytes up to the guard behind the last. */
int64_t fat_inputs_place(const fat_problem *p, fat_lay how, int64_t from, fat_slot slot[FAT_FORWARD]);
/* Roughly normal numbers, the same on every machine; NULL without memory. */
float *fat_inputs_numbers(int64_t count, uint64_t seed);
/* FAT_E_UNSUPPORTED for problems that have no reference. */
fat_status fat_inputs_check(const fat_problem *p, fat_error *err);

#endif
