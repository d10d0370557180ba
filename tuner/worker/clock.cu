// clock.cu -- reads the time and the clock of one SM, so that two stamps tell at which clock a kernel ran.
// A tool of the tuner, no kernel: launched with a block for every SM, of which only SM 0's writes.

// to[0]: nanoseconds of the GPU's timer, to[1]: clocks of this SM, both when `hold` nanoseconds have gone by, in which what comes
// behind can be queued.
extern "C" __global__ void fat_stamp(unsigned long long *to, unsigned long long hold)
{
  unsigned sm;
  unsigned long long ns;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm != 0 || threadIdx.x != 0)
    return;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  for (const unsigned long long begin = ns; ns - begin < hold;)
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  to[1] = clock64();
  to[0] = ns;
}
