#!/bin/sh
# coverage.sh BUILD -- which lines of runtime/ and db/ the tests reach, in a BUILD that was configured with
# -DFATUNE_COVERAGE=ON by gcc and whose tests have run. Prints a row for each file, and each gap that the list
# beside this file (coverage.txt) does not have. Exit 1 where a folder has less than LEAST percent of its lines, a
# gap is not listed, or the list names a line that is not there (any more).
set -u
[ $# = 1 ] && [ -d "$1" ] || {
  echo "usage: coverage.sh BUILD" >&2
  exit 2
}
build=$(readlink -f "$1")
root=$(dirname "$(dirname "$(readlink -f "$0")")")
listed=$root/tests/coverage.txt
LEAST=95
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Compiled files as FILE OBJECT: the notes of the compiler lie beside the object.
cd "$root" || exit 2
for file in db/*.c runtime/*.c runtime/jit/*.c; do
  notes=$(find "$build" -path "*.dir/*" -name "$(basename "$file").gcno" | grep -E "/(db|runtime|libfatune_jit)\.dir/" |
    grep "/$(basename "$(dirname "$file")")/$(basename "$file")\.gcno\$")
  [ -n "$notes" ] || {
    echo "$file: $build does not count its lines: configure it with -DFATUNE_COVERAGE=ON"
    exit 1
  }
  (cd "$work" && gcov -t -o "$notes" "$root/$file" 2>/dev/null) | awk -v file="$file" -F: '
    $2 + 0 > 0 && $1 !~ /^ *-$/ {
      text = $0
      sub(/^[^:]*:[^:]*:[ \t]*/, "", text)
      print file "\t" $2 + 0 "\t" ($1 ~ /#####|=====/ && text != "{" ? 0 : 1) "\t" text
    }' >>"$work/lines"
done

status=0
awk -F'\t' -v least=$LEAST '
  { all[$1]++; ran[$1] += $3; folder = $1; sub(/\/.*/, "", folder); lines[folder]++; sum[folder] += $3 }
  $1 != last { order[++files] = last = $1 }
  END {
    for (i = 1; i <= files; i++)
      printf "%5.1f %%  %4d of %4d  %s\n", 100 * ran[order[i]] / all[order[i]], ran[order[i]], all[order[i]], order[i]
    for (folder in lines) {
      part = 100 * sum[folder] / lines[folder]
      printf "%5.1f %%  %4d of %4d  %s/%s\n", part, sum[folder], lines[folder], folder, part < least ? ": too few" : ""
      low += part < least
    }
    exit low > 0
  }' "$work/lines" || status=1

# The list: a reason as "# ...", below it lines as FILE: TEXT, or what lines of any file begin with as *: TEXT.
sed -n 's/^\([^#:]*\): /\1\t/p' "$listed" >"$work/listed"
awk -F'\t' '
  FILENAME == ARGV[1] { if ($1 == "*") any[$2]; else known[$1 "\t" $2]; next }
  $3 == 0 {
    found = ($1 "\t" $4) in known
    for (start in any)
      found = found || index($4, start) == 1
    if (!found) { print $1 ":" $2 ": no test runs this: " $4; new++ }
  }
  END { exit new > 0 }' "$work/listed" "$work/lines" || status=1
awk -F'\t' '
  FILENAME == ARGV[1] { there[$1 "\t" $4]; next }
  $1 != "*" && !(($1 "\t" $2) in there) { print "tests/coverage.txt: " $1 " has no such line: " $2; old++ }
  END { exit old > 0 }' "$work/lines" "$work/listed" || status=1
exit $status
