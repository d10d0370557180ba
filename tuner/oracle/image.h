/* image.h -- memory in which the tensors of a call lie, on the host or on a device.
 *
 * Only the elements of the logical tensors hold numbers. All else, and every output before a run, is one NaN
 * with a payload of its own: a read of it shows in the result, a write to it shows in the image. Inputs lie
 * before outputs. */
#ifndef FAT_IMAGE_H
#define FAT_IMAGE_H

#include "truth.h"

/* A quiet NaN that no arithmetic makes; either half of it is one too, as f16 and as bf16. */
#define FAT_IMAGE_POISON UINT32_C(0x7fc57fc5)

/* One tensor in an image; sizes and strides count elements. One that the op does not have is all zeros. */
typedef struct fat_slot {
  fat_role role;
  fat_dtype type;    /* of its elements */
  int bytes;         /* of one element */
  int64_t size[4];   /* batches, heads, rows, columns */
  int64_t stride[3]; /* from batch to batch, head to head, row to row */
  int64_t at;        /* where its first element lies: bytes from the image's beginning */
} fat_slot;

enum {
  FAT_IMAGE_GUARD = 32768, /* bytes between two tensors */
  FAT_IMAGE_WIDE = 16      /* bytes of the widest move that a kernel makes */
};
/* Places all tensors of a call behind each other, inputs first; returns the bytes up to the guard behind the
 * last. `odd`: strides and addresses are multiples of one element alone. */
int64_t fat_image_place(const fat_problem *p, fat_lay how, bool odd, int64_t from,
                        fat_slot slot[FAT_TENSORS]);

/* So many bytes from slot.at on hold the tensor's elements and paddings. */
int64_t fat_image_span(const fat_slot *slot);
/* Where a row begins: bytes from the image's beginning. */
int64_t fat_image_row(const fat_slot *slot, int64_t b, int64_t h, int64_t n);
/* Whether an element (2 or 4 bytes) is as it was before the run. */
bool fat_image_poisoned(const fat_slot *slot, const void *element);
/* The op's outputs in words: "O or LSE". */
enum { FAT_IMAGE_NAMES = 128 };
const char *fat_image_outputs(const fat_problem *p, char names[FAT_IMAGE_NAMES]);

#endif
