#!/usr/bin/env bash
# run.sh FATUNE -- the command line end to end: what is typed, what is printed, exit codes, interruptions.
#
# Works in a folder of its own with a database of its own and without any GPU. Parts that need libnvrtc or nvcc
# are left out, with a word, where there is none. PATIENCE is how many times longer things may take, for a program
# that a sanitizer slows down. Prints `N passed, N failed`; the exit code says the same.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

test_overview() {
  run --help
  code_is 0 --help
  local overview=$out
  for command in tune show why render export import merge doctor; do
    out=$overview
    out_has "  $command " "the overview"
    run "$command" --help
    code_is 0 "$command --help"
    out_has "Usage: fatune $command" "$command --help"
    out_has "Exit codes: 0 fine" "$command --help"
  done
  run --version
  code_is 0 --version
  out_has "fatune "
}

test_usage() {
  refuses 2 "is no command; did you mean 'tune'" tuen
  refuses 2 "is no command; fatune --help" nonsense
  refuses 2 "unknown GPU 'T44': the nearest known are T4" --gpu T44
  refuses 2 "--dims '100': allowed are multiples of 8" --gpu T4 --dims 100
  refuses 2 "--dims '264'" --gpu T4 --dims 64,264
  refuses 2 "--seqlens '-5'" --gpu T4 --seqlens -5
  refuses 2 "--dtypes 'f15': allowed are f16" --gpu T4 --dtypes f15
  refuses 2 "--dtypes bf16: the T4 (sm_75) cannot compute in bf16" --gpu T4 --dtypes bf16
  refuses 2 "Turing" --gpu T4 --dtypes bf16
  refuses 2 "--causal 'maybe': allowed are no, yes" --gpu T4 --causal maybe
  refuses 2 "--kernel 'foo': allowed are" --gpu T4 --kernel foo
  refuses 2 "--effort 'fast': allowed are quick, full, exhaustive" --gpu T4 --effort fast
  refuses 2 "--order 'best': allowed are promising, random and random:SEED" --gpu T4 --order best
  refuses 2 "--order 'random:0'" --gpu T4 --order random:0
  refuses 2 "--order 'randomly'" --gpu T4 --order randomly
  refuses 2 "--budget '10d'" --gpu T4 --budget 10d
  refuses 2 "--jobs '0': allowed are whole numbers from 1" --gpu T4 --jobs 0
  refuses 2 "--cuda '11': allowed are 12 and 13" --gpu T4 --cuda 11
  refuses 2 "--db is empty" show --db ''
  refuses 1 "no kernel" --gpu T4 --ops bwd --kernel fwd
  refuses 2 "d is 63" tune fwd-f32-b1-h1-q64-k64-d63 --gpu T4
  refuses 2 "fwd-bf16-b1-h1-q64-k64-d64: the T4" render fwd-bf16-b1-h1-q64-k64-d64 --gpu T4
  refuses 2 "column 15" render fwd-f32-b1-h1-q-64-k64-d64 --gpu T4
  refuses 2 "KV heads must divide" render fwd-f32-b1-h3k2-q64-k64-d64 --gpu T4
  refuses 2 "'f15' at column 5" why fwd-f15-b1-h1-q64-k64-d64 --gpu T4
  refuses 2 "is a family: a problem has its sizes too, like fwd-f16-b4" render fwd-f16-d64 --gpu T4
  refuses 2 "needs PROBLEM" render
  # More tiles than an int counts: refused, whether a grid says so or, where blocks take tiles in turns, the recipe.
  refuses 1 "it must be above 0" render fwd-f16-b65536-h65536-q1-k1-d64 --gpu H200 --kernel fwd_ws
  refuses 1 "grid is 4294967296" render fwd-f16-b65536-h65536-q1-k1-d64 --gpu H200 --kernel fwd
  refuses 2 "one argument too many" why fwd-f32-b1-h1-q64-k64-d64 another
  refuses 2 "allowed are best, trials" show nothing
  refuses 2 "'w64.0' at column 13 has numbers, which a family leaves out" why fwd-f16-d64-w64.0 --gpu T4
  refuses 2 "none-such.jsonl cannot be read" import "$work/none-such.jsonl" --db "$work/none-such.db"
  refuses 2 "is neither a file nor a pipe" import "$work" --db "$work/none-such.db"
  if [ -e "$work/none-such.db" ]; then fail "an import of nothing made a database"; else pass; fi
  refuses 2 "is no command" $'\xc2\x9b31mred'
  if grep -q $'\xc2\x9b' "$work/err"; then fail "a control character of an unknown command reached the terminal"; else pass; fi
  run tune --no-such-option
  code_is 2 "an unknown option"
  err_has "no-such-option"
}

# What is typed or stored is never echoed to the terminal as it came, and help comes in every form that people try.
test_words() {
  refuses 2 "argument 1 has a control character at place 1" $'\e[31mred'
  refuses 2 "argument 3 has a control character at place 3" tune --gpu $'T4\n'
  refuses 2 "an argument is empty" export ''
  refuses 2 "--gpu is empty" forget --gpu ''
  refuses 2 "choose families: a problem that is typed" tune fwd-f32-b1-h2-q64-k64-d16 --gpu T4 --dims 64
  printf 's\0 + table0[h]' >"$work/nul"
  refuses 2 "has a byte that is 0 behind 1 others" render fwd-f32-b1-h2-q64-k64-d16 --gpu T4 --mod "@$work/nul"
  refuses 2 "--dims '64,,128'" --gpu T4 --dims 64,,128
  refuses 3 "no GPU is at hand: no NVIDIA driver here" verify
  err_has "; kernels are verified on the GPU itself" "verify without a GPU"
  refuses 1 "V100 is a Volta GPU: fatune begins with Turing" --gpu V100
  for option in --version --help "tune --help" "help --man"; do
    # shellcheck disable=SC2086
    "$fatune" $option >/dev/full 2>"$work/err"
    code=$? err=$(<"$work/err")
    code_is 3 "$option to a full disk"
    err_has "stdout cannot be written" "$option to a full disk"
  done
  run -h
  code_is 0 -h
  out_has "Commands:" -h
  run show -h
  code_is 0 "show -h"
  out_has "Usage: fatune show" "show -h"
  run help tune
  code_is 0 "help tune"
  out_has "Usage: fatune tune" "help tune"
  refuses 2 "'tun' is no command; did you mean 'tune'?" help tun
  run help environment
  out_has FATUNE_TRUST_DB "help environment"
}

