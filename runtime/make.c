/* make.c -- makes plans.
 *
 * In: a request and the context that is current. Out: a plan with one more reference. A known problem costs a
 * look into a short list; a new one is made under the lock for making, so that threads that ask for the same
 * get the same. Invariant: a plan is written before anybody but its maker can see it, and never after, but
 * for the answers that its family keeps (fat_family_known). */
#include "make.h"
#include "known.h"
#include "device.h"
#include "mod.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static fat_status read_problem(const char *text, fatune_plan *plan, fat_error *err)
{
  plan->is_family = fat_problem_is_family(text);
  return plan->is_family ? fat_problem_parse_family(text, &plan->problem, err)
                         : fat_problem_parse(text, &plan->problem, err);
}

/* Its expressions: told in the request, else by an earlier one, else by the database. */
static fat_status read_mods(const fatune *h, const fatune_request *r, fat_problem *p, fat_error *err)
{
  fat_db *db;
  if (r->mod)
    FAT_TRY(fat_mod_add(r->mod, FAT_MOD, p, err));
  if (r->mask_mod)
    FAT_TRY(fat_mod_add(r->mask_mod, FAT_MASK_MOD, p, err));
  if (fat_mod_check(p, NULL) != FAT_OK &&
      fat_db_open(h->database, h->system, FAT_DB_READ, &db, NULL) == FAT_OK) {
    fat_db_mods(db, NULL);
    fat_db_close(db);
  }
  return fat_mod_check(p, err);
}

/* Those of the call at hand, which a problem has itself. One of no batches, rows or keys needs no kernel. */
static fat_status read_sizes(const fatune_sizes *sizes, fatune_plan *plan, fat_error *err)
{
  plan->later = plan->is_family && sizes;
  plan->has_call = plan->later && sizes->b > 0 && sizes->q > 0 && sizes->k > 0;
  return plan->has_call ? fat_call_sizes(sizes, &plan->problem, &plan->call, err) : FAT_OK;
}

static fat_status read_request(const fatune *h, const fatune_request *r, fatune_plan *plan, fat_error *err)
{
  if (!r->problem)
    return fat_status_fail(err, FAT_E_INPUT,
                           "fatune_request.problem is NULL: name one, such as "
                           "fwd-f32-b1-h16-q1024-k1024-d64-causal");
  FAT_TRY(read_problem(r->problem, plan, err));
  FAT_TRY(read_mods(h, r, &plan->problem, err));
  if (r->policy > FATUNE_COMPILE)
    return fat_status_fail(err, FAT_E_INPUT, "fatune_request.policy is %u: allowed are 0 to %d", r->policy,
                           FATUNE_COMPILE);
  if (r->flags & ~(uint32_t)FATUNE_ALIGNED)
    return fat_status_fail(err, FAT_E_INPUT, "fatune_request.flags is %u: allowed is FATUNE_ALIGNED (%d)",
                           r->flags, FATUNE_ALIGNED);
  if (r->kernel && !*r->kernel)
    return fat_status_fail(err, FAT_E_INPUT,
                           "fatune_request.kernel is empty: name one, such as fwd, or NULL for the fastest");
  fat_call_form_of(&plan->problem, &plan->form);
  fat_tensors_layout(&plan->problem, &plan->layout);
  plan->kernel = r->kernel ? strdup(r->kernel) : NULL;
  if (r->kernel && !plan->kernel)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a plan");
  plan->policy = r->policy;
  plan->flags = r->flags;
  return read_sizes(r->sizes, plan, err);
}

static void describe_kernel(fat_text *out, const char *what, const fat_loaded *k)
{
  fat_text_format(out, "%s %s\n%s-from %s\n%s-alignment %u\n", what, k->config, what, k->from, what,
                  k->alignment);
}

static void describe_why(const fat_text *why, fat_text *out)
{
  for (const char *line = fat_text_get(why); *line;) {
    int n = (int)strcspn(line, "\n");
    fat_text_format(out, "why %.*s\n", n, line);
    line += n + (line[n] == '\n');
  }
}

