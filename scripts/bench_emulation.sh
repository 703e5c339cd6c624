#!/usr/bin/env bash
# How well `troupe bench --emulate` predicts two real workers, for every method.
# Wants an idle machine.
#   scripts/bench_emulation.sh [SAMPLES] [STEPS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# <= 2)) || die "got $# arguments, expected [SAMPLES] [STEPS]"
need_number SAMPLES "${1:-4}"
need_number STEPS "${2:-20}"
scripts/build.sh release troupe
exec python3 scripts/bench/emulation_table.py build/release/troupe "${1:-4}" "${2:-20}"
