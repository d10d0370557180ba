/* kinds.h -- the kinds of data that finalists are timed on, since the time of a kernel depends on its scores:
 * one that scales its sums again only where the maximum of a row has grown does so seldom on normal data.
 *
 * The same kinds, made in the same way, as peers are timed on (bench/peers_data.py): the last one or two
 * columns of Q hold a constant, those of K numbers of the key, whose products are what the score of that key
 * gets beside its normal part. So a row of Q and one of K have the scores that the name says whatever else is
 * asked: the dimension, the dtype, the scale, how many rows there are of each. */
#ifndef FAT_KINDS_H
#define FAT_KINDS_H

#include "problem.h"

enum { FAT_KINDS = 10 };
typedef struct fat_kind {
  const char *name;
  bool backward;    /* backward calls are timed on it too */
  float deviation;  /* of all scores; 0: that of normal tensors */
  float slope;      /* nats from key to key */
  float sink, peak; /* nats more on the first four keys; on one key of 64 */
} fat_kind;
extern const fat_kind fat_kinds[FAT_KINDS]; /* normal data first */

/* Whether a problem is timed on a kind. Slopes need keys that two columns of numbers below 256 can count. */
bool fat_kinds_has(const fat_problem *p, int kind);

/* Turns one head of a call from normal numbers into a kind: Q of p->q rows, K of p->k. What is written is
 * exact in the problem's dtype. `lse`, of as many numbers as Q has rows, or NULL: becomes about what a
 * forward call gives, so that a backward one finds weights of the right size. */
void fat_kinds_bend(const fat_problem *p, int kind, float scale, float *q, float *k, float *lse);

/* The geometric mean of the times on all kinds that are above 0, of which normal weighs half; 0 without
 * normal. */
double fat_kinds_mean(const double ms[FAT_KINDS]);

#endif
