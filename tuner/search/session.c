/* session.c -- goes on without a GPU that is lost, taken or gone. */
#include "session.h"

fat_status fat_session_leave_out(fat_session *s, int at, const fat_error *why, fat_error *err)
{
  const bool gone =
      why->status == FAT_E_DEVICE_LOST || why->status == FAT_E_BUSY || why->status == FAT_E_NO_DEVICE;
  if (s->labs < 2 || !gone)
    return fat_status_fail(err, why->status, "%s", why->text);
  fat_progress_say(&s->progress, "device %d is left out: %s", s->lab[at]->ordinal, why->text);
  fat_lab_close(s->lab[at]);
  s->lab[at] = s->lab[--s->labs];
  return FAT_OK;
}
