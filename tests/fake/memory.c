/* memory.c -- device memory: host memory in one reserved range of addresses, with canaries around each piece.
 *
 * Fresh memory is FAKE_POISON, a NaN (of more than 32 MiB the ends only); before and behind it lie FAKE_GUARD
 * bytes of the same, which are looked at when it is freed or fake_canaries asks. An address is used again
 * only when the range is at its end. Device totals count, so out of memory is reached at the size of a real
 * card while only touched pages exist. FAKE_CUDA_USED: bytes that "another process" holds. */
#include "fake.h"
#include "memory.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct block {
  size_t begin, end; /* with guards, whole pages, from the start of the arena */
  char *data;
  size_t bytes;
  const fake_context *context;
  int ordinal;
  _Atomic bool written; /* by a copy or a fill */
  bool observed;        /* the emulator keeps cells for it */
} block;

#define PAGE    ((size_t)4096)
#define SCRATCH ((size_t)64 << 20) /* the emulator's own, at the start of the arena */
#define ENDS    ((size_t)16 << 20)

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static char *arena;
static size_t arena_bytes, next = SCRATCH;
static block *blocks; /* ascending */
static int count, room;
static size_t used[FAKE_DEVICES];
static emu *watcher;

static bool reserve(void)
{
  for (size_t bytes = (size_t)160 << 30; !arena && bytes >= (size_t)1 << 30; bytes /= 2) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
      continue;
    madvise(p, bytes, MADV_NOHUGEPAGE);
    arena = p;
    arena_bytes = bytes;
  }
  return arena != NULL;
}

static void poison(char *from, size_t bytes)
{
  const uint32_t word = FAKE_POISON;
  for (size_t i = 0; i < bytes; i++)
    from[i] = (char)(word >> 8 * (((uintptr_t)from + i) % 4));
}

static bool is_poison(const char *from, size_t bytes)
{
  const uint32_t word = FAKE_POISON;
  for (size_t i = 0; i < bytes; i++)
    if (from[i] != (char)(word >> 8 * (((uintptr_t)from + i) % 4)))
      return false;
  return true;
}

/* Bytes up to which the last word of a piece counts as its own. */
static size_t rounded(size_t bytes)
{
  return (bytes + 3) / 4 * 4;
}

