/* fuzz_wire.c -- libFuzzer: any bytes as what comes over the wire between tuner and worker.
 *
 * As a stream: it comes in messages that lie inside the bytes, or is refused with a reason. As an assignment:
 * what is read points into the bytes, and packs and reads back to the same. Corpus: tests/fuzz/corpus/wire.
 */
#include "worker/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
  if (!holds)
    abort();
}

static void stream(const uint8_t *data, size_t size)
{
  int ends[2];
  fat_inbox inbox = {0};
  fat_error err = {0};
  if (size > 1 << 16 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    return;
  require(send(ends[0], data, size, MSG_NOSIGNAL) == (ssize_t)size || size == 0);
  close(ends[0]);
  size_t left = size;
  for (;;) {
    bool whole = false;
    fat_status status = fat_inbox_read(&inbox, ends[1], &whole, &err);
    if (status != FAT_OK) {
      require(status == FAT_E_NOT_FOUND || err.text[0] != 0);
      break;
    }
    if (!whole)
      continue;
    require(inbox.head.bytes + sizeof inbox.head <= left);
    left -= inbox.head.bytes + sizeof inbox.head;
    fat_inbox_clear(&inbox);
  }
  fat_inbox_clear(&inbox);
  close(ends[1]);
}

static int inside(const void *place, const uint8_t *data, size_t size)
{
  return !place || ((const uint8_t *)place >= data && (const uint8_t *)place <= data + size);
}

static void assignment(const uint8_t *data, size_t size)
{
  static fat_assignment a, again; /* large */
  fat_error err = {0};
  fat_text bytes = {0};
  if (fat_wire_unpack(data, size, &a, &err) != FAT_OK) {
    require(err.text[0] != 0);
    return;
  }
  require(a.count >= 0 && a.count <= FAT_WIRE_ENTRANTS);
  for (int i = 0; i < a.count; i++)
    require(inside(a.entrant[i].config, data, size) && inside(a.entrant[i].recipe, data, size) &&
            inside(a.entrant[i].cubin, data, size) && inside(a.entrant[i].cubin_hash, data, size));
  if (fat_wire_pack(&a, &bytes, &err) == FAT_OK) {
    require(fat_wire_unpack(fat_text_get(&bytes), bytes.length, &again, &err) == FAT_OK);
    require(again.count == a.count && again.task == a.task && again.seed == a.seed);
    for (int i = 0; i < a.count; i++)
      require(strcmp(again.entrant[i].config, a.entrant[i].config) == 0 &&
              again.entrant[i].cubin_size == a.entrant[i].cubin_size);
  }
  fat_text_free(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0)
    return 0;
  if (data[0] & 1)
    stream(data + 1, size - 1);
  else
    assignment(data + 1, size - 1);
  return 0;
}
