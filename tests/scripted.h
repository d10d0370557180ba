/* scripted.h -- the templates in the program, open for a group of tests; they fail where these cannot be. */
#ifndef TEST_SCRIPTED_H
#define TEST_SCRIPTED_H

#include "script.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static fat_script *script;

static inline int open_script(void **state)
{
  fat_error err = {0};
  (void)state;
  if (fat_script_open(NULL, &script, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return 0;
}

static inline int close_script(void **state)
{
  (void)state;
  fat_script_close(script);
  return 0;
}

#endif