/* The index of the first block that ends behind `offset`. */
static int first_behind(size_t offset)
{
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (blocks[middle].end > offset)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static block *around(const void *address)
{
  size_t offset = (size_t)((const char *)address - arena);
  if (!arena || (const char *)address < arena || offset >= arena_bytes)
    return NULL;
  int i = first_behind(offset);
  return i < count && blocks[i].begin <= offset ? &blocks[i] : NULL;
}

static block *holder(const void *address, size_t bytes)
{
  block *b = around(address);
  const char *p = address;
  return b && p >= b->data && bytes <= b->bytes && (size_t)(p - b->data) <= b->bytes - bytes ? b : NULL;
}

/* A gap of `bytes`, from `next` on and then from the start; its place in the list. */
static int find_gap(size_t bytes, size_t *begin)
{
  for (int turn = 0; turn < 2; turn++) {
    size_t at = turn ? SCRATCH : next;
    for (int i = first_behind(at);; i++) {
      if (i < count && blocks[i].begin < at + bytes) {
        at = blocks[i].end;
        continue;
      }
      if (i == count && at + bytes > arena_bytes)
        break;
      *begin = at;
      return i;
    }
  }
  return -1;
}

static block *insert(int at)
{
  if (count == room) {
    int more = room ? 2 * room : 64;
    block *grown = realloc(blocks, (size_t)more * sizeof *blocks);
    if (!grown)
      return NULL;
    blocks = grown;
    room = more;
  }
  memmove(blocks + at + 1, blocks + at, (size_t)(count - at) * sizeof *blocks);
  count++;
  return &blocks[at];
}

static size_t available(int ordinal)
{
  const char *others = getenv("FAKE_CUDA_USED");
  size_t total = fake_device_memory(ordinal), gone = others ? (size_t)strtoull(others, NULL, 10) : 0;
  gone += used[ordinal];
  return gone < total ? total - gone : 0;
}

static int alloc(fake_context *c, fat_cuda_address *address, size_t bytes)
{
  size_t begin, whole = (FAKE_GUARD + bytes + FAKE_GUARD + PAGE - 1) / PAGE * PAGE;
  if (bytes > available(c->ordinal) || !reserve())
    return FAT_CUDA_OUT_OF_MEMORY;
  int at = find_gap(whole, &begin);
  block *b = at < 0 ? NULL : insert(at);
  if (!b)
    return FAT_CUDA_OUT_OF_MEMORY;
  *b = (block){.begin = begin, .end = begin + whole, .bytes = bytes, .context = c, .ordinal = c->ordinal};
  b->data = arena + begin + FAKE_GUARD;
  next = b->end;
  used[c->ordinal] += bytes;
  if (whole <= 2 * ENDS) {
    poison(arena + begin, whole);
  } else {
    poison(arena + begin, ENDS);
    poison(arena + b->end - ENDS, ENDS);
  }
  *address = (uintptr_t)b->data;
  return 0;
}

int fake_memory_alloc(fake_context *c, fat_cuda_address *address, size_t bytes)
{
  if (bytes == 0)
    return 1;
  pthread_rwlock_wrlock(&lock);
  int result = alloc(c, address, bytes);
  pthread_rwlock_unlock(&lock);
  return result;
}

static bool is_broken(const block *b)
{
  const char *end = b->data + rounded(b->bytes);
  bool before = !is_poison(b->data - FAKE_GUARD, FAKE_GUARD), behind = !is_poison(end, FAKE_GUARD);
  if (before || behind)
    fake_found("the canary %s an allocation of %zu bytes is broken", before ? "before" : "behind", b->bytes);
  return before || behind;
}

static void drop(int i)
{
  block *b = &blocks[i];
  is_broken(b);
  used[b->ordinal] -= b->bytes;
  if (b->observed)
    emu_memory_mark(watcher, b->data, b->bytes, EMU_CLOSED);
  madvise(arena + b->begin, b->end - b->begin, MADV_DONTNEED);
  memmove(b, b + 1, (size_t)(--count - i) * sizeof *b);
}

int fake_memory_free(fake_context *c, fat_cuda_address address)
{
  int result = 1;
  pthread_rwlock_wrlock(&lock);
  block *b = around((void *)(uintptr_t)address);
  if (b && b->data == (char *)(uintptr_t)address && b->ordinal == c->ordinal) {
    drop((int)(b - blocks));
    result = 0;
  }
  pthread_rwlock_unlock(&lock);
  return result;
}

void fake_memory_free_context(const fake_context *c)
{
  pthread_rwlock_wrlock(&lock);
  for (int i = count - 1; i >= 0; i--)
    if (blocks[i].context == c)
      drop(i);
  if (count == 0) {
    free(blocks);
    blocks = NULL;
    room = 0;
  }
  pthread_rwlock_unlock(&lock);
}

void fake_memory_count(fake_live *live)
{
  pthread_rwlock_rdlock(&lock);
  live->allocations = count;
  for (int i = 0; i < count; i++)
    live->bytes += blocks[i].bytes;
  pthread_rwlock_unlock(&lock);
}

int fake_canaries(void)
{
  int broken = 0;
  pthread_rwlock_rdlock(&lock);
  for (int i = 0; i < count; i++)
    broken += is_broken(&blocks[i]);
  pthread_rwlock_unlock(&lock);
  return broken;
}

bool fake_memory_holds(const fake_context *c, fat_cuda_address address, size_t bytes)
{
  pthread_rwlock_rdlock(&lock);
  const block *b = holder((void *)(uintptr_t)address, bytes);
  bool found = b && b->ordinal == c->ordinal;
  pthread_rwlock_unlock(&lock);
  return found;
}

size_t fake_memory_available(const fake_context *c)
{
  pthread_rwlock_rdlock(&lock);
  size_t bytes = available(c->ordinal);
  pthread_rwlock_unlock(&lock);
  return bytes;
}

bool fake_memory_around(fat_cuda_address address, char **data, size_t *bytes)
{
  pthread_rwlock_rdlock(&lock);
  const block *b = holder((void *)(uintptr_t)address, 0);
  if (b) {
    *data = b->data;
    *bytes = b->bytes;
  }
  pthread_rwlock_unlock(&lock);
  return b != NULL;
}

void fake_memory_written(const void *data, size_t bytes)
{
  pthread_rwlock_rdlock(&lock);
  block *b = holder(data, bytes);
  if (b)
    atomic_store_explicit(&b->written, true, memory_order_relaxed);
  if (b && b->observed)
    emu_memory_mark(watcher, data, bytes, EMU_FILLED);
  pthread_rwlock_unlock(&lock);
}

/* ---- what the emulator sees ---- */

char *fake_memory_arena(size_t *bytes)
{
  pthread_rwlock_wrlock(&lock);
  reserve();
  *bytes = arena_bytes;
  pthread_rwlock_unlock(&lock);
  return arena;
}

void fake_memory_show(emu *e, fat_cuda_address address)
{
  pthread_rwlock_wrlock(&lock);
  watcher = e;
  block *b = holder((void *)(uintptr_t)address, 0);
  bool shadowed = b && (uintptr_t)b->data - e->hot.arena + b->bytes <= e->hot.arena_size;
  if (shadowed && !b->observed) {
    b->observed = true;
    emu_memory_mark(e, b->data, b->bytes, b->written ? EMU_FILLED : EMU_EMPTY);
  }
  pthread_rwlock_unlock(&lock);
}

void fake_memory_regions(emu *e, bool forget)
{
  enum { OWN = 8 }; /* left for the emulator's arrays */
  pthread_rwlock_rdlock(&lock);
  e->count = 0;
  for (int i = 0; i < count; i++) {
    const block *b = &blocks[i];
    int64_t words = (int64_t)(rounded(b->bytes) / 4);
    if (!b->observed)
      continue;
    if (forget)
      emu_memory_age(e, b->data, rounded(b->bytes));
    if (e->count < EMU_REGIONS - OWN)
      e->region[e->count++] = (emu_region){.layout = {.name = "an allocation",
                                                      .size = {1, 1, 1, words},
                                                      .stride = {words, words, words, 1},
                                                      .element = 4},
                                           .data = b->data,
                                           .bytes = rounded(b->bytes)};
  }
  pthread_rwlock_unlock(&lock);
}
