#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [release|dev|asan|tsan|cuda|emulated] [targets…]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
# Lets clones of the repository share one compiler cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# And lets it keep what includes a precompiled header: the tests.
export CCACHE_SLOPPINESS=pch_defines,time_macros
preset=${1:-release}
shift || true
# Scripts that run side by side build one after the other: two builds of one
# folder break each other's log.
mkdir -p build
exec 9>"build/$preset.lock"
flock 9
cmake --preset "$preset" >"build-$preset.log" 2>&1 || {
  cat "build-$preset.log" >&2
  rm -f "build-$preset.log"
  die "cmake --preset $preset failed: see above"
}
rm -f "build-$preset.log"
ninja --quiet -C "build/$preset" -j "$(nproc)" "$@"
