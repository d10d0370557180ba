/* arguments.h -- the arguments of a recipe's launch, as those take them who hand them to a driver. */
#ifndef FAT_TESTS_ARGUMENTS_H
#define FAT_TESTS_ARGUMENTS_H

#include "cuda_abi.h"
#include "recipe.h"

/* Bytes of an argument; `call_size`: of the struct that stands for `call`. */
static inline size_t argument_size(fat_arg_kind kind, size_t call_size)
{
  static const size_t sizes[FAT_ARG_COUNT] = {
      [FAT_ARG_WS] = sizeof(void *), [FAT_ARG_INT] = sizeof(int32_t), [FAT_ARG_MAP] = FAT_CUDA_MAP_BYTES};
  return kind == FAT_ARG_CALL ? call_size : sizes[kind];
}

/* The value of one: what its address points at. */
typedef union argument {
  _Alignas(FAT_CUDA_MAP_ALIGN) unsigned char map[FAT_CUDA_MAP_BYTES];
  const void *pointer;
  int32_t number;
} argument;

#endif
