/* cubin.c -- reads the section headers, symbols and .nv.info of a cubin.
 *
 * Of each kernel there is a section .text.NAME and a global function symbol; .nv.info holds records (format,
 * attribute, size, symbol, value) of all kernels; .nv.shared.NAME is as large as its static shared memory
 * and, from sm_90 on, the 1024 bytes that the driver keeps in front of it. Every offset is checked before
 * use. */
#include "cubin.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CUDA_MACHINE = 190, INFO_SIZED = 4, INFO_FRAME = 0x11, INFO_REGISTERS = 0x2f, RESERVED = 1024 };

typedef struct image {
  const unsigned char *bytes;
  size_t size;
  Elf64_Ehdr head;
} image;

/* Section `i`; false where it or what it holds lies outside the image. */
static bool section_of(const image *m, int i, Elf64_Shdr *s)
{
  uint64_t at = m->head.e_shoff + (uint64_t)i * sizeof *s;
  if (i < 0 || i >= m->head.e_shnum || at < m->head.e_shoff || at > m->size || m->size - at < sizeof *s)
    return false;
  memcpy(s, m->bytes + at, sizeof *s);
  return s->sh_type == SHT_NOBITS || (s->sh_offset <= m->size && s->sh_size <= m->size - s->sh_offset);
}

/* A zero-ended name in a table of strings; "" where it has no end. */
static const char *name_at(const image *m, const Elf64_Shdr *strings, uint64_t offset)
{
  const char *table = (const char *)m->bytes + strings->sh_offset;
  if (offset >= strings->sh_size || !memchr(table + offset, 0, strings->sh_size - offset))
    return "";
  return table + offset;
}

/* The section of a name that is (nobits) or is not only a size. */
static bool find(const image *m, const char *name, bool nobits, Elf64_Shdr *s)
{
  Elf64_Shdr names;
  if (!section_of(m, m->head.e_shstrndx, &names) || names.sh_type == SHT_NOBITS)
    return false;
  for (int i = 1; i < m->head.e_shnum; i++)
    if (section_of(m, i, s) && (s->sh_type == SHT_NOBITS) == nobits &&
        strcmp(name_at(m, &names, s->sh_name), name) == 0)
      return true;
  return false;
}

static uint32_t word(const unsigned char *p)
{
  uint32_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

/* Registers and stack of the function with this symbol. */
static void read_info(const image *m, uint32_t symbol, fat_entry *entry)
{
  Elf64_Shdr info;
  if (!find(m, ".nv.info", false, &info))
    return;
  const unsigned char *p = m->bytes + info.sh_offset, *end = p + info.sh_size;
  while (end - p >= 4) {
    int size = p[0] == INFO_SIZED ? p[2] | p[3] << 8 : 0; /* other formats hold their value inside */
    if (size > end - p - 4)
      return;
    if (size >= 8 && word(p + 4) == symbol && p[1] == INFO_REGISTERS)
      entry->registers = (int)word(p + 8);
    if (size >= 8 && word(p + 4) == symbol && p[1] == INFO_FRAME)
      entry->stack = (int)word(p + 8);
    p += 4 + size;
  }
}

static void read_entry(const image *m, const char *name, uint32_t symbol, fat_entry *entry)
{
  char section[FAT_ENTRY_NAME + 16];
  Elf64_Shdr shared, reserved;
  memset(entry, 0, sizeof *entry);
  snprintf(entry->name, sizeof entry->name, "%s", name);
  read_info(m, symbol, entry);
  snprintf(section, sizeof section, ".nv.shared.%s", entry->name);
  if (find(m, section, true, &shared)) {
    uint64_t front = find(m, ".nv.shared.reserved.0", true, &reserved) ? RESERVED : 0;
    entry->shared = shared.sh_size > front ? (int)(shared.sh_size - front) : 0;
  }
}

int fat_cubin_entries(const unsigned char *cubin, size_t size, fat_entry *entries, int room)
{
  image m = {.bytes = cubin, .size = size};
  Elf64_Shdr table, strings;
  int count = 0;
  if (size < sizeof m.head || memcmp(cubin, ELFMAG, SELFMAG) != 0)
    return 0;
  memcpy(&m.head, cubin, sizeof m.head);
  if (m.head.e_ident[EI_CLASS] != ELFCLASS64 || m.head.e_machine != CUDA_MACHINE ||
      m.head.e_shentsize != sizeof(Elf64_Shdr) || !find(&m, ".symtab", false, &table) ||
      !find(&m, ".strtab", false, &strings))
    return 0;
  for (uint32_t i = 1; i < table.sh_size / sizeof(Elf64_Sym) && count < room; i++) {
    Elf64_Sym symbol;
    memcpy(&symbol, m.bytes + table.sh_offset + i * sizeof symbol, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL)
      read_entry(&m, name_at(&m, &strings, symbol.st_name), i, &entries[count++]);
  }
  return count;
}
