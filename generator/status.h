/* status.h -- result codes and the error text that goes with them.
 *
 * Every call that can fail returns a fat_status and takes a `fat_error *` as its last parameter (NULL is
 * allowed: the code alone then). On failure the text is one clear sentence: what was asked, what stood in
 * the way, what to do. On success the error is left untouched. */
#ifndef FAT_STATUS_H
#define FAT_STATUS_H

typedef enum fat_status {
  FAT_OK = 0,
  FAT_E_NOMEM,         /* out of memory */
  FAT_E_INPUT,         /* a text or value from the user is wrong */
  FAT_E_UNSUPPORTED,   /* well formed, but there is no kernel for it */
  FAT_E_TEMPLATE,      /* a kernel template or its Lua is broken; the text names file and line */
  FAT_E_LIMIT,         /* a Lua limit (instructions, memory) was reached */
  FAT_E_NVRTC,         /* NVRTC is absent, too old, or failed by itself */
  FAT_E_COMPILE,       /* NVRTC refused the source; the text holds its first error */
  FAT_E_TIMEOUT,       /* a deadline passed */
  FAT_E_CANCELLED,     /* the caller asked to stop */
  FAT_E_IO,            /* a file could not be read or written */
  FAT_E_FULL,          /* no space left for the database */
  FAT_E_READONLY,      /* the database or its folder cannot be written */
  FAT_E_DENIED,        /* wrong owner, or others may write */
  FAT_E_FOREIGN,       /* a file, but not a fatune database */
  FAT_E_NEWER,         /* a fatune database of a newer version */
  FAT_E_CORRUPT,       /* damaged content, found by a check or a hash */
  FAT_E_BUSY,          /* somebody else holds it */
  FAT_E_DB,            /* any other failure of the database */
  FAT_E_NOT_FOUND,     /* nothing there */
  FAT_E_NO_DRIVER,     /* libcuda is absent or unusable */
  FAT_E_NO_DEVICE,     /* no GPU at hand */
  FAT_E_NO_CONTEXT,    /* no CUDA context is current, or it is none of this device */
  FAT_E_DEVICE_MEMORY, /* the GPU's memory is used up; the context lives on */
  FAT_E_LAUNCH,        /* a launch was refused (registers, shared memory, sizes); the context lives on */
  FAT_E_IMAGE,         /* a cubin that this GPU or driver cannot load */
  FAT_E_CAPTURE,       /* not allowed while a stream is captured into a graph */
  FAT_E_CONTEXT_DEAD,  /* a fault: every later call in this process fails */
  FAT_E_DEVICE_LOST,   /* the GPU itself failed or is gone */
  FAT_E_CUDA,          /* any other failure of the driver */
  FAT_E_ALIGNMENT,     /* tensors that no loaded kernel can take */
  FAT_E_FORKED,        /* made before fork(), used in the child */
  FAT_STATUS_COUNT
} fat_status;

/* The sentence that goes with a status. Long enough for a compiler's first error with its line. */
typedef struct fat_error {
  fat_status status;
  char text[1024];
} fat_error;

/* Short fixed name of a status ("out of memory", ...); never NULL, also for values out of range. */
const char *fat_status_name(fat_status status);

/* Fills `err` (if any) with `status` and the formatted text, and returns `status`:
 *   return fat_status_fail(err, FAT_E_INPUT, "d is %d: allowed are multiples of 8 up to 256", d);
 * err->text itself may be an argument, to put words around it. Control bytes become '?'. */
fat_status fat_status_fail(fat_error *err, fat_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Replaces what could control a terminal or reorder the text: control bytes except tab and newline, U+0080 to
 * U+009F, and Unicode's direction marks. */
void fat_status_plain(char *text, char instead);

/* Makes one line of it: puts blanks in place of all these, and of tabs and newlines too. */
void fat_status_line(char *text);

/* The one error macro: leaves the function with the status of a call that failed. */
#define FAT_TRY(call)                                                                                        \
  do {                                                                                                       \
    fat_status fat_try_ = (call);                                                                            \
    if (fat_try_ != FAT_OK)                                                                                  \
      return fat_try_;                                                                                       \
  } while (0)

#endif
