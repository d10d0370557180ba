#!/bin/sh
# run.sh BUILD SOURCE -- the Python binding and what stands on it, on the fake driver, with kernels compiled now. With
# PyTorch where python3 (or PYTHON) has it, whose own checks run too; and always with the stand-in for it.
set -eu
build=$1 source=$2 python=${PYTHON:-python3}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
export FATUNE_PYTHON="$build/bindings/cpython/libfatune-python.so"
unset FAKE_CUDA_FAULT FAKE_CUDA_SOURCES FAKE_CUDA_DB
export FATUNE_DB="$root/fatune.db" FATUNE_SYSTEM_DB= FATUNE_LIBCUDA="$build/tests/fake_cuda.so" FATUNE_LIBRARY="$build/runtime/libfatune.so" \
  FATUNE_JIT="$build/runtime/libfatune-jit.so" FAKE_CUDA_DEVICES=H200 FAKE_CUDA_EMULATE=reference PYTHONDONTWRITEBYTECODE=1

for test in names program; do
  PYTHONPATH="$source/bindings/python" "$python" "$source/tests/python/$test.py"
done
"$build/probe" >/dev/null 2>&1 || {
  echo "skipped: there is no NVRTC to compile a kernel with"
  exit 77
}
PYTHONPATH="$source/bindings/python" "$python" "$source/tests/python/dlpack.py"
for test in again grads masks aligned; do
  PYTHONPATH="$source/bindings/python:$source/tests/python/standin" "$python" "$source/tests/python/$test.py"
done
FATUNE_DB="$root/built.db" FATUNE_SYSTEM_DB="$build/share/fatune/fatune.db" \
  PYTHONPATH="$source/bindings/python:$source/tests/python/standin" "$python" "$source/tests/python/built.py"
if "$python" -c 'import torch' 2>/dev/null; then
  for test in again_torch grads features edges front flex huggingface dropin; do
    PYTHONPATH="$source/bindings/python:$source/tests/python" "$python" "$source/tests/python/$test.py"
  done
  said=$("$python" "$source/bench/binding.py" --fake "$build" --calls 5 --rounds 3) || true # as fast as this machine is
  echo "$said" | grep -q '^prepared ' || {
    echo "FAILED: bench/binding.py: $said"
    exit 1
  }
  set -- $("$python" -c 'import os, sysconfig, torch
print(sysconfig.get_path("include"), os.path.join(os.path.dirname(torch.__file__), "include"))')
  if [ -f "$1/Python.h" ] && [ -f "$2/ATen/dlpack.h" ]; then
    cc -std=c11 -fsyntax-only -I"$source/bindings/cpython" -isystem "$1" -isystem "$2" "$source/tests/python/again_abi.c"
    echo "Python's and DLPack's headers: the same places"
  fi
else
  echo "left out: the same with PyTorch, which $python does not have"
fi
