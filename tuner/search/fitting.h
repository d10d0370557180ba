/* fitting.h -- what a call gets, as far as sizes decide: the pick's answer without rows that are not valid
 * for them. */
#ifndef FAT_FITTING_H
#define FAT_FITTING_H

#include "pick.h"
#include "script.h"

/* As fat_pick_answer. A row whose config is none for the question's sizes is passed over, and the sentence of
 * the step that is taken instead ends with why. */
fat_status fat_fitting_answer(fat_db *db, fat_script *script, const fat_pick_question *question,
                              fat_pick_rows *rows, fat_pick *pick, fat_error *err);

#endif
