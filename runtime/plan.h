/* plan.h -- an immutable launchable choice for one problem or family in one context. */
#ifndef FAT_PLAN_H
#define FAT_PLAN_H

#include "call.h"
#include "choose.h"

struct fatune_plan {
  atomic_int references; /* callers, and the handle's list of known plans */
  fatune *handle;
  unsigned forks;
  uint64_t key;        /* hash of what follows, for the list of known plans */
  fat_problem problem; /* of a family: sizes and numbers mean nothing */
  bool is_family;
  fat_call_form form;
  fat_call_layout layout;
  char *kernel; /* or NULL */
  uint32_t policy, flags;
  bool later, has_call; /* of a family: kernels are built when calls need them; that of `call` is */
  fat_problem call;
  struct fatune_plan *before; /* holds kernels that the family has from there; NULL: it has its own */
  fat_context context;
  int64_t sms; /* of its device */
  fat_room room;
  fat_family family; /* the kernels; of a problem one, and none where a length of it is 0 */
  /* Of a problem's plan: its kernel and twin with the numbers of its own sizes. */
  fat_launch main, twin;
  unsigned alignment, twin_alignment; /* bytes; twin_alignment 0: there is no twin */
  int64_t workspace;                  /* of whichever kernel needs more */
  char *text;                         /* for fatune_describe */
};

/* Its problem or family as text, in `text`. */
const char *fat_plan_print(const fatune_plan *plan, char text[FAT_PROBLEM_TEXT]);
/* One reference less. NULL is allowed. */
void fat_plan_release(fatune_plan *plan);

#endif
