/* serve.c -- takes assignments, tries kernels, answers with verdicts.
 *
 * In: messages of wire.h. Out: the same. A failure that is the kernel's own becomes an outcome, one that
 * would hit all of them a status. After an error that kills the context the worker says so and waits to be
 * ended: what a process can still do then is not known. */
#include "serve.h"

#include "context.h"
#include "oracle/reference.h"
#include "full.h"
#include "mod.h"
#include "width.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double slow_factor = 3;  /* of the best so far */
static const double kind_share = 0.2; /* of the time on normal data, for each other kind */
/* After a pause an H200 keeps its clock for 50 to 75 ms; then power holds it down, and calls take 12 to 17 %
 * longer (d 64 and 128, 8192 keys). Configs that took as many clocks differed by 5 % then. */
static const double load_ms = 75;
enum { STAMP_ROOM = 64, FILE_MOST = 1 << 28 };

typedef struct server {
  int fd;
  const fat_driver *driver;
  fat_testbed testbed;
  fat_timer timer;
  fat_module *clock;
} server;

/* What a failure means for the config that was tried. Any other status is not the config's fault. */
static const struct {
  fat_status status;
  fat_outcome outcome;
} outcomes[] = {
    {FAT_E_DEVICE_MEMORY, FAT_OUT_OOM},   {FAT_E_LAUNCH, FAT_OUT_LAUNCH_FAILED},
    {FAT_E_NOMEM, FAT_OUT_OOM}, /* of the host, for what is right: other problems are smaller */
    {FAT_E_IMAGE, FAT_OUT_LAUNCH_FAILED}, {FAT_E_CUDA, FAT_OUT_LAUNCH_FAILED},
    {FAT_E_CONTEXT_DEAD, FAT_OUT_FAULT},
};

static void classify(fat_status status, const fat_error *err, fat_verdict *v)
{
  v->status = status;
  for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
    if (outcomes[i].status == status) {
      v->outcome = outcomes[i].outcome;
      if (status != FAT_E_CONTEXT_DEAD) /* that one the tuner must see: this worker is spent */
        v->status = FAT_OK;
    }
  if (status != FAT_OK)
    snprintf(v->detail, sizeof v->detail, "%s", err->text);
}

/* -- subjects */

static fat_status load(server *s, const fat_entrant *e, const fat_problem *p, fat_subject *c, fat_error *err)
{
  fat_config config;
  FAT_TRY(fat_config_parse(e->config, &config, err));
  *c = (fat_subject){.stores = fat_reference_stores(config.kernel),
                     .unit = (int)fat_width_alignment(&config, fat_dtypes[p->dtype].bytes)};
  FAT_TRY(fat_recipe_parse(e->recipe, &c->recipe, err));
  return fat_module_load(s->driver, e->cubin, e->cubin_size, e->cubin_hash, &c->module, err);
}

/* The clock tool is loaded once; without it samples have no clock, and nothing else is lost. */
static void load_clock(server *s, const fat_assignment *a)
{
  const fat_cuda_calls *cuda = fat_driver_table(s->driver);
  void *entry;
  if (s->clock || !a->clock.cubin)
    return;
  if (fat_module_load(s->driver, a->clock.cubin, a->clock.cubin_size, a->clock.cubin_hash, &s->clock, NULL) !=
          FAT_OK ||
      fat_module_entry(s->clock, "fat_stamp", 0, &entry, NULL) != FAT_OK ||
      cuda->memory_alloc(&s->timer.stamps, STAMP_ROOM) != FAT_CUDA_SUCCESS ||
      cuda->fill8(s->timer.stamps, 0, STAMP_ROOM) != FAT_CUDA_SUCCESS)
    return;
  s->timer.stamp = entry;
  s->timer.stamp_blocks = a->sms;
}

/* -- tasks */

