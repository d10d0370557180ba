/* transfer.h -- what is fast at a family's main anchor is tried at its other anchors. */
#ifndef FAT_TRANSFER_H
#define FAT_TRANSFER_H

#include "plan.h"

/* Puts at the end of the plan, for each line at an anchor that has a main one, the fastest configs of its
 * kernel that are stored for that, less those that were tried or are planned. *added counts them. */
fat_status fat_share_plan(const fat_order *order, fat_outturn *outturn, fat_plan *plan, int *added,
                          fat_error *err);

#endif
