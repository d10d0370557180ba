#!/bin/sh
# nvrtc.sh PROBE -- makes sure there is a libnvrtc: where PROBE finds none, fetches NVIDIA's wheel with pip, the one
# whose version and hash stand in nvrtc.txt and no other, and unpacks it where the program looks ($XDG_DATA_HOME/fatune/nvrtc). FATUNE_NO_FETCH=1 forbids that.
set -u
root=$(dirname "$(dirname "$(readlink -f "$0")")")

say() { echo "fatune: $*"; }

without() {
  say "$*"
  say "going on without NVRTC: render, show and the like work, compiling does not"
  exit 1
}

answer=$("$1")
if [ $? = 0 ]; then
  say "NVRTC $answer"
  exit 0
fi
case $answer in
  13) wheel=nvidia-cuda-nvrtc ;;
  12) wheel=nvidia-cuda-nvrtc-cu12 ;;
  *) without "the NVIDIA driver supports CUDA $answer at most: update it, 12 is the oldest that fatune compiles for" ;;
esac
[ "${FATUNE_NO_FETCH:-0}" = 1 ] && without "no libnvrtc is here, and FATUNE_NO_FETCH forbids fetching one"
data=${XDG_DATA_HOME:-${HOME:+$HOME/.local/share}}
[ -n "$data" ] || without "no libnvrtc is here, and neither HOME nor XDG_DATA_HOME says where to put one"
python3 -m pip --version >/dev/null 2>&1 || "$root/setup/packages.sh" fetch >&2 ||
  without "no libnvrtc is here, and fetching one takes Python's pip"

folder=$data/fatune/nvrtc
mkdir -p "$data" && mkdir -p -m 700 "$data/fatune" && mkdir -p "$folder/nvidia" &&
  part=$(mktemp -d "$folder/part.XXXXXX") || without "no libnvrtc is here, and $folder cannot be written"
trap 'rm -rf "$part"' EXIT
trap 'exit 130' INT TERM
say "no libnvrtc is here: fetching $wheel (about 90 MB, once) into $folder"
grep "^$wheel==" "$root/setup/nvrtc.txt" >"$part/wanted"
python3 -m pip download --require-hashes --requirement "$part/wanted" --quiet --disable-pip-version-check --no-deps --only-binary :all: --retries 2 --timeout 20 \
  --dest "$part" >"$part/log" 2>&1 || {
  grep -v '^WARNING' "$part/log" | head -n 2
  without "pip could not fetch $wheel: with a network call setup/nvrtc.sh build/probe again, or name a libnvrtc with FATUNE_NVRTC"
}
python3 -m zipfile -e "$part"/*.whl "$part/out" || without "the wheel cannot be unpacked (disk full?)"
for package in "$part"/out/nvidia/*/; do # appears whole or not at all
  rm -rf "$folder/nvidia/$(basename "$package")"
  mv "$package" "$folder/nvidia/"
done
answer=$("$1") || without "the fetched library in $folder cannot be used: fatune doctor says why"
say "NVRTC $answer"
