#!/usr/bin/env bash
# Everything that only a GPU can tell, in one run and one table: tests, memory
# and race checks, equal bytes, speed beside PyTorch.
#   scripts/gpu_check.sh                    builds, then checks the first GPU
#   scripts/gpu_check.sh --pack FILE        builds; writes programs, libraries
#                                           and diffusers to FILE, for a machine
#                                           without them
#   scripts/gpu_check.sh --unpack FILE      checks with those; needs only a GPU,
#                                           its driver, CUDA's libraries, Python
# DEVICE=cuda:1 chooses another GPU, BENCH_PYTHON a Python with torch and
# diffusers (left out otherwise), CHECK=tests,speed leaves out the rest (tests,
# sanitizers, ranks: shards and NCCL's ranks on one GPU, speed, peers: PyTorch
# beside it), SCALE=0.01 smaller cases, STEPS=10
# jobs of other than 50 steps (8 at least: Picard's window), LOGS=DIR keeps what
# every suite of tests said.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh

usage() {
  echo "usage: [DEVICE=cuda:0] [BENCH_PYTHON=python3] [CHECK=tests,sanitizers,ranks,speed,peers] [SCALE=1] [STEPS=50]" \
    "scripts/gpu_check.sh [--pack FILE | --unpack FILE]" >&2
  exit 2
}

pack() {
  local folder
  folder=$(mktemp -d)
  mkdir -p "$folder/lib"
  for program in troupe tests/cuda/test_cuda tests/probes/forward_probe \
    tests/probes/gpu_probe tests/probes/communicator_ranks; do
    cp "build/cuda/$program" "$folder/"
    strip "$folder/$(basename "$program")"
    # All but the loader and the C library, which belong to the system.
    ldd "build/cuda/$program" |
      awk '$3 ~ /^\// && $1 !~ /^(libc|libm|libdl|libpthread|librt)\.so/ {print $3}' |
      xargs -I{} cp -Ln {} "$folder/lib/"
  done
  # PyTorch is there, diffusers may not be: pure Python, beside its needs.
  if python3 -m pip download -q --no-deps --disable-pip-version-check \
    -d "$folder/wheel" "$(grep '^diffusers==' scripts/bench/requirements.txt)"; then
    python3 -m zipfile -e "$folder"/wheel/*.whl "$folder/python"
  else
    echo "gpu_check: left out of $1: diffusers" >&2
  fi
  rm -rf "$folder/wheel"
  tar -C "$folder" -cJf "$1" .
  rm -rf "$folder"
  du -h "$1"
}

export CHECK=${CHECK:-tests,sanitizers,ranks,speed,peers}
[[ ",$CHECK," =~ ^,((tests|sanitizers|ranks|speed|peers),)+$ ]] || usage

programs=build/cuda
case "${1:-}" in
  --unpack)
    [[ -f "${2:-}" ]] || die "--unpack: no such file: '${2:-}'"
    programs=$(mktemp -d)
    trap 'rm -rf "$programs"' EXIT
    tar -C "$programs" -xJf "$2"
    ;;
  --pack | "")
    [[ "${1:-}" != --pack || -n "${2:-}" ]] || usage
    scripts/setup.sh
    scripts/build.sh cuda troupe test_cuda forward_probe gpu_probe communicator_ranks
    if [[ "${1:-}" == --pack ]]; then
      pack "$2"
      exit 0
    fi
    ;;
  *)
    usage
    ;;
esac

python3 scripts/bench/gpu_table.py "$programs"
