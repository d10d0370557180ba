/* more_calls.h -- calls of the driver that the fake knows beyond the table of cuda_abi.h.
 *
 * For tests (graphs, contexts of their own, host memory) and for what the runtime may come to call. */
#ifndef FAKE_MORE_CALLS_H
#define FAKE_MORE_CALLS_H

typedef struct fake_uuid {
  char bytes[16];
} fake_uuid;

int cuDeviceGetUuid_v2(fake_uuid *uuid, int device);
int cuDeviceGetUuid(fake_uuid *uuid, int device);
int cuDeviceGetPCIBusId(char *id, int room, int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuCtxDestroy_v2(void *context);
int cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *names, void **values);
int cuModuleGetFunctionCount(unsigned *count, void *module);
int cuModuleGetLoadingMode(int *mode);
int cuFuncGetModule(void **module, void *function);
int cuFuncGetName(const char **name, void *function);
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size);
int cuMemAllocAsync(fat_cuda_address *address, size_t bytes, void *stream);
int cuMemFreeAsync(fat_cuda_address address, void *stream);
int cuMemAllocHost_v2(void **memory, size_t bytes);
int cuMemFreeHost(void *memory);
int cuMemcpyDtoD_v2(fat_cuda_address to, fat_cuda_address from, size_t bytes);
int cuMemsetD16_v2(fat_cuda_address to, unsigned short value, size_t count);
int cuMemsetD16Async(fat_cuda_address to, unsigned short value, size_t count, void *stream);
int cuPointerGetAttribute(void *value, int attribute, fat_cuda_address address);
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cuStreamQuery(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamGetCtx(void *stream, void **context);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end);
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cuGraphLaunch(void *exec, void *stream);
int cuGraphGetNodes(void *graph, void **nodes, size_t *count);
int cuGraphExecDestroy(void *exec);
int cuGraphDestroy(void *graph);

#endif
