#!/usr/bin/env bash
# gpu.sh FATUNE FAKE_CUDA -- `fatune tune` and `fatune verify` where a GPU is at hand, end to end.
#
# The GPU is the fake T4 of tests/fake: kernels are compiled by the real NVRTC, their results come from the
# reference in double, their times and faults from a script. Prints `N passed, N failed`; the exit code says the
# same, or 77 with a word where nothing can be compiled.
# PATIENCE is how many times longer things may take, for a program that a sanitizer slows down.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

fake=$(realpath "${2:?the second argument is fake_cuda.so}")
if ! has_nvrtc; then
  echo "skipped: there is no usable libnvrtc, so nothing can be tuned"
  exit 77
fi
export FATUNE_LIBCUDA=$fake FAKE_CUDA_DEVICES=T4 FAKE_CUDA_EMULATE=reference FAKE_CUDA_SOURCES=$work/dump
export FATUNE_DUMP=$work/dump FAKE_CUDA_LOG=$work/log
unset CUDA_VISIBLE_DEVICES FAKE_CUDA_FAULT FAKE_CUDA_FAIL FAKE_CUDA_STATE FAKE_CUDA_NOISE
usual_times='fwd:*-W1-*=0.06' # the rest by the hash of the source: no winner is its own twin, whatever templates say
export FAKE_CUDA_TIMES=$usual_times
mkdir "$work/dump"
patience=$((${PATIENCE:-1} * $(slowness)))

problem=fwd-f32-b1-h2-q64-k64-d16
configs=() # of a tune of that problem, in the order of trials: one thread compiles, so that it is always the same

# tune DB ARGS... -- runs it to its end; searched DB -- its rows, but for twins that were made beside the search;
# stored DB -- how many they are.
tune() {
  run tune $problem --kernel fwd --effort quick --jobs 1 --deadline $((2 * patience))s --db "$work/$1" "${@:2}"
}
searched() { "$fatune" show trials --json --db "$work/$1" 2>/dev/null | grep '"config"' | grep -v '"twin_of":"[^"]'; }
stored() { searched "$1" | wc -l; }

# column DB CONFIG NAME -- one value of a stored row, by its name in `show trials --json`.
column() {
  "$fatune" show trials --json --db "$work/$1" | grep -F "\"config\":\"$2\"" |
    sed -n "s/.*\"$3\":\(\"[^\"]*\"\|[^,}]*\).*/\1/p" | tr -d '"'
}

# winner_of DB -- the config that is the best for the problem.
winner_of() { "$fatune" show best --json --db "$work/$1" | sed -n 's/.*"config":"\([^"]*\)".*/\1/p'; }

at_most() { if [ "$1" -le "$2" ]; then pass; else fail "$3: $1, at most $2 expected"; fi; }

# A process that has ended may still wait to be reaped by whoever adopted it.
is_gone() { [ ! -e "/proc/$1/stat" ] || [ "$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null)" = Z ]; }

# workers_are_gone WHAT -- all processes that ever opened the GPU have ended.
workers_are_gone() {
  local pids pid left=''
  pids=$(sed -n 's/^\([0-9]*\) context .*/\1/p' "$work/log" | sort -u)
  if [ -z "$pids" ]; then fail "$1: no worker ever opened the GPU"; fi
  for _ in $(seq $((50 * patience))); do
    left=
    for pid in $pids; do
      if ! is_gone "$pid"; then left=$pid; fi
    done
    if [ -z "$left" ]; then break; fi
    sleep 0.1
  done
  if [ -z "$left" ]; then pass; else fail "$1: worker $left lives on"; fi
}

# start_tune DB ROWS -- the PID of a tune in the background that has stored so many, in $tuner.
start_tune() {
  "$fatune" tune $problem --kernel fwd --effort quick --jobs 1 --db "$work/$1" "${@:3}" \
    >"$work/bg.out" 2>"$work/bg.err" &
  tuner=$!
  wait_for has_rows "$1" "$2" || fail "a tune ended and stored less than $2 trials"
}
has_rows() { [ "$(stored "$1")" -ge "$2" ]; }

# start_hanging CONFIG ROWS DB -- the same, and its worker has launched a kernel that never ends.
start_hanging() {
  : >"$work/log"
  FAKE_CUDA_FAULT="$1=hang" start_tune "$3" "$2" --deadline 60s
  wait_for grep -q "^[0-9]* fault in" "$work/log" || fail "$1 was not launched"
}

# end_tune CODE WHAT -- waits for it.
end_tune() {
  wait "$tuner" 2>/dev/null
  code=$? out=$(<"$work/bg.out") err=$(<"$work/bg.err")
  code_is "$1" "$2"
}

