#!/bin/sh
# test_setup.sh -- what ./fatune and the scripts of setup/ do on machines that we do not have: without apt,
# without root, without a network, without NVRTC. A machine is a folder of programs that is all of PATH: links to
# the harmless ones, and stand-ins that write what they were called with into $calls.
set -u
root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
calls=$work/calls
export calls work
failures=0

fail() {
  echo "FAILED $test: $*"
  sed 's/^/  | /' "$work/out" "$calls"
  failures=$((failures + 1))
}
says() { grep -q -e "$1" "$work/out" || fail "it does not say '$1'"; }
called() { grep -q -e "$1" "$calls" || fail "'$1' was not called"; }
never_called() { ! grep -q -e "$1" "$calls" || fail "'$1' was called"; }
exits() { [ "$status" = "$1" ] || fail "exit $status, not $1"; }

# A new machine with the tools every system has.
machine() {
  test=$1
  bin=$work/on/$test/bin
  rm -rf "$work/installed" "$work/known"
  mkdir -p "$bin" "$work/installed" "$work/known"
  : >"$calls"
  for tool in sh env grep sed cut tr sort paste cat head tail mktemp rm mkdir mv chmod touch readlink dirname basename \
    find date flock id cp ln; do
    ln -s "$(command -v $tool)" "$bin/$tool"
  done
}

# program NAME: a stand-in that logs its call, then does what stands on standard input. Where `machine` linked the real
# one, the link goes first: root would write into the program of this system itself.
program() {
  rm -f "$bin/$1"
  {
    echo '#!/bin/sh'
    echo "echo \"$1 \$*\" >>\"\$calls\""
    cat
  } >"$bin/$1"
  chmod +x "$bin/$1"
}

run() {
  PATH=$bin HOME=$work/on/$test/home XDG_DATA_HOME="" "$@" >"$work/out" 2>&1 </dev/null
  status=$?
}

# Debian whose dpkg knows the files in $work/installed and whose apt offers those in $work/known.
debian() {
  program dpkg-query <<'EOF'
for last; do :; done
[ -f "$work/installed/$last" ] && echo "ii "
EOF
  program apt-cache <<'EOF'
[ -f "$work/known/$2" ] && echo "  Candidate: 1.0" || echo "  Candidate: (none)"
EOF
  program apt-get <<'EOF'
case " $* " in
  *" update "*) [ ! -f "$work/offline" ] || { echo "E: Failed to fetch: no route"; exit 100; }
    for name in $(cat "$work/offer"); do : >"$work/known/$name"; done ;;
  *" install "*) for name; do [ ! -f "$work/known/$name" ] || : >"$work/installed/$name"; done
    for name; do case $name in -* | install | *Timeout*) ;; *) [ -f "$work/installed/$name" ] || { echo "E: no $name"; exit 100; } ;; esac; done ;;
esac
EOF
  program id <<'EOF'
echo "${fake_id:-0}"
EOF
  rm -f "$work/offline"
  echo "gcc libc6-dev cmake ninja-build pkg-config liblua5.4-dev libsqlite3-dev libmd-dev" >"$work/offer"
}
program_there() { for name; do program "$name" </dev/null; done; }
installed() { for name; do : >"$work/installed/$name"; done; }
known() { for name; do : >"$work/known/$name"; done; }

machine elsewhere # no apt: nothing is installed, what is missing is named
program_there cc cmake
run "$root/setup/packages.sh" build
exits 3
says "Debian and Ubuntu only"
says "ninja (running the build)"
says "Lua 5.4"
grep -q "configuring" "$work/out" && fail "cmake is there"

machine complete # nothing missing: silent, nothing called that changes the machine
debian
program_there cc cmake ninja pkg-config
installed libc6-dev liblua5.4-dev libsqlite3-dev libmd-dev
run "$root/setup/packages.sh" build
exits 0
[ ! -s "$work/out" ] || fail "it speaks"
never_called "apt-get"

