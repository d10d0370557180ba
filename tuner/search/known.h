/* known.h -- a few configs that are tried without a search: those that won for a family before, on any GPU,
 * by any templates, in any year, in either type of 16 bits; or those that a command names. */
#ifndef FAT_KNOWN_H
#define FAT_KNOWN_H

#include "db.h"
#include "gpu.h"

enum { FAT_KNOWN_MOST = 4, FAT_KNOWN_ROOM = 16 }; /* of a family; that a command may name */

typedef struct fat_known {
  char config[FAT_KNOWN_ROOM][FAT_CONFIG_TEXT]; /* of any kernel, each once */
  int count;
} fat_known;

/* Adds what is not among them yet, as fat_config_print writes it. False: there is no room. */
bool fat_known_add(fat_known *known, const char *config);

/* The measured winners of one family, read once for all of its problems. Begins with {0}. */
typedef struct fat_won {
  char family[FAT_PROBLEM_TEXT]; /* "": none was read */
  struct fat_won_row {
    fat_problem problem;
    int sm;
    char text[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
    double far; /* from the problem that is asked for */
  } * row;
  int count;
} fat_won;
void fat_won_free(fat_won *won);

/* The winners of the problem's family and of those that lend it theirs (fat_problem_kin): those of its own
 * architecture first, of these the nearest problems' (fat_candidate_distance; the other type and another head
 * are one more each). `won` is read where it is another family's, and sorted. */
fat_status fat_known_read(fat_db *db, const fat_problem *p, const fat_gpu *gpu, fat_won *won,
                          fat_known *known, fat_error *err);

#endif