static fat_status measure(server *s, const fat_assignment *a, const fat_subject *c, fat_verdict *v,
                          fat_error *err)
{
  fat_full full;
  double probe;
  FAT_TRY(fat_verify_cases(&s->testbed, a, c, v, err));
  if (v->outcome != FAT_OUT_OK || a->bare)
    return FAT_OK;
  FAT_TRY(fat_full_launch(&s->testbed, a, c, &full, err));
  const fat_runner runner = {fat_full_work, &full};
  FAT_TRY(fat_full_probe(&full, &s->timer, v, &probe, err));
  const bool times = v->outcome == FAT_OUT_OK && a->task == FAT_TASK_MEASURE;
  if (times)
    FAT_TRY(fat_timer_again(&s->timer, &runner, &probe, err));
  if (times && a->best_ms > 0 && probe > slow_factor * a->best_ms) {
    v->outcome = FAT_OUT_SLOW;
    v->timing = (fat_timing){.count = 1, .ms = {probe}, .mhz = {NAN}};
    fat_timer_figures(&v->timing);
    snprintf(v->detail, sizeof v->detail, "its first runs took %.4g ms, %.1f times the best so far", probe,
             probe / a->best_ms);
    return FAT_OK;
  }
  if (v->outcome == FAT_OUT_OK)
    FAT_TRY(fat_full_repeat(&full, v, err));
  if (v->outcome != FAT_OUT_OK || a->task == FAT_TASK_CHECK)
    return FAT_OK;
  return fat_timer_run(&s->timer, &runner, &probe, 1, a->seconds, FAT_TIMER_LEAST, &v->timing, err);
}

/* On every kind of data, normal first. What the nine others of a forward cost, of GPU time, for eight
 * finalists (the fake driver's clock): 0.4 s where a call takes 0.2 ms, 1.4 s of 2 ms, 8 s of 20 ms; their
 * tensors take 0.04 s each to make for heads of 16384 rows, d 128. */
static fat_status race(server *s, const fat_assignment *a, const fat_subject *c, fat_verdict *v,
                       fat_error *err)
{
  fat_full full[FAT_WIRE_ENTRANTS];
  fat_runner runners[FAT_WIRE_ENTRANTS];
  fat_timing timings[FAT_WIRE_ENTRANTS];
  double probe[FAT_WIRE_ENTRANTS];
  for (int i = 0; i < a->count; i++) {
    FAT_TRY(fat_full_launch(&s->testbed, a, &c[i], &full[i], err));
    runners[i] = (fat_runner){fat_full_work, &full[i]};
  }
  for (int i = 0; i < a->count; i++)
    FAT_TRY(fat_timer_probe(&s->timer, &runners[i], &probe[i], err));
  for (int kind = 0; kind < FAT_KINDS; kind++) {
    const double seconds = kind ? kind_share * a->seconds : a->seconds;
    if (!fat_kinds_has(&a->problem, kind))
      continue;
    if (kind)
      FAT_TRY(fat_testbed_bend(&s->testbed, kind, err));
    s->timer.load_ms = kind ? 0 : load_ms;
    const fat_status status = fat_timer_run(&s->timer, runners, probe, a->count, seconds,
                                            kind ? FAT_TIMER_FEW : FAT_TIMER_LEAST, timings, err);
    s->timer.load_ms = 0;
    FAT_TRY(status);
    for (int i = 0; i < a->count; i++) {
      if (!kind)
        v[i].timing = timings[i];
      v[i].kinds[kind] = probe[i] = timings[i].median;
    }
  }
  return fat_testbed_bend(&s->testbed, 0, err);
}

static fat_status try_all(server *s, const fat_assignment *a, fat_subject *c, fat_verdict *v, fat_error *err)
{
  for (int i = 0; i < a->count; i++)
    FAT_TRY(load(s, &a->entrant[i], &a->problem, &c[i], err));
  load_clock(s, a);
  return a->task == FAT_TASK_RACE ? race(s, a, c, v, err) : measure(s, a, c, v, err);
}

/* What the tuner knows of expressions. */
static fat_status learn(const fat_assignment *a, fat_error *err)
{
  const fat_mod *m;
  if (a->mod)
    FAT_TRY(fat_mod_know(a->mod, FAT_MOD, &m, err));
  return a->mask_mod ? fat_mod_know(a->mask_mod, FAT_MASK_MOD, &m, err) : FAT_OK;
}

/* One assignment; its verdicts are filled in whatever happens. */
static void work(server *s, const fat_assignment *a, fat_verdict *v)
{
  fat_subject subjects[FAT_WIRE_ENTRANTS] = {0};
  fat_error err = {0};
  fat_status status = learn(a, &err);
  if (status == FAT_OK)
    status = fat_testbed_prepare(&s->testbed, a, &err);
  if (status == FAT_OK && s->fd >= 0)
    status = fat_wire_send(s->fd, FAT_WIRE_PREPARED, NULL, 0, &err);
  if (status == FAT_OK)
    status = try_all(s, a, subjects, v, &err);
  for (int i = 0; i < a->count; i++) {
    classify(status, &err, &v[i]);
    if (v[i].status == FAT_OK)
      fat_module_free(subjects[i].module);
  }
}

