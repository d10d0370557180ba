/* jit.c -- a libfatune-jit of another release: it has the calls, and says a version that nobody speaks. */
#include "jit_abi.h"

int fatune_jit_abi(void)
{
  return FATUNE_JIT_ABI + 1;
}

/* Not to be called by who has read the version. */
fat_status fatune_jit_answer_request(const fatune_jit_request *request, fatune_jit_answer *answer)
{
  (void)request, (void)answer;
  __builtin_trap();
}

void fatune_jit_free(fatune_jit_answer *answer)
{
  (void)answer;
  __builtin_trap();
}
