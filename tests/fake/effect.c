/* effect.c -- results that are wrong: what a faulty kernel leaves in memory.
 *
 * The result of an attention kernel is the first output of its call; of any other kernel it is where its
 * first pointer into device memory points. Only the first word is touched (FAKE_STRAY: the last one of the
 * allocation): a checker that looks everywhere sees it, one that samples may not. */
#include "fake.h"
#include "tensors.h"
#include <string.h>

/* Where a call's first output lies: of the family that the entry's source names, or of a plain forward. */
static fat_cuda_address output_of(const fake_work *w)
{
  const fake_function *f = w->function;
  const char *family = fake_source_family(f->name);
  fat_problem p;
  fat_call_layout layout;
  if (!family || fat_problem_parse_family(family, &p, NULL) != FAT_OK)
    fat_problem_parse_family("fwd-f16-d64", &p, NULL);
  fat_tensors_layout(&p, &layout);
  for (int t = 0; t < FAT_TENSORS && f->size[0] == layout.bytes; t++)
    if (fat_tensors_is_out(fat_tensors_role(&p, t))) {
      fat_cuda_address address;
      memcpy(&address, w->params + f->offset[0] + layout.tensor[t], sizeof address);
      return address;
    }
  return 0;
}

static char *result_of(const fake_work *w, char **data, size_t *bytes)
{
  const fake_function *f = w->function;
  fat_cuda_address address;
  if (f->params > 0 && f->size[0] >= FAKE_CALL_LEAST) {
    address = output_of(w);
    return address && fake_memory_around(address, data, bytes) ? (char *)(uintptr_t)address : NULL;
  }
  for (int i = 0; i < f->params; i++) {
    if (f->size[i] != (int)sizeof address)
      continue;
    memcpy(&address, w->params + f->offset[i], sizeof address);
    if (fake_memory_around(address, data, bytes))
      return (char *)(uintptr_t)address;
  }
  return NULL;
}

/* 1 and 0 in turn for each place, however many launches lie between two to the same one. */
static uint32_t turn_of(const char *at)
{
  enum { PLACES = 4096 };
  static _Atomic unsigned turns[PLACES];
  return ~atomic_fetch_add_explicit(&turns[(uintptr_t)at / sizeof(uint32_t) % PLACES], 1,
                                    memory_order_relaxed) &
         1;
}

void fake_effect_apply(const fake_work *w, fake_effect effect)
{
  const uint32_t garbage = 0x447a0000, nan = 0x7fc07fc0; /* 1000; a NaN of every width */
  char *data;
  size_t bytes;
  uint32_t word;
  if (effect != FAKE_WRONG && effect != FAKE_NAN && effect != FAKE_UNSTABLE && effect != FAKE_STRAY)
    return;
  char *at = result_of(w, &data, &bytes);
  if (!at || (size_t)(at - data) + sizeof word > bytes) {
    fake_found("%s has no result in device memory that a fault could change", w->function->name);
    return;
  }
  memcpy(&word, at, sizeof word);
  if (effect == FAKE_UNSTABLE)
    word = (word & ~UINT32_C(1)) | turn_of(at);
  else
    word = effect == FAKE_NAN ? nan : garbage;
  if (effect == FAKE_STRAY)
    at = data + (bytes / sizeof word - 1) * sizeof word;
  memcpy(at, &word, sizeof word);
  fake_memory_written(at, sizeof word);
}
