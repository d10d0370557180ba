/* winner.h -- which of several measured records is the best, and which should win. */
#ifndef FAT_WINNER_H
#define FAT_WINNER_H

#include "session.h"

/* What records are compared by: by clocks unless all were timed in one race. A GPU at its power limit has up
 * to an eighth fewer clocks in a millisecond than a moment before, whichever kernel runs. */
typedef enum fat_yardstick {
  FAT_BY_MS,
  FAT_BY_CLOCKS,
  FAT_BY_MEAN /* over the kinds of data, of those timed in one race; where a record has none, by ms */
} fat_yardstick;
fat_yardstick fat_winner_yardstick(const fat_records *records, const char *kernel);
double fat_winner_cost(const fat_record *record, fat_yardstick by);

/* The fastest of those that work (fat_records_works), or of those timed in the same race as `beside`. */
const fat_record *fat_winner_fastest(const fat_records *records, const char *kernel, fat_yardstick by,
                                     const fat_record *beside);

/* Of the records that may win unasked, the one that should: the fastest or, where that was in a race, the one
 * of the least mean there, or one within noise of it and 2 %: the incumbent, else the smallest in shared
 * memory, then in registers, then the first in the alphabet. NULL where none works. */
const fat_record *fat_winner_find(const fat_records *records, const char *incumbent);

/* The config that calls of a problem get by what was measured: of it, else of other shapes; "": of none. */
fat_status fat_winner_before(const fat_session *session, const fat_problem *p, char config[FAT_CONFIG_TEXT],
                             fat_error *err);
/* Stores the record that should win as the winner. */
fat_status fat_winner_store(const fat_session *session, const fat_problem *p, const char *incumbent,
                            fat_error *err);

#endif
