/* together.c -- what the 32 lanes of a warp do as one: matrices out of shared memory, and products.
 *
 * Computed once, when the last lane has come. Where which element lies is what the arch functions say
 * (templates/arch/). Products are exact and summed in double, then rounded to f32 once: the hardware does not
 * say how it rounds in between. */
#include "grid.h"
#include <string.h>

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16 };

static float of_bits(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* f16 as f32: its bits at the place of f32's, then times the difference of the exponents' biases. */
static float of_f16(uint32_t x)
{
  uint32_t sign = (x & 0x8000) << 16, rest = (x & 0x7fff) << 13;
  if ((x & 0x7c00) == 0x7c00)
    return of_bits(sign | rest | 0x7f800000);
  float y = of_bits(rest) * 0x1p112f;
  return sign ? -y : y;
}

/* The element of 16 bits at index 0 (the lower) or 1 of a register. */
static double sixteen(emu_op op, uint32_t pair, int which)
{
  uint32_t x = which ? pair >> 16 : pair & 0xffff;
  return (double)(op == EMU_MMA_BF16 ? of_bits(x << 16) : of_f16(x));
}

/* A tf32 is an f32 whose lower 13 bits the hardware does not look at. */
static double tf32(uint32_t x)
{
  return (double)of_bits(x & 0xffffe000);
}

static void gather(emu_op op, const emu_thread *lanes, double A[ROWS][DEPTH], double B[DEPTH][COLUMNS])
{
  for (int lane = 0; lane < EMU_WARP; lane++) {
    const emu_part *p = &lanes[lane].me.part;
    int g = lane / 4, t = lane % 4;
    /* Registers of A: rows g and g + 8 of the left half, then of the right one. */
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 2; j++)
        if (op == EMU_MMA_TF32)
          A[g + i % 2 * 8][t + i / 2 * 4] = tf32(p->a[i]);
        else
          A[g + i % 2 * 8][2 * t + j + i / 2 * 8] = sixteen(op, p->a[i], j);
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++)
        if (op == EMU_MMA_TF32)
          B[t + i * 4][g] = tf32(p->b[i]);
        else
          B[2 * t + j + i * 8][g] = sixteen(op, p->b[i], j);
  }
}

static void multiply(emu_op op, emu_thread *lanes)
{
  double A[ROWS][DEPTH], B[DEPTH][COLUMNS], C[ROWS][COLUMNS] = {{0}};
  int depth = op == EMU_MMA_TF32 || op == EMU_MMA_F16_K8 ? 8 : 16;
  gather(op, lanes, A, B);
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < depth; k++)
      for (int j = 0; j < COLUMNS; j++)
        C[i][j] += A[i][k] * B[k][j];
  for (int lane = 0; lane < EMU_WARP; lane++)
    for (int i = 0; i < 4; i++) {
      float *c = &lanes[lane].me.part.c[i];
      *c = (float)(C[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2] + (double)*c);
    }
}

/* The 8 rows of a matrix are read at once where they lie in different banks, 16 bytes being 4 of 32: how many
 * times one more turn is needed. */
static int conflicts(const emu_thread *rows)
{
  int most = 1;
  for (int i = 0; i < 8; i++) {
    int together = 1;
    for (int j = 0; j < i; j++) {
      uint32_t one = rows[i].me.part.row, other = rows[j].me.part.row;
      together += one != other && one / 16 % 8 == other / 16 % 8;
    }
    most = together > most ? together : most;
  }
  return most - 1;
}

/* Row r of matrix i is what lane 8 i + r has read. */
static void hand_out(emu_op op, emu_thread *lanes)
{
  for (int lane = 0; lane < EMU_WARP; lane++)
    for (int i = 0; i < 4; i++) {
      const emu_thread *row = lanes + 8 * i;
      int g = lane / 4, t = lane % 4;
      uint32_t *got = &lanes[lane].me.part.got[i];
      if (op == EMU_LDMATRIX)
        *got = row[g].me.part.a[t];
      else
        *got = (row[2 * t].me.part.a[g / 2] >> g % 2 * 16 & 0xffff) |
               (row[2 * t + 1].me.part.a[g / 2] >> g % 2 * 16) << 16;
    }
}

/* The row that lane 8 i + r writes is row r of matrix i; transposed, its column. */
static void gather_rows(emu_op op, emu_thread *lanes)
{
  for (int lane = 0; lane < EMU_WARP; lane++)
    for (int t = 0; t < 4; t++) {
      int r = lane % 8, i = lane / 8;
      uint32_t *got = &lanes[lane].me.part.got[t];
      if (op == EMU_STMATRIX)
        *got = lanes[r * 4 + t].me.part.a[i];
      else
        *got = (lanes[8 * t + r / 2].me.part.a[i] >> r % 2 * 16 & 0xffff) |
               (lanes[8 * t + 4 + r / 2].me.part.a[i] >> r % 2 * 16) << 16;
    }
}

const emu_thread *emu_together(emu_thread *lanes)
{
  int32_t place = lanes[0].me.part.place;
  for (int i = 1; i < EMU_WARP; i++)
    if (lanes[i].me.part.place != place)
      return &lanes[i];
  emu_op op = (emu_op)(place % EMU_OPS);
  const bool stores = op == EMU_STMATRIX || op == EMU_STMATRIX_TRANS;
  if (op != EMU_LDMATRIX && op != EMU_LDMATRIX_TRANS && !stores) {
    multiply(op, lanes);
    return NULL;
  }
  if (stores)
    gather_rows(op, lanes);
  else
    hand_out(op, lanes);
  for (int i = 0; i < 4; i++)
    emu_now->report->conflicts += conflicts(lanes + 8 * i);
  return NULL;
}