# The man page and the completions are made of the tables of --help: every option stands in all of them.
test_forms_of_help() {
  local options command form
  for form in man bash zsh; do
    run help --$form
    code_is 0 "help --$form"
    cp "$work/out" "$work/$form"
  done
  for command in tune show why render verify export import merge doctor; do
    run $command --help
    options=$(grep -oE '^ +(-o, )?--[a-z]+' "$work/out" | grep -oE -- '--[a-z]+' | grep -vE -- '--(help|usage|version)$')
    for option in $options; do
      for form in bash zsh; do
        if grep -A 60 "^ *$command) " "$work/$form" | grep -q -- "$option\b"; then pass
        else fail "$form lacks $command $option"; fi
      done
      if sed 's/\\-/-/g' "$work/man" | grep -q -- "^$option\b\|\.B $option\b"; then pass
      else fail "the man page lacks $option"; fi
    done
  done
  if bash -c ". '$work/bash'; PATH=$(dirname "$fatune"):\$PATH; COMP_WORDS=(fatune sh); COMP_CWORD=1; _fatune; echo \"\${COMPREPLY[*]}\"" |
    grep -qx show; then pass; else fail "bash does not complete 'sh' to show"; fi
  if command -v man >/dev/null; then
    if [ -z "$(man --warnings -l "$work/man" 2>&1 >/dev/null)" ]; then pass; else fail "man complains"; fi
  fi
}

test_why_family() {
  run why fwd-f32-d64-causal --gpu T4
  code_is 0 "why of a family"
  out_has "fwd-f32-d64-causal on T4: each call gets the kernel of the shape that promises most" "why of a family"
  out_has "fwd-f32-b4-h32-q4096-k4096-d64-causal on T4" "why of a family"
  run why fwd-f16-d64 --gpu T4
  out_has "fwd-f16-b4-h32-q4096-k4096-d64 fwd:Br128-" "why of a family without rows"
  out_has "fwd-f16-b1-h64k16-q1-k8192-d64 fwd:Br16-" "why of a family without rows: one row of Q"
  run why fwd-f32-d64-causal --gpu T4 --json
  json_ok "why of a family --json"
  out_has '"family": "fwd-f32-d64-causal"' "why of a family --json"
  refuses 2 "did you mean 'causal'" why fwd-f32-d64-causaal --gpu T4
}

test_no_gpu() {
  for command in "" "why fwd-f32-b1-h1-q64-k64-d64" "render fwd-f32-b1-h1-q64-k64-d64"; do
    # shellcheck disable=SC2086
    refuses 3 "name one with --gpu" $command
  done
}

test_show_gpus() {
  run show gpus
  code_is 0 "show gpus"
  out_has "RTX 4090"
  run show gpus --json
  json_ok "show gpus --json"
  out_has '"gpu": "T4", "sm": 75, "sms": 40'
  run show gpus --csv
  out_has "gpu,sm,sms,shared_block,shared_sm,l2,bus,clock,dram,memory,device" "show gpus --csv"
  out_has $'\nT4,75,40,65536,65536,4194304,256,1590,320,16,sm75-40SM-'
  refuses 2 "show gpus: the whole table is printed" show gpus --top 3
}

test_render() {
  local problem=fwd-f32-b1-h1-q64-k64-d64
  run render $problem --gpu T4
  code_is 0 render
  out_has "fwd-f32-d64" "the header"
  out_has "nvcc" "the header"
  out_has "__global__"
  out_has "#line"
  cp "$work/out" "$work/first.cu"
  run render $problem --gpu t4
  if cmp -s "$work/out" "$work/first.cu"; then pass; else fail "two renders differ"; fi
  run render $problem --gpu T4 --lines generated
  out_lacks "#line" "--lines generated"
  run render $problem --gpu T4 --kernel standard
  code_is 0 "render --kernel standard"
  out_has "standard"
  local config
  config=$(sed -n 's/.*\(fa1:[A-Za-z0-9-]*\).*/\1/p' <("$fatune" render $problem --gpu T4 --kernel fa1) | head -1)
  run render $problem --gpu T4 --config "$config"
  code_is 0 "render --config $config"
  out_has "$config"
  refuses 2 "is not one of --kernel fwd" render $problem --gpu T4 --config "$config" --kernel fwd
  refuses 2 "fwd:" render $problem --gpu T4 --config fwd:Br7
  refuses 1 "no 'partial'" render $problem-partial --gpu T4
  run render bwd-f16-b1-h1-q64-k64-d64-causal --gpu T4
  code_is 0 "render of a backward"
  out_has "dK = dK + dS^T Q" "render of a backward"
  cp "$work/out" "$work/backward.cu"
  if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then PATH=$PATH:/usr/local/cuda/bin; fi
  if command -v nvcc >/dev/null; then
    for text in first backward; do
      if nvcc -arch=sm_75 -cubin -o "$work/$text.cubin" "$work/$text.cu" >"$work/err" 2>&1; then pass
      else err=$(<"$work/err") && fail "nvcc refuses the rendered text"; fi
    done
  else
    echo "left out: nvcc is not installed"
  fi
}

# Lengths that nobody has memory for are answered at once: what a mask leaves of them is no walk over their tiles.
test_long_rows() {
  local begun longest=fwd-f16-b1-h6k2-q2147483647-k2147483647-d64-causal took
  begun=$(worked)
  run render "$longest" --gpu H200
  code_is 0 "render of the longest rows"
  run why "$longest" --gpu T4
  code_is 0 "why of the longest rows"
  out_has "the kernel's default config" "why of the longest rows"
  took=$(($(worked) - begun))
  if [ "$took" -lt $((2000 * ${PATIENCE:-1})) ]; then pass; else fail "render and why took $took ms"; fi
}

# h200_rows_of PATTERN DB -- the H200's rows of these problems alone, so that what others win says nothing.
h200_rows_of() {
  awk -v wanted="\"problem\":\"($1)\"" '/^\{"fatune":/ { head = $0; next } $0 ~ wanted { if (head != "") print head; head = ""; print }' \
    "$root/db/tuned/h200.jsonl" >"$work/some.jsonl"
  rm -f "$work/$2"
  run import --db "$work/$2" "$work/some.jsonl"
  code_is 0 "import of some of the H200's rows"
}

# h200_rows -- a database of the H200's rows, $work/h200.db, which nobody writes to; imported once.
h200_rows() {
  [ ! -e "$work/h200.db" ] || return 0
  run import --db "$work/h200.db" "$root/db/tuned/h200.jsonl"
  code_is 0 "import of the H200's rows"
}

