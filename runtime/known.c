/* known.c -- the plans that a handle knows.
 *
 * In: a plan that is asked for or made. Out: that which was made before for the same, in a short list under a
 * lock of its own. A family's plan gives its place to one that has more of its kernels built. */
#include "known.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t fat_known_key(const fatune_plan *p)
{
  char text[FAT_PROBLEM_TEXT];
  const char *kernel = p->kernel ? p->kernel : "";
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  fat_plan_print(p, text);
  hash = mix(hash, text, strlen(text) + 1);
  hash = mix(hash, kernel, strlen(kernel) + 1);
  hash = mix(hash, &p->policy, sizeof p->policy);
  hash = mix(hash, &p->flags, sizeof p->flags);
  hash = mix(hash, &p->context.handle, sizeof p->context.handle);
  return mix(hash, &p->context.id, sizeof p->context.id);
}

static bool is_same(const fatune_plan *a, const fatune_plan *b)
{
  char x[FAT_PROBLEM_TEXT], y[FAT_PROBLEM_TEXT];
  return a->key == b->key && a->policy == b->policy && a->flags == b->flags &&
         fat_context_same(&a->context, &b->context) && !a->kernel == !b->kernel &&
         (!a->kernel || strcmp(a->kernel, b->kernel) == 0) &&
         strcmp(fat_plan_print(a, x), fat_plan_print(b, y)) == 0;
}

/* Whether a plan has all that was asked to be built in `draft`. */
static bool has_built(const fatune_plan *plan, const fatune_plan *draft)
{
  const fat_shape *shape;
  if (!draft->later)
    return plan->family.unbuilt == 0 && !plan->family.far_unbuilt;
  return !draft->has_call ||
         fat_family_needs(&plan->family, &draft->call, &plan->room, plan->sms, &shape) == FAT_NEEDS_NOTHING;
}

static void hold(fatune_plan *plan)
{
  atomic_fetch_add_explicit(&plan->references, 1, memory_order_relaxed);
}

static fatune_plan *find(fatune *h, const fatune_plan *draft, bool built)
{
  fatune_plan *found = NULL;
  pthread_mutex_lock(&h->lookup);
  for (int i = 0; i < h->count && !found; i++)
    if (is_same(h->known[i], draft) && (!built || has_built(h->known[i], draft)))
      found = h->known[i];
  if (found)
    hold(found);
  pthread_mutex_unlock(&h->lookup);
  return found;
}

fatune_plan *fat_known_find(fatune *h, const fatune_plan *draft)
{
  return find(h, draft, true);
}

fatune_plan *fat_known_before(fatune *h, const fatune_plan *draft)
{
  return find(h, draft, false);
}

/* Whose place is taken: that of the same request, of which the new plan has built more; else that of the
 * oldest plan that nobody holds, else of the oldest. Nobody comes to hold one meanwhile: that is done under
 * the same lock. */
static int place_for(const fatune *h, const fatune_plan *plan)
{
  for (int i = 0; i < h->count; i++)
    if (is_same(h->known[i], plan))
      return i;
  if (h->count < FAT_HANDLE_PLANS)
    return h->count;
  for (int i = 0; i < FAT_HANDLE_PLANS; i++) {
    const int at = (h->next + i) % FAT_HANDLE_PLANS;
    if (atomic_load_explicit(&h->known[at]->references, memory_order_acquire) == 1)
      return at;
  }
  return h->next;
}

void fat_known_put(fatune *h, fatune_plan *plan)
{
  fatune_plan *forgotten = NULL;
  hold(plan);
  pthread_mutex_lock(&h->lookup);
  h->release = fat_plan_release;
  const int at = place_for(h, plan);
  if (at < h->count)
    forgotten = h->known[at];
  if (at < h->count && !is_same(forgotten, plan))
    h->next = (at + 1) % FAT_HANDLE_PLANS;
  h->known[at] = plan;
  h->count += at == h->count;
  pthread_mutex_unlock(&h->lookup);
  fat_plan_release(forgotten);
}
