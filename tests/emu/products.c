/* products.c -- products of warpgroups on tiles in shared memory, which run on beside the threads.
 *
 * A product begins when all 128 threads have come and is under way, for each of them, until its own wait for
 * a group that holds it. Meanwhile its operands in shared memory are being read, and its registers belong to
 * it: the sums may not be touched, the left operand not be written. Registers that a thread has written are
 * the hardware's to use after a fence. Sums are taken when the product begins, when it is awaited, or in
 * between, as the run's landing says; they are exact and rounded to f32 once. */
#include "side.h"
#include "shadow.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, DEPTH = 16, COLUMNS_MOST = 256, CHUNK = 16, ROW = 128, FIELD = 0x3fff };

/* ---- operands in shared memory ---- */

typedef struct operand {
  uint32_t at, leading, stride;
} operand;

static operand operand_of(uint64_t descriptor, uintptr_t pc)
{
  if (descriptor >> 62 != 1)
    emu_findings_misuse("the emulator multiplies tiles with the swizzle of 128 bytes", pc);
  if (descriptor >> 49 & 7)
    emu_findings_misuse("the emulator multiplies tiles whose swizzle begins at multiples of 1024 bytes", pc);
  return (operand){(uint32_t)(descriptor & FIELD) << 4, (uint32_t)(descriptor >> 16 & FIELD) << 4,
                   (uint32_t)(descriptor >> 32 & FIELD) << 4};
}

static uint32_t swizzled(uint32_t address)
{
  return address ^ (address >> 7 & 7) << 4;
}

/* Where element k of row r lies; rows are contiguous, 8 of them a stride. */
static uint32_t of_rows(const operand *x, uint32_t r, uint32_t k)
{
  return swizzled(x->at + r / 8 * x->stride + r % 8 * ROW + 2 * k);
}

/* Where element n of row k lies; rows are contiguous, 8 of them a stride, 64 columns a leading one. */
static uint32_t of_columns(const operand *x, uint32_t k, uint32_t n)
{
  return swizzled(x->at + n / 64 * x->leading + k / 8 * x->stride + k % 8 * ROW + 2 * (n % 64));
}

/* Where element k of row r of a left operand lies. */
static uint32_t of_left(const emu_product *p, const operand *left, uint32_t r, uint32_t k)
{
  return p->turned ? of_columns(left, k, r) : of_rows(left, r, k);
}

static const char *shared_at(const emu_block *b, uint32_t address)
{
  return b->shared + (address - EMU_SHARED_BASE);
}

static void read_chunk(emu_block *b, int group, const uint32_t *seen, uint32_t address, uintptr_t pc)
{
  uint32_t at = address - EMU_SHARED_BASE;
  emu_event event = {.kind = EMU_OUT_OF_BOUNDS, .in_shared = 1, .address = at, .size = CHUNK, .pc = pc};
  if (at >= b->shared_size || CHUNK > b->shared_size - at) {
    emu_findings_add(&event);
    emu_findings_misuse("the tile does not lie in shared memory", pc);
  }
  emu_clocks_access(b, (unsigned)(EMU_AGENT_PRODUCTS + group), b->side->group[group].begun, seen,
                    (uintptr_t)b->shared + at, CHUNK, 0, pc);
}

static void check(emu_block *b, int group, const emu_product *p, uintptr_t pc)
{
  const uint32_t *seen = emu_clocks_of_group(b, group);
  const operand right = operand_of(p->right, pc);
  const uint32_t columns = (uint32_t)p->columns;
  for (uint32_t k = 0; k < DEPTH && !p->by_rows; k++)
    for (uint32_t n = 0; n < columns; n += 8)
      read_chunk(b, group, seen, of_columns(&right, k, n), pc);
  for (uint32_t k = 0; k < DEPTH && p->by_rows; k += 8)
    for (uint32_t n = 0; n < columns; n++)
      read_chunk(b, group, seen, of_rows(&right, n, k), pc);
  if (p->a)
    return;
  const operand left = operand_of(p->left, pc);
  for (uint32_t k = 0; k < DEPTH; k += p->turned ? 1 : 8)
    for (uint32_t r = 0; r < ROWS; r += p->turned ? 8 : 1)
      read_chunk(b, group, seen, of_left(p, &left, r, k), pc);
}

/* ---- sums ---- */

