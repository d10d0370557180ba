/* empty.h -- what a call with a zero length leaves in the outputs that have rows all the same: 0, and +inf in
 * LSE (-inf in problems whose results are merged: `partial`). FAT_E_UNSUPPORTED where LSE would be a sink, or
 * a sink's gradient that of LSE. */
#ifndef FAT_EMPTY_H
#define FAT_EMPTY_H

#include "driver.h"
#include "tensors.h"

/* Queues fills on `stream`: one for each tensor whose rows lie densely in any order, else one for each head
 * or batch that lies apart. */
fat_status fat_empty_write(const fat_driver *driver, const fat_problem *p, const fat_call *call, void *stream,
                           fat_error *err);

#endif
