/* gpu.c -- the rows: what an architecture can do, and the GPU models that people own.
 *
 * Figures of a model are those the driver reports (L2, bus, clocks) where that was seen, else the maker's
 * data sheet (of a laptop's the boost clock of its largest power budget: one that reports another is used as
 * it is); `dram` is the peak of the data sheet. A new GPU is one line here. Models that differ only in the
 * size of their memory or in name have equal facts: they are one GPU to a kernel. */
#include "gpu.h"
#include "insert.h"
#include "text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define KIB 1024

/* Shared memory of an architecture: most of one block, and all of one SM. */
#define SHARED_75  64 * KIB, 64 * KIB
#define SHARED_80  163 * KIB, 164 * KIB
#define SHARED_86  99 * KIB, 100 * KIB
#define SHARED_87  SHARED_80
#define SHARED_89  SHARED_86
#define SHARED_90  227 * KIB, 228 * KIB
#define SHARED_100 SHARED_90
#define SHARED_103 SHARED_90
#define SHARED_110 SHARED_90
#define SHARED_120 SHARED_86
#define SHARED_121 SHARED_86

#define OLD (1u << FAT_F32 | 1u << FAT_F16) /* Turing: no bf16, no TF32 */
#define NEW (OLD | 1u << FAT_BF16 | 1u << FAT_TF32 | 1u << FAT_F32X3)

/* Tensor rates are those of the data-centre and workstation cards: GeForce cards of 86 and 89 accumulate
 * 16-bit products in fp32 at half of it (512). Cards of the GTX 16 series are sm_75 without tensor cores. */
static const fat_arch arches[] = {
    /* sm, target, threads, blocks, registers, of a thread, shared block and SM, reserved,
     * fma, ex2, shared bytes, tensor, dtypes */
    {75, "sm_75", 1024, 16, 65536, 255, SHARED_75, 0, 64, 16, 64, 1024, OLD},
    {80, "sm_80", 2048, 32, 65536, 255, SHARED_80, 1024, 64, 16, 128, 2048, NEW},
    {86, "sm_86", 1536, 16, 65536, 255, SHARED_86, 1024, 128, 16, 128, 1024, NEW},
    {87, "sm_87", 1536, 16, 65536, 255, SHARED_87, 1024, 128, 16, 128, 2048, NEW},
    {89, "sm_89", 1536, 24, 65536, 255, SHARED_89, 1024, 128, 16, 128, 1024, NEW},
    {90, "sm_90a", 2048, 32, 65536, 255, SHARED_90, 1024, 128, 16, 128, 4096, NEW},
    {100, "sm_100a", 2048, 32, 65536, 255, SHARED_100, 1024, 128, 16, 128, 8192, NEW},
    {103, "sm_103a", 2048, 32, 65536, 255, SHARED_103, 1024, 128, 16, 128, 8192, NEW},
    {110, "sm_110a", 1536, 24, 65536, 255, SHARED_110, 1024, 128, 16, 128, 8192, NEW},
    {120, "sm_120", 1536, 24, 65536, 255, SHARED_120, 1024, 128, 16, 128, 1024, NEW},
    {121, "sm_121", 1536, 24, 65536, 255, SHARED_121, 1024, 128, 16, 128, 1024, NEW},
};

/* L2 in KiB, bus in bits, clocks in MHz, dram in GB/s, memory in GiB. */
#define ROW(name, sm, sms, l2, bus, clock, memory_clock, dram, memory)                                       \
  {                                                                                                          \
    name, sm, sms, SHARED_##sm, INT64_C(l2) * KIB, bus, clock, memory_clock, dram, memory                    \
  }

/* Grouped by architecture. Of models with equal facts the most common stands first: it is what fat_gpu_match
 * answers where memory does not tell them apart. */
