/* testbed.h -- where kernels are tried: the device memory of one worker, filled with inputs.
 *
 * Inputs and what is right for them are made once per family and problem, and stay for the next trials. All
 * work goes to the default stream. */
#ifndef FAT_TESTBED_H
#define FAT_TESTBED_H

#include "oracle/cases.h"
#include "oracle/kinds.h"
#include "oracle/spots.h"
#include "launch.h"
#include "wire.h"

/* A piece of device memory that grows when more is wanted. */
typedef struct fat_buffer {
  fat_cuda_address at;
  size_t bytes;
} fat_buffer;

typedef struct fat_testbed {
  const fat_driver *driver;
  float *block; /* of spots.h; its seed is that of the first assignment */
  fat_cases cases;
  fat_buffer image;   /* of the cases */
  char *got, *before; /* host copies of that image: after the latest round, after the first */
  fat_spots spots;
  bool filled;     /* the spots are those of the latest problem, whose tensors lie in `sets` */
  fat_buffer sets; /* images of the full-size problem, set_count of them */
  int set_count;
  fat_buffer workspace;
} fat_testbed;

/* Makes what the assignment needs and the testbed does not have yet. */
fat_status fat_testbed_prepare(fat_testbed *testbed, const fat_assignment *a, fat_error *err);
void fat_testbed_close(fat_testbed *testbed);

/* Q, K and what else depends on them become a kind of data in all sets, the same numbers in each head. Kind 0
 * is what they were before. On failure the next assignment finds them filled anew. */
fat_status fat_testbed_bend(fat_testbed *testbed, int kind, fat_error *err);

/* A call whose tensors lie in an image at `base`. */
fat_call fat_testbed_call(float scale, const fat_slot slot[FAT_TENSORS], fat_cuda_address base);
/* The call of the full-size problem in one of its sets. */
fat_call fat_testbed_set_call(const fat_testbed *testbed, int set);

/* At least `bytes` of workspace, with a guard behind; gives up all sets but one if it must.
 * FAT_E_DEVICE_MEMORY names need and what is free. */
fat_status fat_testbed_workspace(fat_testbed *testbed, int64_t bytes, fat_error *err);
/* Poison all over the first `bytes` of the workspace and the guard behind them. */
fat_status fat_testbed_poison(const fat_testbed *testbed, int64_t bytes, fat_error *err);
/* Whether the guard behind the first `bytes` is as it was laid. */
fat_status fat_testbed_intact(const fat_testbed *testbed, int64_t bytes, bool *intact, fat_error *err);

/* Poison over the outputs of a set and all that lies behind and between them. */
fat_status fat_testbed_clear(const fat_testbed *testbed, int set, fat_error *err);

#endif
