/* list.c -- readers of typed lists, ranges and spans of time.
 *
 * In: the name of an argument and its text. Out: numbers, a mask or seconds. Nothing is read past what the
 * grammar allows: every byte of the text is used or the text is refused, with the argument, the value and
 * what is allowed. */
#include "list.h"

#include "text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ITEM_ROOM = 64 };

/* Digits only, so no sign, blank or overflow slips through; *end is behind them. */
static bool read_digits(const char *s, int64_t *value, const char **end)
{
  int64_t v = 0;
  const char *p = s;
  for (; fat_text_is_digit(*p); p++) {
    if (v > (INT64_MAX - (*p - '0')) / 10)
      return false;
    v = 10 * v + (*p - '0');
  }
  *value = v;
  *end = p;
  return p > s;
}

fat_status fat_list_number(const char *argument, const char *text, int64_t least, int64_t most,
                           int64_t *value, fat_error *err)
{
  const char *end;
  int64_t v;
  if (!read_digits(text, &v, &end) || *end || v < least || v > most)
    return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed are whole numbers from %lld to %lld", argument,
                           text, (long long)least, (long long)most);
  *value = v;
  return FAT_OK;
}

static fat_status refuse_item(const char *argument, const char *item, fat_range range, fat_error *err)
{
  char numbers[40] = "whole numbers";
  if (range.unit > 1)
    snprintf(numbers, sizeof numbers, "multiples of %lld", (long long)range.unit);
  return fat_status_fail(
      err, FAT_E_INPUT,
      "%s '%s': allowed are %s from %lld to %lld, alone, as a list 'a,b' or as a range 'a:b' "
      "(doubling) or 'a:b:step'",
      argument, item, numbers, (long long)range.least, (long long)range.most);
}

static fat_status append(const char *argument, fat_numbers *numbers, int64_t value, fat_error *err)
{
  for (int i = 0; i < numbers->count; i++)
    if (numbers->value[i] == value)
      return FAT_OK;
  if (numbers->count == FAT_LIST_ROOM)
    return fat_status_fail(err, FAT_E_INPUT, "%s: more than %d numbers; give a coarser range", argument,
                           FAT_LIST_ROOM);
  numbers->value[numbers->count++] = value;
  return FAT_OK;
}

static fat_status read_item(const char *argument, const char *item, fat_range range, fat_numbers *numbers,
                            fat_error *err)
{
  int64_t first, last, step = 0;
  const char *end;
  if (!read_digits(item, &first, &end))
    return refuse_item(argument, item, range, err);
  last = first;
  if (*end == ':' && !read_digits(end + 1, &last, &end))
    return refuse_item(argument, item, range, err);
  if (*end == ':' && (!read_digits(end + 1, &step, &end) || step == 0))
    return refuse_item(argument, item, range, err);
  bool doubling = step == 0 && first != last;
  if (*end || first < range.least || last > range.most || last < first || (doubling && first == 0))
    return refuse_item(argument, item, range, err);
  for (int64_t v = first; v <= last; v = doubling ? 2 * v : v + step) {
    if (v % range.unit != 0)
      return refuse_item(argument, item, range, err);
    FAT_TRY(append(argument, numbers, v, err));
    if (first == last || (doubling ? v > INT64_MAX / 2 : v > INT64_MAX - step))
      break;
  }
  return FAT_OK;
}

/* Copies the next comma-separated item; *rest is behind it, NULL after the last. False if it is too long. */
static bool next_item(const char **rest, char item[ITEM_ROOM])
{
  size_t n = strcspn(*rest, ",");
  bool fits = n < ITEM_ROOM;
  memcpy(item, *rest, fits ? n : ITEM_ROOM - 1);
  item[fits ? n : ITEM_ROOM - 1] = 0;
  *rest = (*rest)[n] == ',' ? *rest + n + 1 : NULL;
  return fits;
}

fat_status fat_list_numbers(const char *argument, const char *text, fat_range range, fat_numbers *numbers,
                            fat_error *err)
{
  char item[ITEM_ROOM];
  numbers->count = 0;
  for (const char *rest = text; rest;) {
    if (!next_item(&rest, item))
      return refuse_item(argument, item, range, err);
    if (!*item) /* two commas, or one at an end: the whole list says more than '' */
      return refuse_item(argument, text, range, err);
    FAT_TRY(read_item(argument, item, range, numbers, err));
  }
  return FAT_OK;
}

/* "a, b, c" of all known names, cut where the buffer ends. */
static void join(const char *const *known, int count, char *buffer, size_t room)
{
  size_t n = 0;
  buffer[0] = 0;
  for (int i = 0; i < count; i++) {
    size_t need = strlen(known[i]) + (i ? 2 : 0);
    if (n + need + 1 > room)
      return;
    if (i)
      memcpy(buffer + n, ", ", 2);
    memcpy(buffer + n + (i ? 2 : 0), known[i], strlen(known[i]) + 1);
    n += need;
  }
}

fat_status fat_list_names(const char *argument, const char *text, const char *const *known, int count,
                          uint32_t *mask, fat_error *err)
{
  char item[ITEM_ROOM], all[400];
  *mask = 0;
  for (const char *rest = text; rest;) {
    int at = next_item(&rest, item) ? 0 : count;
    while (at < count && strcmp(item, known[at]) != 0)
      at++;
    if (at == count) {
      join(known, count, all, sizeof all);
      return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed are %s", argument, *item ? item : text, all);
    }
    *mask |= 1u << at;
  }
  return FAT_OK;
}

fat_status fat_list_seconds(const char *argument, const char *text, double *seconds, fat_error *err)
{
  static const struct {
    const char *unit;
    int seconds;
  } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
  enum { WEEK = 7 * 24 * 3600 };
  const char *end;
  int64_t v;
  if (read_digits(text, &v, &end) && v > 0 && v <= WEEK)
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
      if (strcmp(end, units[i].unit) == 0 && v * units[i].seconds <= WEEK) {
        *seconds = (double)v * units[i].seconds;
        return FAT_OK;
      }
  return fat_status_fail(err, FAT_E_INPUT, "%s '%s': allowed are spans like 90s, 10m or 2h, at most a week",
                         argument, text);
}