# A family of which nothing is stored is given what won for the plain one, where that serves it and spills nothing.
test_plain_winner() {
  local plain=fwd-bf16-b4-h16-q4096-k4096-d128-causal config
  h200_rows
  run why $plain --gpu H200 --db "$work/h200.db"
  config=$(sed -n 's/.*\(fwd_ws:[A-Za-z0-9-]*\).*/\1/p' <<<"$out" | head -1)
  run why $plain-sink --gpu H200 --db "$work/h200.db"
  out_has "-> default     nothing stored serves it: what won for $plain, $config" "why of a sink"
  run render $plain-sink --gpu H200 --db "$work/h200.db"
  out_has "//   config     $config" "render of a sink"
  run why $plain-bias-sink --gpu H200 --db "$work/h200.db" # by way of shared memory, of which plain configs know nothing
  out_has "the kernel's default config, fwd_ws:" "why of a bias"
  run why $plain --mod 's + table0[h] * (j - i)' --gpu H200 --db "$work/h200.db" # whose default times of such calls chose
  out_has "the kernel's default config, fwd_ws:Br192-Bc80-" "why of an expression that adds evenly"
}

# A family that was tuned in the other type of 16 bits alone takes what won there.
test_other_half() {
  h200_rows_of 'bwd-bf16-[^"]*-d256-causal' other.db
  run why bwd-f16-b2-h9k3-q70-k70-d256-causal --gpu H200 --db "$work/other.db"
  out_has "-> nearest " "why of a gradient in f16"
  out_has "measured in the other type of 16 bits" "why of a gradient in f16"
}

# A tune where nothing can be measured keeps code of the package's twins: what won there still comes before them.
test_package_wins() {
  local problem=fwd-bf16-b4-h16-q4096-k4096-d128 winner
  h200_rows
  local -x FATUNE_SYSTEM_DB=$work/h200.db
  run why $problem --gpu H200
  winner=$(sed -n 's/^-> exact *\(fwd_ws:[A-Za-z0-9-]*\).*/\1/p' <<<"$out")
  run tune $problem --gpu H200 --kernel fwd_ws,fwd --config "$winner" --db "$work/predicted.db" --quiet
  code_is 0 "a tune beside the package"
  run show trials --csv --db "$work/predicted.db" --origin measured
  out_has "-W1," "the package's twin"
  run why $problem --gpu H200 --db "$work/predicted.db"
  out_has "-> exact       $winner" "why with the package's twin in one's own database"
}

# A row whose config is none for the sizes is passed over, though it promises most, and the answer says so.
test_passed_over() {
  local problem=bwd-bf16-b32-h32-q530-k530-d64-causal
  h200_rows_of 'bwd-bf16-b(32-h32-q512-k512|20-h32-q768-k768|16-h32-q1024-k1024|8-h32-q2048-k2048)-d64-causal' passed.db
  local -x FATUNE_SYSTEM_DB=
  run why $problem --gpu H200 --db "$work/passed.db"
  code_is 0 "why where the best row is not valid"
  out_has "T3 for bwd-bf16-b20-h32-q768-k768-d64-causal on this device" "the row that is taken instead"
  out_has "passed over: bwd_ws:" "why where the best row is not valid"
  out_has "-H1 of bwd-bf16-b32-h32-q512-k512-d64-causal, since the config is not valid for these sizes: 513-k is -17" "the row that is passed over"
  run why bwd-bf16-b4-h12-q1024-k1024-d64-causal --gpu H200 --db "$work/passed.db"
  out_has "-T3 of bwd-bf16-b16-h32-q1024-k1024-d64-causal, since the config is not valid for these sizes: max(ceildiv(k,128)*b*hk-6*SMs+1,449-k) is -407" "a row of many tiles"
  # One that these templates have no kernel or no such tile of, as another version's rows may: another is the answer.
  local kernel
  run import --packaged "$root/db/tuned/h200.jsonl" --db "$work/shipped.db"
  for kernel in fwd_next:Br128 fwd:Br7-Bc32-w4-s1-Q0-b1-Z1-W16; do
    sed -n '1p; /"problem":"fwd-bf16-b4-h16-q4096-k4096-d128"/{p;q}' "$root/db/tuned/h200.jsonl" |
      sed "2s/\"config\":\"[^\"]*\"/\"config\":\"$kernel\"/; 2s/\"ms\":[0-9.]*/\"ms\":0.5/" >"$work/next.jsonl"
    rm -f "$work/next.db"
    run import "$work/next.jsonl" --db "$work/next.db"
    code_is 0 "import of another version's row"
    FATUNE_SYSTEM_DB=$work/shipped.db run why fwd-bf16-b4-h16-q4096-k4096-d128 --gpu H200 --db "$work/next.db"
    out_has "-> exact       fwd_ws:" "why above a row that nothing writes: the package's row of the same problem"
    out_has "passed over: $kernel of" "why above a row that nothing writes"
  done
  run render $problem --gpu H200 --db "$work/passed.db"
  out_has "-H2" "the config of what is rendered"
}

# Configs that are named are tried alone, beside the default.
test_named_configs() {
  local problem=fwd-f32-b64-h128-q256-k256-d16 first last
  local -a known=(tune $problem --gpu T4 --kernel fwd --db "$work/named.db")
  run "${known[@]}" --quiet
  "$fatune" show trials --csv --db "$work/named.db" | grep -o 'fwd:[^,]*' | sort -u >"$work/tried"
  first=$(head -1 "$work/tried") last=$(tail -1 "$work/tried")
  rm -f "$work/named.db"
  run "${known[@]}" --config "$first,$last,$first"
  code_is 0 "tune --config"
  if [[ $err =~ ([23])\ chosen ]]; then pass; else fail "tune --config of two tries others than these and the default"; fi
  run show trials --csv --db "$work/named.db"
  out_has "$first" "the trials of tune --config"
  out_has "$last" "the trials of tune --config"
  refuses 2 "Br is 7; allowed are" "${known[@]}" --config fwd:Br7
  refuses 2 "--config: fa1 is tried for none of the problems" "${known[@]}" --config fa1:Br32
  refuses 2 "expected ':' behind the kernel at column 4" "${known[@]}" --config "$first,fwd;"
}

test_empty_database() {
  refuses 3 "there is no tuning database $XDG_DATA_HOME/fatune/fatune.db yet" show
  run why fwd-f32-b1-h1-q64-k64-d64 --gpu T4
  code_is 0 "why without a database"
  out_has "-> default"
  run doctor --json
  json_ok "doctor --json"
  out_has '"what": "driver", "verdict": "note"'
}