static float of_bits(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static float value(bool is_bf16, uint32_t x)
{
  if (is_bf16)
    return of_bits(x << 16);
  uint32_t sign = (x & 0x8000) << 16, rest = (x & 0x7fff) << 13;
  if ((x & 0x7c00) == 0x7c00)
    return of_bits(sign | rest | 0x7f800000);
  float y = of_bits(rest) * 0x1p112f;
  return sign ? -y : y;
}

static float load(const emu_block *b, bool is_bf16, uint32_t address)
{
  uint16_t x;
  memcpy(&x, shared_at(b, address), sizeof x);
  return value(is_bf16, x);
}

static float A[ROWS][DEPTH], B[DEPTH][COLUMNS_MOST];

static void gather(const emu_block *b, const emu_work *w)
{
  const emu_product *p = &w->of;
  const operand right = operand_of(p->right, 0), left = p->a ? right : operand_of(p->left, 0);
  for (uint32_t k = 0; k < DEPTH; k++)
    for (uint32_t n = 0; n < (uint32_t)p->columns; n++)
      B[k][n] = load(b, p->is_bf16, p->by_rows ? of_rows(&right, n, k) : of_columns(&right, k, n));
  for (uint32_t r = 0; r < ROWS && !p->a; r++)
    for (uint32_t k = 0; k < DEPTH; k++)
      A[r][k] = load(b, p->is_bf16, of_left(p, &left, r, k));
  for (int i = 0; i < EMU_GROUP && p->a; i++) {
    int first = i / EMU_WARP * 16, g = i % EMU_WARP / 4, t = i % 4;
    for (int x = 0; x < 4; x++)
      for (int j = 0; j < 2; j++)
        A[first + g + x % 2 * 8][2 * t + j + x / 2 * 8] =
            value(p->is_bf16, j ? w->a[i][x] >> 16 : w->a[i][x] & 0xffff);
  }
}

/* Registers of a thread: its columns of row g, then those of row g + 8. */
static void multiply(const emu_block *b, const emu_work *w)
{
  const int columns = w->of.columns;
  double sum[COLUMNS_MOST];
  gather(b, w);
  for (int r = 0; r < ROWS; r++) {
    memset(sum, 0, sizeof sum);
    for (int k = 0; k < DEPTH; k++) {
      const double a = (double)A[r][k];
      for (int n = 0; n < columns; n++)
        sum[n] += a * (double)B[k][n];
    }
    for (int n = 0; n < columns; n++) {
      int thread = r / 16 * EMU_WARP + r % 8 * 4 + n % 8 / 2;
      float *c = w->c[thread] + r / 8 % 2 * (columns / 4) + n / 8 * 2 + n % 2;
      *c = (float)(sum[n] + (w->of.add ? (double)*c : 0));
    }
  }
}

static void finish_next(const emu_block *b, emu_group *g)
{
  multiply(b, &g->work[0]);
  g->done++;
  memmove(&g->work[0], &g->work[1], (size_t)(g->begun - g->done) * sizeof *g->work);
}

void emu_products_pass(emu_block *b)
{
  if (emu_now->options->landing != EMU_LAND_RANDOM || !b->side || !b->side->in_use)
    return;
  for (int i = 0; i < EMU_GROUPS; i++)
    if (b->side->group[i].done < b->side->group[i].begun && emu_grid_random() % 16 == 0)
      finish_next(b, &b->side->group[i]);
}

/* ---- registers ---- */

static void widen(emu_thread *t, uintptr_t from, uintptr_t to)
{
  t->me.known = t->me.known && t->me.known < from ? t->me.known : from;
  t->me.last = t->me.last > to ? t->me.last : to;
}

/* Whether registers from `from` on are a known array's. A left operand grows by what the products of a
 * group use side by side: another group's that happens to lie behind it is its own. */
static bool is_of(const emu_thread *t, const emu_registers *r, uintptr_t from, bool sums)
{
  if (r->sums != sums || sums || from <= r->from)
    return r->sums == sums && from == r->from;
  const uint32_t closed = t->product_groups ? t->product_group[t->product_groups - 1] : 0;
  return from < r->to || (from == r->to && r->product == t->products && r->product > closed);
}

/* What a product uses of a thread's registers. */
static void use(emu_thread *t, const void *data, uint32_t bytes, bool sums, uintptr_t pc)
{
  const uintptr_t from = (uintptr_t)data, to = from + bytes;
  emu_registers *r = t->registers, *end = r + t->register_arrays;
  while (r < end && !is_of(t, r, from, sums))
    r++;
  if (r == end) {
    if (t->register_arrays == EMU_REGISTER_ARRAYS)
      emu_findings_misuse("more arrays of registers than the emulator has room for", pc);
    t->register_arrays++;
    *r = (emu_registers){.from = from, .to = to, .sums = sums, .dirty = !t->fenced};
  }
  if (to > r->to)
    r->to = to;
  if (r->dirty)
    emu_findings_unfenced("this product uses registers that were written since the last fence", pc);
  r->dirty = false;
  r->product = t->products + 1;
  r->pc = pc;
  widen(t, r->from, r->to);
}

void emu_products_registers(uintptr_t a, uint32_t size, int is_write, uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  for (int i = 0; i < t->register_arrays; i++) {
    emu_registers *r = &t->registers[i];
    if (a >= r->to || a + size <= r->from)
      continue;
    if (r->product > t->products_done && (r->sums || is_write)) {
      emu_event e = {.kind = EMU_PRODUCT_REGISTERS,
                     .is_write = is_write,
                     .address = a,
                     .size = size,
                     .pc = pc,
                     .other_pc = (uint32_t)(r->pc - emu_now->module->image)};
      emu_findings_add(&e);
    }
    r->dirty |= is_write;
  }
}

void emu_products_fence(void)
{
  emu_thread *t = emu_now->self;
  t->fenced = true;
  for (int i = 0; i < t->register_arrays; i++)
    t->registers[i].dirty = false;
}

/* ---- the life of a product ---- */

void emu_products_begin(uintptr_t pc)
{
  emu_thread *t = emu_now->self;
  const emu_product *p = &t->me.part.product;
  emu_clocks_need(t->home);
  if (p->columns % 8 || p->columns <= 0 || p->columns > COLUMNS_MOST)
    emu_findings_misuse("a product has 8 to 256 columns, in steps of 8", pc);
  use(t, p->c, (uint32_t)p->columns * 2, true, pc);
  if (p->a)
    use(t, p->a, CHUNK, false, pc);
  emu_grid_wait(EMU_WAIT_PRODUCT, pc);
}

const emu_thread *emu_products_meet(emu_block *b, int group)
{
  emu_group *g = &b->side->group[group];
  emu_thread *t = b->thread + group * EMU_GROUP;
  const emu_part *first = &t->me.part;
  const uintptr_t pc = emu_now->module->image + t->wait_pc;
  for (int i = 1; i < EMU_GROUP; i++)
    if (t[i].me.part.place != first->place)
      return &t[i];
  for (int i = 1; i < EMU_GROUP; i++)
    if (t[i].me.part.product.right != first->product.right ||
        t[i].me.part.product.add != first->product.add ||
        (!first->product.a && t[i].me.part.product.left != first->product.left))
      emu_findings_misuse("the threads of a warpgroup name different operands", pc);
  for (int i = 1; i < EMU_GROUP; i++)
    if (t[i].waits_for_products != t->waits_for_products)
      emu_findings_misuse(
          "a wait for products is one instruction of all threads of a warpgroup, and some have "
          "waited where others have not",
          pc);
  if ((int)(g->begun - g->done) == g->room) {
    g->room = g->room ? 2 * g->room : 8;
    g->work = realloc(g->work, (size_t)g->room * sizeof *g->work);
    if (!g->work)
      abort();
  }
  emu_work *w = &g->work[g->begun - g->done];
  w->of = first->product;
  for (int i = 0; i < EMU_GROUP; i++) {
    w->c[i] = t[i].me.part.product.c;
    w->a[i] = t[i].me.part.product.a;
    t[i].products++;
  }
  g->begun++;
  check(b, group, &w->of, pc);
  if (emu_now->options->landing == EMU_LAND_EARLY)
    finish_next(b, g);
  return NULL;
}

void emu_products_commit(void)
{
  emu_thread *t = emu_now->self;
  if (t->product_groups == EMU_PRODUCT_GROUPS) {
    memmove(t->product_group, t->product_group + 1, sizeof t->product_group - sizeof *t->product_group);
    t->product_groups--;
  }
  t->product_group[t->product_groups++] = t->products;
}

void emu_products_wait(int left)
{
  emu_thread *t = emu_now->self;
  t->waits_for_products = 31 * t->waits_for_products + (uint32_t)left + 1;
  if (!t->home->side || t->product_groups <= left)
    return;
  int group = t->me.thread / EMU_GROUP;
  emu_group *g = &t->home->side->group[group];
  uint32_t until = t->product_group[t->product_groups - 1 - left];
  while (g->done < until)
    finish_next(t->home, g);
  t->products_done = until > t->products_done ? until : t->products_done;
  emu_clocks_awaited(t, (unsigned)(EMU_AGENT_PRODUCTS + group), until + 1);
}

void emu_products_end(emu_thread *t)
{
  for (int i = 0; i < t->register_arrays; i++)
    if (t->registers[i].product > t->products_done) {
      emu_event e = {.kind = EMU_NEVER_AWAITED, .address = t->registers[i].from, .pc = t->registers[i].pc};
      emu_findings_add(&e);
      break;
    }
}
