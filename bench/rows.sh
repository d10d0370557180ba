#!/usr/bin/env bash
# rows.sh FATUNE DB -- the measured trials of a database as the rows that bench_model and bench_pick read, on stdout:
# problem, config, registers, bytes spilled, milliseconds, the SMs' clock meanwhile (- where it was timed too briefly).
#
# Kept with a date and a GPU under results/, they show how well the model ranks. A calibration measures configs by
# lot, so that the rows say something of the whole space:
#   fatune --dims 64,96,128,256 --dtypes f16 --seqlens 4096 --kernel fwd --effort full --order random:1 --db F
set -eu
fatune=${1:?the first argument is the program} db=${2:?the second argument is a database}
export FATUNE_SYSTEM_DB= # what a package shipped was measured elsewhere

"$fatune" show runs --json --db "$db" |
  sed -n 's/.*"begun":"\([^"]*\)".*"command":"\([^"]*\)".*/# \1 \2/p' | sed 's/ --db [^ ]*//'
measured() { "$fatune" show trials --json --db "$db" | grep '"origin":"measured"' | grep -v '"twin_of":"[^"]'; }
measured | sed -n 's/.*"gpu":"\([^"]*\)".*"driver":"\([^"]*\)","made_by":"","nvrtc":"\([^"]*\)".*/# \1, driver \2, NVRTC \3/p' | sort -u
printf 'problem\tconfig\tregisters\tspills\tms\tmhz\n'
column() { printf '.*"%s":"\{0,1\}\([^",]*\)' "$@"; }
measured | grep '"ms":[0-9]' |
  sed -n "s/$(column problem config ms registers spills clock_mhz).*/\\1\t\\2\t\\4\t\\5\t\\3\t\\6/p" |
  awk -F'\t' -v OFS='\t' '{ $5 = sprintf("%.5g", $5); $6 = $6 == "null" ? "-" : sprintf("%.0f", $6) } 1' | LC_ALL=C sort -u