static const fat_gpu models[] = {
    /* Turing. T4G is the T4 of Arm instances. */
    ROW("T4", 75, 40, 4096, 256, 1590, 5001, 320, 16),
    ROW("T4G", 75, 40, 4096, 256, 1590, 5001, 320, 16),
    ROW("RTX 2060", 75, 30, 3072, 192, 1680, 7001, 336, 6),
    ROW("RTX 2060 Super", 75, 34, 4096, 256, 1650, 7001, 448, 8),
    ROW("RTX 2070", 75, 36, 4096, 256, 1620, 7001, 448, 8),
    ROW("RTX 2070 Super", 75, 40, 4096, 256, 1770, 7001, 448, 8),
    ROW("RTX 2080", 75, 46, 4096, 256, 1710, 7001, 448, 8),
    ROW("RTX 2080 Super", 75, 48, 4096, 256, 1815, 7751, 496, 8),
    ROW("RTX 2080 Ti", 75, 68, 5632, 352, 1545, 7001, 616, 11),
    ROW("Titan RTX", 75, 72, 6144, 384, 1770, 7001, 672, 24),
    ROW("Quadro RTX 4000", 75, 36, 4096, 256, 1545, 6501, 416, 8),
    ROW("Quadro RTX 5000", 75, 48, 4096, 256, 1815, 7001, 448, 16),
    ROW("Quadro RTX 6000", 75, 72, 6144, 384, 1770, 7001, 672, 24),
    ROW("Quadro RTX 8000", 75, 72, 6144, 384, 1770, 7001, 672, 48),
    ROW("GTX 1650", 75, 14, 1024, 128, 1665, 4001, 128, 4),
    ROW("GTX 1650 Super", 75, 20, 1024, 128, 1725, 6001, 192, 4),
    ROW("GTX 1660", 75, 22, 1536, 192, 1785, 4001, 192, 6),
    ROW("GTX 1660 Super", 75, 22, 1536, 192, 1785, 7001, 336, 6),
    ROW("GTX 1660 Ti", 75, 24, 1536, 192, 1770, 6001, 288, 6),
    /* Ampere, data centre. An A100 of 40 GB differs in its memory clock. */
    ROW("A100 80GB SXM", 80, 108, 40960, 5120, 1410, 1593, 2039, 80),
    ROW("A100 80GB PCIe", 80, 108, 40960, 5120, 1410, 1512, 1935, 80),
    ROW("A800", 80, 108, 40960, 5120, 1410, 1593, 2039, 80),
    ROW("A100 40GB SXM", 80, 108, 40960, 5120, 1410, 1215, 1555, 40),
    ROW("A100 40GB PCIe", 80, 108, 40960, 5120, 1410, 1215, 1555, 40),
    ROW("A30", 80, 56, 24576, 3072, 1440, 1215, 933, 24),
    /* Ampere, graphics chips. A16 is one of the four GPUs on its board. */
    ROW("A2", 86, 10, 2048, 128, 1770, 6251, 200, 16),
    ROW("A10", 86, 72, 6144, 384, 1695, 6251, 600, 24),
    ROW("A10G", 86, 80, 6144, 384, 1710, 6251, 600, 24),
    ROW("A16", 86, 10, 2048, 128, 1755, 6251, 200, 16),
    ROW("A40", 86, 84, 6144, 384, 1740, 7251, 696, 48),
    ROW("RTX A2000", 86, 26, 3072, 192, 1200, 6001, 288, 12),
    ROW("RTX A4000", 86, 48, 4096, 256, 1560, 7001, 448, 16),
    ROW("RTX A4500", 86, 56, 5120, 320, 1650, 8001, 640, 20),
    ROW("RTX A5000", 86, 64, 6144, 384, 1695, 8001, 768, 24),
    ROW("RTX A5500", 86, 80, 6144, 384, 1665, 8001, 768, 24),
    ROW("RTX A6000", 86, 84, 6144, 384, 1800, 8001, 768, 48),
    ROW("RTX 3050", 86, 20, 2048, 128, 1777, 7001, 224, 8),
    ROW("RTX 3060", 86, 28, 2304, 192, 1777, 7501, 360, 12),
    ROW("RTX 3060 Ti", 86, 38, 4096, 256, 1665, 7001, 448, 8),
    ROW("RTX 3070", 86, 46, 4096, 256, 1725, 7001, 448, 8),
    ROW("RTX 3070 Ti", 86, 48, 4096, 256, 1770, 9501, 608, 8),
    ROW("RTX 3080", 86, 68, 5120, 320, 1710, 9501, 760, 10),
    ROW("RTX 3080 12GB", 86, 70, 6144, 384, 1710, 9501, 912, 12),
    ROW("RTX 3080 Ti", 86, 80, 6144, 384, 1665, 9501, 912, 12),
    ROW("RTX 3090", 86, 82, 6144, 384, 1695, 9751, 936, 24),
    ROW("RTX 3090 Ti", 86, 84, 6144, 384, 1860, 10501, 1008, 24),
    ROW("RTX 3060 Laptop", 86, 30, 3072, 192, 1703, 7001, 336, 6),
    ROW("RTX 3070 Laptop", 86, 40, 4096, 256, 1620, 7001, 448, 8),
    ROW("RTX 3070 Ti Laptop", 86, 46, 4096, 256, 1485, 7001, 448, 8),
    ROW("RTX 3080 Laptop", 86, 48, 4096, 256, 1710, 7001, 448, 16),
    ROW("RTX 3080 Ti Laptop", 86, 58, 4096, 256, 1590, 8001, 512, 16),
    /* Jetson: memory is shared with the CPU, and its clock is not reported. */
    ROW("Jetson AGX Orin 64GB", 87, 16, 4096, 256, 1300, 0, 204.8, 64),
    ROW("Jetson AGX Orin 32GB", 87, 14, 4096, 256, 930, 0, 204.8, 32),
    ROW("Jetson Orin NX 16GB", 87, 8, 4096, 128, 918, 0, 102.4, 16),
    ROW("Jetson Orin Nano 8GB", 87, 8, 2048, 128, 625, 0, 68, 8),
    /* Ada. L40, L40S and RTX 6000 Ada are one chip whose clocks are within 2 %. */
    ROW("L4", 89, 58, 49152, 192, 2040, 6251, 300, 24),
    ROW("L20", 89, 92, 98304, 384, 2520, 9001, 864, 48),
    ROW("L40S", 89, 142, 98304, 384, 2520, 9001, 864, 48),
    ROW("L40", 89, 142, 98304, 384, 2490, 9001, 864, 48),
    ROW("RTX 6000 Ada", 89, 142, 98304, 384, 2505, 10001, 960, 48),
    ROW("RTX 4060", 89, 24, 24576, 128, 2460, 8501, 272, 8),
    ROW("RTX 4060 Ti", 89, 34, 32768, 128, 2535, 9001, 288, 8),
    ROW("RTX 4070", 89, 46, 36864, 192, 2475, 10501, 504, 12),
    ROW("RTX 4070 Super", 89, 56, 49152, 192, 2475, 10501, 504, 12),
    ROW("RTX 4070 Ti", 89, 60, 49152, 192, 2610, 10501, 504, 12),
    ROW("RTX 4070 Ti Super", 89, 66, 49152, 256, 2610, 10501, 672, 16),
    ROW("RTX 4080", 89, 76, 65536, 256, 2505, 11201, 717, 16),
    ROW("RTX 4080 Super", 89, 80, 65536, 256, 2550, 11501, 736, 16),
    ROW("RTX 4090", 89, 128, 73728, 384, 2520, 10501, 1008, 24),
    ROW("RTX 4050 Laptop", 89, 20, 12288, 96, 2370, 8001, 192, 6),
    ROW("RTX 4060 Laptop", 89, 24, 32768, 128, 2370, 8001, 256, 8),
    ROW("RTX 4070 Laptop", 89, 36, 32768, 128, 2175, 8001, 256, 8),
    ROW("RTX 4080 Laptop", 89, 58, 49152, 192, 2280, 9001, 432, 12),
    ROW("RTX 4090 Laptop", 89, 76, 65536, 256, 2040, 9001, 576, 16),
    /* Hopper. A GH200 is an H100 or H200 to a kernel. */
    ROW("H100 SXM", 90, 132, 51200, 5120, 1980, 2619, 3352, 80),
    ROW("H800", 90, 132, 51200, 5120, 1980, 2619, 3352, 80),
    ROW("H100 PCIe", 90, 114, 51200, 5120, 1755, 1593, 2039, 80),
    ROW("H100 NVL", 90, 132, 61440, 6016, 1785, 2619, 3938, 94),
    ROW("H200", 90, 132, 61440, 6016, 1980, 3201, 4800, 141),
    ROW("H200 NVL", 90, 132, 61440, 6016, 1785, 3201, 4800, 141),
    ROW("H20", 90, 78, 61440, 6144, 1980, 2619, 4000, 96),
    ROW("GH200 96GB", 90, 132, 61440, 6144, 1980, 2619, 4000, 96),
    ROW("GH200 144GB", 90, 132, 61440, 6016, 1980, 3201, 4900, 144),
    /* Blackwell, data centre. */
    ROW("B200", 100, 148, 129536, 7680, 1965, 3996, 7700, 180),
    ROW("GB200", 100, 152, 129536, 7680, 2062, 3996, 7700, 186),
    ROW("B300", 103, 148, 129536, 7680, 2032, 3996, 7700, 270),
    ROW("Jetson AGX Thor", 110, 20, 32768, 256, 1575, 0, 273, 128),
    /* Blackwell, graphics chips, and the GB10 of a DGX Spark, whose memory is shared with the CPU. */
    ROW("RTX 5060", 120, 30, 32768, 128, 2497, 14001, 448, 8),
    ROW("RTX 5060 Ti", 120, 36, 32768, 128, 2572, 14001, 448, 16),
    ROW("RTX 5070", 120, 48, 49152, 192, 2512, 14001, 672, 12),
    ROW("RTX 5070 Ti", 120, 70, 49152, 256, 2452, 14001, 896, 16),
    ROW("RTX 5080", 120, 84, 65536, 256, 2617, 15001, 960, 16),
    ROW("RTX 5090", 120, 170, 98304, 512, 2407, 14001, 1792, 32),
    ROW("RTX 5070 Laptop", 120, 36, 32768, 128, 2347, 14001, 448, 8),
    ROW("RTX 5070 Ti Laptop", 120, 46, 49152, 192, 2220, 14001, 672, 12),
    ROW("RTX 5080 Laptop", 120, 60, 65536, 256, 2287, 14001, 896, 16),
    ROW("RTX 5090 Laptop", 120, 82, 65536, 256, 2160, 14001, 896, 24),
    ROW("RTX PRO 6000 Blackwell", 120, 188, 131072, 512, 2617, 14001, 1792, 96),
    ROW("GB10", 121, 48, 24576, 256, 2418, 0, 273, 128),
};

