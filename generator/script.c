/* script.c -- the Lua host. One Lua state per script object, our engine in it, templates inside the engine.
 *
 * Limits: an allocator that refuses to grow past a cap, and a count hook that ends a call after so many
 * instructions. Once the hook has tripped it fires at every instruction, so nothing can swallow the error.
 * Templates get no function that runs long in C (no patterns, no table.move), so the hook always comes
 * round, and what copies memory or walks a list there counts as instructions too. Everything that may raise a
 * Lua error runs inside the one lua_pcall of protected_call. */
#include "script.h"
#include "embed.h"
#include "library.h"
#include "sees.h"
#include <lauxlib.h>
#include <locale.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOOK_STEP = 1000 };                                   /* instructions between looks at the limit */
enum { BYTES_A_STEP = 64 };                                  /* copied in the time of an instruction */
enum { VISITS_STEPS = 500 };                                 /* in the time that counting tiles takes */
static const long default_instructions = 400L * 1000 * 1000; /* walking a whole space takes about 5 million */
static const long default_bytes = 96L * 1024 * 1024;

struct fat_script {
  lua_State *lua;
  fat_library library;
  fat_text scratch; /* a file on its way into Lua: kept here, as a Lua error leaves functions half-way */
  long bytes, bytes_limit;
  long instructions, instructions_limit;
  bool capped;  /* the allocator refused because of the limit */
  bool tripped; /* the instruction limit was reached in this call */
};

/* What one protected call has to do; lives on the C stack of fat_script_call and fat_script_open. */
typedef struct request {
  fat_script *script;
  const char *function; /* NULL: load the engine */
  int count;
  const char *const *args;
  fat_text *result;
} request;

static const char *const engine_name = "generator/engine.lua";

static void *limited_alloc(void *user, void *old, size_t old_size, size_t size)
{
  fat_script *s = user;
  if (old == NULL)
    old_size = 0; /* Lua passes the kind of object there */
  if (size == 0) {
    s->bytes -= (long)old_size;
    free(old);
    return NULL;
  }
  if (size > old_size && s->bytes + (long)(size - old_size) > s->bytes_limit) {
    s->capped = true;
    return NULL;
  }
  void *fresh = realloc(old, size);
  if (fresh != NULL)
    s->bytes += (long)size - (long)old_size;
  s->instructions += (long)(size / BYTES_A_STEP);
  return fresh;
}

static void count_hook(lua_State *lua, lua_Debug *record)
{
  fat_script *s = *(fat_script **)lua_getextraspace(lua);
  s->instructions += HOOK_STEP;
  if (s->instructions < s->instructions_limit)
    return;
  s->tripped = true;
  lua_sethook(lua, count_hook, LUA_MASKCOUNT, 1);
  lua_getinfo(lua, "Sl", record); /* of the function that was interrupted */
  lua_pushfstring(lua, "%s:%d: more than %d million instructions: an endless loop?", record->short_src,
                  record->currentline, (int)(s->instructions_limit / 1000000));
  lua_error(lua);
}

/* -- what the engine may ask of the host */

static int host_read(lua_State *lua)
{
  fat_script *s = *(fat_script **)lua_getextraspace(lua);
  const char *name = luaL_checkstring(lua, 1);
  fat_text_clear(&s->scratch);
  const fat_status status = fat_library_read(&s->library, name, &s->scratch, NULL);
  if (status == FAT_E_NOMEM) {
    lua_pushfstring(lua, "\1nomem\1out of memory for %s", name);
    return lua_error(lua);
  }
  if (status != FAT_OK)
    lua_pushnil(lua);
  else
    lua_pushlstring(lua, fat_text_get(&s->scratch), s->scratch.length);
  return 1;
}

