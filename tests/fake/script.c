/* script.c -- plans: which call or launch goes wrong how, and how long launches take.
 *
 * FAKE_CUDA_FAULT="cuLaunchKernel#3=700,fwd_*=hang" (FAKE_CUDA_FAIL is read too, after it) and
 * FAKE_CUDA_TIMES="fwd_*=0.5" or a file of such rows; the grammar is in README.md. A plan is parsed when its
 * text changes and never freed: a launch reads it without a lock. A mistake in a plan ends the process: a
 * test that scripts nothing by mistake would pass. */
#include "fake.h"
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RULES = 64, TARGET = 160, TEXTS = 3 };
typedef struct rule {
  char target[TARGET];
  bool call; /* a function of the driver, not an entry */
  long first;
  bool onwards, every;
  fake_strike strike;
  _Atomic long *seen;
} rule;
typedef struct plan {
  char *text[TEXTS];
  int rules, times;
  rule rule[RULES];
  struct {
    char target[TARGET];
    const char *kind; /* of data, a pattern behind the target's zero; NULL: any */
    double ms;
  } time[RULES];
  _Atomic long seen[RULES];
  char *given;        /* a text that is no longer asked for; others may still read it */
  struct plan *older; /* all stay reachable */
} plan;

static plan *_Atomic current;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static char *_Atomic given_fault, *_Atomic given_times;

static _Noreturn void wrong(const char *text)
{
  fprintf(stderr, "fake_cuda: cannot read '%s' in FAKE_CUDA_FAULT or FAKE_CUDA_TIMES\n", text);
  abort();
}

static const char *wanted(int which)
{
  const char *env[TEXTS] = {getenv("FAKE_CUDA_FAULT"), getenv("FAKE_CUDA_FAIL"), getenv("FAKE_CUDA_TIMES")};
  const char *fault = atomic_load_explicit(&given_fault, memory_order_acquire);
  const char *times = atomic_load_explicit(&given_times, memory_order_acquire);
  if (fault && which < 2)
    return which == 0 ? fault : "";
  if (times && which == 2)
    return times;
  return env[which] ? env[which] : "";
}

bool fake_script_match(const char *pattern, const char *text)
{
  while (*pattern && *pattern != '*') {
    if (*pattern++ != *text++)
      return false;
  }
  if (!*pattern)
    return !*text;
  while (*pattern == '*')
    pattern++;
  do
    if (fake_script_match(pattern, text))
      return true;
  while (*text++);
  return false;
}

static fake_strike parse_effect(const char *word)
{
  static const struct {
    const char *name;
    fake_effect effect;
  } names[] = {{"hang", FAKE_HANG}, {"segv", FAKE_SEGV},         {"kill", FAKE_KILL},  {"wrong", FAKE_WRONG},
               {"nan", FAKE_NAN},   {"unstable", FAKE_UNSTABLE}, {"stray", FAKE_STRAY}};
  char *end;
  long code = strtol(word, &end, 10);
  if (end != word && !*end)
    return (fake_strike){.effect = code ? FAKE_CODE : FAKE_NO_FAULT, .code = (int)code};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(word, names[i].name))
      return (fake_strike){.effect = names[i].effect};
  double ms = strncmp(word, "slow:", 5) ? NAN : strtod(word + 5, &end);
  if (!(ms >= 0) || end == word + 5 || *end)
    wrong(word);
  return (fake_strike){.effect = FAKE_SLOW, .ms = ms};
}

/* TARGET[#N[+]]=EFFECT */
static void parse_rule(char *text, rule *r)
{
  char *equals = strrchr(text, '='), *hash, *end;
  if (!equals)
    wrong(text);
  r->strike = parse_effect(equals + 1);
  *equals = 0;
  hash = strrchr(text, '#');
  r->every = !hash;
  if (hash) {
    r->first = strtol(hash + 1, &end, 10);
    r->onwards = *end == '+';
    if (end == hash + 1 || r->first < 1 || end[r->onwards])
      wrong(text);
    *hash = 0;
  }
  if (!*text || strlen(text) >= TARGET)
    wrong(text);
  r->call = text[0] == 'c' && text[1] == 'u' && text[2] >= 'A' && text[2] <= 'Z';
  strcpy(r->target, text);
}

/* Calls `take` for each part between commas or line ends. */
static void split(const char *text, plan *p, void (*take)(plan *, char *))
{
  char *copy = strdup(text), *rest = copy, *part;
  while (copy && (part = strsep(&rest, ", \n\t")))
    if (*part)
      take(p, part);
  free(copy);
}

static void take_rule(plan *p, char *text)
{
  if (p->rules == RULES)
    wrong(text);
  parse_rule(text, &p->rule[p->rules++]);
}

static void take_time(plan *p, char *text)
{
  char *equals = strrchr(text, '='), *end = NULL;
  double ms = equals ? strtod(equals + 1, &end) : NAN;
  if (!(ms >= 0) || end == equals + 1 || *end || p->times == RULES || equals - text >= TARGET)
    wrong(text);
  *equals = 0;
  char *target = strcpy(p->time[p->times].target, text), *at = strchr(target, '@');
  if (at)
    *at++ = 0;
  p->time[p->times].kind = at;
  p->time[p->times++].ms = ms;
}

