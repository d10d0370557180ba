/* insert.h -- room for one more inside a list that has a bound, as for the best of many, sorted. */
#ifndef FAT_INSERT_H
#define FAT_INSERT_H

#include <stdbool.h>
#include <string.h>

/* Moves what stands from place `at` on in a list of *count elements of so many bytes; of a full one, of
 * `most`, the last falls out. The caller fills the place. false: the list is full and the place behind its
 * end. */
static inline bool fat_insert_room(void *list, size_t size, int *count, int most, int at)
{
  if (at >= most)
    return false;
  *count += *count < most;
  char *place = (char *)list + (size_t)at * size;
  memmove(place + size, place, (size_t)(*count - 1 - at) * size);
  return true;
}

#endif
