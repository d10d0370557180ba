/* verify.c -- runs the small cases, and judges whole images.
 *
 * In: a loaded config. Out: a verdict. All cases lie in one image: it is copied in, every case launched, and
 * copied out, in a few rounds. The first round is judged; the others must equal it to the bit. */
#include "verify.h"

#include "oracle/half.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 3, CASES_MOST = 32 };

/* The workspace that the largest case needs, which cases the config takes, and what is launched for each. */
typedef struct launches {
  bool taken[CASES_MOST];
  fat_launch launch[CASES_MOST];
  int64_t workspace;
} launches;

static __attribute__((format(printf, 2, 3))) void wrong(fat_verdict *v, const char *format, ...)
{
  va_list arguments;
  v->outcome = FAT_OUT_WRONG;
  va_start(arguments, format);
  vsnprintf(v->detail, sizeof v->detail, format, arguments);
  va_end(arguments);
}

/* Cases that calls of such sizes would not be given it for tell nothing of it. */
static bool takes(const fat_assignment *a, const fat_subject *subject, const fat_case *c)
{
  const fat_sizes sizes = fat_recipe_sizes(&c->problem, a->sms);
  return c->unit % subject->unit == 0 && fat_recipe_valid(&subject->recipe, &sizes, NULL) == FAT_OK;
}

static fat_status prepare_launches(fat_testbed *s, const fat_assignment *a, const fat_subject *subject,
                                   launches *p, fat_error *err)
{
  int taken = 0;
  p->workspace = 0;
  for (int i = 0; i < s->cases.count && i < CASES_MOST; i++) {
    const fat_problem *q = &s->cases.list[i].problem;
    p->taken[i] = takes(a, subject, &s->cases.list[i]);
    if (!p->taken[i])
      continue;
    taken++;
    FAT_TRY(fat_launch_prepare(&subject->recipe, q, a->sms, subject->module, &p->launch[i], err));
    if (p->launch[i].workspace > p->workspace)
      p->workspace = p->launch[i].workspace;
  }
  if (taken == 0)
    return fat_status_fail(err, FAT_E_ALIGNMENT,
                           "%s: no case has sizes that it serves and tensors at multiples of %d bytes",
                           s->cases.family, subject->unit);
  return fat_testbed_workspace(s, p->workspace, err);
}

/* Runs one case over a poisoned workspace with a guard right behind what it asked for. */
static fat_status run_guarded(fat_testbed *s, const fat_case *c, const fat_launch *launch,
                              const fat_call *call, fat_verdict *v, fat_error *err)
{
  bool intact;
  FAT_TRY(fat_testbed_poison(s, launch->workspace, err));
  FAT_TRY(fat_launch_run(s->driver, launch, call, s->workspace.at, NULL, err));
  FAT_TRY(
      fat_testbed_intact(s, launch->workspace, &intact, err)); /* the next case lays its guard elsewhere */
  if (!intact)
    wrong(v, "%s: something was written behind the workspace of %lld bytes", c->title,
          (long long)launch->workspace);
  return FAT_OK;
}

/* All cases once; the image as it is afterwards lies in s->got. */
static fat_status run_round(fat_testbed *s, const launches *p, bool bare, fat_verdict *v, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(s->driver);
  size_t bytes = (size_t)s->cases.bytes;
  FAT_TRY(
      fat_driver_check(s->driver, "cuMemcpyHtoD", cuda->copy_in(s->image.at, s->cases.image, bytes), err));
  for (int i = 0; i < s->cases.count; i++) {
    const fat_case *c = &s->cases.list[i];
    const fat_call call = fat_testbed_call(c->scale, c->slot, s->image.at);
    if (!p->taken[i])
      continue;
    if (bare)
      FAT_TRY(fat_launch_run(s->driver, &p->launch[i], &call, s->workspace.at, NULL, err));
    else
      FAT_TRY(run_guarded(s, c, &p->launch[i], &call, v, err));
    if (v->outcome != FAT_OUT_OK)
      return FAT_OK;
  }
  FAT_TRY(fat_driver_check(s->driver, "cuCtxSynchronize", cuda->context_sync(), err));
  return fat_driver_check(s->driver, "cuMemcpyDtoH", cuda->copy_out(s->got, s->image.at, bytes), err);
}

/* Keeps the error that is nearest to its bound. */
static void note_error(fat_verdict *v, double most, double allowed)
{
  if (most / allowed > v->error_max / v->error_allowed || !(v->error_allowed > 0)) {
    v->error_max = most;
    v->error_allowed = allowed;
  }
}

/* One output of one case. */
static bool judge(const fat_case *c, int tensor, bool stores, const char *image, fat_verdict *v)
{
  const fat_slot *s = &c->slot[tensor];
  const double *right = c->truth.right[tensor], allowed = c->truth.allowed[tensor][stores];
  double most = 0;
  for (int64_t b = 0; b < s->size[0]; b++)
    for (int64_t h = 0; h < s->size[1]; h++)
      for (int64_t n = 0; n < s->size[2]; n++)
        for (int64_t x = 0; x < s->size[3]; x++, right++) {
          float got;
          fat_half_load(s->type, &got, image + fat_image_row(s, b, h, n) + x * s->bytes, 1);
          double off = fat_reference_off(*right, got);
          most = off > most ? off : most;
          if (off <= allowed)
            continue;
          wrong(v,
                "%s: %s[batch %lld, head %lld, row %lld, column %lld] is %.9g, right is %.9g: off by %.3g, "
                "allowed %.3g",
                c->title, fat_tensors[tensor].name, (long long)b, (long long)h, (long long)n, (long long)x,
                (double)got, *right, off, allowed);
          v->error_max = off;
          v->error_allowed = allowed;
          return false;
        }
  note_error(v, most, allowed);
  return true;
}

