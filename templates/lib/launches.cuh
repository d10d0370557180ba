// launches.cuh -- launches that follow each other closely, of one call or of several, where the architecture lets them overlap.

//: overlap_next -- the launch behind may begin, where it overlaps
__device__ __forceinline__ void overlap_next()
{
% if overlaps then
  launch_next();
% end
}

//: await_last -- what the launch before wrote is here
__device__ __forceinline__ void await_last()
{
% if overlaps then
  launch_wait();
% end
}
