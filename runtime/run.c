/* run.c -- from a plan and the sizes of a call to a launch.
 *
 * In: a plan, sizes, tensors. Out: queued work, and nothing else: no lock, no allocation, no wait. Of a
 * family the kernel of the shape is taken that is expected to be the fastest (runtime/waves.c), is valid for
 * the sizes and takes the tensors as they lie; the call's numbers are evaluated on the stack. The context
 * that was current stays current. */
#include "run.h"
#include "empty.h"

/* What one call is given. */
typedef struct calling {
  const fatune_plan *plan;
  const fat_problem *problem; /* with the call's sizes and numbers */
  bool own_sizes;             /* those of the plan */
  fat_call call;
  uint64_t bits; /* low bits of addresses and strides */
  void *workspace, *stream;
} calling;

static fat_status fail_to_align(unsigned alignment, const calling *c, fat_error *err)
{
  if ((c->bits & (alignment - 1)) == 0)
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "a stride of a tensor is negative or reaches 2^40 bytes, and the plan has no "
                           "kernel for that: see fatune_describe for why it has none");
  return fat_status_fail(err, FAT_E_ALIGNMENT,
                         "a pointer or stride of a tensor is no multiple of %u bytes, and the plan has no "
                         "kernel for that: align the tensors, or see fatune_describe for why it has none",
                         alignment);
}

static bool takes(const fat_launch *launch, unsigned alignment, const calling *c)
{
  return (c->bits & (alignment - 1)) == 0 && fat_launch_takes(launch, &c->call);
}

static fat_status launch(const calling *c, const fat_launch *chosen, fat_error *err)
{
  if (chosen->workspace > 0 && !c->workspace)
    return fat_status_fail(err, FAT_E_INPUT, "the workspace is NULL: the call needs %lld bytes",
                           (long long)chosen->workspace);
  if ((uintptr_t)c->workspace % FAT_LAUNCH_ALIGN != 0 && chosen->workspace > 0)
    return fat_status_fail(err, FAT_E_ALIGNMENT, "the workspace does not begin at a multiple of %d bytes",
                           FAT_LAUNCH_ALIGN);
  return fat_launch_run(c->plan->handle->driver, chosen, &c->call, (fat_cuda_address)(uintptr_t)c->workspace,
                        c->stream, err);
}

/* The plan's own sizes: its numbers are known. */
static fat_status launch_known(const calling *c, fat_error *err)
{
  const fatune_plan *p = c->plan;
  if (takes(&p->main, p->alignment, c))
    return launch(c, &p->main, err);
  if (p->twin_alignment && takes(&p->twin, p->twin_alignment, c))
    return launch(c, &p->twin, err);
  return fail_to_align(p->alignment, c, err);
}

/* One loaded kernel with the call's numbers; FAT_E_UNSUPPORTED or FAT_E_ALIGNMENT: it does not serve. */
static fat_status evaluate(const calling *c, const fat_loaded *k, fat_launch *launch, fat_error *err)
{
  if ((c->bits & (k->alignment - 1)) != 0)
    return fail_to_align(k->alignment, c, err);
  fat_status status =
      fat_launch_evaluate(k->recipe, &k->entries, c->problem, &c->plan->layout, c->plan->sms, launch, err);
  if (status == FAT_E_INPUT) { /* a number beyond what a launch may have */
    const fat_error why = *err;
    return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s cannot be launched for these sizes: %s", k->config,
                           why.text);
  }
  if (status == FAT_OK && !fat_launch_takes(launch, &c->call))
    return fail_to_align(k->alignment, c, err);
  return status;
}

static fat_status fail_to_have_built(fat_error *err)
{
  return fat_status_fail(
      err, FAT_E_NOT_FOUND,
      "the plan was made for another call (fatune_request.sizes), and the kernel for these "
      "sizes is not compiled yet: ask for a plan with these, or with NULL for all at once");
}

static fat_status launch_best(const calling *c, fat_error *err)
{
  const fat_family *f = &c->plan->family;
  const fat_shape *shape = fat_family_known(f, c->problem, &c->plan->room);
  fat_launch chosen;
  fat_error other;
  fat_passed passed = {.unbuilt = true};
  fat_status first = FAT_OK;
  if (shape && shape->main < 0)
    return fail_to_have_built(err);
  while (shape) {
    /* The sentence is the best kernel's own. */
    fat_error *why = first == FAT_OK ? err : &other;
    fat_status status = evaluate(c, &f->code[shape->main], &chosen, why);
    first = first == FAT_OK ? status : first;
    if (status != FAT_OK && shape->twin >= 0)
      status = evaluate(c, &f->code[shape->twin], &chosen, &other);
    if (status == FAT_OK)
      return launch(c, &chosen, err);
    fat_passed_add(&passed, shape->main);
    shape = fat_family_best(f, c->problem, &c->plan->room, &passed);
  }
  if (first == FAT_OK)
    return fat_status_fail(err, FAT_E_UNSUPPORTED,
                           "the plan was made for a problem with a length of 0 and has no kernel: plan the "
                           "family");
  return first;
}

