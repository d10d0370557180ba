#!/bin/sh
# build.sh fatune|all -- from a fresh checkout to a program in build/: packages, CMake, the build, an NVRTC. `fatune` is
# the program and what else `cmake --install build` copies; `all` is the tests too.
# Says what it does in a line each; the words of the tools go to build/setup.log and are shown if one fails.
set -u
target=${1:-fatune}
root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$root/build
log=$build/setup.log

say() { echo "fatune: $*"; }

# Runs a step; where it fails, shows what it said last.
step() {
  "$@" >>"$log" 2>&1 && return
  grep -nE -A 3 'error:|Error|FAILED' "$log" | head -n 40
  say "this failed: $*"
  say "everything it said is in $log"
  exit 3
}

if [ "$target" = all ]; then
  "$root/setup/packages.sh" build check || exit 3
else
  "$root/setup/packages.sh" build || exit 3
fi
mkdir -p "$build" 2>/dev/null && [ -w "$build" ] || {
  say "cannot write to $build: give it to this user, or clone fatune into a folder of your own"
  exit 3
}
exec 9>"$build/.lock"
flock 9 # two first calls at once build one after the other
: >"$log"
touch "$build/.began" # an edit during the build is newer than this, and built by the next call

# A build folder that came from elsewhere (a copied checkout) is configured anew.
if [ -f "$build/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
  rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles" "$build/build.ninja" "$build/Makefile"
fi
# Configured once; for the tests again where they were left out, or cmocka was not there, the first time.
if [ ! -f "$build/build.ninja" ] && [ ! -f "$build/Makefile" ]; then
  say "configuring"
  step cmake -G Ninja -S "$root" -B "$build"
elif [ "$target" = all ] && grep -qE '^(CMOCKA.*-NOTFOUND|FATUNE_TESTS:.*=(OFF|NO|0))$' "$build/CMakeCache.txt"; then
  step cmake -S "$root" -B "$build" -DFATUNE_TESTS=ON
fi
start=$(date +%s)
say "building"
if [ "$target" = all ]; then
  step cmake --build "$build"
else
  step cmake --build "$build" --target installable --target probe
fi
say "built in $(($(date +%s) - start)) s"
mv "$build/.began" "$build/.stamp"
# Without NVRTC all but compiling works; what compiles asks again (see ./fatune).
if "$root/setup/nvrtc.sh" "$build/probe"; then rm -f "$build/.no-nvrtc"; else touch "$build/.no-nvrtc"; fi