static fat_status describe(const fatune_plan *plan, const fat_choice *c, fat_text *out, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], facts[FAT_GPU_FACTS], ms[FAT_TEXT_NUMBER];
  fat_text_format(out, "problem %s\n", fat_problem_print(&plan->problem, problem));
  fat_text_format(out, "device %s %s\n", c->gpu.name, fat_gpu_facts(&c->gpu, facts));
  fat_text_format(out, "pick %s\n", fat_pick_step_name(c->step));
  describe_kernel(out, "kernel", &c->main);
  if (c->row.found)
    fat_text_format(out, "row-problem %s\nrow-device %s %s\nrow-origin %s\nrow-ms %s\nrow-date %s\n",
                    c->row.problem, c->row.gpu, c->row.facts, fat_db_origin_name(c->row.origin),
                    fat_text_number(c->row.ms, 6, ms), c->row.date);
  if (c->row.found && c->row.differences[0])
    fat_text_format(out, "row-differences %s\n", c->row.differences);
  if (c->has_twin)
    describe_kernel(out, "twin", &c->twin);
  fat_text_format(out, "workspace %" PRId64 "\n", plan->workspace);
  describe_why(&c->why, out);
  return fat_text_status(out, err);
}

static fat_status describe_family(const fatune_plan *plan, const fat_choice *c, fat_text *out, fat_error *err)
{
  char family[FAT_PROBLEM_TEXT], facts[FAT_GPU_FACTS];
  fat_text_format(out, "family %s\n", fat_plan_print(plan, family));
  fat_text_format(out, "device %s %s\n", c->gpu.name, fat_gpu_facts(&c->gpu, facts));
  fat_text_format(out, "variants %d\ncubins %d\n", plan->family.shapes, plan->family.codes);
  fat_text_add(out, fat_text_get(&plan->family.text));
  for (int i = 0; i < plan->family.codes; i++)
    describe_kernel(out, "kernel", &plan->family.code[i]);
  describe_why(&c->why, out);
  return fat_text_status(out, err);
}

static fat_ask ask_of(fatune *h, const fatune_plan *plan, const fat_gpu *device)
{
  return (fat_ask){.handle = h,
                   .problem = &plan->problem,
                   .device = device,
                   .kernel = plan->kernel,
                   .policy = (fatune_policy)plan->policy,
                   .aligned = (plan->flags & FATUNE_ALIGNED) != 0,
                   .later = plan->later,
                   .call = plan->has_call ? &plan->call : NULL,
                   .before = plan->before ? &plan->before->family : NULL};
}

/* A zero length: fatune_run fills or does nothing, and no kernel is needed. */
static bool is_empty(const fatune_plan *plan)
{
  const fat_problem *p = &plan->problem;
  return !plan->is_family && (p->b == 0 || p->q == 0 || p->k == 0);
}

static fat_status make_empty(fatune_plan *plan, fat_text *text, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fat_text_format(text, "problem %s\npick none\nworkspace 0\nwhy a length is 0: no kernel is launched\n",
                  fat_problem_print(&plan->problem, problem));
  return fat_text_status(text, err);
}

/* The numbers of the plan's own sizes. */
static fat_status freeze(fatune_plan *plan, const fat_loaded *k, fat_launch *launch, unsigned *alignment,
                         fat_error *err)
{
  FAT_TRY(fat_launch_evaluate(k->recipe, &k->entries, &plan->problem, &plan->layout, plan->sms, launch, err));
  *alignment = k->alignment;
  if (launch->workspace > plan->workspace)
    plan->workspace = launch->workspace;
  return FAT_OK;
}

static fat_status make_problem(fatune_plan *plan, const fat_ask *ask, fat_text *text, fat_error *err)
{
  fat_choice choice;
  fat_status status = fat_choose(ask, &choice, err);
  if (status == FAT_OK)
    status = freeze(plan, &choice.main, &plan->main, &plan->alignment, err);
  if (status == FAT_OK && choice.has_twin)
    status = freeze(plan, &choice.twin, &plan->twin, &plan->twin_alignment, err);
  if (status == FAT_OK)
    status = describe(plan, &choice, text, err);
  if (status == FAT_OK)
    status = fat_family_add(&plan->family, &(fat_candidate){.shape = plan->problem}, &choice.main,
                            choice.has_twin ? &choice.twin : NULL, err);
  fat_choice_free(&choice);
  return status;
}

