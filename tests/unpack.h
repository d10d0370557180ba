/* unpack.h -- reads back the struct that a kernel is given: the opposite of fat_tensors_pack. */
#ifndef TEST_UNPACK_H
#define TEST_UNPACK_H

#include "tensors.h"
#include <string.h>

static inline int32_t unpack_word(const unsigned char *from, int index)
{
  int32_t word;
  memcpy(&word, from + index * (int)sizeof word, sizeof word);
  return word;
}

/* Sizes and numbers go into `p`, which has the family. */
static inline void unpack(const fat_call_layout *l, const unsigned char *bytes, fat_problem *p,
                          fat_call *call)
{
  int64_t *const sizes[] = {&p->b, &p->h, &p->hk, &p->q, &p->k};
  const unsigned char *at = bytes + l->sizes;
  *call = (fat_call){0};
  for (int t = 0; t < FAT_TENSORS; t++) {
    const bool row = fat_tensors[t].width == FAT_WIDE_1; /* it has no stride of columns */
    const size_t size = row ? offsetof(fat_view, stride[2]) : sizeof(fat_view);
    if (l->tensor[t] >= 0)
      memcpy(&call->tensor[t], bytes + l->tensor[t], size);
    if (row)
      call->tensor[t].stride[2] = 1;
  }
  for (int i = 0; i < 5; i++)
    *sizes[i] = unpack_word(at, i);
  memcpy(&call->scale, at + 5 * sizeof(int32_t), sizeof call->scale);
  for (int f = 0; f < FAT_FEATURE_COUNT; f++)
    for (int i = 0; l->number[f] >= 0 && i < fat_problem_feature_numbers((fat_feature)f); i++)
      p->arg[f][i] = (uint64_t)unpack_word(bytes + l->number[f], i);
  for (int s = 0; s < FAT_SCALARS; s++)
    if (l->scalar[s] >= 0)
      memcpy(&call->scalar[s], bytes + l->scalar[s], sizeof call->scalar[s]);
}

#endif
