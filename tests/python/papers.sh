#!/bin/sh
# papers.sh BUILD SOURCE -- bench/papers.py on the fake driver, with a stand-in for ncu; the notebook's commands are known ones.
set -eu
build=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset FAKE_CUDA_FAULT FAKE_CUDA_SOURCES FAKE_CUDA_EMULATE
export FATUNE_DB="$root/fatune.db" FATUNE_SYSTEM_DB= FATUNE_LIBCUDA="$build/tests/fake_cuda.so" FATUNE_PROGRAM="$build/fatune" FAKE_CUDA_DEVICES=T4 \
  FAKE_CUDA_TIMES='*=0.05' PYTHONDONTWRITEBYTECODE=1

fail() {
  echo "FAILED: $*"
  exit 1
}
"$build/probe" >/dev/null 2>&1 || {
  echo "skipped: there is no NVRTC to compile a kernel with"
  exit 77
}
# Two calls of a forward kernel and one of a backward; a tool's launch does not count.
mkdir "$root/bin"
cat >"$root/bin/ncu" <<'SH'
#!/bin/sh
echo '==PROF== Connected'
echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","fwd","dram__bytes.sum","Gbyte","9"'
echo '"1","fat_stamp","dram__bytes.sum","Gbyte","50"'
echo '"2","fwd","dram__bytes.sum","Mbyte","1,500"'
echo '"2","fwd","gpu__time_duration.sum","us","10"'
echo '"3","bwd","dram__bytes.sum","Gbyte","2"'
SH
chmod +x "$root/bin/ncu"
PATH="$root/bin:$PATH" python3 "$source/bench/papers.py" io --out "$root/out" --quiet >/dev/null
awk -F '\t' 'NR == 1 { next } { n++; if ($4 < 962 || $4 > 963 || $5 != "3.50" || $2 <= 0 || $6 < 1000) exit 1 } END { exit n != 4 }' \
  "$root/out/papers-io.tsv" || fail "$(cat "$root/out/papers-io.tsv")"

! python3 "$source/bench/papers.py" blocks --out "$root/out" >"$root/said" 2>&1 || fail "blocks of nothing"
grep -q 'tune it first\|no tuning database' "$root/said" || fail "$(cat "$root/said")"
mkdir "$root/dump"
FATUNE_DUMP="$root/dump" FAKE_CUDA_SOURCES="$root/dump" FAKE_CUDA_EMULATE=reference "$build/fatune" tune fwd-f16-b1-h2-q64-k64-d64 \
  --kernel fa1 --effort quick --jobs 2 --quiet >"$root/said" 2>&1 || fail "tune: $(cat "$root/said")"
python3 "$source/bench/papers.py" blocks --out "$root/out" >/dev/null
[ "$(wc -l <"$root/out/papers-blocks.tsv")" -ge 4 ] || fail "$(cat "$root/out/papers-blocks.tsv")"
python3 "$source/bench/papers.py" length --lengths 64:256 --alone --out "$root/out" --quiet >/dev/null
python3 - "$root/out" "$source/examples/t4.ipynb" "$build/fatune" <<'PY' || fail "what was written"
import json, re, subprocess, sys
import xml.etree.ElementTree as xml
out, notebook, program = sys.argv[1:]
rows = json.load(open(out + "/papers-length.json"))
assert len(rows) == 3 * 2 * 4 and all(r["peak_memory_usage(MB)"] > 0 for r in rows)
for name in ("papers-length.svg", "papers-blocks.svg"):
    assert len(list(xml.parse(f"{out}/{name}").getroot().iter())) > 10, name
cells = json.load(open(notebook))["cells"]
code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
assert len(code) >= 6
for text in code:
    compile("\n".join("pass" if line.startswith("!") else line for line in text.split("\n")), "cell", "exec")
    for line in re.findall(r"^!fatune (.*?)(?: && .*)?$", text, re.M):
        words = line.split()
        command = ["tune"] if words[0].startswith("-") else [words[0]]
        known = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout
        for option in (w.split("=")[0] for w in words if w.startswith("--")):
            assert option in known, (line, option)
PY
python3 - "$source/bench" <<'EOF'
import sys, types
sys.path.insert(0, sys.argv[1])
for name in ("fatune", "fatune.features", "torch"):  # the picture needs neither
    sys.modules[name] = types.ModuleType(name)
sys.modules["fatune"].features = sys.modules["fatune.features"]
sys.modules["torch"].bfloat16 = None
import papers_sparsity
rows = [(op, 4096, 64, x, x, 2.0, 2 * x + .1, x + .05, "" if op == "bwd" else 3 * x) for op in ("fwd", "bwd") for x in (1.0, .2)]
picture = papers_sparsity.picture(rows)
assert picture.count("<polyline") == 5, picture  # dense twice, ours twice, the other's forward
EOF
echo "papers: io, blocks and length are written; the notebook's commands are known"
