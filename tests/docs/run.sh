#!/usr/bin/env bash
# run.sh FATUNE -- README and docs: blocks marked sh and python run in the order in which they stand, page by page, in a folder
# like a fresh tree whose ./fatune is the program that is built, with a database where it lies by default; links, commands and
# variables that are told exist; the sample table is what is printed today. Blocks that need a cluster or root are not marked.
set -u
fatune=$(realpath "${1:?the first argument is the program}")
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset FATUNE_DB XDG_DATA_HOME
export HOME=$work FATUNE_SYSTEM_DB='' PATH="$work/bin:$PATH" \
  FATUNE_LIBCUDA=$work/none FATUNE_LIBNVML=$work/none
mkdir -p "$work/bin" "$work/tree"
ln -s "$fatune" "$work/bin/fatune"
ln -s "$fatune" "$work/tree/fatune"
cat >"$work/tree/check" <<'EOF'
#!/bin/sh
exit 0 # it runs this test
EOF
chmod +x "$work/tree/check"
passed=0 failed=0
pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  echo "FAILED: $*"
}
cd "$root" || exit 1
pages=(README.md CONTRIBUTING.md docs/start.md docs/command-line.md docs/database.md docs/fleet.md docs/library.md docs/troubleshooting.md docs/measured.md)

# block PAGE LANGUAGE N -- the Nth block of that language; nothing where there is none.
block() {
  awk -v want="$2" -v n="$3" '/^```/ { if (open) { open = 0; next } open = 1; mine = ($0 == "```" want) && ++count == n; next }
    open && mine' "$1"
}

run_blocks() { # PAGE
  local n=1 text status
  while text=$(block "$1" sh $n) && [ -n "$text" ]; do
    (cd "$work/tree" && printf '%s\n' "set -e" "$text" >../block.sh && bash ../block.sh) >"$work/out" 2>&1 </dev/null
    status=$?
    if [ $status = 0 ]; then pass; else
      fail "$1, block $n of sh: exit code $status"
      tail -n 5 "$work/out"
    fi
    n=$((n + 1))
  done
  n=1
  while text=$(block "$1" python $n) && [ -n "$text" ]; do
    local module
    module=$(sed -n 's/^import \(pandas\|duckdb\).*/\1/p' <<<"$text" | head -1)
    if ! command -v python3 >/dev/null || ! python3 -c "import ${module:-sqlite3}" 2>/dev/null; then
      echo "left out: $1, block $n of python: no ${module:-python3} is installed"
    elif (cd "$work/tree" && python3 - <<<"$text") >"$work/out" 2>&1; then pass
    else fail "$1, block $n of python: $(tail -n 2 "$work/out")"; fi
    n=$((n + 1))
  done
}

# -- what is told exists
for page in "${pages[@]}" docs/architecture.md docs/kernels.md docs/tried.md docs/mods.md docs/python.md SECURITY.md CHANGELOG.md; do
  while read -r link; do
    [ -e "$(dirname "$page")/${link%%#*}" ] && pass || fail "$page: the link to $link leads nowhere"
  done < <(grep -oE '\]\([^)#][^)]*\)' "$page" | sed 's/^](//; s/)$//' | grep -v '^http' | grep '[./]')
done
commands=$("$fatune" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
while read -r command; do
  if grep -qx "$command" <<<"$commands"; then pass; else fail "the docs tell of 'fatune $command', which is no command"; fi
done < <(grep -rhoE '`(\./)?fatune [a-z]+' README.md docs CONTRIBUTING.md | sed 's/.* //' | sort -u)
for command in $commands; do
  if grep -q "\`$command\b" docs/command-line.md; then pass; else fail "docs/command-line.md lacks '$command'"; fi
done
"$fatune" help environment | while read -r name _; do grep -q "^| \`$name\`" docs/command-line.md || echo "$name"; done >"$work/lacks"
if [ -s "$work/lacks" ]; then fail "docs/command-line.md lacks $(paste -sd' ' "$work/lacks")"; else pass; fi
for name in $(grep -rhoE '"FATUNE_[A-Z_]+"' generator db runtime tuner bindings/{python,cpython,xla} --include=*.{c,h,py} | tr -d '"' | sort -u); do
  if "$fatune" help environment | grep -q "^$name "; then pass; else fail "'fatune help environment' lacks $name"; fi
done
# A notebook's cell is run again: a file that it wrote is written over.
if grep -n '^ *!.* export ' README.md docs/*.md | grep -v -- --force; then fail "a cell cannot be run a second time"; else pass; fi
# What troubleshooting quotes is said somewhere: the words between dots, in the strings of the sources.
cat generator/*.c db/*.c runtime/*.c runtime/fatune.h tuner/*/*.c setup/*.sh | tr '\n' ' ' | sed 's/" *"//g' >"$work/said"
while read -r part; do
  if grep -qF -e "$part" "$work/said"; then pass; else fail "docs/troubleshooting.md quotes '$part', which nothing says"; fi
done < <(sed -n 's/^| `\([^`]*\)`.*/\1/p' docs/troubleshooting.md | sed 's/\.\.\+/\n/g; s/[0-9]\+$//' | sed "s/^[ ':),]*//; s/[ ':(]*$//" | grep ....)
if [ "$(wc -l <README.md)" -le 150 ]; then pass; else fail "README.md has more than 150 lines"; fi

# -- what is shown works
if "$fatune" doctor --json | grep -q '"what": "NVRTC", "verdict": "ok"'; then
  for page in "${pages[@]}"; do
    rm -rf "$HOME/.local" "$work"/tree/*.db "$work"/tree/*.jsonl "$work"/tree/*.html
    case $page in
      docs/start.md | README.md | CONTRIBUTING.md) ;;
      *) "$fatune" --gpu T4 --dims 16 --causal no --seqlens 256 --dtypes f16 --quiet >/dev/null ;;
    esac
    run_blocks "$page"
  done
  if "$fatune" doctor --json | grep -q '"NVRTC".*"13\.0,'; then
    # Optimized: its times are foretold by registers, too.
    env -u NVRTC_QUICK FATUNE_DB="$work/sample.db" "$fatune" --gpu T4 --dims 64 --causal no --dtypes f16 --quiet | awk 'NR > 1 && $1 ~ /^fwd/ { print $2, $3, $4 }' | while read -r kernel config ms; do
      grep -qE "\b$kernel +$config +$ms " docs/start.md || echo "$kernel $config $ms"
    done >"$work/lacks"
    if [ -s "$work/lacks" ]; then fail "the sample table of docs/start.md lacks: $(<"$work/lacks")"; else pass; fi
  fi
else
  echo "left out: there is no usable libnvrtc, so no block can run"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
