/* empty.h -- what a call without keys (k = 0) leaves: O = 0 and LSE = +inf in every row (-inf in problems
 * whose results are merged: `partial`). */
#ifndef FAT_EMPTY_H
#define FAT_EMPTY_H

#include "call_old.h"
#include "driver.h"
#include "problem.h"

/* Queues fills on `stream`: one for each tensor whose rows lie densely in any order, else one for each head
 * or batch that lies apart. */
fat_status fat_empty_write(const fat_driver *driver, const fat_problem *p, const call *args, void *stream,
                           fat_error *err);

#endif