static int host_names(lua_State *lua)
{
  fat_script *s = *(fat_script **)lua_getextraspace(lua);
  lua_createtable(lua, s->library.count, 0);
  for (int i = 0; i < s->library.count; i++) {
    lua_pushstring(lua, s->library.names[i]);
    lua_rawseti(lua, -2, i + 1);
  }
  return 1;
}

/* spend(n): what comes takes as long as n instructions. */
static int host_spend(lua_State *lua)
{
  fat_script *s = *(fat_script **)lua_getextraspace(lua);
  s->instructions += (long)luaL_checkinteger(lua, 1);
  return 0;
}

/* Makes the methods of every string those of a table, and hides the metatable. */
static int host_protect_strings(lua_State *lua)
{
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_pushliteral(lua, "");
  lua_getmetatable(lua, -1);
  lua_pushvalue(lua, 1);
  lua_setfield(lua, -2, "__index");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  return 0;
}

/* visits(problem, Br, Bc, group): the KV tiles that all tiles of Q visit, and the most that one visits. */
static int host_visits(lua_State *lua)
{
  fat_problem p;
  const char *text = luaL_checkstring(lua, 1);
  const lua_Integer Br = luaL_checkinteger(lua, 2), Bc = luaL_checkinteger(lua, 3);
  const lua_Integer group = luaL_checkinteger(lua, 4);
  luaL_argcheck(lua, fat_problem_parse(text, &p, NULL) == FAT_OK, 1, "no problem");
  luaL_argcheck(lua, Br > 0 && Bc > 0 && group > 0, 2, "tiles have rows");
  (*(fat_script **)lua_getextraspace(lua))->instructions += VISITS_STEPS;
  lua_pushnumber(lua, fat_sees_tiles(&p, Br, Bc, group));
  lua_pushinteger(lua, fat_sees_most_tiles(&p, Br, Bc, group));
  return 2;
}

static void push_host(lua_State *lua)
{
  static const luaL_Reg functions[] = {{"read", host_read},     {"names", host_names},
                                       {"spend", host_spend},   {"protect_strings", host_protect_strings},
                                       {"visits", host_visits}, {NULL, NULL}};
  luaL_newlib(lua, functions);
}

/* Libraries for the engine: no io, os, package, debug; base without what reads files or prints. */
static void open_libraries(lua_State *lua)
{
  static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},
                                       {LUA_TABLIBNAME, luaopen_table},
                                       {LUA_STRLIBNAME, luaopen_string},
                                       {LUA_MATHLIBNAME, luaopen_math}};
  for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
    luaL_requiref(lua, libraries[i].name, libraries[i].func, 1);
    lua_pop(lua, 1);
  }
  static const char *const removed[] = {"dofile", "loadfile", "require", "collectgarbage", "print"};
  for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
    lua_pushnil(lua);
    lua_setglobal(lua, removed[i]);
  }
}

/* Loads engine.lua and leaves its table of functions in the registry. */
static void load_engine(lua_State *lua)
{
  open_libraries(lua);
  const fat_embed *file = fat_embed_find(engine_name);
  if (file == NULL)
    luaL_error(lua, "%s is not in the program", engine_name);
  if (luaL_loadbufferx(lua, file->text, file->length, "@generator/engine.lua", "t") != LUA_OK)
    lua_error(lua);
  push_host(lua);
  lua_call(lua, 1, 1);
  lua_setfield(lua, LUA_REGISTRYINDEX, "fatune");
}

/* The body of the one pcall. */
static int perform(lua_State *lua)
{
  request *q = lua_touserdata(lua, 1);
  if (q->function == NULL) {
    load_engine(lua);
    return 0;
  }
  lua_getfield(lua, LUA_REGISTRYINDEX, "fatune");
  if (lua_getfield(lua, -1, q->function) != LUA_TFUNCTION)
    luaL_error(lua, "the engine has no function '%s'", q->function);
  for (int i = 0; i < q->count; i++)
    lua_pushstring(lua, q->args[i]);
  lua_call(lua, q->count, 1);
  size_t length;
  const char *text = luaL_checklstring(lua, -1, &length);
  fat_text_add_bytes(q->result, text, length);
  return 0;
}