# Where there is no database of one's own, what is wrong with the site's is told by every command that reads.
test_refused_site() {
  local problem=fwd-f32-b1-h1-q64-k64-d64 said
  local -x FATUNE_SYSTEM_DB=$work/site.db XDG_DATA_HOME=$work/nobody
  said="the system database $FATUNE_SYSTEM_DB is left out: "
  for wrong in missing others damaged folder; do
    case $wrong in
    others) echo >"$work/site.db" && chmod 666 "$work/site.db" ;;
    damaged) chmod 600 "$work/site.db" && head -c 8192 /dev/zero | tr '\0' x >"$work/site.db" ;;
    folder) rm "$work/site.db" && mkdir "$work/site.db" ;;
    esac
    for command in show "show runs" "report -o $work/report.html" export; do
      # shellcheck disable=SC2086
      refuses 3 "there is no tuning database $work/nobody/fatune/fatune.db yet: a tune makes it (fatune --gpu T4); $said" $command
    done
    for command in why render; do
      run $command $problem --gpu T4
      code_is 0 "$command above a site's database that is refused ($wrong)"
      err_has "fatune: note: $said" "$command above a site's database that is refused ($wrong)"
    done
  done
  rmdir "$work/site.db"
  HOME='' XDG_DATA_HOME='' refuses 2 "$said" show
}

# As a service or in a container: nothing of one's own can be found, what the package has can.
test_no_home() {
  local home=${HOME-} data=$XDG_DATA_HOME
  unset HOME XDG_DATA_HOME
  refuses 2 "HOME is not set" show
  refuses 2 "HOME is not set" tune --gpu T4
  run import --db "$work/site.db" "$root/db/tuned/h100.jsonl"
  FATUNE_SYSTEM_DB=$work/site.db run why bwd-bf16-b16-h32-q1024-k1024-d64 --gpu H100
  code_is 0 "why without HOME"
  out_has "measured 0." "why without HOME"
  run doctor
  is "$(grep -c 'HOME is not set' "$work/out")" 1 "findings of doctor without HOME"
  export HOME=$home XDG_DATA_HOME=$data
}

# A tune small enough to take seconds.
small=(--gpu T4 --dims 16 --causal no --seqlens 256)

test_tune() {
  run "${small[@]}" --json
  code_is 0 "tune --json"
  json_ok "tune --json"
  for key in gpu sm problem kernel config origin ms tflops registers spills shared blocks_per_sm limit gain_default \
    gain_standard; do
    out_has "\"$key\":" "tune --json"
  done
  err_has "valid, "
  err_has "Nothing was measured: no T4 is at hand"
  local begun took
  begun=$(worked)
  run "${small[@]}"
  took=$(($(worked) - begun))
  code_is 0 "the second tune"
  out_has "vs standard" "the table"
  out_has "predicted" "the table"
  out_has "Nothing was measured: no T4 is at hand"
  if [ "$took" -lt $((1000 * ${PATIENCE:-1})) ]; then pass; else fail "the second tune took $took ms"; fi
  if [[ $err != *compiled* ]]; then pass; else fail "the second tune compiled something"; fi
  err_has "are stored: there is nothing left to do"
  cp "$work/out" "$work/table"
  run "${small[@]}" --quiet
  if [ -z "$err" ] && cmp -s "$work/out" "$work/table"; then pass; else fail "--quiet prints something else"; fi
}

# Forward and backward in one table; the defaults come first, so a short budget has them all.
test_both_ops() {
  run --gpu T4 --dims 64,128 --ops fwd,bwd --dtypes f16 --causal yes --kernel fwd,bwd --budget 15s --db "$work/ops.db" --quiet
  code_is 0 "--ops fwd,bwd"
  for problem in fwd-f16-b4-h32-q4096-k4096-d64-causal fwd-f16-b4-h16-q4096-k4096-d128-causal bwd-f16-b4-h32-q4096-k4096-d64-causal \
    bwd-f16-b4-h16-q4096-k4096-d128-causal; do
    out_has "$problem" "--ops fwd,bwd"
  done
}

# One length that is too long is no end of the others.
test_tune_long_rows() {
  run --gpu T4 --dims 64 --dtypes f32 --causal yes --seqlens 256,8388608 --kernel fwd --effort quick --budget 1s \
    --db "$work/long.db"
  code_is 0 "tune with a length of 8388608"
  out_has "q8388608-k8388608-d64-causal" "tune with a length of 8388608"
}

# The configs that another command searched, in the order in which they were tried; not the twins made beside them.
tried() {
  "$fatune" "${small[@]}" --kernel fwd --jobs 1 --db "$work/$1" --quiet "${@:2}" >"$work/out" 2>"$work/err"
  "$fatune" show trials --json --db "$work/$1" | grep -v '"twin_of":"[^"]' |
    sed -n 's/.*"config":"\([^"]*\)".*/\1/p' >"$work/$1.tried"
}

test_order() {
  tried plain.db
  tried random.db --order random
  tried same.db --order random:1
  tried other.db --order random:2
  local count
  count=$(wc -l <"$work/random.db.tried")
  if [ "$count" -ge 12 ]; then pass; else fail "only $count configs were tried"; fi
  # The most promising first: what cannot become the best by its estimate is not compiled.
  if [ "$(wc -l <"$work/plain.db.tried")" -le "$count" ]; then pass; else fail "more are tried than chosen"; fi
  if cmp -s "$work/random.db.tried" "$work/same.db.tried"; then pass; else fail "random:1 is another order"; fi
  if cmp -s "$work/random.db.tried" "$work/plain.db.tried"; then fail "random is the usual order"; else pass; fi
  if cmp -s "$work/random.db.tried" "$work/other.db.tried"; then fail "random:2 is the order of random:1"; else pass; fi
  if [ "$(head -n 1 "$work/other.db.tried")" = "$(head -n 1 "$work/plain.db.tried")" ]; then pass
  else fail "the default does not come first"; fi
  run "${small[@]}" --kernel fwd --jobs 1 --db "$work/random.db" --order random
  if [[ $err != *compiled* ]]; then pass; else fail "the second random tune compiled something"; fi
  run "${small[@]}" --kernel fwd --db "$work/all.db" --effort exhaustive --budget 1s
  if [[ $err =~ ([0-9]+)\ valid,\ ([0-9]+)\ chosen ]] && [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]; then pass
  else fail "--effort exhaustive does not choose all"; fi
}

test_show() {
  run show best --json
  code_is 0 "show best --json"
  json_ok "show best --json"
  for pair in '"gpu":"T4"' '"sm":75' '"problem":"fwd-f32-b64-h128-q256-k256-d16"' '"origin":"predicted"' '"ms":' \
    '"tflops":' '"kernel":"fwd"' '"config":"fwd:' '"registers":' '"spills":' '"shared":' '"blocks_per_sm":'; do
    out_has "$pair" "show best --json"
  done
  for view in best trials failures runs rejections; do
    run show $view
    code_is 0 "show $view"
    run show $view --json
    json_ok "show $view --json"
  done
  run show runs
  out_has done "show runs"
  out_has "--dims 16" "show runs"
  run show rejections
  out_has "the tiles fit the 64 KB" "show rejections"
  run show
  out_has "fwd-f32-b64-h128-q256-k256-d16" show
}

