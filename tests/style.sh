#!/bin/sh
# style.sh -- the rules of the sources that a script can check. Prints each breach as FILE:LINE: and what the
# rule is; exit 1 if there is any. Only tracked files count.
set -u
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
breaches=$(mktemp)
trap 'rm -f "$breaches"' EXIT

git ls-files >/dev/null 2>&1 || {
  echo "skipped: this is no git checkout, so which files are ours cannot be told"
  exit 77
}
files() { git ls-files -- "$@"; }

# never RULE PATTERN FILES...: the pattern stands in none of the files (exceptions as ':!FILE').
never() {
  rule=$1 pattern=$2
  shift 2
  list=$(files "$@")
  [ -z "$list" ] || grep -nHE -e "$pattern" $list | sed "s|\$|    <- $rule|" >>"$breaches"
}

# limit RULE LINES FILES...: no file is longer.
limit() {
  rule=$1 lines=$2
  shift 2
  for file in $(files "$@"); do
    count=$(wc -l <"$file")
    [ "$count" -le "$lines" ] || echo "$file:$lines: $count lines    <- $rule" >>"$breaches"
  done
}

c='*.c *.h'
set -f
# Who may speak to what.
never "lua_* only in generator/script.c" '\bluaL?_[a-z]' $c ':!generator/script.c' ':!tests'
never "nvrtc* functions only in nvrtc.c, compile.c and their declarations" '\bnvrtc[A-Z]' generator db runtime tuner \
  ':!generator/nvrtc.c' ':!generator/compile.c' ':!generator/cuda_abi.h' ':!generator/nvrtc.h'
never "sqlite3_* only in db" '\bsqlite3_' $c ':!db' ':!tests' ':!bench'
never "SQL only in db" '"(SELECT|INSERT|UPDATE|DELETE|CREATE) ' generator runtime tuner
never "cu* functions only through the table of runtime/driver" '\bcu(Init|Device|Ctx|Module|Launch|Mem|Stream|Event)[A-Z]\w*\(' \
  generator db runtime tuner
never "libraries never print, exit or abort" '\b(printf|puts|putchar|perror|exit|_exit|abort)\(' generator db runtime
never "libraries never print" '\b(stdout|stderr)\b' generator/*.c db runtime
never "no allocation behind our back" '\b(asprintf|vasprintf|open_memstream|getline|strndup|getdelim)\(' generator db runtime
# NVRTC itself reads the variables that compile.c asks for.
never "a program of other rights takes no code or data from its environment: secure_getenv" '(^|[^_])getenv\(' generator db runtime \
  ':!generator/compile.c'
# Who includes whom.
tests/includes.sh >>"$breaches"
# The page of nouns and stages agrees with the code.
page=docs/architecture.md
for noun in $(grep -o '`fat_[a-z_]*`' $page | tr -d '`' | sort -u); do
  grep -qE "^(\}|typedef struct $noun) $noun;" $(files '*.h') || echo "$page:1: $noun    <- a noun of the page is a type" >>"$breaches"
done
for name in $(grep -oE '`(generator|db|runtime|tuner)/[a-z_/]+\.[ch]`' $page | tr -d '`' | sort -u); do
  [ -f "$name" ] || echo "$page:1: $name    <- a file of the page is there" >>"$breaches"
done
for core in status text words feature problem sees tensors gpu config width recipe recipe_values expr map anchor; do # core depends on nothing but itself
  never "core uses core alone" '#include "(script|space|source|engine|nvrtc|locate|compile|ptxas|pool|embed|library|twin).h"' \
    "generator/$core.[ch]"
done
# Kernels: three levels, each with its own words.
never "asm only in templates/arch" '\basm\b' 'templates/*.cu' templates/lib
never "kernels speak tiles, not threads" '\b(threadIdx|laneid|lane_id|__shfl)' ':(glob)templates/*.cu'
never "no __CUDA_ARCH__: the file included decides" '__CUDA_ARCH__' templates generator
never "no header from outside in a kernel" '#include *<' templates
never "a source's hash leaves out // comments alone" "/\*|'\"'" 'templates/*.cu' 'templates/*.cuh'
never "pairs has no order" '\bpairs\(' templates
# Text.
never "no left-over marks" '\b(TODO|FIXME|XXX|HACK)\b' '*.c' '*.h' '*.cpp' '*.hpp' '*.lua' '*.cu' '*.cuh' '*.sql' '*.sh' '*.txt' '*.cmake' \
  fatune check ':!tests/style.sh'
never "ASCII only" '[^ -~	]' '*.c' '*.h' '*.cpp' '*.hpp' '*.lua' '*.cu' '*.cuh' '*.sql' '*.sh' fatune check ':!tests/golden'
never "no blank at the end of a line" '[ 	]$' '*.c' '*.h' '*.cpp' '*.lua' '*.cu' '*.cuh' '*.sql' '*.sh' '*.txt' '*.cmake' '*.md' \
  ':!tests/golden' ':!tests/fuzz/corpus'
# Sizes.
limit "a C file has at most 400 lines" 400 'generator/*.c' 'db/*.c' 'runtime/*.c'
limit "a file of tuner has at most 350 lines" 350 'tuner/*.[ch]'
limit "a kernel has at most 130 lines" 130 ':(glob)templates/*.cu'
limit "a file of lib or arch has at most 300 lines" 300 templates/lib templates/arch
# A function (from its opening brace in column 1 to its closing one) has at most 60 lines; a file says its purpose.
for file in $(files 'generator/*.c' 'db/*.c' 'runtime/*.c' 'tuner/*.c'); do
  awk -v f="$file" '/^{/ { start = NR } /^}/ && start { if (NR - start - 1 > 60)
    print f ":" start ": " NR - start - 1 " lines    <- a function has at most 60 lines"; start = 0 }' "$file" >>"$breaches"
done
for file in $(files '*.c' '*.h' ':!templates' ':!tests/fuzz/corpus'); do
  head -n 1 "$file" | grep -qE "^/\* $(basename "$file" | sed 's/\./\\./') -- " ||
    echo "$file:1: no header    <- a file begins with its name and purpose" >>"$breaches"
done
# Layout, by the one version whose taste .clang-format was written for.
for tool in clang-format-14 clang-format; do
  if command -v $tool >/dev/null && $tool --version | grep -q 'version 14\.'; then
    $tool --dry-run $(files '*.c' '*.h' 'tests/*.cpp' ':!templates') 2>&1 | grep 'warning: code should' |
      sed 's/warning: .*/    <- run clang-format -i/' | sort -u -t: -k1,1 >>"$breaches"
    break
  fi
done
set +f

if [ -s "$breaches" ]; then
  cat "$breaches"
  echo "$(wc -l <"$breaches") breaches of the style"
  exit 1
fi
echo "style: no breach in $(files | wc -l) files"
