/* make.h -- an immutable launchable choice for one problem or family in one context. */
#ifndef FAT_MAKE_H
#define FAT_MAKE_H

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

/* The known plan, or a new one; one more reference for the caller. */
fat_status fat_make_plan(fatune *handle, const fatune_request *request, fatune_plan **plan, fat_error *err);
/* Its problem or family as text, in `text`. */
const char *fat_make_print(const fatune_plan *plan, char text[FAT_PROBLEM_TEXT]);
/* The choice alone, as lines of text; the status says whether there is one. */
fat_status fat_make_look(fatune *handle, const fatune_request *request, fat_text *why, fat_error *err);
void fat_make_release(fatune_plan *plan);

#endif
