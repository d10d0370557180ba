/* effort.c -- one table: the most configs of one kernel and problem, by effort.
 *
 * Where trials are measured a compile, half a second to a second of a core, goes beside them. Where they are
 * predicted it is all that a trial takes, and only corrects the figures by which the model has ranked the
 * space already: few of the best are enough. The other anchors of a grid try a few that the model favours
 * there, and the best of the main one. */
#include "effort.h"

enum { ALL = 1 << 30 };

static const struct {             /* ORDER EFFORT */
  int picked, asked;              /* kernels that may be picked unasked; those only used when asked for */
  int predicted, asked_predicted; /* the same where nothing is measured */
  int other, shared;              /* at the other anchors: of the model's, of the main anchor's */
} most[FAT_EFFORT_COUNT] = {{18, 6, 6, 2, 4, 4}, {256, 64, 64, 16, 32, 16}, {ALL, ALL, ALL, ALL, ALL, 0}};

fat_search_rule fat_effort_rule(const fat_options *options, const fat_ask *ask, const fat_ask_kernel *kernel,
                                bool measured)
{
  fat_effort e = options->effort;
  bool other = ask->main_plus_1 > 0;
  int room = !measured ? (kernel->picked ? most[e].predicted : most[e].asked_predicted)
             : other   ? most[e].other
                       : (kernel->picked ? most[e].picked : most[e].asked);
  return (fat_search_rule){room, options->shuffle, !measured || other};
}

int fat_effort_shared(fat_effort effort)
{
  return most[effort].shared;
}
