#!/usr/bin/env bash
# From a bare Debian 12 machine to pictures: installs, builds, samples the
# bundled model with a company of two workers. Flags of `troupe sample` count
# more than what stands here: scripts/demo.sh --samples 4
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
scripts/setup.sh
scripts/build.sh release troupe
# The environment is weaker than the flags.
export TROUPE_MODEL="${TROUPE_MODEL-models/demo}"
export TROUPE_SAMPLES="${TROUPE_SAMPLES-16}" TROUPE_SEED="${TROUPE_SEED-2024}"
export TROUPE_WORKERS="${TROUPE_WORKERS-2}" TROUPE_THREADS="${TROUPE_THREADS-1}"
export TROUPE_OUT="${TROUPE_OUT-demo}" TROUPE_GRID="${TROUPE_GRID-demo.png}"
export TROUPE_EXISTS="${TROUPE_EXISTS-replace}"
exec build/release/troupe sample "$@"
