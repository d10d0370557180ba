/* script.h -- the Lua host: the only file that knows Lua.
 *
 * Runs our own Lua (generator/engine.lua: template engine, space) with the whole string library, and the
 * templates in a narrow environment with limits on instructions and memory. Values cross as text. One script
 * object belongs to one thread; any number may exist. */
#ifndef FAT_SCRIPT_H
#define FAT_SCRIPT_H

#include "status.h"
#include "text.h"

typedef struct fat_script fat_script;

/* Where templates come from: NULL for those inside the program, else a folder laid out like templates/. */
fat_status fat_script_open(const char *templates, fat_script **script, fat_error *err);
void fat_script_close(fat_script *script);

/* Calls one function of engine.lua with text arguments and appends the text it returns. A failure is
 * FAT_E_TEMPLATE (message with template file and line), FAT_E_LIMIT, FAT_E_UNSUPPORTED or FAT_E_NOMEM. */
fat_status fat_script_call(fat_script *script, const char *function, int count, const char *const *args,
                           fat_text *result, fat_error *err);

/* SHA-256 over all templates in use and the engine: one hash that changes when any of them does. */
const char *fat_script_templates_hash(const fat_script *script);

/* Tightens the limits (tests, fuzzing): 0 leaves one as it is. */
void fat_script_limits(fat_script *script, long instructions, long bytes);

#endif
