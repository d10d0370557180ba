/* testbed.c -- device memory of a worker and what lies in it.
 *
 * In: an assignment. Out: images on the device. Invariant: whatever fails, what is held stays consistent, so
 * that the next assignment finds either what it needs or nothing. */
#include "testbed.h"

#include "oracle/half.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 1024, WORD = 4, SETS_MOST = 64, L2_TIMES = 5 }; /* guard: words behind a workspace */

static void room_free(const fat_driver *driver, fat_buffer *room)
{
  if (room->bytes)
    fat_driver_table(driver)->memory_free(room->at);
  *room = (fat_buffer){0};
}

static fat_status room_grow(const fat_driver *driver, fat_buffer *room, size_t bytes, const char *what,
                            fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  size_t free = 0, total = 0;
  if (room->bytes >= bytes)
    return FAT_OK;
  room_free(driver, room);
  int result = cuda->memory_alloc(&room->at, bytes);
  if (result == FAT_CUDA_OUT_OF_MEMORY) {
    cuda->memory_info(&free, &total);
    return fat_status_fail(err, FAT_E_DEVICE_MEMORY, "%s needs %.1f MiB, and %.1f of the GPU's %.1f are free",
                           what, (double)bytes / 1048576, (double)free / 1048576, (double)total / 1048576);
  }
  FAT_TRY(fat_driver_check(driver, "cuMemAlloc", result, err));
  room->bytes = bytes;
  return FAT_OK;
}

/* Poison over bytes `from` to `to` of an image, both multiples of a word. */
static fat_status fill(const fat_driver *driver, fat_cuda_address base, int64_t from, int64_t to,
                       fat_error *err)
{
  if (to <= from)
    return FAT_OK;
  return fat_driver_check(driver, "cuMemsetD32Async",
                          fat_driver_table(driver)->fill32_async(base + (fat_cuda_address)from,
                                                                 FAT_IMAGE_POISON, (size_t)(to - from) / WORD,
                                                                 NULL),
                          err);
}

/* -- the cases of the family */

static fat_status prepare_cases(fat_testbed *s, const fat_assignment *a, fat_error *err)
{
  char family[FAT_PROBLEM_TEXT];
  if (s->cases.list && strcmp(s->cases.family, fat_problem_family(&a->problem, family)) == 0)
    return FAT_OK;
  fat_cases_free(&s->cases);
  free(s->got);
  free(s->before);
  s->got = s->before = NULL;
  FAT_TRY(fat_cases_make(&a->problem, a->seed, &s->cases, err));
  size_t bytes = (size_t)s->cases.bytes;
  s->got = malloc(bytes);
  s->before = malloc(bytes);
  fat_status status = s->got && s->before
                          ? room_grow(s->driver, &s->image, bytes, "verifying", err)
                          : fat_status_fail(err, FAT_E_NOMEM, "out of memory for copies of the cases");
  if (status != FAT_OK)
    fat_cases_free(&s->cases);
  return status;
}

/* -- the problem at its own size */

static fat_cuda_address set_at(const fat_testbed *s, int set)
{
  return s->sets.at + (fat_cuda_address)set * (fat_cuda_address)s->spots.bytes;
}

static fat_status copy_on_device(const fat_testbed *s, fat_cuda_address to, fat_cuda_address from,
                                 int64_t bytes, fat_error *err)
{
  return fat_driver_check(s->driver, "cuMemcpyDtoDAsync",
                          fat_driver_table(s->driver)->copy_async(to, from, (size_t)bytes, NULL), err);
}

/* An input of the first set: these elements, over and over. */
static fat_status repeat(const fat_testbed *s, int t, const void *elements, int64_t bytes, fat_error *err)
{
  const int64_t span = fat_image_span(&s->spots.slot[t]);
  const fat_cuda_address at = set_at(s, 0) + (fat_cuda_address)s->spots.slot[t].at;
  int64_t filled = span < bytes ? span : bytes;
  if (filled == 0)
    return FAT_OK;
  FAT_TRY(fat_driver_check(s->driver, "cuMemcpyHtoD",
                           fat_driver_table(s->driver)->copy_in(at, elements, (size_t)filled), err));
  while (filled < span) {
    const int64_t more = span - filled < filled ? span - filled : filled;
    FAT_TRY(copy_on_device(s, at + (fat_cuda_address)filled, at, more, err));
    filled += more;
  }
  return FAT_OK;
}

/* `count` numbers as an input of the first set has them. */
static fat_status fill_with(const fat_testbed *s, int t, const float *numbers, int64_t count, fat_error *err)
{
  const fat_slot *slot = &s->spots.slot[t];
  char *elements = malloc((size_t)(count * slot->bytes) + 1);
  if (!elements)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for random numbers");
  fat_half_store(slot->type, elements, numbers, count);
  const fat_status status = repeat(s, t, elements, count * slot->bytes, err);
  free(elements);
  return status;
}

