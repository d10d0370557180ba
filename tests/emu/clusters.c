/* clusters.c -- blocks that are resident together: they read each other's shared memory, and meet.
 *
 * Blocks of a cluster lie side by side in the grid's places and begin at once. When all their threads wait
 * for each other, what any of them did to the shared memory of any came before what they do next, as launches
 * are ordered; of device memory nothing is said, so blocks that hand each other something there are still
 * found to race. Where they have clocks, what each knew all know (clocks.c), and barriers and copies pass
 * that on between two meetings, too. What a thread does between its arrival and its wait counts as done
 * before it arrived. Shared memory of a block that has ended belongs to nobody. */
#include "side.h"

/* The place of the first block of a cluster. */
static emu_block *first_of(const emu_block *b)
{
  emu_grid *g = emu_now;
  return &g->block[(b - g->block) / g->cluster * g->cluster];
}

/* A block of the cluster, and a byte of shared memory, that there are. */
static void check(int rank, uint64_t offset, uintptr_t pc)
{
  if (rank < 0 || rank >= emu_now->cluster)
    emu_findings_misuse("a block of the cluster that there is not", pc);
  if (offset >= emu_now->self->home->shared_size)
    emu_findings_misuse("shared memory of another block is named by an address in one's own", pc);
}

char *emu_clusters_peer(char *p, int rank, uintptr_t pc)
{
  const emu_block *b = emu_now->self->home;
  check(rank, (uint64_t)(p - b->shared), pc);
  return first_of(b)[rank].shared + (p - b->shared);
}

/* An address of shared memory has fewer bits; above them stands the rank, counted from 1. */
enum { RANK_SHIFT = 24 };

uint32_t emu_clusters_place(uint32_t place, int rank, uintptr_t pc)
{
  check(rank, place - EMU_SHARED_BASE, pc);
  return place | (uint32_t)(rank + 1) << RANK_SHIFT;
}

emu_block *emu_clusters_block(uint32_t *place, uintptr_t pc)
{
  emu_block *b = first_of(emu_now->self->home);
  const uint32_t rank = *place >> RANK_SHIFT;
  if (rank == 0)
    emu_findings_misuse(
        "this is an address in one's own shared memory, not in that of a block of the cluster", pc);
  b += rank - 1;
  if (!b->active)
    emu_findings_misuse("this block of the cluster has ended", pc);
  *place &= (UINT32_C(1) << RANK_SHIFT) - 1;
  return b;
}

void emu_clusters_arrive(uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  if (t->arrived)
    emu_findings_misuse("a thread arrives twice at its cluster's barrier", pc);
  t->arrived = true;
}

/* All have come. */
static void met(emu_block *first)
{
  emu_now->report->barriers++;
  first->at_cluster = 0;
  for (emu_block *b = first; b < first + emu_now->cluster; b++)
    emu_clocks_need(b);
  emu_clocks_met_all(first, emu_now->cluster);
  for (emu_block *b = first; b < first + emu_now->cluster; b++) {
    for (int i = 0; i < b->threads; i++) {
      b->thread[i].arrived = false;
      emu_grid_resume(&b->thread[i]);
    }
  }
}

void emu_clusters_wait(emu_thread *t, uintptr_t pc)
{
  emu_block *first = first_of(t->home);
  if (!t->arrived)
    emu_findings_misuse("a thread waits at its cluster's barrier where it has not arrived", pc);
  if (++first->at_cluster == emu_now->cluster * first->threads)
    met(first);
}

void emu_clusters_end(emu_block *b)
{
  if (emu_now->cluster > 1)
    emu_memory_mark(emu_now->memory, b->shared, b->shared_size, EMU_CLOSED);
}
