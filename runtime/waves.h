/* waves.h -- how the tiles of a config fill a GPU, and what a time measured at one shape says of another.
 *
 * A launch cuts rows into tiles of Br, each of which passes over the keys that its rows see, Bc at a time.
 * The SMs take tiles in rounds, and the last round is as long as any other however few tiles it has: which of
 * two configs is the faster changes with the sizes, by arithmetic. So a config's work at a shape is
 *
 *   tile  = keys it passes over, in whole tiles of Bc, and some more for its beginning and end
 *   work  = rounds * tile                                     where all tiles are equal
 *         = max(even, late + longest)                           where a mask makes them differ
 *   even  = tiles / slots * mean tile + idle * shortest tile
 *
 * Its time is the sum of: launches (2.5 us more where splits are merged); memory time of what splits or parts
 * leave to be merged; steps of an mma.sync forward; a quarter of a forward's memory time; memory time of a
 * backward's other launches; and the rest in proportion to work. It is at least the memory time, and at least
 * the floor.
 *
 * slots: blocks that the SMs hold at once; where the last round puts fewer on an SM than fit, the first takes
 * most of a round (waves.c), all others share the rest. idle: what the last round lacks of a whole one, which
 * tiles that differ little leave idle as equal ones do. late: when the last group of heads begins, whose
 * longest tile starts with it. A time at one shape foretells that of the same config at another to a quarter,
 * shapes by lot (waves.c): far off for a time, near enough to choose by.
 */
#ifndef FAT_WAVES_H
#define FAT_WAVES_H

#include "config.h"
#include "reach.h"

/* What a config makes of any problem of its family. */
typedef struct fat_waves {
  double Br, Bc, per_Bc;
  double piece; /* rows of a tile that skip keys which none of them sees, independently of its other rows */
  /* Such pieces of a tile, of both of a pair, 0 where it is one; what a tile takes beside them, in pieces; 1
   * / all. */
  double pieces, beside_pieces, per_pieces;
  double edge; /* keys that a sloping end costs a tile beside its rows: whole tiles of Bc are visited */
  double blocks, per_block; /* of an SM, 1 / blocks */
  double alone, another;    /* of a round: what a block alone on its SM takes, what each further one adds */
  double together;          /* heads whose tiles start together, the longest first */
  double pair, per_pair;    /* tiles of a head that a cluster has side by side, 1 / their rows */
  double gathers;           /* 1: more of them where few rounds are left, as fwd_ws does */
  double overhead;          /* keys that a tile's beginning and end take the time of, */
  double again;             /* the same of each further head that it passes, */
  double step;              /* and what each key counts: more than 1 where a step waits for its keys */
  double wanted;            /* blocks for each SM, for which the keys of a tile are split; 0: they are not */
  double most;              /* splits, where a cluster's blocks merge them */
  double once;              /* ms: what launches take, that of a merge among them */
  double packed;            /* 1: rows of all heads of a group share tiles */
  double sums;              /* 1: a backward whose dQ launches of their own clear and round */
  double passes_apart;      /* 1: of a time foretold what tiles' beginnings and ends take raises no doubt */
  double doubt;             /* how much more a time foretold counts for each unit of distance, */
  double of_rate;           /* and how many times as much what comes by a rate (waves.c) */
  double in_turn;           /* 1: the first tiles of a head without a mask begin a step behind each other */
  double step_ms;           /* ms that each step takes beside its keys */
  double owns;              /* 1: a block has all tiles of a head, one after another */
  double parts;             /* blocks that have a tile of keys together, each some of its steps */
} fat_waves;
fat_waves fat_waves_of(const fat_config *config, fat_op op, int blocks_per_sm);

/* What a config has to do for a problem. */
typedef struct fat_demand {
  double tiles;  /* takes a pace's rate, each unit of it */
  double beside; /* ms that pass whatever the pace: of steps, and where a launch merges splits */
} fat_demand;
/* Runs in calls: numbers alone. */
fat_demand fat_waves_work(const fat_waves *w, const fat_reach *r);
/* The part of a tile that keys take, not its beginning and end, as far as that is told apart. */
double fat_waves_tile_part(const fat_waves *w, const fat_reach *r);

/* What `ms` for so much work says of another amount. */
typedef struct fat_pace {
  double once, rate; /* ms: of launches, of a unit of work */
  double sums;       /* the config's */
  double sure;       /* ms that raise no doubt */
  /* How much more a time foretold counts for each unit of distance (candidate.h): all of it, and what comes
   * by the rate. */
  double doubt, doubt_rate;
} fat_pace;
fat_pace fat_waves_pace(const fat_waves *w, const fat_reach *r, double ms, fat_demand work);
static inline double fat_waves_ms(const fat_pace *pace, const fat_reach *reach, fat_demand work)
{
  const double ms =
      pace->once + work.beside + reach->memory_ms + pace->sums * reach->sums_ms + pace->rate * work.tiles;
  return ms > reach->least_ms ? ms : reach->least_ms;
}
/* What of a time foretold, `ms`, comes by the rate. */
static inline double fat_waves_rated(const fat_waves *w, const fat_pace *pace, const fat_reach *reach,
                                     double ms)
{
  if (w->passes_apart == 0)
    return ms - pace->sure;
  return fat_waves_tile_part(w, reach) * (ms - pace->sure - reach->memory_ms - pace->sums * reach->sums_ms);
}

#endif
