#!/usr/bin/env bash
# A company under faults for a long time: workers are killed, frozen and asked to leave
# at random. Memory, descriptors and threads of the processes that live through it must
# not grow, and the pictures must be those of an undisturbed process. Clean-up is
# complete, also after Ctrl-C.
#   scripts/soak.sh [--minutes N] [--seed N] [--self-test]    (default: 1 minute)
# The seed is printed. --self-test: does it find processes that grow, and other pictures?
# SOAK_PRESET names a build (release).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
arguments=("$@")
while (($# > 0)); do
  case "$1" in
    --minutes | --seed) need_number "$1" "${2:-}" && shift ;;
    --self-test) ;;
    *) die "got '$1', expected --minutes N, --seed N or --self-test" ;;
  esac
  shift
done
preset=${SOAK_PRESET:-release}
scripts/build.sh "$preset" troupe
exec python3 -B scripts/soak/soak.py "build/$preset/troupe" "${arguments[@]}"
