#!/usr/bin/env bash
# bench.sh FATUNE FAKE_CUDA -- `fatune bench` on the fake driver: the course's keys, a sweep, its chart, PyTorch's rows by a
# python3 that stands in for one with PyTorch. Kernels are compiled by the real NVRTC; their times are the script's.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

fake=$(realpath "${2:?the second argument is fake_cuda.so}")
python=$(command -v python3) && has_nvrtc || {
  echo "skipped: there is no usable libnvrtc or no python3"
  exit 77
}
refuses 3 'no GPU is at hand' bench
err_has '; a bench needs the GPU itself' 'bench without a GPU'
export FATUNE_LIBCUDA=$fake FAKE_CUDA_DEVICES=T4 FAKE_CUDA_TIMES='*=0.05'
unset CUDA_VISIBLE_DEVICES FAKE_CUDA_FAULT FAKE_CUDA_EMULATE
common=(--batch-size 1 --num-heads 2 --emb-dim 128)

refuses 2 'is no multiple of --num-heads' bench --num-heads 3 --emb-dim 128
refuses 2 'multiples of 8' bench --num-heads 2 --emb-dim 1024
refuses 2 'flash3' bench --impl flash3
refuses 2 'bf16' bench --dtypes bf16
refuses 3 'H100' bench --gpu H100

# One setting: the course's object, key by key, with figures that fit each other.
run bench "${common[@]}" --seq-len 64 --impl flash1 --causal -o "$work/benchmark_result.json"
code_is 0 'one setting'
out_has flash1
[ ! -e "$work/benchmark_result.svg" ] && pass || fail 'a chart of one point'
"$python" - "$work/benchmark_result.json" >"$work/said" 2>&1 <<'PY' && pass || fail "the course's keys: $(<"$work/said")"
import json, sys
course = {"forward": {"time(s)": 0.007095515976349513, "FLOPS(TFLOPs/s)": 38.739664297876566},
        "backward": {"time(s)": 0.018877355754375456, "FLOPS(TFLOPs/s)": 36.40312638599925},
        "forward_backward": {"time(s)": 0.025972871730724968, "FLOPS(TFLOPs/s)": 37.04144402199095},
        "peak_memory_usage(MB)": 1288.00048828125}
ours = json.load(open(sys.argv[1]))
def keys(x): return {k: keys(v) for k, v in x.items()} if isinstance(x, dict) else type(x)
assert keys(ours) == keys(course), keys(ours)
assert list(ours) == list(course)
part = lambda of, name: of[name]["time(s)"] * of[name]["FLOPS(TFLOPs/s)"] * 1e12
for of in (ours, course):  # operations: the same for one setting, 2.5 and 3.5 times the forward's
    assert abs(part(of, "backward") / part(of, "forward") - 2.5) < 1e-6
    assert abs(part(of, "forward_backward") / part(of, "forward") - 3.5) < 1e-6
    assert abs(of["forward"]["time(s)"] + of["backward"]["time(s)"] - of["forward_backward"]["time(s)"]) < 1e-12
assert abs(part(ours, "forward") - 4 * 64 * 64 * 128 / 2) < 1, part(ours, "forward")
least = 8 * 64 * 128 * 2 / 2**20  # Q K V O and their gradients
assert least <= ours["peak_memory_usage(MB)"] < 4 * least, ours["peak_memory_usage(MB)"]
PY

touch "$work/taken.png"
refuses 2 'taken.png is there already' bench "${common[@]}" --seq-len 64:256 --impl flash1 -o "$work/taken.json"

# A sweep: every combination once, the list's keys, a chart that shows each.
mkdir "$work/bin"
cat >"$work/bin/python3" <<'SH'
#!/bin/sh
case $2 in *scaled_dot_product_attention*) ;; *) exit 1 ;; esac
[ "$5" != 256 ] || { echo "torch.OutOfMemoryError: none left" >&2; exit 1; }
echo "warning" >&2
echo "0.001 0.002 12.5"
SH
chmod +x "$work/bin/python3"
PATH=$work/bin:$PATH run bench "${common[@]}" --seq-len 64:256 --impl standard,flash1,flash2,best,pytorch --causal=no,yes -o "$work/sweep.json"
code_is 1 'a sweep with a row that has no numbers'
err_has 'fatune: 30 of 30: pytorch' 'progress'
err_has 'torch.OutOfMemoryError: none left' 'why a row has no numbers'
[ "$(grep -c 'none left' "$work/err")" = 1 ] && pass || fail 'said once'
"$python" - "$work/sweep.json" "$work/sweep.svg" "$work/sweep.png" >"$work/said" 2>&1 <<'PY' && pass || fail "the sweep: $(<"$work/said")"
import itertools, json, os, re, struct, sys, zlib
import xml.etree.ElementTree as xml
rows = json.load(open(sys.argv[1]))
key = lambda r: (r["impl"], r["causal"], r["seq_len"])
impls = ("standard", "flash1", "flash2", "best", "pytorch")
assert sorted(map(key, rows)) == sorted(itertools.product(impls, (False, True), (64, 128, 256)))
for r in rows:
    assert [r["batch_size"], r["num_heads"], r["emb_dim"]] == [1, 2, 128]
    if r["impl"] == "pytorch" and r["seq_len"] == 256:
        assert "none left" in r["failed"] and "forward" not in r
        continue
    assert r["forward"]["time(s)"] > 0 and r["peak_memory_usage(MB)"] > 0
    if r["impl"] == "pytorch":
        assert (r["forward"]["time(s)"], r["backward"]["time(s)"], r["peak_memory_usage(MB)"]) == (0.001, 0.002, 12.5)
    else:
        kernel = {"standard": "standard", "flash1": "fa1", "flash2": "fwd", "best": "fwd"}[r["impl"]]
        assert r["forward_config"].startswith(kernel + ":"), r
