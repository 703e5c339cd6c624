#!/usr/bin/env bash
# One guided forward pass, Troupe against PyTorch on the same threads, taken in
# turns within one run; prints medians and ratios.
#   scripts/bench_forward.sh MODEL DTYPE [ROUNDS]
#   scripts/bench_forward.sh dit-xl-2-256 bf16
#   scripts/bench_forward.sh models/demo f32
# Needs a Python with torch 2.x and diffusers: BENCH_PYTHON, or a venv that is
# made once from PyPI (bench/requirements.txt, some gigabytes).
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-dit-xl-2-256} dtype=${2:-bf16} rounds=${3:-3}
threads=${BENCH_THREADS:-2}
python=${BENCH_PYTHON:-}
if [[ -z "$python" ]]; then
  venv=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/bench-venv
  python=$venv/bin/python
  if ! cmp -s scripts/bench/requirements.txt "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
      -r scripts/bench/requirements.txt
    cp scripts/bench/requirements.txt "$venv/"
  fi
fi
scripts/build.sh release forward_probe
if [[ -d "$model" ]]; then peer=(--folder "$model"); else peer=(--model "$model"); fi
ours=() theirs=()
for ((round = 0; round < rounds; ++round)); do
  ours+=("$(build/release/tests/probes/forward_probe "$model" "$dtype" "$threads" 5)")
  theirs+=("$("$python" scripts/bench/pytorch_forward.py "${peer[@]}" \
    --dtype "$dtype" --threads "$threads" 2>/dev/null | tail -n 1)")
done
printf '%s\n' "${ours[@]}" "${theirs[@]}" | python3 scripts/bench/forward_table.py "$model" "$dtype"
