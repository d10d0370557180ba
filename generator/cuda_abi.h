/* cuda_abi.h -- the functions and values of libcuda and libnvrtc that we call, declared by ourselves.
 *
 * Building needs no CUDA toolkit: both libraries are opened at run time and each call goes through a table of
 * pointers. A table is generated from one list, as are the look-ups by name and the comparison with NVIDIA's
 * own headers in tests/test_cuda_abi.cpp. Handles are `void *`, result codes and enumerations are `int`:
 * that is what crosses the boundary on every ABI these libraries exist for. */
#ifndef FAT_CUDA_ABI_H
#define FAT_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

/* One row per function: its name without the library's prefix, its name as a symbol, its parameters. */
#define FAT_NVRTC_CALLS(X)                                                                                   \
  X(version, nvrtcVersion, (int *major, int *minor))                                                         \
  X(count_targets, nvrtcGetNumSupportedArchs, (int *count))                                                  \
  X(targets, nvrtcGetSupportedArchs, (int *sms))                                                             \
  X(create, nvrtcCreateProgram,                                                                              \
    (void **program, const char *source, const char *name, int headers, const char *const *texts,            \
     const char *const *names))                                                                              \
  X(destroy, nvrtcDestroyProgram, (void **program))                                                          \
  X(compile, nvrtcCompileProgram, (void *program, int count, const char *const *options))                    \
  X(cubin_size, nvrtcGetCUBINSize, (void *program, size_t *size))                                            \
  X(cubin, nvrtcGetCUBIN, (void *program, char *cubin))                                                      \
  X(ptx_size, nvrtcGetPTXSize, (void *program, size_t *size))                                                \
  X(ptx, nvrtcGetPTX, (void *program, char *ptx))                                                            \
  X(log_size, nvrtcGetProgramLogSize, (void *program, size_t *size))                                         \
  X(log, nvrtcGetProgramLog, (void *program, char *log))

/* Functions that older libraries lack: the pointer is NULL there. */
#define FAT_NVRTC_OPTIONAL(X)                                                                                \
  X(watch, nvrtcSetFlowCallback, (void *program, int (*callback)(void *, void *), void *payload))

/* An address in device memory: CUdeviceptr. */
typedef unsigned long long fat_cuda_address;

/* One attribute of a launch: CUlaunchAttribute. And a launch with some: CUlaunchConfig. */
typedef struct fat_cuda_attribute {
  int id;
  int pad;
  union {
    unsigned int cluster[3];
    int overlap;
    char bytes[64];
  } value;
} fat_cuda_attribute;
typedef struct fat_cuda_launch {
  unsigned int grid[3], block[3], shared;
  void *stream;
  fat_cuda_attribute *attribute;
  unsigned int attributes;
} fat_cuda_launch;

