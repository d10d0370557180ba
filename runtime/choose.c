/* choose.c -- the choice of a plan: asks the pick, loads what it names, asks again where that does not load.
 *
 * In: a problem, a device, a policy. Out: a loaded kernel with its twin, and lines that say why these. A
 * database that cannot be read is left out like a row that cannot serve. */
#include "choosing.h"
#include "cuda_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void go_without(fat_choosing *c, const char *reason)
{
  fat_text_format(c->why, "database: %s\n", reason);
  snprintf(c->without, sizeof c->without, "%.500s", reason);
}

fat_status fat_choosing_open_db(fat_choosing *c, fat_error *err)
{
  const fatune *h = c->ask.handle;
  fat_error why = {0};
  if (!h->database && !h->system) {
    go_without(c, h->note[0] ? h->note : "none");
    return FAT_OK;
  }
  fat_status status = fat_db_open(h->database, h->system, FAT_DB_READ, &c->loader.db, &why);
  if (status != FAT_OK && status != FAT_E_NOMEM) {
    go_without(c, why.text);
    if (h->database && h->system && status != FAT_E_NOT_FOUND)
      status = fat_db_open(NULL, h->system, FAT_DB_READ, &c->loader.db, &why);
  }
  if (status == FAT_OK)
    fat_db_read_begin(c->loader.db);
  return status == FAT_E_NOMEM ? fat_status_fail(err, status, "%s", why.text) : FAT_OK;
}

void fat_choosing_leave_db(fat_choosing *c, const char *reason)
{
  if (c->loader.db && fat_db_note(c->loader.db)[0])
    fat_text_format(c->why, "database: %s\n", fat_db_note(c->loader.db));
  if (*reason)
    go_without(c, reason);
  fat_db_close(c->loader.db);
  c->loader.db = NULL;
}

void fat_choosing_begin(fat_choosing *c, const fat_ask *ask, fat_choice *choice)
{
  const char *off = secure_getenv("FATUNE_DISABLE_JIT");
  const bool jit = !(off && strcmp(off, "1") == 0);
  const fat_gpu *row = fat_gpu_match(ask->device);
  memset(choice, 0, sizeof *choice);
  choice->gpu = row ? *row : *ask->device;
  *c = (fat_choosing){.ask = *ask,
                      .out = choice,
                      .why = &choice->why,
                      .jit_off = !jit,
                      .loader = {.handle = ask->handle,
                                 .problem = ask->problem,
                                 .gpu = &choice->gpu,
                                 .sms = ask->device->sms,
                                 .may_compile = ask->policy == FATUNE_COMPILE && jit,
                                 .may_rebuild = ask->policy != FATUNE_FAIL && jit,
                                 .look = ask->look,
                                 .why = &choice->why}};
}

fat_status fat_choosing_end(fat_choosing *c, fat_status status, fat_error *err)
{
  fat_choosing_leave_db(c, "");
  fat_pick_rows_free(&c->rows);
  fat_pick_rows_free(&c->plain_rows);
  fat_load_keep(&c->loader);
  if (status == FAT_OK)
    return fat_text_status(c->why, err);
  /* A slip of the name looks like a kernel that nobody tuned: which ones exist only the templates know. */
  if (err && status == FAT_E_NOT_FOUND && c->ask.kernel)
    fat_status_fail(err, status,
                    "the request names kernel '%s', and none of that name is stored that serves: %.700s",
                    c->ask.kernel, err->text);
  if (err && *c->without && !fat_cuda_error_is_fatal(status))
    fat_status_fail(err, status, "%s; database: %s", err->text, c->without);
  return status;
}

void fat_choosing_turn(fat_choosing *c, const fat_problem *p)
{
  c->ask.problem = c->loader.problem = p;
  c->refused_count = c->unfit_count = 0;
  c->hidden = false;
  c->unable.status = FAT_OK;
  c->unbuilt[0] = 0;
  c->loader.of[0] = 0;
  c->out->has_twin = false;
  c->out->row.found = false;
  fat_loaded_free(&c->out->main);
  fat_loaded_free(&c->out->twin);
}

fat_status fat_choosing_kernel(fat_choosing *c, fat_pick *pick, fat_error *err)
{
  bool found = false;
  fat_error why = {0};
  FAT_TRY(fat_take_stored(c, pick, &found, err));
  if (!found && pick->step == FAT_PICK_DEFAULT)
    FAT_TRY(fat_take_kept(c, &found, err));
  if (found)
    return FAT_OK;
  const bool far = pick->far;
  const fat_status status = fat_take_default(c, pick, &why);
  if (status != FAT_OK && far && !fat_cuda_error_is_fatal(status)) {
    c->far_too = true;
    FAT_TRY(fat_take_stored(c, pick, &found, err));
  }
  return status == FAT_OK || found ? FAT_OK : fat_status_fail(err, status, "%s", why.text);
}

fat_status fat_choose(const fat_ask *ask, fat_choice *choice, fat_error *err)
{
  fat_choosing c;
  fat_choosing_begin(&c, ask, choice);
  fat_pick *pick = calloc(1, sizeof *pick);
  if (!pick)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a pick");
  fat_status status = fat_choosing_open_db(&c, err);
  if (status == FAT_OK)
    status = fat_choosing_kernel(&c, pick, err);
  if (status == FAT_OK)
    status = fat_take_twin(&c, err);
  free(pick);
  return fat_choosing_end(&c, status, err);
}

void fat_choice_free(fat_choice *choice)
{
  fat_loaded_free(&choice->main);
  fat_loaded_free(&choice->twin);
  fat_text_free(&choice->why);
}
