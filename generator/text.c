/* text.c -- the growing text, whole files into it, SHA-256 of bytes, characters, and how far two words are
 * apart.
 *
 * Invariant: data is NULL, or has room for length + 1 bytes and data[length] is 0. A text that failed keeps
 * what it held and takes nothing more, so a caller checks once, at the end. */
#include "text.h"
#include "sha.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Room for `n` more bytes and the closing zero. Doubles, so that adding stays linear. */
static bool reserve(fat_text *t, size_t n)
{
  if (t->failed)
    return false;
  if (n >= SIZE_MAX - t->length) {
    t->failed = true;
    return false;
  }
  size_t need = t->length + n + 1;
  if (need <= t->room)
    return true;
  size_t room = t->room < 64 ? 64 : t->room;
  while (room < need)
    room = room > SIZE_MAX / 2 ? need : room * 2;
  char *data = realloc(t->data, room);
  if (data == NULL) {
    t->failed = true;
    return false;
  }
  t->data = data;
  t->room = room;
  return true;
}

void fat_text_add(fat_text *t, const char *s)
{
  fat_text_add_bytes(t, s, strlen(s));
}

void fat_text_add_bytes(fat_text *t, const void *bytes, size_t n)
{
  if (!reserve(t, n))
    return;
  if (n > 0)
    memcpy(t->data + t->length, bytes, n);
  t->length += n;
  t->data[t->length] = 0;
}

void fat_text_format(fat_text *t, const char *format, ...)
{
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0)
    t->failed = true;
  else if (reserve(t, (size_t)n)) {
    vsnprintf(t->data + t->length, (size_t)n + 1, format, again);
    t->length += (size_t)n;
  }
  va_end(again);
}

const char *fat_text_get(const fat_text *t)
{
  return t->data != NULL ? t->data : "";
}

fat_status fat_text_status(const fat_text *t, fat_error *err)
{
  if (t->failed)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory after %zu bytes of text", t->length);
  return FAT_OK;
}

void fat_text_clear(fat_text *t)
{
  t->length = 0;
  t->failed = false;
  if (t->data != NULL)
    t->data[0] = 0;
}

void fat_text_free(fat_text *t)
{
  free(t->data);
  *t = (fat_text){0};
}

/* Opens a regular file for reading. Without O_NONBLOCK the open itself would wait at a pipe. */
static fat_status open_regular(const char *path, size_t limit, int *fd, size_t *size, fat_error *err)
{
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (*fd < 0) {
    fat_status status = errno == ENOENT || errno == ENOTDIR ? FAT_E_NOT_FOUND : FAT_E_IO;
    return fat_status_fail(err, status, "cannot open '%s': %s", path, strerror(errno));
  }
  struct stat info;
  if (fstat(*fd, &info) != 0)
    return fat_status_fail(err, FAT_E_IO, "cannot look at '%s': %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode))
    return fat_status_fail(err, FAT_E_IO, "'%s' is not a regular file", path);
  if ((uintmax_t)info.st_size > limit)
    return fat_status_fail(err, FAT_E_IO, "'%s' has %jd bytes: at most %zu are read", path,
                           (intmax_t)info.st_size, limit);
  *size = (size_t)info.st_size;
  return FAT_OK;
}

fat_status fat_text_read_file(fat_text *t, const char *path, size_t limit, fat_error *err)
{
  size_t before = t->length, size = 0;
  int fd = -1;
  fat_status status = open_regular(path, limit, &fd, &size, err);
  if (status != FAT_OK)
    goto done;
  reserve(t, size);
  for (;;) {
    char part[4096];
    ssize_t n = read(fd, part, sizeof part);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      status = fat_status_fail(err, FAT_E_IO, "cannot read '%s': %s", path, strerror(errno));
      goto done;
    }
    if (n == 0)
      break;
    if ((size_t)n > limit - (t->length - before)) { /* it grew while being read */
      status = fat_status_fail(err, FAT_E_IO, "'%s' is longer than the %zu bytes that are read", path, limit);
      goto done;
    }
    fat_text_add_bytes(t, part, (size_t)n);
    status = fat_text_status(t, err);
    if (status != FAT_OK)
      goto done;
  }
  fat_text_add_bytes(t, "", 0); /* an empty file still gives a text with its zero */
  status = fat_text_status(t, err);
done:
  if (fd >= 0)
    close(fd);
  if (status != FAT_OK && t->data != NULL) { /* half a file is no file */
    t->length = before;
    t->data[before] = 0;
  }
  return status;
}

