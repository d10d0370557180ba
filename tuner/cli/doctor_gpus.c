/* doctor_gpus.c -- is a GPU set and free so that what is measured on it holds?
 *
 * In: what NVML tells of every GPU of the machine. Out: findings. A GPU with unusual settings is a note; it
 * is a problem only if no GPU lets a process in. */
#include "doctor_gpus.h"
#include "nvml.h"

#include <stdbool.h>
#include <stdio.h>

enum { GPUS = 16, TEXT = 800, ADVICE = 300 };
static const double mib = 1048576;

static void check_mig(fat_checkup *c, int i, const fat_nvml_gpu *g)
{
  char text[TEXT], todo[ADVICE] = "";
  if (g->mig == FAT_NVML_UNKNOWN)
    return; /* most GPUs have none */
  snprintf(text, sizeof text, "%d: MIG is %s%s", i, g->mig ? "on" : "off",
           g->mig == g->mig_next ? ""
           : g->mig_next         ? ", and on after the next reset"
                                 : ", and off after the next reset");
  if (g->mig != g->mig_next)
    snprintf(todo, sizeof todo,
             "reset it before tuning, when nobody uses it: sudo nvidia-smi --gpu-reset -i %d", i);
  else if (g->mig)
    snprintf(todo, sizeof todo,
             "CUDA sees its slices, each tuned as a GPU of its own (nvidia-smi -L names them); for the whole "
             "GPU: sudo nvidia-smi -i %d -mig 0",
             i);
  fat_checkup_add(c, todo[0] ? FAT_NOTE : FAT_FINE, "MIG", text, todo);
}

static void check_mode(fat_checkup *c, int i, const fat_nvml_gpu *g, bool any_open)
{
  char text[TEXT], todo[ADVICE] = "";
  snprintf(text, sizeof text, "%d: %s", i,
           g->mode == FAT_NVML_SHARED       ? "open to all processes"
           : g->mode == FAT_NVML_EXCLUSIVE  ? "exclusive: one process at a time"
           : g->mode == FAT_NVML_PROHIBITED ? "prohibited: no process may use it"
                                            : "not told");
  if (g->mode == FAT_NVML_EXCLUSIVE)
    snprintf(todo, sizeof todo,
             "a tune needs it alone: it fails while another process holds it; for all: sudo nvidia-smi -i %d "
             "-c DEFAULT",
             i);
  else if (g->mode == FAT_NVML_PROHIBITED)
    snprintf(todo, sizeof todo, "sudo nvidia-smi -i %d -c DEFAULT", i);
  bool closed = g->mode == FAT_NVML_PROHIBITED && !any_open;
  fat_checkup_add(c, closed ? FAT_PROBLEM : todo[0] ? FAT_NOTE : FAT_FINE, "mode", text, todo);
}

/* The first that holds says what to do. */
static const struct {
  fat_nvml_reason bit;
  const char *words, *todo;
} reasons[] = {
    {FAT_NVML_HW_THERMAL, "too hot", "see to its cooling: what is measured now is slower than it could be"},
    {FAT_NVML_SW_THERMAL, "warm", "see to its cooling: what is measured now is slower than it could be"},
    {FAT_NVML_POWER_BRAKE, "power brake", "the power supply holds it back: what is measured now is too slow"},
    {FAT_NVML_HW_SLOWDOWN, "hardware slowdown", "nvidia-smi -q -d PERFORMANCE says why: heat or power"},
    {FAT_NVML_POWER_CAP, "power cap",
     "times depend on the power limit (nvidia-smi -q -d POWER); compare only runs under the same one"},
    {FAT_NVML_SET_CLOCKS, "clocks set by somebody",
     "good for comparing runs; for full speed: sudo nvidia-smi -rgc -rmc -rac"},
    {FAT_NVML_SYNC_BOOST, "in step with other GPUs", "take it out of its sync boost group"},
    {FAT_NVML_DISPLAY, "set by a display", "a GPU that drives no display runs faster"},
};

static int put_mhz(char *to, size_t room, const char *name, int mhz, int most)
{
  if (mhz == FAT_NVML_UNKNOWN)
    return snprintf(to, room, "%s not told", name);
  if (most == FAT_NVML_UNKNOWN)
    return snprintf(to, room, "%s at %d MHz", name, mhz);
  return snprintf(to, room, "%s at %d of %d MHz", name, mhz, most);
}

