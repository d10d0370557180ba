/* transfer.h -- what is fast at a family's main anchor is tried at its other anchors. */
#ifndef FAT_TRANSFER_H
#define FAT_TRANSFER_H

#include "plan.h"

/* Plans, for each pair at an anchor that has a main one, the fastest configs of its kernel that are stored
 * for the main anchor and that were neither tried nor planned at this one. */
fat_status fat_transfer_plan(fat_plan *plan, fat_error *err);

#endif
