#!/bin/bash
# run.sh BUILD RESULTS -- fatune on the GPU of this machine: tunes, stops and goes on, verifies, meets bad kernels, is timed
# on the host; and its Python binding, where there is a python3 (or PYTHON) whose PyTorch sees the GPU.
# BUILD holds the built program (no compiler is needed here), RESULTS gets the database, tables and logs. Options by
# environment: TUNE (arguments of the long tune), PROBLEM (small things are tried on it), STAGES (some of the names
# below). Ends with a table and "N passed, N failed"; exit 1 where a stage failed, 2 for usage, 3 without a GPU.
set -u
[ $# = 2 ] || { echo "usage: tests/gpu/run.sh BUILD RESULTS" >&2; exit 2; }
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(cd "$1" && pwd) || exit 2
mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
fatune=$build/fatune
work=$(mktemp -d) || exit 2
trap '[ "$BASHPID" = $$ ] && rm -rf "$work"' EXIT # not a child that is killed before it is a program
problem=${PROBLEM:-fwd-f32-b4-h16-q2048-k2048-d64}
read -ra tune <<<"${TUNE:---ops fwd,bwd --dims 64,128 --dtypes f32}"
unset FATUNE_DB FATUNE_TEMPLATES
export FATUNE_SYSTEM_DB= XDG_DATA_HOME=$work
rows=()
passed=0 failed=0 skipped=0
all="doctor tune again kill verify sanitize endless outside misaligned stray memory lot contract host grads binding"
for name in ${STAGES:-}; do
  [[ " $all " == *" $name "* ]] || { echo "run.sh: there is no stage '$name': $all" >&2; exit 2; }
done

say() { printf '%s\n' "$*" >>"$log"; }
need() { # WHAT CONDITION...: the condition holds
  local what=${1:-it ended without a word}
  shift
  if "$@"; then return 0; fi
  why=${why:-$what}
  say "FAILED: $what"
  return 1
}
same() { [ "$1" = "$2" ]; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
trials() { "$fatune" show trials --db "$1" --json 2>/dev/null | grep -c '"config"'; }
field() { grep -o "\"$1\":[^,}]*" | sed 's/^[^:]*://; s/"//g'; } # NAME: values of a JSON key, one a line
ended() { [ -z "$1" ] || [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; } # PID
now() { date +%s.%N; }
seconds() { date -d "$1" +%s.%N; }

stage_doctor() {
  "$fatune" doctor >"$out/doctor.txt" 2>&1
  cat "$out/doctor.txt" >>"$log"
  need "doctor sees no GPU" grep -q '^ok *device' "$out/doctor.txt"
}

stage_tune() {
  local begun=$(now)
  "$fatune" tune "${tune[@]}" --db "$out/tune.db" >"$out/tune.txt" 2>"$out/tune.err"
  local code=$?
  took "$begun"
  cat "$out/tune.txt" "$out/tune.err" >>"$log"
  need "tune ended with $code" same $code 0 || return
  need "something is not measured" same "$("$fatune" show best --db "$out/tune.db" --json | field origin | sort -u)" measured
  need "an error is above its bound" awk '{ exit !($1 <= $2) }' <(paste <("$fatune" show best --db "$out/tune.db" --json | field error_max) \
    <("$fatune" show best --db "$out/tune.db" --json | field error_allowed))
  for view in best trials failures runs; do
    "$fatune" show $view --db "$out/tune.db" --json >"$out/$view.json" 2>/dev/null
  done
  note="$(trials "$out/tune.db") trials, $("$fatune" show failures --db "$out/tune.db" --json 2>/dev/null | grep -c '"config"') no good"
}

stage_again() {
  local before=$(trials "$out/tune.db") begun=$(now)
  "$fatune" tune "${tune[@]}" --db "$out/tune.db" >"$work/again.txt" 2>>"$log"
  took "$begun"
  need "the table differs" cmp -s "$out/tune.txt" "$work/again.txt"
  need "trials were made" same "$(trials "$out/tune.db")" "$before"
  need "a run was recorded" same "$("$fatune" show runs --db "$out/tune.db" --json | grep -c '"command"')" \
    "$(grep -c '"command"' "$out/runs.json")"
}

stage_kill() {
  local db=$work/kill.db
  "$fatune" tune "$problem" --kernel fwd --db "$db" >>"$log" 2>&1 &
  local tuner=$! worker stored
  for _ in $(seq 600); do
    [ "$(trials "$db")" -ge 5 ] && break
    sleep 0.05
  done
  worker=$(pgrep -P $tuner | head -n 1)
  kill -KILL $tuner
  wait $tuner 2>/dev/null
  sleep 0.5
  need "the worker outlived its parent" ended "$worker"
  stored=$(trials "$db")
  "$fatune" show trials --db "$db" --json >"$work/before.json"
  "$fatune" tune "$problem" --kernel fwd --db "$db" >"$work/kill.txt" 2>"$work/kill.log"
  need "the run after the kill failed" same $? 0
  cat "$work/kill.txt" "$work/kill.log" >>"$log"
  need "it did not find what was stored" grep -q "$stored of them stored" "$work/kill.log"
  need "a config was tried twice" test -z "$("$fatune" show trials --db "$db" --json | field config | sort | uniq -d)"
  need "the database is not sound" "$fatune" doctor --db "$db" >>"$log" 2>&1
  note="$stored stored before, $(trials "$db") in all"
}

stage_verify() {
  "$fatune" verify --db "$out/tune.db" >"$out/verify.txt" 2>>"$log"
  need "a winner is not right" same $? 0
  local baselines=standard,fa1,standard_bwd,fa1_bwd code=0
  if FATUNE_SYSTEM_DB= "$fatune" show trials --db "$out/tune.db" --kernel $baselines --json 2>>"$log" | grep -q '"config"'; then
    "$fatune" verify --db "$out/tune.db" --kernel $baselines >>"$out/verify.txt" 2>>"$log"
    code=$?
  fi
  need "a baseline is not right" same $code 0
  cat "$out/verify.txt" >>"$log"
}

stage_sanitize() {
  "$fatune" verify --sanitize --db "$out/tune.db" >"$out/sanitize.txt" 2>&1
  local code=$?
  cat "$out/sanitize.txt" >>"$log"
  if [ $code = 3 ]; then
    skip=$(tail -n 1 "$out/sanitize.txt")
    return
  fi
  need "a tool found something" same $code 0
}

# A tune of one kernel whose configs with Br = 64 do something bad at their start: spoil NAME OUTCOME LIMIT TEXT.
spoil() {
  local name=$1 outcome=$2 limit=$3 db=$work/$1.db
  cp -r "$root/templates" "$work/templates-$name"
  sed -i "s|^  const float c = \$(c_of_call);|&\n  if (Br == 64) { $4 }|" "$work/templates-$name/fwd.cu"
  need "the template has another form now" grep -q '^  if (Br == 64)' "$work/templates-$name/fwd.cu" || return
  "$fatune" tune "$problem" --kernel fwd --templates "$work/templates-$name" --db "$db" --quiet >>"$log" 2>&1
  need "the tune failed" same $? 0
  "$fatune" show trials --db "$db" --json >"$work/$name.json"
  "$fatune" show trials --db "$db" >>"$log"
  "$fatune" show failures --db "$db" >>"$log"
  need "bad configs are not all '$outcome'" same "$(grep ':Br64-' "$work/$name.json" | field outcome | sort -u)" "$outcome" || return
  need "a good config failed" test -z "$(grep -v ':Br64-' "$work/$name.json" | field outcome | grep -vE '^(ok|slow|)$')"
  need "the winner is a bad one" test -z "$("$fatune" show best --db "$db" --json | grep ':Br64-')"
  # What each bad one cost: the time since the trial before it, unless that was timed again later.
  local before="" most=0 counted=0 cost config date race
  while IFS=$'\t' read -r config date race; do
    if [[ $config == *:Br64-* && -n $before ]]; then
      cost=$(awk -v a="$(seconds "$before")" -v b="$(seconds "$date")" 'BEGIN { printf "%.2f", b - a }')
      say "$config cost $cost s"
      counted=$((counted + 1))
      if below "$most" "$cost"; then most=$cost; fi
    fi
    before=$date
    if [[ $race ]]; then before=""; fi
  done < <(paste <(field config <"$work/$name.json") <(field date <"$work/$name.json") <(field race <"$work/$name.json"))
  note="$counted of them cost at most $most s each"
  need "a bad one cost $most s" below "$most" "$limit"
}
# Where others shared the worker before, the trial runs a second time to confirm the blame: twice the cost, and the
# measurement of the one before belongs to it too.
stage_endless() { spoil endless timeout 6 'if (block_id() == 0) { const i64 t0 = clock64(); while (clock64() - t0 < 50000000000ll) { } }'; }
stage_outside() { spoil outside fault 3 '*(volatile float *)16 = 1.f;'; }
stage_misaligned() { spoil misaligned fault 3 '*(volatile float *)((char *)a.O.data + 1) = 1.f;'; }
stage_stray() { spoil stray wrong 3 '((volatile float *)a.O.data)[-1] = 1.f;'; }

stage_memory() {
  local db=$work/memory.db hog=$build/tests/gpu/hog
  [ -x "$hog" ] || { skip="there is no $hog"; return; }
  local problem=fwd-f32-b4-h16-q4096-k4096-d64 # 4 GiB of scores; a context takes about half of one
  coproc HOG { "$hog" 2048; }
  local line
  read -r -t 60 line <&"${HOG[0]}"
  need "no process could hold the memory" same "$line" holding || return
  "$fatune" tune "$problem" --kernel standard --db "$db" --quiet >>"$log" 2>&1
  local code=$?
  "$fatune" show failures --db "$db" >>"$log" 2>&1
  need "without memory the outcome is not oom" same "$("$fatune" show trials --db "$db" --json | field outcome | sort -u)" oom
  need "the exit code is $code" same $code 1
  local in=${HOG[1]} pid=$HOG_PID
  exec {in}>&-
  wait "$pid" 2>/dev/null
  "$fatune" tune "$problem" --kernel standard --db "$db" >>"$log" 2>&1
  need "it does not work when the memory is free again" same $? 0
}

# Problems and configs by lot, of all features together, in five minutes.
stage_lot() {
  command -v python3 >/dev/null || { skip="python3 is not installed"; return; }
  python3 "$root/tests/problems_lot.py" "$build" "${LOT_MINUTES:-5}" ${LOT_SEED:+"$LOT_SEED"} --gpu >"$out/lot.txt" 2>&1
  local code=$?
  cat "$out/lot.txt" >>"$log"
  note="$(tail -n 1 "$out/lot.txt"), $(head -n 1 "$out/lot.txt")"
  need "$note" same $code 0
}

# libfatune's contract, with the kernels of this tune and others compiled now.
stage_contract() {
  local contract=$build/tests/gpu/contract
  [ -x "$contract" ] || { skip="there is no $contract"; return; }
  FATUNE_DB=$out/tune.db FATUNE_JIT=$build/runtime/libfatune-jit.so "$contract" >"$out/contract.txt" 2>&1
  local code=$?
  cat "$out/contract.txt" >>"$log"
  need "$(grep FAILED "$out/contract.txt" | head -n 1)" same $code 0
  note="$(grep -c ' ok, ' "$out/contract.txt") promises$(sed -n 's/^  left out: /, left out: /p' "$out/contract.txt")"
}

# Host time of a call above that of its launch, with kernels tuned for problems that the GPU answers at once.
stage_host() {
  local host=$build/tests/gpu/host db=$work/host.db
  local pointers=fwd-f32-b1-h1-q64-k64-d64 maps=fwd-bf16-b1-h1-q128-k128-d64
  [ -x "$host" ] || { skip="there is no $host"; return; }
  "$fatune" tune $pointers --kernel fwd --budget 6s --db "$db" --quiet >>"$log" 2>&1
  need "the tune of $pointers failed" same $? 0
  if grep -q '^ok *device *0: .*(sm90-' "$work/doctor.txt"; then
    "$fatune" tune $maps --kernel fwd_ws --budget 6s --db "$db" --quiet >>"$log" 2>&1
    need "the tune of $maps failed" same $? 0
  fi
  FATUNE_DB=$db FATUNE_JIT=$build/runtime/libfatune-jit.so "$host" $pointers $maps >"$out/host.txt" 2>&1
  local code=$?
  cat "$out/host.txt" >>"$log"
  note="above the launch: $(sed -n 's/^above the launch: \([0-9.-]* us\),.*/\1/p' "$out/host.txt" | paste -sd, | sed 's/us/& with pointers/; s/,\(.*\)/, \1 with maps/')"
  need "$(grep -E ' MORE|^line' "$out/host.txt" | head -n 1)" same $code 0
}

torch_of() { # what the binding's stages run, with kernels compiled now
  local python=${PYTHON:-python3}
  "$python" -c 'import torch; assert torch.cuda.is_available()' >>"$log" 2>&1 || { skip="$python has no PyTorch that sees the GPU"; return 1; }
  FATUNE_LIBRARY=$build/runtime/libfatune.so FATUNE_JIT=$build/runtime/libfatune-jit.so FATUNE_DB=$work/python.db \
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/bindings/python "$python" "$@"
}

# Gradients through the binding, against PyTorch's in double.
stage_grads() {
  torch_of "$root/tests/gpu/grads.py" >"$out/grads.txt" 2>&1
  local code=$?
  cat "$out/grads.txt" >>"$log"
  [ -z "$skip" ] || return
  note=$(tail -n 1 "$out/grads.txt")
  need "$(grep -vE 'of what is allowed|: right$|, 0 wrong$' "$out/grads.txt" | head -n 1)" same $code 0
}

# Host time of a call through the binding, Python's own part.
stage_binding() {
  torch_of "$root/bench/binding.py" >"$out/binding.txt" 2>&1
  local code=$?
  cat "$out/binding.txt" >>"$log"
  [ -z "$skip" ] || return
  note="without fatune_run: $(sed -n 's/^\(attention\|prepared\)  .* \([0-9.]*\)$/\1 \2 us/p' "$out/binding.txt" | paste -sd,)"
  need "$(grep -E 'are promised|Error' "$out/binding.txt" | head -n 1)" same $code 0
}

# Without a device nothing below means anything.
"$fatune" doctor >"$work/doctor.txt" 2>&1
if ! grep -q '^ok *device' "$work/doctor.txt"; then
  grep -E '^[a-z]+ +(driver|device) ' "$work/doctor.txt"
  echo "there is no GPU that fatune can use on this machine"
  echo "0 passed, 1 failed"
  exit 3
fi

took() { spent=$(awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'); }
for name in ${STAGES:-$all}; do
  log=$out/$name.log
  : >"$log"
  why="" note="" skip="" spent=""
  begun=$(now)
  "stage_$name"
  [ -n "$spent" ] || took "$begun"
  if [ -n "$why" ]; then
    verdict=FAILED note=$why failed=$((failed + 1))
  elif [ -n "$skip" ]; then
    verdict=skipped note=$skip skipped=$((skipped + 1))
  else
    verdict=passed passed=$((passed + 1))
  fi
  rows+=("$(printf '%-11s %-8s %7s s  %s' "$name" "$verdict" "$spent" "$note")")
  echo "${rows[-1]}"
  if [ $verdict = FAILED ]; then tail -n 20 "$log" | sed 's/^/  | /'; fi
done
echo
[ -f "$out/tune.txt" ] && cat "$out/tune.txt"
last="$passed passed, $failed failed"
[ $skipped = 0 ] || last="$last, $skipped skipped"
printf '%s\n' "${rows[@]}" "$last" >"$out/summary.txt"
echo "$last"
[ $failed = 0 ]
