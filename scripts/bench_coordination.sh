#!/usr/bin/env bash
# Microseconds of coordination per task, with a network that costs nothing: the
# coordinator's policy alone, then a whole company.
#   scripts/bench_coordination.sh [workers] [tasks]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# <= 2)) || die "got $# arguments, expected [workers] [tasks]"
need_number workers "${1:-64}"
need_number tasks "${2:-100000}"
scripts/build.sh release bench_coordination bench_policy
build/release/tests/actors/bench_policy "${2:-100000}"
exec build/release/tests/actors/bench_coordination "${1:-64}" "${2:-100000}"
