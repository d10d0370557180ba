/* cubin.c -- reads a cubin as far as a driver must: its architecture, its kernels, their needs.
 *
 * In: an image whose size nobody tells. Out: functions with registers, shared memory, launch bounds and
 * parameters, as the sections .nv.info and .nv.shared of each kernel say. NVIDIA's tools write a file in one
 * order: sections, section headers, program headers. What breaks this order is damaged; so nothing is read
 * beyond the headers' own places. */
#include "fake.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_MACHINE = 190, SECTIONS = 4096, FILE_MAX = 1 << 28, RESERVED = 1024 };

typedef struct image {
  const char *bytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *section;
  const char *names;
} image;

static const char *name_of(const image *m, int section)
{
  return m->names + m->section[section].sh_name;
}

static bool is_sound(image *m)
{
  const Elf64_Ehdr *h = m->head;
  uint64_t end = h->e_shoff + (uint64_t)h->e_shnum * sizeof(Elf64_Shdr);
  if (h->e_shoff < sizeof *h || h->e_shoff > FILE_MAX || h->e_shoff % 8 || h->e_shnum > SECTIONS ||
      h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shstrndx >= h->e_shnum || h->e_phoff != end)
    return false;
  m->section = (const Elf64_Shdr *)(const void *)(m->bytes + h->e_shoff);
  for (int i = 0; i < h->e_shnum; i++) {
    const Elf64_Shdr *s = &m->section[i];
    if (s->sh_type != SHT_NOBITS && (s->sh_offset > h->e_shoff || s->sh_size > h->e_shoff - s->sh_offset))
      return false;
  }
  const Elf64_Shdr *names = &m->section[h->e_shstrndx];
  m->names = m->bytes + names->sh_offset;
  for (int i = 0; i < h->e_shnum; i++)
    if (m->section[i].sh_name >= names->sh_size)
      return false;
  return names->sh_size > 0 && !m->names[names->sh_size - 1];
}

/* Shared memory alone has no bits in the file. */
static int find_section(const image *m, const char *prefix, const char *name)
{
  size_t n = strlen(prefix);
  bool bits = strncmp(prefix, ".nv.shared", 10) != 0;
  for (int i = 1; i < m->head->e_shnum; i++)
    if ((m->section[i].sh_type != SHT_NOBITS) == bits && !strncmp(name_of(m, i), prefix, n) &&
        !strcmp(name_of(m, i) + n, name))
      return i;
  return -1;
}

static uint32_t word(const unsigned char *p)
{
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Calls `take` for each attribute of a .nv.info section that has a body: its code, body and size. */
static void each_info(const image *m, int section, void (*take)(int, const unsigned char *, int, void *),
                      void *user)
{
  if (section < 0)
    return;
  const unsigned char *p = (const unsigned char *)m->bytes + m->section[section].sh_offset;
  const unsigned char *end = p + m->section[section].sh_size;
  while (end - p >= 4) {
    int format = p[0], size = format == 4 ? p[2] | p[3] << 8 : 0; /* other formats hold their value inside */
    if (size > end - p - 4)
      return;
    take(p[1], p + 4, size, user);
    p += 4 + size;
  }
}

enum { INFO_MAX_THREADS = 0x05, INFO_FRAME = 0x11, INFO_PARAM = 0x17, INFO_REGISTERS = 0x2f };

static void take_own(int code, const unsigned char *body, int size, void *user)
{
  fake_function *f = user;
  if (code == INFO_MAX_THREADS && size >= 12)
    f->threads = (int)(word(body) * word(body + 4) * word(body + 8));
  if (code == INFO_PARAM && size >= 12) {
    int ordinal = body[4] | body[5] << 8, bytes = (int)(word(body + 8) >> 18);
    if (ordinal >= FAKE_PARAMS)
      return;
    f->offset[ordinal] = body[6] | body[7] << 8;
    f->size[ordinal] = bytes;
    f->params = ordinal >= f->params ? ordinal + 1 : f->params;
    int end = f->offset[ordinal] + bytes;
    f->bytes = end > f->bytes ? end : f->bytes;
  }
}

typedef struct about {
  fake_function *function;
  uint32_t symbol;
} about;

static void take_common(int code, const unsigned char *body, int size, void *user)
{
  about *a = user;
  if (size < 8 || word(body) != a->symbol)
    return;
  if (code == INFO_REGISTERS)
    a->function->registers = (int)word(body + 4);
  if (code == INFO_FRAME)
    a->function->local = (int)word(body + 4);
}

static int add_function(const image *m, fake_module *module, const char *name, uint32_t symbol)
{
  fake_function *f = fake_handle_make(sizeof *f, FAKE_FUNCTION, module->head.context);
  if (!f)
    return 2;
  f->module = module;
  snprintf(f->name, sizeof f->name, "%s", name);
  f->threads = 1024;
  /* From sm_90 on the driver's own share of a block stands in the file, in front of the kernel's. */
  int shared = find_section(m, ".nv.shared.", name);
  int reserved = find_section(m, ".nv.shared.reserved.0", "") < 0 ? 0 : RESERVED;
  f->shared = shared < 0 ? 0 : (int)m->section[shared].sh_size;
  f->shared = f->shared > reserved ? f->shared - reserved : 0;
  each_info(m, find_section(m, ".nv.info.", name), take_own, f);
  each_info(m, find_section(m, ".nv.info", ""), take_common, &(about){f, symbol});
  atomic_store_explicit(&f->dynamic, 49152 - f->shared, memory_order_relaxed);
  module->function[module->count++] = f;
  return f->bytes > FAKE_PARAM_BYTES ? FAKE_DAMAGED : 0;
}

int fake_cubin_read(const void *bytes, fake_module *module)
{
  image m = {bytes, bytes, NULL, NULL};
  if (memcmp(bytes, ELFMAG, SELFMAG) || m.head->e_ident[EI_CLASS] != ELFCLASS64 ||
      m.head->e_machine != CUDA_MACHINE)
    return 200;
  if (!is_sound(&m))
    return FAKE_DAMAGED;
  /* CUDA 13 moved the architecture and counts another ABI version. */
  module->sm = (int)(m.head->e_ident[EI_ABIVERSION] >= 8 ? m.head->e_flags >> 8 : m.head->e_flags) & 0xff;
  int table = find_section(&m, ".symtab", ""), strings = find_section(&m, ".strtab", "");
  if (table < 0 || strings < 0 || m.section[table].sh_offset % 8)
    return FAKE_DAMAGED;
  const Elf64_Sym *symbol = (const Elf64_Sym *)(const void *)(m.bytes + m.section[table].sh_offset);
  const Elf64_Shdr *names = &m.section[strings];
  for (uint32_t i = 1; i < m.section[table].sh_size / sizeof *symbol; i++) {
    if (ELF64_ST_TYPE(symbol[i].st_info) != STT_FUNC || ELF64_ST_BIND(symbol[i].st_info) != STB_GLOBAL)
      continue;
    if (symbol[i].st_name >= names->sh_size || m.bytes[names->sh_offset + names->sh_size - 1] ||
        module->count == FAKE_FUNCTIONS)
      return FAKE_DAMAGED;
    int failed = add_function(&m, module, m.bytes + names->sh_offset + symbol[i].st_name, i);
    if (failed)
      return failed;
  }
  return 0;
}
