/* fatune.h -- libfatune: attention kernels chosen by what was measured on this GPU, launched on your stream.
 *
 *   open -> plan a problem, or a family of problems -> ask for its workspace -> run, as often as you like,
 * with any sizes of the family -> free the plan -> close
 *
 * Only fatune_plan_make reads files, loads code, allocates or compiles. fatune_run queues launches on the
 * stream it is given and does nothing else: no lock, no allocation, no wait; it may be captured into a CUDA
 * graph and called from many threads with one plan. Nothing here prints, exits or aborts. Tensors are device
 * memory; this header needs no CUDA header. Every struct begins with its size, so that it may grow: members
 * are added at its end, one that is 0 or NULL is as if it was not there, and one that is not 0 and that the
 * library loaded does not know is FATUNE_ERR_UNSUPPORTED. */
#ifndef FATUNE_H
#define FATUNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FATUNE_API         __attribute__((visibility("default")))
#define FATUNE_ABI_VERSION 0 /* as in libfatune.so.0 */

/* Of this header; fatune_version says that of the library that is loaded. */
#define FATUNE_VERSION_MAJOR 0
#define FATUNE_VERSION_MINOR 1
#define FATUNE_VERSION_PATCH 0

/* ---- results ---- */

/* ORDER STATUS */
typedef enum fatune_status {
  FATUNE_OK = 0,
  FATUNE_ERR_INPUT,       /* an argument is wrong; the detail names it, its value and what is allowed */
  FATUNE_ERR_MEMORY,      /* out of host memory */
  FATUNE_ERR_UNSUPPORTED, /* no kernel can do this problem, or this library is too old for the request */
  FATUNE_ERR_MISS,        /* nothing stored serves the problem, and the policy does not let us compile; or
                             the plan has no kernel for these sizes yet (fatune_request.sizes) */
  FATUNE_ERR_COMPILE,   /* compiling was allowed and failed: no libfatune-jit, no NVRTC, an error of theirs */
  FATUNE_ERR_NO_DRIVER, /* no NVIDIA driver, or one that does not start */
  FATUNE_ERR_NO_DEVICE, /* no GPU */
  FATUNE_ERR_NO_CONTEXT,    /* no CUDA context is current in this thread, or the plan's is gone */
  FATUNE_ERR_DEVICE_MEMORY, /* out of GPU memory */
  FATUNE_ERR_LAUNCH,        /* the driver refused a launch; the context lives on */
  FATUNE_ERR_CAPTURE,       /* the driver refused something while a stream is captured */
  FATUNE_ERR_CONTEXT_DEAD,  /* a fault, perhaps of other code: every later CUDA call of this process fails */
  FATUNE_ERR_DEVICE_LOST,   /* the GPU itself failed or is gone */
  FATUNE_ERR_CUDA,          /* any other failure of the driver */
  FATUNE_ERR_ALIGNMENT,     /* tensors (or a workspace) that no loaded kernel can take */
  FATUNE_ERR_FORKED,        /* made before fork() and used in the child: open again there */
  FATUNE_ERR_INTERNAL,      /* a defect of fatune or of what it was installed with */
  FATUNE_STATUS_COUNT
} fatune_status;

/* A short fixed text for a status; never NULL. */
FATUNE_API const char *fatune_status_text(fatune_status status);

/* One sentence about the last call of this thread that failed; "" before any did. Valid until the next call
 * of this thread that fails. */
FATUNE_API const char *fatune_detail(void);

FATUNE_API const char *fatune_version(void); /* "0.1.0" */
FATUNE_API int fatune_abi_version(void);     /* FATUNE_ABI_VERSION of the library that is loaded */

/* ---- open ---- */

typedef struct fatune fatune;

typedef struct fatune_options {
  size_t size;                 /* sizeof(fatune_options) */
  const char *database;        /* NULL: FATUNE_DB, else $XDG_DATA_HOME/fatune/fatune.db; "": none */
  const char *system_database; /* read under it; NULL: FATUNE_SYSTEM_DB, else the installed one; "": none */
} fatune_options;

