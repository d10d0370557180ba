/* transfer.h -- what is fast at a family's main anchor is tried at its other anchors. */
#ifndef FAT_TRANSFER_H
#define FAT_TRANSFER_H

#include "schedule.h"

/* Schedules, for each pair at an anchor that has a main one, the fastest configs of its kernel that are
 * stored for the main anchor and that were neither tried nor scheduled at this one. */
fat_status fat_transfer_add(fat_schedule *schedule, fat_error *err);

#endif