static const fat_verdict nothing = {.timing = {.median = NAN, .p20 = NAN, .p80 = NAN, .clock = NAN}};

static fat_status answer(server *s, const fat_inbox *message, fat_error *err)
{
  static fat_verdict verdicts[FAT_WIRE_ENTRANTS];
  fat_assignment a;
  if (message->head.kind != FAT_WIRE_ASSIGN)
    return fat_status_fail(err, FAT_E_IO, "message %u is no assignment", message->head.kind);
  FAT_TRY(fat_wire_unpack(message->data, message->head.bytes, &a, err));
  for (int i = 0; i < FAT_WIRE_ENTRANTS; i++)
    verdicts[i] = nothing;
  work(s, &a, verdicts);
  return fat_wire_send(s->fd, FAT_WIRE_DONE, verdicts, (size_t)a.count * sizeof *verdicts, err);
}

/* Opens the device; its primary context stays until the process ends. */
static fat_status open_device(server *s, int ordinal, fat_driver **driver, fat_error *err)
{
  int device;
  void *context;
  FAT_TRY(fat_driver_open(driver, err));
  const fat_cuda_calls *cuda = fat_driver_table(*driver);
  FAT_TRY(fat_driver_check(*driver, "cuDeviceGet", cuda->device(&device, ordinal), err));
  FAT_TRY(fat_driver_check(*driver, "cuDevicePrimaryCtxRetain", cuda->primary_retain(&context, device), err));
  FAT_TRY(fat_driver_check(*driver, "cuCtxSetCurrent", cuda->context_set(context), err));
  s->driver = s->testbed.driver = *driver;
  return fat_timer_open(*driver, &s->timer, err);
}

static void close_server(server *s, fat_driver *driver)
{
  fat_testbed_close(&s->testbed);
  fat_timer_close(&s->timer);
  fat_module_free(s->clock);
  fat_driver_close(driver);
}

int fat_serve_check(int argc, char **argv)
{
  server s = {.fd = -1};
  fat_driver *driver = NULL;
  fat_text bytes = {0};
  fat_assignment a;
  fat_verdict verdict = nothing;
  fat_error err = {0};
  fat_status status = argc < 4 ? FAT_E_INPUT : fat_text_read_file(&bytes, argv[3], FILE_MOST, &err);
  if (status == FAT_OK)
    status = fat_wire_unpack(bytes.data, bytes.length, &a, &err);
  if (status == FAT_OK)
    status = open_device(&s, atoi(argv[2]), &driver, &err);
  if (status == FAT_OK) {
    work(&s, &a, &verdict);
    close_server(&s, driver);
  }
  fat_text_free(&bytes);
  bool right = status == FAT_OK && verdict.status == FAT_OK && verdict.outcome == FAT_OUT_OK;
  if (!right)
    printf("%s\n", status == FAT_OK ? verdict.detail : err.text);
  return right ? 0 : 1;
}

int fat_serve_main(int argc, char **argv)
{
  server s = {.fd = FAT_SERVE_FD};
  fat_driver *driver = NULL;
  fat_wire_hello hello = {{0}};
  fat_inbox inbox = {0};
  bool whole = false;
  signal(SIGPIPE, SIG_IGN);
  fat_status status = open_device(&s, argc > 2 ? atoi(argv[2]) : 0, &driver, &hello.error);
  hello.error.status = status;
  if (fat_wire_send(s.fd, FAT_WIRE_HELLO, &hello, sizeof hello, NULL) != FAT_OK && status == FAT_OK)
    status = FAT_E_IO;
  while (status == FAT_OK) {
    status = fat_inbox_read(&inbox, s.fd, &whole, NULL);
    if (status != FAT_OK || !whole)
      continue;
    status = answer(&s, &inbox, NULL);
    fat_inbox_clear(&inbox);
  }
  fat_inbox_clear(&inbox);
  if (driver)
    close_server(&s, driver);
  return status == FAT_E_NOT_FOUND ? 0 : 1; /* not found: the tuner has closed its end */
}