/* Whether there are no rows or no keys; ragged batches are counted by their totals. */
static bool is_empty(const fat_problem *p)
{
  if (p->q == 0 || p->k == 0)
    return true;
  return fat_problem_has(p, FAT_VARLEN) && (fat_draw_total(p, 0) == 0 || fat_draw_total(p, 1) == 0);
}

static fat_status run_here(const calling *c, fat_error *err)
{
  if (is_empty(c->problem))
    return fat_empty_write(c->plan->handle->driver, c->problem, &c->call, c->stream, err);
  return c->own_sizes ? launch_known(c, err) : launch_best(c, err);
}

/* The same in the plan's context where another one is current, or none. */
static fat_status run_in_context(const calling *c, fat_error *err)
{
  const fat_driver *driver = c->plan->handle->driver;
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  void *current = NULL;
  int result = cuda->context_get(&current);
  if (result != FAT_CUDA_SUCCESS || current == c->plan->context.handle)
    return result == FAT_CUDA_SUCCESS ? run_here(c, err)
                                      : fat_driver_check(driver, "cuCtxGetCurrent", result, err);
  FAT_TRY(fat_driver_check(driver, "cuCtxPushCurrent", cuda->context_push(c->plan->context.handle), err));
  fat_status status = run_here(c, err);
  cuda->context_pop(&current);
  return status;
}

/* The problem of a call: `room` holds it where sizes are given. */
static fat_status problem_of(const fatune_plan *plan, const fatune_sizes *sizes, fat_problem *room,
                             const fat_problem **problem, fat_error *err)
{
  *problem = sizes ? room : &plan->problem;
  if (!sizes && fat_problem_has(&plan->problem, FAT_VARLEN))
    return fat_status_fail(err, FAT_E_INPUT,
                           "the sizes are NULL: of ragged batches give the rows of all, total_q and total_k");
  if (sizes)
    return fat_call_sizes(sizes, &plan->problem, room, err);
  if (plan->is_family)
    return fat_status_fail(err, FAT_E_INPUT,
                           "the sizes are NULL: the plan is of a family, give the call's in a fatune_sizes");
  return FAT_OK;
}

fat_status fat_run_call(const fatune_plan *plan, const fatune_tensors *tensors, const fatune_sizes *sizes,
                        void *workspace, void *stream, fat_error *err)
{
  calling c;
  fat_problem room;
  c.plan = plan;
  c.own_sizes = !sizes;
  c.workspace = workspace;
  c.stream = stream;
  FAT_TRY(problem_of(plan, sizes, &room, &c.problem, err));
  FAT_TRY(fat_call_fill(&plan->form, c.problem, tensors, &c.call, &c.bits, err));
  return c.problem->b > 0 ? run_in_context(&c, err) : FAT_OK;
}

fat_status fat_run_workspace(const fatune_plan *plan, const fatune_sizes *sizes, int64_t *bytes,
                             fat_error *err)
{
  fat_problem room;
  const fat_problem *problem;
  *bytes = plan->workspace;
  FAT_TRY(problem_of(plan, sizes, &room, &problem, err));
  if (!sizes)
    return FAT_OK;
  const fat_shape *shape;
  if (problem->b > 0 && !is_empty(problem) &&
      fat_family_needs(&plan->family, problem, &plan->room, plan->sms, &shape) != FAT_NEEDS_NOTHING)
    return fail_to_have_built(err);
  const fat_sizes of = fat_recipe_sizes(problem, plan->sms);
  fat_status status = plan->family.codes > 0 ? FAT_E_UNSUPPORTED : FAT_OK; /* until one can tell */
  *bytes = 0;
  for (int i = 0; i < plan->family.codes; i++) {
    int64_t needed;
    fat_status one = fat_recipe_workspace(plan->family.code[i].recipe, &of, &needed, err);
    status = one == FAT_OK ? FAT_OK : status;
    if (one == FAT_OK && needed > *bytes)
      *bytes = needed;
  }
  return status;
}
