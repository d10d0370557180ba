/* effort.c -- one table: the most configs of one kernel and problem, by effort.
 *
 * A measured trial also costs a compile, half a second to a second of a core, which runs beside the
 * measurements. A predicted one costs nothing else, and only corrects the figures by which the model has
 * ranked the space already: a few of the best are enough. The other anchors of a grid try a few configs that
 * the model favours there, and the best of the main anchor. A kernel made for one architecture has a larger
 * space than others, and gets 40 of quick's 64 configs there, beside 12 of the other kernel that may be
 * picked and two baselines. */
#include "effort.h"

enum { ALL = 1 << 30 };

/* ORDER EFFORT */
static const struct {
  int preferred; /* of a kernel that calls get rather than another that they may get, too */
  int only;      /* of the only kernel that calls may get */
  int second;    /* of a kernel that they may get, where a preferred one is tried too */
  int baseline;  /* of a kernel that they get only when they name it */
  int predicted_preferred, predicted, predicted_baseline; /* the same where nothing is measured */
  int own, transferred; /* at the other anchors: what the model favours, what the main anchor found */
} most[FAT_EFFORT_COUNT] = {{40, 18, 12, 6, 12, 6, 2, 4, 4},
                            {256, 256, 64, 64, 64, 64, 16, 32, 16},
                            {ALL, ALL, ALL, ALL, ALL, ALL, ALL, ALL, 0},
                            {ALL, ALL, ALL, ALL, ALL, ALL, ALL, ALL, 0}}; /* of what is known */

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
  bool preferred = kernel->picked > 1;
  if (!measured)
    return !kernel->picked ? most[e].predicted_baseline
           : preferred     ? most[e].predicted_preferred
                           : most[e].predicted;
  if (item->main_plus_1 > 0)
    return most[e].own;
  if (!kernel->picked)
    return most[e].baseline;
  return preferred ? most[e].preferred : is_second(item, kernel) ? most[e].second : most[e].only;
}

fat_shortlist_rule fat_effort_rule(const fat_goal *goal, const fat_item *item, const fat_item_kernel *kernel,
                                   bool measured)
{
  int room = room_for(goal->effort, item, kernel, measured);
  return (fat_shortlist_rule){
      .most = room, .shuffle = goal->shuffle, .trusting = !measured || item->main_plus_1 > 0};
}

int fat_effort_transfers(fat_effort effort)
{
  return most[effort].transferred;
}
