#!/usr/bin/env bash
# Compares whole runs, from prompts to pictures, with the pipelines of diffusers: tiny
# ones with random weights, drawn again each time. Prints the worst error of each kind.
#   scripts/parity_pipelines.sh              what Troupe has
#   scripts/parity_pipelines.sh --seed 7     the same draw again
#   scripts/parity_pipelines.sh --golden tests/golden
#                                            writes what tests compare with; with
#                                            --only NAME that of one pipeline
#   scripts/parity_pipelines.sh --golden-options tests/golden
#                                            what diffusers draws with more options
# It uses the venv of bench_forward.sh (bench/requirements.txt) or BENCH_PYTHON;
# PARITY_PRESET names a build (release).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
source scripts/bench_python.sh
export PARITY_PRESET=${PARITY_PRESET:-release}
scripts/build.sh "$PARITY_PRESET" troupe
# Nothing is to be fetched: all that is loaded lies in a folder.
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
"$python" scripts/parity/pipelines.py "$@" || {
  code=$?
  echo "parity_pipelines: not within the bounds: see above" >&2
  exit "$code"
}
