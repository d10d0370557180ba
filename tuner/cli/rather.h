/* rather.h -- which config a call is given where nothing stored serves its family. */
#ifndef FAT_RATHER_H
#define FAT_RATHER_H

#include "open.h"
#include "pick.h"

typedef struct fat_rather {
  const fat_options *options;
  const fat_asked_gpu *gpu;
  fat_script *script;
  fat_db *db; /* may be NULL */
  const fat_pick_question *question;
  fat_pick_rows *plain_rows; /* of the plain family, for all questions */
} fat_rather;

/* In: what was asked, the answer, and the default. Where the answer is that: in its place what won where the
 * problem is plain (fat_feature_plain), if a call is given it, and the reason. */
fat_status fat_rather_find(const fat_rather *asked, fat_pick *pick, char config[FAT_CONFIG_TEXT],
                           fat_error *err);

/* In: the question for a family's main anchor, and what it was answered. Adds lines "PROBLEM CONFIG" of the
 * defaults that a plan of the family has: where nothing is stored for the anchor, for one row of Q and for
 * few heads; else for one row of Q, a few rows and few heads, if all that is stored lies far off these. */
fat_status fat_rather_shapes(const fat_rather *asked, const fat_pick *pick, const char *config,
                             fat_text *shapes, fat_error *err);

#endif
