/* cmd_doctor.c -- `fatune doctor`: is everything there that tuning needs, and what to do if not.
 *
 * In: the machine. Out: one finding per thing looked at: ok, note or problem, what was found, what to do. A
 * note is something a person may want to know; only a problem makes the exit code 3. Nothing is changed or
 * made. */
#include "commands.h"
#include "device.h"
#include "doctor_files.h"
#include "doctor_gpus.h"
#include "exit.h"
#include "json.h"
#include "open.h"
#include "source.h"
#include "space.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

enum { NVRTC_MOST = 16, DEVICES = 16 };

static const char *const verdicts[] = {"ok", "note", "problem"}; /* ORDER VERDICT */

static void check_devices(fat_checkup *c)
{
  fat_driver *driver = NULL;
  fat_device devices[DEVICES];
  fat_error err = {0};
  char text[400], facts[FAT_GPU_FACTS];
  int count = 0;
  if (fat_driver_open(&driver, &err) != FAT_OK) {
    fat_checkup_add(c, FAT_NOTE, "driver", err.text,
                    "only timing needs a GPU: name one with --gpu for everything else");
    return;
  }
  c->cuda = fat_driver_cuda(driver);
  const char *version = fat_driver_text(driver);
  snprintf(text, sizeof text, "%s, CUDA up to %s", *version ? version : "of unknown version",
           fat_driver_cuda_text(driver));
  fat_checkup_add(c, FAT_FINE, "driver", text, NULL);
  if (fat_device_list(driver, devices, DEVICES, &count, &err) != FAT_OK)
    fat_checkup_add(c, FAT_NOTE, "device", err.text, NULL);
  for (int i = 0; i < count; i++) {
    const fat_gpu *row = fat_gpu_match(&devices[i].gpu);
    snprintf(text, sizeof text, "%d: %s (%s)%s%s", devices[i].ordinal, devices[i].gpu.name,
             fat_gpu_facts(&devices[i].gpu, facts),
             row ? ", known as " : ", not in the table: used as it reports itself", row ? row->name : "");
    bool served = fat_gpu_arch(devices[i].gpu.sm) != NULL;
    fat_checkup_add(c, served ? FAT_FINE : FAT_PROBLEM, "device", text,
                    served ? NULL : "fatune has no kernels for this architecture");
  }
  fat_driver_close(driver);
}

static void check_nvrtc(fat_checkup *c)
{
  static fat_nvrtc_found found[NVRTC_MOST];
  fat_error err = {0};
  int count = 0, cuda = c->options->cuda ? c->options->cuda : c->cuda;
  fat_nvrtc *nvrtc = NULL;
  char text[1200];
  fat_status listed = fat_nvrtc_list(cuda, found, NVRTC_MOST, &count, &err);
  fat_status opened = listed == FAT_OK ? fat_nvrtc_open(cuda, &nvrtc, &err) : listed;
  if (opened != FAT_OK)
    fat_checkup_add(c, FAT_PROBLEM, "NVRTC", err.text, NULL); /* it says how to get one */
  for (int i = 0; i < count; i++) {
    bool chosen = nvrtc && strcmp(found[i].path, fat_nvrtc_path(nvrtc)) == 0;
    snprintf(text, sizeof text, "%d.%d, %s: %s%s%s", found[i].major, found[i].minor, found[i].where,
             found[i].path, chosen ? " (used)" : "", found[i].problem[0] ? "; cannot be used: " : "");
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "%s", found[i].problem);
    fat_checkup_add(c, found[i].problem[0] ? FAT_NOTE : FAT_FINE, "NVRTC", text, NULL);
  }
  fat_nvrtc_close(nvrtc);
}

static void check_db(fat_checkup *c)
{
  fat_db *db = NULL;
  fat_text path = {0}, findings = {0};
  fat_error err = {0};
  if (fat_db_path(c->options->db, &path, &err) != FAT_OK) {
    fat_text_free(&path);
    return; /* fat_doctor_files says it */
  }
  fat_status status = fat_db_open(fat_text_get(&path), fat_db_system_path(), FAT_DB_READ, &db, &err);
  if (status == FAT_E_NOT_FOUND) {
    fat_checkup_add(c, FAT_NOTE, "database", err.text, "the first tune makes it");
  } else if (status != FAT_OK) {
    fat_checkup_add(c, FAT_PROBLEM, "database", err.text, "move the file away, or name another with --db");
  } else {
    if (*fat_db_note(db))
      fat_checkup_add(c, FAT_NOTE, "database", fat_db_note(db), NULL);
    status = fat_db_check(db, &findings, &err);
    if (status != FAT_OK)
      fat_checkup_add(c, FAT_PROBLEM, "database", err.text, NULL);
    else if (findings.length)
      fat_checkup_add(c, FAT_PROBLEM, "database", fat_text_get(&findings),
                      "export what can be read, then move the file away");
    else
      fat_checkup_add(c, FAT_FINE, "database", "its content is sound", NULL);
  }
  fat_db_close(db);
  fat_text_free(&path);
  fat_text_free(&findings);
}

/* A kernel, by the first problem it serves on the GPU: does its default config render? FAT_E_UNSUPPORTED
 * where it serves none there. */
