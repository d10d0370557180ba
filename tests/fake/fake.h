/* fake.h -- what the files of the fake driver share. Private; tests use fake_cuda.h.
 *
 * Every call of the driver begins with FAKE_ENTER, where it is counted and scripted faults strike. Work is
 * done at once, by the thread that asks for it; only time is virtual. What `run` of a library calls from many
 * threads (cuLaunchKernel, cuMemsetD8Async, ...) takes no lock and orders nothing between threads unless a
 * capture or an emulation goes on: else ThreadSanitizer would not see the races of the code under test. */
#ifndef FAKE_H
#define FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#pragma GCC visibility push(default)
#include "cuda_abi.h"
#include "fake_cuda.h"
#define FAKE_DECLARE(field, symbol, parameters) int symbol parameters;
FAT_CUDA_CALLS(FAKE_DECLARE)
FAT_CUDA_OPTIONAL(FAKE_DECLARE)
#include "more_calls.h"
#define FAKE_DECLARE_MORE(symbol, parameters) int symbol parameters;
FAKE_MORE_CALLS(FAKE_DECLARE_MORE)
#pragma GCC visibility pop

/* ---- handles ---- */

/* What a handle points at begins with this. A handle that was destroyed stays allocated, so that using it is
 * an error of its own and not a crash. */
typedef enum fake_magic {
  FAKE_DEAD = 0,
  FAKE_CONTEXT = 0x43545831,
  FAKE_MODULE,
  FAKE_FUNCTION,
  FAKE_STREAM,
  FAKE_EVENT,
  FAKE_GRAPH,
  FAKE_EXEC
} fake_magic;
typedef struct fake_head {
  _Atomic unsigned magic;
  bool is_function;
  struct fake_head *next; /* of all that were ever made */
  struct fake_context *context;
  unsigned long long context_id; /* a context that is gone and one that came later differ in it */
} fake_head;

/* A zeroed handle of `size` bytes that belongs to a context; NULL without memory. */
void *fake_handle_make(size_t size, fake_magic magic, struct fake_context *context);
bool fake_handle_is(const void *handle, fake_magic magic, const struct fake_context *context);
/* The same for memory that is there already. */
void fake_handle_enter(fake_head *h, fake_magic magic, struct fake_context *context);
void fake_handle_bury(void *handle);
void fake_handle_bury_context(const struct fake_context *c);
int fake_handle_count(fake_magic magic);

/* ---- faults and times (script.c) ---- */

typedef enum fake_effect {
  FAKE_NO_FAULT,
  FAKE_CODE,     /* a result code */
  FAKE_HANG,     /* a call never returns; a launch never ends */
  FAKE_SEGV,     /* the process dies by SIGSEGV */
  FAKE_KILL,     /* by SIGKILL */
  FAKE_SLOW,     /* so many real milliseconds more */
  FAKE_WRONG,    /* the launch writes garbage */
  FAKE_NAN,      /* it writes a NaN */
  FAKE_UNSTABLE, /* the last bit of its result changes from launch to launch */
  FAKE_STRAY,    /* it writes the last word of an allocation that is not its to write */
} fake_effect;
typedef struct fake_strike {
  fake_effect effect;
  int code;
  double ms;
} fake_strike;

/* Bytes of the smallest struct that an attention kernel takes: that of a plain forward call (tensors.h). */
enum { FAKE_CALL_LEAST = 176 };

fake_strike fake_script_call(const char *function);
/* `config` is asked for only where a rule does not match the entry's name; it may be NULL. */
fake_strike fake_script_launch(const char *entry, const char *(*config)(const char *entry));
struct fake_work;
double fake_script_ms(const struct fake_work *w, const char *(*config)(const char *entry),
                      double blocks_per_sm);
