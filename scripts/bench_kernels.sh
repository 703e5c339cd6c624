#!/usr/bin/env bash
# Builds and runs the kernel benchmark. Nothing else should be running: a
# background process takes a whole core.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# == 0)) || die "takes no arguments: got $*"
scripts/build.sh release bench_kernels
exec build/release/kernels/bench_kernels
