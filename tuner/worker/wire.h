/* wire.h -- what the tuner and its worker say to each other: length-prefixed messages over a socket.
 *
 * Both ends are the same program, so numbers and structs travel as they lie in memory; texts and binaries
 * follow with their lengths. The tuner sends assignments, the worker a greeting, "prepared" and verdicts. */
#ifndef FAT_WIRE_H
#define FAT_WIRE_H

#include "db.h"
#include "oracle/kinds.h"
#include "problem.h"
#include "text.h"
#include "timer.h"

typedef enum fat_wire_kind {
  FAT_WIRE_HELLO,    /* worker: a fat_wire_hello: its GPU is open, or why not */
  FAT_WIRE_ASSIGN,   /* tuner: an assignment */
  FAT_WIRE_PREPARED, /* worker: inputs lie ready; from here on the deadline runs */
  FAT_WIRE_DONE,     /* worker: a fat_verdict for each entrant */
  FAT_WIRE_KINDS
} fat_wire_kind;

typedef struct fat_wire_hello {
  fat_error error; /* status FAT_OK: ready */
} fat_wire_hello;

typedef enum fat_task {
  FAT_TASK_MEASURE, /* one entrant: verified, probed, timed */
  FAT_TASK_RACE,    /* several: timed in turns on every kind of data, not verified again */
  FAT_TASK_CHECK,   /* one: verified only */
} fat_task;

/* A compiled config; everything is borrowed. */
typedef struct fat_entrant {
  const char *config, *recipe, *cubin_hash;
  const unsigned char *cubin;
  size_t cubin_size;
} fat_entrant;

enum { FAT_WIRE_ENTRANTS = 13 };

typedef struct fat_assignment {
  fat_task task;
  fat_problem problem;
  const char *mod, *mask_mod; /* what its expressions say, as the tuner knows them: set by packing */
  int sms;                    /* of the GPU, for recipes */
  int64_t l2;                 /* bytes */
  uint64_t seed;              /* of the inputs */
  double best_ms;             /* a probe of more than three times this is `slow`; 0: there is none yet */
  double seconds;             /* to spend on samples of each entrant */
  bool bare;         /* verify without poison and at small shapes alone, as tools that watch memory want it */
  fat_entrant clock; /* the tool that reads the SM clock; cubin NULL: none */
  int count;
  fat_entrant entrant[FAT_WIRE_ENTRANTS];
} fat_assignment;

/* How one entrant fared. */
typedef struct fat_verdict {
  fat_status status; /* not FAT_OK: no outcome; FAT_E_CONTEXT_DEAD, FAT_E_DEVICE_LOST: the worker is spent */
  fat_outcome outcome;
  double error_max, error_allowed;
  fat_timing timing;
  double kinds[FAT_KINDS]; /* of a race: medians on each kind of data, normal's too; 0: not timed */
  char detail[1024];
} fat_verdict;

/* Sends one message, whole. FAT_E_IO where the other end is gone or takes nothing for ten seconds. */
fat_status fat_wire_send(int fd, fat_wire_kind kind, const void *data, size_t bytes, fat_error *err);

/* A message as it comes in, piece by piece. Starts as {0}. */
typedef struct fat_inbox {
  struct {
    uint32_t kind, bytes;
  } head;
  size_t got; /* of head and data */
  unsigned char *data;
} fat_inbox;

/* Reads what is there, at most up to the end of one message; *whole: inbox holds it all, until cleared.
 * FAT_E_NOT_FOUND where the other end is gone, FAT_E_IO on what is no message. */
fat_status fat_inbox_read(fat_inbox *inbox, int fd, bool *whole, fat_error *err);
void fat_inbox_clear(fat_inbox *inbox);

/* An assignment as bytes, and back: what is read points into the bytes. */
fat_status fat_wire_pack(const fat_assignment *a, fat_text *bytes, fat_error *err);
fat_status fat_wire_unpack(const void *bytes, size_t size, fat_assignment *a, fat_error *err);

#endif