# goes_on DB WHAT -- what is stored is kept and not tried again; the rest is tried.
goes_on() {
  local before rows=${#configs[@]}
  before=$(stored "$1")
  "$fatune" show history --db "$work/$1" | awk 'NR > 1 { print $1, $4 }' >"$work/before"
  tune "$1" --jobs 2
  code_is 0 "$2"
  err_has "$before of them stored" "$2"
  err_has "$((rows - before)) of $((rows - before)) tried" "$2"
  is "$(stored "$1")" "$rows" "$2: rows"
  "$fatune" show history --db "$work/$1" | awk 'NR > 1 { print $1, $4 }' >"$work/after"
  if [ "$(head -n "$before" "$work/after")" = "$(<"$work/before")" ]; then pass; else fail "$2: rows were lost"; fi
  is "$(searched "$1" | sed 's/.*"config":"\([^"]*\)".*/\1/' | sort | uniq -d)" "" "$2: configs measured twice"
  run doctor --db "$work/$1"
  out_has "its content is sound" "$2"
}

# Eight equal GPUs share one search: more than one of them (two threads compile no faster than two can measure) launches
# kernels, no config is measured twice, and the winner is the one that a single GPU finds.
test_fleet() {
  local all=T4,T4,T4,T4,T4,T4,T4,T4 gpus
  tune one.db --kernel fwd,fa1 --jobs 2
  : >"$work/log"
  FAKE_CUDA_DEVICES=$all tune eight.db --device all --kernel fwd,fa1 --jobs 2 --progress json
  code_is 0 "tune --device all"
  err_has '{"gpu":"T4","done":' "--progress json"
  gpus=$(sed -n 's/^\([0-9]*\) launch .*/\1/p' "$work/log" | sort -u | wc -l)
  if [ "$gpus" -ge 2 ]; then pass; else fail "$gpus of eight GPUs launched something"; fi
  is "$(searched eight.db | sed 's/.*"config":"\([^"]*\)".*/\1/' | sort | uniq -d)" "" "eight GPUs: configs measured twice"
  is "$(winner_of eight.db)" "$(winner_of one.db)" "the winner of eight GPUs"
  workers_are_gone "a tune on eight GPUs"
  FAKE_CUDA_DEVICES=$all tune eight.db --device all --kernel fwd,fa1 --jobs 2
  err_has "there is nothing left to do" "a second tune on eight GPUs"
  FAKE_CUDA_DEVICES=$all FAKE_CUDA_FAULT='fwd:*-Bc32-*=hang' tune hangs.db --device all --jobs 2
  code_is 0 "eight GPUs of which some hang"
  rm -f "$work/state"
  FAKE_CUDA_DEVICES=T4,T4 FAKE_CUDA_STATE=$work/state FAKE_CUDA_FAULT='cuDevicePrimaryCtxRetain#2=46' \
    run tune $problem --kernel fwd --device all --effort quick --budget 3s --db "$work/left.db"
  code_is 0 "two GPUs of which one is taken"
  err_has " is left out: " "two GPUs of which one is taken"
  # Of three one is taken once the others measure: the last takes its place, and goes on.
  rm -f "$work/state"
  FAKE_CUDA_DEVICES=T4,T4,T4 FAKE_CUDA_STATE=$work/state FAKE_CUDA_FAULT='cuDeviceGet#4=slow:2500,cuDevicePrimaryCtxRetain#3=46,fwd_*=slow:15' \
    run tune $problem --kernel fwd --device all --effort quick --jobs 2 --budget 6s --db "$work/moved.db"
  code_is 0 "three GPUs of which one is taken late"
  err_has " is left out: " "three GPUs of which one is taken late"
  FAKE_CUDA_DEVICES=T4,H200 run tune $problem --kernel fwd --device 1 --effort quick --budget 5s --db "$work/second.db" --quiet
  code_is 0 "tune --device 1"
  out_has "Measured on the H200 at hand" "tune --device 1"
  FAKE_CUDA_DEVICES=T4,H200 refuses 2 "--device 2: there is no such device" tune $problem --device 2
  FAKE_CUDA_DEVICES=T4,H200 refuses 2 "--device 1 is a H200, not the T4 of --gpu" tune $problem --device 1 --gpu T4
}

# Parts of a tune on machines of their own, brought together.
test_shards() {
  local families=(fwd-f32-b1-h2-q64-k64-d16 fwd-f32-b1-h2-q64-k64-d24 fwd-f32-b1-h2-q64-k64-d32 --kernel fa1 --effort quick
    --quiet) part
  for part in 1/2 2/2; do
    run tune "${families[@]}" --shard $part --db "$work/shard${part%/*}.db"
    code_is 0 "tune --shard $part"
  done
  problems_of() { "$fatune" show trials --csv --db "$work/$1" | tail -n +2 | cut -d, -f5 | sort -u | sed 's/.*-//' | paste -sd' '; }
  is "$(problems_of shard1.db)" "d16 d32" "families of part 1"
  is "$(problems_of shard2.db)" d24 "families of part 2"
  run merge "$work/shard1.db" "$work/shard2.db" --db "$work/shards.db"
  code_is 0 "merge of shards"
  is "$(problems_of shards.db)" "d16 d24 d32" "families of all parts"
  SLURM_PROCID=1 SLURM_NTASKS=2 run tune "${families[@]}" --shard auto --db "$work/auto.db"
  is "$(problems_of auto.db)" d24 "--shard auto by Slurm"
  SLURM_ARRAY_TASK_ID=11 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=10 run tune "${families[@]}" --shard auto --db "$work/array.db"
  is "$(problems_of array.db)" d24 "--shard auto by an array"
  PMI_RANK=0 PMI_SIZE=1 SLURM_ARRAY_TASK_ID=11 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=10 run tune "${families[@]}" --shard auto --db "$work/step.db"
  is "$(problems_of step.db)" d24 "--shard auto by an array whose tasks are MPI jobs of one process"
  local -x SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=2
  SLURM_ARRAY_TASK_ID=3 run tune "${families[@]}" --shard auto --db "$work/steps.db"
  is "$(problems_of steps.db)" d24 "--shard auto by an array with steps"
  SLURM_ARRAY_TASK_ID=4 SLURM_PROCID=0 SLURM_NTASKS=1 refuses 2 "SLURM_ARRAY_TASK_ID is 4 of 3" tune "${families[@]}" --shard auto
  unset SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_STEP
  OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 run tune "${families[@]}" --shard auto --db "$work/empty.db"
  code_is 0 "a part without families"
  OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 run tune "${families[@]::7}" --shard auto --db "$work/empty.db"
  err_has "part 6 of 6 (OMPI_COMM_WORLD_RANK): there are fewer families than parts" "a part without families"
  run tune "${families[@]::7}" --shard 2/2 --db "$work/shard2.db"
  err_has $'fatune: part 2 of 2\n' "tune --shard 2/2"
  refuses 2 "--shard auto: neither Slurm" tune "${families[@]}" --shard auto
  refuses 2 "--shard '3/2'" tune "${families[@]}" --shard 3/2
}

# Kernels that have become slower since they were tuned.
test_slower() {
  tune slower.db
  run verify --time --db "$work/slower.db"
  code_is 0 "verify --time"
  out_has "0 take more than 5 % longer" "verify --time"
  FAKE_CUDA_TIMES='fwd:*=0.9' run verify --time --db "$work/slower.db" --json
  code_is 1 "verify --time of slower kernels"
  json_ok "verify --time --json"
  out_has '"slower":' "verify --time --json"
}

# A GPU of no table, whose name has bytes of another encoding.
test_odd_name() {
  FAKE_CUDA_DEVICES=ODD tune odd.db
  code_is 0 "tune on a GPU with an odd name"
  err_has "[31me 1" "tune on a GPU with an odd name"
  if [[ $err$out == *$'\e'* || $err$out == *$'\xe9'* ]]; then fail "its bytes are echoed"; else pass; fi
  : >"$work/log"
}

test_measured() {
  tune first.db --json
  code_is 0 "tune --json"
  json_ok "tune --json"
  out_has '"origin": "measured"' "tune --json"
  err_has "Measured on the T4 at hand"
  cp "$work/log" "$work/first.log"
  workers_are_gone "a tune that is done"
  mapfile -t configs < <(searched first.db | sed 's/.*"config":"\([^"]*\)".*/\1/')
  if [ ${#configs[@]} -lt 12 ]; then fail "only ${#configs[@]} configs were tried"; fi
  local launches
  launches=$(grep -c launch "$work/log")
  tune first.db
  code_is 0 "the second tune"
  out_has "  measured"
  out_has "Measured on the T4 at hand"
  if [[ $err != *tried* ]]; then pass; else fail "the second tune tried something"; fi
  is "$(grep -c launch "$work/log")" "$launches" "launches after a second tune"
  cp "$work/out" "$work/table"
  tune first.db --quiet
  if cmp -s "$work/out" "$work/table"; then pass; else fail "the third tune prints something else"; fi
  run why $problem --db "$work/first.db"
  out_has "-> exact" why
  out_has ", measured " why
  run why fwd-f32-d16 --db "$work/first.db"
  out_has "$problem fwd:" "why of a family"
}

# What a package ships, of this shape or by another, is tried again beside what the search chooses, whatever driver it was measured with; a text that
# is damaged is refused.
test_shipped() {
  local winner other='' Br Bc R near=fwd-f32-b1-h2-q80-k80-d16 taken
  problem=$near tune alone.db
  code_is 0 "a tune of another shape"
  taken=" ${configs[*]} $(searched alone.db | sed -n 's/.*"config":"\([^"]*\)".*/\1/p' | tr '\n' ' ')"
  winner=$(winner_of first.db)
  for Br in 16 32 64; do for Bc in 16 32 64 128; do for R in 1 2 4; do
    other=$(sed "s/Br[0-9]*-Bc[0-9]*-/Br$Br-Bc$Bc-/; s/-R[0-9]*-/-R$R-/" <<<"$winner")
    if [[ $taken != *" $other "* ]] && "$fatune" render $problem --gpu T4 --config "$other" >/dev/null 2>&1; then break 3; fi
    other=''
  done; done; done
  if [ -z "$other" ]; then fail "no config is left that the search has not chosen"; fi
  run export --winners --gpu T4 --db "$work/first.db" "$work/t4.jsonl"
  code_is 0 "export --winners"
  sed -i "s/\"config\":\"$winner\"/\"config\":\"$other\"/; s/\"driver\":\"[^\"]*\"/\"driver\":\"1.2\"/" "$work/t4.jsonl"
  run import --cubins t4 "$work/t4.jsonl" --db "$work/system.db"
  code_is 0 "import --cubins"
  out_lacks ": 0 cubins compiled" "import --cubins"
  out_has "measured with other templates" "import --cubins of another config's source"
  run import --sources "$work/t4.jsonl" --db "$work/sources.db"
  code_is 0 "import --sources"
  out_has ": 0 cubins compiled" "import --sources"
  if has_nvrtc; then refuses 2 "--cubins 'H200': no row" import --cubins T4,H200 "$work/t4.jsonl" --db "$work/sources.db"; fi
  run export --winners --db "$work/system.db"
  if cmp -s "$work/out" "$work/t4.jsonl"; then pass; else fail "the text does not come back as it was"; fi
  chmod 444 "$work/system.db"
  FATUNE_SYSTEM_DB=$work/system.db run why $problem --gpu T4
  out_has "-> exact       $other" "why, of the system's file"
  out_has "driver '1.2'" "why, of the system's file"
  FATUNE_SYSTEM_DB=$work/system.db tune shipped.db
  code_is 0 "a tune above a system's file"
  is "$(column shipped.db "$other" origin)" measured "what a package ships"
  problem=$near FATUNE_SYSTEM_DB=$work/system.db tune near.db
  code_is 0 "a tune beside a package's row of another shape"
  is "$(column near.db "$other" origin)" measured "what calls got before, by another shape"
  sed "s/\"config\":\"$other\"/\"config\":\"${configs[-1]}\"/" "$work/t4.jsonl" >"$work/last.jsonl"
  run import --cubins t4 "$work/last.jsonl" --db "$work/last.db"
  chmod 444 "$work/last.db"
  FATUNE_SYSTEM_DB=$work/last.db tune early.db
  code_is 0 "a tune above a row that the search comes to last"
  at_most "$(column early.db "${configs[-1]}" id)" 2 "what calls got before is tried first, for a budget may end"
  sed -i '2s/"ms":/"ms":-/' "$work/t4.jsonl"
  run import --cubins all "$work/t4.jsonl" --db "$work/damaged.db"
  code_is 2 "import --cubins of a damaged text"
  out_has "line 2: ms of a trial is -" "import --cubins of a damaged text"
  run export --winners --gpu H200 --db "$work/first.db"
  code_is 2 "export --winners of a GPU that was not measured"
}

twins() { "$fatune" show trials --json --db "$work/$1" | sed -n 's/.*"config":"\([^"]*\)".*"twin_of":"[^"].*/\1/p'; }

# A comment in any template, or a change of another kernel's, leaves what was tried as it is; a change of its own does not.
test_comment() {
  local launches rows
  cp -r "$root/templates" "$work/commented"
  echo '// a comment' >>"$work/commented/fwd.cu"
  echo 'int more;' >>"$work/commented/fa1.cu"
  launches=$(grep -c launch "$work/log") rows=$(stored first.db)
  tune first.db --templates "$work/commented"
  code_is 0 "a tune after a comment"
  if [[ $err != *tried* ]]; then pass; else fail "a comment in its template makes it try again"; fi
  is "$(grep -c launch "$work/log")" "$launches" "launches after a comment"
  is "$(stored first.db) $(runs first.db)" "$rows 1" "rows and runs after a comment"
  if cmp -s "$work/out" "$work/table"; then pass; else fail "a comment changes the table"; fi
  cp "$work/first.db" "$work/changed.db"
  echo 'int more;' >>"$work/commented/fwd.cu"
  tune changed.db --templates "$work/commented"
  err_has "${#configs[@]} of ${#configs[@]} tried" "a tune after a change of the kernel"
  is "$("$fatune" show runs --json --db "$work/changed.db" | grep -o '"trials":[0-9]*' | head -n 1)" \
    "$("$fatune" show runs --json --db "$work/first.db" | grep -o '"trials":[0-9]*')" "trials of the first run after a second one"
}

# Beside the winner lies its twin; where that is wrong, another one.
test_twins() {
  local twin other launches
  twin=$(twins first.db)
  case $twin in
    *-W1-*) pass ;;
    *) fail "the winner's twin is '$twin'" ;;
  esac
  is "$(column first.db "$twin" origin)" measured "a twin"
  FAKE_CUDA_FAULT="$twin=wrong" tune twins.db
  code_is 0 "a tune with a wrong twin"
  is "$(column twins.db "$twin" outcome)" wrong "a wrong twin"
  other=$("$fatune" show trials --json --db "$work/twins.db" | sed -n '/"outcome":"wrong"/,$p' |
    sed -n 's/.*"config":"\([^"]*\)".*"outcome":"ok".*/\1/p') # it may have become a finalist, which is told instead
  case $other in
    *-W1-*) pass ;;
    *) fail "instead of a wrong twin there is '$other'" ;;
  esac
  launches=$(grep -c launch "$work/log")
  tune twins.db
  is "$(grep -c launch "$work/log")" "$launches" "launches after a tune that had a wrong twin"
}

runs() { "$fatune" show runs --json --db "$work/$1" | grep -c '"command"'; }

# The last round goes wrong: the first times stand, and no later tune holds it again.
test_broken_race() {
  local winner entry count launches
  winner=$(winner_of first.db)
  entry=fwd_$(column first.db "$winner" source | cut -c 1-16)
  count=$(grep -c "launch $entry" "$work/first.log")
  FAKE_CUDA_STATE=$work/race FAKE_CUDA_FAULT="$winner#$count+=700" tune race.db
  code_is 0 "a tune with a race that faults"
  err_has "the last round was broken off (fault: " "a tune with a race that faults"
  is "$(grep -o "broken off" "$work/err" | wc -l)" 1 "races that were broken off"
  is "$(column race.db "$winner" outcome)" ok "the winner of a race that faults"
  is "$("$fatune" show trials --json --db "$work/race.db" | grep -c '"race":"20[^"]*","rivals":0')" \
    "$("$fatune" show trials --json --db "$work/first.db" | grep -c '"race":"20')" "rows of a race that faults"
  launches=$(grep -c launch "$work/log")
  tune race.db
  code_is 0 "a tune after a race that faults"
  is "$(grep -c launch "$work/log")" "$launches" "launches after a race that was broken off"
  is "$(runs race.db)" 1 "runs after a race that was broken off"
  # A GPU that faults in its race and cannot be opened again is left out; the other one is still there.
  rm -f "$work/race"
  FAKE_CUDA_DEVICES=T4,T4 FAKE_CUDA_STATE=$work/race FAKE_CUDA_FAULT="$winner#$count=700,cuDevicePrimaryCtxRetain#3+=46" \
    tune gone.db --device all
  code_is 0 "a tune that loses a GPU in its race"
  err_has " is left out: " "a tune that loses a GPU in its race"
  is "$(column gone.db "$winner" outcome)" ok "the winner of a race that lost its GPU"
}

test_verify() {
  run verify --db "$work/first.db"
  code_is 0 verify
  out_has "right"
  out_has "1 of 1 kernels are right"
  # Nothing that is opened takes the place of what the caller has closed.
  "$fatune" verify --db "$work/first.db" <&- >&- 2>"$work/err"
  code=$? out='' err=$(<"$work/err")
  code_is 3 "verify that cannot print"
  "$fatune" verify --db "$work/first.db" <&- >"$work/out" 2>&-
  code=$? out=$(<"$work/out") err=''
  code_is 0 "verify without stdin and stderr"
  out_has "1 of 1 kernels are right" "verify without stdin and stderr"
  FAKE_CUDA_FAULT='fwd_*=wrong' run verify --db "$work/first.db"
  code_is 1 "verify of a wrong kernel"
  out_has "0 of 1 kernels are right"
  err_has "is 1000, right is"
  FAKE_CUDA_FAULT='fwd_*=700' run verify --db "$work/first.db" --json
  code_is 1 "verify of a kernel that faults"
  json_ok "verify --json"
  out_has '"outcome": "fault"' "verify --json"
  # Below what was tuned here lies a package: its rows, which have no binaries, were verified elsewhere.
  run export --winners --gpu T4 --db "$work/first.db"
  sed 's/-q64-k64-/-q96-k96-/' "$work/out" >"$work/package.jsonl"
  run import --packaged "$work/package.jsonl" --db "$work/package.db"
  code_is 0 "import --packaged"
  FATUNE_SYSTEM_DB=$work/package.db run verify --db "$work/first.db"
  code_is 0 "verify above a package"
  out_has "1 of 1 kernels are right" "verify above a package"
  cp "$work/first.db" "$work/compact.db"
  FATUNE_SYSTEM_DB=$work/package.db run compact --db "$work/compact.db"
  code_is 0 "compact above a package"
  run import "$work/package.jsonl" --db "$work/none.db"
  FAKE_CUDA_DEVICES=A100 run verify --db "$work/none.db"
  code_is 3 "verify where nothing was tuned"
  err_has "nothing was tuned on an A100" "verify where nothing was tuned"
  # What is damaged is named, and what is sound is not.
  chmod 644 "$work/package.db"
  head -c 65536 /dev/zero | tr '\0' x | dd of="$work/package.db" bs=1 seek=4096 conv=notrunc status=none
  FATUNE_SYSTEM_DB=$work/package.db run show --db "$work/first.db"
  code_is 0 "show above a damaged package"
  err_has "the system database $work/package.db is left out: database $(realpath "$work/package.db"): reading: the file is damaged" "show above a damaged package"
}

# stop_verify ARGS... -- two kernels, of which the second hangs; stopped once the first is known.
stop_verify() {
  : >"$work/out" >"$work/err" # what an earlier run said is not this one's word
  FAKE_CUDA_DEVICES=A100 FAKE_CUDA_FAULT='standard_*=hang' "$fatune" verify --as T4 $problem --kernel fwd,standard "$@" \
    >"$work/out" 2>"$work/err" </dev/null &
  tuner=$!
  wait_for grep -q 'right' "$work/$said" || fail "verify said nothing"
  kill -INT "$tuner"
  wait "$tuner"
  code=$? out=$(<"$work/out") err=$(<"$work/err")
  code_is 130 "verify stopped by SIGINT"
  err_has "not all kernels were checked" "verify stopped by SIGINT"
}
test_verify_stopped() {
  said=err stop_verify
  out_has "1 of 1 kernels are right" "a table that was cut short"
  said=out stop_verify --json # a row is printed when it is known
  json_ok "verify --json that was cut short"
  out_has '"right": true' "verify --json that was cut short"
}

# A kernel without a config for the first of two problems is right for the second.
test_verify_none() {
  local wide=bwd-bf16-b1-h1-q64-k64-d192 narrow=bwd-bf16-b1-h1-q64-k64-d64
  export FAKE_CUDA_DEVICES=H200 XDG_DATA_HOME=$work/nobody
  run render $narrow --gpu H200 --kernel bwd_ws
  printf '%s\n' "$out" >"$work/dump/bwd_ws.cu"
  run verify --as H200 $wide $narrow --kernel bwd_ws
  code_is 0 "verify of a kernel that one problem has no config for"
  out_has "1 of 1 kernels are right" "verify of a kernel that one problem has no config for"
  err_has "$wide is left out: kernel bwd_ws has no config" "verify of a kernel that one problem has no config for"
  run verify --as H200 $wide --kernel bwd_ws --quiet
  code_is 1 "verify of a kernel that no problem has a config for"
  err_has "has no config" "verify of a kernel that no problem has a config for"
}

# What a tool finds is wrong, except what it is known to misread: racecheck bwd_ws, but not bwd.
test_verify_sanitize() {
  local kernel small=bwd-bf16-b1-h1-q64-k64-d64
  export FAKE_CUDA_DEVICES=H200 XDG_DATA_HOME=$work/nobody PATH=$work/tools:$PATH
  mkdir "$work/tools"
  printf '#!/bin/sh\n[ "$2" != "$COMPLAINS" ] || { echo "$2 has found something"; exit "$4"; }\n' >"$work/tools/compute-sanitizer"
  chmod +x "$work/tools/compute-sanitizer"
  for kernel in bwd_ws bwd; do
    run render $small --gpu H200 --kernel $kernel
    printf '%s\n' "$out" >"$work/dump/$kernel.cu"
  done
  COMPLAINS=racecheck run verify --as H200 $small --kernel bwd_ws,bwd --sanitize
  code_is 1 "what racecheck finds"
  out_has "1 of 2 kernels are right" "what racecheck finds"
  out_has "of 1 of them is what they misread" "what racecheck misreads"
  err_has ": racecheck: racecheck has found something" "what racecheck finds"
  COMPLAINS=memcheck run verify --as H200 $small --kernel bwd_ws --sanitize --json
  code_is 1 "what memcheck finds"
  out_has '"detail": "memcheck: memcheck has found something' "what memcheck finds"
  COMPLAINS=racecheck run verify --as H200 $small --kernel bwd_ws --sanitize --json
  code_is 0 "what racecheck misreads, as JSON"
  out_has '"detail": "racecheck reports what it misreads' "what racecheck misreads, as JSON"
}

# Kernels of a T4 on an A100, by their PTX. The reference finds their sources in the dump.
test_verify_as() {
  local before best backward=bwd-f16-b1-h2-q96-k96-d32-causal
  before=$(stored first.db)
  best=$("$fatune" show best --json --db "$work/first.db" | sed -n 's/.*"config": *"fwd:\([^"]*\)".*/\1/p' | head -n 1)
  for kernel in fwd standard; do
    run render $problem --gpu T4 --kernel $kernel
    printf '%s\n' "$out" >"$work/dump/$kernel.cu"
  done
  for kernel in bwd bwd_two; do
    run render $backward --gpu T4 --kernel $kernel
    printf '%s\n' "$out" >"$work/dump/$kernel.cu"
  done
  export FAKE_CUDA_DEVICES=A100
  run verify --as T4 $backward
  code_is 0 "verify --as T4 of a backward"
  out_has "2 of 2 kernels are right on the A100" "verify --as T4 of a backward"
  XDG_DATA_HOME=$work/nobody run verify --as T4 $problem
  code_is 0 "verify --as T4 without a database"
  out_has "1 of 1 kernels are right on the A100"
  out_has "the T4's machine code and speed are not seen"
  run verify --as T4 $problem --kernel fwd,standard --json
  code_is 0 "verify --as T4 of two kernels"
  json_ok "verify --as T4 --json"
  is "$(grep -o '"as": "T4"' "$work/out" | wc -l)" 2 "rows of two kernels"
  run verify --as T4 $problem --config "${configs[4]}" --db "$work/first.db"
  code_is 0 "verify --as T4 of a config"
  out_has "${configs[4]#fwd:}" "verify --as T4 of a config"
  run verify --as T4 $problem --db "$work/first.db"
  code_is 0 "verify --as T4 of what a database knows"
  out_has "$best" "verify --as T4 of what a database knows (${best:?no winner})"
  FAKE_CUDA_FAULT='fwd_*=wrong' run verify --as T4 $problem --top 3
  code_is 1 "verify --as T4 of wrong kernels"
  out_has "0 of 3 kernels are right"
  is "$(stored first.db)" "$before" "rows after verify --as"
  refuses 2 "--time compares winners with what was measured" verify --dims 64 --time --db "$work/first.db"
  refuses 2 "at hand is older (sm_80) than its PTX (sm_89)" verify --as L4 $problem
  export FAKE_CUDA_DEVICES=T4
  # The same kernels of the GPU at hand itself, tuned or not.
  XDG_DATA_HOME=$work/nobody run verify $problem --config "${configs[4]}"
  code_is 0 "verify of a config that nobody tuned"
  out_has "${configs[4]#fwd:}" "verify of a config that nobody tuned"
  out_lacks "as PTX" "verify of the machine code of the GPU at hand"
  run verify $problem --config "${configs[4]}" --db "$work/no-such.db"
  code_is 0 "verify of a named config with a database that is not there"
  refuses 2 "no-such.db: there is no such file" verify $problem --db "$work/no-such.db"
  FAKE_CUDA_FAULT='fwd_*=wrong' run verify $problem --top 3 --json
  code_is 1 "verify of wrong kernels that nobody tuned"
  json_ok "verify --top --json"
  is "$(grep -o '"ms": ' "$work/out" | wc -l)" 3 "rows of the first three"
  refuses 2 "choose no kernel of these problems" verify $problem --config "${configs[4]}" --kernel standard
}

# Milliseconds since the epoch at which a config was stored.
stored_at() { date -d "$(column faults.db "$1" date)" +%s%3N; }

# Everything that can be wrong with a kernel, in one tune.
test_faults() {
  local best=${configs[3]} faulty=${configs[5]} hanging=${configs[8]} wrong=${configs[10]}
  local unstable=${configs[11]} slow=${configs[${#configs[@]} - 1]} nan=${configs[6]} stray=${configs[7]}
  local timeless=${configs[9]}
  export FAKE_CUDA_TIMES="$best=0.005,$slow=0.5,$timeless=0,fwd:*=0.012"
  FAKE_CUDA_FAULT="$hanging=hang,$faulty=700,$wrong=wrong,$unstable=unstable,$nan=nan,$stray=stray" \
    tune faults.db --deadline "${patience}s"
  FAKE_CUDA_TIMES=$usual_times
  code_is 0 "a tune with faults"
  out_has "${best#fwd:}" "the winner"
  out_has " 0.005 " "its time"
  err_has "1 fault"
  err_has "1 timeout"
  is "$(column faults.db "$best" outcome)" ok "the best"
  is "$(column faults.db "$best" origin)" measured "the best"
  is "$(column faults.db "$faulty" outcome)" fault "one that faults"
  is "$(column faults.db "$hanging" outcome)" timeout "one that hangs"
  is "$(column faults.db "$wrong" outcome)" wrong "a wrong one"
  is "$(column faults.db "$unstable" outcome)" wrong "an unstable one"
  is "$(column faults.db "$nan" outcome)" wrong "one that gives a NaN"
  is "$(column faults.db "$stray" outcome)" wrong "one that writes beside its result"
  is "$(column faults.db "$slow" outcome)" slow "a slow one"
  is "$(column faults.db "$timeless" outcome)" launch-failed "one whose events tell no time"
  is "$(searched faults.db | grep -c '"outcome":"ok"')" $((${#configs[@]} - 8)) "others that work"
  run show failures --db "$work/faults.db"
  out_has "CUDA_ERROR_ILLEGAL_ADDRESS (700)" "show failures"
  out_has "the same call gave other bits" "show failures"
  out_has "is 1000, right is" "show failures"
  # A worker that others used is not proof enough: the config hangs twice, each time for its deadline.
  local deadline took
  deadline=$(column faults.db "$hanging" detail | sed -n 's/.*deadline of \([0-9.]*\) s.*/\1/p')
  deadline=$(awk "BEGIN { print int(1000 * ${deadline:-0}) }")
  took=$(($(stored_at "$hanging") - $(stored_at "${configs[7]}")))
  if [ "$deadline" -ge 1000 ]; then pass; else fail "the deadline was $deadline ms"; fi
  at_most "$took" $((3 * 2 * (deadline + 500))) "milliseconds of a config that hangs"
  workers_are_gone "a tune with faults"
}

kinds_of() { "$fatune" show trials --json --db "$work/$1" | grep -F "\"config\":\"$2\"" | grep -o '"kinds":{[^}]*}'; }
named() { grep -o '"[a-z0-9]*":[0-9]' | sed 's/"\(.*\)".*/\1/' | tr '\n' ' '; } # the names of kinds

# A config that is the fastest on normal data, and far slower where scores rise, loses to one that is a little slower
# and level. The fake tells kinds by the scores in memory, and every head of every launch must have the same.
test_kinds() {
  local uneven=${configs[3]} level=${configs[5]} launches
  FAKE_CUDA_TIMES="fwd:*@mixed=9,$uneven@rise*=0.02,$uneven=0.005,$level=0.0052,fwd:*=0.012" tune kinds.db
  code_is 0 "a tune of uneven configs"
  out_has "${level#fwd:}" "the winner over all kinds"
  is "$(printf %.3g "$(column kinds.db "$uneven" ms)")" 0.005 "the fastest on normal data"
  is "$(printf %.3g "$(column kinds.db "$uneven" mean)")" 0.0063 "its mean" # 0.005 x 4^(3 / 18)
  is "$(printf %.3g "$(column kinds.db "$level" mean)")" 0.0052 "the winner's mean"
  is "$(kinds_of kinds.db "$uneven" | named)" "normal wide rise100 rise16 rise4 fall100 fall16 fall4 sink peaks " "kinds"
  run show best --json --db "$work/kinds.db"
  json_ok "show best --json with kinds"
  out_has "\"config\":\"$level\"" "show best"
  out_has '"rise4":0.0052' "show best --json"
  run show best --db "$work/kinds.db"
  out_has "normal 0.0052, wide 0.0052, rise100 0.0052" "show best"
  run why $problem --db "$work/kinds.db"
  out_has "-> exact       $level" "why of an uneven rival"
  out_has "mean        0.0052 ms over all kinds of data: normal 0.0052, wide 0.0052, rise100 0.0052" why
  run why $problem --db "$work/kinds.db" --json
  json_ok "why --json with kinds"
  out_has '"peaks": 0.0052' "why --json"
  launches=$(grep -c launch "$work/log")
  tune kinds.db
  is "$(grep -c launch "$work/log")" "$launches" "launches after a second tune of kinds"
  "$fatune" export --db "$work/kinds.db" >"$work/kinds.jsonl"
  run import --db "$work/kinds2.db" "$work/kinds.jsonl"
  code_is 0 "an import of kinds"
  is "$("$fatune" export --db "$work/kinds2.db" | grep -o '"mean":.*')" "$(grep -o '"mean":.*' "$work/kinds.jsonl")" "kinds that came back"
  is "$(kinds_of kinds2.db "$uneven")" "$(kinds_of kinds.db "$uneven")" "kinds that were imported"
  run why $problem --db "$work/kinds2.db"
  out_has "-> exact       $level" "why of imported kinds"
  # Of an older program: a race without kinds is held again.
  sed 's/"mean":[^,]*,//; s/,"kinds":{[^}]*}//' "$work/kinds.jsonl" >"$work/kindless.jsonl"
  run import --db "$work/kinds3.db" "$work/kindless.jsonl"
  code_is 0 "an import of rows that know no kinds"
  run why $problem --db "$work/kinds3.db"
  out_has "-> exact       $uneven" "why of rows that know no kinds"
  FAKE_CUDA_TIMES="$uneven@rise*=0.02,$uneven=0.005,$level=0.0052,fwd:*=0.012" tune kinds3.db
  out_has "${level#fwd:}" "the winner once kinds are known"
  run tune bwd-f32-b1-h2k1-q64-k96-d16-causal --kernel fa1_bwd --effort quick --jobs 2 --deadline $((2 * patience))s --db "$work/back.db" --json
  code_is 0 "a backward tune"
  is "$("$fatune" show best --json --db "$work/back.db" | grep -o '"kinds":{[^}]*}' | named)" "normal wide " "kinds of a backward call"
}

# What others measured comes without binaries, and that of a race is forgotten here: it is held again, with kernels
# made again.
test_race_of_imported_rows() {
  "$fatune" export --db "$work/first.db" | sed 's/"race":"[^"]*","rivals":[0-9]*/"race":"","rivals":0/' >"$work/rows.jsonl"
  run import --db "$work/imported.db" "$work/rows.jsonl"
  code_is 0 "an import of measured rows"
  is "$(searched imported.db | grep -c '"race":"[^"]')" 0 "finalists among imported rows"
  local before
  before=$(searched imported.db | wc -l)
  tune imported.db
  code_is 0 "a tune of imported rows"
  err_has "$before of them stored" "a tune of imported rows"
  is "$(searched imported.db | grep -c '"race":"20[^"]*","rivals":[1-8]')" \
    "$(searched first.db | grep -c '"race":"20[^"]*","rivals":[1-8]')" "finalists of a tune of imported rows"
  local raced
  raced=$(searched imported.db | grep -o '"race":"[^"]*"')
  tune imported.db
  is "$(searched imported.db | grep -o '"race":"[^"]*"')" "$raced" "races after a second tune"
}

# The third config never ends and has a minute: whoever is asked to end meanwhile has a worker that is busy.
test_two_tuners_and_kill() {
  start_hanging "${configs[2]}" 2 kill.db
  refuses 3 "$tuner" tune $problem --kernel fwd --db "$work/kill.db" --quiet
  kill -KILL "$tuner"
  end_tune 137 "a tune that is killed"
  workers_are_gone "a tune that is killed"
  run show runs --db "$work/kill.db"
  out_has stopped "show runs"
  goes_on kill.db "a tune after a kill"
}

test_interrupt() {
  NVRTC_MEMORY='' start_tune stop.db 3 # so that it is not done before
  kill -INT "$tuner"
  end_tune 130 "a tune stopped by SIGINT"
  out_has "  measured" "the best so far"
  err_has "the same command goes on from there"
  workers_are_gone "a tune stopped by SIGINT"
  local before
  before=$(stored stop.db)
  tune stop.db --budget 1s
  code_is 0 "a tune after SIGINT"
  err_has "$before of them stored" "a tune after SIGINT"
}

# The first signal lets the trial end, which takes too long; the second does not.
test_interrupt_twice() {
  start_hanging "${configs[1]}" 1 twice.db
  kill -INT "$tuner"
  sleep 0.5
  if is_gone "$tuner"; then fail "the first SIGINT did not wait for the trial"; else pass; fi
  local begun=$SECONDS
  kill -INT "$tuner"
  end_tune 130 "a tune stopped by two SIGINT"
  at_most $((SECONDS - begun)) $((5 * patience)) "seconds after the second SIGINT"
  workers_are_gone "a tune stopped by two SIGINT"
  is "$(stored twice.db)" 1 "rows after two SIGINT"
}

# A fault after which no process can open the GPU again. The first two that do are the program and its worker.
test_device_lost() {
  FAKE_CUDA_STATE=$work/count FAKE_CUDA_FAULT="cuInit#3+=999,${configs[1]}=700" tune lost.db
  code_is 4 "a tune whose GPU is lost"
  err_has "cuInit"
  out_has "measured" "what was measured before"
  at_most 1 "$(stored lost.db)" "one row at least"
  run doctor --db "$work/lost.db"
  out_has "its content is sound" "after a lost device"
  local winner
  winner=$(winner_of first.db)
  run export --winners --gpu T4 --db "$work/first.db" "$work/shipped.jsonl"
  run import --cubins t4 "$work/shipped.jsonl" --db "$work/below.db"
  chmod 444 "$work/below.db"
  rm -f "$work/count"
  FATUNE_SYSTEM_DB=$work/below.db FAKE_CUDA_STATE=$work/count FAKE_CUDA_FAULT="cuInit#3+=999,${configs[2]}=700" tune over.db
  code_is 4 "a tune above a package's row whose GPU is lost"
  at_most 1 "$(stored over.db)" "one row of its own at least"
  FATUNE_SYSTEM_DB=$work/below.db run why $problem --gpu T4 --db "$work/over.db"
  out_has "-> exact       $winner" "a package's faster row stays before what a lost tune had tried"
}

# ./check --gpu: its runner takes the fake for a GPU in the stages that run no kernel of the runner's own.
test_check() {
  TUNE="$problem --kernel fwd --jobs 1 --deadline $((2 * patience))s" PROBLEM=$problem RESULTS=$work/results \
    "$root/check" --gpu --build "$(dirname "$fatune")" doctor tune again verify >"$work/out" 2>"$work/err"
  code=$? out=$(<"$work/out") err=$(<"$work/err")
  code_is 0 "check --gpu"
  out_has "4 passed, 0 failed" "check --gpu"
  FAKE_CUDA_FAULT='fwd_*=wrong' RESULTS=$work/results \
    "$root/check" --gpu --build "$(dirname "$fatune")" doctor verify >"$work/out" 2>"$work/err"
  code=$? out=$(<"$work/out")
  code_is 1 "check --gpu where kernels are wrong"
  out_has "1 passed, 1 failed" "check --gpu where kernels are wrong"
  FAKE_CUDA_DEVICES='' RESULTS=$work/results \
    "$root/check" --gpu --build "$(dirname "$fatune")" >"$work/out" 2>"$work/err"
  code=$? out=$(<"$work/out")
  code_is 3 "check --gpu without a GPU"
  out_has "there is no GPU that fatune can use" "check --gpu without a GPU"
}

run_tests measured fleet shards slower odd_name comment shipped twins broken_race verify verify_none verify_sanitize verify_as verify_stopped faults kinds race_of_imported_rows two_tuners_and_kill interrupt interrupt_twice device_lost check
