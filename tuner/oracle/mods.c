/* mods.c -- evaluates the parsed tree, node by node: nothing of the CUDA that generator/mod_emit.c writes.
 *
 * Whole numbers have 32 bits and wrap around. A node's size adds up what roundings of a float do to it: one
 * of its own, and those of its operands times what each of them weighs. */
#include "mods.h"

#include <math.h>

static const double rough_tanh = 0x1p13; /* tanh.approx.f32: 2^-11, in units of 2^-24 */

typedef struct pair {
  const fat_problem *p;
  const fat_reference_inputs *in;
  const fat_scored *at;
  double s, off;
} pair;

static int64_t wrapped(int64_t x)
{
  return (int64_t)(int32_t)(uint32_t)(uint64_t)x;
}

static int64_t floor_over(int64_t x, int64_t y)
{
  if (y == 0)
    return 0;
  return wrapped(x / y - (x % y != 0 && (x < 0) != (y < 0)));
}

static double of_pair(const pair *x, fat_mod_op op)
{
  const int64_t head = x->in->head + x->at->head, h = x->p->h;
  const int64_t names[] = {head / h, head % h, x->at->i, x->at->j, x->p->q, x->p->k};
  return (double)names[op - FAT_MOD_BATCH];
}

/* A packed table, of the size that fat_tensors_extent gives it. */
static double looked_up(const pair *x, const fat_mod_node *n, double first, double second)
{
  const fat_extent e =
      fat_tensors_extent(x->p, FAT_TABLE + n->table); /* of a batch, whose lengths may be shorter */
  const double rows = (double)e.size[2], columns = (double)(x->in->length ? x->in->length : e.size[3]);
  const double last = n->of[1] < 0 ? rows * columns - 1 : columns - 1;
  const double y = n->of[1] < 0 ? 0 : fmax(0, fmin(first, rows - 1));
  const double column = fmax(0, fmin(n->of[1] < 0 ? first : second, last));
  return (double)x->in->of[FAT_TABLE + n->table][(int64_t)(y * columns + column)];
}

/* The op of whole numbers or bools: exact. */
static double exact(const fat_mod_node *n, double a, double b, double c)
{
  const int64_t x = (int64_t)a, y = (int64_t)b;
  switch (n->op) {
  case FAT_MOD_OR:
    return a != 0 || b != 0;
  case FAT_MOD_AND:
    return a != 0 && b != 0;
  case FAT_MOD_NOT:
    return a == 0;
  case FAT_MOD_LT:
    return a < b;
  case FAT_MOD_LE:
    return a <= b;
  case FAT_MOD_GT:
    return a > b;
  case FAT_MOD_GE:
    return a >= b;
  case FAT_MOD_EQ:
    return a == b;
  case FAT_MOD_NE:
    return a != b;
  case FAT_MOD_ADD:
    return (double)wrapped(x + y);
  case FAT_MOD_SUB:
    return (double)wrapped(x - y);
  case FAT_MOD_MUL:
    return (double)wrapped(x * y);
  case FAT_MOD_FLOOR:
    return (double)floor_over(x, y);
  case FAT_MOD_REST:
    return (double)wrapped(x - floor_over(x, y) * y);
  case FAT_MOD_MINUS:
    return (double)wrapped(-x);
  case FAT_MOD_ABS:
    return (double)wrapped(x < 0 ? -x : x);
  case FAT_MOD_MIN:
    return a <= b ? a : b;
  case FAT_MOD_MAX:
    return a >= b ? a : b;
  default: /* select */
    return a != 0 ? b : c;
  }
}

/* The op of numbers: with the chain rule, and what roundings do. */
static fat_modded smooth(const pair *x, const fat_mod_node *n, fat_modded a, fat_modded b, fat_modded c)
{
  const bool is_half = x->p->dtype == FAT_F16 || x->p->dtype == FAT_BF16;
  fat_modded y = {0, 0, 0};
  switch (n->op) {
  case FAT_MOD_ADD:
    y = (fat_modded){a.value + b.value, a.slope + b.slope, a.size + b.size};
    break;
  case FAT_MOD_SUB:
    y = (fat_modded){a.value - b.value, a.slope - b.slope, a.size + b.size};
    break;
  case FAT_MOD_MUL:
    y = (fat_modded){a.value * b.value, a.slope * b.value + a.value * b.slope,
                     a.size * fabs(b.value) + fabs(a.value) * b.size};
    break;
  case FAT_MOD_OVER:
    y.value = a.value / b.value;
    y.slope = (a.slope - y.value * b.slope) / b.value;
    y.size = (a.size + fabs(y.value) * b.size) / fabs(b.value) + 2 * fabs(y.value);
    break;
  case FAT_MOD_MINUS:
    y = (fat_modded){-a.value, -a.slope, a.size};
    break;
  case FAT_MOD_ABS:
    y = (fat_modded){fabs(a.value), a.value < 0 ? -a.slope : a.slope, a.size};
    break;
  case FAT_MOD_MIN:
    return a.value <= b.value ? a : b;
  case FAT_MOD_MAX:
    return a.value >= b.value ? a : b;
  case FAT_MOD_EXP:
    y.value = exp(a.value);
    y = (fat_modded){y.value, y.value * a.slope, y.value * (a.size + fabs(a.value) + 4)};
    break;
  case FAT_MOD_LOG:
    y = (fat_modded){log(a.value), a.slope / a.value, a.size / fabs(a.value) + 4};
    break;
  case FAT_MOD_TANH:
    y.value = tanh(a.value);
    y.slope = (1 - y.value * y.value) * a.slope;
    y.size = (1 - y.value * y.value) * a.size + fabs(y.value) * (is_half ? rough_tanh : 4);
    break;
  default: /* select */
    return a.value != 0 ? b : c;
  }
  y.size += fabs(y.value);
  return y;
}

static fat_modded value_of(const pair *x, const fat_mod_node *n, const fat_modded *of)
{
  const fat_modded nothing = {0, 0, 0};
  const fat_modded a = n->of[0] >= 0 ? of[n->of[0]] : nothing, b = n->of[1] >= 0 ? of[n->of[1]] : nothing;
  const fat_modded c = n->of[2] >= 0 ? of[n->of[2]] : nothing;
  if (n->op == FAT_MOD_S)
    return (fat_modded){x->s, 1, x->off + fabs(x->s)};
  if (n->op == FAT_MOD_LITERAL && n->type == FAT_MOD_NUMBER)
    return (fat_modded){(double)n->number, 0, 0};
  if (n->op == FAT_MOD_LITERAL)
    return (fat_modded){(double)n->whole, 0, 0};
  if (n->op >= FAT_MOD_BATCH && n->op <= FAT_MOD_K)
    return (fat_modded){of_pair(x, (fat_mod_op)n->op), 0, 0};
  if (n->op == FAT_MOD_LOOKUP)
    return (fat_modded){looked_up(x, n, a.value, b.value), 0, 0};
  if (n->op == FAT_MOD_FLOAT)
    return (fat_modded){(double)(float)a.value, 0, 0};
  if (n->type != FAT_MOD_NUMBER)
    return (fat_modded){exact(n, a.value, b.value, c.value), 0, 0};
  return smooth(x, n, a, b, c);
}

fat_modded fat_mods_value(const fat_mod *mod, const fat_problem *p, const fat_reference_inputs *in,
                          const fat_scored *at, double s, double off)
{
  const pair x = {p, in, at, s, off};
  fat_modded of[FAT_MOD_NODES];
  for (int n = 0; n < mod->count; n++)
    of[n] = value_of(&x, &mod->node[n], of);
  return of[mod->root];
}
