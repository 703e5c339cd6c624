#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [release|dev|asan|tsan|cuda] [targets…]
set -euo pipefail
cd "$(dirname "$0")/.."
# Lets clones of the repository share one compiler cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
preset=${1:-release}
shift || true
cmake --preset "$preset" >"build-$preset.log" 2>&1 || {
  cat "build-$preset.log" >&2
  rm -f "build-$preset.log"
  exit 2
}
rm -f "build-$preset.log"
ninja --quiet -C "build/$preset" -j "$(nproc)" "$@"
