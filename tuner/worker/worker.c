/* worker.c -- starts, feeds, watches, kills and replaces the worker.
 *
 * In: assignments. Out: verdicts. Invariant: at most one process is there; it never outlives a deadline, an
 * error that spends it, or its parent. States: none -> starting -> idle -> preparing -> running -> idle. */
#include "worker.h"

#include "clock.h"
#include "process.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum state { NONE, STARTING, IDLE, PREPARING, RUNNING } state;

static const double start_deadline = 60;   /* a driver that starts its first GPU may take several seconds */
static const double prepare_deadline = 60; /* inputs and references of one problem take about a tenth */
static const double end_deadline = 10;     /* SIGKILL frees an H200 in 0.1 s */
enum { START_TRIES = 3 };

struct fat_worker {
  int ordinal;
  pid_t pid;
  int fd;
  state state;
  double until; /* when the state's deadline passes; monotonic seconds */
  fat_inbox inbox;
  int served;      /* assignments this process has ended */
  int started;     /* processes so far */
  int tries;       /* starts since the last one that worked */
  bool confirming; /* the assignment is run a second time, alone */
  const fat_assignment *assignment;
  double deadline;
};

static void enter(fat_worker *w, state s, double seconds)
{
  w->state = s;
  w->until = fat_clock_now() + seconds;
}

static fat_status start(fat_worker *w, fat_error *err)
{
  FAT_TRY(fat_process_start(w->ordinal, &w->pid, &w->fd, err));
  w->served = 0;
  w->started++;
  w->tries++;
  enter(w, STARTING, start_deadline);
  return FAT_OK;
}

/* Kills the process and all it started. */
static fat_status leave(fat_worker *w, fat_error *err)
{
  pid_t pid = w->pid;
  if (!pid)
    return FAT_OK;
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
  close(w->fd);
  fat_inbox_clear(&w->inbox);
  w->pid = 0;
  w->fd = -1;
  w->state = NONE;
  if (!fat_process_reap(pid, end_deadline))
    return fat_status_fail(
        err, FAT_E_DEVICE_LOST,
        "worker %d cannot be ended: the GPU's driver holds it; see `dmesg` and nvidia-smi -q", (int)pid);
  return FAT_OK;
}

fat_status fat_worker_open(int ordinal, fat_worker **worker, fat_error *err)
{
  fat_worker *w = calloc(1, sizeof *w);
  *worker = NULL;
  if (!w)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a worker");
  w->ordinal = ordinal;
  w->fd = -1;
  fat_status status = start(w, err);
  if (status != FAT_OK)
    free(w);
  else
    *worker = w;
  return status;
}

void fat_worker_close(fat_worker *worker)
{
  if (!worker)
    return;
  if (worker->state == IDLE) {
    close(worker->fd);
    worker->fd = -1;
    if (fat_process_reap(worker->pid, 2))
      worker->pid = 0;
  }
  leave(worker, NULL);
  fat_inbox_clear(&worker->inbox);
  free(worker);
}

/* Sends the assignment to a worker that is idle. */
static fat_status send_assignment(fat_worker *w, fat_error *err)
{
  fat_text bytes = {0};
  fat_status status = fat_wire_pack(w->assignment, &bytes, err);
  if (status == FAT_OK) {
    fcntl(w->fd, F_SETFL, 0); /* it reads: a send blocks no longer than its patience */
    status = fat_wire_send(w->fd, FAT_WIRE_ASSIGN, bytes.data, bytes.length, err);
    fcntl(w->fd, F_SETFL, O_NONBLOCK);
    enter(w, PREPARING, prepare_deadline);
  }
  fat_text_free(&bytes);
  return status;
}

fat_status fat_worker_begin(fat_worker *worker, const fat_assignment *assignment, double deadline,
                            fat_error *err)
{
  worker->assignment = assignment;
  worker->deadline = deadline;
  worker->confirming = false;
  if (worker->state == NONE)
    return start(worker, err);
  if (worker->state == IDLE &&
      send_assignment(worker, NULL) != FAT_OK) { /* it died while it had nothing to do */
    FAT_TRY(leave(worker, err));
    return start(worker, err);
  }
  return FAT_OK;
}

/* The assignment has ended with verdicts. */
static void conclude(fat_worker *w, bool *done)
{
  w->assignment = NULL;
  w->served++;
  *done = true;
}

/* Gives all entrants an outcome that the tuner has seen from outside. */
static void sentence(fat_worker *w, fat_outcome outcome, const char *why, fat_verdict *verdicts)
{
  for (int i = 0; i < w->assignment->count; i++) {
    verdicts[i] = (fat_verdict){.outcome = outcome};
    verdicts[i].timing.median = verdicts[i].timing.p20 = verdicts[i].timing.p80 = verdicts[i].timing.clock =
        NAN;
    snprintf(verdicts[i].detail, sizeof verdicts[i].detail, "%s", why);
  }
}

/* A worker was lost to the assignment: the config is at fault if it was alone, else it is tried alone. The
 * next process is started at once. */
static fat_status blame(fat_worker *w, fat_outcome outcome, const char *why, fat_verdict *verdicts,
                        bool *done, fat_error *err)
{
  bool alone = w->served == 0 || w->confirming, prepared = w->state == RUNNING;
  FAT_TRY(leave(w, err));
  if (alone && !prepared) /* nothing of it had run yet */
    return fat_status_fail(err, FAT_E_DEVICE_LOST, "the GPU cannot be used any more: %s", why);
  if (alone) {
    sentence(w, outcome, why, verdicts);
    conclude(w, done);
  }
  w->confirming = !alone;
  return start(w, err);
}

