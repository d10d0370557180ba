#!/usr/bin/env bash
# doctor.sh FATUNE FAKE_NVML FAKE_CUDA -- what `fatune doctor` finds in a machine, and what it says to do.
#
# The GPUs are those of the fake NVML and the fake driver; folders are made here. Prints `N passed, N failed`.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

nvml=$(realpath "${2:?the second argument is fake_nvml.so}")
cuda=$(realpath "${3:?the third argument is fake_cuda.so}")
unset FAKE_NVML FAKE_NVML_INIT

# A GPU in good order: nobody uses it, nothing holds it back.
good='name=NVIDIA H200,mig=00,mode=0,persistent=1,sm=345,sm_most=1980,mem=3201,mem_most=3201,slow=1'
good=$good,bytes=150754820096,used=1073741824

doctor() { run doctor --db "$work/own/fatune.db" "$@"; }

# finds VERDICT WHAT TEXT -- a line of the last output.
finds() {
  if grep -E "^$1 +$2 +" "$work/out" | grep -qF -- "$3"; then pass; else fail "no '$1 $2 ... $3'"; fi
}

test_without_nvml() {
  mkdir -m 700 "$work/own"
  doctor
  finds note NVML "no-such-libnvidia-ml.so: cannot open"
  FATUNE_LIBNVML=$cuda doctor
  finds note NVML "has no function nvml"
  FATUNE_LIBNVML=$nvml FAKE_NVML_INIT=9 doctor
  finds note NVML "nvmlInit_v2: Driver Not Loaded (9)"
  out_lacks "SMs" "NVML without a driver"
}

test_good_gpu() {
  export FATUNE_LIBNVML=$nvml
  FATUNE_LIBCUDA=$cuda FAKE_CUDA_DEVICES=H200 FAKE_NVML=$good doctor
  finds ok device "H200"
  finds ok NVML "0: NVIDIA H200"
  finds ok MIG "0: MIG is off"
  finds ok mode "open to all"
  finds ok clocks "SMs at 345 of 1980 MHz, memory at 3201 of 3201 MHz; idle"
  finds ok persistence "stays loaded"
  finds ok users "no other process uses it; 1024 of 143771 MiB are taken"
  FAKE_NVML='name=Tesla K80;' doctor
  finds ok NVML "0: Tesla K80"
  finds ok mode "0: not told"
  finds ok clocks "SMs not told, memory not told"
  finds ok users "no other process"
  out_lacks MIG "a GPU without MIG"
}

test_gpu_in_use() {
  export FAKE_NVML="$good,process=$$:2147483648,process=99999999:-1;${good/slow=1/slow=0x66}"
  doctor
  finds note users "process $$ ($(</proc/$$/comm)) with 2048 MiB, process 99999999 (of another container);"
  out_has "let them end before measuring"
  finds note clocks "1: SMs at 345 of 1980 MHz, memory at 3201 of 3201 MHz; held back: too hot, warm, power cap, clocks set"
  out_has "see to its cooling"
  doctor --json
  json_ok "doctor --json"
  out_has '"what": "users", "verdict": "note"' "doctor --json"
  local many=$good
  for pid in $(seq 100001 100070); do many=$many,process=$pid:1; done
  FAKE_NVML=$many doctor
  finds note users "0: 70 processes"
  many=$good
  for pid in $(seq 100001 100020); do many=$many,process=$pid:1; done
  FAKE_NVML=$many doctor
  finds note users "12 processes more"
  unset FAKE_NVML
}

test_modes() {
  FAKE_NVML="${good/mig=00/mig=11};${good/mig=00/mig=10}" doctor
  finds note MIG "0: MIG is on"
  out_has "nvidia-smi -i 0 -mig 0" MIG
  finds note MIG "1: MIG is on, and off after the next reset"
  out_has "--gpu-reset -i 1" MIG
  FAKE_NVML=${good/mode=0/mode=3} doctor
  finds note mode "exclusive: one process"
  FAKE_NVML="${good/mode=0/mode=2};$good" doctor
  finds note mode "0: prohibited"
  FAKE_NVML=${good/mode=0/mode=2} doctor
  code_is 3 "doctor where no GPU may be used"
  finds problem mode "0: prohibited"
  out_has "nvidia-smi -i 0 -c DEFAULT" "a prohibited GPU"
  FAKE_NVML=${good/persistent=1/persistent=0} doctor
  finds note persistence "is unloaded"
  out_has "-pm 1" persistence
}

test_folders() {
  doctor
  finds ok folder "$work/own, mode 0700"
  finds note database "there is no database"
  run doctor --db "$work/new/deep/fatune.db"
  finds ok folder "$work/new/deep is not there yet and can be made"
  if [ ! -e "$work/new" ]; then pass; else fail "doctor made a folder"; fi
  mkdir "$work/open" && chmod 777 "$work/open"
  run doctor --db "$work/open/fatune.db"
  finds problem folder "$work/open, mode 0777: others may write it"
  out_has "chmod go-w $work/open" "an open folder"
  FATUNE_TRUST_DB=1 run doctor --db "$work/open/fatune.db"
  finds note folder "others may write it"
  : >"$work/file"
  run doctor --db "$work/file/fatune.db"
  finds problem folder "$work/file: it is no folder"
  code_is 3 "doctor where no folder can be made"
  mkdir -p "$XDG_DATA_HOME/fatune/nvrtc" && chmod 775 "$XDG_DATA_HOME/fatune/nvrtc"
  doctor --dump "$work/dumps"
  finds problem cache "$XDG_DATA_HOME/fatune/nvrtc, mode 0775: others may write it"
  finds ok dump "$work/dumps is not there yet and can be made"
  chmod 755 "$XDG_DATA_HOME/fatune/nvrtc"
  doctor
  finds ok cache "$XDG_DATA_HOME/fatune/nvrtc, mode 0755"
  echo "no database" >"$work/own/foreign.db"
  chmod 666 "$work/own/foreign.db"
  run doctor --db "$work/own/foreign.db"
  finds problem database "foreign.db, mode 0666: others may write it"
  chmod 600 "$work/own/foreign.db"
  run doctor --db "$work/own/foreign.db"
  finds ok database "foreign.db, 0.0 MB, mode 0600"
  code_is 3 "doctor with a file that is no database"
}

# Rights mean something to a user who is not root only.
test_rights() {
  mkdir -m 500 "$work/closed"
  if [ -w "$work/closed" ]; then
    echo "left out: root may write everywhere"
    return
  fi
  run doctor --db "$work/closed/fatune.db"
  finds problem folder "$work/closed: nothing can be written there"
  : >"$work/own/sealed.db"
  chmod 400 "$work/own/sealed.db"
  run doctor --db "$work/own/sealed.db"
  out_has "a tune cannot store in it: chmod u+rw" "a file that cannot be written"
}

run_tests without_nvml good_gpu gpu_in_use modes folders rights
