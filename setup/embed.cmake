# embed.cmake -- writes OUT (embedded.c): every file named in FILES (below ROOT) as an array, sorted by name.
list(SORT FILES)
set(arrays "")
set(rows "")
set(count 0)
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR length "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const unsigned char file${count}[] = {${bytes}0};\n")
  string(APPEND rows "  {\"${name}\", (const char *)file${count}, ${length}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUT}.tmp "/* Written by setup/embed.cmake. */
#include \"embed.h\"
#include <string.h>

${arrays}
const fat_embed fat_embed_files[] = {
${rows}  {0, 0, 0}};
const int fat_embed_count = ${count};

const fat_embed *fat_embed_find(const char *name)
{
  for (int i = 0; i < fat_embed_count; i++)
    if (strcmp(fat_embed_files[i].name, name) == 0)
      return &fat_embed_files[i];
  return NULL;
}
")
file(RENAME ${OUT}.tmp ${OUT})