/* The status and sentence of a Lua error. engine.lua raises "\1kind\1message" where the kind matters; every
 * other text is a template's own mistake. Allocates nothing: a string value is read as it is. */
static fat_status explain(const fat_script *s, int code, fat_error *err)
{
  static const struct {
    const char *mark;
    fat_status status;
  } kinds[] = {{"\1template\1", FAT_E_TEMPLATE},
               {"\1unsupported\1", FAT_E_UNSUPPORTED},
               {"\1input\1", FAT_E_INPUT},
               {"\1nomem\1", FAT_E_NOMEM}};
  const char *message =
      lua_type(s->lua, -1) == LUA_TSTRING ? lua_tostring(s->lua, -1) : "an error without words";
  if (s->tripped)
    return fat_status_fail(err, FAT_E_LIMIT, "%s", message);
  if (code == LUA_ERRMEM && s->capped)
    return fat_status_fail(err, FAT_E_LIMIT, "a template needs more than the %ld MB of memory it may have",
                           s->bytes_limit / (1024 * 1024));
  if (code == LUA_ERRMEM)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory in Lua");
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strncmp(message, kinds[i].mark, strlen(kinds[i].mark)) == 0)
      return fat_status_fail(err, kinds[i].status, "%s", message + strlen(kinds[i].mark));
  return fat_status_fail(err, FAT_E_TEMPLATE, "%s", message);
}

/* The one lua_pcall. Leaves the stack as it was. */
static fat_status protected_call(fat_script *s, request *q, fat_error *err)
{
  const locale_t before = fat_text_enter_plain(); /* numbers in templates and answers have a point */
  s->instructions = 0;
  s->tripped = s->capped = false;
  lua_sethook(s->lua, count_hook, LUA_MASKCOUNT, HOOK_STEP);
  lua_pushcfunction(s->lua, perform);
  lua_pushlightuserdata(s->lua, q);
  int code = lua_pcall(s->lua, 1, 0, 0);
  uselocale(before);
  fat_status status = code == LUA_OK ? FAT_OK : explain(s, code, err);
  lua_settop(s->lua, 0);
  return status;
}

fat_status fat_script_open(const char *templates, fat_script **script, fat_error *err)
{
  *script = NULL;
  fat_script *s = calloc(1, sizeof *s);
  if (s == NULL)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory");
  s->bytes_limit = default_bytes;
  s->instructions_limit = default_instructions;
  fat_status status = fat_library_open(templates, &s->library, err);
  if (status == FAT_OK && (s->lua = lua_newstate(limited_alloc, s)) == NULL)
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory in Lua");
  if (status == FAT_OK) {
    *(fat_script **)lua_getextraspace(s->lua) = s;
    status = protected_call(s, &(request){.script = s}, err);
  }
  if (status == FAT_OK)
    *script = s;
  else
    fat_script_close(s);
  return status;
}

void fat_script_close(fat_script *s)
{
  if (s == NULL)
    return;
  if (s->lua != NULL)
    lua_close(s->lua);
  fat_text_free(&s->scratch);
  fat_library_close(&s->library);
  free(s);
}

fat_status fat_script_call(fat_script *s, const char *function, int count, const char *const *args,
                           fat_text *result, fat_error *err)
{
  request q = {.script = s, .function = function, .count = count, .args = args, .result = result};
  FAT_TRY(protected_call(s, &q, err));
  return fat_text_status(result, err);
}

const char *fat_script_templates_hash(const fat_script *s)
{
  return s->library.hash;
}

void fat_script_limits(fat_script *s, long instructions, long bytes)
{
  if (instructions > 0)
    s->instructions_limit = instructions;
  if (bytes > 0)
    s->bytes_limit = bytes;
}
