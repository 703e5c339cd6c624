#!/usr/bin/env bash
# The same as bench_picard.sh for `--method stale` with two segments: how far its
# pictures are from the sequential ones, by its defaults or by other settings.
#   scripts/bench_stale.sh [SEED[,SEED…]] [FLAGS of troupe bench…]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
scripts/build.sh release troupe
exec python3 scripts/bench/error_table.py build/release/troupe "${1:-3,7}" \
  --method stale --segments 2 "${@:2}"
