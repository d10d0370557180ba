/* checkup.c -- keeps findings in the order in which they are made; what is beyond its room is left out. */
#include "checkup.h"

#include "status.h"

#include <stdio.h>

void fat_checkup_add(fat_checkup *c, fat_checkup_verdict v, const char *what, const char *found,
                     const char *todo)
{
  if (c->count == FAT_CHECKUP_FINDINGS)
    return;
  fat_finding *f = &c->list[c->count++];
  f->verdict = v;
  f->what = what;
  snprintf(f->found, sizeof f->found, "%s", found);
  snprintf(f->todo, sizeof f->todo, "%s", todo ? todo : "");
  fat_status_plain(f->found, '?');
  fat_status_plain(f->todo, '?');
}
