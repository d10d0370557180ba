/* more_calls.h -- calls of the driver that the fake knows beyond the table of cuda_abi.h.
 *
 * For tests (graphs, contexts of their own, host memory) and for what the runtime may come to call. */
#ifndef FAKE_MORE_CALLS_H
#define FAKE_MORE_CALLS_H

typedef struct fake_uuid {
  char bytes[16];
} fake_uuid;

/* Rows: symbol, parameters. */
#define FAKE_MORE_CALLS(X)                                                                                   \
  X(cuDeviceGetUuid_v2, (fake_uuid * uuid, int device))                                                      \
  X(cuDeviceGetUuid, (fake_uuid * uuid, int device))                                                         \
  X(cuDeviceGetPCIBusId, (char *id, int room, int device))                                                   \
  X(cuDevicePrimaryCtxReset_v2, (int device))                                                                \
  X(cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active))                                  \
  X(cuDevicePrimaryCtxSetFlags_v2, (int device, unsigned flags))                                             \
  X(cuCtxCreate_v2, (void **context, unsigned flags, int device))                                            \
  X(cuCtxDestroy_v2, (void *context))                                                                        \
  X(cuModuleLoadDataEx, (void **module, const void *image, unsigned options, int *names, void **values))     \
  X(cuModuleGetFunctionCount, (unsigned *count, void *module))                                               \
  X(cuModuleGetLoadingMode, (int *mode))                                                                     \
  X(cuFuncGetModule, (void **module, void *function))                                                        \
  X(cuFuncGetName, (const char **name, void *function))                                                      \
  X(cuFuncGetParamInfo, (void *function, size_t index, size_t *offset, size_t *size))                        \
  X(cuMemAllocAsync, (fat_cuda_address * address, size_t bytes, void *stream))                               \
  X(cuMemFreeAsync, (fat_cuda_address address, void *stream))                                                \
  X(cuMemAllocHost_v2, (void **memory, size_t bytes))                                                        \
  X(cuMemFreeHost, (void *memory))                                                                           \
  X(cuMemcpyDtoD_v2, (fat_cuda_address to, fat_cuda_address from, size_t bytes))                             \
  X(cuMemsetD16_v2, (fat_cuda_address to, unsigned short value, size_t count))                               \
  X(cuMemsetD16Async, (fat_cuda_address to, unsigned short value, size_t count, void *stream))               \
  X(cuPointerGetAttribute, (void *value, int attribute, fat_cuda_address address))                           \
  X(cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority))                               \
  X(cuStreamQuery, (void *stream))                                                                           \
  X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags))                                          \
  X(cuStreamGetCtx, (void *stream, void **context))                                                          \
  X(cuStreamBeginCapture_v2, (void *stream, int mode))                                                       \
  X(cuStreamEndCapture, (void *stream, void **graph))                                                        \
  X(cuEventElapsedTime_v2, (float *milliseconds, void *start, void *end))                                    \
  X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))                       \
  X(cuGraphLaunch, (void *exec, void *stream))                                                               \
  X(cuGraphGetNodes, (void *graph, void **nodes, size_t *count))                                             \
  X(cuGraphExecDestroy, (void *exec))                                                                        \
  X(cuGraphDestroy, (void *graph))

#endif
