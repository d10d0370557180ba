/* pool.c -- threads that take jobs in the order they were put and hand them back as they finish.
 *
 * In: jobs (pointers, never looked into). Out: the same pointers, each exactly once. One lock guards both
 * queues and the counts; a node made by put travels with its job through both queues, so that handing back a
 * result allocates nothing and cannot fail. Signals are left to the owner's thread. */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Compilers recurse deeply; the default stack of a thread may have been set small by the user. */
#define STACK_BYTES ((size_t)16 << 20)

typedef struct node {
  struct node *next;
  void *job;
} node;

typedef struct queue {
  node *first, **last;
} queue;

struct fat_pool {
  pthread_mutex_t lock;
  pthread_cond_t has_work; /* a job was put, or the pool closes */
  pthread_cond_t has_done; /* a job finished */
  queue waiting, done;
  int pending; /* put and not yet taken or withdrawn */
  bool closing;
  fat_pool_begin begin;
  fat_pool_work work;
  fat_pool_end end;
  void *shared;
  int threads;
  pthread_t thread[];
};

static void push(queue *q, node *n)
{
  n->next = NULL;
  *q->last = n;
  q->last = &n->next;
}

static node *pop(queue *q)
{
  node *n = q->first;
  if (n) {
    q->first = n->next;
    if (!q->first)
      q->last = &q->first;
  }
  return n;
}

static void *run(void *argument)
{
  fat_pool *pool = argument;
  void *state = pool->begin ? pool->begin(pool->shared) : pool->shared;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    node *n;
    while (!(n = pop(&pool->waiting)) && !pool->closing)
      pthread_cond_wait(&pool->has_work, &pool->lock);
    if (!n)
      break;
    pthread_mutex_unlock(&pool->lock);
    pool->work(n->job, state);
    pthread_mutex_lock(&pool->lock);
    push(&pool->done, n);
    pthread_cond_signal(&pool->has_done);
  }
  pthread_mutex_unlock(&pool->lock);
  if (pool->end)
    pool->end(state);
  return NULL;
}

/* Starts the threads with every signal blocked; returns how many there are. */
static int start(fat_pool *pool, int threads)
{
  sigset_t all, before;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0)
    return 0;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int started = 0;
  while (started < threads && pthread_create(&pool->thread[started], &attributes, run, pool) == 0)
    started++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

fat_status fat_pool_open(int threads, fat_pool_begin begin, fat_pool_work work, fat_pool_end end,
                         void *shared, fat_pool **pool, fat_error *err)
{
  *pool = NULL;
  if (threads < 1)
    return fat_status_fail(err, FAT_E_INPUT, "%d threads were asked for: at least 1 is needed", threads);
  fat_pool *p = calloc(1, sizeof *p + (size_t)threads * sizeof p->thread[0]);
  if (!p)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a pool of %d threads", threads);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); /* take's deadline must not follow the wall clock */
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->has_work, NULL);
  pthread_cond_init(&p->has_done, &clock);
  pthread_condattr_destroy(&clock);
  p->waiting.last = &p->waiting.first;
  p->done.last = &p->done.first;
  p->begin = begin;
  p->work = work;
  p->end = end;
  p->shared = shared;
  p->threads = start(p, threads);
  if (p->threads == 0) { /* fewer than asked for still do the work */
    fat_pool_close(p);
    return fat_status_fail(err, FAT_E_NOMEM, "the system gives no thread for the pool of %d", threads);
  }
  *pool = p;
  return FAT_OK;
}

fat_status fat_pool_put(fat_pool *pool, void *job, fat_error *err)
{
  node *n = malloc(sizeof *n);
  if (!n)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a job of the pool");
  n->job = job;
  pthread_mutex_lock(&pool->lock);
  push(&pool->waiting, n);
  pool->pending++;
  pthread_cond_signal(&pool->has_work);
  pthread_mutex_unlock(&pool->lock);
  return FAT_OK;
}

/* The job of a node that leaves the pool. */
static void *leave(node *n)
{
  void *job = n ? n->job : NULL;
  free(n);
  return job;
}

static struct timespec after(double seconds)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double whole = floor(fmin(fmax(seconds, 0), 1e9));
  t.tv_sec += (time_t)whole;
  t.tv_nsec += (long)((fmin(fmax(seconds, 0), 1e9) - whole) * 1e9);
  if (t.tv_nsec >= 1000000000) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000;
  }
  return t;
}

void *fat_pool_take(fat_pool *pool, double seconds)
{
  struct timespec until = after(seconds);
  int result = 0;
  pthread_mutex_lock(&pool->lock);
  while (!pool->done.first && pool->pending > 0 && result != ETIMEDOUT)
    result = pthread_cond_timedwait(&pool->has_done, &pool->lock, &until);
  node *n = pop(&pool->done);
  pool->pending -= n != NULL;
  pthread_mutex_unlock(&pool->lock);
  return leave(n);
}

void *fat_pool_withdraw(fat_pool *pool)
{
  pthread_mutex_lock(&pool->lock);
  node *n = pop(&pool->waiting);
  pool->pending -= n != NULL;
  pthread_mutex_unlock(&pool->lock);
  return leave(n);
}

int fat_pool_pending(const fat_pool *pool)
{
  return pool->pending; /* written by the owner's calls alone */
}

static void drop(queue *q)
{
  for (node *n; (n = pop(q));)
    free(n);
}

void fat_pool_close(fat_pool *pool)
{
  if (!pool)
    return;
  pthread_mutex_lock(&pool->lock);
  drop(&pool->waiting);
  pool->closing = true;
  pthread_cond_broadcast(&pool->has_work);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->threads; i++)
    pthread_join(pool->thread[i], NULL);
  drop(&pool->done);
  pthread_cond_destroy(&pool->has_done);
  pthread_cond_destroy(&pool->has_work);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

/* Reads the first line of a small file of the kernel; "" where there is none. */
static void read_line(const char *path, char *line, size_t room)
{
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, line, room - 1);
  if (file >= 0)
    close(file);
  line[length > 0 ? length : 0] = 0;
  line[strcspn(line, "\n")] = 0;
}

int fat_pool_quota(const char *text)
{
  long quota, period;
  if (sscanf(text, "%ld %ld", &quota, &period) != 2 || quota <= 0 || period <= 0)
    return 0;
  return (int)((quota + period - 1) / period);
}

/* The tightest quota of this process's control group and those above it; 0: none. */
static int group_quota(void)
{
  char path[1024], line[512], group[512];
  int least = 0;
  read_line("/proc/self/cgroup", line, sizeof line);
  if (sscanf(line, "0::%511s", group) != 1)
    group[0] = 0; /* version 1: what a container shows at the root is its own */
  for (;;) {
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    read_line(path, line, sizeof line);
    int cores = fat_pool_quota(line);
    if (cores && (!least || cores < least))
      least = cores;
    char *slash = strrchr(group, '/');
    if (!slash)
      break;
    *slash = 0;
  }
  if (!least) {
    char quota[32], period[32];
    read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota);
    read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period);
    snprintf(line, sizeof line, "%s %s", quota, period);
    least = fat_pool_quota(line);
  }
  return least;
}

int fat_pool_cores(void)
{
  cpu_set_t set;
  int cores =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  int quota = group_quota();
  if (quota && quota < cores)
    cores = quota;
  return cores < 1 ? 1 : cores;
}
