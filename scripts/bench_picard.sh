#!/usr/bin/env bash
# What `troupe bench --method picard` gives over eight classes of the demo model and 20,
# 50 and 100 steps, in f32 and in the processor's own dtype: network calls, rounds, error.
# The numbers depend neither on the machine's speed nor on its load. Further words go to
# `troupe bench` (other settings, --dtype,
# another sampler).
#   scripts/bench_picard.sh [SEED[,SEED…]] [FLAGS of troupe bench…]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
scripts/build.sh release troupe
exec python3 scripts/bench/error_table.py build/release/troupe "${1:-3,7}" \
  --method picard "${@:2}"
