#!/usr/bin/env bash
# How far an approximate method's pictures are from the sequential ones: rounds, network
# calls and errors over 16 classes of the demo model and two seeds, 20 and 50 steps, in
# f32 and in the processor's own dtype. The numbers depend neither on the machine's speed
# nor on its load.
#   scripts/bench_error.sh --method NAME [--window N] [FLAGS of troupe bench…]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# > 0)) || die "got no arguments, expected --method NAME and other flags of troupe bench"
preset=${BENCH_PRESET:-release}
scripts/build.sh "$preset" troupe
exec python3 scripts/bench/error_table.py "build/$preset/troupe" "$@"
