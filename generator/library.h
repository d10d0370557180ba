/* library.h -- where templates come from: inside the program, or a folder of someone who edits kernels.
 *
 * Names are paths from the root of the project ("templates/fwd.cu"), the same for both, so that messages and
 * #line marks read alike. Our own Lua (generator/) always comes from inside the program. */
#ifndef FAT_LIBRARY_H
#define FAT_LIBRARY_H

#include "status.h"
#include "text.h"

enum { FAT_LIBRARY_NAMES = 256 };

typedef struct fat_library {
  char *folder;                   /* or NULL: the templates inside the program */
  char *names[FAT_LIBRARY_NAMES]; /* of all templates, sorted */
  int count;
  char hash[FAT_HASH_SIZE]; /* over all templates and our Lua, names included */
} fat_library;

/* Lists and hashes. FAT_E_IO if the folder is not laid out like templates/. */
fat_status fat_library_open(const char *folder, fat_library *library, fat_error *err);
void fat_library_close(fat_library *library);

/* Appends the text of one file; FAT_E_NOT_FOUND if the library has none of that name. */
fat_status fat_library_read(const fat_library *library, const char *name, fat_text *text, fat_error *err);

#endif