/* Finds and starts the driver; `options` may be NULL. No file is opened here but the driver's: a database
 * that is missing, busy or damaged is a miss when a plan looks into it, never an error. Any thread may use
 * the handle. */
FATUNE_API fatune_status fatune_open(const fatune_options *options, fatune **handle);

/* Gives up the handle; NULL is allowed. Plans stay good until they are freed: the last one takes all along.
 * What was loaded in the context that is current then is unloaded; what lies in another context goes with
 * that context. */
FATUNE_API void fatune_close(fatune *handle);

/* ---- plan ---- */

typedef struct fatune_plan fatune_plan;

/* What to do where this very problem was not measured on this very GPU; of a family, its main anchor: q = k =
 * 4096, 16384 tokens, heads of 2048 columns together. Whatever the policy but FATUNE_FAIL, what is stored
 * without a binary that loads is compiled (seconds for each kernel, and once: it is kept in the user's
 * database, if that can be written), unless the environment says FATUNE_DISABLE_JIT=1. ORDER POLICY */
typedef enum fatune_policy {
  FATUNE_FALLBACK = 0, /* take what is stored: another shape's, the same architecture's, predicted */
  FATUNE_FAIL,         /* FATUNE_ERR_MISS */
  FATUNE_COMPILE, /* as FATUNE_FALLBACK; where nothing is stored, compile the default now (seconds) and keep
                     it in the user's database, if that can be written, for the next process; not where the
                     environment says FATUNE_DISABLE_JIT=1 */
} fatune_policy;

enum {
  FATUNE_ALIGNED = 1 /* tensors will always be 16-byte aligned, rows too: no twin for others is wanted */
};

typedef struct fatune_request {
  size_t size;         /* sizeof(fatune_request) */
  const char *problem; /* "fwd-f16-b2-h16k4-q4096-k4096-d128-causal": operation, type (f16, bf16, f32: that of
                          Q, K, V and O; tf32, f32x3: f32 tensors in that arithmetic), batch, query heads (k:
                          KV heads), rows of Q, rows of K and V, head dimension (v: that of V), mask. Or a
                          family, which is that without sizes: "fwd-f16-d128-causal" */
  const char *kernel;  /* NULL: the fastest known; "standard", "fa1", "fwd": that one */
  uint32_t policy;     /* fatune_policy */
  uint32_t flags;      /* FATUNE_ALIGNED, or 0 */
  const char *mod; /* what a score becomes, as in "s + table0[h] * (j - i)" (docs/mods.md); the problem then
                      says mod and 16 digits, or nothing of it: a text that was told once is known to the
                      process, and one that was tuned to the database. NULL: nothing is told */
  const char *mask_mod; /* whether row i sees key j, as in "itable0[i] == itable0[j]": the same for mask and
                           16 digits */
  const struct fatune_sizes *sizes; /* of a family: those of the call at hand. Of what is stored without a
                                       binary only its kernel is compiled now (b 0: none is), and each other
                                       one when a plan is asked for with sizes that need it: until then
                                       fatune_workspace and fatune_run answer FATUNE_ERR_MISS for these.
                                       NULL: all are compiled now, which takes up to 50 s on two cores */
} fatune_request;

/* Chooses and loads a kernel, for a family those of every shape that is stored (at most 240 shapes and
 * 128 binaries, those nearest to its main anchor), for the CUDA context that is current in this thread
 * (primary or not) and leaves that current. A plan is immutable; asking again for the same problem in the
 * same context gives the same plan while it is held (up to 256 of them), and mostly later, too, however the
 * database has changed since: what was tuned later is seen by handles opened later. Only sizes whose kernel a
 * family's plan has not compiled yet give another plan, which has that one, too. A plan must not outlive
 * its context. Any thread may ask; known plans are given at once, new ones are made one after the other
 * within a handle.
 */
FATUNE_API fatune_status fatune_plan_make(fatune *handle, const fatune_request *request, fatune_plan **plan);
FATUNE_API void fatune_plan_free(fatune_plan *plan); /* NULL is allowed */

