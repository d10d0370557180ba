#!/bin/sh
# run.sh BUILD SOURCE CARGO -- bindings/rust: its structs beside fatune.h's, its example on the fake driver.
set -eu
build=$1 source=$2 cargo=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset FAKE_CUDA_FAULT FAKE_CUDA_SOURCES FAKE_CUDA_DB
export FATUNE_DB="$root/fatune.db" FATUNE_SYSTEM_DB= FATUNE_LIBCUDA="$build/tests/fake_cuda.so" FATUNE_JIT="$build/runtime/libfatune-jit.so" \
  FAKE_CUDA_DEVICES=H200 FAKE_CUDA_EMULATE=reference CARGO_TARGET_DIR="$root/target"

fail() {
  echo "FAILED: $*"
  exit 1
}
"$build/probe" >/dev/null 2>&1 || {
  echo "skipped: there is no NVRTC to compile a kernel with"
  exit 77
}
cp -r "$source/bindings/rust" "$root/crate" # cargo writes a lock file beside it
cd "$root/crate"

# Each member of a struct of ours, in a program of each language that prints where it lies.
members() { # RUST-STRUCT: its members
  sed -n "/pub struct $1 {/,/^}/p" src/ffi.rs | sed -n 's/^ *pub \([A-Za-z_]*\):.*/\1/p'
}
{
  echo '#include "fatune.h"'
  echo '#include <stdio.h>'
  echo 'int main(void) {'
  for pair in Options=fatune_options Request=fatune_request Sizes=fatune_sizes Tensor=fatune_tensor Tensors=fatune_tensors; do
    for member in $(members "${pair%=*}"); do
      echo "  printf(\"%s %zu%c\", \"${pair%=*} $member\", offsetof(${pair#*=}, $member), 10);"
    done
  done
  echo '}'
} >"$root/places.c"
mkdir tests
{
  echo '#[test] fn places() {'
  for name in Options Request Sizes Tensor Tensors; do
    for member in $(members $name); do
      echo "  println!(\"$name $member {}\", std::mem::offset_of!(fatune::ffi::$name, $member));"
    done
  done
  echo '}'
} >tests/places.rs
cc -I"$source/runtime" "$root/places.c" -o "$root/places" 2>"$root/log" && "$root/places" >"$root/c" || fail "$(head -5 "$root/log")"

mkdir "$root/lib"
ln -s "$build/runtime/libfatune.so.0" "$root/lib/libfatune.so"
ln -s "$build/tests/fake_cuda.so" "$root/lib/libcuda.so"
export FATUNE_LIB_DIR="$root/lib" RUSTFLAGS="-D warnings -L native=$root/lib" LD_LIBRARY_PATH="$build/runtime:$root/lib"
"$cargo" test --offline --quiet --test places -- --nocapture >"$root/log" 2>&1 || fail "$(cat "$root/log")"
grep -E '^(Options|Request|Sizes|Tensors?) ' "$root/log" | diff - "$root/c" >"$root/diff" || fail "structs differ from fatune.h: $(cat "$root/diff")"
[ "$(wc -l <"$root/c")" -ge 30 ] || fail "few members were compared: $(cat "$root/c")"
"$cargo" run --offline --quiet --example attention >"$root/said" 2>&1 || fail "$(cat "$root/said")"
grep -q 'largest error .*: right' "$root/said" || fail "$(cat "$root/said")"
grep -q 'an error reads: .*f9' "$root/said" || fail "$(cat "$root/said")"
"$cargo" doc --offline --quiet --no-deps >"$root/log" 2>&1 || fail "$(cat "$root/log")"
echo "Rust: $(wc -l <"$root/c") members in place, $(grep 'largest error' "$root/said")"
