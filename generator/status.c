/* status.c -- names of the result codes, and the one place where an error text is written.
 *
 * In: a code and a format. Out: the same code, and a text that is safe to show on a terminal: user input
 * quoted in it may hold any byte, so control bytes other than tab and line end become '?'. */
#include "status.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const names[FAT_STATUS_COUNT] = {
    [FAT_OK] = "ok",
    [FAT_E_NOMEM] = "out of memory",
    [FAT_E_INPUT] = "wrong input",
    [FAT_E_UNSUPPORTED] = "unsupported",
    [FAT_E_TEMPLATE] = "broken template",
    [FAT_E_LIMIT] = "limit reached",
    [FAT_E_NVRTC] = "NVRTC unusable",
    [FAT_E_COMPILE] = "compile failed",
    [FAT_E_TIMEOUT] = "timed out",
    [FAT_E_CANCELLED] = "cancelled",
    [FAT_E_IO] = "file error",
    [FAT_E_FULL] = "no space left",
    [FAT_E_READONLY] = "read-only",
    [FAT_E_DENIED] = "permission denied",
    [FAT_E_FOREIGN] = "not a fatune database",
    [FAT_E_NEWER] = "newer database",
    [FAT_E_CORRUPT] = "damaged",
    [FAT_E_BUSY] = "busy",
    [FAT_E_DB] = "database error",
    [FAT_E_NOT_FOUND] = "not found",
    [FAT_E_NO_DRIVER] = "no CUDA driver",
    [FAT_E_NO_DEVICE] = "no GPU",
    [FAT_E_NO_CONTEXT] = "no CUDA context",
    [FAT_E_DEVICE_MEMORY] = "out of GPU memory",
    [FAT_E_LAUNCH] = "launch refused",
    [FAT_E_IMAGE] = "cubin not loadable",
    [FAT_E_CAPTURE] = "not allowed in stream capture",
    [FAT_E_CONTEXT_DEAD] = "CUDA context is dead",
    [FAT_E_DEVICE_LOST] = "GPU lost",
    [FAT_E_CUDA] = "CUDA failure",
    [FAT_E_ALIGNMENT] = "misaligned tensors",
    [FAT_E_FORKED] = "used after fork",
};

const char *fat_status_name(fat_status status)
{
  /* Through unsigned: an enum's own type may or may not have a sign. */
  unsigned index = (unsigned)status;
  return index < FAT_STATUS_COUNT ? names[index] : "unknown status";
}

/* Bytes of a control at s; 0: there is none. */
static int control_at(const unsigned char *s)
{
  if ((*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f)
    return 1;
  if (s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f)
    return 2;
  const bool marks = s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f);
  const bool turns = s[0] == 0xe2 && s[1] == 0x80 && s[2] >= 0xaa && s[2] <= 0xae;
  return marks || turns || (s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9) ? 3 : 0;
}

void fat_status_plain(char *text, char instead)
{
  char *to = text;
  for (const char *from = text; *from;) {
    const int bytes = control_at((const unsigned char *)from);
    *to++ = bytes > 0 ? instead : *from;
    from += bytes > 0 ? bytes : 1;
  }
  *to = 0;
}

void fat_status_line(char *text)
{
  fat_status_plain(text, ' ');
  for (char *c = text; *c; c++)
    *c = *c == '\n' || *c == '\t' ? ' ' : *c;
}

fat_status fat_status_fail(fat_error *err, fat_status status, const char *format, ...)
{
  if (err == NULL)
    return status;
  /* Formatted aside first: an argument may be err->text itself, where a caller puts words before it. */
  char text[sizeof err->text];
  va_list args;
  va_start(args, format);
  int written = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (written < 0)
    snprintf(text, sizeof text, "%s", fat_status_name(status));
  else if ((size_t)written >= sizeof text)
    memcpy(text + sizeof text - 4, "...", 4);
  fat_status_plain(text, '?');
  err->status = status;
  memcpy(err->text, text, sizeof text);
  return status;
}