void fat_text_hash(const void *bytes, size_t n, char hash[FAT_HASH_SIZE])
{
  static const char digits[] = "0123456789abcdef";
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA2_CTX context;
  SHA256Init(&context);
  const size_t blocks = n / FAT_SHA_BLOCK;
  if (blocks > 0 && fat_sha_blocks(context.state.st32, bytes, blocks)) {
    bytes = (const unsigned char *)bytes + blocks * FAT_SHA_BLOCK;
    n -= blocks * FAT_SHA_BLOCK;
    context.bitcount[0] += (uint64_t)blocks * FAT_SHA_BLOCK * 8;
  }
  if (n > 0) /* `bytes` may be NULL then, which libmd's memcpy must not see */
    SHA256Update(&context, bytes, n);
  SHA256Final(digest, &context);
  for (size_t i = 0; i < sizeof digest; i++) {
    hash[2 * i] = digits[digest[i] >> 4];
    hash[2 * i + 1] = digits[digest[i] & 15];
  }
  hash[2 * sizeof digest] = 0;
}

/* glibc has this one without memory; 0 leaves a thread's as it is. */
static locale_t plain;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_plain(void)
{
  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t fat_text_enter_plain(void)
{
  pthread_once(&once, find_plain);
  return uselocale(plain);
}

const char *fat_text_number(double x, int digits, char buffer[FAT_TEXT_NUMBER])
{
  const locale_t before = fat_text_enter_plain();
  snprintf(buffer, FAT_TEXT_NUMBER, "%.*g", digits, x);
  uselocale(before);
  return buffer;
}

double fat_text_read_number(const char *text, char **end)
{
  const locale_t before = fat_text_enter_plain();
  const double x = strtod(text, end);
  uselocale(before);
  return x;
}

size_t fat_text_character(const char *text, size_t n)
{
  const unsigned char *s = (const unsigned char *)text, c = n ? s[0] : 0xff;
  const size_t bytes = c < 0x80                ? 1
                       : c >= 0xc2 && c < 0xe0 ? 2
                       : c >= 0xe0 && c < 0xf0 ? 3
                       : c >= 0xf0 && c < 0xf5 ? 4
                                               : 0;
  if (bytes > n)
    return 0;
  for (size_t i = 1; i < bytes; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  const bool longer = (c == 0xe0 && s[1] < 0xa0) || (c == 0xf0 && s[1] < 0x90);
  const bool beyond = (c == 0xed && s[1] >= 0xa0) || (c == 0xf4 && s[1] >= 0x90);
  return longer || beyond ? 0 : bytes;
}

int fat_text_distance(const char *a, const char *b)
{
  enum { MOST = 40 };
  size_t na = strnlen(a, MOST), nb = strnlen(b, MOST);
  int row[3][MOST + 1]; /* two rows back, one row back, this row: the swap looks two back */
  for (size_t j = 0; j <= nb; j++)
    row[1][j] = (int)j;
  for (size_t i = 1; i <= na; i++) {
    int *two = row[(i + 2) % 3], *last = row[i % 3], *now = row[(i + 1) % 3];
    now[0] = (int)i;
    for (size_t j = 1; j <= nb; j++) {
      int best = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (last[j] + 1 < best)
        best = last[j] + 1;
      if (now[j - 1] + 1 < best)
        best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two[j - 2] + 1 < best)
        best = two[j - 2] + 1;
      now[j] = best;
    }
  }
  return row[(na + 1) % 3][nb];
}
