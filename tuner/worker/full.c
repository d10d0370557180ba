/* full.c -- the problem at its own size: its known rows, its guards, its bits.
 *
 * In: a config that is right on the small cases. Out: a verdict. The outputs are too large to be computed on
 * the host, so a few rows are judged, samples of the rest must have been written, and a second run must
 * agree. */
#include "full.h"

#include "draw.h"
#include "oracle/half.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 32, PIECE = 1 << 20 /* bytes */ };

fat_status fat_full_launch(fat_testbed *testbed, const fat_assignment *a, const fat_subject *subject,
                           fat_full *full, fat_error *err)
{
  full->testbed = testbed;
  full->stores = subject->stores;
  full->reduced = subject->recipe.reduced;
  FAT_TRY(fat_launch_prepare(&subject->recipe, &a->problem, a->sms, subject->module, &full->launch, err));
  return fat_testbed_workspace(testbed, full->launch.workspace, err);
}

fat_status fat_full_work(void *user, int turn, fat_error *err)
{
  const fat_full *x = user;
  const fat_call call = fat_testbed_set_call(x->testbed, turn % x->testbed->set_count);
  return fat_launch_run(x->testbed->driver, &x->launch, &call, x->testbed->workspace.at, NULL, err);
}

static fat_status copy_out(const fat_testbed *s, int64_t from, int64_t bytes, void *to, fat_error *err)
{
  return fat_driver_check(
      s->driver, "cuMemcpyDtoH",
      fat_driver_table(s->driver)->copy_out(to, s->sets.at + (fat_cuda_address)from, (size_t)bytes), err);
}

/* The i-th of evenly spread pieces of an output: returns its bytes (whole elements), *from is where it
 * begins. */
static int64_t piece(const fat_slot *slot, int i, int64_t *from)
{
  int64_t span = fat_image_span(slot) / slot->bytes, each = (span + PIECES - 1) / PIECES, begin = each * i;
  int64_t count = begin + each <= span ? each : span - begin, most = PIECE / slot->bytes;
  *from = slot->at + begin * slot->bytes;
  return count < 0 ? 0 : (count > most ? most : count) * slot->bytes;
}

/* What was read of the outputs: the pieces of each, one tensor behind the other; `data` is owned by the
 * caller. */
typedef struct outputs {
  char *data;
  size_t bytes[FAT_TENSORS], total;
} outputs;

static bool is_output(const fat_spots *a, int t)
{
  return fat_tensors_is_out(a->slot[t].role);
}

static fat_status read_outputs(const fat_testbed *s, outputs *out, fat_error *err)
{
  const fat_spots *a = &s->spots;
  int64_t from, total = 0;
  for (int t = 0; t < FAT_TENSORS; t++)
    for (int i = 0; i < PIECES && is_output(a, t); i++)
      total += piece(&a->slot[t], i, &from);
  *out = (outputs){.data = malloc((size_t)total + 1)};
  if (!out->data)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a copy of the outputs");
  for (int t = 0; t < FAT_TENSORS; t++)
    for (int i = 0; i < PIECES && is_output(a, t); i++) {
      int64_t n = piece(&a->slot[t], i, &from);
      if (n > 0)
        FAT_TRY(copy_out(s, from, n, out->data + out->total, err));
      out->bytes[t] += (size_t)n;
      out->total += (size_t)n;
    }
  return FAT_OK;
}

/* One known row of one output. */
static fat_status judge_row(const fat_full *full, int t, int r, fat_verdict *v, fat_error *err)
{
  const fat_testbed *s = full->testbed;
  const fat_spots *a = &s->spots;
  const fat_slot *slot = &a->slot[t];
  const int side = fat_tensors[t].side;
  const int64_t b = a->row[side][r].b, h = a->row[side][r].h, i = a->row[side][r].i, width = slot->size[3];
  const double allowed = a->allowed[t][full->stores];
  enum { PART = FAT_PROBLEM_DV_MAX };
  float row[PART], elements[PART];
  char text[FAT_PROBLEM_TEXT];
  double off = 0;
  for (int64_t x0 = 0; x0 < width; x0 += PART) {
    const int64_t n = width - x0 < PART ? width - x0 : PART;
    FAT_TRY(copy_out(s, fat_spots_row(a, t, r) + x0 * slot->bytes, n * slot->bytes, elements, err));
    fat_half_load(slot->type, row, elements, n);
    for (int64_t x = 0; x < n; x++)
      off = fmax(off, fat_reference_off(a->right[t][r * width + x0 + x], row[x]));
  }
  const bool right = off <= allowed;
  if (right && off / allowed <= v->error_max / v->error_allowed)
    return FAT_OK;
  v->error_max = off;
  v->error_allowed = allowed;
  if (right)
    return FAT_OK;
  v->outcome = FAT_OUT_WRONG;
  snprintf(v->detail, sizeof v->detail,
           "%s: %s of batch %lld, head %lld, row %lld is off by %.3g, allowed is %.3g",
           fat_problem_print(&a->problem, text), fat_tensors[t].name, (long long)b, (long long)h,
           (long long)i, off, allowed);
  return FAT_OK;
}

