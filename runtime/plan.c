/* plan.c -- what a plan is called, and its end. */
#include "plan.h"

#include <stdlib.h>

const char *fat_plan_print(const fatune_plan *p, char text[FAT_PROBLEM_TEXT])
{
  return p->is_family ? fat_problem_family(&p->problem, text) : fat_problem_print(&p->problem, text);
}

void fat_plan_release(fatune_plan *plan)
{
  if (!plan || atomic_fetch_sub_explicit(&plan->references, 1, memory_order_acq_rel) != 1)
    return;
  fat_family_free(&plan->family);
  fat_plan_release(plan->before);
  free(plan->kernel);
  free(plan->text);
  free(plan);
}