static void check_clocks(fat_checkup *c, int i, const fat_nvml_gpu *g)
{
  char text[TEXT];
  const char *todo = NULL;
  size_t n = (size_t)snprintf(text, sizeof text, "%d: ", i);
  n += (size_t)put_mhz(text + n, sizeof text - n, "SMs", g->sm_mhz, g->sm_most);
  n += (size_t)snprintf(text + n, sizeof text - n, ", ");
  n += (size_t)put_mhz(text + n, sizeof text - n, "memory", g->memory_mhz, g->memory_most);
  if (g->slow != FAT_NVML_UNKNOWN && g->slow & FAT_NVML_IDLE)
    n += (size_t)snprintf(text + n, sizeof text - n, "; idle");
  for (size_t r = 0; r < sizeof reasons / sizeof reasons[0]; r++)
    if (g->slow != FAT_NVML_UNKNOWN && g->slow & reasons[r].bit) {
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%s",
                            todo ? ", " : "; held back: ", reasons[r].words);
      todo = todo ? todo : reasons[r].todo;
    }
  fat_checkup_add(c, todo ? FAT_NOTE : FAT_FINE, "clocks", text, todo);
}

static void check_persistence(fat_checkup *c, int i, const fat_nvml_gpu *g)
{
  char text[TEXT], todo[ADVICE] = "";
  if (g->persistent == FAT_NVML_UNKNOWN)
    return;
  snprintf(text, sizeof text, "%d: the driver %s when nobody uses the GPU", i,
           g->persistent ? "stays loaded" : "is unloaded");
  if (!g->persistent)
    snprintf(todo, sizeof todo,
             "each first use takes a second or more; to keep it: sudo nvidia-smi -i %d -pm 1", i);
  fat_checkup_add(c, g->persistent ? FAT_FINE : FAT_NOTE, "persistence", text, todo);
}

static void check_users(fat_checkup *c, int i, const fat_nvml_gpu *g)
{
  char text[TEXT];
  size_t n = (size_t)snprintf(text, sizeof text, "%d: ", i);
  if (g->processes == FAT_NVML_UNKNOWN)
    n += (size_t)snprintf(text + n, sizeof text - n, "who else uses it is not told");
  else if (g->processes == 0)
    n += (size_t)snprintf(text + n, sizeof text - n, "no other process uses it");
  for (int p = 0; p < g->processes && n < sizeof text - 1; p++) {
    const fat_nvml_process *one = &g->process[p];
    if (p == FAT_NVML_PROCESSES || one->pid == 0) { /* more than are kept, or only their number is known */
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%d processes%s", p ? ", " : "", g->processes - p,
                            p ? " more" : "");
      break;
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "%sprocess %d (%s)", p ? ", " : "", one->pid,
                          one->name[0] ? one->name : "of another container");
    if (one->bytes >= 0 && n < sizeof text)
      n += (size_t)snprintf(text + n, sizeof text - n, " with %.0f MiB", (double)one->bytes / mib);
  }
  if (g->bytes != FAT_NVML_UNKNOWN && n < sizeof text)
    snprintf(text + n, sizeof text - n, "; %.0f of %.0f MiB are taken", (double)g->used / mib,
             (double)g->bytes / mib);
  fat_checkup_add(c, g->processes > 0 ? FAT_NOTE : FAT_FINE, "users", text,
                  g->processes > 0 ? "let them end before measuring: they take time and memory" : NULL);
}

void fat_doctor_gpus(fat_checkup *c)
{
  static fat_nvml_gpu gpus[GPUS]; /* large, and made once */
  fat_error err = {0};
  char text[TEXT];
  int count;
  bool any_open = false;
  if (fat_nvml_list(gpus, GPUS, &count, &err) != FAT_OK) {
    snprintf(text, sizeof text, "%.700s: modes, clocks and other users of a GPU cannot be looked at",
             err.text);
    fat_checkup_add(c, FAT_NOTE, "NVML", text, "nothing else needs it; it comes with NVIDIA's driver");
    return;
  }
  for (int i = 0; i < count; i++)
    any_open = any_open || gpus[i].mode != FAT_NVML_PROHIBITED;
  for (int i = 0; i < count; i++) {
    snprintf(text, sizeof text, "%d: %s", i, gpus[i].name);
    fat_checkup_add(c, FAT_FINE, "NVML", text, NULL);
    check_mig(c, i, &gpus[i]);
    check_mode(c, i, &gpus[i], any_open);
    check_clocks(c, i, &gpus[i]);
    check_persistence(c, i, &gpus[i]);
    check_users(c, i, &gpus[i]);
  }
}
