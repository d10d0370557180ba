/* cuda_codes.h -- the driver's result codes that mean something to us, as one list: code, status, name.
 *
 * Used by cuda_error.c for the table and by tests/test_cuda_abi.cpp for the comparison with cuda.h. */
#ifndef FAT_CUDA_CODES_H
#define FAT_CUDA_CODES_H

#define FAT_CUDA_CODES(X)                                                                                    \
  X(0, FAT_OK, CUDA_SUCCESS)                                                                                 \
  X(1, FAT_E_CUDA, CUDA_ERROR_INVALID_VALUE)                                                                 \
  X(2, FAT_E_DEVICE_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)                                                        \
  X(3, FAT_E_NO_DRIVER, CUDA_ERROR_NOT_INITIALIZED)                                                          \
  X(4, FAT_E_NO_DRIVER, CUDA_ERROR_DEINITIALIZED)                                                            \
  X(34, FAT_E_NO_DRIVER, CUDA_ERROR_STUB_LIBRARY)                                                            \
  X(36, FAT_E_NO_DRIVER, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)                                              \
  X(46, FAT_E_BUSY, CUDA_ERROR_DEVICE_UNAVAILABLE)                                                           \
  X(100, FAT_E_NO_DEVICE, CUDA_ERROR_NO_DEVICE)                                                              \
  X(101, FAT_E_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE)                                                         \
  X(200, FAT_E_IMAGE, CUDA_ERROR_INVALID_IMAGE)                                                              \
  X(201, FAT_E_NO_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)                                                       \
  X(209, FAT_E_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU)                                                          \
  X(214, FAT_E_DEVICE_LOST, CUDA_ERROR_ECC_UNCORRECTABLE)                                                    \
  X(218, FAT_E_IMAGE, CUDA_ERROR_INVALID_PTX)                                                                \
  X(220, FAT_E_DEVICE_LOST, CUDA_ERROR_NVLINK_UNCORRECTABLE)                                                 \
  X(221, FAT_E_IMAGE, CUDA_ERROR_JIT_COMPILER_NOT_FOUND)                                                     \
  X(222, FAT_E_IMAGE, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)                                                    \
  X(223, FAT_E_IMAGE, CUDA_ERROR_JIT_COMPILATION_DISABLED)                                                   \
  X(226, FAT_E_CONTEXT_DEAD, CUDA_ERROR_CONTAINED)                                                           \
  X(300, FAT_E_IMAGE, CUDA_ERROR_INVALID_SOURCE)                                                             \
  X(302, FAT_E_IMAGE, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND)                                             \
  X(303, FAT_E_IMAGE, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)                                                  \
  X(400, FAT_E_CUDA, CUDA_ERROR_INVALID_HANDLE)                                                              \
  X(500, FAT_E_IMAGE, CUDA_ERROR_NOT_FOUND)                                                                  \
  X(600, FAT_E_BUSY, CUDA_ERROR_NOT_READY)                                                                   \
  X(700, FAT_E_CONTEXT_DEAD, CUDA_ERROR_ILLEGAL_ADDRESS)                                                     \
  X(701, FAT_E_LAUNCH, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)                                                   \
  X(702, FAT_E_CONTEXT_DEAD, CUDA_ERROR_LAUNCH_TIMEOUT)                                                      \
  X(709, FAT_E_NO_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED)                                                  \
  X(710, FAT_E_CONTEXT_DEAD, CUDA_ERROR_ASSERT)                                                              \
  X(714, FAT_E_CONTEXT_DEAD, CUDA_ERROR_HARDWARE_STACK_ERROR)                                                \
  X(715, FAT_E_CONTEXT_DEAD, CUDA_ERROR_ILLEGAL_INSTRUCTION)                                                 \
  X(716, FAT_E_CONTEXT_DEAD, CUDA_ERROR_MISALIGNED_ADDRESS)                                                  \
  X(717, FAT_E_CONTEXT_DEAD, CUDA_ERROR_INVALID_ADDRESS_SPACE)                                               \
  X(718, FAT_E_CONTEXT_DEAD, CUDA_ERROR_INVALID_PC)                                                          \
  X(719, FAT_E_CONTEXT_DEAD, CUDA_ERROR_LAUNCH_FAILED)                                                       \
  X(720, FAT_E_LAUNCH, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)                                              \
  X(721, FAT_E_CONTEXT_DEAD, CUDA_ERROR_TENSOR_MEMORY_LEAK)                                                  \
  X(802, FAT_E_NO_DRIVER, CUDA_ERROR_SYSTEM_NOT_READY)                                                       \
  X(803, FAT_E_NO_DRIVER, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)                                                 \
  X(804, FAT_E_NO_DRIVER, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)                                         \
  X(805, FAT_E_BUSY, CUDA_ERROR_MPS_CONNECTION_FAILED)                                                       \
  X(806, FAT_E_BUSY, CUDA_ERROR_MPS_RPC_FAILURE)                                                             \
  X(807, FAT_E_BUSY, CUDA_ERROR_MPS_SERVER_NOT_READY)                                                        \
  X(808, FAT_E_BUSY, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)                                                     \
  X(809, FAT_E_BUSY, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED)                                                 \
  X(810, FAT_E_CONTEXT_DEAD, CUDA_ERROR_MPS_CLIENT_TERMINATED)                                               \
  X(900, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                                               \
  X(901, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)                                               \
  X(902, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_MERGE)                                                     \
  X(903, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)                                                 \
  X(904, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_UNJOINED)                                                  \
  X(905, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)                                                 \
  X(906, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                                                  \
  X(907, FAT_E_CAPTURE, CUDA_ERROR_CAPTURED_EVENT)                                                           \
  X(908, FAT_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)                                              \
  X(911, FAT_E_CONTEXT_DEAD, CUDA_ERROR_EXTERNAL_DEVICE)                                                     \
  X(912, FAT_E_LAUNCH, CUDA_ERROR_INVALID_CLUSTER_SIZE)                                                      \
  X(999, FAT_E_DEVICE_LOST, CUDA_ERROR_UNKNOWN)

#endif
