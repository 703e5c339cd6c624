#!/usr/bin/env bash
# Every parallel method on equal modelled devices (40 ms a row, 1 Gbit/s, 50 µs), beside
# what its tasks allow at best. Times are emulated; nothing need be idle.
#   scripts/bench_emulated.sh [DEVICES] [SAMPLES] [STEPS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# <= 3)) || die "got $# arguments, expected [DEVICES] [SAMPLES] [STEPS]"
devices=${1:-8}
samples=${2:-16}
steps=${3:-50}
need_number DEVICES "$devices"
need_number SAMPLES "$samples"
need_number STEPS "$steps"
preset=${BENCH_PRESET:-release}
scripts/build.sh "$preset" troupe
exec "build/$preset/troupe" bench --model models/demo --class 8 --quiet --emulate "$devices" \
  --samples "$samples" --steps "$steps" --method batch,cfg,picard,pipeline,stale --segments 4
