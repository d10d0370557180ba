#!/bin/sh
# nvrtc_memory.sh PROBE LIBRARY FOLDER COMMAND... -- runs a test with the libnvrtc that remembers (nvrtc_memory.c) in front
# of the one that PROBE finds; where there is none, as it is. NVRTC_MEMORY, if set, stands for FOLDER: variants of the
# build share one by it, and empty it has all compiled anew.
probe=$1 library=$2 folder=${NVRTC_MEMORY-$3}
shift 3
if answer=$("$probe"); then
  [ -z "$folder" ] || mkdir -p "$folder"
  export NVRTC_REAL="${answer#* }" NVRTC_MEMORY="$folder" FATUNE_NVRTC="$library"
fi
exec "$@"