/* The first numbers of an input, from malloc; NULL without memory. */
static float *numbers_of(const fat_testbed *s, int t, int64_t count)
{
  float *x = malloc((size_t)(count ? count : 1) * sizeof *x);
  for (int64_t e = 0; x && e < count; e++)
    x[e] = fat_spots_number(&s->spots, s->block, t, e);
  return x;
}

/* One input of the first set: the block's numbers, converted to the input's type, over and over. */
static fat_status fill_input(const fat_testbed *s, int t, fat_error *err)
{
  const int64_t all = fat_image_span(&s->spots.slot[t]) / s->spots.slot[t].bytes;
  const bool whole = s->spots.slot[t].type == FAT_I32 || t == FAT_BLOCKS; /* not what repeats */
  const int64_t count = all < FAT_SPOTS_BLOCK || whole ? all : FAT_SPOTS_BLOCK;
  float *numbers = numbers_of(s, t, count);
  const fat_status status = numbers ? fill_with(s, t, numbers, count, err)
                                    : fat_status_fail(err, FAT_E_NOMEM, "out of memory for random numbers");
  free(numbers);
  return status;
}

/* The first set: poison, and the inputs in it. */
static fat_status fill_first(const fat_testbed *s, fat_error *err)
{
  const fat_spots *a = &s->spots;
  FAT_TRY(fill(s->driver, set_at(s, 0), 0, a->bytes, err));
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors_is_in(a->slot[t].role))
      FAT_TRY(fill_input(s, t, err));
  return FAT_OK;
}

fat_status fat_testbed_clear(const fat_testbed *testbed, int set, fat_error *err)
{
  return fill(testbed->driver, set_at(testbed, set), testbed->spots.outputs, testbed->spots.bytes, err);
}

/* As many sets as fill the L2 cache several times, if memory allows; at least one. */
static fat_status grow_sets(fat_testbed *s, int64_t l2, fat_error *err)
{
  size_t one = (size_t)s->spots.bytes;
  size_t sets = ((size_t)l2 * L2_TIMES + one - 1) / one;
  sets = sets < 1 ? 1 : sets > SETS_MOST ? SETS_MOST : sets;
  fat_status status;
  for (;; sets /= 2) {
    fat_error why = {0};
    status = room_grow(s->driver, &s->sets, sets * one, "the problem", &why);
    if (status != FAT_E_DEVICE_MEMORY || sets == 1) {
      if (status != FAT_OK)
        fat_status_fail(err, status, "%s", why.text);
      break;
    }
  }
  s->set_count = (int)sets;
  return status;
}

static fat_status fill_sets(fat_testbed *s, fat_error *err)
{
  FAT_TRY(fill_first(s, err));
  for (int i = 1; i < s->set_count; i++)
    FAT_TRY(copy_on_device(s, set_at(s, i), set_at(s, 0), s->spots.bytes, err));
  return fat_driver_check(s->driver, "cuCtxSynchronize", fat_driver_table(s->driver)->context_sync(), err);
}

static fat_status prepare_spots(fat_testbed *s, const fat_assignment *a, fat_error *err)
{
  char had[FAT_PROBLEM_TEXT], asked[FAT_PROBLEM_TEXT];
  fat_problem_print(&s->spots.problem, had);
  if (s->filled && strcmp(had, fat_problem_print(&a->problem, asked)) == 0)
    return FAT_OK;
  s->filled = false;
  fat_spots_free(&s->spots);
  if (!s->block && !(s->block = fat_spots_block(a->seed)))
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for random numbers");
  FAT_TRY(fat_spots_make(&a->problem, s->block, &s->spots, err));
  fat_status status = grow_sets(s, a->l2, err);
  if (status == FAT_E_DEVICE_MEMORY &&
      s->workspace.bytes) { /* the workspace of another problem is in the way */
    room_free(s->driver, &s->workspace);
    status = grow_sets(s, a->l2, err);
  }
  FAT_TRY(status);
  FAT_TRY(fill_sets(s, err));
  s->filled = true;
  return FAT_OK;
}

fat_status fat_testbed_prepare(fat_testbed *testbed, const fat_assignment *a, fat_error *err)
{
  if (a->task != FAT_TASK_RACE)
    FAT_TRY(prepare_cases(testbed, a, err));
  return a->bare ? FAT_OK : prepare_spots(testbed, a, err);
}

/* -- kinds of data */

/* What a kind changes: LSE where it is an input, that of a backward call. ORDER BENT */
static const fat_tensor bent[] = {FAT_Q, FAT_K, FAT_LSE};
enum { BENT = sizeof bent / sizeof *bent };

static bool is_bent(const fat_testbed *s, int i)
{
  return s->spots.slot[bent[i]].role == FAT_ROLE_IN;
}

