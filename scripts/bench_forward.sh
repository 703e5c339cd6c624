#!/usr/bin/env bash
# One guided forward pass, Troupe against PyTorch on the same threads, taken in
# turns within one run; prints medians and ratios.
#   scripts/bench_forward.sh MODEL DTYPE [ROUNDS]
#   scripts/bench_forward.sh dit-xl-2-256 bf16     any bundled model
#   scripts/bench_forward.sh models/demo f32       a checkpoint folder
#   scripts/bench_forward.sh sdxl@64 bf16                 latents of another side
# DTYPE is f32 or bf16; BENCH_THREADS sets the threads (2). Needs a Python with
# torch 2.x and diffusers: BENCH_PYTHON, or a venv that is made once from PyPI
# (bench/requirements.txt, some gigabytes). FORWARD_PROBE names a forward_probe
# that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# <= 3)) || die "got $# arguments, expected MODEL DTYPE [ROUNDS]"
model=${1:-dit-xl-2-256} dtype=${2:-bf16} rounds=${3:-3}
threads=${BENCH_THREADS:-2}
[[ "$dtype" == f32 || "$dtype" == bf16 ]] || die "DTYPE: got '$dtype', expected f32 or bf16"
need_number ROUNDS "$rounds"
need_number BENCH_THREADS "$threads"

probe=${FORWARD_PROBE:-build/release/tests/probes/forward_probe}
[[ -n "${FORWARD_PROBE:-}" ]] || scripts/build.sh release forward_probe
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
name=${model%@*}
if [[ -d "$name" ]]; then
  peer=(--folder "$name")
else
  "$probe" config "$name" >"$scratch/config.json" || exit # it has said why
  peer=(--config "$scratch/config.json")
fi
if [[ "$model" == *@* ]]; then
  need_number SIDE "${model##*@}"
  peer+=(--side "${model##*@}")
fi

source scripts/bench_python.sh

for ((round = 0; round < rounds; ++round)); do
  "$probe" "$model" "$dtype" "$threads" 5 >>"$scratch/lines"
  # torch.compile warns a lot: shown only when it matters.
  "$python" scripts/bench/pytorch_forward.py "${peer[@]}" --dtype "$dtype" \
    --threads "$threads" >"$scratch/theirs" 2>"$scratch/errors" || {
    code=$?
    tail -n 20 "$scratch/errors" >&2
    echo "bench_forward: PyTorch's half ($python) ended with exit code $code" >&2
    exit "$code"
  }
  tail -n 1 "$scratch/theirs" >>"$scratch/lines"
done
python3 scripts/bench/forward_table.py "$model" "$dtype" <"$scratch/lines"
