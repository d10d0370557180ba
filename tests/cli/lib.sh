# lib.sh -- what the tests of the command line begin with; a script whose first argument is the program sources it.
#
# Makes a folder that goes away with the script, a database place in it, and counts what passed and failed. No
# driver is found unless the script names one.
set -u

fatune=$(realpath "${1:?the first argument is the program}")
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d "${TMPDIR:-/tmp}/fatune-cli-XXXXXX")
# A child that a signal meets before it has become the program runs the trap, too: the second or third that was killed at once did.
trap '[ "$BASHPID" = $$ ] && rm -rf "$work"' EXIT
unset FATUNE_DB FATUNE_TEMPLATES FATUNE_DUMP
export XDG_DATA_HOME=$work/share FATUNE_LIBCUDA=$work/no-such-libcuda.so FATUNE_LIBNVML=$work/no-such-libnvidia-ml.so \
  FATUNE_SYSTEM_DB=
mkdir -p "$XDG_DATA_HOME"
passed=0 failed=0
out='' err='' code=0

pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  printf 'FAILED: %s\n  stdout: %s\n  stderr: %s\n' "$1" "${out:0:400}" "${err:0:400}"
}

# Runs the program; leaves code, out and err.
run() {
  "$fatune" "$@" >"$work/out" 2>"$work/err" </dev/null
  code=$?
  out=$(<"$work/out") err=$(<"$work/err")
}

# code_is CODE WHAT -- of the last run.
code_is() { if [ "$code" = "$1" ]; then pass; else fail "$2: exit code $code, expected $1"; fi; }
out_has() { if [[ $out == *"$1"* ]]; then pass; else fail "${2:-stdout} lacks '$1'"; fi; }
out_lacks() { if [[ $out != *"$1"* ]]; then pass; else fail "${2:-stdout} has '$1'"; fi; }
err_has() { if [[ $err == *"$1"* ]]; then pass; else fail "${2:-stderr} lacks '$1'"; fi; }
# is ACTUAL EXPECTED WHAT
is() { if [ "$1" = "$2" ]; then pass; else fail "$3: '$1', expected '$2'"; fi; }

# refuses CODE 'TEXT' ARGS... -- one line on stderr with TEXT, nothing on stdout.
refuses() {
  local expected=$1 text=$2
  shift 2
  run "$@"
  if [ "$code" != "$expected" ]; then fail "$*: exit code $code, expected $expected"
  elif [[ $err != *"$text"* ]]; then fail "$*: stderr lacks '$text'"
  elif [ -n "$out" ]; then fail "$*: something on stdout"
  elif [ "$(wc -l <"$work/err")" -gt 1 ]; then fail "$*: more than one line"
  else pass; fi
}

# json_ok WHAT -- the last stdout parses, where there is something to parse it with.
json_ok() {
  if ! command -v python3 >/dev/null; then return; fi
  if python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/out" 2>/dev/null; then pass
  else fail "$1: stdout is no JSON"; fi
}

# Whether kernels can be compiled here.
has_nvrtc() { "$fatune" doctor --json --db "$work/none.db" | grep -q '"what": "NVRTC", "verdict": "ok"'; }

# How many times longer than on an idle machine things take at the moment, from 1 to 8: the program is started a few
# times, and what passes meanwhile is held against the time that a processor works for it.
slowness() {
  local TIMEFORMAT='%R %U %S' i
  { time for i in {1..20}; do "$fatune" --version; done >"$work/out" 2>&1; } 2>&1 |
    awk '{ n = int($1 / ($2 + $3 + 1e-3)); print (n < 1 ? 1 : n > 8 ? 8 : n) }'
}

# Milliseconds that a processor has worked so far for processes that this script started and that have ended.
worked() {
  local field
  read -r -a field <"/proc/$$/stat"
  echo $(((field[15] + field[16]) * 1000 / $(getconf CLK_TCK)))
}

# wait_for COMMAND... -- until it succeeds, for as long as the process $tuner lives.
wait_for() {
  while ! "$@"; do
    if ! kill -0 "$tuner" 2>/dev/null; then
      "$@"
      return
    fi
    sleep 0.1
  done
}

# run_tests NAME... -- calls each test_NAME and ends the script with what came of them.
run_tests() {
  local name
  for name in "$@"; do
    "test_$name"
  done
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}
