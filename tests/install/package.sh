#!/bin/sh
# package.sh BUILD -- the Debian package: made by cpack, installed by dpkg into a root of its own, used from there and
# removed again. Also `uninstall` of a plain install. Skipped where there is no cpack or dpkg.
set -eu
build=$1
command -v cpack >/dev/null && command -v dpkg-deb >/dev/null || {
  echo "skipped: there is no cpack or no dpkg-deb"
  exit 77
}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset FATUNE_DB FATUNE_SYSTEM_DB FATUNE_JIT FATUNE_LIBCUDA DESTDIR
export XDG_DATA_HOME="$root/data"

fail() {
  echo "FAILED: $*"
  exit 1
}

(cd "$build" && cpack -B "$root/packages") >"$root/cpack.log" 2>&1 || fail "$(tail -n 20 "$root/cpack.log")"
deb=$(find "$root/packages" -maxdepth 1 -name 'fatune_*.deb')
[ -f "$deb" ] || fail "cpack made no package"
bytes=$(wc -c <"$deb")
[ "$bytes" -lt 4500000 ] || fail "the package has $bytes bytes"

# -- installed: a root with dpkg's own folders and nothing else, so that libc is forced
mkdir -p "$root/debian/var/lib/dpkg/info" "$root/debian/var/lib/dpkg/updates" "$root/debian/var/lib/dpkg/triggers"
: >"$root/debian/var/lib/dpkg/status"
packages() { dpkg --root="$root/debian" --force-not-root --force-depends --force-script-chrootless --no-triggers "$@"; }
packages -i "$deb" >"$root/dpkg.log" 2>&1 || fail "$(cat "$root/dpkg.log")"
usr=$root/debian/usr
for file in bin/fatune include/fatune.h share/man/man1/fatune.1 share/bash-completion/completions/fatune \
  share/zsh/vendor-completions/_fatune share/doc/fatune/LICENSE share/doc/fatune/README.md share/doc/fatune/docs/start.md \
  share/fatune/fatune.db; do
  [ -s "$usr/$file" ] || fail "the package has no $file"
done
"$usr/bin/fatune" show best --csv --gpu H200 | grep -q ',measured,' || fail "the package's rows are not found"
cat >"$root/version.c" <<'EOF'
#include <fatune.h>
#include <stdio.h>
int main(void)
{
  return puts(fatune_version()) < 0;
}
EOF
# shellcheck disable=SC2046
cc "$root/version.c" $(PKG_CONFIG_PATH="$(dirname "$(find "$usr" -name fatune.pc)")" PKG_CONFIG_SYSROOT_DIR='' pkg-config --cflags --libs fatune) \
  -o "$root/version" || fail "the pkg-config line does not link"
"$root/version" >/dev/null || fail "what the pkg-config line made does not run"

# -- removed: nothing is left
packages -P fatune >"$root/dpkg.log" 2>&1 || fail "$(cat "$root/dpkg.log")"
left=$(find "$root/debian" -path '*/var/lib/dpkg*' -prune -o ! -type d -print)
[ -z "$left" ] || fail "the package leaves $left"

# -- a plain install, undone
DESTDIR='' cmake --install "$build" --prefix "$root/plain" >"$root/install.log" || fail "$(cat "$root/install.log")"
cmake "-DMANIFEST=$build/install_manifest.txt" -P "$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")/setup/uninstall.cmake" \
  >"$root/install.log" 2>&1 || fail "$(cat "$root/install.log")"
left=$(find "$root/plain" ! -type d)
[ -z "$left" ] || fail "uninstall leaves $left"
echo "package: $bytes bytes; installed, used, removed"
