/* enter.c -- what every call begins with: it is counted, scripted faults strike, a forked child is refused.
 *
 * In: the call's own counter. Out: 0 to go on, else the code that the call returns. Also the handles: a
 * destroyed one stays allocated, so that its later use is an error by its magic number. */
#include "fake.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static fake_site *_Atomic sites;
static _Atomic long owner; /* the process that called cuInit; 0: none */

/* ---- handles ---- */

static fake_head *_Atomic all; /* only ever added to, so that it is walked without a lock */

void *fake_handle_make(size_t size, fake_magic magic, fake_context *context)
{
  fake_head *h = calloc(1, size);
  if (h)
    fake_handle_enter(h, magic, context);
  return h;
}

void fake_handle_enter(fake_head *h, fake_magic magic, fake_context *context)
{
  h->is_function = magic == FAKE_FUNCTION; /* those that are gone have been launched too */
  h->context = context;
  h->context_id = context ? atomic_load_explicit(&context->id, memory_order_relaxed) : 0;
  atomic_store_explicit(&h->magic, magic, memory_order_relaxed);
  h->next = atomic_load(&all);
  while (!atomic_compare_exchange_weak(&all, &h->next, h))
    continue;
}

bool fake_handle_is(const void *handle, fake_magic magic, const fake_context *context)
{
  const fake_head *h = handle;
  return h && atomic_load_explicit(&h->magic, memory_order_relaxed) == (unsigned)magic &&
         (!context || (h->context == context &&
                       h->context_id == atomic_load_explicit(&context->id, memory_order_relaxed)));
}

void fake_handle_bury(void *handle)
{
  atomic_store_explicit(&((fake_head *)handle)->magic, FAKE_DEAD, memory_order_relaxed);
}

void fake_handle_bury_context(const fake_context *c)
{
  for (fake_head *h = atomic_load(&all); h; h = h->next)
    if (h->context == c)
      fake_handle_bury(h);
}

int fake_handle_count(fake_magic magic)
{
  int count = 0;
  for (fake_head *h = atomic_load(&all); h; h = h->next)
    count += atomic_load_explicit(&h->magic, memory_order_relaxed) == (unsigned)magic;
  return count;
}

long fake_launches(const char *pattern)
{
  long count = 0;
  for (fake_head *h = atomic_load(&all); h; h = h->next)
    if (h->is_function && fake_script_match(pattern, ((fake_function *)h)->name))
      count += atomic_load_explicit(&((fake_function *)h)->launches, memory_order_relaxed);
  return count;
}

static void forget_launches(void)
{
  for (fake_head *h = atomic_load(&all); h; h = h->next)
    if (h->is_function)
      atomic_store_explicit(&((fake_function *)h)->launches, 0, memory_order_relaxed);
}

/* ---- calls ---- */

static void count(fake_site *site)
{
  atomic_fetch_add_explicit(&site->calls, 1, memory_order_relaxed);
  if (atomic_exchange_explicit(&site->known, 1, memory_order_relaxed))
    return;
  site->next = atomic_load(&sites);
  while (!atomic_compare_exchange_weak(&sites, &site->next, site))
    continue;
}

long fake_calls(const char *function)
{
  for (fake_site *s = atomic_load(&sites); s; s = s->next)
    if (!strcmp(s->name, function))
      return atomic_load_explicit(&s->calls, memory_order_relaxed);
  return 0;
}

static void forget_calls(void)
{
  for (fake_site *s = atomic_load(&sites); s; s = s->next)
    atomic_store_explicit(&s->calls, 0, memory_order_relaxed);
}

/* Those of which cuda.h says that the process must end. */
bool fake_is_sticky(int code)
{
  static const short sticky[] = {214, 220, 226, 700, 702, 710, 714, 715,
                                 716, 717, 718, 719, 721, 810, 911, 999};
  for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++)
    if (sticky[i] == code)
      return true;
  return false;
}

void fake_script_die(int number)
{
  fake_log("dies by signal %d", number);
  signal(number, SIG_DFL); /* a handler of the test or of a sanitizer does not save it */
  raise(number);
}

_Noreturn void fake_script_hang(void)
{
  fake_log("hangs");
  for (;;)
    pause();
}

void fake_sleep(double ms)
{
  long seconds = (long)(ms / 1000);
  nanosleep(&(struct timespec){.tv_sec = seconds, .tv_nsec = (long)((ms - 1000.0 * (double)seconds) * 1e6)},
            NULL);
}

static int strike(const char *name)
{
  fake_strike s = fake_script_call(name);
  if (s.effect == FAKE_NO_FAULT)
    return 0;
  fake_log("fault in %s: effect %d, code %d", name, (int)s.effect, s.code);
  if (s.effect == FAKE_SEGV)
    fake_script_die(SIGSEGV);
  if (s.effect == FAKE_KILL)
    fake_script_die(SIGKILL);
  if (s.effect == FAKE_HANG)
    fake_script_hang();
  if (s.effect == FAKE_SLOW)
    fake_sleep(s.ms);
  fake_context *c = fake_context_of_thread();
  if (s.effect == FAKE_CODE && c && fake_is_sticky(s.code))
    atomic_store_explicit(&c->sticky, s.code, memory_order_relaxed);
  return s.effect == FAKE_CODE ? s.code : 0;
}

int fake_enter(fake_site *site, bool before_init)
{
  count(site);
  long process = atomic_load_explicit(&owner, memory_order_relaxed);
  if (process ? process != getpid() : !before_init)
    return 3;
  return strike(site->name);
}

int cuInit(unsigned flags)
{
  FAKE_ENTER_AT(cuInit, true);
  if (flags)
    return 1;
  if (!fake_device_row(0))
    return FAT_CUDA_NO_DEVICE;
  atomic_store_explicit(&owner, getpid(), memory_order_relaxed);
  fake_log("cuInit");
  return 0;
}

void fake_reset(void)
{
  fake_capture_reset();
  fake_context_reset_all();
  fake_source_reset();
  fake_fault(NULL);
  fake_times(NULL);
  fake_found_reset();
  forget_calls();
  forget_launches();
}

void fake_count(fake_live *live)
{
  *live = (fake_live){.contexts = fake_context_count(),
                      .modules = fake_handle_count(FAKE_MODULE),
                      .streams = fake_handle_count(FAKE_STREAM),
                      .events = fake_handle_count(FAKE_EVENT),
                      .graphs = fake_handle_count(FAKE_GRAPH) + fake_handle_count(FAKE_EXEC)};
  fake_memory_count(live);
}
