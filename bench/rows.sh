#!/usr/bin/env bash
# rows.sh FATUNE DB -- the measured trials of a database as the rows that bench_model and bench_pick read, on stdout.
#
# Kept with a date and a GPU under results/, they show how well the model ranks. A calibration measures configs by
# lot, so that the rows say something of the whole space:
#   fatune --dims 64,96,128,256 --dtypes f16 --seqlens 4096 --kernel fwd --effort full --order random:1 --db F
set -eu
fatune=${1:?the first argument is the program} db=${2:?the second argument is a database}

"$fatune" show runs --json --db "$db" | sed -n 's/.*"begun":"\([^"]*\)".*"command":"\([^"]*\)".*/# \1 \2/p'
"$fatune" show trials --json --db "$db" | grep '"origin":"measured"' | grep -v '"detail":"twin of ' |
  sed -n 's/.*"gpu":"\([^"]*\)".*"driver":"\([^"]*\)","nvrtc":"\([^"]*\)".*/# \1, driver \2, NVRTC \3/p' | sort -u
printf 'problem\tconfig\tregisters\tspills\tms\n'
"$fatune" show trials --json --db "$db" | grep '"origin":"measured"' | grep -v '"detail":"twin of ' |
  grep '"ms":[0-9]' | sed -n 's/.*"problem":"\([^"]*\)".*"config":"\([^"]*\)".*"ms":\([^,]*\),.*"registers":\([^,]*\),.*"spills":\([^,]*\),.*/\1\t\2\t\4\t\5\t\3/p' |
  LC_ALL=C sort -u
