/* test_cuda_abi.cpp -- our declarations of libcuda and libnvrtc against NVIDIA's own headers.
 *
 * For each function of generator/cuda_abi.h the compiler compares, parameter by parameter, what crosses the
 * boundary: an enumeration is its integer, a pointer to an opaque struct is `void *`. Values are compared
 * too. Where the headers are not installed the test is skipped (exit 77). */
#include <cstdio>

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#include "../generator/cuda_abi.h"
#include "../runtime/cuda_codes.h"
#include <cuda.h>
#include <nvrtc.h>
#include <type_traits>

/* What a type is on the wire. */
template <class T, class = void> struct wire {
  using type = T;
};
template <class T> struct wire<T, std::enable_if_t<std::is_enum_v<T>>> {
  static_assert(sizeof(T) == sizeof(int), "an enumeration that is no int");
  using type = int;
};
template <class T> struct wire<T *, std::enable_if_t<std::is_class_v<T>>> {
  using type = void *;
};
template <class T> struct wire<const T, std::enable_if_t<!std::is_function_v<T>>> {
  using type = const typename wire<T>::type;
};
template <class T> struct wire<T *, std::enable_if_t<!std::is_class_v<T>>> {
  using type = typename wire<T>::type *;
};
template <class R, class... A> struct wire<R(A...)> {
  using type = typename wire<R>::type(typename wire<A>::type...);
};

template <class Ours, class Theirs> constexpr bool same = std::is_same_v<Ours, typename wire<Theirs>::type>;

/* cuda.h and nvrtc.h may rename a symbol to its newest version; so does the preprocessor here. */
#define CHECK(table, field, symbol)                                                                          \
  static_assert(same<std::remove_pointer_t<decltype(table::field)>, decltype(symbol)>, #symbol);
#define CHECK_NVRTC(field, symbol, parameters) CHECK(fat_nvrtc_calls, field, symbol)
#define CHECK_CUDA(field, symbol, parameters)  CHECK(fat_cuda_calls, field, symbol)
FAT_NVRTC_CALLS(CHECK_NVRTC)
CHECK(fat_nvrtc_calls, error_text, nvrtcGetErrorString)
#if CUDA_VERSION >= 12080
FAT_NVRTC_OPTIONAL(CHECK_NVRTC)
static_assert(int(FAT_NVRTC_CANCELLED) == NVRTC_ERROR_CANCELLED, "NVRTC_ERROR_CANCELLED");
#endif
FAT_CUDA_CALLS(CHECK_CUDA)
#if CUDA_VERSION >= 12040
FAT_CUDA_OPTIONAL(CHECK_CUDA)
#endif
static_assert(same<fat_cuda_address, CUdeviceptr>, "CUdeviceptr");

#define VALUE(ours, theirs) static_assert(int(ours) == int(theirs), #theirs);
VALUE(FAT_NVRTC_SUCCESS, NVRTC_SUCCESS)
VALUE(FAT_NVRTC_OUT_OF_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY)
VALUE(FAT_NVRTC_COMPILATION, NVRTC_ERROR_COMPILATION)
VALUE(FAT_CUDA_SUCCESS, CUDA_SUCCESS)
VALUE(FAT_CUDA_STUB, CUDA_ERROR_STUB_LIBRARY)
VALUE(FAT_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
VALUE(FAT_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
VALUE(FAT_CUDA_NOT_READY, CUDA_ERROR_NOT_READY)
VALUE(FAT_CUDA_CLOCK, CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
VALUE(FAT_CUDA_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
VALUE(FAT_CUDA_MEMORY_CLOCK, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
VALUE(FAT_CUDA_BUS_WIDTH, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
VALUE(FAT_CUDA_L2_SIZE, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
VALUE(FAT_CUDA_SM_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
VALUE(FAT_CUDA_SM_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
VALUE(FAT_CUDA_SHARED_SM, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
VALUE(FAT_CUDA_SHARED_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
VALUE(FAT_CUDA_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
VALUE(FAT_CUDA_FUNCTION_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
VALUE(FAT_CUDA_FUNCTION_SHARED, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
VALUE(FAT_CUDA_FUNCTION_LOCAL, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
VALUE(FAT_CUDA_FUNCTION_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS)
VALUE(FAT_CUDA_FUNCTION_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
VALUE(FAT_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING)
VALUE(FAT_CUDA_EVENT_DEFAULT, CU_EVENT_DEFAULT)
VALUE(FAT_CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED)
#if CUDA_VERSION >= 11080
VALUE(FAT_CUDA_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
VALUE(FAT_CUDA_LAUNCH_OVERLAP, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
VALUE(sizeof(fat_cuda_attribute), sizeof(CUlaunchAttribute))
VALUE(offsetof(fat_cuda_attribute, value), offsetof(CUlaunchAttribute, value))
VALUE(sizeof(fat_cuda_launch), sizeof(CUlaunchConfig))
VALUE(offsetof(fat_cuda_launch, block), offsetof(CUlaunchConfig, blockDimX))
VALUE(offsetof(fat_cuda_launch, shared), offsetof(CUlaunchConfig, sharedMemBytes))
VALUE(offsetof(fat_cuda_launch, stream), offsetof(CUlaunchConfig, hStream))
VALUE(offsetof(fat_cuda_launch, attribute), offsetof(CUlaunchConfig, attrs))
VALUE(offsetof(fat_cuda_launch, attributes), offsetof(CUlaunchConfig, numAttrs))
#endif
#if CUDA_VERSION >= 12000
VALUE(FAT_CUDA_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
VALUE(FAT_CUDA_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32)
VALUE(FAT_CUDA_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)
VALUE(FAT_CUDA_MAP_PLAIN, CU_TENSOR_MAP_INTERLEAVE_NONE)
VALUE(FAT_CUDA_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B)
VALUE(FAT_CUDA_MAP_L2_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
VALUE(FAT_CUDA_MAP_ZEROS, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
VALUE(FAT_CUDA_MAP_BYTES, sizeof(CUtensorMap))
#endif

#define CODE(code, status, name) static_assert(code == int(name), #name);
FAT_CUDA_CODES(CODE)

/* The comparison itself can fail: a missing parameter, a narrower one, a pointer less. */
static_assert(!same<int(int *), CUresult(int *, int)>, "count");
static_assert(!same<int(size_t), CUresult(int)>, "width");
static_assert(!same<int(void *), CUresult(nvrtcProgram *)>, "depth");

int main()
{
  std::printf("declarations agree with cuda.h %d\n", CUDA_VERSION);
  return 0;
}
#else
int main()
{
  std::printf("skipped: cuda.h and nvrtc.h are not installed\n");
  return 77;
}
#endif
