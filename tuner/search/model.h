/* model.h -- the time of a kernel that nobody has run: an estimate from its work and a GPU's peak rates.
 *
 * In: the work of each launch (space.h), the blocks that fit an SM, the GPU. Out: milliseconds and the limit
 * that binds. Good for ranking configs of one kernel and for the order of magnitude, never for a claim.
 *
 * One launch. R blocks are resident per SM, S SMs run at clock f. A grid of B blocks takes floor(B / (S R))
 * full rounds of R blocks per SM and, for what is left, one more round of ceil(left / S) blocks. In a round
 * the n = r * warps / 4 warps of each of an SM's four schedulers pass through its units like through a
 * pipeline:
 *
 *   pipe(r)  = ((max(n, 1) - 1) * busy + sum) * 4 / warps      clocks; warps: of one block
 *   round(r) = max(pipe(r), pipe(1) + steps * latency)
 *   busy     = largest, sum = sum of the times of one block on the SM's units, work / rate:
 *
 *   unit     work                              rate per SM and clock
 *   fma      fused multiply-adds               arch->fma
 *   tensor   tensor-core operations            arch->tensor
 *   ex2      exponentials                      arch->ex2
 *   shared   shared bytes + spilled bytes      arch->shared_bytes     (spills pass the same L1,
 *                                                              0.36 of their bytes with each tile)
 *   issue    lanes of all instructions         128: four schedulers, one instruction of 32 lanes each; counts
 *                                              for busy, not for sum: what is issued runs meanwhile
 *
 * So with many warps a launch takes what its busiest unit takes; with few, the units wait for each other. The
 * other term of round(r) is latency: while one block waits at a barrier for its tile, the others work; what
 * they cannot cover is exposed, all of it when a block is alone.
 *
 * A launch with products on tensor cores has few warps with much work each, and these take turns with it: S
 * by the products, P by the schedulers, O by the products. Then
 *
 *   busy = sum = max(tensor + issue + shared / 10, largest)   fma and ex2 are part of issue
 *   wait(r)  = 0.7 pipe(1) + steps * 550
 *   round(r) = (pipe(r)^4 + wait(r)^4)^(1/4) + 5800
 *
 * and where blocks differ in work, the last ones add 0.5 * uneven of a round. The whole launch is never
 * faster than
 *
 *   dram = bytes / (peak * 0.89)        l2 = bytes / (25.6 * S * f)      47.4: sm_80, 90 to 119
 *
 * and each launch adds 4 microseconds. The time is the sum over launches; its limit is the one with the
 * largest share. Clocks are the maximum the GPU reports: a power cap (a T4's 70 W) makes the truth slower. */
#ifndef FAT_MODEL_H
#define FAT_MODEL_H

#include "gpu.h"
#include "space.h"

/* ORDER LIMIT */
typedef enum fat_limit {
  FAT_LIMIT_FMA,
  FAT_LIMIT_TENSOR,
  FAT_LIMIT_EX2,
  FAT_LIMIT_SHARED,
  FAT_LIMIT_ISSUE,
  FAT_LIMIT_LATENCY,
  FAT_LIMIT_DRAM,
  FAT_LIMIT_L2,
  FAT_LIMIT_LAUNCH,
  FAT_LIMIT_COUNT
} fat_limit;

/* Names these formulas and constants. Predicted rows carry it: a new model predicts anew. */
#define FAT_MODEL_VERSION "model 3"

/* Constants of the model that are no fact of a GPU row; model.c says where each comes from. */
extern const double fat_model_dram_reached, fat_model_step_clocks, fat_model_launch_ms;
extern const double fat_model_l2_bytes, fat_model_l2_bytes_large;
extern const double fat_model_shared_shown, fat_model_work_before, fat_model_copy_clocks,
    fat_model_block_clocks;
extern const double fat_model_sharpness, fat_model_uneven, fat_model_spills_moved;

/* What is known of a launch beside its work. */
typedef struct fat_resident {
  int blocks; /* per SM, at least 1 */
  int spills; /* bytes of a thread, stores and loads */
} fat_resident;

typedef struct fat_forecast {
  double ms;
  fat_limit limit;
  double share[FAT_LIMIT_COUNT]; /* ms of the launches that each limit binds */
} fat_forecast;

const char *fat_model_limit_name(fat_limit limit); /* "fma", "shared", "dram", ... */

/* The forecast of `launches` launches, one after another. The same inputs give the same result, a faster
 * clock, a wider bus or less work never a longer time. */
fat_forecast fat_model_predict(const fat_gpu *gpu, const fat_work *work, const fat_resident *resident,
                               int launches);

#endif
