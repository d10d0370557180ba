/* prelude.hpp -- what stands before a kernel's text when the host compiler reads it.
 *
 * First the words and functions that CUDA C++ has by itself, then a twin of every function of
 * templates/arch/ (each marked TWIN: module.c looks the names up here). Only what a kernel may use is
 * there: anything else is an error of the compiler. No header is included, as for NVRTC. */
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
static inline float2 make_float2(float x, float y)
{
  return float2{x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
  return float4{x, y, z, w};
}
static inline int4 make_int4(int x, int y, int z, int w)
{
  return int4{x, y, z, w};
}

static inline float __int_as_float(int bits)
{
  return __builtin_bit_cast(float, bits);
}
static inline float __uint_as_float(unsigned bits)
{
  return __builtin_bit_cast(float, bits);
}
static inline int __float_as_int(float x)
{
  return __builtin_bit_cast(int, x);
}

/* The greater (smaller) operand; the other one where one is NaN. */
static inline float fmaxf(float a, float b)
{
  return a > b || b != b ? a : b;
}
static inline float fminf(float a, float b)
{
  return a < b || b != b ? a : b;
}
static inline float fmaf(float a, float b, float c)
{
  return __builtin_fmaf(a, b, c);
}
static inline float fabsf(float a)
{
  return __builtin_fabsf(a);
}
#define EMU_MIN_MAX(type)                                                                                    \
  static inline constexpr type min(type a, type b)                                                           \
  {                                                                                                          \
    return b < a ? b : a;                                                                                    \
  }                                                                                                          \
  static inline constexpr type max(type a, type b)                                                           \
  {                                                                                                          \
    return a < b ? b : a;                                                                                    \
  }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned)
EMU_MIN_MAX(long)
EMU_MIN_MAX(long long)

extern "C" {
int emu_thread_id(void);
long long emu_block_id(void);
char *emu_shared_memory(void);
void emu_block_sync(void);
void emu_warp_sync(void);
float emu_shfl_xor(float x, int lanes);
}

#define TWIN static inline __attribute__((always_inline))

TWIN int thread_id()
{
  return emu_thread_id();
}
TWIN long long block_id()
{
  return emu_block_id();
}
TWIN void block_sync()
{
  emu_block_sync();
}
TWIN void warp_sync()
{
  emu_warp_sync();
}
TWIN float shfl_xor(float x, int lanes)
{
  return emu_shfl_xor(x, lanes);
}
TWIN char *shared_memory()
{
  return emu_shared_memory();
}

/* .ftz: numbers below the normal range go in and come out as zero of their sign. */
static inline float emu_flush(float x)
{
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}
TWIN float ex2(float x)
{
  return emu_flush(__builtin_exp2f(emu_flush(x)));
}
TWIN float lg2(float x)
{
  return __builtin_log2f(emu_flush(x));
}

/* The first number of __launch_bounds__. */
static constexpr int emu_first(int threads, int = 0, int = 0)
{
  return threads;
}

/* A launch: the kernel's parameters, each read through one pointer, as cuLaunchKernel takes them. */
template <int... I> struct emu_list {};
template <int N, int... I> struct emu_count : emu_count<N - 1, N - 1, I...> {};
template <int... I> struct emu_count<0, I...> {
  typedef emu_list<I...> list;
};
template <class T> struct emu_plain {
  typedef T type;
};
template <class T> struct emu_plain<const T> {
  typedef T type;
};
template <class... A, int... I>
__attribute__((no_sanitize("thread", "alignment"))) static void emu_launch(void (*kernel)(A...), void **args,
                                                                          emu_list<I...>)
{
  kernel(*(typename emu_plain<A>::type *)args[I]...);
}
template <class... A>
__attribute__((no_sanitize("thread", "alignment"))) static void emu_call(void (*kernel)(A...), void **args)
{
  emu_launch(kernel, args, typename emu_count<sizeof...(A)>::list());
}
template <class... A>
__attribute__((no_sanitize("thread"))) static int emu_sizes(void (*)(A...), unsigned long *sizes)
{
  const unsigned long all[] = {sizeof(A)..., 0};
  for (unsigned i = 0; i < sizeof...(A); ++i)
    sizes[i] = all[i];
  return (int)sizeof...(A);
}
