/* grow.h -- room for one more at the end of a list that grows by one. */
#ifndef FAT_GROW_H
#define FAT_GROW_H

#include <stdlib.h>

/* The list, which has `count` elements of so many bytes and was only ever grown here, with room for another:
 * it is full at each power of two. NULL without memory; the list stays. */
static inline void *fat_grow(void *list, int count, size_t size)
{
  if (count & (count - 1))
    return list;
  return realloc(list, (count ? 2 * (size_t)count : 1) * size);
}

#endif
