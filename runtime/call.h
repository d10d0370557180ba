/* call.h -- the caller's tensors become those of a call, once they are found to be usable; structs of other
 * releases. */
#ifndef FAT_CALL_H
#define FAT_CALL_H

#include "fatune.h"
#include "tensors.h"

/* What a family does with each tensor of fatune_tensors; made once for a plan. */
typedef struct fat_call_form {
  struct {
    uint16_t place;  /* of its pointer in fatune_tensors */
    uint8_t role;    /* fat_role */
    uint8_t element; /* bytes */
    uint8_t side;    /* fat_side */
    bool a_row; /* needs only its element's alignment: one number a row, a single row, or a row of pairs */
  } tensor[FAT_TENSORS];
  uint32_t of, others;      /* those that the family has, and those that it does not: bit 1u << tensor */
  bool scalar[FAT_SCALARS]; /* those that the family has */
} fat_call_form;
void fat_call_form_of(const fat_problem *p, fat_call_form *form);

/* Fills `call`. *bits collects the low bits of every address and byte stride that a kernel will use: the
 * tensors are aligned to a power of two N where (*bits & (N - 1)) is 0. FAT_E_INPUT: a tensor that the family
 * names is missing, or one that it does not name is there, the scale is no number, a scalar is out of its
 * range, reserved fields are used.
 * FAT_E_ALIGNMENT: not even aligned to its elements. */
fat_status fat_call_fill(const fat_call_form *form, const fat_problem *p, const fatune_tensors *tensors,
                         fat_call *call, uint64_t *bits, fat_error *err);

/* The problem of a call of these sizes: `family` says all else. FAT_E_INPUT names what is wrong. */
fat_status fat_call_sizes(const fatune_sizes *sizes, const fat_problem *family, fat_problem *p,
                          fat_error *err);

/* Reads a struct of the caller's that begins with its size, of which we know `known` bytes and whose first
 * version had `least`, into `to`, which has `known` bytes: what the caller's lacks is 0. FAT_E_INPUT:
 * smaller, or larger than FAT_CALL_STRUCT. FAT_E_UNSUPPORTED: what a newer caller added is not 0. */
enum { FAT_CALL_STRUCT = 4096 };
fat_status fat_call_struct(const char *name, const void *from, size_t least, size_t known, void *to,
                           fat_error *err);

#endif