/* Poisons the elements of an output again, so that the image can be compared with the original. */
static void blot(const fat_slot *s, char *image)
{
  const uint32_t poison = FAT_IMAGE_POISON;
  for (int64_t b = 0; b < s->size[0]; b++)
    for (int64_t h = 0; h < s->size[1]; h++)
      for (int64_t n = 0; n < s->size[2]; n++)
        for (int64_t x = 0; x < s->size[3]; x++)
          memcpy(image + fat_image_row(s, b, h, n) + x * s->bytes, &poison, (size_t)s->bytes);
}

/* Which tensor a byte lies in or behind. */
static void say_stray(const fat_cases *cases, int64_t byte, fat_verdict *v)
{
  const fat_case *in = &cases->list[0];
  int tensor = FAT_Q;
  char names[FAT_IMAGE_NAMES];
  for (int i = 0; i < cases->count; i++)
    for (int t = 0; t < FAT_TENSORS; t++) {
      const fat_slot *s = &cases->list[i].slot[t];
      if (s->role != FAT_ROLE_NONE && s->at <= byte && s->at >= in->slot[tensor].at) {
        in = &cases->list[i];
        tensor = t;
      }
    }
  wrong(v, "%s: memory that is no element of %s was written: %lld elements behind the first of %s", in->title,
        fat_image_outputs(&in->problem, names),
        (long long)((byte - in->slot[tensor].at) / in->slot[tensor].bytes), fat_tensors[tensor].name);
}

static void judge_image(fat_testbed *s, const launches *p, const fat_subject *subject, fat_verdict *v)
{
  for (int i = 0; i < s->cases.count; i++) {
    const fat_case *c = &s->cases.list[i];
    for (int t = 0; t < FAT_TENSORS && p->taken[i]; t++)
      if (fat_tensors_is_out(c->slot[t].role) && !judge(c, t, subject->stores, s->got, v))
        return;
  }
  for (int i = 0; i < s->cases.count; i++)
    for (int t = 0; t < FAT_TENSORS; t++)
      if (fat_tensors_is_out(s->cases.list[i].slot[t].role))
        blot(&s->cases.list[i].slot[t], s->got);
  for (int64_t at = 0; at < s->cases.bytes; at++)
    if (s->got[at] != s->cases.image[at]) {
      say_stray(&s->cases, at, v);
      return;
    }
}

/* Outputs that are summed in no fixed order are judged again, and then made what they were in the first
 * round, so that all can be compared to the bit. */
static void judge_reduced(fat_testbed *s, const launches *p, const fat_subject *subject, fat_verdict *v)
{
  for (int i = 0; i < s->cases.count; i++)
    for (int t = 0; t < FAT_TENSORS; t++) {
      const fat_case *c = &s->cases.list[i];
      const fat_slot *slot = &c->slot[t];
      if (!(subject->recipe.reduced >> t & 1) || !p->taken[i])
        continue;
      if (!judge(c, t, subject->stores, s->got, v))
        return;
      for (int64_t b = 0; b < slot->size[0]; b++)
        for (int64_t h = 0; h < slot->size[1]; h++)
          for (int64_t n = 0; n < slot->size[2]; n++) {
            const int64_t at = fat_image_row(slot, b, h, n);
            memcpy(s->got + at, s->before + at, (size_t)(slot->size[3] * slot->bytes));
          }
    }
}

fat_status fat_verify_cases(fat_testbed *testbed, const fat_assignment *a, const fat_subject *subject,
                            fat_verdict *verdict, fat_error *err)
{
  launches p;
  size_t bytes = (size_t)testbed->cases.bytes;
  verdict->outcome = FAT_OUT_OK;
  verdict->error_max = verdict->error_allowed = 0;
  FAT_TRY(prepare_launches(testbed, a, subject, &p, err));
  for (int round = 0; round < (a->bare ? 1 : ROUNDS) && verdict->outcome == FAT_OUT_OK; round++) {
    FAT_TRY(run_round(testbed, &p, a->bare, verdict, err));
    if (verdict->outcome != FAT_OUT_OK)
      break;
    if (round == 0)
      memcpy(testbed->before, testbed->got, bytes);
    else
      judge_reduced(testbed, &p, subject, verdict);
    if (verdict->outcome == FAT_OUT_OK && memcmp(testbed->before, testbed->got, bytes) != 0)
      wrong(verdict, "%s: the same call gave other bits in run %d", testbed->cases.family, round + 1);
    if (round == 0)
      judge_image(testbed, &p, subject, verdict);
  }
  return FAT_OK;
}