static fat_status make_family(fatune_plan *plan, const fat_ask *ask, fat_text *text, fat_error *err)
{
  fat_choice choice;
  fat_status status = fat_choose_family(ask, &choice, &plan->family, err);
  if (status == FAT_OK)
    status = describe_family(plan, &choice, text, err);
  fat_choice_free(&choice);
  return status;
}

/* Fills the rest of a draft. */
static fat_status make(fatune *h, fatune_plan *plan, fat_error *err)
{
  fat_gpu device;
  fat_text text = {0};
  fat_status status;
  if (is_empty(plan)) {
    status = make_empty(plan, &text, err);
    plan->text = text.data;
    return status;
  }
  FAT_TRY(fat_device_facts(h->driver, plan->context.device, &device, err));
  plan->before = plan->is_family ? fat_known_before(h, plan) : NULL;
  plan->sms = device.sms;
  plan->room = fat_reach_room(&device);
  const fat_ask ask = ask_of(h, plan, &device);
  status = plan->is_family ? make_family(plan, &ask, &text, err) : make_problem(plan, &ask, &text, err);
  plan->text = text.data;
  return status;
}

static fat_status make_or_find(fatune *h, fatune_plan **draft, fat_error *err)
{
  pthread_mutex_lock(&h->making);
  fatune_plan *known = fat_known_find(h, *draft); /* made while we waited */
  fat_status status = known ? FAT_OK : make(h, *draft, err);
  if (known) {
    fat_plan_release(*draft);
    *draft = known;
  } else if (status == FAT_OK)
    fat_known_put(h, *draft);
  pthread_mutex_unlock(&h->making);
  return status;
}

fat_status fat_make_plan(fatune *h, const fatune_request *request, fatune_plan **plan, fat_error *err)
{
  *plan = NULL;
  fatune_plan *draft = calloc(1, sizeof *draft);
  if (!draft)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a plan");
  atomic_init(&draft->references, 1);
  draft->handle = h;
  draft->forks = h->forks;
  fat_status status = read_request(h, request, draft, err);
  if (status == FAT_OK)
    status = fat_context_current(h->driver, &draft->context, err);
  if (status != FAT_OK) {
    fat_plan_release(draft);
    return status;
  }
  draft->key = fat_known_key(draft);
  fatune_plan *known = fat_known_find(h, draft);
  if (known) {
    fat_plan_release(draft);
    draft = known;
  } else
    status = make_or_find(h, &draft, err);
  if (status != FAT_OK) {
    fat_plan_release(draft);
    return status;
  }
  fat_handle_hold(h);
  *plan = draft;
  return FAT_OK;
}

/* The device of the current context, else the first one. */
static fat_status find_device(const fatune *h, fat_gpu *device, fat_error *err)
{
  fat_context context;
  if (fat_context_current(h->driver, &context, NULL) == FAT_OK)
    return fat_device_facts(h->driver, context.device, device, err);
  fat_device first;
  int count;
  FAT_TRY(fat_device_list(h->driver, &first, 1, &count, err));
  *device = first.gpu;
  return FAT_OK;
}

fat_status fat_make_look(fatune *h, const fatune_request *request, fat_text *why, fat_error *err)
{
  fat_gpu device;
  fat_choice choice = {0};
  fatune_plan draft = {0};
  fat_status status = read_request(h, request, &draft, err);
  if (status == FAT_OK && is_empty(&draft)) {
    fat_text_add(why, "none: a length is 0, no kernel is needed\n");
    goto done;
  }
  if (status == FAT_OK)
    status = find_device(h, &device, err);
  if (status == FAT_OK) {
    fat_ask ask = ask_of(h, &draft, &device);
    ask.look = true;
    ask.later = false;
    ask.call = NULL;
    pthread_mutex_lock(&h->making);
    status = draft.is_family ? fat_choose_family(&ask, &choice, &draft.family, err)
                             : fat_choose(&ask, &choice, err);
    pthread_mutex_unlock(&h->making);
    fat_text_add(why, fat_text_get(&draft.family.text));
    fat_text_add(why, fat_text_get(&choice.why));
  }
done:
  fat_choice_free(&choice);
  fat_family_free(&draft.family);
  free(draft.kernel);
  return status;
}