/* One head of each in the first set, for all heads. */
static fat_status fill_kind(const fat_testbed *s, int kind, fat_error *err)
{
  float *head[BENT] = {NULL};
  int64_t count[BENT] = {0};
  fat_status status = FAT_OK;
  for (int i = 0; i < BENT && status == FAT_OK; i++) {
    const fat_slot *slot = &s->spots.slot[bent[i]];
    if (!is_bent(s, i))
      continue;
    count[i] = slot->size[2] * slot->size[3];
    head[i] = numbers_of(s, bent[i], count[i]);
    if (!head[i])
      status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for a kind of data");
  }
  fat_problem of = s->spots.problem;
  of.q = s->spots.slot[FAT_Q].size[2];
  of.k = s->spots.slot[FAT_K].size[2];
  if (status == FAT_OK)
    fat_kinds_bend(&of, kind, s->spots.scale, head[0], head[1], head[2]);
  for (int i = 0; i < BENT; i++) {
    if (is_bent(s, i) && status == FAT_OK)
      status = fill_with(s, bent[i], head[i], count[i], err);
    free(head[i]);
  }
  return status;
}

fat_status fat_testbed_bend(fat_testbed *testbed, int kind, fat_error *err)
{
  fat_testbed *s = testbed;
  s->filled = false;
  if (kind)
    FAT_TRY(fill_kind(s, kind, err));
  for (int i = 0; i < BENT; i++) {
    const fat_slot *slot = &s->spots.slot[bent[i]];
    if (!is_bent(s, i))
      continue;
    if (!kind)
      FAT_TRY(fill_input(s, bent[i], err));
    for (int set = 1; set < s->set_count; set++)
      FAT_TRY(copy_on_device(s, set_at(s, set) + (fat_cuda_address)slot->at,
                             set_at(s, 0) + (fat_cuda_address)slot->at, fat_image_span(slot), err));
  }
  FAT_TRY(fat_driver_check(s->driver, "cuCtxSynchronize", fat_driver_table(s->driver)->context_sync(), err));
  s->filled = kind == 0;
  return FAT_OK;
}

void fat_testbed_close(fat_testbed *testbed)
{
  room_free(testbed->driver, &testbed->image);
  room_free(testbed->driver, &testbed->sets);
  room_free(testbed->driver, &testbed->workspace);
  fat_cases_free(&testbed->cases);
  fat_spots_free(&testbed->spots);
  free(testbed->got);
  free(testbed->before);
  free(testbed->block);
  *testbed = (fat_testbed){0};
}

/* -- calls */

fat_call fat_testbed_call(float scale, const fat_slot slot[FAT_TENSORS], fat_cuda_address base)
{
  fat_call c = {.scale = scale};
  fat_tensors_usual(c.scalar);
  for (int t = 0; t < FAT_TENSORS; t++)
    if (slot[t].role != FAT_ROLE_NONE) {
      const fat_cuda_address at = base + (fat_cuda_address)slot[t].at;
      c.tensor[t].data = (void *)(uintptr_t)at;
      memcpy(c.tensor[t].stride, slot[t].stride, sizeof c.tensor[t].stride);
    }
  return c;
}

fat_call fat_testbed_set_call(const fat_testbed *testbed, int set)
{
  return fat_testbed_call(testbed->spots.scale, testbed->spots.slot, set_at(testbed, set));
}

/* -- workspace */

fat_status fat_testbed_workspace(fat_testbed *testbed, int64_t bytes, fat_error *err)
{
  if (bytes == 0)
    return FAT_OK;
  size_t need = (size_t)bytes + GUARD * WORD;
  fat_status status = room_grow(testbed->driver, &testbed->workspace, need, "its workspace", err);
  if (status != FAT_E_DEVICE_MEMORY || !testbed->filled || testbed->set_count == 1)
    return status;
  /* Fewer copies of the tensors make room: one, in memory of its own size. */
  testbed->filled = false;
  room_free(testbed->driver, &testbed->sets);
  testbed->set_count = 1;
  FAT_TRY(room_grow(testbed->driver, &testbed->sets, (size_t)testbed->spots.bytes, "the problem", err));
  FAT_TRY(fill_sets(testbed, err));
  testbed->filled = true;
  return room_grow(testbed->driver, &testbed->workspace, need, "its workspace", err);
}

fat_status fat_testbed_poison(const fat_testbed *testbed, int64_t bytes, fat_error *err)
{
  int64_t words = (bytes + WORD - 1) / WORD + GUARD - 1;
  return bytes == 0 ? FAT_OK : fill(testbed->driver, testbed->workspace.at, 0, words * WORD, err);
}

fat_status fat_testbed_intact(const fat_testbed *testbed, int64_t bytes, bool *intact, fat_error *err)
{
  uint32_t guard[GUARD - 1];
  *intact = true;
  if (bytes == 0)
    return FAT_OK;
  fat_cuda_address at = testbed->workspace.at + (fat_cuda_address)((bytes + WORD - 1) / WORD * WORD);
  FAT_TRY(fat_driver_check(testbed->driver, "cuMemcpyDtoH",
                           fat_driver_table(testbed->driver)->copy_out(guard, at, sizeof guard), err));
  for (int i = 0; i < GUARD - 1; i++)
    *intact = *intact && guard[i] == FAT_IMAGE_POISON;
  return FAT_OK;
}