test_why() {
  run why fwd-f32-b64-h128-q256-k256-d16 --gpu T4
  code_is 0 why
  out_has "-> predicted" why
  out_has "today's templates give the same source" why
  run why fwd-f32-b16-h128-q300-k256-d16 --gpu T4 --json
  json_ok "why --json"
  out_has '"step": "predicted"' "why --json"
  out_has '"distance":' "why --json"
  run why fwd-f32-b1-h1-q300-k256-d16 --gpu T4
  out_has "too far off" "why for one head, where 8,192 were tuned"
  run why fwd-f32-b1-h1-q300-k256-d16 --gpu T4 --kernel fa1
  out_has "fa1:" "why --kernel fa1"
  run why fwd-f32-b1-h1-q300-k256-d24 --gpu T4
  out_has "-> default" "why for another family"
  out_has "workspace   0 bytes beside the tensors" "why for a forward"
  run why bwd-f16-b2-h3-q128-k100-d64-det --gpu T4 # eight bytes a row: D, and log2(e) LSE
  out_has "workspace   6144 bytes beside the tensors" "why for a backward"
  run why bwd-f16-b2-h3-q128-k100-d64 --gpu T4 --json # and dQ in fp32
  out_has '"workspace": 202752' "why --json for a backward"
  run why fwd-f32-b1-h1-q300-k256-d16-partial --gpu T4
  code_is 1 "why for what no kernel serves"
  out_has "-> unsupported"
}

# A render is what a call gets: the tuned config, where why names one.
test_render_picked() {
  local config
  run why fwd-f32-b64-h128-q256-k256-d16 --gpu T4 --json
  config=$(sed -n 's/.*"config": "\([^"]*\)".*/\1/p' "$work/out" | head -1)
  run render fwd-f32-b64-h128-q256-k256-d16 --gpu T4
  code_is 0 "render of what is tuned"
  out_has "$config" "render of what is tuned"
  run render fwd-f32-b64-h128-q256-k256-d16 --gpu T4 --db "$work/none.db"
  code_is 2 "render with a database that is not there"
}

