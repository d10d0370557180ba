/* config.c -- a config: text to struct and back, and its values by name.
 *
 *   kernel [':' name value {'-' name value}]       fwd:Br128-Bc64-t256
 *
 * A kernel's name is letters, digits and '_', a tunable's name letters, a value a whole number without
 * leading zeros. The text of a config is unique: equal configs have equal texts. */
#include "config.h"
#include "text.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static fat_status fail(const char *text, const char *at, const char *expected, fat_error *err)
{
  return fat_status_fail(err, FAT_E_INPUT, "config '%.200s': expected %s at column %d", text, expected,
                         (int)(at - text) + 1);
}

/* Reads one `name value` at *at and appends it. */
static fat_status parse_value(const char *text, const char **at, fat_config *c, fat_error *err)
{
  const char *s = *at;
  char name[FAT_CONFIG_NAME];
  size_t n = 0;
  while (fat_text_is_letter(s[n]))
    n++;
  if (n == 0)
    return fail(text, s, "the name of a tunable, as in Br128,", err);
  if (n >= sizeof name)
    return fail(text, s, "a name of at most 11 letters", err);
  memcpy(name, s, n);
  name[n] = 0;
  s += n;
  if (!fat_text_is_digit(*s) || (*s == '0' && fat_text_is_digit(s[1])))
    return fail(text, s, "a whole number without leading zeros", err);
  int64_t value = 0;
  for (const char *first = s; fat_text_is_digit(*s); s++) {
    value = value * 10 + (*s - '0');
    if (value > INT32_MAX)
      return fail(text, first, "a number of at most 2147483647", err);
  }
  int32_t old;
  const int column = (int)(*at - text) + 1;
  if (fat_config_get(c, name, &old) == FAT_OK)
    return fat_status_fail(err, FAT_E_INPUT, "config '%.200s': at column %d: tunable %s stands twice", text,
                           column, name);
  if (c->count == FAT_CONFIG_VALUES)
    return fat_status_fail(
        err, FAT_E_INPUT,
        "config '%.200s': at column %d: tunable %s is one too many: a config has at most %d", text, column,
        name, FAT_CONFIG_VALUES);
  memcpy(c->values[c->count].name, name, n + 1);
  c->values[c->count++].value = (int32_t)value;
  *at = s;
  return FAT_OK;
}

fat_status fat_config_parse(const char *text, fat_config *c, fat_error *err)
{
  fat_config out = {0};
  size_t n = 0;
  while (fat_text_is_letter(text[n]) || fat_text_is_digit(text[n]) || text[n] == '_')
    n++;
  if (n == 0 || n >= sizeof out.kernel)
    return fail(text, text, "the name of a kernel (1 to 19 letters, digits or '_')", err);
  memcpy(out.kernel, text, n);
  const char *at = text + n;
  for (char before = ':'; *at != 0; before = '-') {
    if (*at != before)
      return fail(text, at, before == ':' ? "':' behind the kernel" : "'-' or the end", err);
    at++;
    FAT_TRY(parse_value(text, &at, &out, err));
  }
  *c = out;
  return FAT_OK;
}

const char *fat_config_print(const fat_config *c, char buffer[FAT_CONFIG_TEXT])
{
  size_t used = (size_t)snprintf(buffer, FAT_CONFIG_TEXT, "%.*s", FAT_CONFIG_KERNEL - 1, c->kernel);
  for (int i = 0; i < c->count && i < FAT_CONFIG_VALUES; i++)
    used += (size_t)snprintf(buffer + used, FAT_CONFIG_TEXT - used, "%c%.*s%" PRId32, i == 0 ? ':' : '-',
                             FAT_CONFIG_NAME - 1, c->values[i].name, c->values[i].value);
  return buffer;
}

fat_status fat_config_get(const fat_config *c, const char *name, int32_t *value)
{
  for (int i = 0; i < c->count; i++) {
    if (strcmp(c->values[i].name, name) == 0) {
      *value = c->values[i].value;
      return FAT_OK;
    }
  }
  return FAT_E_NOT_FOUND;
}
