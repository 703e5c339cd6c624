#!/usr/bin/env bash
# Runs the company's policies in virtual time under kills, freezes and slow workers, and
# compares every sample with a plain loop. Stops at the first error, with its seed.
# usage: scripts/simulate.sh [--links] [SCHEDULES] [FIRST_SEED] [LEAST]
#   (default: 5000, from 0)
# --links: processes communicate over simulated links, and links have faults, too.
# LEAST: fails where a kind of fault was met less often than that, in all of them
# together.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
links=()
if [[ "${1:-}" == --links ]]; then
  links=(--links)
  shift
fi
schedules=${1:-5000}
first=${2:-0}
least=${3:-0}
need_number SCHEDULES "$schedules"
[[ "$first" =~ ^[0-9]+$ ]] || die "FIRST_SEED: got '$first', expected a whole number"
[[ "$least" =~ ^[0-9]+$ ]] || die "LEAST: got '$least', expected a whole number"
preset=${SIMULATE_PRESET:-release}
scripts/build.sh "$preset" simulate_schedules
exec "build/$preset/tests/simulator/simulate_schedules" "${links[@]}" \
  "$schedules" "$first" "$least"