bool fake_script_match(const char *pattern, const char *text);
void fake_sleep(double ms);
void fake_script_die(int signal);
_Noreturn void fake_script_hang(void);
/* One line into the file FAKE_CUDA_LOG names, with the process's number. */
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A finding, kept for fake_finding. */
void fake_found_reset(void);
void fake_found(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- calls (enter.c) ---- */

typedef struct fake_site {
  const char *name;
  _Atomic long calls;
  _Atomic int known;
  struct fake_site *next;
} fake_site;

int fake_enter(fake_site *site, bool before_init);
bool fake_is_sticky(int code);

#define FAKE_ENTER_AT(function, before_init)                                                                 \
  static fake_site site_ = {.name = #function};                                                              \
  int entered_ = fake_enter(&site_, before_init);                                                            \
  if (entered_)                                                                                              \
  return entered_
#define FAKE_ENTER(function) FAKE_ENTER_AT(function, false)
/* The same, and the current context, which must be without error. */
#define FAKE_ENTER_CONTEXT(function, context)                                                                \
  FAKE_ENTER(function);                                                                                      \
  struct fake_context *context;                                                                              \
  entered_ = fake_context_current(&context);                                                                 \
  if (entered_)                                                                                              \
  return entered_

/* ---- devices ---- */

enum { FAKE_DEVICES = 16, FAKE_FIRST_DEVICE = 70 /* a handle is not an ordinal */ };
typedef struct fake_row {
  const char *key, *name;
  size_t memory;
  int major, minor, sms, shared_block, shared_sm, l2, bus, clock, memory_clock;
} fake_row;
const fake_row *fake_device_row(int ordinal); /* among the visible ones; NULL beyond the last */
size_t fake_device_memory(int ordinal);
/* The ordinal of a handle; -1 if there is no such device. */
int fake_device_ordinal(int device);

/* ---- contexts, streams, events ---- */

struct fake_capture;
struct emu;
typedef struct fake_stream {
  fake_head head;
  unsigned flags;
  unsigned long long id;
  _Atomic double ready; /* when all its work is done, in ms of the context's clock */
  _Atomic int hung;
  struct fake_capture *_Atomic capture;
  struct fake_stream *next;
} fake_stream;

typedef struct fake_context {
  fake_head head;
  int ordinal;
  int references; /* of a primary one; -1: made by cuCtxCreate */
  _Atomic unsigned long long id;
  _Atomic int sticky;  /* every call returns it */
  _Atomic int pending; /* a launch has failed, and nobody has waited for it yet */
  _Atomic double host; /* the clock of who waits */
  fake_stream null;    /* the default stream */
  fake_stream *_Atomic streams;
} fake_context;

/* 201 without one, 709 after its end, its sticky error. */
int fake_context_current(fake_context **context);
fake_context *fake_context_of_thread(void); /* NULL: none */
int fake_context_count(void);
void fake_context_reset_all(void);

/* NULL, 1 and 2 stand for the default stream. */
int fake_stream_find(fake_context *c, void *handle, fake_stream **stream);
/* The time at which work given to it now begins. */
double fake_stream_ready(const fake_stream *s);
/* Work of `ms` is put behind all that is there; the time at which it ends. */
double fake_stream_advance(fake_stream *s, double ms);
/* The time of a host that waits goes on to `ms`. */
void fake_context_pass(fake_context *c, double ms);
bool fake_stream_is_hung(const fake_stream *s);
/* Waits as a host does: for ever where a kernel hangs; a pending error becomes sticky and is returned. */
int fake_context_wait(fake_context *c);
int fake_stream_wait(fake_stream *s);
int fake_context_take_error(fake_context *c);

/* ---- modules ---- */

enum { FAKE_PARAMS = 16, FAKE_PARAM_BYTES = 4096, FAKE_FUNCTIONS = 16, FAKE_ENTRY = 128 };
typedef struct fake_function {
  fake_head head;
  struct fake_module *module;
  char name[FAKE_ENTRY];
  int registers, local, shared, threads; /* threads: of __launch_bounds__, else 1024 */
  int params, offset[FAKE_PARAMS], size[FAKE_PARAMS], bytes;
  _Atomic int dynamic; /* most dynamic shared memory */
  _Atomic long launches;
} fake_function;
typedef struct fake_module {
  fake_head head;
  int sm, count;
  fake_function *function[FAKE_FUNCTIONS];
} fake_module;

/* Reads a cubin's kernels; 0, 200 for no cubin, 1000 for a damaged one. Its functions are handles. */
enum { FAKE_DAMAGED = 1000 };
int fake_cubin_read(const void *image, fake_module *module);
/* The same of PTX, a text that ends with a zero. *alone: it is for its architecture and no later one. */
bool fake_ptx_is(const void *image);
int fake_ptx_read(const void *image, fake_module *module, bool *alone);
void fake_module_bury(fake_module *m);

/* ---- memory ---- */

enum { FAKE_GUARD = 512 };
#define FAKE_POISON UINT32_C(0x7fed7fed)
/* Whether bytes lie inside one allocation of the context's device. */
bool fake_memory_holds(const fake_context *c, fat_cuda_address address, size_t bytes);
/* The allocation around an address: its first byte and size; false if there is none. */
bool fake_memory_around(fat_cuda_address address, char **data, size_t *bytes);
int fake_memory_alloc(fake_context *c, fat_cuda_address *address, size_t bytes);
int fake_memory_free(fake_context *c, fat_cuda_address address);
void fake_memory_free_context(const fake_context *c);
void fake_memory_count(fake_live *live);
size_t fake_memory_available(const fake_context *c);
/* Says that bytes hold values now (for the emulator). */
void fake_memory_written(const void *data, size_t bytes);
char *fake_memory_arena(size_t *bytes);
/* The emulator is to see the allocation around an address. */
void fake_memory_show(struct emu *e, fat_cuda_address address);
/* Allocations that it sees become its regions; `forget`: who wrote and read them is forgotten. */
void fake_memory_regions(struct emu *e, bool forget);

/* ---- work ---- */

typedef enum fake_work_kind { FAKE_WORK_LAUNCH, FAKE_WORK_COPY, FAKE_WORK_FILL } fake_work_kind;
typedef struct fake_work {
  fake_work_kind kind;
  /* launch */
  fake_function *function;
  unsigned grid[3], block[3], shared;
  unsigned cluster; /* blocks of one; 0: none */
  bool overlap;     /* with the work ahead of it */
  unsigned char *params;
  /* copy and fill */
  void *to;
  const void *from;
  size_t bytes; /* of a copy */
  bool host;    /* one side is the host's */
  size_t pitch, width, height;
  unsigned value, element;
  struct fake_work *next; /* in a graph */
} fake_work;

/* Does it, or keeps it where the stream is captured. */
int fake_work_submit(fake_stream *s, const fake_work *w);
int fake_work_do(fake_stream *s, const fake_work *w);
int fake_launch_do(fake_stream *s, const fake_work *w);
/* What a fault does to the results of a launch. */
void fake_effect_apply(const fake_work *w, fake_effect effect);

/* Something that must not happen while a stream is captured: 900, and the capture is broken. */
int fake_capture_unsafe(void);
int fake_capture_add(struct fake_capture *capture, const fake_work *w);
/* An event was recorded on, or a stream waits for, a captured stream. */
int fake_capture_join(fake_stream *s, struct fake_capture *capture);
void fake_capture_reset(void);
/* Whether the capture of a stream is broken or goes on; NULL: none goes on. */
int fake_capture_break(struct fake_capture *capture);

/* ---- numbers ---- */

/* Whether an entry's name ends with the hash of a source. One that does not is a tool's, like a clock's. */
bool fake_source_is_named(const char *entry);
/* The text of the source whose hash is in an entry's name; NULL where none is found (a finding). It lives
 * until fake_reset. */
const char *fake_source_text(const char *entry);
/* "fwd:Br64-..." out of its header; NULL if unknown. */
const char *fake_source_config(const char *entry);
const char *fake_source_family(const char *entry);
void fake_source_reset(void);
fake_numbers fake_numbers_wanted(void);
/* The kind of data of a launch ("rise16"), "mixed" where its heads differ; NULL where it is no attention that
 * is known. */
const char *fake_kind_of(const fake_work *w);
/* Runs a launch in the emulator, or computes what it should: 0, the code that a device would end with, or
 * FAKE_ENDLESS. */
enum { FAKE_ENDLESS = 1001 };
int fake_emulate(const fake_work *w);
int fake_reference(const fake_work *w);

#endif
