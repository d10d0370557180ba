#!/bin/sh
# xla.sh BUILD SOURCE -- libfatune-xla on the fake driver; with JAX where python3 (or PYTHON) has it, whose header is compared too.
set -eu
build=$1 source=$2 python=${PYTHON:-python3}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset FAKE_CUDA_FAULT FAKE_CUDA_SOURCES FAKE_CUDA_DB
export FATUNE_DB="$root/fatune.db" FATUNE_SYSTEM_DB= FATUNE_LIBCUDA="$build/tests/fake_cuda.so" FATUNE_LIBRARY="$build/runtime/libfatune.so.0" \
  FATUNE_JIT="$build/runtime/libfatune-jit.so" FATUNE_XLA="$build/bindings/xla/libfatune-xla.so" FAKE_CUDA_DEVICES=H200 \
  FAKE_CUDA_EMULATE=reference PYTHONDONTWRITEBYTECODE=1

"$build/probe" >/dev/null 2>&1 || {
  echo "skipped: there is no NVRTC to compile a kernel with"
  exit 77
}
exported=$(nm -D --defined-only "$FATUNE_XLA" | awk '$2 == "T" { print $3 }' | sort | tr '\n' ' ')
[ "$exported" = "fatune_xla_backward fatune_xla_forward " ] || {
  echo "FAILED: libfatune-xla exports $exported"
  exit 1
}
PYTHONPATH="$source/bindings/python" "$python" "$source/tests/python/xla.py"
include=$("$python" -c 'import jaxlib, os; print(os.path.join(os.path.dirname(jaxlib.__file__), "include"))' 2>/dev/null) || include=""
if [ -n "$include" ]; then
  cc -std=c11 -fsyntax-only -I"$source/bindings/xla" -isystem "$include" "$source/tests/python/xla_abi.c" && echo "XLA's header: the same places"
else
  echo "left out: XLA's own header"
fi
