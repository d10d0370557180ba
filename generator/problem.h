/* problem.h -- what is asked: one attention call, as a struct and as one canonical line of text.
 *
 *   fwd-f16-b2-h16k4-q4096-k4096-d128-causal
 *   op  dtype  b  h (kN: KV heads)  q  k  d (vN: V's dim)  features...
 *
 * The text is the same on the command line, in the database, in tests, dumps, errors and logs. The half
 * that decides the code (op, dtype, d, names of features) is the family: `fwd-f16-d128-causal-w`. Sizes and
 * the numbers of features (the window in `w1023.0`) are arguments of the kernel and never decide the code. */
#ifndef FAT_PROBLEM_H
#define FAT_PROBLEM_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fat_op { FAT_FWD, FAT_BWD, FAT_OP_COUNT } fat_op; /* ORDER OP */
typedef enum fat_dtype {
  FAT_F16,
  FAT_BF16,
  FAT_F32,
  FAT_TF32,
  FAT_F32X3,
  FAT_DTYPE_COUNT,
  FAT_I32 = FAT_DTYPE_COUNT, /* whole numbers: of tensors, never a problem's */
  FAT_BYTE,                  /* 0 or 1: the same */
  FAT_ELEMENTS
} fat_dtype; /* ORDER DTYPE */

/* Features in the order of the canonical text. ORDER FEATURE */
typedef enum fat_feature {
  FAT_CAUSAL,      /* causal: bottom-right aligned */
  FAT_CAUSAL_TL,   /* causaltl: top-left aligned; not together with causal */
  FAT_WINDOW,      /* wL.R: L keys to the left of the diagonal, R to the right; x: all */
  FAT_CHUNK,       /* chunkN */
  FAT_VARLEN,      /* varlen */
  FAT_PAGED,       /* pagedN */
  FAT_USED,        /* used: lengths by batch */
  FAT_PREFIX,      /* prefix */
  FAT_INTERVAL,    /* iv: a key interval for each row */
  FAT_LEFTPAD,     /* lpad */
  FAT_BLOCKSPARSE, /* bsRxC */
  FAT_MASK,        /* mask: one byte for each pair */
  FAT_MASK_MOD,    /* maskHASH: 16 hex digits of a mask expression, in arg[0] */
  FAT_BIAS,        /* bias */
  FAT_BIAS32,      /* bias32: which is of f32 beside tensors of 16 bits */
  FAT_ALIBI,       /* alibi */
  FAT_SOFTCAP,     /* softcap */
  FAT_SINK,        /* sink */
  FAT_MOD,         /* modHASH: 16 hex digits of a score mod, in arg[0] */
  FAT_DROP,        /* drop */
  FAT_DBIAS,       /* dbias: the gradient of the bias too, as the next two: backward alone */
  FAT_DSINK,       /* dsink */
  FAT_DLSE,        /* dlse: a gradient of LSE comes in */
  FAT_DET,         /* det: the same bits every time; backward alone */
  FAT_SPLIT,       /* splitN: N keys for each split */
  FAT_PARTIAL,     /* partial */
  FAT_APPEND,      /* append */
  FAT_ROPE,        /* rope: halves of a row; not together with ropei */
  FAT_ROPE_I,      /* ropei: interleaved */
  FAT_FEATURE_COUNT
} fat_feature;

typedef struct fat_problem {
  fat_op op;
  fat_dtype dtype;
  int64_t b;         /* batch */
  int64_t h, hk;     /* query heads; KV heads, a divisor of h */
  int64_t q, k;      /* rows of Q; rows of K and V */
  int32_t d, dv;     /* head dimension of Q and K; of V and O */
  uint32_t features; /* bit 1u << fat_feature */
  uint64_t arg[FAT_FEATURE_COUNT]
              [2]; /* numbers of wL.R, chunkN, pagedN, bsRxC, hashes, splitN; of prefix see draw.h */
} fat_problem;

