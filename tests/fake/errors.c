/* errors.c -- names and words of result codes, as a driver has them.
 *
 * The stub library of the CUDA toolkit knows no names, not even its own; so code 34 has none here. */
#include "fake.h"
#include "status.h"
#include "../../runtime/cuda_codes.h"

#define ROW(code, status, name) {code, #name},
static const struct {
  int code;
  const char *name;
} rows[] = {FAT_CUDA_CODES(ROW){101, "CUDA_ERROR_INVALID_DEVICE"}};

int cuGetErrorName(int result, const char **name)
{
  *name = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows && !*name; i++)
    if (rows[i].code == result && result != FAT_CUDA_STUB)
      *name = rows[i].name;
  return *name ? 0 : 1;
}

int cuGetErrorString(int result, const char **text)
{
  static const struct {
    int code;
    const char *text;
  } words[] = {{0, "no error"},
               {1, "invalid argument"},
               {2, "out of memory"},
               {46, "the device is busy or unavailable"},
               {201, "invalid device context"},
               {209, "no kernel image for this device"},
               {700, "an illegal memory access"},
               {701, "too many resources requested for launch"},
               {716, "misaligned address"},
               {719, "the launch has failed"},
               {999, "unknown error"}};
  *text = NULL;
  for (size_t i = 0; i < sizeof words / sizeof *words && !*text; i++)
    if (words[i].code == result)
      *text = words[i].text;
  if (!*text)
    cuGetErrorName(result, text);
  return *text ? 0 : 1;
}
