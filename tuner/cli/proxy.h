/* proxy.h -- kernels that are compiled now, for the GPU at hand; or those of another GPU: rendered for it and
 * compiled to PTX of its architecture, which the driver of the one at hand compiles for itself.
 *
 * That checks their indices, their synchronisation and their arithmetic, but neither the machine code nor the
 * speed of the GPU that they are for. */
#ifndef FAT_PROXY_H
#define FAT_PROXY_H

#include "db.h"
#include "open.h"
#include "worker/wire.h"

typedef struct fat_proxy {
  const fat_options *options; /* problems, kernels, --config, --top; as a tune reads them */
  const fat_gpu *as;          /* the GPU whose kernels they are; `&hand->gpu`: that is the one at hand */
  const fat_asked_gpu *hand;
  fat_db *db;               /* where the former's best configs are looked up; NULL: nowhere */
  const volatile int *stop; /* not 0: FAT_E_CANCELLED */
  /* Takes one kernel; `failed` says why it did not compile, and is NULL where it did. */
  fat_status (*take)(const fat_problem *p, const fat_entrant *entrant, const char *failed, void *user,
                     fat_error *err);
  void *user;
} fat_proxy;

/* "compute_75" for a T4. FAT_E_INPUT where the GPU at hand is older, or the PTX is for one architecture alone
 * that is not its own. */
enum { FAT_PROXY_TARGET = 24 };
fat_status fat_proxy_target(const fat_gpu *as, const fat_gpu *hand, char target[FAT_PROXY_TARGET],
                            fat_error *err);

/* Makes the kernels one after the other: of each problem those that a call may be given unasked, or those of
 * --kernel; of each kernel the config of --config, else the first N that a tune would try (--top N), else
 * what the database knows as its best on that GPU, measured or predicted, else its default. */
fat_status fat_proxy_each(const fat_proxy *proxy, fat_error *err);

#endif