enum {
  FAT_PROBLEM_TEXT = 384,    /* a buffer of this size holds any canonical text */
  FAT_PROBLEM_D_MAX = 256,   /* d and dv: multiples of 8 up to this */
  FAT_PROBLEM_DV_MAX = 512,  /* dv: beyond that multiples of the step up to this, */
  FAT_PROBLEM_DV_STEP = 128, /* made in two slices of columns */
};
#define FAT_PROBLEM_SIZE_MAX INT64_C(2147483647)  /* b, h, q, k each; int32 inside a kernel */
#define FAT_PROBLEM_ALL      FAT_PROBLEM_SIZE_MAX /* the x of a window: no key is too far away */

typedef struct fat_dtype_info {
  const char *name;
  int bytes;           /* of one element of Q, K, V, O in device memory */
  const char *element; /* the tensors' element type: "f16", "bf16", "f32" */
} fat_dtype_info;
extern const fat_dtype_info fat_dtypes[FAT_ELEMENTS];
extern const char *const fat_ops[FAT_OP_COUNT];

/* Text to struct. Errors are FAT_E_INPUT with the position marked:
 *   problem 'fwd-f15-b1...': 'f15' at column 5 is no dtype: f16, bf16, f32, tf32, f32x3
 * Accepts what the grammar reads (`h16k16`, `w1023.0`) beside what is written (`h16`, `causal-w1023.0`).
 * Calls fat_problem_check. */
fat_status fat_problem_parse(const char *text, fat_problem *p, fat_error *err);

/* The same for a family text: sizes are left at b = h = hk = q = k = 1, numbers of features at the least that
 * they may be, and at 1 where that is 0. */
fat_status fat_problem_parse_family(const char *text, fat_problem *p, fat_error *err);

/* Whether a text is meant as a family's: it has no batch, so its third word is the head dimension. */
bool fat_problem_is_family(const char *text);

/* Ranges and combinations: d and dv, heads divisible, lengths not negative, features that exclude each
 * other (causal and causaltl). FAT_E_INPUT with the argument, its value and what is allowed. */
fat_status fat_problem_check(const fat_problem *p, fat_error *err);

/* Struct to canonical text; the result is `buffer`. */
const char *fat_problem_print(const fat_problem *p, char buffer[FAT_PROBLEM_TEXT]);
const char *fat_problem_family(const fat_problem *p, char buffer[FAT_PROBLEM_TEXT]);

/* Why a call of it launches nothing, whatever is stored; NULL: it launches a kernel. */
const char *fat_problem_nothing(const fat_problem *p);

/* The same problem in the other type of 16 bits; whether it is of one of the two. */
bool fat_problem_other_half(const fat_problem *p, fat_problem *other);

/* The problem, and those whose winners are lent to it: in the other type of 16 bits, and in either type at
 * the next larger of the head dimensions that most shapes are tuned for (64, 96, 128, 192, 256), unless it
 * has one of these or a V of another dimension. Returns how many. */
enum { FAT_PROBLEM_KIN = 4 };
int fat_problem_kin(const fat_problem *p, fat_problem kin[FAT_PROBLEM_KIN]);

static inline bool fat_problem_has(const fat_problem *p, fat_feature f)
{
  return (p->features >> f & 1u) != 0;
}

/* In how many slices, side by side, the columns of V and O are made: each by blocks of its own, which make S
 * anew. */
static inline int fat_problem_slices(const fat_problem *p)
{
  return p->dv > FAT_PROBLEM_D_MAX ? 2 : 1;
}

/* Name of one feature as it stands in the text, without numbers ("causal", "w", "chunk", ...). */
const char *fat_problem_feature_name(fat_feature f);

/* The word that names a feature in a family: "mask" and the hash of a mask expression differ in it. */
const char *fat_problem_feature_form(fat_feature f);

/* How many numbers of a feature a kernel takes as arguments: of wL.R, chunkN, pagedN, bsRxC, splitN. A hash
 * decides the code instead, and stands in the family. */
int fat_problem_feature_numbers(fat_feature f);

/* Floating-point operations: 2 (d + dv) for each pair of a row and a key that it sees, 2.5 times that for the
 * backward. It counts the algorithm, not what a kernel does on masked tiles. */
double fat_problem_flops(const fat_problem *p);

#endif
