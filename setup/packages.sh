#!/bin/sh
# packages.sh PURPOSE... -- installs the packages that are missing for a purpose: build, check, fetch.
# Debian and Ubuntu only; elsewhere it names what is needed. Asks apt for fresh lists only where the ones at
# hand do not do.
set -u
export LC_ALL=C

# purpose  package (or: the first of several that apt knows)  program that replaces it (- none)  what for
table() {
  cat <<'EOF'
build  gcc                                                    cc          compiling C
build  libc6-dev                                              -           compiling C
build  cmake                                                  cmake       configuring the build
build  ninja-build                                            ninja       running the build
build  pkg-config                                             pkg-config  finding the libraries
build  liblua5.4-dev                                          -           running kernel templates
build  libsqlite3-dev                                         -           the tuning database
build  libmd-dev                                              -           SHA-256
check  libcmocka-dev                                          -           unit tests
check  g++                                                    c++         kernels on the host
check  clang                                                  clang       the second compiler, fuzzing
check  libclang-rt-dev|libclang-rt-18-dev|libclang-rt-14-dev  -           sanitizers of clang
check  clang-format-14|clang-format                           -           the layout of the sources
check  git                                                    git         telling which files are ours
check  python3                                                python3     reading JSON in tests
check  sqlite3                                                sqlite3     looking into databases in tests
fetch  python3                                                python3     fetching NVRTC
fetch  python3-pip                                            -           fetching NVRTC
EOF
}

say() { echo "fatune: $*"; }

fail() {
  say "$*" >&2
  exit 3
}

installed() { dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'; }

known() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

# Of alternatives, the one that is there; else the first that apt knows; else the first.
choose() {
  for name in $(echo "$1" | tr '|' ' '); do
    installed "$name" && echo "$name" && return
  done
  for name in $(echo "$1" | tr '|' ' '); do
    known "$name" && echo "$name" && return
  done
  echo "${1%%|*}"
}

# Names of packages that are missing for the purposes in $1 (" build check ").
missing() {
  table | while read -r purpose package program reason; do
    case $1 in *" $purpose "*) ;; *) continue ;; esac
    [ "$program" != - ] && command -v "$program" >/dev/null && continue
    if [ "$debian" = yes ]; then
      name=$(choose "$package")
      installed "$name" || echo "$name"
    elif [ "$program" != - ]; then
      echo "$program ($reason)"
    fi
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

install() { # the packages in $*; what apt says goes to $log
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -o DPkg::Lock::Timeout=300 install -y \
    --no-install-recommends "$@" >"$log" 2>&1
}

debian=no
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null && debian=yes
purposes=" $* "
needed=$(missing "$purposes" | sort -u)
[ -z "$needed" ] && exit 0
if [ "$debian" = no ]; then
  fail "set-up is automatic on Debian and Ubuntu only; please install: $(echo "$needed" | paste -sd, | sed 's/,/, /g');" \
    "also the development files of Lua 5.4, SQLite and libmd with their static libraries"
fi
needed=$(echo "$needed" | paste -sd' ')
byhand="as root: apt-get install $needed"
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
  fail "packages are missing, and only root may install them (there is no sudo): $byhand"
fi

say "installing $needed"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Lists that are absent know no package, old ones name versions that are gone: fetch them then, not before.
for name in $needed; do
  known "$name" || stale=yes
done
if [ -n "${stale:-}" ] || ! install $needed; then
  if ! as_root apt-get update >"$log" 2>&1 || grep -q '^W: Failed to fetch' "$log"; then
    grep -E '^(E|W|Err)|^sudo' "$log" | head -n 3
    fail "apt could not fetch its lists (network, proxy or permission): put that right and call again, or $byhand"
  fi
  needed=$(missing "$purposes" | sort -u | paste -sd' ') # fresh lists may know better alternatives
  install $needed || {
    grep -E '^(E|W|Err)|^sudo' "$log" | head -n 3
    fail "apt could not install the packages; try it by hand, as root: apt-get install $needed"
  }
fi
