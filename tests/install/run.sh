#!/bin/sh
# run.sh BUILD SOURCE FAKES -- installs a build into a temporary folder and uses it from there: what the library
# shows, pkg-config, find_package, the static library, the examples and the Python binding. They run on a GPU
# where there is one, else on the fake driver, with kernels compiled on demand; what cannot be built here (no
# cuda.h, no NVRTC) is left out and said.
set -eu
build=$1 source=$2 fakes=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
export XDG_DATA_HOME="$root/data"
unset FATUNE_DB FATUNE_SYSTEM_DB FATUNE_JIT FATUNE_LIBCUDA FATUNE_DISABLE_JIT

fail() {
  echo "FAILED: $*"
  exit 1
}
leave_out() { echo "left out: $*"; }
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

DESTDIR= cmake --install "$build" --prefix "$root/first" >"$root/install.log" || fail "$(cat "$root/install.log")"
mv "$root/first" "$root/usr" # an installed tree may be moved
lib=$(dirname "$(find "$root/usr" -name libfatune.so.0)")
library=$lib/libfatune.so.0

# -- what the library shows
[ -z "$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | grep -v '^fatune_')" ] || fail "it exports more than fatune_"
[ "$(nm -D --defined-only "$library" | grep -c '@@FATUNE_0$')" = "$(grep -c '^FATUNE_API' "$root/usr/include/fatune.h")" ] ||
  fail "not every call of fatune.h has its version"
readelf -d "$library" | grep -q 'SONAME.*\[libfatune.so.0\]' || fail "its soname"
cp "$library" "$root/stripped"
strip "$root/stripped"
if ! nm "$library" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
  for file in "$library" "$lib/libfatune-jit.so.0"; do
    needed=$(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^lib(c|m|dl|pthread)\.so|^ld-' || true)
    [ -z "$needed" ] || fail "$file needs $needed"
    ! readelf -d "$file" | grep -q TEXTREL || fail "$file has code that is changed when it is loaded"
  done
  [ "$(wc -c <"$root/stripped")" -lt 2000000 ] || fail "it has $(wc -c <"$root/stripped") bytes"
else
  leave_out "sanitizer build: its size and what it needs"
  exit 77
fi
! strings "$library" | grep -qE 'nvrtcCompile|lua_|Lua 5' || fail "NVRTC or Lua is inside"
nm -D --defined-only "$lib/libfatune-jit.so.0" | awk '$2 != "A" { print $3 }' | grep -v '^fatune_jit_' && fail "libfatune-jit exports more"
nm -D --defined-only "$lib/libfatune-python.so.0" | awk '$2 != "A" { print $3 }' | grep -v '^fatune_again_' && fail "libfatune-python exports more"
echo "libfatune.so.0: $(wc -c <"$root/stripped") bytes"

# -- the system database, found beside the program wherever the tree lies
if [ -n "$(find "$source/db/tuned" -name '*.jsonl')" ]; then
  system=$root/usr/share/fatune/fatune.db
  [ -f "$system" ] || fail "no system database is installed"
  [ "$(stat -c %a "$system")" = 644 ] || fail "the system database has mode $(stat -c %a "$system")"
  [ -n "$(cached FATUNE_CUBINS)" ] || ! grep -aq __global__ "$system" || fail "the system database has sources, which calls write again"
  "$root/usr/bin/fatune" show best --json >"$root/best" || fail "show best: $(cat "$root/best")"
  grep -q '"database":"system"' "$root/best" || fail "show best has no row of the system's"
  problem=$(sed -n 's/.*"problem":"\([^"]*\)".*"origin":"measured".*/\1/p' "$root/best" | head -1)
  gpu=$(sed -n 's/.*"gpu":"\([^"]*\)".*/\1/p' "$root/best" | head -1)
  "$root/usr/bin/fatune" why "$problem" --gpu "$gpu" | grep -q '^-> exact .*measured' || fail "why $problem"
  echo "fatune.db: $(wc -c <"$system") bytes, $(grep -c '"database":"system"' "$root/best") winners"
fi

# -- what ./fatune builds, which is no test, can be installed too, and is all there is
configure() { # FOLDER OPTION...
  folder=$1
  shift
  cmake -G "$(cached CMAKE_GENERATOR)" -S "$source" -B "$root/$folder" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$(cached CMAKE_C_COMPILER)" \
    -DCMAKE_C_COMPILER_LAUNCHER="$(cached CMAKE_C_COMPILER_LAUNCHER)" -DFATUNE_TESTS=OFF "$@" >"$root/$folder.log" 2>&1
}
! configure refused -DFATUNE_CUBINS=H200,T44 || fail "FATUNE_CUBINS takes a GPU of which there are no rows"
tr '\n' ' ' <"$root/refused.log" | grep -q "no rows of 'T44'; *it has rows of: .*H200" || fail "$(cat "$root/refused.log")"
configure small && cmake --build "$root/small" --target installable >>"$root/small.log" 2>&1 &&
  DESTDIR= cmake --install "$root/small" --prefix "$root/second" >>"$root/small.log" 2>&1 || fail "$(tail -n 30 "$root/small.log")"
(cd "$root/usr" && find . ! -name '*Targets-*' | sort) >"$root/usr.list"
(cd "$root/second" && find . ! -name '*Targets-*' | sort) | diff "$root/usr.list" - || fail "another build installs other files"
"$root/second/bin/fatune" show best --json | cmp - "$root/best" || fail "another build ships other rows"

# -- the header alone
echo '#include <fatune.h>' >"$root/alone.c"
cc -std=c11 -pedantic -Wall -Wextra -Werror -I"$root/usr/include" -fsyntax-only "$root/alone.c" || fail "fatune.h as C11"
if command -v c++ >/dev/null; then
  c++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$root/usr/include" -fsyntax-only "$root/alone.c" || fail "fatune.h as C++"
fi

# -- a program without CUDA: pkg-config, static and shared
export PKG_CONFIG_PATH="$lib/pkgconfig"
cat >"$root/version.c" <<'EOF'
#include <fatune.h>
#include <stdio.h>
int main(void)
{
  return puts(fatune_version()) < 0 || fatune_abi_version() != FATUNE_ABI_VERSION;
}
EOF
flags=$(pkg-config --cflags --libs fatune) || fail "pkg-config finds no fatune"
# shellcheck disable=SC2086
cc "$root/version.c" $flags -Wl,-rpath,"$lib" -o "$root/version" && "$root/version" || fail "a program by pkg-config"
counted="" # a build that counts its lines needs the compiler's library for that
! nm "$library" 2>/dev/null | grep -q ' __gcov_init' || counted=--coverage
# shellcheck disable=SC2046
cc $counted "$root/version.c" $(pkg-config --cflags fatune) "$lib/libfatune.a" \
  $(pkg-config --static --libs fatune | sed 's/-lfatune//') -o "$root/static" && "$root/static" || fail "a program by the static library"

# -- the examples, by pkg-config and by CMake; linked with the fake driver where there is no GPU
gpu=no
if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; then gpu=yes; fi
cuda=""
for folder in "${CUDA_HOME:-}" /usr/local/cuda /usr; do
  [ -z "$cuda" ] && [ -n "$folder" ] && [ -f "$folder/include/cuda.h" ] && cuda=$folder
done
driver=$root/libfakecuda.so # a name that a linker takes
ln -s "$fakes/fake_cuda.so" "$driver"
[ $gpu = no ] || driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -1)
if [ -z "$cuda" ]; then
  leave_out "examples: cuda.h is missing"
  exit 77
