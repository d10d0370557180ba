/* xla_abi.h -- of XLA's foreign function interface what handlers need, declared by ourselves.
 *
 * Structs begin with their size and grow at their end, so a handler of version 0.1 runs in every later XLA.
 * Names are ours; tests/python/xla.sh compares sizes and places with XLA's own header where jaxlib is
 * installed. */
#ifndef FATUNE_XLA_ABI_H
#define FATUNE_XLA_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_API_MAJOR = 0, XLA_API_MINOR = 1, XLA_METADATA = 1, XLA_EXECUTE = 3 };
enum { XLA_INVALID_ARGUMENT = 3, XLA_RESOURCE_EXHAUSTED = 8, XLA_UNIMPLEMENTED = 12, XLA_INTERNAL = 13 };
enum { XLA_F16 = 10, XLA_F32 = 11, XLA_BF16 = 16, XLA_S64 = 5 };
enum { XLA_ATTR_SCALAR = 3, XLA_ATTR_STRING = 4 };

typedef struct xla_extension {
  size_t size;
  int type;
  struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
  size_t size;
  xla_extension *extension;
  int major, minor;
} xla_version;

typedef struct xla_metadata {
  size_t size;
  xla_version version;
  uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
  xla_extension base;
  xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_buffer {
  size_t size;
  xla_extension *extension;
  int dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} xla_buffer;

typedef struct xla_text {
  const char *at;
  size_t length;
} xla_text;

typedef struct xla_scalar {
  int dtype;
  void *value;
} xla_scalar;

/* Arguments and results alike. */
typedef struct xla_values {
  size_t size;
  xla_extension *extension;
  int64_t count;
  int *types;
  void **at;
} xla_values;

typedef struct xla_attributes {
  size_t size;
  xla_extension *extension;
  int64_t count;
  int *types;
  xla_text **names;
  void **at;
} xla_attributes;

typedef struct xla_error xla_error;

typedef struct xla_error_create {
  size_t size;
  xla_extension *extension;
  const char *message;
  int code;
} xla_error_create;

typedef struct xla_stream_get {
  size_t size;
  xla_extension *extension;
  void *context;
  void *stream; /* out */
} xla_stream_get;

typedef struct xla_memory_allocate {
  size_t size;
  xla_extension *extension;
  void *context;
  size_t bytes, alignment;
  void *data; /* out */
} xla_memory_allocate;

typedef struct xla_memory_free {
  size_t size;
  xla_extension *extension;
  void *context;
  size_t bytes;
  void *data;
} xla_memory_free;

/* The functions that are not ours to call keep their places. */
typedef struct xla_api {
  size_t size;
  xla_extension *extension;
  xla_version version;
  const void *internal;
  xla_error *(*error_create)(xla_error_create *args);
  void *error_get_message, *error_destroy, *handler_register;
  xla_error *(*stream_get)(xla_stream_get *args);
  void *type_register, *context_get, *state_set, *state_get;
  xla_error *(*memory_allocate)(xla_memory_allocate *args);
  xla_error *(*memory_free)(xla_memory_free *args);
} xla_api;

typedef struct xla_frame {
  size_t size;
  xla_extension *extension;
  const xla_api *api;
  void *context;
  int stage;
  xla_values arguments, results;
  xla_attributes attributes;
} xla_frame;

#endif
