/* test_pool.c -- the pool hands every job back once, in any mix of puts, takes and withdrawals. */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct job {
  int number, result, thread;
  sem_t *begun, *gate; /* says that it has begun, waits to be let on; or NULL */
} job;

typedef struct shared {
  pthread_mutex_t lock;
  int begun, ended;
} shared;

typedef struct own {
  shared *all;
  int index;
} own;

static void *begin(void *argument)
{
  shared *s = argument;
  own *o = malloc(sizeof *o);
  pthread_mutex_lock(&s->lock);
  *o = (own){s, s->begun++};
  pthread_mutex_unlock(&s->lock);
  return o;
}

static void end(void *state)
{
  own *o = state;
  pthread_mutex_lock(&o->all->lock);
  o->all->ended++;
  pthread_mutex_unlock(&o->all->lock);
  free(o);
}

static void work(void *argument, void *state)
{
  job *j = argument;
  if (j->begun)
    sem_post(j->begun);
  if (j->gate)
    sem_wait(j->gate);
  j->result += j->number * 2;
  j->thread = ((own *)state)->index;
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void every_job_once(void **state)
{
  (void)state;
  enum { JOBS = 2000 };
  shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  static job jobs[JOBS];
  fat_pool *pool;
  assert_int_equal(fat_pool_open(4, begin, work, end, &s, &pool, NULL), FAT_OK);
  int put = 0, taken = 0;
  while (taken < JOBS) {
    for (int i = 0; i < 7 && put < JOBS; i++, put++) {
      jobs[put].number = put;
      assert_int_equal(fat_pool_put(pool, &jobs[put], NULL), FAT_OK);
    }
    assert_int_equal(fat_pool_pending(pool), put - taken);
    for (int i = 0; i < 5; i++) {
      job *j = fat_pool_take(pool, 10);
      taken += j != NULL;
      assert_true(j != NULL || fat_pool_pending(pool) == 0);
    }
  }
  assert_null(fat_pool_take(pool, 10)); /* nothing pending: at once */
  fat_pool_close(pool);
  for (int i = 0; i < JOBS; i++)
    assert_int_equal(jobs[i].result, 2 * i);
  assert_int_equal(s.begun, 4);
  assert_int_equal(s.ended, 4);
}

static void take_gives_up_in_time(void **state)
{
  (void)state;
  shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  sem_t gate;
  sem_init(&gate, 0, 0);
  job slow = {.number = 1, .gate = &gate};
  fat_pool *pool;
  assert_int_equal(fat_pool_open(1, begin, work, end, &s, &pool, NULL), FAT_OK);
  assert_int_equal(fat_pool_put(pool, &slow, NULL), FAT_OK);
  double start = now();
  assert_null(fat_pool_take(pool, 0));
  assert_null(fat_pool_take(pool, -1));
  assert_null(fat_pool_take(pool, 0.05));
  assert_true(now() - start >= 0.05);
  sem_post(&gate);
  assert_ptr_equal(fat_pool_take(pool, 1e30), &slow);
  fat_pool_close(pool);
}

static void withdraws_in_order(void **state)
{
  (void)state;
  shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  sem_t begun, gate;
  sem_init(&begun, 0, 0);
  sem_init(&gate, 0, 0);
  job jobs[5] = {{.number = 1, .begun = &begun, .gate = &gate},
                 {.number = 2},
                 {.number = 3},
                 {.number = 4},
                 {.number = 5}};
  fat_pool *pool;
  assert_int_equal(fat_pool_open(1, begin, work, end, &s, &pool, NULL), FAT_OK);
  for (int i = 0; i < 5; i++)
    assert_int_equal(fat_pool_put(pool, &jobs[i], NULL), FAT_OK);
  sem_wait(&begun); /* the one thread is at the first job, and stays there */
  assert_ptr_equal(fat_pool_withdraw(pool), &jobs[1]);
  assert_ptr_equal(fat_pool_withdraw(pool), &jobs[2]);
  assert_int_equal(fat_pool_pending(pool), 3);
  sem_post(&gate);
  assert_ptr_equal(fat_pool_take(pool, 10), &jobs[0]);
  assert_ptr_equal(fat_pool_take(pool, 10), &jobs[3]);
  assert_ptr_equal(fat_pool_take(pool, 10), &jobs[4]);
  assert_null(fat_pool_withdraw(pool));
  assert_int_equal(jobs[1].result, 0); /* never ran */
  fat_pool_close(pool);
}

/* Opens once the pool waits for its thread, so that it is closing by then: the linker puts this in front. */
static sem_t *opened_by_join;
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
  if (opened_by_join)
    sem_post(opened_by_join);
  opened_by_join = NULL;
  return __real_pthread_join(thread, result);
}

/* Closing lets what has begun end, and begins nothing more. */
static void closes_with_jobs_left(void **state)
{
  (void)state;
  shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  sem_t begun, gate;
  sem_init(&begun, 0, 0);
  sem_init(&gate, 0, 0);
  static job jobs[50];
  jobs[0] = (job){.begun = &begun, .gate = &gate};
  fat_pool *pool;
  assert_int_equal(fat_pool_open(1, begin, work, end, &s, &pool, NULL), FAT_OK);
  for (int i = 0; i < 50; i++) {
    jobs[i].number = i + 1;
    assert_int_equal(fat_pool_put(pool, &jobs[i], NULL), FAT_OK);
  }
  sem_wait(&begun);
  opened_by_join = &gate;
  fat_pool_close(pool);
  assert_int_equal(jobs[0].result, 2);
  for (int i = 1; i < 50; i++)
    assert_int_equal(jobs[i].result, 0);
  assert_int_equal(s.ended, 1);
}

static int signalled;
static pthread_t signalled_thread;
static void on_signal(int number)
{
  (void)number;
  signalled_thread = pthread_self();
  signalled++;
}

static void signals_reach_the_owner(void **state)
{
  (void)state;
  shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  fat_pool *pool;
  signal(SIGUSR1, on_signal);
  assert_int_equal(fat_pool_open(3, begin, work, end, &s, &pool, NULL), FAT_OK);
  for (int i = 0; i < 20; i++)
    kill(getpid(), SIGUSR1);
  fat_pool_close(pool);
  assert_true(signalled > 0);
  assert_true(pthread_equal(signalled_thread, pthread_self()));
}

static void refuses_no_threads(void **state)
{
  (void)state;
  fat_pool *pool;
  fat_error err;
  assert_int_equal(fat_pool_open(0, NULL, work, NULL, NULL, &pool, &err), FAT_E_INPUT);
  assert_null(pool);
  fat_pool_close(NULL);
}

static void counts_cores(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int cores;
  } quotas[] = {{"max 100000", 0},
                {"100000 100000", 1},
                {"150000 100000", 2},
                {"10000 100000", 1},
                {"400000 100000", 4},
                {"-1 100000", 0},
                {"", 0},
                {"5", 0},
                {"5 0", 0}};
  for (size_t i = 0; i < sizeof quotas / sizeof quotas[0]; i++)
    assert_int_equal(fat_pool_quota(quotas[i].text), quotas[i].cores);
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  int cores = fat_pool_cores();
  assert_true(cores >= 1 && cores <= CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &before))
      CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(fat_pool_cores(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_job_once),
      cmocka_unit_test(take_gives_up_in_time),
      cmocka_unit_test(withdraws_in_order),
      cmocka_unit_test(closes_with_jobs_left),
      cmocka_unit_test(signals_reach_the_owner),
      cmocka_unit_test(refuses_no_threads),
      cmocka_unit_test(counts_cores),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