fi
# README's own two lines, where a compiler finds cuda.h and the driver
mkdir "$root/link"
ln -s "$driver" "$root/link/libcuda.so"
sed -n '/^    export PKG_CONFIG_PATH=PREFIX/,/^    cc /p' "$source/README.md" | sed "s,PREFIX,$root/usr," >"$root/readme.sh"
(cd "$root/usr/share/doc/fatune" && CPATH="$cuda/include" LIBRARY_PATH="$root/link" sh -e "$root/readme.sh" && mv attention "$root/by-readme") ||
  fail "README's lines: $(cat "$root/readme.sh")"
for example in attention decode graph; do
  # shellcheck disable=SC2086
  cc -Wall -Wextra -Werror "$source/examples/$example.c" $flags -I"$cuda/include" "$driver" -lm -Wl,-rpath,"$lib" \
    -o "$root/$example" || fail "$example by pkg-config"
done
cmake -S "$root/usr/share/doc/fatune/examples" -B "$root/examples" -DCMAKE_PREFIX_PATH="$root/usr" -DCUDA_INCLUDE="$cuda/include" \
  -DCUDA_LIBRARY="$driver" >"$root/cmake.log" 2>&1 &&
  cmake --build "$root/examples" >>"$root/cmake.log" 2>&1 || fail "$(cat "$root/cmake.log")"

# -- they run
export FATUNE_DB="$root/none.db" FATUNE_SYSTEM_DB=
problem=fwd-f32-b2-h4k2-q200-k200-d64-causal
if ! "$build/probe" >/dev/null 2>&1; then
  leave_out "running: there is no NVRTC to compile a kernel with"
  exit 77
fi
if [ $gpu = no ]; then
  # It finds sources by the hash in their headers: those of the kernels that libfatune-jit will make.
  mkdir "$root/sources"
  export FATUNE_LIBCUDA="$driver" FAKE_CUDA_DEVICES=H200 FAKE_CUDA_EMULATE=reference FAKE_CUDA_SOURCES="$root/sources"
  anchor=fwd-f32-b4-h32-q4096-k4096-d64-causal # the family's: its plan has that kernel
  for kernel in fwd standard; do
    "$root/usr/bin/fatune" render $problem --gpu H200 --kernel $kernel >"$root/sources/$kernel.cu" || fail "render $kernel"
    "$root/usr/bin/fatune" render $anchor --gpu H200 --kernel $kernel >"$root/sources/$kernel-anchor.cu" || fail "render $kernel"
    "$root/usr/bin/fatune" render $anchor-sink --gpu H200 --kernel $kernel >"$root/sources/$kernel-sink.cu" || fail "render $kernel"
  done
fi
for program in "$root/by-readme" "$root/attention" "$root/examples/attention" "$root/decode" "$root/examples/decode" "$root/graph" "$root/examples/graph"; do
  LD_LIBRARY_PATH="$root/link" "$program" >"$root/said" || fail "$program: $(cat "$root/said")"
  tail -n 1 "$root/said"
done

# -- the Python binding; without PyTorch, on tensors of our own
if command -v python3 >/dev/null && [ $gpu = no ]; then
  FATUNE_LIBRARY="$library" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$source/bindings/python:$source/tests/python/standin" \
    python3 "$source/tests/python/use.py" || fail "the Python binding"
else
  leave_out "the Python binding: it is tried on the fake driver, by python3"
fi
echo "all of it works from an installed tree"