# What is stored, chosen and ordered; what a person at a terminal gets beside it.
test_show_filters() {
  refuses 2 "--db $work/none.db: there is no such file" show --db "$work/none.db"
  refuses 2 "--sort 'nothing': this view has no such column" show trials --sort nothing
  refuses 2 "--origin 'guessed': allowed are measured, predicted" show --origin guessed
  run show trials --csv
  code_is 0 "show --csv"
  local rows columns
  rows=$(tail -n +2 "$work/out" | wc -l)
  columns=$(head -n 1 "$work/out" | tr ',' '\n' | wc -l)
  if [ "$rows" = "$("$fatune" show trials | tail -n +2 | wc -l)" ] && [ "$columns" -gt 30 ]; then pass
  else fail "show --csv has $rows rows of $columns columns"; fi
  run show trials --kernel fa1 --csv
  if [ "$(tail -n +2 "$work/out" | grep -vc ,fa1,)" = 0 ] && [ "$(wc -l <"$work/out")" -gt 1 ]; then pass
  else fail "show --kernel"; fi
  run show trials --origin measured --csv
  if [ "$(wc -l <"$work/out")" = 1 ]; then pass; else fail "show --origin measured"; fi
  refuses 2 "unknown GPU 'T44': the nearest known are T4" show trials --gpu T44
  run show trials --gpu H200 --csv
  if [ "$(wc -l <"$work/out")" = 1 ]; then pass; else fail "show --gpu of another GPU"; fi
  err_has "nothing is stored that is asked for" "show --gpu of another GPU"
  run show trials --gpu t4 --problem q256 --top 3 --json
  json_ok "show trials --top 3 --json"
  if [ "$(grep -c '"problem"' "$work/out")" = 3 ]; then pass; else fail "show --top 3"; fi
  run show trials --problem d999 --json
  json_ok "show of nothing"
  if command -v python3 >/dev/null; then
    "$fatune" show trials --sort ms --json >"$work/up.json"
    "$fatune" show trials --sort -ms --json >"$work/down.json"
    if python3 - "$work/up.json" "$work/down.json" <<'EOF'; then pass; else fail "show --sort"; fi
import json, sys
up, down = ([r["ms"] for r in json.load(open(f)) if r["ms"] is not None] for f in sys.argv[1:])
assert len(up) > 3 and up == sorted(up) and down == sorted(down, reverse=True), (up, down)
EOF
    # A pseudo-terminal of 100 columns.
    seen() { python3 -c '
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
text = b""
try:
    while chunk := os.read(fd, 65536):
        text += chunk
except OSError:
    pass
os.waitpid(pid, 0)
sys.stdout.buffer.write(text.replace(b"\r\n", b"\n"))' "$@" >"$work/out"; out=$(<"$work/out"); }
    TERM=xterm NO_COLOR='' seen "$fatune" show trials
    out_has "gpu: T4" "show on a terminal"
    out_has $'\e[1;32m*' "the winner on a terminal"
    seen "$fatune" show rejections
    out_has "the tiles fit the 64 KB" "show rejections on a terminal"
    TERM=dumb seen "$fatune" show trials
    out_lacks $'\e[' "TERM=dumb"
    NO_COLOR=1 TERM=xterm seen "$fatune" "${small[@]}" --quiet
    out_lacks $'\e[' "NO_COLOR"
    out_has "Next: " "tune on a terminal"
    out_has "origin: predicted" "tune on a terminal"
    if [ "$(grep -c '^\*  ' "$work/out")" = 2 ]; then pass; else fail "not one winner of each problem is marked"; fi
  fi
}

# Sizes of 0 are problems like others: no kernel is launched for them, and any can be rendered.
test_nothing_to_compute() {
  local size problem kernel
  for size in b0-h4-q64-k64 b1-h4-q0-k64 b1-h4-q64-k0 b0-h4-q0-k0; do
    for problem in fwd-bf16-$size-d64 fwd-bf16-$size-d64-causal fwd-f32-$size-d64; do
      run why $problem --gpu H200
      code_is 0 "why $problem"
      out_has "-> none        " "why $problem"
      out_has "is 0: " "why $problem"
      refuses 2 " is needed" tune $problem --gpu H200 --db "$work/zero.db"
      for kernel in standard fa1 fwd fwd_ws; do
        if [[ $kernel-$problem == fwd_ws-fwd-f32* ]]; then continue; fi
        run why $problem --gpu H200 --kernel $kernel
        code_is 0 "why $problem --kernel $kernel"
        out_has "no kernel is needed" "why $problem --kernel $kernel"
        run render $problem --gpu H200 --kernel $kernel
        code_is 0 "render $problem --kernel $kernel"
        out_has "__global__" "render $problem --kernel $kernel"
      done
    done
  done
  run why fwd-f16-b0-h4-q64-k64-d64 --gpu H200 --json
  json_ok "why --json of a batch of 0"
  out_has '"step": "none"' "why --json of a batch of 0"
  if [ -e "$work/zero.db" ]; then fail "a tune of nothing made a database"; else pass; fi
  refuses 2 "fwd-f16-b1-h4-q0-k64-d64: q is 0: there is nothing to compute" tune fwd-f16-b1-h4-q64-k64-d64 fwd-f16-b1-h4-q0-k64-d64 --gpu H200
  run why fwd-f16-b0-h4-q64-k64-d64-partial --gpu T4
  code_is 1 "why for what no kernel serves, of a batch of 0"
  out_has "-> unsupported" "why for what no kernel serves, of a batch of 0"
}

test_share() {
  run export
  code_is 0 export
  cp "$work/out" "$work/rows.jsonl"
  local rows
  rows=$("$fatune" show trials | tail -n +2 | wc -l)
  run import <(cat "$work/rows.jsonl") --db "$work/piped.db" --json
  out_has "\"added\": $rows" "import of a pipe"
  run import "$work/rows.jsonl" --db "$work/second.db" --json
  code_is 0 import
  out_has "\"added\": $rows" import
  run import "$work/rows.jsonl" --db "$work/second.db" --json
  out_has "\"kept\": $rows" "the second import"
  run merge "$work/second.db" --db "$work/third.db" --json
  code_is 0 merge
  out_has "\"added\": $rows" merge
  run show best --db "$work/third.db"
  out_has "fwd-f32-b64-h128-q256-k256-d16" "the merged database"
  "$fatune" export "$work/file.jsonl" --db "$work/third.db" --quiet
  if [ "$(wc -l <"$work/file.jsonl")" = "$(wc -l <"$work/rows.jsonl")" ]; then pass; else fail "rows got lost"; fi
  refuses 2 "is a database: \`fatune merge\`" import "$work/third.db" --db "$work/second.db"
  echo '{"not": "a row"}' >"$work/wrong.jsonl"
  run import "$work/wrong.jsonl" --db "$work/third.db"
  code_is 2 "import of what is no row"
  out_has "1 refused"
  refuses 2 "no-such-file" import "$work/no-such-file"
  refuses 2 "no-such.db" merge "$work/no-such.db"
}

# A page of a table beside the trials is gone: all rows are written, without what stood there, and can be taken again.
test_damaged_export() {
  if ! command -v python3 >/dev/null; then return; fi
  mkdir -p -m 700 "$work/hurt"
  python3 -c 'import sqlite3, sys
page = sqlite3.connect(sys.argv[1]).execute("SELECT rootpage FROM sqlite_schema WHERE name = \"run\"").fetchone()[0]
data = bytearray(open(sys.argv[1], "rb").read())
data[(page - 1) * 4096:page * 4096] = b"\xa5" * 4096
open(sys.argv[2], "wb").write(data)' "$XDG_DATA_HOME/fatune/fatune.db" "$work/hurt/one.db"
  chmod 600 "$work/hurt/one.db"
  local rows
  rows=$("$fatune" show trials --csv | tail -n +2 | wc -l)
  run export --db "$work/hurt/one.db" "$work/hurt/rows.jsonl"
  code_is 3 "export of a damaged database"
  err_has "is damaged: of its rows $rows could be read, 0 could not" "export of a damaged database"
  run import "$work/hurt/rows.jsonl" --db "$work/hurt/new.db"
  out_has "$rows rows added" "import of what could be read"
}

# A file that is there is written over only where --force says so, the database by no name, and never in part.
test_export_keeps_files() {
  local own=$work/own.db rows
  cp "$XDG_DATA_HOME/fatune/fatune.db" "$own"
  cp "$own" "$work/own.before"
  rows=$("$fatune" export --db "$own" | wc -l)
  ln -s own.db "$work/own.link"
  ln "$own" "$work/own.hard"
  for name in own.db own.link own.hard; do
    refuses 2 "is the database itself" export "$work/$name" --db "$own"
    refuses 2 "is the database itself" export "$work/$name" --db "$own" --force
    refuses 2 "is the database itself" export "$work/$name" --db "$work/own.link" --force
  done
  if cmp -s "$own" "$work/own.before"; then pass; else fail "the database was changed"; fi
  echo precious >"$work/kept.jsonl"
  ln -s kept.jsonl "$work/kept.link"
  chmod 640 "$work/kept.jsonl"
  refuses 2 "is there already: --force" export "$work/kept.jsonl" --db "$own"
  refuses 2 "--gpu goes with --winners" export --gpu T4 --db "$own"
  refuses 2 "is there already: --force" export "$work/kept.link" --db "$own"
  if [ "$(<"$work/kept.jsonl")" = precious ]; then pass; else fail "a file was written over"; fi
  run export "$work/kept.link" --db "$own" --force
  code_is 0 "export --force"
  err_has "wrote $rows rows to $work/kept.link" "export --force"
  if [ -L "$work/kept.link" ] && [ "$(wc -l <"$work/kept.jsonl")" = "$rows" ]; then pass; else fail "export --force by a link"; fi
  if [ "$(stat -c %a "$work/kept.jsonl")" = 640 ]; then pass; else fail "export --force changes a file's mode"; fi
  run export "$work/new.jsonl" --db "$own" --quiet
  code_is 0 "export to a new file"
  if [ -z "$err" ] && cmp -s "$work/new.jsonl" "$work/kept.jsonl"; then pass; else fail "export to a new file"; fi
  for name in /dev/stdout -; do
    if "$fatune" export $name --db "$own" 2>/dev/null | cmp -s - "$work/new.jsonl"; then pass; else fail "export to $name"; fi
  done
  echo precious >"$work/kept.jsonl"
  (ulimit -f 1 && exec "$fatune" export "$work/kept.jsonl" --db "$own" --force) >"$work/out" 2>"$work/err" </dev/null
  code=$? err=$(<"$work/err")
  code_is 3 "export to a full disk"
  err_has "cannot be written" "export to a full disk"
  if [ "$(<"$work/kept.jsonl")" = precious ]; then pass; else fail "a file was lost to a full disk"; fi
  if [ -z "$(find "$work" -maxdepth 1 -name '.fatune-*')" ]; then pass; else fail "export leaves a file behind"; fi
}

# Less in the database; many databases in one.
test_forget() {
  local db=$work/forget.db
  "$fatune" export | "$fatune" import --db "$db" --quiet >/dev/null
  refuses 2 "forget needs a word that says which" forget --db "$db"
  refuses 2 "there is no such file" forget --gpu T4 --db "$work/none.db"
  refuses 2 "unknown GPU" forget --gpu T44 --db "$db"
  refuses 2 "there is no such file" compact --db "$work/none.db"
  run forget --kernel fa1 --db "$db"
  code_is 0 "forget --kernel"
  out_has "trials are forgotten; \`fatune compact\`" "forget --kernel"
  run forget --kernel fa1 --db "$db"
  out_has "0 trials are forgotten: none agrees" "forget --kernel again"
  run show trials --kernel fa1 --csv --db "$db"
  if [ "$(wc -l <"$work/out")" = 1 ]; then pass; else fail "forget leaves fa1"; fi
  run show best --csv --db "$db"
  out_has ",fwd," "what forget leaves"
  run forget --gpu t4 --db "$db" --json
  json_ok "forget --json"
  run compact --db "$db" --json
  json_ok "compact --json"
  out_has '"after"' "compact --json"
  run show best --csv --db "$db"
  if [ "$(wc -l <"$work/out")" = 1 ]; then pass; else fail "forget leaves winners"; fi
}

# The page holds everything, names no other place, and a browser draws it: every trial, on a screen as narrow as a phone's.
test_report() {
  local trials browser
  run report -o "$work/report.html"
  code_is 0 report
  trials=$("$fatune" show trials --csv | tail -n +2 | wc -l)
  err_has "wrote $trials trials" report
  refuses 2 "is there already: --force writes over it" report -o "$work/report.html"
  refuses 2 "is the database itself" report --force -o "$XDG_DATA_HOME/fatune/fatune.db"
  if grep -oE '(https?:)?//[a-z0-9.]+\.[a-z]+' "$work/report.html" | grep -v '//www.w3.org' | grep -q .; then fail "the report names other places"
  else pass; fi
  refuses 2 "there is nothing to draw" report --gpu H200 -o "$work/empty.html"
  run report --kernel fa1,fwd -o "$work/two.html"
  err_has "wrote $("$fatune" show trials --kernel fa1,fwd --csv | tail -n +2 | wc -l) trials" "report of two kernels"
  run report -o -
  code_is 0 "report -o -"
  out_has '<!doctype html>' "report -o -"
  browser=$(command -v chromium || command -v google-chrome)
  if [ -z "$browser" ]; then
    echo "left out: no browser is installed that could draw the report"
    return
  fi
  HOME=$work timeout 120 "$browser" --headless --no-sandbox --disable-gpu --window-size=360,800 --dump-dom "file://$work/report.html" \
    >"$work/out" 2>/dev/null
  out=$(<"$work/out")
  out_has 'data-state="drawn"' "the report in a browser"
  out_has "data-trials=\"$trials\"" "the report in a browser"
  for part in winners roofline what-binds space tunables search left-out made-with heat; do
    out_has "id=\"$part\"" "the report in a browser"
  done
  if [[ $out =~ data-overflow=\"(-?[0-9]+)\" ]] && [ "${BASH_REMATCH[1]}" -le 0 ]; then pass; else fail "the report is wider than a phone"; fi
}

test_merge_many() {
  local i files=()
  for i in 1 2 3; do
    "$fatune" export | sed -n "${i}p" | "$fatune" import --db "$work/part$i.db" --quiet >/dev/null
    files+=("$work/part$i.db")
  done
  echo "no database" >"$work/part4.db"
  chmod 600 "$work/part4.db"
  run merge "${files[0]}" "$work/part4.db" "$work/part5.db" "${files[@]:1}" --db "$work/all-parts.db"
  code_is 2 "merge of files of which two are none"
  err_has "part4.db" "merge of files of which two are none"
  err_has "part5.db" "merge of files of which two are none"
  out_has "3 rows added" "merge of files of which two are none"
  run merge "${files[@]}" --db "$work/all-parts.db" --json
  code_is 0 "the same merge again"
  out_has '"kept": 3' "the same merge again"
}

test_databases() {
  echo "something else" >"$work/foreign.db"
  refuses 2 "foreign.db" "${small[@]}" --db "$work/foreign.db" --quiet
  if [ "$(<"$work/foreign.db")" = "something else" ]; then pass; else fail "a foreign file was changed"; fi
  refuses 2 "/proc/" "${small[@]}" --db /proc/no/such.db --quiet
  cp "$XDG_DATA_HOME/fatune/fatune.db" "$work/open.db"
  chmod 666 "$work/open.db"
  refuses 2 "open.db" show --db "$work/open.db"
  run doctor --db "$work/open.db"
  code_is 3 "doctor with a database that others may write"
  out_has "problem"
  run doctor
  code_is 0 doctor
  out_has "its content is sound" doctor
  chmod 644 "$work/open.db"
  XDG_DATA_HOME=$work/nowhere FATUNE_SYSTEM_DB=$work/open.db refuses 3 "of your own yet" compact
  if [ -e "$work/nowhere" ]; then fail "compact made a database"; else pass; fi
  FATUNE_SYSTEM_DB=$work/open.db run show runs
  if [[ $out =~ $'\n 1  user ' && $out =~ $'\n 1  system ' ]]; then pass; else fail "runs of two databases look alike"; fi
}

# The PID of a tune in the background that has stored something, in $tuner. It compiles in earnest, so that it is not done
# before it is stopped; what it begins with compiles fast.
long=(--gpu T4 --dims 8,16,24,32 --dtypes f32)
start_tune() {
  NVRTC_MEMORY='' "$fatune" "${long[@]}" --db "$1" >"$work/bg.out" 2>"$work/bg.err" &
  tuner=$!
  wait_for shows_trials "$1" || fail "a tune ended and stored nothing"
}
shows_trials() { [ "$("$fatune" show trials --db "$1" 2>/dev/null | wc -l)" -gt 3 ]; }

test_two_tuners() {
  start_tune "$work/two.db"
  run show runs --db "$work/two.db"
  out_has running "show runs beside a tune"
  refuses 3 "$tuner" --gpu T4 --dims 64 --db "$work/two.db" --quiet
  kill -TERM "$tuner"
  wait "$tuner"
  code=$?
  code_is 143 "a tune stopped by SIGTERM"
  if ! command -v python3 >/dev/null; then return; fi
  rm -f "$work/err" # which the holder of the lock waits for
  : >"$work/holder"
  python3 -c 'import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
for i in range(600):
    if os.path.exists(sys.argv[2]) and "waiting" in open(sys.argv[2]).read(): break
    time.sleep(0.05)' "$work/two.db" "$work/err" >"$work/holder" &
  tuner=$!
  wait_for grep -q held "$work/holder"
  run compact --db "$work/two.db"
  code_is 0 "a command that waits for a lock"
  err_has "waiting for database $work/two.db, which another process has locked"
  wait "$tuner"
}

test_interrupt() {
  start_tune "$work/stop.db"
  local begun patience
  patience=$(slowness) begun=$SECONDS
  kill -INT "$tuner"
  wait "$tuner"
  code=$?
  out=$(<"$work/bg.out") err=$(<"$work/bg.err")
  code_is 130 "a tune stopped by SIGINT"
  if [ $((SECONDS - begun)) -lt $((5 * patience)) ]; then pass; else fail "stopping took $((SECONDS - begun)) s"; fi
  out_has "vs standard" "the best so far"
  err_has "stopping when what runs now has ended; Ctrl-C again stops at once"
  err_has "goes on from there"
  local stored
  stored=$("$fatune" show trials --db "$work/stop.db" | tail -n +2 | wc -l)
  run "${long[@]}" --db "$work/stop.db" --budget 1s
  code_is 0 "the same command again"
  err_has "$stored of them stored"
  run show runs --db "$work/stop.db"
  out_has interrupted "show runs"
  out_has budget "show runs"
}

test_kill() {
  start_tune "$work/kill.db"
  kill -KILL "$tuner"
  wait "$tuner" 2>/dev/null
  run doctor --db "$work/kill.db"
  out_has "its content is sound" "after a kill"
  run show runs --db "$work/kill.db"
  out_has stopped "show runs"
  out_lacks running "show runs"
  run "${long[@]}" --db "$work/kill.db" --budget 1s --quiet
  code_is 0 "a tune after a kill"
}

# A limit on the size of files stands for a full disk.
test_full_disk() {
  (
    ulimit -f 250
    exec "$fatune" --gpu T4 --dims 64 --causal no --db "$work/full.db" --quiet
  ) >"$work/out" 2>"$work/err" </dev/null
  code=$? out=$(<"$work/out") err=$(<"$work/err")
  code_is 3 "a full disk"
  err_has "no space left"
  err_has "run the same command again"
  run doctor --db "$work/full.db"
  out_has "its content is sound" "after a full disk"
  run --gpu T4 --dims 64 --causal no --db "$work/full.db" --budget 1s --quiet
  code_is 0 "a tune after a full disk"
}

test_dump() {
  run "${small[@]}" --kernel fwd --effort quick --db "$work/dump.db" --dump "$work/dump" --quiet
  code_is 0 "tune --dump"
  if ls "$work/dump"/fwd-f32-b64-h128-q256-k256-d16@sm_75-fwd-*.cu >/dev/null 2>&1; then pass
  else fail "--dump wrote no .cu"; fi
  if ls "$work/dump"/*.cubin >/dev/null 2>&1; then pass; else fail "--dump wrote no .cubin"; fi
  # Its names can be guessed: a link that somebody has laid there is replaced, and what it points to kept.
  local name
  name=$(basename "$(ls "$work/dump"/*.cu | head -1)")
  mkdir "$work/laid"
  echo precious >"$work/kept.cu"
  ln -s "$work/kept.cu" "$work/laid/$name"
  run "${small[@]}" --kernel fwd --effort quick --db "$work/laid.db" --dump "$work/laid" --quiet
  code_is 0 "tune --dump over a link"
  if [ "$(<"$work/kept.cu")" = precious ]; then pass; else fail "--dump follows a link"; fi
  if [ ! -L "$work/laid/$name" ] && cmp -s "$work/laid/$name" "$work/dump/$name"; then pass; else fail "--dump over a link"; fi
}

# A copy of the templates with one line more somewhere.
broken_templates() {
  rm -rf "$work/templates"
  cp -r "$root/templates" "$work/templates"
  printf '%s\n' "$2" >>"$work/templates/$1"
}

test_templates() {
  local tune=(--gpu T4 --dims 16 --causal no --seqlens 256 --kernel fwd --db "$work/templates.db")
  broken_templates fwd.cu '$(no_such_name)'
  run render fwd-f32-b1-h1-q64-k64-d64 --gpu T4 --templates "$work/templates"
  code_is 3 "a hole that is no name"
  err_has "fwd.cu:"
  err_has "no_such_name"
  run doctor --templates "$work/templates"
  code_is 3 "doctor with a broken template"
  broken_templates fwd.lua 'while true do end'
  run render fwd-f32-b1-h1-q64-k64-d64 --gpu T4 --templates "$work/templates"
  code_is 3 "endless Lua"
  err_has "fwd.lua"
  refuses 3 "no-such-folder" render fwd-f32-b1-h1-q64-k64-d64 --gpu T4 --templates "$work/no-such-folder"
  if ! has_nvrtc; then return; fi
  broken_templates fwd.cu 'this is no CUDA;'
  FATUNE_TEMPLATES=$work/templates run "${tune[@]}" --quiet
  code_is 1 "templates that do not compile"
  out_has "(none works: compile-failed)"
  run show failures --db "$work/templates.db"
  out_has compile-failed "show failures"
  out_has "fwd.cu($(wc -l <"$work/templates/fwd.cu"))" "show failures"
  run "${tune[@]}" --quiet
  code_is 0 "the same with good templates"
  run "${tune[@]}"
  if [[ $err != *compiled* ]]; then pass; else fail "the third tune compiled something"; fi
}

test_nvrtc() {
  FATUNE_NVRTC=$work/none run "${small[@]}"
  code_is 3 "tune without NVRTC"
  err_has "FATUNE_NVRTC"
  FATUNE_NVRTC=$work/none run doctor
  code_is 3 "doctor without NVRTC"
  FATUNE_NVRTC=$work/none run show
  code_is 0 "show without NVRTC"
  FATUNE_NVRTC=$work/none run why fwd-f32-b64-h128-q256-k256-d16 --gpu T4
  code_is 0 "why without NVRTC"
}

tests=(overview usage words forms_of_help why_family no_gpu show_gpus render long_rows nothing_to_compute empty_database refused_site no_home)
if has_nvrtc; then
  tests+=(tune both_ops tune_long_rows order show why render_picked plain_winner other_half package_wins passed_over named_configs show_filters share export_keeps_files damaged_export forget merge_many report databases nvrtc two_tuners interrupt kill full_disk dump)
else
  echo "left out: there is no usable libnvrtc, so nothing can be tuned"
fi
tests+=(templates)
run_tests "${tests[@]}"
