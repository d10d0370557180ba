/* dump.c -- files of one config in a folder of the user's.
 *
 * In: a source and a binary. Out: up to three files; an empty one is not written. Names are made of canonical
 * texts, so no byte in them can leave the folder. */
#include "dump.h"
#include "save.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static fat_status write_file(const char *folder, const char *key, const char *ending, const void *bytes,
                             size_t size, fat_error *err)
{
  fat_text path = {0};
  if (!bytes || size == 0)
    return FAT_OK;
  fat_text_format(&path, "%s/%s.%s", folder, key, ending);
  fat_status status = fat_text_status(&path, err);
  if (status != FAT_OK)
    goto done;
  fat_error why = {0};
  status = fat_save(fat_text_get(&path), bytes, size, true, &why);
  if (status != FAT_OK)
    fat_status_fail(err, status, "--dump: %s", why.text);
done:
  fat_text_free(&path);
  return status;
}

fat_status fat_dump_write(const char *folder, const fat_problem *p, const fat_gpu *gpu,
                          const fat_config *config, const fat_source *source, const fat_binary *binary,
                          fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], text[FAT_CONFIG_TEXT];
  char key[FAT_PROBLEM_TEXT + FAT_CONFIG_TEXT + 32];
  const fat_text *cuda = &source->text, *log = &binary->log;
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    return fat_status_fail(err, FAT_E_IO, "--dump: folder %s cannot be made: %s", folder, strerror(errno));
  fat_config_print(config, text);
  for (char *s = text; *s; s++)
    if (*s == ':')
      *s = '-';
  snprintf(key, sizeof key, "%s@%s-%s", fat_problem_print(p, problem), fat_gpu_arch(gpu->sm)->target, text);
  FAT_TRY(write_file(folder, key, "cu", fat_text_get(cuda), cuda->length, err));
  FAT_TRY(write_file(folder, key, "cubin", binary->cubin, binary->size, err));
  return write_file(folder, key, "log", fat_text_get(log), log->length, err);
}
