/* lookup.c -- fake_lookup DATABASE DIGITS: prints the source whose hash begins with the digits.
 *
 * A program of its own, so that the fake driver need not open a database in the process under test. Exit 1:
 * there is none. */
#include "db.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
  fat_db *db;
  const char *digits;
  char *source;
} search;

static bool visit(const fat_trial *t, void *user)
{
  search *s = user;
  char config[FAT_CONFIG_TEXT];
  fat_code code;
  if (strncmp(t->source_hash, s->digits, strlen(s->digits)) != 0)
    return true;
  const fat_code_filter filter = {.problem = &t->problem,
                                  .sm = t->gpu.sm,
                                  .config = fat_config_print(&t->config, config),
                                  .source_hash = t->source_hash};
  if (fat_db_code(s->db, &filter, &code, NULL) != FAT_OK)
    return true;
  s->source = code.source;
  code.source = NULL;
  fat_db_code_free(&code);
  return !s->source;
}

int main(int argc, char **argv)
{
  search s = {0};
  fat_error err = {0};
  if (argc != 3)
    return 2;
  s.digits = argv[2];
  if (fat_db_open(argv[1], NULL, FAT_DB_READ, &s.db, &err) != FAT_OK ||
      fat_db_trials(s.db, NULL, visit, &s, &err) != FAT_OK)
    fprintf(stderr, "fake_lookup: %s\n", err.text);
  if (s.source)
    fputs(s.source, stdout);
  int status = s.source ? 0 : 1;
  free(s.source);
  fat_db_close(s.db);
  return status;
}
