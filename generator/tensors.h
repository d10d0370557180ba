/* tensors.h -- every tensor of every operation, one row each, and how a call of them lies in memory.
 *
 * All that is done to tensors loops over this table: arguments, tensor maps, checks, inputs, poison,
 * references, bindings. A new tensor is a row here and its use in a kernel. A kernel takes one struct by
 * value, `call`:
 *
 *   the op's own tensors in the order of the rows; b h hk q k, scale; then for each feature of the family, in
 *   the order of the grammar, its numbers, its scalars and its tensors.
 *
 * So a feature's tensor moves nothing in the text of a family without it. templates/lib/args.h prints the
 * struct from the same rows; fat_tensors_pack writes it. */
#ifndef FAT_TENSORS_H
#define FAT_TENSORS_H

#include "draw.h"
#include "problem.h"
#include "text.h"

/* ORDER TENSOR */
typedef enum fat_tensor {
  FAT_Q,
  FAT_K,
  FAT_V,
  FAT_O,
  FAT_LSE,
  FAT_DO,
  FAT_DQ,
  FAT_DK,
  FAT_DV,
  FAT_SINKS, /* `sink`; FAT_SINK is the feature that brings it */
  FAT_SLOPES,
  FAT_DSINKS,
  FAT_USED_Q,
  FAT_USED_K,
  FAT_PAD,
  FAT_DLSES, /* `dLSE`, by FAT_DLSE */
  FAT_PREFIXES,
  FAT_CU_Q,
  FAT_CU_K,
  FAT_LO,
  FAT_HI,
  FAT_RNG,
  FAT_MASKS,
  FAT_BIASES,
  FAT_DBIASES,
  FAT_TABLE, /* the first of FAT_MOD_TABLES, of `mod` and `mask` expressions */
  FAT_TABLE_LAST = FAT_TABLE + 3,
  FAT_BLOCKS,
  FAT_TENSORS
} fat_tensor;

typedef enum fat_role {
  FAT_ROLE_NONE,
  FAT_ROLE_IN,
  FAT_ROLE_ASIDE, /* an input that a caller may do without */
  FAT_ROLE_OUT,
  FAT_ROLE_WANTED /* an output that a caller may do without */
} fat_role;

/* h heads of q rows; hk heads of k rows; one row for each of h heads, the same in all batches, or in each;
 * one for each batch; one for the beginning of each batch and the end of the last; one row of a call. With
 * `varlen` tensors of rows have one batch, in which those of all lie behind each other. A table has rows of
 * its own. For each of h heads as many rows as there are blocks of rows. */
typedef enum fat_side {
  FAT_OF_Q,
  FAT_OF_K,
  FAT_OF_HEADS,
  FAT_OF_ALL_HEADS,
  FAT_OF_BATCHES,
  FAT_OF_ENDS,
  FAT_OF_CALL,
  FAT_OF_TABLE,
  FAT_OF_BLOCKS,
  FAT_SIDES
} fat_side; /* ORDER SIDE */
typedef enum fat_element_of {
  FAT_ELEMENT_OWN,
  FAT_ELEMENT_F32,
  FAT_ELEMENT_I32,
  FAT_ELEMENT_BYTE
} fat_element_of;
typedef enum fat_width_of {
  FAT_WIDE_D,
  FAT_WIDE_DV,
  FAT_WIDE_1,
  FAT_WIDE_4,
  FAT_WIDE_K,
  FAT_WIDE_TABLE,
  FAT_WIDE_BLOCKS
} fat_width_of;

typedef struct fat_tensor_row {
  const char *name;            /* in a kernel, in messages; the member of fatune_tensors */
  fat_role role[FAT_OP_COUNT]; /* ORDER OP */
  fat_feature feature;         /* that brings it; FAT_FEATURE_COUNT: the op itself */
  fat_side side;
  fat_width_of width;     /* FAT_WIDE_1: one number a row, and rows are contiguous */
  fat_element_of element; /* the problem's own, or what it is whatever that is */
  bool is_lse;            /* an output that is infinite where no key is seen; others are 0 there */
} fat_tensor_row;
extern const fat_tensor_row fat_tensors[FAT_TENSORS];

/* The tensor's role in a problem: absent where another op or a feature that is not there has it. */
fat_role fat_tensors_role(const fat_problem *p, int t);
static inline bool fat_tensors_is_in(fat_role role)
{
  return role == FAT_ROLE_IN || role == FAT_ROLE_ASIDE;
}
static inline bool fat_tensors_is_out(fat_role role)
{
  return role == FAT_ROLE_OUT || role == FAT_ROLE_WANTED;
}

/* Batches, heads, rows and columns of the logical tensor. */
typedef struct fat_extent {
  int64_t size[4];
} fat_extent;
fat_extent fat_tensors_extent(const fat_problem *p, int t);
int64_t fat_tensors_elements(const fat_problem *p, int t);
/* What an element of a tensor of whole numbers holds where nobody says (draw.h). */
int64_t fat_tensors_drawn(const fat_problem *p, int t, fat_element at);
/* The `which`-th tensor that a feature brings. */
int fat_tensors_of(fat_feature f, int which);
/* The type of its elements. */
fat_dtype fat_tensors_dtype(const fat_problem *p, int t);

/* A tensor as a caller has it; strides in elements: from batch to batch, head to head, row to row. */
typedef struct fat_view {
  void *data;
  int64_t stride[3];
} fat_view;

/* Numbers of a call that are neither sizes nor in the text: the cap of `softcap`, the rate of `drop`. ORDER
 * SCALAR */
typedef enum fat_scalar { FAT_CAP, FAT_RATE, FAT_SCALARS } fat_scalar;
typedef struct fat_scalar_row {
  const char *name;    /* in a kernel, in messages; the member of fatune_tensors */
  fat_feature feature; /* that brings it */
  float least, most;   /* that a call may have */
  float usual;         /* what kernels are tried with */
} fat_scalar_row;
extern const fat_scalar_row fat_scalars[FAT_SCALARS];

/* One call: its tensors (data NULL: absent) and what is no size. */
typedef struct fat_call {
  fat_view tensor[FAT_TENSORS];
  float scale;
  float scalar[FAT_SCALARS];
} fat_call;
/* The usual values of all. */
void fat_tensors_usual(float scalar[FAT_SCALARS]);

enum { FAT_CALL_BYTES = 1024 /* no family's struct is larger; kernels may take 4096 */ };

/* Where the parts of a family's struct lie. */
typedef struct fat_call_layout {
  int bytes;
  uint32_t tensors, numbers;     /* those that there are: bit 1u << tensor, 1u << feature */
  int tensor[FAT_TENSORS];       /* -1: absent */
  int sizes;                     /* b h hk q k, scale */
  int number[FAT_FEATURE_COUNT]; /* of the feature's first number; -1: none */
  int scalar[FAT_SCALARS];       /* -1: absent */
} fat_call_layout;
void fat_tensors_layout(const fat_problem *p, fat_call_layout *layout);

/* Writes the struct: the problem's sizes and numbers, the call's tensors. */
void fat_tensors_pack(const fat_call_layout *layout, const fat_problem *p, const fat_call *call,
                      unsigned char bytes[FAT_CALL_BYTES]);

/* The table as lines of facts for templates: "p.call=...", see generator/space.lua. */
void fat_tensors_facts(const fat_problem *p, fat_text *out);

#endif
