/* module.h -- a cubin becomes code in the current context.
 *
 * A module belongs to the context it was loaded in. Calls on one module are not for two threads at once;
 * functions taken from it are plain addresses that any thread may launch. */
#ifndef FAT_MODULE_H
#define FAT_MODULE_H

#include "context.h"
#include "text.h"
#include <stdint.h>

typedef struct fat_module fat_module;

/* Loads `cubin` in the current context, after a check that it has the SHA-256 `hash`: a damaged cubin is
 * FAT_E_CORRUPT and never reaches the driver, which it could crash. FAT_E_IMAGE: made for another GPU or a
 * newer driver. The bytes are not needed afterwards. Safe while some stream is captured. */
fat_status fat_module_load(const fat_driver *driver, const void *cubin, size_t size,
                           const char hash[FAT_HASH_SIZE], fat_module **module, fat_error *err);

/* Unloads if its context is the current one; else its code lives until that context is destroyed. */
void fat_module_free(fat_module *module);

/* The function of that name, loaded by force (drivers load lazily, which must not happen in a launch), with
 * leave to use `shared` bytes of dynamic shared memory. FAT_E_LAUNCH where the GPU does not have as much. */
fat_status fat_module_entry(fat_module *module, const char *name, int64_t shared, void **function,
                            fat_error *err);

const fat_driver *fat_module_driver(const fat_module *module);

/* The modules of one library handle: each cubin once per context. */
typedef struct fat_modules {
  fat_module **list;
  int count;
} fat_modules;

/* The module of (current context, hash): the one there is, or a new one. Owned by the list. The cubin has
 * this hash: whoever read or made it has looked. */
fat_status fat_modules_get(fat_modules *modules, const fat_driver *driver, const void *cubin,
                           const char hash[FAT_HASH_SIZE], fat_module **module, fat_error *err);
void fat_modules_free(fat_modules *modules);

#endif
