/* cover.c -- a few configs of a space that together hold every value which a tunable has in it. */
#include "check.h"
#include <string.h>

/* The bits of `seen` stand for (tunable, value) pairs in the order they turn up. */
typedef struct values {
  int count;
  char name[EMU_COVER][FAT_CONFIG_NAME];
  int32_t value[EMU_COVER];
  bool seen[EMU_COVER];
} values;

/* EMU_COVER: there is no room for it. */
static int value_at(values *v, const char *name, int32_t value)
{
  for (int i = 0; i < v->count; i++)
    if (v->value[i] == value && !strcmp(v->name[i], name))
      return i;
  if (v->count == EMU_COVER)
    return EMU_COVER;
  strcpy(v->name[v->count], name);
  v->value[v->count] = value;
  return v->count++;
}

static int unseen(values *v, const fat_config *c, bool take)
{
  int count = 0;
  for (int i = 0; i < c->count; i++) {
    int at = value_at(v, c->values[i].name, c->values[i].value);
    if (at == EMU_COVER)
      return -1;
    count += !v->seen[at];
    v->seen[at] = v->seen[at] || take;
  }
  return count;
}

/* Each is taken for the most values not seen yet. */
int emu_check_covering(const fat_space *space, fat_config picked[EMU_COVER])
{
  values v = {0};
  int count = 0;
  for (;;) {
    int best = 0, most = 0;
    for (int i = 0; i < space->count; i++) {
      int n = unseen(&v, &space->points[i].config, false);
      if (n < 0)
        return -1;
      if (n > most) {
        most = n;
        best = i;
      }
    }
    if (most == 0 || count == EMU_COVER)
      return count;
    picked[count] = space->points[best].config;
    unseen(&v, &picked[count++], true);
  }
}
