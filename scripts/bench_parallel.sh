#!/usr/bin/env bash
# Two workers with one thread each against one worker with one thread and one
# with two: every parallel method, and Picard's tolerances. Nothing else should
# be running.
#   scripts/bench_parallel.sh [MODEL_DIR|BUNDLED_NAME] [STEPS] [REPEATS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# <= 3)) || die "got $# arguments, expected [MODEL_DIR|BUNDLED_NAME] [STEPS] [REPEATS]"
need_number STEPS "${2:-50}"
need_number REPEATS "${3:-5}"
scripts/build.sh release troupe
exec python3 scripts/bench/parallel_table.py build/release/troupe \
  "${1:-models/demo}" "${2:-50}" "${3:-5}"
