/* handle.c -- opening and closing libfatune.
 *
 * In: the places of the databases. Out: a started driver and an empty list of plans. The last of the caller's
 * hold and the plans' holds takes everything down. Invariant: in a forked child nothing of a handle is
 * touched: the driver's state did not survive, and a lock may be held by a thread that is not there. */
#include "handle.h"
#include "db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_uint forks;
static bool watching;

static void count_fork(void)
{
  atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

/* At loading, so that no lock of ours can be held by another thread at the moment of a fork. */
__attribute__((constructor)) static void watch_forks(void)
{
  watching = pthread_atfork(NULL, NULL, count_fork) == 0;
}

unsigned fat_handle_forks(void)
{
  return atomic_load_explicit(&forks, memory_order_relaxed);
}

/* Of a path; the caller's folder may be another when a plan is made. NULL without memory. */
static char *absolute(const char *path)
{
  fat_text text = {0};
  char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
  if (folder)
    fat_text_format(&text, "%s/", folder);
  free(folder);
  fat_text_add(&text, path);
  char *made = fat_text_status(&text, NULL) == FAT_OK ? strdup(fat_text_get(&text)) : NULL;
  fat_text_free(&text);
  return made;
}

/* `given` as the options say it: NULL is the usual place, "" is none. */
static fat_status place_database(fatune *h, const char *given, fat_error *err)
{
  fat_text path = {0};
  fat_error why = {0};
  if (given && !*given) {
    snprintf(h->note, sizeof h->note, "no user's database was asked for");
    return FAT_OK;
  }
  fat_status status = fat_db_path(given, &path, &why);
  h->database = status == FAT_OK ? absolute(fat_text_get(&path)) : NULL;
  fat_text_free(&path);
  if (status == FAT_E_NOMEM || (status == FAT_OK && !h->database))
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the path of the database");
  if (status != FAT_OK)
    snprintf(h->note, sizeof h->note, "%.255s", why.text);
  return FAT_OK;
}

static fat_status place_system(fatune *h, const char *given, fat_error *err)
{
  const char *path = given ? given : fat_db_system_path();
  h->system = *path ? absolute(path) : NULL;
  if (*path && !h->system)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the path of the system database");
  return FAT_OK;
}

static void destroy(fatune *h)
{
  for (int i = 0; i < h->count; i++)
    h->release(h->known[i]);
  fat_modules_free(&h->modules);
  fat_jit_close(&h->jit);
  fat_driver_close(h->driver);
  pthread_mutex_destroy(&h->lookup);
  pthread_mutex_destroy(&h->making);
  free(h->database);
  free(h->system);
  free(h);
}

fat_status fat_handle_open(const fatune_options *options, fatune **handle, fat_error *err)
{
  static const fatune_options usual = {.size = sizeof usual};
  const fatune_options *o = options ? options : &usual;
  *handle = NULL;
  if (!watching)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory when the library was loaded");
  fatune *h = calloc(1, sizeof *h);
  if (!h)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a handle");
  atomic_init(&h->references, 1);
  h->forks = fat_handle_forks();
  pthread_mutex_init(&h->lookup, NULL);
  pthread_mutex_init(&h->making, NULL);
  fat_status status = place_database(h, o->database, err);
  if (status == FAT_OK)
    status = place_system(h, o->system_database, err);
  if (status == FAT_OK)
    status = fat_driver_open(&h->driver, err);
  if (status != FAT_OK)
    destroy(h);
  else
    *handle = h;
  return status;
}

fat_status fat_handle_check(const fatune *handle, fat_error *err)
{
  if (!handle)
    return fat_status_fail(err, FAT_E_INPUT, "the handle is NULL: it comes from fatune_open");
  if (handle->forks != fat_handle_forks())
    return fat_status_fail(err, FAT_E_FORKED,
                           "the handle was opened before fork(): CUDA does not survive that; open one in the "
                           "child, where the parent has not used CUDA before forking");
  return FAT_OK;
}

void fat_handle_hold(fatune *handle)
{
  atomic_fetch_add_explicit(&handle->references, 1, memory_order_relaxed);
}

void fat_handle_release(fatune *handle)
{
  if (atomic_fetch_sub_explicit(&handle->references, 1, memory_order_acq_rel) == 1)
    destroy(handle);
}
