/* make_cubin.c -- cubins without a compiler: what a loader reads of one, and no code.
 *
 * For tests of loading and launching on machines that have no CUDA toolkit. The layout is that of NVIDIA's
 * tools: names, symbols, one set of sections for each kernel, section headers, a program header. */
#include "fake.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = FAKE_FUNCTIONS, FIXED = 5, EACH = 3, NAMES = 8192 };

typedef struct writer {
  char *bytes;
  size_t size, room;
  Elf64_Shdr section[FIXED + EACH * KERNELS];
  int sections;
  char names[NAMES]; /* of sections */
  size_t names_size;
} writer;

static void add_bytes(writer *w, const void *bytes, size_t size)
{
  memcpy(w->bytes + w->size, bytes, size);
  w->size += size;
}

static void align(writer *w)
{
  w->size = (w->size + 7) / 8 * 8;
}

static Elf64_Shdr *begin_section(writer *w, uint32_t type, const char *prefix, const char *name)
{
  Elf64_Shdr *s = &w->section[w->sections++];
  align(w);
  *s = (Elf64_Shdr){.sh_type = type, .sh_name = (uint32_t)w->names_size, .sh_offset = w->size};
  w->names_size +=
      1 + (size_t)snprintf(w->names + w->names_size, NAMES - w->names_size, "%s%s", prefix, name);
  return s;
}

static void end_section(writer *w)
{
  Elf64_Shdr *s = &w->section[w->sections - 1];
  s->sh_size = w->size - s->sh_offset;
}

static void add_info(writer *w, int code, int words, const uint32_t *word)
{
  const unsigned char head[4] = {4, (unsigned char)code, (unsigned char)(4 * words), 0};
  add_bytes(w, head, sizeof head);
  add_bytes(w, word, 4 * (size_t)words);
}

static void add_kernel(writer *w, const fake_kernel *k)
{
  begin_section(w, SHT_LOPROC, ".nv.info.", k->name);
  uint32_t offset = 0;
  for (int i = 0; i < k->params; i++) {
    uint32_t size = (uint32_t)k->size[i], unit = size == FAT_CUDA_MAP_BYTES ? FAT_CUDA_MAP_ALIGN
                                                 : size >= 8                ? 8
                                                 : size >= 4                ? 4
                                                                            : 1;
    offset = (offset + unit - 1) / unit * unit;
    add_info(w, 0x17, 3, (uint32_t[]){0, (uint32_t)i | offset << 16, size << 18 | 0x1f000});
    offset += size;
  }
  if (k->threads)
    add_info(w, 0x05, 3, (uint32_t[]){(uint32_t)k->threads, 1, 1});
  end_section(w);
  begin_section(w, SHT_PROGBITS, ".text.", k->name);
  add_bytes(w, k->name, strlen(k->name));
  end_section(w);
  begin_section(w, SHT_NOBITS, ".nv.shared.", k->name)->sh_size = (uint64_t)k->shared;
}

static void add_symbols(writer *w, int count, const fake_kernel *kernels)
{
  uint32_t name = 1;
  begin_section(w, SHT_STRTAB, ".strtab", "");
  add_bytes(w, "", 1);
  for (int i = 0; i < count; i++)
    add_bytes(w, kernels[i].name, strlen(kernels[i].name) + 1);
  end_section(w);
  begin_section(w, SHT_SYMTAB, ".symtab", "");
  add_bytes(w, &(Elf64_Sym){0}, sizeof(Elf64_Sym));
  for (int i = 0; i < count; i++) {
    const Elf64_Sym symbol = {.st_name = name,
                              .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                              .st_shndx = (uint16_t)(FIXED + EACH * i + 1)};
    add_bytes(w, &symbol, sizeof symbol);
    name += (uint32_t)strlen(kernels[i].name) + 1;
  }
  end_section(w);
  begin_section(w, SHT_LOPROC, ".nv.info", "");
  for (int i = 0; i < count; i++)
    add_info(w, 0x2f, 2, (uint32_t[]){(uint32_t)i + 1, (uint32_t)kernels[i].registers});
  end_section(w);
}

void *fake_cubin(int sm, int count, const fake_kernel *kernels, size_t *size)
{
  writer *w = calloc(1, sizeof *w);
  size_t room = NAMES + 65536 + sizeof w->section;
  if (!w || count > KERNELS || !(w->bytes = calloc(1, room))) {
    free(w);
    return NULL;
  }
  w->size = sizeof(Elf64_Ehdr);
  begin_section(w, SHT_NULL, "", "")->sh_offset = 0;
  int names = w->sections;
  begin_section(w, SHT_STRTAB, ".shstrtab", "");
  add_symbols(w, count, kernels);
  for (int i = 0; i < count; i++)
    add_kernel(w, &kernels[i]);
  align(w);
  w->section[names].sh_offset = w->size;
  w->section[names].sh_size = w->names_size;
  add_bytes(w, w->names, w->names_size);
  align(w);
  Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x41, 8},
                     .e_type = ET_EXEC,
                     .e_machine = 190,
                     .e_version = 1,
                     .e_shoff = w->size,
                     .e_phoff = w->size + (size_t)w->sections * sizeof *w->section,
                     .e_phentsize = sizeof(Elf64_Phdr),
                     .e_phnum = 1,
                     .e_flags = 0x6000000u | (uint32_t)sm << 8 | 4,
                     .e_ehsize = sizeof head,
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shnum = (uint16_t)w->sections,
                     .e_shstrndx = (uint16_t)names};
  memcpy(w->bytes, &head, sizeof head);
  add_bytes(w, w->section, (size_t)w->sections * sizeof *w->section);
  add_bytes(w, &(Elf64_Phdr){0}, sizeof(Elf64_Phdr));
  char *bytes = w->bytes;
  *size = w->size;
  free(w);
  return bytes;
}