/* A plan of times that names a file is the file's text. */
static void read_times(plan *p, const char *text)
{
  char content[8192];
  FILE *f = strchr(text, '=') ? NULL : *text ? fopen(text, "r") : NULL;
  if (!f && *text && !strchr(text, '='))
    wrong(text);
  if (f) {
    content[fread(content, 1, sizeof content - 1, f)] = 0;
    fclose(f);
  }
  split(f ? content : text, p, take_time);
}

/* Where processes count together: a file that FAKE_CUDA_STATE names. */
static _Atomic long *counters(plan *p)
{
  const char *path = getenv("FAKE_CUDA_STATE");
  int file = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  void *map = MAP_FAILED;
  if (file >= 0 && ftruncate(file, sizeof p->seen) == 0)
    map = mmap(NULL, sizeof p->seen, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0)
    close(file);
  return map == MAP_FAILED ? p->seen : map;
}

static plan *make(void)
{
  plan *p = calloc(1, sizeof *p);
  if (!p)
    abort();
  for (int i = 0; i < TEXTS; i++)
    p->text[i] = strdup(wanted(i));
  split(p->text[0], p, take_rule);
  split(p->text[1], p, take_rule);
  read_times(p, p->text[2]);
  _Atomic long *seen = counters(p);
  for (int i = 0; i < p->rules; i++)
    p->rule[i].seen = seen + i;
  return p;
}

static bool is_current(const plan *p)
{
  for (int i = 0; p && i < TEXTS; i++)
    if (strcmp(p->text[i], wanted(i)))
      return false;
  return p != NULL;
}

static plan *get(void)
{
  plan *p = atomic_load_explicit(&current, memory_order_acquire);
  if (is_current(p))
    return p;
  pthread_mutex_lock(&making);
  p = atomic_load_explicit(&current, memory_order_acquire);
  if (!is_current(p)) {
    plan *made = make();
    made->older = p;
    p = made;
    atomic_store_explicit(&current, p, memory_order_release);
  }
  pthread_mutex_unlock(&making);
  return p;
}

static bool strikes(rule *r)
{
  if (r->every)
    return true;
  long n = 1 + atomic_fetch_add_explicit(r->seen, 1, memory_order_relaxed);
  return n == r->first || (r->onwards && n > r->first);
}

/* "cuMemAlloc" stands for cuMemAlloc_v2 as well. */
static bool names(const char *target, const char *function)
{
  size_t n = strlen(target);
  return !strncmp(target, function, n) && (!function[n] || !strncmp(function + n, "_v", 2));
}

fake_strike fake_script_call(const char *function)
{
  fake_strike found = {0};
  plan *p = get();
  for (int i = 0; i < p->rules; i++) {
    rule *r = &p->rule[i];
    if (r->call && names(r->target, function) && strikes(r) && !found.effect)
      found = r->strike;
  }
  return found;
}

/* Whether a pattern is that of an entry or of its config. Configs have a colon, entries have none. */
static bool meant(const char *target, const char *entry, const char *(*config)(const char *))
{
  if (!strchr(target, ':'))
    return fake_script_match(target, entry);
  const char *text = config ? config(entry) : NULL;
  return text && fake_script_match(target, text);
}

fake_strike fake_script_launch(const char *entry, const char *(*config)(const char *))
{
  fake_strike found = {0};
  plan *p = get();
  for (int i = 0; i < p->rules; i++) {
    rule *r = &p->rule[i];
    if (!r->call && meant(r->target, entry, config) && strikes(r) && !found.effect)
      found = r->strike;
  }
  return found;
}

static uint64_t mixed(const char *text)
{
  uint64_t x = UINT64_C(1469598103934665603);
  for (; *text; text++)
    x = (x ^ (unsigned char)*text) * UINT64_C(1099511628211);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ x >> 31;
}

/* Asked for once, and only where a rule wants to know. */
static bool is_kind(const char *pattern, const fake_work *w, const char **kind)
{
  if (!pattern)
    return true;
  if (!*kind)
    *kind = fake_kind_of(w);
  return *kind && fake_script_match(pattern, *kind);
}

double fake_script_ms(const fake_work *w, const char *(*config)(const char *), double waves)
{
  static _Atomic uint64_t turn;
  const char *entry = w->function->name, *kind = NULL, *noise = getenv("FAKE_CUDA_NOISE");
  plan *p = get();
  double ms = 0.004 + 0.02 * (1 + (double)(mixed(entry) % 1000) / 1000) * (waves > 1 ? waves : 1);
  for (int i = 0; i < p->times; i++)
    if (meant(p->time[i].target, entry, config) && is_kind(p->time[i].kind, w, &kind)) {
      ms = p->time[i].ms;
      break;
    }
  if (noise) {
    char number[32];
    snprintf(number, sizeof number, "%llu",
             (unsigned long long)atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed));
    ms *= 1 + strtod(noise, NULL) * ((double)(mixed(number) % 2001) / 1000 - 1);
  }
  return ms;
}

static void give(char *_Atomic *place, const char *text)
{
  char *old = atomic_exchange(place, text ? strdup(text) : NULL);
  pthread_mutex_lock(&making);
  plan *p =
      calloc(1, sizeof *p); /* one that is never wanted: the next call makes another, which counts anew */
  if (!p)
    abort();
  p->older = atomic_load(&current);
  p->given = old;
  for (int i = 0; i < TEXTS; i++)
    p->text[i] = strdup("\n");
  atomic_store(&current, p);
  pthread_mutex_unlock(&making);
}

void fake_fault(const char *text)
{
  give(&given_fault, text);
}

void fake_times(const char *text)
{
  give(&given_times, text);
}
