#!/bin/bash
# trial.sh [SUITE...] -- fatune as somebody who has just installed Debian meets it: for each suite (bookworm, trixie) an
# empty system by debootstrap, in it a clone of this commit, the README's commands, install, the C example, report,
# uninstall; then the .deb in a second empty system. Prints what each step took. STAGES are those of ./check that run
# there (default: build style; "all": the whole of it). TRIAL names the folder (default /tmp/fatune-trial; 5 GB),
# MIRROR another mirror than debootstrap's own.
#
# By root, with a network that reaches Debian and PyPI. Not a part of ./check: it takes ten minutes a suite.
set -eu
root=$(dirname "$(dirname "$(readlink -f "$0")")")
trial=${TRIAL:-/tmp/fatune-trial}
[ "$(id -u)" = 0 ] && command -v debootstrap unshare >/dev/null || {
  echo "trial.sh needs root and debootstrap"
  exit 77
}
mkdir -p "$trial"
exec 9>"$trial/lock"
flock -n 9 || {
  echo "another trial runs in $trial"
  exit 1
}

# inside SYSTEM COMMAND -- by a shell there, with /proc, terminals of its own and nothing else of this machine's.
inside() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --mount-proc="$1/proc" sh -c 'mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" &&
    mount --bind "$1/dev/pts/ptmx" "$1/dev/ptmx" && shift && exec chroot "$@"' sh "$1" "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${PIP_CERT:+PIP_CERT=/etc/trial.crt} sh -c "$2"
}

# step NAME SYSTEM COMMAND -- ends the trial where the command fails. Says how long it took, and how much of a processor.
step() {
  local took TIMEFORMAT='%0R %0U'
  took=$({ time inside "$2" "$3" >"$trial/said" 2>&1 || touch "$trial/failed"; } 2>&1)
  cat "$trial/said" >>"$trial/log"
  [ ! -e "$trial/failed" ] || {
    echo "FAILED: $1: $3"
    tail -n 40 "$trial/said"
    exit 1
  }
  # shellcheck disable=SC2086
  printf '%-9s %-52s %2d min %02d s, %d s of processor\n' "$suite" "$1" $((${took% *} / 60)) $((${took% *} % 60)) ${took#* }
}

# All files but those that apt, dpkg and Python renew by themselves.
files() {
  (cd "$1" && find . \( -path ./proc -o -path ./var/lib -o -path ./var/cache -o -path ./var/log -o -path ./tmp -o -path ./root \
    -o -path ./etc/ld.so.cache -o -path ./run \) -prune -o ! -type d -print | sort)
}

empty_system() { # FOLDER
  rm -rf "$1"
  debootstrap --variant=minbase "$suite" "$1" ${MIRROR:+"$MIRROR"} >"$trial/said" 2>&1 || {
    tail -n 20 "$trial/said"
    exit 1
  }
  [ -z "${PIP_CERT:-}" ] || cp "$PIP_CERT" "$1/etc/trial.crt" # of a network with a certificate of its own
}

source_tree() { # FOLDER: from the clone to the uninstall
  local usr=/opt/fatune stages=${STAGES-build style} cuda=${CUDA_HOME:-/usr/local/cuda}/include/cuda.h
  [ "$stages" != all ] || stages=
  git clone --quiet --bare "$root" "$1/srv/fatune.git"
  step "apt-get install git" "$1" 'apt-get update && apt-get install -y --no-install-recommends git ca-certificates'
  step "git clone" "$1" 'cd && git clone /srv/fatune.git fatune'
  step "./fatune --gpu T4 --dims 64,128, with its set-up" "$1" 'cd ~/fatune && ./fatune --gpu T4 --dims 64,128'
  step "the same without: nothing left to do" "$1" 'cd ~/fatune && ./fatune --gpu T4 --dims 64,128 2>&1 | tee /tmp/again && grep "nothing left to do" /tmp/again'
  step "the same anew" "$1" 'cd ~/fatune && mkdir -m 700 /tmp/new && ./fatune --gpu T4 --dims 64,128 --db /tmp/new/f.db'
  step "show, why, report" "$1" 'cd ~/fatune && ./fatune show --gpu T4 && ./fatune why fwd-f16-b4-h16-q4096-k4096-d128 --gpu T4 &&
    ./fatune report -o report.html && grep -q "</html>" report.html'
  step "cmake --install" "$1" "cd ~/fatune && cmake --install build --prefix $usr && $usr/bin/fatune show --gpu T4"
  step "./check $stages" "$1" "cd ~/fatune && ./check $stages"
  if [ -f "$cuda" ]; then # CUDA's header is the toolkit's, its driver here the tests'
    cp "$cuda" "$1/usr/include/"
    step "examples/attention.c by pkg-config, on the fake driver" "$1" "cd ~/fatune && ln -sf \$PWD/build/tests/fake_cuda.so /tmp/libcuda.so &&
      cc examples/attention.c \$(PKG_CONFIG_PATH=$usr/lib/pkgconfig pkg-config --cflags --libs fatune) -L/tmp -lcuda -lm -o /tmp/attention &&
      mkdir -p /tmp/sources && $usr/bin/fatune render fwd-f32-b4-h32-q4096-k4096-d64-causal --gpu H200 >/tmp/sources/fwd.cu &&
      FATUNE_LIBCUDA=/tmp/libcuda.so LD_LIBRARY_PATH=/tmp FAKE_CUDA_DEVICES=H200 FAKE_CUDA_EMULATE=reference FAKE_CUDA_SOURCES=/tmp/sources /tmp/attention"
  fi
  step "cpack" "$1" 'cd ~/fatune/build && cpack && cp fatune_*.deb /srv/fatune.deb'
  step "uninstall" "$1" "cd ~/fatune && cmake --install build --prefix $usr && cmake --build build --target uninstall && test -z \"\$(find $usr ! -type d)\""
}

package() { # FOLDER DEB
  cp "$2" "$1/tmp/fatune.deb"
  step "apt-get install ./fatune.deb, in an empty system" "$1" 'apt-get update && apt-get install -y --no-install-recommends /tmp/fatune.deb'
  files "$1" >"$trial/with"
  step "fatune show, why, doctor, render" "$1" 'fatune show best --gpu H200 && fatune why fwd-bf16-b4-h16-q4096-k4096-d128 --gpu H200 &&
    fatune render fwd-f16-b4-h16-q4096-k4096-d128 --gpu T4 >/tmp/k.cu; fatune doctor; test -s /tmp/k.cu'
  step "pip install of the NVRTC that doctor names, then a tune" "$1" 'apt-get install -y --no-install-recommends python3-pip &&
    $(fatune doctor | sed -n "s/.*get one with .\(pip install [^,]*\)., or name.*/\1/p" | sed "s,~,$HOME,") &&
    fatune --gpu T4 --dims 64 --causal no --dtypes f16'
  step "apt-get purge" "$1" 'apt-get purge -y fatune && apt-get autoremove -y'
  files "$1" >"$trial/after"
  ! grep fatune "$trial/after" || {
    echo "FAILED: the package leaves these"
    exit 1
  }
}

rm -f "$trial/failed"
: >"$trial/log"
for suite in "${@:-bookworm trixie}"; do
  for suite in $suite; do
    empty_system "$trial/$suite"
    cp -a "$trial/$suite" "$trial/$suite.deb"
    source_tree "$trial/$suite"
    package "$trial/$suite.deb" "$trial/$suite/srv/fatune.deb"
    rm -rf "$trial/$suite" "$trial/$suite.deb"
  done
done
