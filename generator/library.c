/* library.c -- the files of a templates folder, or those inside the program. Knows no Lua. */
#include "library.h"
#include "embed.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1024 * 1024 }; /* bytes of one template */
static const char prefix[] = "templates/";
enum { PREFIX = sizeof prefix - 1 };

fat_status fat_library_read(const fat_library *library, const char *name, fat_text *text, fat_error *err)
{
  if (library->folder == NULL || strncmp(name, prefix, PREFIX) != 0) {
    const fat_embed *file = fat_embed_find(name);
    if (file == NULL)
      return fat_status_fail(err, FAT_E_NOT_FOUND, "%s: there is no such file", name);
    fat_text_add_bytes(text, file->text, file->length);
    return fat_text_status(text, err);
  }
  for (int i = 0; i < library->count; i++)
    if (strcmp(library->names[i], name) == 0) {
      fat_text path = {0};
      fat_text_format(&path, "%s/%s", library->folder, name + PREFIX);
      fat_status status = fat_text_status(&path, err);
      if (status == FAT_OK)
        status = fat_text_read_file(text, fat_text_get(&path), FILE_LIMIT, err);
      fat_text_free(&path);
      return status;
    }
  return fat_status_fail(err, FAT_E_NOT_FOUND, "%s: there is no such file in '%s'", name, library->folder);
}

static fat_status add_name(fat_library *library, const char *below, const char *name, fat_error *err)
{
  if (library->count == FAT_LIBRARY_NAMES)
    return fat_status_fail(err, FAT_E_TEMPLATE, "more than %d template files", FAT_LIBRARY_NAMES);
  fat_text full = {0};
  fat_text_format(&full, "%s%s%s", prefix, below, name);
  fat_status status = fat_text_status(&full, err);
  if (status == FAT_OK)
    library->names[library->count++] = full.data;
  else
    fat_text_free(&full);
  return status;
}

static bool is_template(const char *name)
{
  static const char *const endings[] = {".lua", ".cu", ".cuh", ".h"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot != NULL && dot != name && i < sizeof endings / sizeof endings[0]; i++)
    if (strcmp(dot, endings[i]) == 0)
      return true;
  return false;
}

/* The templates of one folder; `below` is "", "lib/" or "arch/". */
static fat_status list_folder(fat_library *library, const char *below, fat_error *err)
{
  fat_text path = {0};
  fat_text_format(&path, "%s/%s", library->folder, below);
  fat_status status = fat_text_status(&path, err);
  DIR *directory = status == FAT_OK ? opendir(fat_text_get(&path)) : NULL;
  if (status == FAT_OK && directory == NULL)
    status = fat_status_fail(
        err, FAT_E_IO, "templates folder: '%s' cannot be read; it must hold the kernels, lib/ and arch/",
        fat_text_get(&path));
  for (struct dirent *entry; status == FAT_OK && (entry = readdir(directory)) != NULL;)
    if (is_template(entry->d_name))
      status = add_name(library, below, entry->d_name, err);
  if (directory != NULL)
    closedir(directory);
  fat_text_free(&path);
  return status;
}

static fat_status list_all(fat_library *library, fat_error *err)
{
  if (library->folder != NULL) {
    static const char *const folders[] = {"", "lib/", "arch/"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
      FAT_TRY(list_folder(library, folders[i], err));
    return FAT_OK;
  }
  for (int i = 0; i < fat_embed_count; i++)
    if (strncmp(fat_embed_files[i].name, prefix, PREFIX) == 0)
      FAT_TRY(add_name(library, "", fat_embed_files[i].name + PREFIX, err));
  return FAT_OK;
}

static int by_name(const void *x, const void *y)
{
  return strcmp(*(char *const *)x, *(char *const *)y);
}

/* Name, text and a zero byte of each file, one after the other, make the hash. */
static fat_status hash_all(fat_library *library, fat_error *err)
{
  fat_text all = {0};
  fat_status status = FAT_OK;
  for (int i = 0; i < fat_embed_count + library->count && status == FAT_OK; i++) {
    bool own = i < fat_embed_count;
    const char *name = own ? fat_embed_files[i].name : library->names[i - fat_embed_count];
    if (own && strncmp(name, "generator/", 10) != 0)
      continue;
    fat_text_format(&all, "%s\n", name);
    status = fat_library_read(library, name, &all, err);
    fat_text_add_bytes(&all, "", 1);
  }
  if (status == FAT_OK)
    status = fat_text_status(&all, err);
  if (status == FAT_OK)
    fat_text_hash(all.data, all.length, library->hash);
  fat_text_free(&all);
  return status;
}

fat_status fat_library_open(const char *folder, fat_library *library, fat_error *err)
{
  memset(library, 0, sizeof *library);
  if (folder != NULL && (library->folder = strdup(folder)) == NULL)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory");
  fat_status status = list_all(library, err);
  if (status == FAT_OK) {
    qsort(library->names, (size_t)library->count, sizeof library->names[0], by_name);
    status = hash_all(library, err);
  }
  if (status != FAT_OK)
    fat_library_close(library);
  return status;
}

void fat_library_close(fat_library *library)
{
  for (int i = 0; i < library->count; i++)
    free(library->names[i]);
  free(library->folder);
  memset(library, 0, sizeof *library);
}
