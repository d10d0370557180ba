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
#define __grid_constant__

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
static inline unsigned __float_as_uint(float x)
{
  return __builtin_bit_cast(unsigned, x);
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
static inline float expf(float a)
{
  return __builtin_expf(a);
}
static inline float logf(float a)
{
  return __builtin_logf(a);
}
static inline float tanhf(float a)
{
  return __builtin_tanhf(a);
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

/* Two calls stay two: each has its line. */
#ifdef __clang__
#define EMU_CALL __attribute__((nomerge))
#else
#define EMU_CALL
#endif
extern "C" {
int emu_thread_id(void);
long long emu_block_id(void);
char *emu_shared_memory(void);
__attribute__((const)) int emu_variant(void); // a text may hold several of a kernel
EMU_CALL void emu_block_sync(void);
EMU_CALL void emu_warp_sync(void);
EMU_CALL char *emu_peer(char *p, int rank);
EMU_CALL unsigned emu_peer_place(unsigned place, int rank);
EMU_CALL void emu_signal_arrive_there(unsigned at);
EMU_CALL void emu_bulk_send(unsigned to, unsigned from, int bytes, unsigned signal);
EMU_CALL void emu_launch_next(void);
EMU_CALL void emu_launch_wait(void);
EMU_CALL void emu_cluster_arrive(void);
EMU_CALL void emu_cluster_wait(void);
EMU_CALL float emu_shfl_xor(float x, int lanes);
EMU_CALL int emu_shfl_first(int x);
struct emu_words {
  unsigned at[4];
};
struct emu_floats {
  float at[4];
};
unsigned emu_shared_address(const void *p);
EMU_CALL void emu_put16(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d);
EMU_CALL emu_words emu_get16(unsigned from);
EMU_CALL void emu_put4(unsigned to, unsigned x);
EMU_CALL unsigned emu_get4(unsigned from);
EMU_CALL emu_words emu_ldmatrix(unsigned row, int place);
EMU_CALL emu_floats emu_mma(float c0, float c1, float c2, float c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                   unsigned b0, unsigned b1, int place);
EMU_CALL void emu_copy_async(unsigned to, const void *from, int real);
void emu_copy_commit(void);
void emu_copy_wait(int left);
long long emu_grid_size(void);
EMU_CALL int emu_any_lane(int x);
EMU_CALL int emu_atomic_add(int *to, int x);
EMU_CALL void emu_reduce_add(float *to, float x);
EMU_CALL void emu_reduce_add4(float *to, float a, float b, float c, float d);
EMU_CALL void emu_barrier_init(unsigned at, int count);
void emu_barrier_init_fence(void);
EMU_CALL void emu_barrier_arrive(unsigned at, int bytes);
EMU_CALL int emu_barrier_passed(unsigned at, unsigned parity, int waits);
EMU_CALL void emu_named(int name, int threads, int waits);
EMU_CALL void emu_registers(int count, int more);
EMU_CALL void emu_copy_box(unsigned to, const void *map, unsigned long long low, unsigned long long high,
                           unsigned barrier);
EMU_CALL void emu_copy_box_to_all(unsigned to, const void *map, unsigned long long low, unsigned long long high,
                                  unsigned barrier, int blocks);
EMU_CALL void emu_store_box(const void *map, unsigned long long low, unsigned long long high, unsigned from);
EMU_CALL void emu_copy_bulk(unsigned to, const void *from, int bytes, unsigned barrier);
EMU_CALL void emu_await_count(const int *from, int n, int or_more);
EMU_CALL void emu_count_up(int *to, int x);
EMU_CALL void emu_reduce_bulk(float *to, unsigned from, int bytes);
void emu_store_commit(void);
void emu_store_wait(void);
void emu_copies_fence(void);
EMU_CALL void emu_stmatrix(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d, int place);
EMU_CALL void emu_wgmma(float *c, int columns, const unsigned *a, unsigned long long left, unsigned long long b,
                        int flags, int place);
void emu_wgmma_fence(void);
void emu_wgmma_commit(void);
void emu_wgmma_wait(int left);
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
TWIN int shfl_first(int x)
{
  return emu_shfl_first(x);
}
TWIN bool any_lane(bool x)
{
  return emu_any_lane(x);
}
TWIN int atomic_add(int *to, int x)
{
  return emu_atomic_add(to, x);
}
TWIN void reduce_add(float *to, float x)
{
  emu_reduce_add(to, x);
}
TWIN unsigned anew(unsigned x)
{
  return x;
}
TWIN void launch_next()
{
  emu_launch_next();
}
TWIN void launch_wait()
{
  emu_launch_wait();
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
TWIN unsigned prmt(unsigned a, unsigned b, unsigned which)
{
  const unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned x = 0;
  for (int n = 0; n < 4; n++) {
    const unsigned byte = unsigned(both >> (which >> 4 * n & 7) * 8) & 255;
    x |= (which >> 4 * n & 8 ? byte >> 7 ? 255 : 0 : byte) << 8 * n;
  }
  return x;
}
TWIN float tanh_approx(float x)
{
  return __builtin_tanhf(x);
}
TWIN float lg2(float x)
{
  return __builtin_log2f(emu_flush(x));
}

struct alignas(16) quad {
  unsigned at[4];
};
TWIN unsigned shared_address(const void *p)
{
  return emu_shared_address(p);
}
TWIN void put16(unsigned to, const quad &x)
{
  emu_put16(to, x.at[0], x.at[1], x.at[2], x.at[3]);
}
TWIN quad get16(unsigned from)
{
  const emu_words x = emu_get16(from);
  return quad{{x.at[0], x.at[1], x.at[2], x.at[3]}};
}
TWIN void put4(unsigned to, unsigned x)
{
  emu_put4(to, x);
}
TWIN unsigned get4(unsigned from)
{
  return emu_get4(from);
}

/* What a warp does together: all lanes come from the same line, which is where the twin was called, for the
 * same op (ORDER OP, hot.h). */
enum { EMU_LDMATRIX, EMU_LDMATRIX_TRANS, EMU_MMA_F16_K8, EMU_MMA_F16, EMU_MMA_BF16, EMU_MMA_TF32,
       EMU_STMATRIX, EMU_STMATRIX_TRANS, EMU_WGMMA, EMU_OPS };
TWIN quad ldmatrix(unsigned row, int line = __builtin_LINE())
{
  const emu_words x = emu_ldmatrix(row, line * EMU_OPS + EMU_LDMATRIX);
  return quad{{x.at[0], x.at[1], x.at[2], x.at[3]}};
}
TWIN quad ldmatrix_trans(unsigned row, int line = __builtin_LINE())
{
  const emu_words x = emu_ldmatrix(row, line * EMU_OPS + EMU_LDMATRIX_TRANS);
  return quad{{x.at[0], x.at[1], x.at[2], x.at[3]}};
}
static inline __attribute__((always_inline)) void emu_mma_into(float &c0, float &c1, float &c2, float &c3,
                                                               const quad &a, unsigned b0, unsigned b1,
                                                               int place)
{
  const emu_floats c = emu_mma(c0, c1, c2, c3, a.at[0], a.at[1], a.at[2], a.at[3], b0, b1, place);
  c0 = c.at[0], c1 = c.at[1], c2 = c.at[2], c3 = c.at[3];
}
TWIN void mma_f16_k8(float &c0, float &c1, float &c2, float &c3, unsigned a0, unsigned a1, unsigned b,
                     int line = __builtin_LINE())
{
  emu_mma_into(c0, c1, c2, c3, quad{{a0, a1, 0, 0}}, b, 0, line * EMU_OPS + EMU_MMA_F16_K8);
}
/* One product of depth 16, also for what sm75.cuh makes of two of depth 8: the same but for a rounding. */
TWIN void mma_f16(float &c0, float &c1, float &c2, float &c3, const quad &a, unsigned b0, unsigned b1,
                  int line = __builtin_LINE())
{
  emu_mma_into(c0, c1, c2, c3, a, b0, b1, line * EMU_OPS + EMU_MMA_F16);
}
TWIN void mma_bf16(float &c0, float &c1, float &c2, float &c3, const quad &a, unsigned b0, unsigned b1,
                   int line = __builtin_LINE())
{
  emu_mma_into(c0, c1, c2, c3, a, b0, b1, line * EMU_OPS + EMU_MMA_BF16);
}
TWIN void mma_tf32(float &c0, float &c1, float &c2, float &c3, const quad &a, unsigned b0, unsigned b1,
                   int line = __builtin_LINE())
{
  emu_mma_into(c0, c1, c2, c3, a, b0, b1, line * EMU_OPS + EMU_MMA_TF32);
}

/* cvt.rn.f16.f32: to the nearest, halves to even; a NaN becomes the one that the instruction gives. */
TWIN unsigned short f16_bits(float x)
{
  const unsigned bits = __builtin_bit_cast(unsigned, x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000)
    return 0x7fff;
  if (size >= 0x477ff000) /* 65520, halfway between the greatest f16 and what would be the next */
    return sign | 0x7c00;
  if (size < 0x38800000) /* below 2^-14; beside 0.5 the last bit of an f32 is 2^-24, as of a small f16 */
    return sign | (__builtin_bit_cast(unsigned, __builtin_bit_cast(float, size) + 0.5f) - 0x3f000000);
  return sign | (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
}
TWIN float float_of_f16(unsigned short x)
{
  const unsigned sign = (x & 0x8000u) << 16, rest = (x & 0x7fffu) << 13;
  if ((x & 0x7c00) == 0x7c00)
    return __builtin_bit_cast(float, (rest & 0x7fffff) ? 0x7fffffffu : sign | 0x7f800000);
  return __builtin_copysignf(__builtin_bit_cast(float, rest) * 0x1p112f, __builtin_bit_cast(float, sign));
}
TWIN unsigned pack_f16(float low, float high)
{
  return f16_bits(low) | (unsigned)f16_bits(high) << 16;
}
static inline unsigned emu_bf16_bits(float x)
{
  const unsigned bits = __builtin_bit_cast(unsigned, x);
  return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
TWIN unsigned pack_bf16(float low, float high)
{
  return emu_bf16_bits(low) | emu_bf16_bits(high) << 16;
}
/* cvt.rna.tf32.f32: to the nearest, halves away from zero. */
TWIN unsigned round_tf32(float x)
{
  const unsigned bits = __builtin_bit_cast(unsigned, x);
  return x != x ? 0x7fffffff : (bits + 0x1000) & 0xffffe000;
}

TWIN void copy_async(unsigned to, const void *from, bool real)
{
  emu_copy_async(to, from, real);
}
TWIN void copy_commit()
{
  emu_copy_commit();
}
template <int left>
TWIN void copy_wait()
{
  emu_copy_wait(left);
}

/* ---- Hopper ---- */

struct alignas(64) tensor_map {
  unsigned long long opaque[16];
};
TWIN int grid_size()
{
  return (int)emu_grid_size();
}
TWIN void barrier_init(unsigned barrier, int count)
{
  emu_barrier_init(barrier, count);
}
TWIN void barrier_init_fence()
{
  emu_barrier_init_fence();
}
TWIN void barrier_arrive(unsigned barrier)
{
  emu_barrier_arrive(barrier, -1);
}
TWIN void barrier_expect(unsigned barrier, int bytes)
{
  emu_barrier_arrive(barrier, bytes);
}
TWIN bool barrier_passed(unsigned barrier, unsigned parity)
{
  return emu_barrier_passed(barrier, parity, 1);
}
TWIN bool barrier_tested(unsigned barrier, unsigned parity)
{
  return emu_barrier_passed(barrier, parity, 0);
}
static constexpr unsigned long long emu_pair(int low, int high)
{
  return (unsigned)low | (unsigned long long)(unsigned)high << 32;
}
TWIN void copy_box(unsigned to, const tensor_map &from, int column, int row, int head, int batch, unsigned barrier)
{
  emu_copy_box(to, &from, emu_pair(column, row), emu_pair(head, batch), barrier);
}
TWIN void copy_box_to_all(unsigned to, const tensor_map &from, int column, int row, int head, int batch,
                          unsigned barrier, int blocks)
{
  emu_copy_box_to_all(to, &from, emu_pair(column, row), emu_pair(head, batch), barrier, blocks);
}
TWIN int lane_again()
{
  return emu_thread_id() % 32;
}
TWIN void store_box(const tensor_map &to, int column, int row, int head, int batch, unsigned from)
{
  emu_store_box(&to, emu_pair(column, row), emu_pair(head, batch), from);
}
TWIN void copy_bulk(unsigned to, const void *from, int bytes, unsigned barrier)
{
  emu_copy_bulk(to, from, bytes, barrier);
}
TWIN void reduce_bulk(float *to, unsigned from, int bytes)
{
  emu_reduce_bulk(to, from, bytes);
}
TWIN void reduce_add4(float *to, float x0, float x1, float x2, float x3)
{
  emu_reduce_add4(to, x0, x1, x2, x3);
}
TWIN void store_commit()
{
  emu_store_commit();
}
TWIN void await_count(const int *from, int n)
{
  emu_await_count(from, n, 0);
}
TWIN bool count_is(const int *from, int n)
{
  if (emu_atomic_add(const_cast<int *>(from), 0) != n)
    return false;
  emu_await_count(from, n, 0); // what came before is known from now on
  return true;
}
TWIN void await_reached(const int *from, int n)
{
  emu_await_count(from, n, 1);
}
TWIN bool has_reached(const int *from, int n)
{
  if (emu_atomic_add(const_cast<int *>(from), 0) < n)
    return false;
  emu_await_count(from, n, 1);
  return true;
}
TWIN void pin(float &, float &)
{
}
TWIN void count_up(int *to, int x = 1)
{
  emu_count_up(to, x);
}
TWIN int come_to(int *to, int x)
{
  const int before = emu_atomic_add(to, x);
  emu_await_count(to, before + x, 1); // what came before is known from now on
  return before;
}
TWIN void store_wait()
{
  emu_store_wait();
}
TWIN void copies_fence()
{
  emu_copies_fence();
}
TWIN void stmatrix(unsigned row, unsigned x0, unsigned x1, unsigned x2, unsigned x3, int line = __builtin_LINE())
{
  emu_stmatrix(row, x0, x1, x2, x3, line * EMU_OPS + EMU_STMATRIX);
}
TWIN void stmatrix_trans(unsigned row, unsigned x0, unsigned x1, unsigned x2, unsigned x3,
                         int line = __builtin_LINE())
{
  emu_stmatrix(row, x0, x1, x2, x3, line * EMU_OPS + EMU_STMATRIX_TRANS);
}
TWIN float *peer(float *p, int block)
{
  return (float *)(void *)emu_peer((char *)p, block);
}
TWIN unsigned peer_place(unsigned place, int block)
{
  return emu_peer_place(place, block);
}
TWIN void barrier_arrive_there(unsigned barrier)
{
  emu_signal_arrive_there(barrier);
}
TWIN void copy_there(unsigned to, unsigned from, int bytes, unsigned barrier)
{
  emu_bulk_send(to, from, bytes, barrier);
}
TWIN void cluster_arrive()
{
  emu_cluster_arrive();
}
TWIN void cluster_wait()
{
  emu_cluster_wait();
}
TWIN void named_sync(int name, int threads)
{
  emu_named(name, threads, 1);
}
TWIN void named_arrive(int name, int threads)
{
  emu_named(name, threads, 0);
}
template <int count>
TWIN void registers_more()
{
  emu_registers(count, 1);
}
template <int count>
TWIN void registers_less()
{
  emu_registers(count, 0);
}
TWIN void products_fence()
{
  emu_wgmma_fence();
}
TWIN void products_commit()
{
  emu_wgmma_commit();
}
TWIN void keep_order()
{
}

TWIN void nap_if_negative(float x)
{
  (void)x; // keeps instructions in their order, which is the text's here
}
template <int left>
TWIN void products_wait()
{
  emu_wgmma_wait(left);
}
/* The shape is the accumulator's: 64 rows, each thread of 128 two of them and a quarter of the columns. The
 * type is that of the instruction in the text (filter.c). */
#define EMU_WGMMA_FLAGS (add != 0) | EMU_PRODUCTS_OF_BF16 * 2 | B_rows * 4
template <int B_rows, int n>
TWIN void wgmma(float (&c)[2][n], unsigned long long a, unsigned long long b, int add, int line = __builtin_LINE())
{
  emu_wgmma(&c[0][0], 4 * n, nullptr, a, b, EMU_WGMMA_FLAGS, line * EMU_OPS + EMU_WGMMA);
}
template <int B_rows, int n>
TWIN void wgmma(float (&c)[2][n], const quad &a, unsigned long long b, int add, int line = __builtin_LINE())
{
  emu_wgmma(&c[0][0], 4 * n, a.at, 0, b, EMU_WGMMA_FLAGS, line * EMU_OPS + EMU_WGMMA);
}
template <int B_rows, int n>
TWIN void wgmma_turned(float (&c)[2][n], unsigned long long a, unsigned long long b, int add, int line = __builtin_LINE())
{
  emu_wgmma(&c[0][0], 4 * n, nullptr, a, b, EMU_WGMMA_FLAGS | 8, line * EMU_OPS + EMU_WGMMA);
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
