/* effort.c -- one table: the most configs of one kernel and problem, by effort.
 *
 * Where trials are measured a compile, half a second to a second of a core, goes beside them. Where they are
 * predicted it is all that a trial takes, and only corrects the figures by which the model has ranked the
 * space already: few of the best are enough. The other anchors of a grid try a few that the model favours
 * there, and the best of the main one. A kernel made for one architecture has a larger space than others, and
 * is worth most of quick's 64 configs there: 40, beside 12 of the other that may be picked and two baselines.
 */
#include "effort.h"

enum { ALL = 1 << 30 };

/* ORDER EFFORT */
static const struct {
  int special; /* kernels that may be picked unasked and are preferred to others that may */
  int usual;   /* that may be picked */
  int second;  /* that may be, where a special one is tried too */
  int asked;   /* only used when asked for */
  int predicted_special, predicted, asked_predicted; /* the same where nothing is measured */
  int other, shared; /* at the other anchors: of the model's, of the main anchor's */
} most[FAT_EFFORT_COUNT] = {{40, 18, 12, 6, 12, 6, 2, 4, 4},
                            {256, 256, 64, 64, 64, 64, 16, 32, 16},
                            {ALL, ALL, ALL, ALL, ALL, ALL, ALL, ALL, 0}};

/* Whether a kernel that is preferred to this one is tried too. */
static bool is_second(const fat_item *item, const fat_item_kernel *kernel)
{
  for (int i = 0; i < item->kernel_count; i++)
    if (item->kernels[i].picked > kernel->picked)
      return true;
  return false;
}

static int room_for(fat_effort e, const fat_item *item, const fat_item_kernel *kernel, bool measured)
{
  bool special = kernel->picked > 1;
  if (!measured)
    return !kernel->picked ? most[e].asked_predicted
           : special       ? most[e].predicted_special
                           : most[e].predicted;
  if (item->main_plus_1 > 0)
    return most[e].other;
  if (!kernel->picked)
    return most[e].asked;
  return special ? most[e].special : is_second(item, kernel) ? most[e].second : most[e].usual;
}

fat_shortlist_rule fat_effort_rule(const fat_goal *goal, const fat_item *item, const fat_item_kernel *kernel,
                                   bool measured)
{
  int room = room_for(goal->effort, item, kernel, measured);
  return (fat_shortlist_rule){room, goal->shuffle, !measured || item->main_plus_1 > 0};
}

int fat_effort_transfers(fat_effort effort)
{
  return most[effort].shared;
}
