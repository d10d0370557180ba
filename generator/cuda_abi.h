/* cuda_abi.h -- the functions and values of libcuda and libnvrtc that we call, declared by ourselves.
 *
 * Building needs no CUDA toolkit: both libraries are opened at run time and each call goes through a table of
 * pointers. A table is generated from one list, as are the look-ups by name and the comparison with NVIDIA's
 * own headers in tests/test_cuda_abi.cpp. Handles are `void *`, result codes and enumerations are `int`:
 * that is what crosses the boundary on every ABI these libraries exist for. */
#ifndef FAT_CUDA_ABI_H
#define FAT_CUDA_ABI_H

#include <stddef.h>

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
  X(log_size, nvrtcGetProgramLogSize, (void *program, size_t *size))                                         \
  X(log, nvrtcGetProgramLog, (void *program, char *log))

/* Functions that older libraries lack: the pointer is NULL there. */
#define FAT_NVRTC_OPTIONAL(X)                                                                                \
  X(watch, nvrtcSetFlowCallback, (void *program, int (*callback)(void *, void *), void *payload))

#define FAT_CUDA_CALLS(X)                                                                                    \
  X(init, cuInit, (unsigned int flags))                                                                      \
  X(driver_version, cuDriverGetVersion, (int *version))                                                      \
  X(device_count, cuDeviceGetCount, (int *count))                                                            \
  X(device, cuDeviceGet, (int *device, int ordinal))                                                         \
  X(device_name, cuDeviceGetName, (char *name, int room, int device))                                        \
  X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                         \
  X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                                        \
  X(error_name, cuGetErrorName, (int result, const char **name))                                             \
  X(error_string, cuGetErrorString, (int result, const char **text))

#define FAT_ABI_POINTER(field, symbol, parameters) int(*field) parameters;

typedef struct fat_nvrtc_calls {
  FAT_NVRTC_CALLS(FAT_ABI_POINTER)
  FAT_NVRTC_OPTIONAL(FAT_ABI_POINTER)
  const char *(*error_text)(int result); /* nvrtcGetErrorString: the only one that returns no code */
} fat_nvrtc_calls;

typedef struct fat_cuda_calls {
  FAT_CUDA_CALLS(FAT_ABI_POINTER)
} fat_cuda_calls;

/* Result codes that we tell apart; every other one is reported by its name. */
enum {
  FAT_NVRTC_SUCCESS = 0,
  FAT_NVRTC_OUT_OF_MEMORY = 1,
  FAT_NVRTC_INVALID_OPTION = 5,
  FAT_NVRTC_COMPILATION = 6,
  FAT_NVRTC_CANCELLED = 16
};

enum { FAT_CUDA_SUCCESS = 0, FAT_CUDA_STUB = 34, FAT_CUDA_NO_DEVICE = 100 };

/* Attributes of a device (clocks in kHz, sizes in bytes, bus width in bits). */
enum {
  FAT_CUDA_CLOCK = 13,
  FAT_CUDA_SM_COUNT = 16,
  FAT_CUDA_MEMORY_CLOCK = 36,
  FAT_CUDA_BUS_WIDTH = 37,
  FAT_CUDA_L2_SIZE = 38,
  FAT_CUDA_SM_MAJOR = 75,
  FAT_CUDA_SM_MINOR = 76,
  FAT_CUDA_SHARED_SM = 81,
  FAT_CUDA_SHARED_BLOCK = 97
};

#endif