static fat_status render_kernel(fat_script *script, const char *kernel, const fat_gpu *gpu, fat_error *err)
{
  static const char *const problems[] = {"fwd-f32-b1-h1-q64-k64-d64", "fwd-f16-b1-h1-q64-k64-d64",
                                         "bwd-f32-b1-h1-q64-k64-d64", "bwd-f16-b1-h1-q64-k64-d64",
                                         "bwd-f16-b1-h1-q64-k64-d256"};
  fat_status status = FAT_OK;
  for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
    fat_problem p;
    fat_point point;
    fat_source source = {0};
    int picked;
    FAT_TRY(fat_problem_parse(problems[i], &p, err));
    status = fat_space_applies(script, kernel, &p, gpu, &picked, err);
    if (status == FAT_OK)
      status = fat_space_default(script, kernel, &p, gpu, &point, err);
    if (status == FAT_E_UNSUPPORTED)
      continue;
    FAT_TRY(status);
    status = fat_source_render(script, &p, gpu, &point.config, FAT_LINES_TEMPLATE, &source, err);
    fat_source_free(&source);
    return status;
  }
  return status;
}

/* The same on the first GPU it serves: some kernels are for one architecture alone. */
static fat_status render_somewhere(fat_script *script, const char *kernel, fat_error *err)
{
  int count;
  const fat_gpu *gpus = fat_gpu_list(&count);
  fat_status status = FAT_E_UNSUPPORTED;
  for (int i = 0; i < count && status == FAT_E_UNSUPPORTED; i++)
    if (i == 0 || gpus[i].sm != gpus[i - 1].sm)
      status = render_kernel(script, kernel, &gpus[i], err);
  return status;
}

static void check_templates(fat_checkup *c)
{
  const char *folder = fat_open_templates(c->options);
  fat_script *script = NULL;
  fat_error err = {0};
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL], text[1200];
  int count = 0, broken = 0;
  fat_status status = fat_open_script(c->options, &script, &err);
  if (status == FAT_OK)
    status = fat_space_kernels(script, names, &count, &err);
  if (status != FAT_OK)
    fat_checkup_add(c, FAT_PROBLEM, "templates", err.text,
                    folder ? "see --templates and FATUNE_TEMPLATES" : NULL);
  for (int i = 0; i < count; i++)
    if (render_somewhere(script, names[i], &err) != FAT_OK) {
      fat_checkup_add(c, FAT_PROBLEM, "templates", err.text, "correct the template it names");
      broken++;
    }
  if (status == FAT_OK && !broken) {
    int n = snprintf(text, sizeof text, "%s, all render:", folder ? folder : "those inside the program");
    for (int i = 0; i < count && n > 0 && (size_t)n < sizeof text; i++)
      n += snprintf(text + n, sizeof text - (size_t)n, " %s", names[i]);
    fat_checkup_add(c, count ? FAT_FINE : FAT_PROBLEM, "templates", text,
                    count ? NULL : "there is no kernel among them");
  }
  fat_script_close(script);
}

static void print_json(const fat_checkup *c, fat_text *out)
{
  fat_json j = {.out = out};
  fat_json_open(&j, NULL, '[');
  for (int i = 0; i < c->count; i++) {
    fat_json_open(&j, NULL, '{');
    fat_json_string(&j, "what", c->list[i].what);
    fat_json_string(&j, "verdict", verdicts[c->list[i].verdict]);
    fat_json_string(&j, "found", c->list[i].found);
    fat_json_string(&j, "to_do", c->list[i].todo[0] ? c->list[i].todo : NULL);
    fat_json_close(&j, '}');
  }
  fat_json_close(&j, ']');
}

static void print_text(const fat_checkup *c, fat_text *out)
{
  for (int i = 0; i < c->count; i++) {
    const fat_finding *f = &c->list[i];
    fat_text_format(out, "%-8s %-11s %s\n", verdicts[f->verdict], f->what, f->found);
    if (f->todo[0])
      fat_text_format(out, "%-20s -> %s\n", "", f->todo);
  }
}

static int doctor(const fat_options *options)
{
  static fat_checkup c; /* large, and made once */
  fat_text out = {0};
  fat_error err = {0};
  int problems = 0;
  c = (fat_checkup){.options = options};
  check_devices(&c);
  fat_doctor_gpus(&c);
  check_nvrtc(&c);
  fat_doctor_files(&c);
  check_db(&c);
  check_templates(&c);
  for (int i = 0; i < c.count; i++)
    problems += c.list[i].verdict == FAT_PROBLEM;
  if (options->json)
    print_json(&c, &out);
  else
    print_text(&c, &out);
  int code = fat_text_status(&out, &err) == FAT_OK ? fat_exit_print(fat_text_get(&out)) : fat_exit_fail(&err);
  fat_text_free(&out);
  return code == FAT_EXIT_FINE && problems ? FAT_EXIT_ENVIRONMENT : code;
}

const fat_command fat_cmd_doctor = {
    .name = "doctor",
    .about = "look for what tuning needs, and say what to do",
    .more = "Looks at the driver and its devices; by NVML, where it is there, at the mode, MIG, clocks and "
            "other users of each GPU; at every libnvrtc it can find, the database, who may write where it "
            "lies, and the templates. Changes nothing.\n\n" FAT_EXIT_HELP,
    .uses = FAT_USE(CUDA) | FAT_USE(DB) | FAT_USE(TEMPLATES) | FAT_USE(DUMP) | FAT_USE(JSON),
    .run = doctor,
};
