/* progress.c -- the line that says how far a tune is.
 *
 * In: counts as trials end. Out: text on stderr only, never wider than the terminal, so that stdout stays
 * clean for results. Rate and time left are those of this run; trials found stored do not count. */
#include "progress.h"

#include "clock.h"
#include "terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double live_pause = 0.1, plain_pause = 5.0; /* seconds between two lines */

enum { LINE_ROOM = 512, WIDTH_UNKNOWN = 80 };

void fat_progress_begin(fat_progress *p, bool on, const char *gpu, int total, const char *what)
{
  *p = (fat_progress){.on = on, .live = isatty(STDERR_FILENO) == 1, .total = total, .what = what};
  snprintf(p->gpu, sizeof p->gpu, "%s", gpu);
  p->begun = p->shown = fat_clock_now();
}

static void wipe(fat_progress *p)
{
  if (p->drawn)
    fputs("\r\033[K", stderr);
  p->drawn = false;
}

void fat_progress_say(fat_progress *p, const char *format, ...)
{
  va_list arguments;
  if (!p->on || p->json)
    return;
  wipe(p);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

void fat_progress_count(fat_progress *p, fat_outcome outcome)
{
  p->done++;
  p->outcomes[outcome]++;
}

/* "12:05" or "1:00:09". */
static void clock_text(double seconds, char *text, size_t room)
{
  long s = (long)(seconds + 0.5);
  if (s >= 3600)
    snprintf(text, room, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(text, room, "%ld:%02ld", s / 60, s % 60);
}

/* ", 3 spill, 1 compile-failed": all outcomes but ok. */
static void failures_text(const fat_progress *p, char *text, size_t room)
{
  size_t n = 0;
  text[0] = 0;
  for (int i = 0; i < FAT_OUTCOME_COUNT && n < room; i++)
    if (i != FAT_OUT_OK && p->outcomes[i] > 0)
      n += (size_t)snprintf(text + n, room - n, ", %d %s", p->outcomes[i],
                            fat_db_outcome_name((fat_outcome)i));
}

static void line_text(const fat_progress *p, char *line, size_t room)
{
  char failures[200], left[32] = "";
  double seconds = fat_clock_now() - p->begun;
  double rate = seconds > 0 ? p->done / seconds : 0;
  failures_text(p, failures, sizeof failures);
  if (p->done > 0 && p->done < p->total) {
    char time[24];
    clock_text((p->total - p->done) / rate, time, sizeof time);
    snprintf(left, sizeof left, ", %s left", time);
  }
  snprintf(line, room, "%s: %d of %d %s (%.1f/s)%s%s%s%s", p->gpu, p->done, p->total, p->what, rate, left,
           failures, p->best[0] ? "; best " : "", p->best);
}

/* Names and configs are canonical texts: nothing in them needs an escape. */
static void draw_json(const fat_progress *p)
{
  fprintf(stderr,
          "{\"gpu\":\"%s\",\"done\":%d,\"total\":%d,\"failed\":%d,\"seconds\":%.1f,\"best\":\"%s\"}\n",
          p->gpu, p->done, p->total, p->done - p->outcomes[FAT_OUT_OK], fat_clock_now() - p->begun, p->best);
}

static void draw(fat_progress *p)
{
  char line[LINE_ROOM];
  if (p->json) {
    draw_json(p);
    return;
  }
  line_text(p, line, sizeof line);
  if (!p->live) {
    fprintf(stderr, "%s\n", line);
    return;
  }
  int width = fat_terminal_width(STDERR_FILENO);
  fprintf(stderr, "\r%.*s\033[K", (width > 0 ? width : WIDTH_UNKNOWN) - 1, line);
  fflush(stderr);
  p->drawn = true;
}

void fat_progress_show(fat_progress *p)
{
  double now = fat_clock_now();
  if (!p->on || now - p->shown < (p->live ? live_pause : plain_pause))
    return;
  p->shown = now;
  draw(p);
}

void fat_progress_drop(fat_progress *p)
{
  if (p->on)
    wipe(p);
}

void fat_progress_end(fat_progress *p)
{
  if (!p->on)
    return;
  draw(p);
  if (p->live)
    fputc('\n', stderr);
  p->drawn = false;
}
