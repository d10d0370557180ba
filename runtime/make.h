/* make.h -- makes plans, or finds those that are known. */
#ifndef FAT_MAKE_H
#define FAT_MAKE_H

#include "plan.h"

/* The known plan, or a new one; one more reference for the caller. */
fat_status fat_make_plan(fatune *handle, const fatune_request *request, fatune_plan **plan, fat_error *err);
/* The choice alone, as lines of text; the status says whether there is one. */
fat_status fat_make_look(fatune *handle, const fatune_request *request, fat_text *why, fat_error *err);

#endif
