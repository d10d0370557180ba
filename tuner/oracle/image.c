/* image.c -- places tensors in an image, and finds them there. */
#include "image.h"

#include <stdio.h>
#include <string.h>

enum { APART = 256 }; /* bytes: what aligned tensors begin at multiples of */

int64_t fat_image_span(const fat_slot *slot)
{
  for (int i = 0; i < 4; i++)
    if (slot->size[i] == 0)
      return 0;
  int64_t last = slot->size[3] - 1;
  for (int i = 0; i < 3; i++)
    last += (slot->size[i] - 1) * slot->stride[i];
  return (last + 1) * slot->bytes;
}

int64_t fat_image_row(const fat_slot *slot, int64_t b, int64_t h, int64_t n)
{
  return slot->at + (b * slot->stride[0] + h * slot->stride[1] + n * slot->stride[2]) * slot->bytes;
}

bool fat_image_poisoned(const fat_slot *slot, const void *element)
{
  const uint32_t poison = FAT_IMAGE_POISON;
  if (slot->bytes == 1) /* either byte of its halves, which are the same */
    return memchr(&poison, *(const unsigned char *)element, sizeof poison) != NULL;
  return memcmp(element, &poison, (size_t)slot->bytes) == 0;
}

const char *fat_image_outputs(const fat_problem *p, char names[FAT_IMAGE_NAMES])
{
  int left = 0;
  size_t used = 0;
  for (int t = 0; t < FAT_TENSORS; t++)
    left += fat_tensors_is_out(fat_tensors_role(p, t));
  names[0] = 0;
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_is_out(fat_tensors_role(p, t)) && used < FAT_IMAGE_NAMES) {
      left--;
      used += (size_t)snprintf(names + used, FAT_IMAGE_NAMES - used, "%s%s", fat_tensors[t].name,
                               left > 1    ? ", "
                               : left == 1 ? " or "
                                           : "");
    }
  return names;
}

int64_t fat_image_place(const fat_problem *p, fat_lay how, bool odd, int64_t from, fat_slot slot[FAT_TENSORS])
{
  for (int t = 0; t < FAT_TENSORS; t++)
    slot[t] = (fat_slot){0};
  for (int outputs = 0; outputs < 2; outputs++)
    for (int t = 0; t < FAT_TENSORS; t++) {
      const fat_role role = fat_tensors_role(p, t);
      if (role == FAT_ROLE_NONE || fat_tensors_is_out(role) != outputs)
        continue;
      const fat_extent e = fat_tensors_extent(p, t);
      fat_slot *s = &slot[t];
      s->role = role;
      s->type = fat_tensors_dtype(p, t);
      s->bytes = fat_dtypes[s->type].bytes;
      memcpy(s->size, e.size, sizeof s->size);
      fat_truth_lay(p, t, how, odd ? 1 : FAT_IMAGE_WIDE / s->bytes, s->stride);
      s->at = from + FAT_IMAGE_GUARD + (odd ? (1 + t) * s->bytes : 0);
      from = (s->at + fat_image_span(s) + APART - 1) / APART * APART;
    }
  return from + FAT_IMAGE_GUARD;
}
