#!/bin/sh
# wheel.sh BUILD SOURCE -- builds the wheel as pip does, installs it into a fresh virtual environment without a network,
# and uses what is in it: its size, its tag, the program, the rows, where it looks for NVRTC, the library on the fake driver.
set -eu
build=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset FATUNE_DB FATUNE_SYSTEM_DB FATUNE_JIT FATUNE_LIBRARY FATUNE_LIBCUDA FATUNE_PROGRAM PYTHONPATH VIRTUAL_ENV
export XDG_DATA_HOME="$root/data" PIP_DISABLE_PIP_VERSION_CHECK=1

fail() {
  echo "FAILED: $*"
  exit 1
}
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
export CMAKE_C_COMPILER_LAUNCHER="$(cached CMAKE_C_COMPILER_LAUNCHER)"

python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
  echo "skipped: python3 has no ensurepip, or is older than 3.11 and would fetch a reader of TOML"
  exit 77
}
python3 -m venv "$root/venv"
python=$root/venv/bin/python
"$python" -m pip wheel --no-deps --no-index -w "$root" "$source" >"$root/log" 2>&1 || fail "$(tail -n 30 "$root/log")"
wheel=$(echo "$root"/*.whl)
bytes=$(wc -c <"$wheel")
[ "$bytes" -lt 4500000 ] || fail "the wheel has $bytes bytes"
echo "$wheel" | grep -qE '/fatune-[0-9.]+-py3-none-manylinux_2_(1[7-9]|2[0-9]|3[0-6])_[a-z0-9_]+\.whl$' || fail "its name: $wheel"
"$python" -m pip install --no-deps --no-index "$wheel" >"$root/log" 2>&1 || fail "$(cat "$root/log")"
"$python" -m pip show fatune | grep -q '^Requires:.*nvidia-cuda-nvrtc' || fail "it does not ask for NVRTC"

site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
mkdir -p "$site/nvidia/cu13/lib"
touch "$site/nvidia/cu13/lib/libnvrtc.so.13" # no library, but in its place
cd "$root"
PATH=/usr/bin:/bin "$python" -m fatune doctor >doctor 2>&1 || true
grep -q "$site/nvidia/cu13/lib/libnvrtc.so.13" doctor || fail "NVIDIA's wheel beside the package is not seen: $(cat doctor)"
grep -q 'templates .*all render' doctor || fail "$(cat doctor)"
rm -rf "$site/nvidia"
"$root/venv/bin/fatune" show best --json >best || fail "show best: $(cat best)"
grep -q '"database":"system"' best || fail "the rows are not found"

"$python" -X importtime -c 'import fatune, sys; assert not {"ctypes", "torch"} & set(sys.modules)' 2>times || fail "$(cat times)"
us=$(sed -n 's/.*| *\([0-9]*\) | fatune$/\1/p' times)
[ "$us" -lt 50000 ] || fail "import fatune took $us us"
[ "$("$python" -c 'import fatune; print(fatune.version())')" = "$("$root/venv/bin/fatune" --version | grep -oE '[0-9]+\.[0-9.]+' | head -1)" ] ||
  fail "the library and the program have other versions"
ran=""
if "$build/probe" >/dev/null 2>&1; then
  FATUNE_DB="$root/fatune.db" FATUNE_SYSTEM_DB= FATUNE_LIBCUDA="$build/tests/fake_cuda.so" FAKE_CUDA_DEVICES=H200 \
    FAKE_CUDA_EMULATE=reference \
    "$python" "$source/tests/python/dlpack.py" || fail "the installed library"
  ran=", runs"
fi
echo "$(basename "$wheel"): $bytes bytes, import in $us us$ran"