#define FAT_CUDA_CALLS(X)                                                                                    \
  X(init, cuInit, (unsigned int flags))                                                                      \
  X(driver_version, cuDriverGetVersion, (int *version))                                                      \
  X(error_name, cuGetErrorName, (int result, const char **name))                                             \
  X(error_string, cuGetErrorString, (int result, const char **text))                                         \
  X(device_count, cuDeviceGetCount, (int *count))                                                            \
  X(device, cuDeviceGet, (int *device, int ordinal))                                                         \
  X(device_name, cuDeviceGetName, (char *name, int room, int device))                                        \
  X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                         \
  X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                                        \
  X(primary_retain, cuDevicePrimaryCtxRetain, (void **context, int device))                                  \
  X(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                                             \
  X(context_get, cuCtxGetCurrent, (void **context))                                                          \
  X(context_set, cuCtxSetCurrent, (void *context))                                                           \
  X(context_push, cuCtxPushCurrent_v2, (void *context))                                                      \
  X(context_pop, cuCtxPopCurrent_v2, (void **context))                                                       \
  X(context_device, cuCtxGetDevice, (int *device))                                                           \
  X(context_sync, cuCtxSynchronize, (void))                                                                  \
  X(module_load, cuModuleLoadData, (void **module, const void *image))                                       \
  X(module_unload, cuModuleUnload, (void *module))                                                           \
  X(module_function, cuModuleGetFunction, (void **function, void *module, const char *name))                 \
  X(function_set, cuFuncSetAttribute, (void *function, int attribute, int value))                            \
  X(function_get, cuFuncGetAttribute, (int *value, int attribute, void *function))                           \
  X(function_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                            \
    (int *blocks, void *function, int threads, size_t shared))                                               \
  X(launch, cuLaunchKernel,                                                                                  \
    (void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,    \
     unsigned int block_y, unsigned int block_z, unsigned int shared, void *stream, void **arguments,        \
     void **extra))                                                                                          \
  X(memory_alloc, cuMemAlloc_v2, (fat_cuda_address * address, size_t bytes))                                 \
  X(memory_free, cuMemFree_v2, (fat_cuda_address address))                                                   \
  X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                                           \
  X(copy_in, cuMemcpyHtoD_v2, (fat_cuda_address to, const void *from, size_t bytes))                         \
  X(copy_out, cuMemcpyDtoH_v2, (void *to, fat_cuda_address from, size_t bytes))                              \
  X(copy_in_async, cuMemcpyHtoDAsync_v2,                                                                     \
    (fat_cuda_address to, const void *from, size_t bytes, void *stream))                                     \
  X(copy_out_async, cuMemcpyDtoHAsync_v2, (void *to, fat_cuda_address from, size_t bytes, void *stream))     \
  X(copy_async, cuMemcpyDtoDAsync_v2,                                                                        \
    (fat_cuda_address to, fat_cuda_address from, size_t bytes, void *stream))                                \
  X(fill8, cuMemsetD8_v2, (fat_cuda_address to, unsigned char value, size_t count))                          \
  X(fill32, cuMemsetD32_v2, (fat_cuda_address to, unsigned int value, size_t count))                         \
  X(fill8_async, cuMemsetD8Async, (fat_cuda_address to, unsigned char value, size_t count, void *stream))    \
  X(fill32_async, cuMemsetD32Async, (fat_cuda_address to, unsigned int value, size_t count, void *stream))   \
  X(fill2d8_async, cuMemsetD2D8Async,                                                                        \
    (fat_cuda_address to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream))     \
  X(fill2d32_async, cuMemsetD2D32Async,                                                                      \
    (fat_cuda_address to, size_t pitch, unsigned int value, size_t width, size_t height, void *stream))      \
  X(stream_create, cuStreamCreate, (void **stream, unsigned int flags))                                      \
  X(stream_destroy, cuStreamDestroy_v2, (void *stream))                                                      \
  X(stream_sync, cuStreamSynchronize, (void *stream))                                                        \
  X(stream_capturing, cuStreamIsCapturing, (void *stream, int *capturing))                                   \
  X(event_create, cuEventCreate, (void **event, unsigned int flags))                                         \
  X(event_destroy, cuEventDestroy_v2, (void *event))                                                         \
  X(event_record, cuEventRecord, (void *event, void *stream))                                                \
  X(event_sync, cuEventSynchronize, (void *event))                                                           \
  X(event_query, cuEventQuery, (void *event))                                                                \
  X(event_ms, cuEventElapsedTime, (float *milliseconds, void *start, void *end))

/* Functions that older drivers lack: launch_with those before CUDA 11.8, map_tiled those before 12.0. The
 * pointer is NULL there. A context's number tells it from a later one at the same address. launch_with takes
 * a fat_cuda_launch. */
#define FAT_CUDA_OPTIONAL(X)                                                                                 \
  X(context_id, cuCtxGetId, (void *context, unsigned long long *id))                                         \
  X(function_load, cuFuncLoad, (void *function))                                                             \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                            \
  X(launch_with, cuLaunchKernelEx, (void *launch, void *function, void **arguments, void **extra))           \
  X(map_tiled, cuTensorMapEncodeTiled,                                                                       \
    (void *map, int type, uint32_t rank, void *base, const uint64_t *size, const uint64_t *stride,           \
     const uint32_t *box, const uint32_t *step, int interleave, int swizzle, int promotion, int fill))

#define FAT_ABI_POINTER(field, symbol, parameters) int(*field) parameters;

typedef struct fat_nvrtc_calls {
  FAT_NVRTC_CALLS(FAT_ABI_POINTER)
  FAT_NVRTC_OPTIONAL(FAT_ABI_POINTER)
  const char *(*error_text)(int result); /* nvrtcGetErrorString: the only one that returns no code */
} fat_nvrtc_calls;

typedef struct fat_cuda_calls {
  FAT_CUDA_CALLS(FAT_ABI_POINTER)
  FAT_CUDA_OPTIONAL(FAT_ABI_POINTER)
} fat_cuda_calls;

/* Environment variables that reach into NVRTC's output (names found in the library, CUDA 12.0 to 13.x). */
#define FAT_NVRTC_VARIABLES                                                                                  \
  {                                                                                                          \
    "NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS", "NVRTC_DISABLE_CONCURRENT_NVVM"                             \
  }

/* Result codes that we tell apart; every other one is reported by its name. */
enum {
  FAT_NVRTC_SUCCESS = 0,
  FAT_NVRTC_OUT_OF_MEMORY = 1,
  FAT_NVRTC_INVALID_OPTION = 5,
  FAT_NVRTC_COMPILATION = 6,
  FAT_NVRTC_CANCELLED = 16
};

/* What they mean to us is said in runtime/cuda_error.c. */
enum {
  FAT_CUDA_SUCCESS = 0,
  FAT_CUDA_OUT_OF_MEMORY = 2,
  FAT_CUDA_STUB = 34,
  FAT_CUDA_NO_DEVICE = 100,
  FAT_CUDA_NOT_READY = 600
};

/* Attributes of a device (clocks in kHz, sizes in bytes, bus width in bits). */
enum {
  FAT_CUDA_CLOCK = 13,
  FAT_CUDA_SM_COUNT = 16,
  FAT_CUDA_COMPUTE_MODE = 20,
  FAT_CUDA_MEMORY_CLOCK = 36,
  FAT_CUDA_BUS_WIDTH = 37,
  FAT_CUDA_L2_SIZE = 38,
  FAT_CUDA_SM_MAJOR = 75,
  FAT_CUDA_SM_MINOR = 76,
  FAT_CUDA_SHARED_SM = 81,
  FAT_CUDA_SHARED_BLOCK = 97
};

/* Attributes of a function. */
enum {
  FAT_CUDA_FUNCTION_THREADS = 0,       /* most threads of a block */
  FAT_CUDA_FUNCTION_SHARED = 1,        /* static shared memory */
  FAT_CUDA_FUNCTION_LOCAL = 3,         /* local memory of a thread */
  FAT_CUDA_FUNCTION_REGISTERS = 4,     /* of a thread */
  FAT_CUDA_FUNCTION_DYNAMIC_SHARED = 8 /* most dynamic shared memory a launch may ask for */
};

/* Tensor maps: element types, layouts, and their own size and alignment in bytes. */
enum {
  FAT_CUDA_MAP_F16 = 6,
  FAT_CUDA_MAP_F32 = 7,
  FAT_CUDA_MAP_BF16 = 9,
  FAT_CUDA_MAP_PLAIN = 0, /* no interleave */
  FAT_CUDA_MAP_SWIZZLE_128 = 3,
  FAT_CUDA_MAP_L2_256 = 3,
  FAT_CUDA_MAP_ZEROS = 0, /* what lies outside reads as 0 */
  FAT_CUDA_MAP_BYTES = 128,
  FAT_CUDA_MAP_ALIGN = 64
};

/* Attributes of a launch: its cluster, and leave to begin before the work ahead of it has ended. */
enum { FAT_CUDA_LAUNCH_CLUSTER = 4, FAT_CUDA_LAUNCH_OVERLAP = 6 };

/* Flags of streams and events. */
enum { FAT_CUDA_STREAM_NON_BLOCKING = 1, FAT_CUDA_EVENT_DEFAULT = 0, FAT_CUDA_CAPTURE_RELAXED = 2 };

#endif
