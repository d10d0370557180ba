/* call.h -- the caller's tensors become the struct that kernels take, once they are found to be usable. */
#ifndef FAT_CALL_H
#define FAT_CALL_H

#include "call_old.h"
#include "fatune.h"
#include "problem.h"

/* Fills `args`. *bits collects the low bits of every address and byte stride that a kernel will use: the
 * tensors are aligned to a power of two N where (*bits & (N - 1)) is 0. FAT_E_INPUT: a tensor is missing, the
 * scale is no number, reserved fields are used. FAT_E_ALIGNMENT: not even aligned to its elements. */
fat_status fat_call_fill(const fat_problem *p, const fatune_tensors *tensors, call *args, uint64_t *bits,
                         fat_error *err);

/* Whether a struct of `size` bytes that begins with its size can be read as one of the `known` bytes we know:
 * what a newer caller added must be zero. `least`: the size of its first version. */
fat_status fat_call_struct(const char *name, const void *data, size_t size, size_t least, size_t known,
                           fat_error *err);

#endif
