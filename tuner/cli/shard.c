/* shard.c -- which part of a tune this process is, as the launcher of many processes tells it.
 *
 * In: the environment. Out: a number from 1 to how many there are, and who said so. */
#include "shard.h"

#include <stdbool.h>
#include <stdlib.h>

/* In the order in which they are asked. The first with several processes decides: those inside a job come
 * before the job, and one with a single process is passed over (srun gives each task of an array a PMI of its
 * own). `base` is the number of the first process, `step` the difference between two. */
static const struct {
  const char *rank, *count, *base, *step;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL}, /* Open MPI */
    {"PMI_RANK", "PMI_SIZE", NULL, NULL},                         /* MPICH, Intel MPI */
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
     "SLURM_ARRAY_TASK_STEP"},                             /* sbatch */
    {"SLURM_PROCID", "SLURM_NTASKS", NULL, NULL},          /* srun */
    {"JOB_COMPLETION_INDEX", "FATUNE_SHARDS", NULL, NULL}, /* Kubernetes, which does not tell how many */
    {"RANK", "WORLD_SIZE", NULL, NULL},                    /* torchrun */
};

/* A whole number, or -1. */
static long number_of(const char *variable)
{
  const char *text = variable ? getenv(variable) : NULL;
  char *end;
  if (!text || !*text)
    return -1;
  const long value = strtol(text, &end, 10);
  return *end || value > 100000 ? -1 : value;
}

fat_status fat_shard_here(fat_shard *shard, fat_error *err)
{
  bool alone = false;
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    const long id = number_of(launchers[i].rank), all = number_of(launchers[i].count),
               base = number_of(launchers[i].base), step = number_of(launchers[i].step);
    if (id < 0 || all <= 0)
      continue;
    const long from = id - (base > 0 ? base : 0), rank = step > 1 ? from / step : from;
    if (rank < 0 || rank >= all || (step > 1 && from % step != 0))
      return fat_status_fail(
          err, FAT_E_INPUT,
          "--shard auto: %s is %ld of %ld, which is no part of them (of an array some of whose "
          "numbers are left out?): name it, like --shard 1/8",
          launchers[i].rank, id, all);
    *shard = (fat_shard){1 + (int)rank, (int)all, launchers[i].rank};
    if (all > 1)
      return FAT_OK;
    alone = true;
  }
  if (alone)
    return FAT_OK;
  return fat_status_fail(
      err, FAT_E_INPUT,
      "--shard auto: neither Slurm, MPI nor Kubernetes (with FATUNE_SHARDS) says which part this "
      "process is: name it, like --shard 1/8");
}
