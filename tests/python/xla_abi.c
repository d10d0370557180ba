/* xla_abi.c -- our declarations of XLA's interface beside XLA's own, where jaxlib is installed (xla.sh). */
#include "xla_abi.h"
#include "xla/ffi/api/c_api.h"

#define PLACE(ours, member, theirs, name)                                                                    \
  _Static_assert(offsetof(ours, member) == offsetof(theirs, name), #ours "." #member);
PLACE(xla_frame, api, XLA_FFI_CallFrame, api)
PLACE(xla_frame, context, XLA_FFI_CallFrame, ctx)
PLACE(xla_frame, stage, XLA_FFI_CallFrame, stage)
PLACE(xla_frame, arguments, XLA_FFI_CallFrame, args)
PLACE(xla_frame, results, XLA_FFI_CallFrame, rets)
PLACE(xla_frame, attributes, XLA_FFI_CallFrame, attrs)
PLACE(xla_values, at, XLA_FFI_Args, args)
PLACE(xla_values, at, XLA_FFI_Rets, rets)
PLACE(xla_attributes, names, XLA_FFI_Attrs, names)
PLACE(xla_attributes, at, XLA_FFI_Attrs, attrs)
PLACE(xla_buffer, data, XLA_FFI_Buffer, data)
PLACE(xla_buffer, dims, XLA_FFI_Buffer, dims)
PLACE(xla_scalar, value, XLA_FFI_Scalar, value)
PLACE(xla_text, length, XLA_FFI_ByteSpan, len)
PLACE(xla_error_create, code, XLA_FFI_Error_Create_Args, errc)
PLACE(xla_stream_get, stream, XLA_FFI_Stream_Get_Args, stream)
PLACE(xla_memory_allocate, data, XLA_FFI_DeviceMemory_Allocate_Args, data)
PLACE(xla_memory_free, data, XLA_FFI_DeviceMemory_Free_Args, data)
PLACE(xla_api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create)
PLACE(xla_api, stream_get, XLA_FFI_Api, XLA_FFI_Stream_Get)
PLACE(xla_api, memory_allocate, XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate)
PLACE(xla_api, memory_free, XLA_FFI_Api, XLA_FFI_DeviceMemory_Free)
PLACE(xla_metadata, version, XLA_FFI_Metadata, api_version)
PLACE(xla_metadata, traits, XLA_FFI_Metadata, traits)
PLACE(xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata)
_Static_assert(XLA_METADATA == XLA_FFI_Extension_Metadata, "extension");
_Static_assert(XLA_EXECUTE == XLA_FFI_ExecutionStage_EXECUTE, "stage");
_Static_assert(XLA_F32 == XLA_FFI_DataType_F32, "f32");
_Static_assert(XLA_S64 == XLA_FFI_DataType_S64, "s64");
_Static_assert(XLA_ATTR_SCALAR == XLA_FFI_AttrType_SCALAR, "scalar");
_Static_assert(XLA_ATTR_STRING == XLA_FFI_AttrType_STRING, "string");
_Static_assert(XLA_INVALID_ARGUMENT == XLA_FFI_Error_Code_INVALID_ARGUMENT, "input");
_Static_assert(XLA_RESOURCE_EXHAUSTED == XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "memory");
_Static_assert(XLA_UNIMPLEMENTED == XLA_FFI_Error_Code_UNIMPLEMENTED, "unsupported");
_Static_assert(XLA_INTERNAL == XLA_FFI_Error_Code_INTERNAL, "internal");