static fat_status judge_rows(const fat_full *full, fat_verdict *v, fat_error *err)
{
  const fat_spots *a = &full->testbed->spots;
  if (a->untold && v->outcome == FAT_OUT_OK)
    snprintf(v->detail, sizeof v->detail,
             "right in all small cases; at full size no row is known: beside a made-up LSE its scores are "
             "too large");
  for (int r = 0; r < FAT_SPOTS_ROWS; r++)
    for (int t = 0; t < FAT_TENSORS && v->outcome == FAT_OUT_OK; t++)
      if (is_output(a, t) && r < a->rows[fat_tensors[t].side])
        FAT_TRY(judge_row(full, t, r, v, err));
  return FAT_OK;
}

/* The memory right behind each tensor, as far as a guard reaches. */
static fat_status judge_guards(const fat_testbed *s, fat_verdict *v, fat_error *err)
{
  char guard[FAT_IMAGE_GUARD];
  for (int t = 0; t < FAT_TENSORS && v->outcome == FAT_OUT_OK; t++) {
    const fat_slot *slot = &s->spots.slot[t];
    if (slot->role == FAT_ROLE_NONE)
      continue;
    FAT_TRY(copy_out(s, slot->at + fat_image_span(slot), FAT_IMAGE_GUARD, guard, err));
    for (int at = 0; at < FAT_IMAGE_GUARD && v->outcome == FAT_OUT_OK; at += slot->bytes)
      if (!fat_image_poisoned(slot, guard + at)) {
        v->outcome = FAT_OUT_WRONG;
        snprintf(v->detail, sizeof v->detail, "at full size: memory was written %d elements behind %s",
                 at / slot->bytes, fat_tensors[t].name);
      }
  }
  return FAT_OK;
}

/* A backward trial asks this of some 50 million elements. With a call for each a trial took 1.05 s on an
 * H200, without 0.24. */
static bool has_poison(const fat_slot *slot, const char *at, const char *end)
{
  const uint32_t poison = FAT_IMAGE_POISON;
  if (slot->bytes == sizeof(uint16_t)) /* halves of the poison are alike */
    for (; at < end; at += sizeof(uint16_t))
      if (memcmp(at, &poison, sizeof(uint16_t)) == 0)
        return true;
  for (; at < end; at += slot->bytes)
    if (fat_image_poisoned(slot, at))
      return true;
  return false;
}

static void judge_written(const fat_testbed *s, const outputs *out, fat_verdict *v)
{
  const char *at = out->data;
  if (fat_draw_by_batch(&s->spots.problem)) /* rows beyond a batch's length are left unwritten */
    return;
  for (int t = 0; t < FAT_TENSORS; at += out->bytes[t++])
    if (has_poison(&s->spots.slot[t], at, at + out->bytes[t])) {
      v->outcome = FAT_OUT_WRONG;
      snprintf(v->detail, sizeof v->detail, "at full size: some elements of %s are left unwritten",
               fat_tensors[t].name);
      return;
    }
}

fat_status fat_full_probe(fat_full *full, fat_timer *timer, fat_verdict *verdict, double *ms, fat_error *err)
{
  fat_testbed *s = full->testbed;
  const fat_runner runner = {fat_full_work, full};
  bool intact;
  FAT_TRY(fat_testbed_clear(s, 0, err));
  FAT_TRY(fat_testbed_poison(s, full->launch.workspace, err));
  FAT_TRY(fat_timer_probe(timer, &runner, ms, err));
  FAT_TRY(judge_rows(full, verdict, err));
  FAT_TRY(judge_guards(s, verdict, err));
  FAT_TRY(fat_testbed_intact(s, full->launch.workspace, &intact, err));
  if (!intact && verdict->outcome == FAT_OUT_OK) {
    verdict->outcome = FAT_OUT_WRONG;
    snprintf(verdict->detail, sizeof verdict->detail,
             "at full size: something was written behind the workspace of %lld bytes",
             (long long)full->launch.workspace);
  }
  return FAT_OK;
}

/* Of outputs that are summed in no fixed order the known rows are judged again. */
static fat_status judge_second(const fat_full *full, const outputs *first, const outputs *second,
                               fat_verdict *v, fat_error *err)
{
  size_t at = 0;
  for (int t = 0; t < FAT_TENSORS; at += first->bytes[t++])
    if (!(full->reduced >> t & 1) && memcmp(first->data + at, second->data + at, first->bytes[t]) != 0) {
      v->outcome = FAT_OUT_WRONG;
      snprintf(v->detail, sizeof v->detail, "at full size: the same call gave other bits in run 2");
      return FAT_OK;
    }
  return full->reduced ? judge_rows(full, v, err) : FAT_OK;
}

fat_status fat_full_repeat(fat_full *full, fat_verdict *verdict, fat_error *err)
{
  fat_testbed *s = full->testbed;
  outputs first = {0}, second = {0};
  fat_status status = read_outputs(s, &first, err);
  if (status == FAT_OK)
    judge_written(s, &first, verdict);
  if (status != FAT_OK || verdict->outcome != FAT_OUT_OK)
    goto done;
  status = fat_testbed_clear(s, 0, err);
  if (status == FAT_OK)
    status = fat_testbed_poison(s, full->launch.workspace, err);
  if (status == FAT_OK)
    status = fat_full_work(full, 0, err);
  if (status == FAT_OK)
    status = read_outputs(s, &second, err);
  if (status == FAT_OK)
    status = judge_second(full, &first, &second, verdict, err);
done:
  free(first.data);
  free(second.data);
  return status;
}