enum { MODELS = sizeof models / sizeof *models, NAME = 64 };

/* Other names: short ones mean the most common model, long ones are what tools and clouds call it. */
static const struct {
  const char *alias, *name;
} aliases[] = {
    {"A100", "A100 80GB SXM"},
    {"A800 SXM4 80GB", "A800"},
    {"A800 80GB PCIe", "A800"},
    {"A100 SXM", "A100 80GB SXM"},
    {"A100 80GB", "A100 80GB SXM"},
    {"A100 SXM 80GB", "A100 80GB SXM"},
    {"A100 SXM4 80GB", "A100 80GB SXM"},
    {"A100 PCIe", "A100 80GB PCIe"},
    {"A100 PCIe 80GB", "A100 80GB PCIe"},
    {"A100 40GB", "A100 40GB SXM"},
    {"A100 SXM 40GB", "A100 40GB SXM"},
    {"A100 SXM4 40GB", "A100 40GB SXM"},
    {"A100 PCIe 40GB", "A100 40GB PCIe"},
    {"H100", "H100 SXM"},
    {"H100 SXM5", "H100 SXM"},
    {"H100 80GB", "H100 SXM"},
    {"H100 80GB HBM3", "H100 SXM"},
    {"H200 SXM", "H200"},
    {"H200 141GB", "H200"},
    {"GH200", "GH200 96GB"},
    {"GH200 480GB", "GH200 96GB"},
    {"DGX Spark", "GB10"},
    {"AGX Orin", "Jetson AGX Orin 64GB"},
    {"Orin", "Jetson AGX Orin 64GB"},
    {"Jetson AGX Orin", "Jetson AGX Orin 64GB"},
    {"Jetson Orin", "Jetson AGX Orin 64GB"},
    {"Orin NX", "Jetson Orin NX 16GB"},
    {"Orin Nano", "Jetson Orin Nano 8GB"},
    {"Thor", "Jetson AGX Thor"},
    {"AGX Thor", "Jetson AGX Thor"},
    {"RTX 3080 10GB", "RTX 3080"},
    {"RTX 6000 Ada Generation", "RTX 6000 Ada"},
    {"RTX PRO 6000", "RTX PRO 6000 Blackwell"},
    {"RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"},
};