machine fresh_lists # apt knows the packages: no update
debian
known $(cat "$work/offer")
run "$root/setup/packages.sh" build
exits 0
says "installing cmake gcc libc6-dev"
called "apt-get .*install -y --no-install-recommends cmake gcc"
never_called "apt-get update"

machine no_lists # apt knows nothing yet: update first, once
debian
run "$root/setup/packages.sh" build
exits 0
called "apt-get update"
[ -f "$work/installed/libmd-dev" ] || fail "libmd-dev was not installed"
[ "$(grep -c "apt-get update" "$calls")" = 1 ] || fail "more than one update"

machine alternatives # of several names the one that apt knows
debian
program_there cc cmake ninja pkg-config c++ clang clang-format python3 sqlite3 git
installed libc6-dev liblua5.4-dev libsqlite3-dev libmd-dev libcmocka-dev clang-format-14
known libclang-rt-14-dev
run "$root/setup/packages.sh" build check
exits 0
called "install .*libclang-rt-14-dev"

machine offline
debian
: >"$work/offline"
run "$root/setup/packages.sh" build
exits 3
says "network"
says "as root: apt-get install .*cmake"

machine no_root
debian
known $(cat "$work/offer")
export fake_id=1000
run "$root/setup/packages.sh" build
exits 3
says "only root may install"
says "apt-get install cmake gcc"
never_called "apt-get"

machine with_sudo
debian
known $(cat "$work/offer")
program sudo <<'EOF'
[ "$1" = -n ] && shift
exec "$@"
EOF
run "$root/setup/packages.sh" build
exits 0
called "sudo -n env DEBIAN_FRONTEND=noninteractive .*apt-get"
unset fake_id

# NVRTC: the probe answers with a major until the library is where it looks.
probe() { # MAJOR
  program probe <<EOF
ls="\$HOME/.local/share/fatune/nvrtc/nvidia"
for lib in "\$ls"/*/lib/libnvrtc.so; do [ -f "\$lib" ] && echo "$1.0 \$lib" && exit 0; done
echo $1
exit 1
EOF
}
pip() { # python3 with a pip that fetches a wheel, and a zipfile that unpacks it
  program python3 <<'EOF'
case $* in
  *"pip --version") ;;
  *download*) [ ! -f "$work/offline" ] || { echo "ERROR: no network"; exit 1; }
    case $* in *--require-hashes*) ;; *) echo "ERROR: any file would do"; exit 1 ;; esac
    for word; do case $word in */wanted) sed 's/^/wanted /' "$word" >>"$calls" ;; esac; done
    while [ "$1" != --dest ]; do shift; done; : >"$2/w.whl" ;;
  *zipfile*) mkdir -p "$5/nvidia/cu/lib" && : >"$5/nvidia/cu/lib/libnvrtc.so" ;;
esac
EOF
  rm -f "$work/offline"
}

machine fetches
probe 13
pip
run "$root/setup/nvrtc.sh" "$bin/probe"
exits 0
called "^wanted nvidia-cuda-nvrtc==13[0-9.]* --hash=sha256:[0-9a-f]\{64\}"
[ "$(grep -c '^wanted' "$calls")" = 1 ] || fail "more than one wheel is wanted"
says "NVRTC 13.0"
[ -z "$(find "$work/on/$test/home" -name 'part.*')" ] || fail "parts are left behind"
: >"$calls"
run "$root/setup/nvrtc.sh" "$bin/probe"
exits 0
never_called "download"

machine older_driver
probe 12
pip
run "$root/setup/nvrtc.sh" "$bin/probe"
exits 0
called "^wanted nvidia-cuda-nvrtc-cu12==12[0-9.]* --hash=sha256:[0-9a-f]\{64\}"

machine oldest_driver
probe 11
pip
run "$root/setup/nvrtc.sh" "$bin/probe"
exits 1
says "supports CUDA 11 at most"
never_called "download"