/* Its end of the socket is closed. */
static fat_status died(fat_worker *w, fat_verdict *verdicts, bool *done, fat_error *err)
{
  char why[200];
  state before = w->state;
  fat_process_say_end(w->pid, why, sizeof why);
  if (w->assignment && (before == RUNNING || before == PREPARING))
    return blame(w, FAT_OUT_FAULT, why, verdicts, done, err);
  FAT_TRY(leave(w, err));
  if (before == STARTING && w->tries >= START_TRIES)
    return fat_status_fail(err, FAT_E_DEVICE_LOST, "the GPU cannot be used any more: %s while it started",
                           why);
  return w->assignment ? start(w, err) : FAT_OK;
}

/* The worker could not open its GPU. After a fault the driver may need a moment, so it is tried again. */
static fat_status refused(fat_worker *w, const fat_error *reason, fat_error *err)
{
  FAT_TRY(leave(w, err));
  if (w->tries < START_TRIES && w->started > w->tries)
    return start(w, err);
  bool lost = w->started > w->tries && reason->status != FAT_E_BUSY;
  return fat_status_fail(err, lost ? FAT_E_DEVICE_LOST : reason->status, "%s", reason->text);
}

static fat_status greeted(fat_worker *w, const fat_inbox *inbox, fat_error *err)
{
  fat_wire_hello hello;
  if (inbox->head.bytes != sizeof hello)
    return fat_status_fail(err, FAT_E_IO, "a worker's greeting is malformed");
  memcpy(&hello, inbox->data, sizeof hello);
  if (hello.error.status != FAT_OK)
    return refused(w, &hello.error, err);
  w->tries = 0;
  enter(w, IDLE, INFINITY);
  return w->assignment ? send_assignment(w, err) : FAT_OK;
}

static fat_status judged(fat_worker *w, const fat_inbox *inbox, fat_verdict *verdicts, bool *done,
                         fat_error *err)
{
  size_t bytes = (size_t)w->assignment->count * sizeof *verdicts;
  if (inbox->head.bytes != bytes)
    return fat_status_fail(err, FAT_E_IO, "a worker's verdict is malformed");
  memcpy(verdicts, inbox->data, bytes);
  fat_verdict first = verdicts[0];
  first.detail[sizeof first.detail - 1] = 0;
  if (first.status == FAT_E_CONTEXT_DEAD || first.status == FAT_E_DEVICE_LOST)
    return blame(w, FAT_OUT_FAULT, first.detail, verdicts, done, err);
  if (first.status != FAT_OK)
    return fat_status_fail(err, first.status, "%s", first.detail);
  enter(w, IDLE, INFINITY);
  conclude(w, done);
  return FAT_OK;
}

static fat_status received(fat_worker *w, fat_verdict *verdicts, bool *done, fat_error *err)
{
  fat_inbox inbox = w->inbox;
  w->inbox = (fat_inbox){0};
  fat_status status = FAT_OK;
  if (inbox.head.kind == FAT_WIRE_HELLO && w->state == STARTING)
    status = greeted(w, &inbox, err);
  else if (inbox.head.kind == FAT_WIRE_PREPARED && w->state == PREPARING)
    enter(w, RUNNING, w->deadline);
  else if (inbox.head.kind == FAT_WIRE_DONE && (w->state == RUNNING || w->state == PREPARING))
    status = judged(w, &inbox, verdicts, done, err);
  else
    status = fat_status_fail(err, FAT_E_IO, "a worker says %u out of turn", inbox.head.kind);
  fat_inbox_clear(&inbox);
  return status;
}

static fat_status late(fat_worker *w, fat_verdict *verdicts, bool *done, fat_error *err)
{
  char why[200];
  if (w->state == STARTING)
    return fat_status_fail(err, FAT_E_DEVICE_LOST,
                           "the GPU's driver did not answer a new process within %g s", start_deadline);
  if (w->state == PREPARING)
    snprintf(why, sizeof why, "the GPU did not take its inputs within %g s", prepare_deadline);
  else
    snprintf(why, sizeof why, "it did not end within its deadline of %.3g s", w->deadline);
  return blame(w, FAT_OUT_TIMEOUT, why, verdicts, done, err);
}

fat_status fat_worker_step(fat_worker *worker, double seconds, fat_verdict *verdicts, bool *done,
                           fat_error *err)
{
  fat_worker *w = worker;
  bool whole = false;
  *done = false;
  if (w->state == NONE)
    return w->assignment ? start(w, err) : FAT_OK;
  double wait = fmin(seconds, fmax(0, w->until - fat_clock_now()));
  struct pollfd news = {w->fd, POLLIN, 0};
  int n = poll(&news, 1, (int)ceil(wait * 1000));
  if (n <= 0)
    return w->state != IDLE && fat_clock_now() >= w->until ? late(w, verdicts, done, err) : FAT_OK;
  fat_status status = fat_inbox_read(&w->inbox, w->fd, &whole, err);
  if (status == FAT_E_NOT_FOUND)
    return died(w, verdicts, done, err);
  FAT_TRY(status);
  return whole ? received(w, verdicts, done, err) : FAT_OK;
}

int fat_worker_descriptor(const fat_worker *worker)
{
  return worker->assignment ? worker->fd : -1;
}
