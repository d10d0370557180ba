// lengths.cuh -- the part of the hook `rows` that asks the tensors of a call: how many rows and keys a batch has, and where
// they begin.

//: measure -- hook: the lengths of this batch, where it begins, its prefix
__device__ __forceinline__ void measure(sequence &my, const call &a)
{
  i32 $(ragged and "nq = a.q, " or "")nk = a.k;
% if not lengths_here then
  await_last(); // lengths may come from the launch before
% end
% if has.varlen then
  const i32 *const cu_q = a.cu_q.data + my.b * a.cu_q.b, *const cu_k = a.cu_k.data + my.b * a.cu_k.b;
  my.q0 = cu_q[0];
  my.k0 = cu_k[0];
  nq = at_most(cu_q[a.cu_q.b] - my.q0, nq);
  nk = at_most(cu_k[a.cu_k.b] - my.k0, nk);
% end
% if has.used then
  if (a.used_q.data)
    nq = at_most(a.used_q.data[my.b * a.used_q.b], nq);
  nk = at_most(a.used_k.data[my.b * a.used_k.b], nk);
% end
% if has.lpad then
  const i32 pad = at_most(a.lpad.data[my.b * a.lpad.b], nk);
  my.k0 += pad;
  nk -= pad;
% end
% if has.prefix then
  my.prefix = at_most(a.prefix.data[my.b * a.prefix.b], nk);
% end
% if has.iv then
%   for _, end_ in ipairs { "lo", "hi" } do
  my.$(end_) = a.$(end_).data + $(has.varlen and "my.q0" or "my.b * a." .. end_ .. ".b") + my.h * a.$(end_).h;
%   end
% end
% if ragged then
  my.all_q = my.nq;
  my.all_k = my.nk;
  my.nq = nq$(packed and " * my.peers" or "");
  my.nk = nk;
%   if packed then
  my.q = nq;
%   end
% end
}

//: at_most -- a number of rows; not below 0
__device__ __forceinline__ i32 at_most(i32 x, i32 most)
{
  return min(max(x, 0), most);
}