memory = {key(r): r.get("peak_memory_usage(MB)") for r in rows}
assert memory["standard", False, 256] > memory["flash1", False, 256], "S and P are somewhere"

name = "{http://www.w3.org/2000/svg}"
svg = xml.parse(sys.argv[2]).getroot()
wide, high = float(svg.get("width")), float(svg.get("height"))
panels = svg.findall(name + "g")
assert len(panels) == 3
for place, panel in enumerate(panels):
    assert panel.get("transform") == f"translate({place * wide / 3:.0f} 0)"
    lines, marks = panel.findall(name + "polyline"), panel.findall(name + "circle")
    assert len(lines) == 10 and len(marks) == 28, (len(lines), len(marks))
    for line in lines:
        points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
        assert len(points) in (2, 3) and points == sorted(points)
        assert all(0 < x < wide / 3 and 0 < y < high for x, y in points), points
    words = [t.text for t in panel.findall(name + "text")]
    assert {"64", "128", "256", "seq_len", "0"} <= set(words), words
legend = {t.text for t in svg.findall(name + "text")}
assert {f"{i}, {m}" for i in impls for m in ("full", "causal")} <= legend, legend
if os.path.exists(sys.argv[3]):  # the picture itself: has it the colours of its lines?
    raw = open(sys.argv[3], "rb").read()
    size, at, data = struct.unpack(">II", raw[16:24]), 8, b""
    while at < len(raw):
        n, kind = struct.unpack(">I4s", raw[at:at + 8])
        data += raw[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    pixels = zlib.decompress(data)
    assert size == (int(wide), int(high)) and len(pixels) > size[0] * size[1]
    assert len(set(pixels)) > 50, "an empty picture"
PY
run bench "${common[@]}" --seq-len 64 --batch-size 1,2 --json --quiet
code_is 0 'a list as JSON'
out_has '"batch_size": 2'
[ -z "$err" ] && pass || fail 'quiet'

# Ctrl-C in a sweep: what is measured by then is written and printed, and so is what runs.
printf '#!/bin/sh\nkill -INT "$PPID"\nsleep 0.2\necho "0.001 0.002 12.5"\n' >"$work/bin/python3"
PATH=$work/bin:$PATH run bench "${common[@]}" --seq-len 64,128 --impl flash1,pytorch -o "$work/stopped.json"
code_is 130 'an interrupted sweep'
out_has flash1
err_has 'flash1 at seq_len 128: not measured: the bench was interrupted'
"$python" -c 'import json, sys; print(*("forward" in r for r in json.load(open(sys.argv[1]))))' "$work/stopped.json" >"$work/said" 2>&1
[ "$(<"$work/said")" = 'True True False False' ] && pass || fail "rows of an interrupted sweep: $(<"$work/said")"
# A second one ends it at once, also where NVRTC, which sets handlers of its own meanwhile, has compiled first. Two that
# come before the first is seen are one: so there are more.
printf '#!/bin/sh\nfor n in $(seq 50); do kill -INT "$PPID" || exit; sleep 0.1; done\necho "0.001 0.002 12.5"\n' >"$work/bin/python3"
NVRTC_MEMORY='' PATH=$work/bin:$PATH run bench "${common[@]}" --seq-len 64,128 --impl flash1,pytorch
code_is 130 'a sweep interrupted twice'
[ -z "$out" ] && pass || fail "a sweep interrupted twice printed $out"

# What is stored serves; what cannot be written is said.
run tune fwd-f16-b1-h2-q64-k64-d64 --kernel fa1 --effort quick --jobs 2 --db "$work/db" --quiet
won=$("$fatune" show best --json --db "$work/db" | sed -n 's/.*"config": *"\([^"]*\)".*/\1/p' | head -1)
run bench "${common[@]}" --seq-len 64 --impl flash1,flash2 --json --db "$work/db"
[ -n "$won" ] && out_has "\"forward_config\": \"$won\"" 'the stored config'
run bench "${common[@]}" --seq-len 64 -o "$work/none/x.json"
code_is 3 'no folder'
err_has 'x.json cannot be written'
[[ $err == *'1 of 1'* ]] && fail 'a missing folder is found after the bench' || pass
cp "$work/db" "$work/kept"
refuses 2 'is the database itself' bench "${common[@]}" --seq-len 64 -o "$work/db" --db "$work/db" --force
cmp -s "$work/db" "$work/kept" && pass || fail 'bench -o wrote over the database'
refuses 2 'benchmark_result.json is there already: --force' bench "${common[@]}" --seq-len 64 -o "$work/benchmark_result.json"
refuses 2 'sweep.svg is there already: --force' bench "${common[@]}" --seq-len 64,128 -o "$work/sweep.bench"
refuses 2 'name FILE.json' bench "${common[@]}" --seq-len 64,128 -o "$work/lines.svg"
run bench "${common[@]}" --seq-len 64 -o "$work/benchmark_result.json" --force --quiet
code_is 0 'bench -o --force'
run bench "${common[@]}" --seq-len 64 -o - --quiet
out_has '"forward"' 'bench -o -'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
