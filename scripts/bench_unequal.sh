#!/usr/bin/env bash
# How much of the summed speed of two unequal workers one sample by Picard uses, one and
# several by cfg, and several by batch. The workers sleep instead of computing.
#   scripts/bench_unequal.sh [milliseconds of a row on the fast worker] [runs]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# <= 2)) || die "got $# arguments, expected [milliseconds] [runs]"
need_number milliseconds "${1:-10}"
need_number runs "${2:-5}"
scripts/build.sh release bench_unequal
exec build/release/tests/actors/bench_unequal "${1:-10}" "${2:-5}"