/* The sizes of one call. */
typedef struct fatune_sizes {
  size_t size;                       /* sizeof(fatune_sizes) */
  int64_t b, h, hk;                  /* batch, query heads, KV heads (0: as many as query heads) */
  int64_t q, k;                      /* rows of Q; rows of K and V */
  int64_t total_q, total_k;          /* of ragged batches (varlen): rows of all; else 0 */
  int64_t window_left, window_right; /* of a window (w): keys to each side of the diagonal, -1: all; else 0 or
                                        -1. Beside causal the right one is 0 or -1, which is the same there */
  int64_t chunk;                     /* of chunks (chunk): keys of one; else 0 */
  int64_t split;                     /* of splits (split): keys of one, a multiple of 64; else 0 */
  int64_t block_q, block_k;          /* of blocks (bs): rows and keys of one; else 0 */
} fatune_sizes;

/* Bytes that fatune_run needs beside the tensors for calls of these sizes, and so for smaller ones of the
 * same heads and split; may be 0. NULL: the sizes of the problem that was planned, and an error where that
 * was a family. A plan that has more kernels compiled (fatune_request.sizes) may need more. */
FATUNE_API fatune_status fatune_workspace(const fatune_plan *plan, const fatune_sizes *sizes, size_t *bytes);

/* What the plan is: lines of `name value` (problem, device, pick, kernel, origin, ...; of a family: family,
 * device, variants, and a line `variant PROBLEM STEP CONFIG` for each shape). Lives with the plan. */
FATUNE_API const char *fatune_describe(const fatune_plan *plan);

/* FATUNE_OK if a plan of the request would find a kernel: asks device and database, loads and compiles
 * nothing. The device is that of the current context, else the first. */
FATUNE_API fatune_status fatune_supported(fatune *handle, const fatune_request *request);

/* The steps of the choice, one line each, into `text` (at most `room` bytes with the closing zero; a text
 * that is longer is cut). Same status as fatune_supported. */
FATUNE_API fatune_status fatune_why(fatune *handle, const fatune_request *request, char *text, size_t room);

/* ---- run ---- */

typedef struct fatune_tensor {
  void *data;        /* device memory of the first element */
  int64_t stride[3]; /* in elements: from batch to batch, head to head, row to row; a row is contiguous */
} fatune_tensor;

