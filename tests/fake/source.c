/* source.c -- from the 16 hex digits in an entry's name to the source that it was compiled from.
 *
 * Looked for in the folder FAKE_CUDA_SOURCES (<digits>.cu, or any *.cu whose header names the hash, as
 * `fatune --dump` writes), then in the databases FAKE_CUDA_DB and FATUNE_DB. A database is read by a program
 * of its own: a second SQLite in this process would undo the locks of the first. What is found is kept. */
#include "fake.h"
#include "mod.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIGITS = 16, HEAD = 1024, LABEL = 384, TRIES = 3 };
typedef struct known {
  char digits[DIGITS + 1];
  char *text; /* NULL: not found so far */
  int tries;
  char config[LABEL], family[LABEL];
  struct known *next;
} known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known *all;
static char *given_folder;
static int given_numbers = -1;
extern char **environ;

/* The rest of a file, as a string from malloc. */
static char *read_all(int file)
{
  size_t size = 0, room = 65536;
  char *text = malloc(room);
  for (;;) {
    ssize_t n = text ? read(file, text + size, room - 1 - size) : -1;
    if (n < 0 && text && errno == EINTR)
      continue;
    if (n < 0) {
      free(text);
      return NULL;
    }
    size += (size_t)n;
    text[size] = 0;
    if (n == 0)
      return text;
    if (size == room - 1) {
      char *grown = realloc(text, room *= 2);
      if (!grown)
        free(text);
      text = grown;
    }
  }
}

static char *read_path(const char *folder, const char *name)
{
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  char *text = file < 0 ? NULL : read_all(file);
  if (file >= 0)
    close(file);
  return text;
}

/* The value of a line `//   label   value` of a source's header. */
static bool label(const char *text, const char *name, char value[LABEL])
{
  char line[32];
  snprintf(line, sizeof line, "\n//   %-10s ", name);
  const char *at = strstr(text, line);
  if (!at || at - text > HEAD)
    return false;
  at += strlen(line);
  snprintf(value, LABEL, "%.*s", (int)strcspn(at, "\n"), at);
  return true;
}

/* What a source's header says of its expressions: this library knows nothing of what the tuner knows. */
static void learn(const char *text)
{
  static const struct {
    const char *line;
    fat_feature which;
  } kinds[] = {{"\n//   mod        ", FAT_MOD}, {"\n//   mask       ", FAT_MASK_MOD}};
  for (int i = 0; i < 2; i++) {
    const char *at = strstr(text, kinds[i].line);
    const fat_mod *m;
    if (!at || at - text > HEAD)
      continue;
    at += strlen(kinds[i].line);
    char *copy = strndup(at, strcspn(at, "\n"));
    if (copy)
      fat_mod_know(copy, kinds[i].which, &m, NULL);
    free(copy);
  }
}

static bool is_source_of(const char *text, const char *digits)
{
  char hash[LABEL];
  return label(text, "source", hash) && !strncmp(hash, digits, DIGITS);
}

static char *from_folder(const char *digits)
{
  const char *folder = given_folder ? given_folder : getenv("FAKE_CUDA_SOURCES");
  char name[64];
  if (!folder || !*folder)
    return NULL;
  snprintf(name, sizeof name, "%s.cu", digits);
  char *text = read_path(folder, name);
  DIR *d = text ? NULL : opendir(folder);
  for (const struct dirent *e; d && !text && (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (n < 4 || strcmp(e->d_name + n - 3, ".cu") != 0)
      continue;
    text = read_path(folder, e->d_name);
    if (text && !is_source_of(text, digits)) {
      free(text);
      text = NULL;
    }
  }
  if (d)
    closedir(d);
  return text;
}

/* What FAKE_LOOKUP says of one database file. */
static char *from_database(const char *path, const char *digits)
{
  char *argv[] = {FAKE_LOOKUP, (char *)path, (char *)digits, NULL}, *text = NULL;
  posix_spawn_file_actions_t actions;
  int ends[2], status = -1;
  pid_t child;
  if (!path || !*path || access(path, R_OK) || pipe2(ends, O_CLOEXEC))
    return NULL;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  int failed = posix_spawn(&child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed) {
    fake_found("cannot run %s", FAKE_LOOKUP);
  } else {
    text = read_all(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
      continue;
  }
  close(ends[0]);
  if (text && (status != 0 || !*text)) {
    free(text);
    text = NULL;
  }
  return text;
}

static known *find(const char *digits)
{
  known *k = all;
  while (k && strcmp(k->digits, digits) != 0)
    k = k->next;
  if (!k && (k = calloc(1, sizeof *k))) {
    strcpy(k->digits, digits);
    k->next = all;
    all = k;
  }
  if (!k || k->text)
    return k;
  k->text = from_folder(digits);
  if (!k->text && k->tries < TRIES)
    k->text = from_database(getenv("FAKE_CUDA_DB"), digits);
  if (!k->text && k->tries < TRIES)
    k->text = from_database(getenv("FATUNE_DB"), digits);
  if (k->text) {
    label(k->text, "config", k->config);
    label(k->text, "family", k->family);
    learn(k->text);
  } else if (k->tries++ == 0) {
    fake_found("no source whose hash begins with %s is in FAKE_CUDA_SOURCES, FAKE_CUDA_DB or FATUNE_DB",
               digits);
  }
  return k;
}

/* The hash at the end of an entry's name; NULL where there is none. */
static const char *hash_of(const char *entry)
{
  const char *digits = strrchr(entry, '_');
  bool named = digits && strspn(digits + 1, "0123456789abcdef") == DIGITS && !digits[1 + DIGITS];
  return named ? digits + 1 : NULL;
}

bool fake_source_is_named(const char *entry)
{
  return hash_of(entry) != NULL;
}

static const known *of_entry(const char *entry)
{
  const char *digits = hash_of(entry);
  if (!digits)
    return NULL;
  pthread_mutex_lock(&lock);
  const known *k = find(digits);
  pthread_mutex_unlock(&lock);
  return k && k->text ? k : NULL;
}

const char *fake_source_text(const char *entry)
{
  const known *k = of_entry(entry);
  return k ? k->text : NULL;
}

const char *fake_source_config(const char *entry)
{
  const known *k = of_entry(entry);
  return k && k->config[0] ? k->config : NULL;
}

const char *fake_source_family(const char *entry)
{
  const known *k = of_entry(entry);
  return k && k->family[0] ? k->family : NULL;
}

void fake_source_reset(void)
{
  pthread_mutex_lock(&lock);
  while (all) {
    known *next = all->next;
    free(all->text);
    free(all);
    all = next;
  }
  free(given_folder);
  given_folder = NULL;
  given_numbers = -1;
  pthread_mutex_unlock(&lock);
}

void fake_sources(const char *folder)
{
  pthread_mutex_lock(&lock);
  free(given_folder);
  given_folder = folder ? strdup(folder) : NULL;
  pthread_mutex_unlock(&lock);
}

void fake_compute(fake_numbers numbers)
{
  given_numbers = (int)numbers;
}

fake_numbers fake_numbers_wanted(void)
{
  const char *asked = getenv("FAKE_CUDA_EMULATE");
  if (given_numbers >= 0)
    return (fake_numbers)given_numbers;
  if (!asked || !*asked || !strcmp(asked, "0"))
    return FAKE_NOTHING;
  return strcmp(asked, "reference") ? FAKE_EMULATE : FAKE_REFERENCE;
}