machine fetching_forbidden
probe 13
pip
run env FATUNE_NO_FETCH=1 "$root/setup/nvrtc.sh" "$bin/probe"
exits 1
says "FATUNE_NO_FETCH"
says "going on without NVRTC"
never_called "download"

machine fetching_fails
probe 13
pip
: >"$work/offline"
run "$root/setup/nvrtc.sh" "$bin/probe"
exits 1
says "no network"
says "FATUNE_NVRTC"
[ -z "$(find "$work/on/$test/home" -name 'part.*')" ] || fail "parts are left behind"

# ./fatune itself, in a tree of its own whose build makes a program that prints its arguments.
machine second_call
tree="$work/a tree"
mkdir -p "$tree/setup" "$tree/generator" "$tree/templates" "$tree/db" "$tree/runtime" "$tree/tuner"
: >"$tree/CMakeLists.txt"
: >"$tree/generator/a.c"
cp "$root/fatune" "$tree/"
cat >"$tree/setup/build.sh" <<'EOF'
#!/bin/sh
echo "building"
echo "build.sh $*" >>"$calls"
[ ! -f "$work/broken" ] || exit 1
mkdir -p "${0%/*}/../build"
printf '#!/bin/sh\nfor a; do echo "[$a]"; done\nexit 4\n' >"${0%/*}/../build/fatune"
chmod +x "${0%/*}/../build/fatune"
touch "${0%/*}/../build/.stamp"
EOF
chmod +x "$tree/setup/build.sh"
ln -s "$tree/fatune" "$work/link"
run "$work/link" tune "two words" ''
exits 4
says '\[two words\]'
says '^\[\]$'
called "build.sh fatune"
PATH=$bin "$tree/fatune" x 2>/dev/null | grep -q building && fail "the build speaks to standard output"
: >"$calls"
run "$tree/fatune"
exits 4
never_called "build.sh"
for edited in generator/a.c templates/new.cu CMakeLists.txt; do
  sleep 0.02
  : >"$calls"
  touch "$tree/$edited"
  run "$tree/fatune"
  called "build.sh fatune"
done
sleep 0.02
rm "$tree/templates/new.cu" # gone is changed too
: >"$calls"
run "$tree/fatune"
called "build.sh fatune"
sleep 0.02
: >"$work/broken"
touch "$tree/generator/a.c"
run "$tree/fatune" x
exits 3 # and not the program of before
rm -f "$work/broken"

# What a first call builds: what can then be installed, and no tests; check builds all, tests that were left out too.
machine first_call
tree=$work/first
mkdir -p "$tree/setup" "$tree/build"
cp "$root/setup/build.sh" "$tree/setup/"
for script in packages nvrtc; do
  echo '#!/bin/sh' >"$tree/setup/$script.sh"
  chmod +x "$tree/setup/$script.sh"
done
program cmake </dev/null
run "$tree/setup/build.sh" fatune
exits 0
called 'cmake --build .* --target installable'
: >"$calls"
{
  echo "CMAKE_HOME_DIRECTORY:INTERNAL=$tree"
  echo "FATUNE_TESTS:BOOL=OFF"
} >"$tree/build/CMakeCache.txt"
: >"$tree/build/build.ninja"
run "$tree/setup/build.sh" fatune
exits 0
never_called FATUNE_TESTS
run "$tree/setup/build.sh" all
exits 0
called 'cmake .*-DFATUNE_TESTS=ON'
called 'cmake --build [^-]*$'

machine asked # what the two commands do is told without doing any of it
: >"$bin/nproc" && chmod +x "$bin/nproc"
run "$root/check" --help
exits 0
says '^check .--full. .STAGE'
says '^lot  '
[ ! -s "$calls" ] || fail "something was called"

if [ $failures -gt 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "set-up: every machine behaves"
