/* detail.c -- public statuses, their texts, and the last failure's sentence of each thread.
 *
 * The sentence lies in memory that a thread gets at its first failure: thread-local variables of a library
 * that is loaded at run time may end the process where memory is short. */
#include "detail.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SENTENCE = sizeof((fat_error *)0)->text };

/* ORDER STATUS of fatune.h */
static const char *const texts[FATUNE_STATUS_COUNT] = {
    [FATUNE_OK] = "success",
    [FATUNE_ERR_INPUT] = "wrong argument",
    [FATUNE_ERR_MEMORY] = "out of memory",
    [FATUNE_ERR_UNSUPPORTED] = "unsupported problem",
    [FATUNE_ERR_MISS] = "nothing stored serves the problem",
    [FATUNE_ERR_COMPILE] = "compiling failed",
    [FATUNE_ERR_NO_DRIVER] = "no CUDA driver",
    [FATUNE_ERR_NO_DEVICE] = "no GPU",
    [FATUNE_ERR_NO_CONTEXT] = "no CUDA context",
    [FATUNE_ERR_DEVICE_MEMORY] = "out of GPU memory",
    [FATUNE_ERR_LAUNCH] = "launch refused",
    [FATUNE_ERR_CAPTURE] = "not allowed while a stream is captured",
    [FATUNE_ERR_CONTEXT_DEAD] = "the CUDA context is dead",
    [FATUNE_ERR_DEVICE_LOST] = "the GPU is lost",
    [FATUNE_ERR_CUDA] = "the CUDA driver failed",
    [FATUNE_ERR_ALIGNMENT] = "misaligned tensors",
    [FATUNE_ERR_FORKED] = "used after fork",
    [FATUNE_ERR_INTERNAL] = "internal error",
};

/* ORDER by status.h; what has no row is a defect of ours. */
static const fatune_status statuses[FAT_STATUS_COUNT] = {
    [FAT_E_NOMEM] = FATUNE_ERR_MEMORY,
    [FAT_E_INPUT] = FATUNE_ERR_INPUT,
    [FAT_E_UNSUPPORTED] = FATUNE_ERR_UNSUPPORTED,
    [FAT_E_TEMPLATE] = FATUNE_ERR_COMPILE,
    [FAT_E_LIMIT] = FATUNE_ERR_COMPILE,
    [FAT_E_NVRTC] = FATUNE_ERR_COMPILE,
    [FAT_E_COMPILE] = FATUNE_ERR_COMPILE,
    [FAT_E_TIMEOUT] = FATUNE_ERR_COMPILE,
    [FAT_E_BUSY] = FATUNE_ERR_NO_DEVICE,
    [FAT_E_NOT_FOUND] = FATUNE_ERR_MISS,
    [FAT_E_NO_DRIVER] = FATUNE_ERR_NO_DRIVER,
    [FAT_E_NO_DEVICE] = FATUNE_ERR_NO_DEVICE,
    [FAT_E_NO_CONTEXT] = FATUNE_ERR_NO_CONTEXT,
    [FAT_E_DEVICE_MEMORY] = FATUNE_ERR_DEVICE_MEMORY,
    [FAT_E_LAUNCH] = FATUNE_ERR_LAUNCH,
    [FAT_E_IMAGE] = FATUNE_ERR_MISS,
    [FAT_E_CORRUPT] = FATUNE_ERR_MISS,
    [FAT_E_CAPTURE] = FATUNE_ERR_CAPTURE,
    [FAT_E_CONTEXT_DEAD] = FATUNE_ERR_CONTEXT_DEAD,
    [FAT_E_DEVICE_LOST] = FATUNE_ERR_DEVICE_LOST,
    [FAT_E_CUDA] = FATUNE_ERR_CUDA,
    [FAT_E_ALIGNMENT] = FATUNE_ERR_ALIGNMENT,
    [FAT_E_FORKED] = FATUNE_ERR_FORKED,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int have_key;

static void make_key(void)
{
  have_key = pthread_key_create(&key, free) == 0;
}

/* This thread's text; NULL where it has none and `make` is 0 or memory is short. */
static char *text_of_thread(int make)
{
  pthread_once(&once, make_key);
  char *text = have_key ? pthread_getspecific(key) : NULL;
  if (text || !make || !have_key)
    return text;
  text = calloc(1, SENTENCE);
  if (text && pthread_setspecific(key, text) != 0) {
    free(text);
    text = NULL;
  }
  return text;
}

fatune_status fat_detail_keep(fat_status status, const char *sentence)
{
  char *text = text_of_thread(1);
  if (text) {
    snprintf(text, SENTENCE, "%s", sentence);
    fat_status_line(text); /* a problem's text may hold line ends */
  }
  return statuses[status] == FATUNE_OK ? FATUNE_ERR_INTERNAL : statuses[status];
}

const char *fatune_detail(void)
{
  const char *text = text_of_thread(0);
  return text ? text : "";
}

const char *fatune_status_text(fatune_status status)
{
  unsigned index = (unsigned)status;
  return index < FATUNE_STATUS_COUNT ? texts[index] : "unknown status";
}