/* Older than anything that fatune serves; a name that begins so, as it is compared. */
static const struct {
  const char *begin, *family;
} too_old[] = {
    {"v100", "Volta"},    {"titanv", "Volta"}, {"gv100", "Volta"},  {"quadrogv100", "Volta"},
    {"p100", "Pascal"},   {"p40", "Pascal"},   {"p4", "Pascal"},    {"gtx10", "Pascal"},
    {"titanx", "Pascal"}, {"m60", "Maxwell"},  {"gtx9", "Maxwell"}, {"k80", "Kepler"},
};

const fat_arch *fat_gpu_arch(int sm)
{
  for (size_t i = 0; i < sizeof arches / sizeof *arches; i++)
    if (arches[i].sm == sm)
      return &arches[i];
  return NULL;
}

const fat_gpu *fat_gpu_list(int *count)
{
  *count = MODELS;
  return models;
}

/* The name as it is compared: lower case, without blanks, '-' and '_', and without the maker's words that the
 * driver puts before a model ("NVIDIA GeForce RTX 4090"). */
static void normalise(const char *name, char out[NAME])
{
  static const char *const makers[] = {"nvidia", "geforce", "tesla"};
  size_t n = 0;
  for (; *name != 0 && n < NAME - 1; name++) {
    if (strchr(" -_\t", *name) == NULL)
      out[n++] = (char)(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
  }
  out[n] = 0;
  for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
    size_t length = strlen(makers[i]);
    if (strncmp(out, makers[i], length) == 0 && out[length] != 0)
      memmove(out, out + length, strlen(out) - length + 1);
  }
  n = strlen(out);
  if (n > 9 && strcmp(out + n - 9, "laptopgpu") == 0)
    out[n - 3] = 0;
}

