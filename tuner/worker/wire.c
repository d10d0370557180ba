/* wire.c -- sends, reads, packs and unpacks messages.
 *
 * In: structs of wire.h. Out: bytes, and back. Invariant: nothing is believed because of the sender; every
 * length is checked against the bytes that are there. */
#include "wire.h"

#include "mod.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE_MOST = 1 << 28 };

static fat_status send_all(int fd, const void *data, size_t bytes, fat_error *err)
{
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return fat_status_fail(err, FAT_E_IO, "the other end takes no message: %s", strerror(errno));
    at += n;
    bytes -= (size_t)n;
  }
  return FAT_OK;
}

fat_status fat_wire_send(int fd, fat_wire_kind kind, const void *data, size_t bytes, fat_error *err)
{
  const uint32_t head[2] = {kind, (uint32_t)bytes};
  if (bytes > MESSAGE_MOST)
    return fat_status_fail(err, FAT_E_INPUT, "a message of %zu bytes is too long", bytes);
  FAT_TRY(send_all(fd, head, sizeof head, err));
  return send_all(fd, data, bytes, err);
}

/* Reads up to `want` bytes; 0 if none are there yet. */
static fat_status receive(int fd, void *to, size_t want, size_t *got, fat_error *err)
{
  ssize_t n = recv(fd, to, want, 0);
  *got = n > 0 ? (size_t)n : 0;
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)))
    return FAT_OK;
  if (n == 0 || errno == ECONNRESET)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "the other end is gone");
  return fat_status_fail(err, FAT_E_IO, "a message cannot be read: %s", strerror(errno));
}

fat_status fat_inbox_read(fat_inbox *inbox, int fd, bool *whole, fat_error *err)
{
  size_t head = sizeof inbox->head, n;
  *whole = false;
  if (inbox->got < head) {
    FAT_TRY(receive(fd, (char *)&inbox->head + inbox->got, head - inbox->got, &n, err));
    inbox->got += n;
    if (inbox->got < head)
      return FAT_OK;
    if (inbox->head.kind >= FAT_WIRE_KINDS || inbox->head.bytes > MESSAGE_MOST)
      return fat_status_fail(err, FAT_E_IO, "what came is no message");
    inbox->data = malloc(inbox->head.bytes + 1u);
    if (!inbox->data)
      return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a message of %u bytes", inbox->head.bytes);
  }
  size_t left = head + inbox->head.bytes - inbox->got;
  if (left > 0) {
    FAT_TRY(receive(fd, inbox->data + (inbox->got - head), left, &n, err));
    inbox->got += n;
    left -= n;
  }
  *whole = left == 0;
  return FAT_OK;
}

void fat_inbox_clear(fat_inbox *inbox)
{
  free(inbox->data);
  *inbox = (fat_inbox){0};
}

/* Each part begins at a multiple of eight bytes: a binary is read in place, as structs. */
static size_t padding(size_t size)
{
  return -size % 8;
}

/* A length, then the bytes; texts with their zero. */
static void add(fat_text *out, const void *bytes, size_t size)
{
  static const char zeros[8] = {0};
  fat_text_add_bytes(out, &size, sizeof size);
  if (size)
    fat_text_add_bytes(out, bytes, size);
  fat_text_add_bytes(out, zeros, padding(size));
}

static void add_text(fat_text *out, const char *text)
{
  add(out, text, text ? strlen(text) + 1 : 0);
}

static void add_entrant(fat_text *out, const fat_entrant *e)
{
  add_text(out, e->config);
  add_text(out, e->recipe);
  add_text(out, e->cubin_hash);
  add(out, e->cubin, e->cubin ? e->cubin_size : 0);
}

fat_status fat_wire_pack(const fat_assignment *a, fat_text *bytes, fat_error *err)
{
  const fat_mod *mod = fat_mod_of(&a->problem, FAT_MOD), *mask = fat_mod_of(&a->problem, FAT_MASK_MOD);
  fat_text_add_bytes(bytes, a, sizeof *a);
  add_text(bytes, mod ? mod->text : NULL);
  add_text(bytes, mask ? mask->text : NULL);
  add_entrant(bytes, &a->clock);
  for (int i = 0; i < a->count; i++)
    add_entrant(bytes, &a->entrant[i]);
  return fat_text_status(bytes, err);
}

typedef struct reading {
  const char *at, *end;
  bool bad;
} reading;

static const void *take(reading *r, size_t *size)
{
  *size = 0;
  if ((size_t)(r->end - r->at) < sizeof *size) {
    r->bad = true;
    return NULL;
  }
  memcpy(size, r->at, sizeof *size);
  r->at += sizeof *size;
  size_t left = (size_t)(r->end - r->at);
  if (*size > left || padding(*size) > left - *size) {
    r->bad = true;
    *size = 0;
  }
  const void *bytes = *size ? r->at : NULL;
  r->at += *size + padding(*size);
  return bytes;
}

static const char *take_text(reading *r)
{
  size_t size;
  const char *text = take(r, &size);
  if (text && text[size - 1] != 0)
    r->bad = true;
  return r->bad ? NULL : text;
}

static void take_entrant(reading *r, fat_entrant *e)
{
  e->config = take_text(r);
  e->recipe = take_text(r);
  e->cubin_hash = take_text(r);
  e->cubin = take(r, &e->cubin_size);
}

fat_status fat_wire_unpack(const void *bytes, size_t size, fat_assignment *a, fat_error *err)
{
  reading r = {bytes, (const char *)bytes + size, size < sizeof *a};
  if (!r.bad) {
    memcpy(a, bytes, sizeof *a);
    r.at += sizeof *a;
    r.bad = a->count < 0 || a->count > FAT_WIRE_ENTRANTS;
  }
  if (!r.bad) {
    a->mod = take_text(&r);
    a->mask_mod = take_text(&r);
  }
  if (!r.bad)
    take_entrant(&r, &a->clock);
  for (int i = 0; !r.bad && i < a->count; i++) {
    take_entrant(&r, &a->entrant[i]);
    r.bad = r.bad || !a->entrant[i].config || !a->entrant[i].recipe || !a->entrant[i].cubin_hash ||
            !a->entrant[i].cubin;
  }
  return r.bad || r.at != r.end ? fat_status_fail(err, FAT_E_IO, "what came is no assignment") : FAT_OK;
}
