#!/bin/sh
# includes.sh -- who includes whom: prints each breach as FILE: and what the rule is; exit 1 if there is any.
#
# A room is a folder. An include goes to an earlier room or stays in its own, where modules form no circle: X.c and X.h
# are one module, and so are the files named below. What a file of tuner defines for others stands in the header of its
# own name. A header of tuner is included by at most a third of the files of tuner's other rooms.
set -u
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
rooms="generator db runtime tuner/oracle tuner/worker tuner/search tuner/cli"
# The text of a problem is read and printed by four files, what follows from it alone by two, a choice is made by two that share a private header.
parts="generator/feature=generator/problem generator/words=generator/problem generator/sees=generator/problem generator/draw=generator/problem
  runtime/choosing=runtime/choose runtime/take=runtime/choose"

for room in $rooms; do
  git ls-files -- "$room/*.[ch]" | grep -E "^$room/[^/]*$"
done | awk -v rooms="$rooms" -v parts="$(echo $parts)" '
  function fail(file, rule) { print file ": " rule; breaches++ }

  # The file that an include names: of the own room, by room and name, or of one of the folders that all can see.
  function find(room, name,   i) {
    if (room "/" name in is_file) return room "/" name
    if ("tuner/" name in is_file) return "tuner/" name
    for (i = 1; i <= 3; i++)
      if (order[i] "/" name in is_file) return order[i] "/" name
    return ""
  }

  # Follows the modules of a room from one that is on the way; reports a circle by the way to it.
  function visit(module, way,   list, n, i) {
    if (state[module] == "done") return
    if (state[module] == "open") { fail(module, "files of a room form no circle:" way " " module); return }
    state[module] = "open"
    n = split(uses[module], list, " ")
    for (i = 1; i <= n; i++) visit(list[i], way " " module)
    state[module] = "done"
  }

  function module_of(file) { sub(/\.[ch]$/, "", file); return file in part_of ? part_of[file] : file }
  function room_of(file) { sub(/\/[^\/]*$/, "", file); return file }

  BEGIN {
    count = split(rooms, order, " ")
    for (i = 1; i <= count; i++) rank[order[i]] = i
    count = split(parts, list, " ")
    for (i = 1; i <= count; i++) { split(list[i], two, "="); part_of[two[1]] = two[2] }
  }
  { files[++total] = $0; is_file[$0] = 1; if ($0 ~ /^tuner/) { tuner++; size[room_of($0)]++ } }
  END {
    for (f = 1; f <= total; f++) {
      file = files[f]; room = room_of(file); module = module_of(file)
      while ((getline line < file) > 0) {
        if (line ~ /^#include "/) {
          split(line, part, "\"")
          target = find(room, part[2])
          if (target == "") continue # of a folder of its own, as runtime/jit
          other = room_of(target)
          if (rank[other] > rank[room]) fail(file, "includes " target ", which stands on it")
          if (other == room && module_of(target) != module) uses[module] = uses[module] " " module_of(target)
          if (other != room) users[target]++
        }
        # A definition that others may call: its first line begins in column 1.
        if (room ~ /^tuner/ && file ~ /\.c$/ && line ~ /^[a-z].*[ *]fat_[a-z0-9_]+\(/ && line !~ /^(static|extern|typedef)/) {
          name = line; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
          defined[module " " name] = file
        }
      }
      close(file)
    }
    for (f = 1; f <= total; f++) visit(module_of(files[f]), "")
    for (key in defined) {
      split(key, part, " "); header = part[1] ".h"; found = 0
      while ((getline line < header) > 0) if (index(line, part[2] "(")) found = 1
      close(header)
      if (!found) fail(defined[key], "defines " part[2] ", which its own header does not declare")
    }
    for (target in users)
      if (target ~ /^tuner/ && 3 * users[target] > tuner - size[room_of(target)])
        fail(target, "is included by " users[target] " files of other rooms, more than a third of them")
    exit breaches > 0
  }'