static const fat_gpu *find_name(const char *wanted)
{
  char name[NAME];
  for (int i = 0; i < MODELS; i++) {
    normalise(models[i].name, name);
    if (strcmp(name, wanted) == 0)
      return &models[i];
  }
  return NULL;
}

fat_status fat_gpu_find(const char *name, const fat_gpu **gpu, fat_error *err)
{
  enum { NEAREST = 3 };
  char wanted[NAME], other[NAME];
  normalise(name, wanted);
  *gpu = find_name(wanted);
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases && *gpu == NULL; i++) {
    normalise(aliases[i].alias, other);
    if (strcmp(other, wanted) == 0) {
      normalise(aliases[i].name, other);
      *gpu = find_name(other);
    }
  }
  if (*gpu != NULL)
    return FAT_OK;
  for (size_t i = 0; i < sizeof too_old / sizeof *too_old; i++)
    if (strncmp(wanted, too_old[i].begin, strlen(too_old[i].begin)) == 0)
      return fat_status_fail(
          err, FAT_E_UNSUPPORTED,
          "%.60s is a %s GPU: fatune begins with Turing (sm_75), whose tensor-core products its "
          "kernels are made of, and CUDA 13 compiles for nothing older",
          name, too_old[i].family);
  /* The nearest rows, nearest first and else in the order of the table, by insertion. */
  struct {
    int model, distance;
  } near[NEAREST];
  int count = 0;
  for (int i = 0; i < MODELS; i++) {
    normalise(models[i].name, other);
    int d = strstr(other, wanted) ? 0 : fat_text_distance(wanted, other), at = count; /* 4090: RTX 4090 */
    while (at > 0 && d < near[at - 1].distance)
      at--;
    if (fat_insert_room(near, sizeof near[0], &count, NEAREST, at)) {
      near[at].model = i;
      near[at].distance = d;
    }
  }
  return fat_status_fail(err, FAT_E_INPUT, "unknown GPU '%.60s': the nearest known are %s, %s, %s", name,
                         models[near[0].model].name, models[near[1].model].name, models[near[2].model].name);
}

/* How far two figures are apart, as a part of the larger; 0 where one of them is not known. */
static double apart(double a, double b)
{
  return a > 0 && b > 0 ? fabs(a - b) / fmax(a, b) : 0;
}

const fat_gpu *fat_gpu_match(const fat_gpu *device)
{
  const fat_gpu *best = NULL;
  double least = 0;
  for (int i = 0; i < MODELS; i++) {
    const fat_gpu *m = &models[i];
    if (m->sm != device->sm || m->sms != device->sms || m->shared_block != device->shared_block ||
        m->shared_sm != device->shared_sm || m->l2 != device->l2 || m->bus != device->bus ||
        device->clock <= 0 || apart(m->clock, device->clock) > 0.02)
      continue;
    /* Among equal facts: clocks first; memory size last, since a driver keeps some of it for itself. */
    double distance = apart(m->memory_clock, device->memory_clock) + apart(m->clock, device->clock) +
                      apart(m->memory, device->memory) / 8;
    if (best == NULL || distance < least) {
      best = m;
      least = distance;
    }
  }
  return best;
}

const char *fat_gpu_facts(const fat_gpu *gpu, char buffer[FAT_GPU_FACTS])
{
  snprintf(buffer, FAT_GPU_FACTS, "sm%d-%dSM-%dS-%" PRId64 "L2-%db-%d+%dMHz", gpu->sm, gpu->sms,
           gpu->shared_block, gpu->l2, gpu->bus, gpu->clock, gpu->memory_clock);
  return buffer;
}