/* Those that the operation and its features have; the others are NULL. */
typedef struct fatune_tensors {
  size_t size;                    /* sizeof(fatune_tensors) */
  const fatune_tensor *Q, *K, *V; /* [b][h][q][d], [b][hk][k][d], [b][hk][k][dv] */
  const fatune_tensor *O;         /* [b][h][q][dv]; must not overlap with the others */
  const fatune_tensor
      *LSE;                /* [b][h][q] of float, rows contiguous (stride[2] is not read); NULL: not wanted */
  float scale;             /* O = softmax(scale Q K^T + mask) V; no default: usual is 1/sqrt(d) */
  uint32_t reserved;       /* 0 */
  const fatune_tensor *dO; /* of backward: the gradient of O; O and LSE are its forward's */
  const fatune_tensor *dQ, *dK, *dV; /* gradients that it writes, in the shapes of Q, K and V */
  const fatune_tensor *sink; /* [h] of float, of `sink`: a score of each head that every row has beside those
                                of its keys, as it is and without a V; -inf: none. Only stride[1] is read */
  float softcap; /* of `softcap`: scores are softcap tanh(scale Q K^T / softcap); above 0. Else 0 */
  float dropout; /* of `drop`: the part of weights that is dropped, from 0 to below 1. Else 0 */
  const fatune_tensor *slopes; /* [b][h] of float, of `alibi`: scores lose slope |i + k - q - j|. stride[0] is
                                  0 where all batches have the same */
  const fatune_tensor *dsink;  /* of `dsink`: [h], the gradient of sink, which backward writes */
  const fatune_tensor *used_q, *used_k; /* [b] of int32, of `used`: how many rows of Q, of K and V each batch
                                           has; those behind are neither read nor written, unless there
                                           are no keys, or no rows of Q, at all: then outputs are cleared as
                                           a whole. used_q NULL: all rows of Q. Only stride[0] is read */
  const fatune_tensor *lpad;   /* [b] of int32, of `lpad`: so many rows of K and V ahead of the first key of
                                  each batch, which are as those behind used_k. Only stride[0] is read */
  const fatune_tensor *dLSE;   /* of `dlse`: the gradient of LSE, laid out as it is */
  const fatune_tensor *prefix; /* [b] of int32, of `prefix`: the causal mask leaves the first so many keys of
                                  each batch to all of its rows. Only stride[0] is read */
  const fatune_tensor *cu_q, *cu_k; /* [b + 1] of int32, of `varlen`: where the rows of each batch begin, and
                                       the last ends. Other tensors have one batch of total_q or total_k rows,
                                       in which those of all lie behind each other; q and k are the longest.
                                       Only stride[0] is read */
  const fatune_tensor *lo, *hi; /* [b][h][q] of int32, rows contiguous, of `iv`: of the keys that masks leave
                                   it row i sees those from lo to before hi. stride[0] or stride[1] 0: the
                                   same in all batches, heads */
  const fatune_tensor *rng;     /* of `drop`: two uint64 in device memory, seed and offset of the Philox bits,
                                   read when the kernel runs; the next call's offset is b * h * 32 further */
  const fatune_tensor *attend; /* of `mask`: [b][h][q][k] of bytes: whether row i sees key j (not 0). A stride
                                of 0 where all batches, heads or rows have the same; keys are contiguous,
                                those of a padding ahead too */
  const fatune_tensor *bias; /* of `bias`: [b][h][q][k], of the type of Q, of `bias32` float: what is added to
                                scores, -inf too; strides as those of attend */
  const fatune_tensor *dbias; /* of `dbias`: [b][h][q][k] of float, the gradient of bias, which backward
                                 writes; summed over batches, heads and rows whose stride is 0, in any order:
                                 of `det` none is */
  const fatune_tensor *table0, *table1, *table2, *table3; /* that `mod` and `mask` expressions read: packed
                                rows of float (table0) or int32 (itable0); stride[0]: of how many elements in
                                all, at most 2^31 - 1, stride[2]: in a row; stride[1] is not read */
  const fatune_tensor *blocks; /* of `bs`: [b][h][q / R rounded up][k / C rounded up] of bytes, a row of them
                                contiguous: whether the rows of a block see its keys (not 0), as far as masks
                                let them. R and C: block_q and block_k of the sizes. A stride of 0 as above */
} fatune_tensors;

/* Queues the attention call on `stream` (a CUstream or cudaStream_t of the plan's context; NULL: its default
 * stream). `sizes`: of this call, NULL: those of the problem that was planned. A family's plan takes the
 * kernel of the shape that promises most and is valid for them, a problem's plan its own;
 * FATUNE_ERR_UNSUPPORTED where none is valid. `workspace` is fatune_workspace bytes of device memory at a
 * multiple of 16 (NULL where 0), not used by another stream meanwhile. Rows that see no key get O = 0 and LSE
 * = +inf, or their sink, also where k is 0 (there a forward with a sink has no LSE, and LSE's own gradient
 * leaves no dsink: FATUNE_ERR_UNSUPPORTED); their gradients are 0. Where b is 0 there is nothing to do.
 * Errors of the GPU itself show in later CUDA calls, as always. */
FATUNE_API fatune_status fatune_run(const fatune_plan *plan, const fatune_tensors *tensors,
                                    const fatune_sizes *sizes, void *workspace, void *stream);

/* For tests and debugging: which weights a call of `drop` keeps (1; else 0), into host memory: bytes
 * [b][h][q][k] by these members of `sizes`, densely. `seed` and `offset` are what the tensor rng holds,
 * `dropout` is that of the tensors. Of `varlen` q and k are the longest; rows and keys count from the start
 * of their batch. Needs neither handle nor GPU; computed on the CPU. */
FATUNE_API fatune_status fatune_dropout_mask(uint64_t seed, uint64_t offset, float dropout,
                                             const fatune_sizes *sizes, uint8_t *mask);

#ifdef __cplusplus
}
#endif
#endif
